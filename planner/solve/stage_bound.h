/* The Lagrangian bound of one stage, and paths found on the way to it.
 *
 * Relaxed: of the rows of Eq. 2 only that of the last layer, sum of kept bytes + backward of the last <= budget. With a
 * price lambda (picoseconds per byte) on that row the stage is a layered shortest path over classes; its length less
 * lambda * budget bounds the stage's time from below. The best lambda by the method of Handler and Zang ("A dual
 * algorithm for the constrained shortest path problem", Networks 10, 1980). Lengths are doubles with a slack that
 * covers their rounding; what is proven is rounded down by it. */
#ifndef GAL_PLANNER_SOLVE_STAGE_BOUND_H
#define GAL_PLANNER_SOLVE_STAGE_BOUND_H

#include "planner/solve/menu.h"

enum { GAL_MULTIPLIERS_MAX = 6 };

/* Layers [first, end) of the model as the stage that the choices are for. */
typedef struct gal_stage {
    const gal_menu *choices;
    uint32_t first, end;
} gal_stage;

static inline const uint32_t *gal_stage_start(const gal_stage *stage, uint32_t layer)
{
    const gal_menu *o = stage->choices;
    return o->start + gal_menu_slot(o, o->instance->kind[layer], layer == stage->first, layer + 1 == stage->end);
}
static inline const int64_t *gal_stage_change(const gal_stage *stage, uint32_t layer)
{
    const gal_instance *g = stage->choices->instance;
    return g->class_change_ps + (size_t)g->transition[g->kind[layer]] * g->class_count * g->class_count;
}

typedef struct gal_multiplier {
    double lambda;  /* picoseconds per byte */
    double bound;   /* without slack */
    double *suffix; /* (layer - first, class): least length behind that layer */
} gal_multiplier;

typedef struct gal_stage_bound {
    int64_t bound_ps; /* proven; GAL_NEVER: nothing fits */
    uint32_t multiplier_count;
    gal_multiplier multiplier[GAL_MULTIPLIERS_MAX]; /* the best one first */
    double *prefix;                                 /* of the best: up to and with that layer and class */
    double *node;                                   /* scratch of lengths: as suffix */
    uint32_t *pick;                                 /* choice of least length: (layer - first, class) */
    int64_t best_ps;                                /* of a path that fits; GAL_NEVER: none met */
    uint32_t *best;                                 /* strategy (layer of the model); only [first, end) is touched */
    uint32_t *path[2];                              /* scratch: feasible and infeasible in the relaxed row */
} gal_stage_bound;

/* Rounding of lengths near `length_ps` under a multiplier. */
static inline double gal_multiplier_slack(const gal_multiplier *m, int64_t budget_bytes, double length_ps)
{
    return 1e-11 * (length_ps + m->lambda * (double)budget_bytes) + 1.0;
}

gal_code gal_stage_bound_create(const gal_stage *stage, gal_stage_bound *out, gal_error *err);
void gal_stage_bound_free(gal_stage_bound *bound);
/* Takes strategy[first .. end) as best if it fits and is faster. */
void gal_stage_offer(const gal_stage *stage, gal_stage_bound *bound, const uint32_t *strategy);

#endif
