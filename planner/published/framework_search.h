/* The search by the prices of a described framework (costmodel/framework.h).
 *
 * They are of layouts: one strategy for all blocks, layers dealt evenly. So every layout of the space, the cells and
 * the limit is priced, and the fastest per sample that galrun could carry out too is returned; of equals the first. Its
 * plan says whose prices it is by (gal_pricing), and what galrun's own programs of it take. */
#ifndef GAL_PLANNER_PUBLISHED_FRAMEWORK_SEARCH_H
#define GAL_PLANNER_PUBLISHED_FRAMEWORK_SEARCH_H

#include "costmodel/framework.h"
#include "planner/search/named.h"

/* pricing   framework and constants (row_count 0: none fitted)
 * quantile  of seconds that is minimised, and with which bytes fit, by the framework's interval; 0.5: as predicted
 * refusal   why a faster layout that fits was left out: galrun has no such plan; "" if none was
 * Finalists: the winner alone, objective by the framework, simulated as galrun's. GAL_OK also when nothing fits.
 * GAL_ERR_USAGE if the request asks for what layouts cannot say (zero bubble, axes beyond dp, sdp and tp, takeaways);
 * else as gal_search. */
gal_code gal_search_by_framework(const gal_search_request *request, const gal_pricing *pricing, double quantile,
                                 gal_algorithm_answer *out, char refusal[GAL_ERROR_TEXT_BYTES], gal_error *err);

/* What a plan with a pricing claims: its objective and bytes are by the framework, which fit, and no layout on its
 * certificate's lists is faster. GAL_NO with what is claimed and derived. */
gal_code gal_framework_check_plan(const gal_plan *plan, gal_error *err);
gal_code gal_framework_check_bound(const gal_plan *plan, gal_error *err);

#endif
