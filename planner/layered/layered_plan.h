/* From the solution of a node to a plan, and what the simulator says of it. */
#ifndef GAL_PLANNER_LAYERED_LAYERED_PLAN_H
#define GAL_PLANNER_LAYERED_LAYERED_PLAN_H

#include "planner/layered/node_solve.h"

/* In which order the layers of a stage stand that have one type and two kinds. */
typedef enum gal_layer_order {
    GAL_LAYERS_HIGH_FIRST, /* those of more bytes, then the others */
    GAL_LAYERS_LOW_FIRST,
    GAL_LAYERS_SPREAD, /* the fewer ones evenly among the others */
    GAL_LAYER_ORDER_COUNT
} gal_layer_order;

/* Whether a stage has layers of one type and two kinds. */
bool gal_solution_mixes(const gal_node *node, const gal_node_solution *solution);

/* Lowers and simulates the plan: *out owns it, with its predicted bytes and seconds. *fits: every stage is within the
 * memory. Errors as gal_finalist_predict. */
gal_code gal_solution_plan(const gal_search_request *request, const gal_node *node, const gal_node_limits *limits,
                           const gal_node_solution *solution, gal_layer_order order, gal_finalist *out, bool *fits,
                           gal_error *err);

/* The same of blocks: cut[stage] is its first block, behind the last the number of blocks; strategy[block]. The
 * objective is the caller's to set. */
gal_code gal_blocks_plan(const gal_search_request *request, const gal_node *node, const gal_node_limits *limits,
                         const uint32_t *cut, const gal_strategy *const *strategy, gal_finalist *out, bool *fits,
                         gal_error *err);

#endif
