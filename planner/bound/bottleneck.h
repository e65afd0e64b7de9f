/* How fast the slowest stage can be at best.
 *
 * The dual weighs the stages' rounds against each other as if blocks could be divided: 98 blocks on 4 stages make 24.5
 * each. Here borders are whole. For a stage and its end, sweeps over its blocks give the least round that is still to
 * come, with and without a price per byte over the limit; types of blocks alternate (of other chains nothing is known
 * here), so distances from the end serve for all ends of one parity. From them, border by border, the least slowest
 * round of the stages that are left. */
#ifndef GAL_PLANNER_BOUND_BOTTLENECK_H
#define GAL_PLANNER_BOUND_BOTTLENECK_H

#include "planner/bound/dual.h"

/* Least rounds, first those of what is behind a block, then those of a stage from a block on. */
typedef struct gal_sweep {
    double *inner[2]; /* [stage][end % 2][end - block] of stages that end before the head, block > 0 */
    double *first[2]; /* [end] of the first stage, block 0 */
    double *last[2];  /* [block] of the last stage */
} gal_sweep;

typedef struct gal_bottleneck {
    const gal_cell *cell;
    double per_byte[GAL_STAGES_MAX]; /* seconds of a round */
    gal_sweep plain, priced;
    double *rest;  /* [stage][block] least slowest round of the stages from this one, which begins there, on */
    double at_all; /* of a whole path */
} gal_bottleneck;

/* For the dual's choices and its prices of bytes; the cell's types alternate. GAL_ERR_SYSTEM without memory. */
gal_code gal_bottleneck_create(const gal_dual *dual, gal_bottleneck **out, gal_error *err);
void gal_bottleneck_free(gal_bottleneck *bottleneck);

/* rest and at_all for the dual's box, whose choices are among those of create. */
void gal_bottleneck_look(gal_bottleneck *bottleneck, const gal_dual *dual);

/* The least slowest round of the paths of the dual's box that begin with this one, which ends at block and stage. */
double gal_bottleneck_of(const gal_bottleneck *bottleneck, const gal_dual *dual, uint32_t block, uint32_t stage,
                         const gal_path *path);

#endif
