/* A screened cell in its stages: a bound of it, and a path near it. All strategies take part; nothing is enumerated but
 * cuts of the chain.
 *
 * The bound is that of whole stages (planner/whole_stages.h) under a weight of the first stage's tail: nothing hides
 * it, but where it is negative it counts as 0, so any weight from 0 to 1 bounds (planner/dual.h: nu). */
#ifndef GAL_PLANNER_STAGED_H
#define GAL_PLANNER_STAGED_H

#include "planner/screened.h"

typedef struct gal_staged {
    double bound;               /* no path is faster; infinity: none fits */
    double seconds;             /* of the path; infinity: none was found */
    uint32_t *stage, *strategy; /* [block] of the path, strategies as the screened cell numbers them; the caller's */
} gal_staged;

/* Once the bound is above enough_seconds, or no more than the share `gap` below the path, neither need be the best.
 * out->stage and strategy are given. GAL_ERR_SYSTEM without memory; else as gal_price_block. */
gal_code gal_staged_solve(const gal_screened *screened, double enough_seconds, double gap, gal_staged *out,
                          gal_error *err);

#endif
