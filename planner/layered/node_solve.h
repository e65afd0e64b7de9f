/* The best plan of a node: whole layers, each of one kind, cut into stages.
 *
 * Kinds count with their floors until a solution wants them; then they are priced and the node is solved again, until a
 * solution has priced kinds alone: it is the best one by prices of all kinds. */
#ifndef GAL_PLANNER_LAYERED_NODE_SOLVE_H
#define GAL_PLANNER_LAYERED_NODE_SOLVE_H

#include "planner/layered/node.h"

typedef struct gal_node_solution {
    bool fits;                /* else nothing fits, or no plan is faster than what was asked for */
    double bound_seconds;     /* of a step: no plan of the node is faster, by prices */
    double objective_seconds; /* of the plan, by prices */
    uint32_t *cut;            /* [stage]: its first layer; behind the last the number of layers; owned */
    uint32_t *kind;           /* [layer], of the node's table; owned */
} gal_node_solution;

/* enough_seconds: a node whose bound is no less is not solved further. Errors as gal_kind_price. */
gal_code gal_node_solve(const gal_node *node, const gal_node_limits *limits, double enough_seconds,
                        gal_node_solution *out, gal_error *err);
void gal_node_solution_free(gal_node_solution *solution); /* accepts a zeroed one */

/* Solves with the seconds that kinds have now: *seconds of a step, infinite if nothing fits. Errors: memory. */
gal_code gal_node_bound(const gal_node *node, const gal_node_limits *limits, double *seconds, gal_error *err);

#endif
