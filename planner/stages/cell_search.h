/* A cell searched by columns: strategies that cannot be in a faster plan are never priced in full.
 *
 * The cell is solved among the strategies that suit its stages best; the weights of that dual price out all others
 * (planner/bound/screened.h); those that might be in a faster plan join, until there are none, or as many as a cell may
 * have. What stays out bounds the rest: the bound holds for all strategies. */
#ifndef GAL_PLANNER_STAGES_CELL_SEARCH_H
#define GAL_PLANNER_STAGES_CELL_SEARCH_H

#include "planner/bound/screened.h"
#include "planner/stages/cell_solve.h"

/* As gal_cell_solve, with the answer's strategies numbered as screened->strategy, also of a path to start from; raises
 * the bounds of screened. */
gal_code gal_cell_search(gal_screened *screened, const gal_solve_settings *settings, gal_cell_answer *answer,
                         gal_error *err);

#endif
