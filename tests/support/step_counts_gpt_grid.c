/* A step of GPT on grids: closed forms of the papers, written out. */
#include "tests/support/step_counts_gpt.h"

/* 2D on 2 x 2: of every product X W, per microbatch, X and W are gathered forward, gathered backward, and the parts of
 * dX and dW scattered, T in / 4 and in out / 4 elements to a device each time: over the 4 devices 3 (q - 1) (T in + in
 * out) received. The head's forward is next to its backward: one gather each. The table of the embedding is gathered
 * for the look-up, its gradient scattered. Every norm gathers two moments and sums two numbers per row, of T / 2 rows.
 * The gradients of vectors and positions, half of the features each, are sums over the columns, once a step; with the
 * vectors are the biases of the matrices. times: that X is gathered. */
static void expect_2d_times(gal_step_counts *e, uint64_t times)
{
    const uint64_t inputs = (uint64_t)T * (3 * H + F), weights = 3 * H * H + H * H + 2 * F * H;
    const uint64_t head = (uint64_t)T * H + WTE, norms = 2 * L + 1;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * ((times + 2) * 4 * L + 2 + 1),
                 M * (L * (times * inputs + 2 * weights) + head + WTE) / 4);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * (2 * 4 * L + 2 + 1), M * (L * (inputs + weights) + head + WTE) / 4);
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * norms, M * norms * T);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M * norms, M * norms * T);
    gal_step_loss(e, 2, T / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, LAYER_VECTOR_UNITS * L + 1 + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS + WPE) / 2);
}

void gal_step_2d(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    expect_2d_times(e, 2);
}

/* Where panels of X are kept, X is gathered forward alone. */
void gal_step_2d_kept(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    expect_2d_times(e, 1);
}

/* Beside ZeRO-3, as ZERO says: of the units of the layers and the head's, an eighth of each, two gathers (the head's
 * forward is next to its backward: one) and a scatter, and of the tables of the embedding one of each. */
static void shard_stepped_2d(gal_step_counts *e)
{
    const uint64_t weights = L * (uint64_t)(3 * H * H + H * H + 2 * F * H), tables = WTE / 4 + WPE / 2;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * (2 * 4 * L + 1 + 2), M * ((2 * weights + WTE) / 4 + tables) / 2);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * (4 * L + 1 + 2), M * ((weights + WTE) / 4 + tables) / 2);
}

/* In steps: of every product X and W are spread forward, W for dX, X for dW, 2 parts each, and dX and dW summed part by
 * part; each part a quarter of the tensor. Look-ups and all else are as gathered. */
static void stepped_square(gal_step_counts *e, uint64_t tokens)
{
    const uint64_t inputs = L * tokens * (3 * H + F) + tokens * H;
    const uint64_t weights = L * (uint64_t)(3 * H * H + H * H + 2 * F * H) + WTE, norms = 2 * L + 1;
    gal_step_add(e, GAL_OP_BROADCAST, 2, M * (4 * L + 1) * 8, M * (inputs + weights));
    gal_step_add(e, GAL_OP_REDUCE, 2, M * (4 * L + 1) * 4, M * (inputs + weights) / 2);
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * (1 + norms), M * (WTE / 4 + norms * tokens));
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M, M * WTE / 4);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M * norms, M * norms * tokens);
    gal_step_loss(e, 2, (uint32_t)tokens / 2);
}

void gal_step_2d_stepped(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    stepped_square(e, T);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, LAYER_VECTOR_UNITS * L + 1 + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS + WPE) / 2);
}

/* Two squares of half of the samples each share the states: vectors are sums over column and replicas, positions,
 * whose gradients are scattered first, over the column alone. */
void gal_step_2d_stepped_zero_3(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    stepped_square(e, T / 2);
    shard_stepped_2d(e);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 4, LAYER_VECTOR_UNITS * L + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS) / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, 1, WPE / 4);
}

/* 2.5D on 2 x 2 twice: each grid has half of the samples, so T / 2 tokens, and all weights. Beside what a grid does,
 * gradients of matrices are sums over the depth, those of vectors over column and depth: once a step, 2 (d - 1) in out
 * per product over all devices. */
void gal_step_2p5d(gal_step_counts *e, uint32_t rank)
{
    const uint64_t inputs = (uint64_t)T / 2 * (3 * H + F), weights = 3 * H * H + H * H + 2 * F * H;
    const uint64_t head = (uint64_t)T / 2 * H + WTE, norms = 2 * L + 1;
    (void)rank;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * (4 * 4 * L + 2 + 1), M * (2 * L * (inputs + weights) + head + WTE) / 4);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * (2 * 4 * L + 2 + 1), M * (L * (inputs + weights) + head + WTE) / 4);
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * norms, M * norms * T / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M * norms, M * norms * T / 2);
    gal_step_loss(e, 2, T / 4);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, LAYER_MATRIX_UNITS * L + 2, (weights * L + WTE + WTE) / 4);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 4, LAYER_VECTOR_UNITS * L + 1 + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS + WPE) / 2);
}

