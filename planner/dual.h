/* A lower bound of a cell by Lagrangian relaxation, and the path that attains it.
 *
 * The objective is a maximum of sums: (m-1) max g + sum g + max(tail - drained) + max update, under a limit of bytes
 * per stage. For any weights mu, xi on the simplex and nu with sum at most 1, all non-negative, and prices lambda >= 0
 * per byte, replacing each maximum by its weighted sum and each limit by its price gives a sum over the nodes and edges
 * of the path that never exceeds the objective of a path that fits; its shortest path is a proven bound. Of the bytes
 * that a stage's blocks share, the largest use counts; the relaxation takes those of its last block, which are no more.
 * Subgradient steps raise the bound. The weights are the certificate: anybody can repeat the shortest path. */
#ifndef GAL_PLANNER_DUAL_H
#define GAL_PLANNER_DUAL_H

#include "planner/cell.h"

enum { GAL_STAGES_MAX = 256 };

typedef struct gal_weights {
    double slowest[GAL_STAGES_MAX];  /* mu */
    double exposed[GAL_STAGES_MAX];  /* nu */
    double update[GAL_STAGES_MAX];   /* xi */
    double per_byte[GAL_STAGES_MAX]; /* lambda, seconds */
} gal_weights;

#define GAL_DUAL_ANY UINT32_MAX

typedef struct gal_dual {
    const gal_cell *cell;
    gal_weights weights;
    uint32_t embedding;     /* the embedding and a tied head take strategies alike to this one; GAL_DUAL_ANY: any two */
    double *follow, *cross; /* weighted seconds of an edge (gal_cell_pair_index); cross closes the stage before */
    double *start, *close;  /* [strategy]; gal_cell_price_index */
    double *to_go;          /* [block][stage][strategy]: least weighted seconds from behind the node to the end */
    double constant;        /* part of every path */
    double most_seconds;    /* no path is slower */
    double bound;           /* infinity: no path at all */
    uint32_t *stage, *strategy; /* [block] of the shortest path */
} gal_dual;

gal_code gal_dual_create(const gal_cell *cell, gal_dual **out, gal_error *err);
void gal_dual_free(gal_dual *dual);

/* The tables of weighted seconds under the present weights; call it when they change. */
void gal_dual_weigh(gal_dual *dual);
/* The shortest path: bound, to_go, stage, strategy. */
void gal_dual_solve(gal_dual *dual);
/* Up to `rounds` subgradient steps towards *best_seconds; better paths found on the way (if their tables are alike)
 * replace best_stage and best_strategy. Ends early when the bound reaches it. Leaves the best weights solved. */
void gal_dual_raise(gal_dual *dual, uint32_t rounds, double *best_seconds, uint32_t *best_stage,
                    uint32_t *best_strategy);
/* The bound proves that no path fits. */
bool gal_dual_is_infeasible(const gal_dual *dual);

static inline size_t gal_dual_node(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return ((size_t)block * cell->spec.pp_degree + stage) * cell->strategy_count + strategy;
}

#endif
