/* The GPT that most modes of step_counts.h run. For step_counts.c and step_counts_gpt_grid.c alone. */
#ifndef GAL_TESTS_SUPPORT_STEP_COUNTS_GPT_H
#define GAL_TESTS_SUPPORT_STEP_COUNTS_GPT_H

#include "tests/support/step_counts_internal.h"

enum {
    L = 2,
    H = GAL_STEP_HIDDEN,
    F = GAL_STEP_FFN,
    HEADS = GAL_STEP_HEADS,
    S = GAL_STEP_POSITIONS,
    V = GAL_STEP_PADDED_VOCABULARY,
    VOCABULARY = 61,
    M = GAL_STEP_MICROBATCHES,
    B = GAL_STEP_SAMPLES,
    T = B * S
};

/* Elements of the units that are gathered, scattered and reduced together. Vectors (norms, row biases) are small and
 * never sharded. */
enum {
    WTE = V * H,
    WPE = S * H,
    LAYER_VECTORS = 2 * 3 * H, /* of attention and FFN: gain, bias, row bias each */
    HEAD_VECTORS = 2 * H,
    QKV = 3 * H * H + 3 * H,
    PROJ = H * H,
    FC = H * F + F,
    FFN_PROJ = F * H,
    LAYER_MATRICES = QKV + PROJ + FC + FFN_PROJ,
    LAYER_MATRIX_UNITS = 4,
    LAYER_VECTOR_UNITS = 2
};

/* `calls` calls that carry `elements` elements in all, `in_place` of them in place. */
void gal_step_add_calls(gal_step_counts *e, gal_op op, uint32_t group, uint64_t calls, uint64_t in_place,
                        uint64_t elements);
/* The loss over a vocabulary that is split over `group` ranks, of so many tokens of a rank. */
void gal_step_loss(gal_step_counts *e, uint32_t group, uint64_t tokens);

/* step_counts_gpt_grid.c: what a rank does in a step. */
void gal_step_2d(gal_step_counts *e, uint32_t rank);
void gal_step_2d_kept(gal_step_counts *e, uint32_t rank);
void gal_step_2d_stepped(gal_step_counts *e, uint32_t rank);
void gal_step_2d_stepped_zero_3(gal_step_counts *e, uint32_t rank);
void gal_step_2p5d(gal_step_counts *e, uint32_t rank);
void gal_step_2p5d_stepped(gal_step_counts *e, uint32_t rank);
void gal_step_3d(gal_step_counts *e, uint32_t rank);
void gal_step_3d_kept(gal_step_counts *e, uint32_t rank);
void gal_step_3d_weights_2(gal_step_counts *e, uint32_t rank);
void gal_step_3d_both_1(gal_step_counts *e, uint32_t rank);

#endif
