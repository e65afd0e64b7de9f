/* Strategies and shares on storage chosen together, of one batch, within limits of the host's memory and of storage.
 *
 * Masters of 16 bits, where the limits let them, are a part of each block's share: the bound is of plans with masters
 * on storage in any blocks. (storage_fit.h chooses for all blocks alike, labels for each.)
 *
 * A byte of the host's memory is charged L seconds (costmodel/price_charged.c): what a search under such prices proves,
 * less L times the limit, bounds all plans within it, and its plans, with the share on storage of each block that then
 * is best for them (storage_fit.h), are tried. L is raised where the search's plan takes more than the limit and
 * lowered where it takes less, first to where the lines of one of each cross (G. Y. Handler, I. Zang, "A dual algorithm
 * for the constrained shortest path problem", 1980, section 2), until the plan is within the gap of the bound or L is
 * known. What is left is closed by labels, cell by cell (host_chains.h), where they suffice; if not the bound says so.
 */
#ifndef GAL_PLANNER_SEARCH_HOST_JOINT_H
#define GAL_PLANNER_SEARCH_HOST_JOINT_H

#include "planner/cell/search_request.h"
#include "planner/search/storage_fit.h"

/* request: of one batch, with a cache; a schedule whose plans are not uniform. whole: what gal_search gives for it,
 * beyond the limits. *best: zeroed; feasible false: none was found. GAL_ERR_SYSTEM without memory, else as gal_search.
 */
gal_code gal_host_joint(const gal_search_request *request, const gal_host_limits *limits,
                        const gal_search_result *whole, gal_search_result *best, gal_error *err);

#endif
