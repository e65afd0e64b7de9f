/* A screened cell in its stages: a bound of it, and a path near it. All strategies take part; nothing is enumerated but
 * cuts of the chain.
 *
 * The bound is that of whole stages (planner/bound/whole_stages.h) under weights of the stages' tails, less what stages
 * before them hide: the most exposed counts, or 0, so any weights of a sum up to 1 bound (planner/bound/dual.h: nu).
 * They follow the paths that are found: each moves the weights towards the stage whose tail is exposed most in it, less
 * each time; then, with weights of the updates (xi, till then even), cutting planes say where more is to be had
 * (planner/stages/tail_weights.h). Where the holders of the token table are bounded too low as they like, they are by
 * the ways to keep it that all of them have (planner/stages/table_ways.h). */
#ifndef GAL_PLANNER_STAGES_STAGED_H
#define GAL_PLANNER_STAGES_STAGED_H

#include "planner/bound/screened.h"

typedef struct gal_staged {
    double bound;               /* no path is faster; infinity: none fits */
    double seconds;             /* of the path; infinity: none was found */
    uint32_t *stage, *strategy; /* [block] of the path, strategies as the screened cell numbers them; the caller's */
    double *weights;            /* [2][stage] of the tails and of the updates, that were found best; the caller's */
} gal_staged;

/* How far it goes. GAL_STAGED_ALIKE: as if rows lay alike under all strategies, so that nothing is converted; a bound
 * alone, up to enough_seconds and beyond by the gap, that rules most cells out, and for which first orders of axes do
 * (planner/bound/screened.h). The others take all orders. Ties of the token table take longer than all else, and need a
 * path, or to know what is enough. With GAL_STAGED_AGAIN out is as an earlier look left it, with a path: nothing but
 * the ties is looked at anew, under those weights. */
typedef enum gal_staged_effort {
    GAL_STAGED_ALIKE,
    GAL_STAGED_QUICK,
    GAL_STAGED_TIED,
    GAL_STAGED_AGAIN
} gal_staged_effort;

/* Once the bound is above enough_seconds, or no more than the share `gap` below the path, neither need be the best.
 * out->stage, strategy and weights are given. GAL_ERR_SYSTEM without memory; else as gal_price_block. */
gal_code gal_staged_solve(const gal_screened *screened, double enough_seconds, double gap, gal_staged_effort effort,
                          gal_staged *out, gal_error *err);

#endif
