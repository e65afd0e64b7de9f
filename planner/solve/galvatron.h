/* What the two algorithms of Galvatron-BMW share: their search within one stage (Appendix A3, Algorithm 3). */
#ifndef GAL_PLANNER_SOLVE_GALVATRON_H
#define GAL_PLANNER_SOLVE_GALVATRON_H

#include "planner/solve/solver.h"

/* Strategies for every stage of a partition, by Dynamic_Programming of each, and Eq. 5 (Algorithm 1, lines 23 to 27).
 * Eq. 4 needs the strategy before, which the paper's C(L, E) does not carry: here the table has it as a third index, so
 * that transitions are priced as they are. Bytes are counted in steps of limits->memory_unit_bytes, or of what cuts the
 * budget in at most 1,024, a layer's rounded up. Where that leaves a stage no path though the least bytes of its layers
 * fit together, steps count what a layer takes above its least: a path is not refused for the rounding alone.
 * assignment->stage_first is given; strategy and value_ps are set, value_ps GAL_NEVER if a stage has no answer.
 * *cell_count rises by the cells that were filled. */
gal_code gal_galvatron_search(const gal_instance *instance, const gal_solver_limits *limits, gal_assignment *assignment,
                              uint64_t *cell_count, gal_error *err);

#endif
