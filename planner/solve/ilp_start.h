/* Where the integer program begins: the bound of the whole problem relaxed, and an assignment that fits. */
#ifndef GAL_PLANNER_SOLVE_ILP_START_H
#define GAL_PLANNER_SOLVE_ILP_START_H

#include "planner/solve/ilp_relaxed.h"

/* Raises the bound of the relaxed problem by Dantzig and Wolfe's method (a small linear program mixes the paths met so
 * far, and its prices give the next path), takes the best of the paths that fit, and of paths under dearer bytes, each
 * with the layers and borders that gain anything changed one by one, and leaves out of `relaxed` what no assignment as
 * fast as that one uses.
 * best: improved where something better is found; its value_ps GAL_NEVER where nothing is known. *bound_ps is only
 * raised (GAL_NEVER: nothing fits even the relaxed rows, where that is found). It ends early where seconds_left are
 * gone. */
gal_code gal_ilp_start(gal_relaxed *relaxed, double seconds_left, gal_assignment *best, int64_t *bound_ps,
                       gal_error *err);

#endif
