/* The search of a cell whose stages hold several pieces of the chain: among uniform plans.
 *
 * A plan is uniform if all blocks have one strategy and the blocks of layers are cut in equal pieces, the embedding
 * with the first and the head with the last one. That is the space that Megatron-LM offers. It is searched whole, by
 * the objective of costmodel/objective.h and the exact bytes of costmodel/memory.h. Departs from the search of the
 * other schedules, which gives every block its own strategy and cuts the chain anywhere: there the memory of a stage is
 * a sum over neighbours, here over pieces that lie apart. */
#ifndef GAL_PLANNER_UNIFORM_H
#define GAL_PLANNER_UNIFORM_H

#include "planner/cell.h"

typedef struct gal_uniform_answer {
    double seconds;       /* infinite: no uniform plan fits */
    uint64_t least_bytes; /* the smallest largest stage of any uniform plan; 0: no strategy is legal for every block */
} gal_uniform_answer;

/* plan has all but its strategies, stages and runs; gets those of the best one, which it owns. GAL_NO if the numbers of
 * the cell do not divide, with the reason; GAL_ERR_SYSTEM without memory; else as gal_plan_objective. */
gal_code gal_uniform_solve(const gal_cell_spec *spec, gal_plan *plan, gal_uniform_answer *out, gal_error *err);

#endif
