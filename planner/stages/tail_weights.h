/* Weights of the stages' tails and updates by cutting planes.
 *
 * Of tails the most exposed counts, or 0, of updates the longest; so under weights of a sum of at most 1 each no path
 * takes less than its other seconds and so much of each tail and update. What is least so is concave in the weights:
 * from weights where it is known it grows by no more than the tails and updates of the path that is least there. Of
 * that path the one found stands, nearly. Weights are looked at next that are best as far as what is known so reaches:
 * those in between, which a step towards the stage exposed most steps over. Source: J. E. Kelley, "The Cutting-Plane
 * Method for Solving Convex Programs", 1960. */
#ifndef GAL_PLANNER_STAGES_TAIL_WEIGHTS_H
#define GAL_PLANNER_STAGES_TAIL_WEIGHTS_H

#include "planner/bound/screened.h"

enum { GAL_TAIL_PLANES = 20 };

/* Of a path, or weights: [stage]. */
typedef struct gal_tails {
    double exposed[GAL_STAGES_MAX]; /* tail less what stages before hide */
    double update[GAL_STAGES_MAX];
} gal_tails;

/* Of a path: stage[block], strategy[block]. */
gal_tails gal_tails_of_path(const gal_screened *screened, const uint32_t *stage, const uint32_t *strategy);

/* Weights of tails by such a share towards the stage that the path exposes most, or where it exposes nothing towards no
 * weights at all; false: they stay. */
bool gal_tails_move(gal_tails *weights, uint32_t stage_count, const gal_tails *path, double share);

typedef struct gal_tail_weights {
    uint32_t stage_count, plane_count;
    double seconds[GAL_TAIL_PLANES]; /* at no weights */
    gal_tails *path;                 /* [plane] owned */
} gal_tail_weights;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_tail_weights_create(uint32_t stage_count, gal_tail_weights *out, gal_error *err);
void gal_tail_weights_free(gal_tail_weights *weights); /* accepts a zeroed one */

/* Under these weights the bound is so many seconds, and the path found has such tails and updates. More than
 * GAL_TAIL_PLANES are forgotten. */
void gal_tail_weights_note(gal_tail_weights *weights, const gal_tails *at, double bound_seconds, const gal_tails *path);

/* The weights that are best by what was noted, nearly: they are sought in so many steps. Returns what the bound is at
 * most under these, as far as the paths stand for those that are least. Something is noted. */
double gal_tail_weights_find(const gal_tail_weights *weights, gal_tails *out);

#endif
