/* What the files of step_counts.h share. For them alone. */
#ifndef GAL_TESTS_SUPPORT_STEP_COUNTS_INTERNAL_H
#define GAL_TESTS_SUPPORT_STEP_COUNTS_INTERNAL_H

#include "tests/support/step_counts.h"

enum {
    GAL_STEP_MICROBATCHES = 2,
    GAL_STEP_SAMPLES = 4, /* of a microbatch */
    GAL_STEP_HIDDEN = 32,
    GAL_STEP_FFN = 64,
    GAL_STEP_HEADS = 4,
    GAL_STEP_POSITIONS = 8,
    GAL_STEP_PADDED_VOCABULARY = 64
};

/* `calls` calls that carry `elements` elements in all; all-reduces in place. */
void gal_step_add(gal_step_counts *e, gal_op op, uint32_t group, uint64_t calls, uint64_t elements);

/* step_counts_grid.c: T5 and Swin on grids. Their models, from that of the other modes; and what a rank does in a step.
 */
void gal_step_turn_to_t5(gal_model *model);
void gal_step_turn_to_swin(gal_model *model);
void gal_step_t5_2d(gal_step_counts *e, uint32_t rank);
void gal_step_t5_3d(gal_step_counts *e, uint32_t rank);
void gal_step_swin_2d(gal_step_counts *e, uint32_t rank);
void gal_step_swin_3d(gal_step_counts *e, uint32_t rank);

#endif
