/* One cell solved: the dual's bound, then labels. With tied tables the paths fall into classes by the strategy of the
 * embedding; a dual over all of them bounds each class, and those that may hold a better path are searched. */
#ifndef GAL_PLANNER_CELL_SOLVE_H
#define GAL_PLANNER_CELL_SOLVE_H

#include "planner/labels.h"

typedef struct gal_cell_answer {
    double seconds;             /* infinity: no path fits, or none was found among the labels kept */
    double bound;               /* no path that fits is faster; infinity: none fits */
    uint32_t *stage, *strategy; /* [block] the caller's arrays */
    uint64_t least_bytes;       /* of its largest stage, the smallest path met, fitting or not; 0: no path at all */
    uint64_t label_count;
    bool given_up;
} gal_cell_answer;

typedef struct gal_solve_settings {
    uint32_t label_limit;   /* at one block */
    double give_up_seconds; /* a cell whose bound is above this is not searched further */
} gal_solve_settings;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_cell_solve(const gal_cell *cell, const gal_solve_settings *settings, gal_cell_answer *best,
                        gal_error *err);

#endif
