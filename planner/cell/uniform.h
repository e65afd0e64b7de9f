/* The search of a cell whose stages hold several pieces of the chain, or whose backward is split: among uniform plans.
 *
 * A plan is uniform if all blocks have one strategy and the blocks of layers are dealt to the stages evenly, or so that
 * with embedding and head the stages' seconds are; each stage's are cut in equal pieces. That is what Megatron-LM
 * offers. All these plans are tried, by the objective of costmodel/objective.h and exact bytes. Departs from the search
 * of the other schedules, which gives every block its own strategy and cuts the chain anywhere: there the memory of a
 * stage is a sum over neighbours, here over pieces that lie apart, or over blocks that keep what their neighbours read.
 */
#ifndef GAL_PLANNER_CELL_UNIFORM_H
#define GAL_PLANNER_CELL_UNIFORM_H

#include "planner/cell/cell.h"

typedef struct gal_uniform_answer {
    double seconds;           /* infinite: no uniform plan fits */
    uint64_t least_bytes;     /* the smallest largest stage of any uniform plan; 0: there is none */
    uint32_t too_large_count; /* strategies that are legal for every block, and left out: gal_is_too_large */
} gal_uniform_answer;

/* GAL_NO with the reason if the numbers of the cell do not divide, or the schedule cannot be. */
gal_code gal_uniform_refused(const gal_cell_spec *spec, gal_error *err);

/* plan has all but its strategies, stages and runs; gets those of the best one, which it owns. GAL_NO as
 * gal_uniform_refused; GAL_ERR_SYSTEM without memory. */
gal_code gal_uniform_solve(const gal_cell_spec *spec, gal_plan *plan, gal_uniform_answer *out, gal_error *err);

#endif
