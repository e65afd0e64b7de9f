/* Communication of a training step, by mode, as closed forms, for those who count what a communicator is asked.
 *
 * The forms know the model and the mode, nothing of programs. h hidden, f FFN, s sequence, V padded vocabulary, L
 * layers, m microbatches, b samples of one, T = b s its tokens. Elements: the whole buffer of an all-reduce,
 * rotation or transfer, one member's share of the others; of all calls together. Every mode has one all-reduce over all
 * ranks of two fp64 more: squares of the gradients and the loss. All-reduces are in place, and so is what ZeRO does
 * with buffers that stay whole: the scatter of stage 1, the gather of stages 1 and 2. */
#ifndef GAL_TESTS_SUPPORT_STEP_COUNTS_H
#define GAL_TESTS_SUPPORT_STEP_COUNTS_H

#include "schemas/operator.h"
#include "schemas/plan.h"

enum { GAL_STEP_RANKS_MAX = 8, GAL_STEP_BLOCKS_MAX = 8, GAL_STEP_ROWS = 16, GAL_STEP_ITEM_BYTES = 8 /* fp64 */ };

typedef struct gal_step_tally {
    gal_op op;
    uint32_t group; /* ranks of it */
    uint64_t calls, in_place, elements;
} gal_step_tally;

typedef struct gal_step_counts {
    gal_step_tally row[GAL_STEP_ROWS]; /* of distinct (op, group) */
    uint32_t count;
} gal_step_counts;

typedef struct gal_step_plan {
    gal_plan plan; /* its arrays are the ones below */
    gal_plan_stage stage[GAL_STEP_RANKS_MAX];
    gal_plan_run run[GAL_STEP_BLOCKS_MAX];
} gal_step_plan;

uint32_t gal_step_mode_count(void);
const char *gal_step_mode_name(uint32_t index);
uint32_t gal_step_mode_ranks(uint32_t index); /* 4 or 8 */
/* A plan for so many ranks. */
void gal_step_mode_plan(uint32_t index, gal_step_plan *storage);
/* What the rank does in one step of it. */
void gal_step_mode_expect(uint32_t index, uint32_t rank, gal_step_counts *out);

#endif
