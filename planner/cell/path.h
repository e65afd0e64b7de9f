/* Paths of a cell: their running sums, their time and their bytes. */
#ifndef GAL_PLANNER_CELL_PATH_H
#define GAL_PLANNER_CELL_PATH_H

#include "planner/cell/cell.h"

void gal_shared_join(gal_shared_bytes *a, const gal_shared_bytes *b); /* a: the larger of each kind */
int64_t gal_shared_sum(const gal_shared_bytes *shared);

/* Running sums of a path. */
typedef struct gal_path {
    double additive; /* rounds of finished stages as they count, and what is once in an iteration */
    uint32_t closed; /* finished stages */
    double slowest, exposed, drained,
        update; /* of finished stages: max g, max (tail - drained before), sum b, max;
                 * of the only stage exposed is of the open one: the largest tail so far */
    double stage_round, stage_backward, stage_tail, stage_update; /* of the open stage */
    int64_t bytes;           /* of the open stage, without what is shared; of the stage just closed, with all */
    gal_shared_bytes shared; /* of the open stage */
} gal_path;

void gal_path_add(gal_path *path, const gal_cell_step *step);
int64_t gal_path_bytes(const gal_path *path); /* of the open stage so far: never more than when it closes */
/* Closes the open stage with gal_cell_close's step; false if it does not fit. */
bool gal_path_close(gal_path *path, const gal_cell *cell, const gal_cell_step *step);
double gal_path_seconds(const gal_path *path, const gal_cell *cell); /* of a path whose last stage is closed */

/* The whole path: stage[block], strategy[block]. Infinity if it does not fit. most_bytes (may be NULL): of its largest
 * stage, fitting or not. */
double gal_cell_evaluate(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, uint64_t *most_bytes);

/* bytes[stage] of a whole path. */
void gal_cell_stage_bytes(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, int64_t *bytes);

#endif
