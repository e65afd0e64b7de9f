/* A path of a cell from a cut: what every stage's blocks take.
 *
 * Stages are filled one by one. First every block gets a class: all the same one; or those of the shortest path at the
 * price per byte that bounds the stage most (planner/stages/stage_classes.h, planner/bound/slope.h); or, where two
 * paths cost the same at that price, the first blocks those of one and the rest those of the other. Then the bytes that
 * there are go where they gain most (gal_mix_choose). */
#ifndef GAL_PLANNER_STAGES_STAGE_FILLING_H
#define GAL_PLANNER_STAGES_STAGE_FILLING_H

#include "planner/stages/stage_tables.h"

typedef struct gal_cut {
    uint32_t first[GAL_STAGES_MAX];     /* block at which the stage begins */
    double turns[GAL_STAGES_MAX][2];    /* of what blocks use in turn: charged at least, and at most to be taken */
    double spare_bytes[GAL_STAGES_MAX]; /* left free */
} gal_cut;

/* strategy[block]. found: every stage could be filled, as far as bytes are known here (what closes a stage, and what
 * blocks use in turn, is known to the byte of whole paths alone). GAL_ERR_SYSTEM without memory. */
gal_code gal_stages_fill(gal_stage_tables *tables, const gal_cut *cut, uint32_t *strategy, bool *found, gal_error *err);

#endif
