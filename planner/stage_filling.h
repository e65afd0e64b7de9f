/* A path of a cell from a cut: what every stage's blocks take. Stages are filled one by one with items of one class,
 * or of two, the first blocks of one and the rest of the other (planner/mixture.h). */
#ifndef GAL_PLANNER_STAGE_FILLING_H
#define GAL_PLANNER_STAGE_FILLING_H

#include "planner/stage_tables.h"

typedef struct gal_cut {
    uint32_t first[GAL_STAGES_MAX];     /* block at which the stage begins */
    uint32_t mixed[GAL_STAGES_MAX][2];  /* classes that are worth mixing there, or twice one */
    double spare_bytes[GAL_STAGES_MAX]; /* left free */
} gal_cut;

/* strategy[block]. found: every stage could be filled, as far as bytes are known here (what closes a stage, and what
 * blocks use in turn, is known to the byte of whole paths alone). GAL_ERR_SYSTEM without memory. */
gal_code gal_stages_fill(gal_stage_tables *tables, const gal_cut *cut, uint32_t *strategy, bool *found, gal_error *err);

#endif