/* The same in steps: what is summed over the depth once a step is the same. */
void gal_step_2p5d_stepped(gal_step_counts *e, uint32_t rank)
{
    const uint64_t weights = 3 * H * H + H * H + 2 * F * H;
    (void)rank;
    stepped_square(e, T / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, LAYER_MATRIX_UNITS * L + 2, (weights * L + WTE + WTE) / 4);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 4, LAYER_VECTOR_UNITS * L + 1 + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS + WPE) / 2);
}

/* 3D on 2 x 2 x 2: of every product Y = X W, per microbatch, X and W are gathered forward and again backward, dY is
 * gathered there, and the sums Y, dX and dW scattered, an 8th to a device each time: over the 8 devices (l - 1) (3 T in
 * + 3 in out + 2 T out) received. The head gathers X and W once. The table of the embedding is gathered over the 4
 * devices that have parts of its rows. Every norm tells two numbers per row, of T / 4 rows. Half of the features of
 * vectors and positions are a device's, and sums over the 4 that have the same half; biases of the first product of a
 * block have halves of their own. */
static void expect_3d_times(gal_step_counts *e, uint64_t times)
{
    const uint64_t inputs = (uint64_t)T * (3 * H + F), weights = 3 * H * H + H * H + 2 * F * H;
    const uint64_t outputs = (uint64_t)T * (5 * H + F), head = (uint64_t)T * H + WTE + (uint64_t)T * V;
    const uint64_t norms = 2 * L + 1;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * ((times + 3) * 4 * L + 3),
                 M * (L * (times * inputs + 2 * weights + outputs) + head) / 8);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * (3 * 4 * L + 3), M * (L * (inputs + weights + outputs) + head) / 8);
    gal_step_add(e, GAL_OP_ALL_GATHER, 4, M, M * WTE / 8);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 4, M, M * WTE / 8);
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * norms, M * norms * T / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M * norms, M * norms * T / 2);
    gal_step_loss(e, 2, T / 4);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 4, 2 * LAYER_VECTOR_UNITS * L + 1 + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS + WPE) / 2);
}

void gal_step_3d(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    expect_3d_times(e, 2);
}

void gal_step_3d_kept(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    expect_3d_times(e, 1);
}

/* Where the weights stay on 2 x 2 x 2, X is gathered so many times, dY is gathered, and Y and dX are scattered, per
 * microbatch; the table is gathered over the two that have parts of its rows. Gradients of matrices are scattered over
 * the two that have the same weights, an 8th to a device (a 4th of the positions), and these, updated, gathered once a
 * step in place. Positions are sums over the two others besides. */
static void expect_3d_weights(gal_step_counts *e, uint64_t times, uint32_t zero_stage)
{
    const uint64_t inputs = (uint64_t)T * (3 * H + F), weights = 3 * H * H + H * H + 2 * F * H;
    const uint64_t outputs = (uint64_t)T * (5 * H + F), head = (uint64_t)T * H + (uint64_t)T * V;
    const uint64_t norms = 2 * L + 1, units = LAYER_MATRIX_UNITS * L + 3;
    const uint64_t shards = (L * weights + WTE + WTE) / 8 + WPE / 4;
    const bool late = zero_stage == 1;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * ((times + 1) * 4 * L + 2),
                 M * (L * (times * inputs + outputs) + head) / 8);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * (2 * 4 * L + 2), M * (L * (inputs + outputs) + head) / 8);
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M, M * WTE / 4);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M, M * WTE / 4);
    gal_step_add_calls(e, GAL_OP_REDUCE_SCATTER, 2, (late ? 1 : M) * units, late ? units : 0, (late ? 1 : M) * shards);
    gal_step_add_calls(e, GAL_OP_ALL_GATHER, 2, units, units, shards);
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * norms, M * norms * T / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M * norms, M * norms * T / 2);
    gal_step_loss(e, 2, T / 4);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 4, 2 * LAYER_VECTOR_UNITS * L + 1,
                 ((LAYER_VECTORS + 3 * H + F) * L + HEAD_VECTORS) / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, 1, WPE / 4);
}

void gal_step_3d_weights_2(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    expect_3d_weights(e, 2, 2);
}

void gal_step_3d_both_1(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    expect_3d_weights(e, 1, 1);
}
