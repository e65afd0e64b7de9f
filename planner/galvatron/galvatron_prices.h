/* The search under the price provider `galvatron`, for plans that galrun runs.
 *
 * Seconds and bytes are those of Hetu-Galvatron's published formulas on a profile of its own (costmodel/galvatron.h);
 * the space is its own without Ulysses, samples divide, the whole limit counts (planner/galvatron/galvatron_search.h),
 * replicas keep their states or shard gradients and moments, whichever is faster. The plan is then checked, priced,
 * sized and simulated as any other. */
#ifndef GAL_PLANNER_GALVATRON_GALVATRON_PRICES_H
#define GAL_PLANNER_GALVATRON_GALVATRON_PRICES_H

#include "planner/search/named.h"
#include "schemas/galvatron_profile.h"

/* Of the request: model, durations (of the cluster; for galrun's own numbers), memory, batches, microbatch counts and
 * schedule. *out as of a named algorithm: feasible, or misfit where the plan fits by its own count of bytes alone, or
 * search.least_bytes by its own count. left_out: a strategy that the profile has no row for, "" if there is none.
 * GAL_ERR_USAGE for a schedule that it does not know; GAL_ERR_DOCUMENT where profile and model do not go together, or
 * the plan breaks a rule of ours; GAL_ERR_SYSTEM. */
gal_code gal_search_by_galvatron(const gal_search_request *request, const gal_galvatron_profile *profile,
                                 gal_algorithm_answer *out, char left_out[GAL_ERROR_TEXT_BYTES], gal_error *err);

#endif
