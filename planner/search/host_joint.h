/* Strategies and what of each block is on storage chosen together, of one batch, within limits of the host's memory and
 * of storage.
 *
 * Where there is storage the strategies of the space stand once more with half and all of what a block keeps on the
 * host, and of its weights if the limits let them, on storage: read in every microbatch, they are a part of a
 * strategy's seconds as what is on the host is. Which moments are there changes the update alone, and is a share of any
 * strategy. Masters of 16 bits, where the limits let them, are a part of that share: the bound is of plans with masters
 * on storage in any blocks. (storage_fit.h chooses for all blocks alike, labels for each.)
 *
 * A byte of the host's memory is charged L seconds (costmodel/price_charged.c): what a search under such prices proves,
 * less L times the limit, bounds all plans within it, and its plans, with the share on storage of each block that then
 * is best for them (storage_fit.h), are tried. L is raised where the search's plan takes more than the limit and
 * lowered where it takes less, first to where the lines of one of each cross (G. Y. Handler, I. Zang, "A dual algorithm
 * for the constrained shortest path problem", 1980, section 2), until the plan is within the gap of the bound or L is
 * known.
 *
 * Parts on their way from storage have a ring in the host's memory, as large as the largest of them: no sum over blocks
 * knows it. So what is left open of plans of one stage is looked at in boxes, with parts below some size or with one at
 * least as large, whose ring then is off the limit: of the box that bounds all of them the search's plan says where to
 * cut it (branch and bound, the box of the least bound first). Of several stages any one may have the ring, and plans
 * with nothing on storage are looked for once more by themselves.
 *
 * What then is left is closed by labels, cell by cell (host_chains.h), where they suffice; if not the bound says so.
 *
 * Boxes and labels count a ring at its most (gal_stage_host_bytes). A program whose parts are few or unlike takes less,
 * so what they show is of plans that are within the limit with such a ring; what a charge shows, which the certificate
 * has, is of all plans. */
#ifndef GAL_PLANNER_SEARCH_HOST_JOINT_H
#define GAL_PLANNER_SEARCH_HOST_JOINT_H

#include "planner/cell/search_request.h"
#include "planner/search/storage_fit.h"

/* The request's space with activations on storage, and weights, as far as the limits let them; each is left out where
 * that would be more than 262,144 strategies, moments first, if the request has those. */
gal_space gal_host_stored_space(const gal_search_request *request, const gal_host_limits *limits);

/* request: of one batch, with a cache; a schedule whose plans are not uniform. whole: what gal_search gives for it,
 * beyond the limits. known: a plan of the batch within the limits, NULL: none; what is found is no slower, itself at
 * worst. *best: zeroed; feasible false: none was found. GAL_ERR_SYSTEM without memory, else as gal_search. */
gal_code gal_host_joint(const gal_search_request *request, const gal_host_limits *limits,
                        const gal_search_result *whole, const gal_finalist *known, gal_search_result *best,
                        gal_error *err);

#endif
