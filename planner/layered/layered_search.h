/* The search on layers: kinds, prices, hulls, stages, and the simulator last.
 *
 * Every node (node.h) has a bound: at first its fastest kinds whatever their bytes, then hulls and partition with the
 * floors of its kinds. The node with the least bound per sample gets its next one first; with the second it is solved,
 * by prices, and its plan is lowered and simulated whole. A node whose bound is no less than the seconds of the fastest
 * simulated plan is left. The answer is the plan that simulates fastest. */
#ifndef GAL_PLANNER_LAYERED_LAYERED_SEARCH_H
#define GAL_PLANNER_LAYERED_LAYERED_SEARCH_H

#include "planner/cell/search_request.h"

/* As gal_search (planner/search/joint_search.h), finalists by simulated seconds per sample. GAL_ERR_USAGE for a request
 * that this search does not take yet: see planner/README.md. */
gal_code gal_layered_search(const gal_search_request *request, gal_search_result *out, gal_error *err);

#endif
