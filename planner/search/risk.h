/* Plans at a quantile of what their seconds may be, and the chance that a device runs out of memory.
 *
 * Seconds: the search runs by durations at the quantile (gal_durations_set_quantile), and so minimises it. Bytes: those
 * of a program's arena are exact. What lies beside it (fixed bytes: context, libraries, communicators) was measured
 * once, and its logarithm is taken to stray as a measured duration's (GAL_INTERVAL_MEASURED); data sheets name none. */
#ifndef GAL_PLANNER_SEARCH_RISK_H
#define GAL_PLANNER_SEARCH_RISK_H

#include "planner/search/joint_search.h"

/* The bytes that an arena and the fixed bytes as predicted may take together for the chance that they do not fit into
 * the limit to be at most 1 - quantile. 0: not even the fixed bytes alone. */
uint64_t gal_risk_memory_bytes(uint64_t limit_bytes, uint64_t fixed_bytes, double quantile);

/* The chance that they do not fit. */
double gal_risk_memory_chance(uint64_t limit_bytes, uint64_t arena_bytes, uint64_t fixed_bytes);

/* Of the fullest stage of a plan, of its predicted bytes. */
double gal_risk_plan_chance(const gal_plan *plan, uint64_t limit_bytes);

/* Notes in every finalist's plan the risk that it was searched for at. median: the request by durations as predicted.
 * The plan's simulated seconds become those; the finalist's stay those of the quantile. As gal_finalist_predict. */
gal_code gal_risk_note(const gal_search_request *median, double quantile, uint64_t limit_bytes,
                       gal_search_result *result, gal_error *err);

/* What the plan says of its risk is so: the chance is that of its bytes (of its pricing's, where it has one), and what
 * its certificate calls the limit leaves what the quantile keeps free. GAL_NO with what is claimed and derived. */
gal_code gal_risk_check(const gal_plan *plan, gal_error *err);

#endif
