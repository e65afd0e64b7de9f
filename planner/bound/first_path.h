/* A first path of a cell: one layout for all blocks, as much recompute as each stage needs to fit, stages cut so that
 * the slowest is as fast as can be. What a person would do with patience; often near the optimum, and found in
 * microseconds per layout. */
#ifndef GAL_PLANNER_BOUND_FIRST_PATH_H
#define GAL_PLANNER_BOUND_FIRST_PATH_H

#include "planner/bound/dual.h"

/* Improves best by the best such path of any layout. *least_bytes: the smallest largest stage of any that was tried,
 * fitting or not, if smaller (0: none known). GAL_ERR_SYSTEM without memory. */
gal_code gal_first_path(const gal_cell *cell, gal_best_path *best, uint64_t *least_bytes, gal_error *err);

#endif
