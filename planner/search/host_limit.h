/* A limit of the host's memory, beside the search.
 *
 * The exact search carries one budget, that of a device's memory. So it is asked first as if hosts had no limit; what
 * it proves then is a bound of all plans, those within the limit among them. Where its plan takes more of the host's
 * memory than there is, it is asked again with less to be offloaded, one way after the other left out: activations
 * beside weights, beside the optimizer, alone; weights; all of the optimizer; half of it. These spaces lie one in the
 * other, so the first plan that is within the limit is returned, with the bound of the whole space: the gap says what
 * may have been lost to the rule.
 *
 * Where there is storage (request->storage_bytes, else the cluster's), moments of what is offloaded may be there
 * instead: before ways are left out it is asked again with half of them on storage, and with all; of the plans within
 * both limits, that of the ladder among them, the fastest is returned. A plan takes no less time for that, so the bound
 * stays one. */
#ifndef GAL_PLANNER_SEARCH_HOST_LIMIT_H
#define GAL_PLANNER_SEARCH_HOST_LIMIT_H

#include "planner/search/joint_search.h"

/* As gal_search, whose finalists it are; those beyond the limit are left out. Without offload in the space, or without
 * a limit (request->host_memory_bytes, else the cluster's), it is gal_search. */
gal_code gal_host_limited_search(const gal_search_request *request, gal_search_result *out, gal_error *err);

/* Of the stage that has most there. */
uint64_t gal_plan_host_bytes(const gal_plan *plan);
uint64_t gal_plan_storage_bytes(const gal_plan *plan);

#endif
