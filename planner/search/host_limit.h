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
 * instead. Of a plan that takes too much of the host's memory each block's share is then chosen (storage_fit.h): of
 * that of the search without limits, of those of searches with half of them on storage and with all, whose prices have
 * what that costs (and which offload less for it: they are asked without storage, too), and of each of the ladder. The
 * fastest within all limits is returned; a plan may be missed. A plan takes no less time for storage, so the bound
 * stays one, and the first within the allowed gap of it ends the search. */
#ifndef GAL_PLANNER_SEARCH_HOST_LIMIT_H
#define GAL_PLANNER_SEARCH_HOST_LIMIT_H

#include "planner/search/joint_search.h"

/* As gal_search, whose finalists it are; those beyond the limit are left out. Without offload in the space, or without
 * a limit (request->host_memory_bytes, else the cluster's), it is gal_search. */
gal_code gal_host_limited_search(const gal_search_request *request, gal_search_result *out, gal_error *err);

/* Of one plan, whose bytes are predicted: whether it is within the limits of host and storage. */
bool gal_host_limit_allows(const gal_search_request *request, const gal_plan *plan);

/* The bound and certificate of the space of `request`, of the batch of the plan that was found in a part of it, for
 * that plan. whole: what gal_search gave for the request; searched anew where its first plan is of another batch. */
gal_code gal_search_take_bound(const gal_search_request *request, gal_search_result *whole, gal_search_result *found,
                               gal_error *err);

/* Of the stage that has most there. */
uint64_t gal_plan_host_bytes(const gal_plan *plan);
uint64_t gal_plan_storage_bytes(const gal_plan *plan);

#endif
