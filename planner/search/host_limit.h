/* A limit of the host's memory, beside the search.
 *
 * The exact search carries one budget, that of a device's memory. So it is asked first as if hosts had no limit; what
 * it proves then is a bound of all plans, those within the limit among them. Where its plan takes more of the host's
 * memory than there is, strategies are chosen again under a charge for that, and with them, where there is storage
 * (request->storage_bytes, else the cluster's), what of each block is there (host_joint.h): what is returned is the
 * fastest plan within all limits, or as near to it as its bound says. What is found without storage is known to the
 * search with it, whose plan is never slower. Where none is found so, parts of the space are
 * searched, with less to be offloaded, until the first plan within the limits.
 *
 * Uniform plans (planner/cell/uniform.h), which have no such bound, are all tried, with what of them may be on storage
 * as a part of their strategy; the fastest within the limits is returned, with the bound of the whole space: the gap
 * says what may have been lost. */
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
