/* One stage, exactly: the fastest strategies of its layers whose bytes (Eq. 2) fit the budget, to the byte. */
#ifndef GAL_PLANNER_SOLVE_STAGE_SOLVE_H
#define GAL_PLANNER_SOLVE_STAGE_SOLVE_H

#include "planner/solve/stage_bound.h"

typedef struct gal_stage_answer {
    int64_t seconds_ps; /* GAL_NEVER: nothing fits, or nothing that does was met before the limit */
    int64_t bound_ps;   /* proven; equal to seconds_ps unless the limit was hit; GAL_NEVER: nothing fits */
    uint64_t label_count;
} gal_stage_answer;

/* strategy[first .. end) is written if seconds_ps is found. label_limit: labels kept in one round; when it is hit the
 * answer holds what was found and the bound that was proven. GAL_ERR_SYSTEM without memory. */
gal_code gal_stage_solve(const gal_stage *stage, uint64_t label_limit, uint32_t *strategy, gal_stage_answer *out,
                         gal_error *err);

/* The least bytes that any strategies of the stage need, and such ones in strategy[first .. end). Where label_limit is
 * hit, *is_exact is false and *bytes those of the smallest strategies that were met. It ends as soon as some need at
 * most enough_bytes (0: never). */
gal_code gal_stage_least_bytes(const gal_stage *stage, uint64_t label_limit, int64_t enough_bytes, uint32_t *strategy,
                               int64_t *bytes, bool *is_exact, gal_error *err);

#endif
