#include <string.h>

#include "tests/support/step_counts_gpt.h"

typedef gal_step_counts expected;

/* `calls` calls that carry `elements` elements in all, `in_place` of them in place. */
void gal_step_add_calls(expected *e, gal_op op, uint32_t group, uint64_t calls, uint64_t in_place, uint64_t elements)
{
    uint32_t i = 0;
    while (i < e->count && (e->row[i].group != group || e->row[i].op != op)) {
        i++;
    }
    GAL_ASSERT(i < GAL_STEP_ROWS);
    if (calls == 0) {
        return;
    }
    if (i == e->count) {
        e->row[e->count++] = (gal_step_tally){op, group, 0, 0, 0};
    }
    e->row[i].calls += calls;
    e->row[i].in_place += in_place;
    e->row[i].elements += elements;
}

/* In place as far as the operation is always. */
static void add(expected *e, gal_op op, uint32_t group, uint64_t calls, uint64_t elements)
{
    gal_step_add_calls(e, op, group, calls, op == GAL_OP_ALL_REDUCE ? calls : 0, elements);
}

void gal_step_add(gal_step_counts *e, gal_op op, uint32_t group, uint64_t calls, uint64_t elements)
{
    add(e, op, group, calls, elements);
}

/* ---- parameters ---- */

/* Vectors of all blocks, once a step: every unit one all-reduce over `group` ranks. */
static void reduce_vectors(expected *e, uint32_t group)
{
    add(e, GAL_OP_ALL_REDUCE, group, LAYER_VECTOR_UNITS * L + 1, LAYER_VECTORS * L + HEAD_VECTORS);
}

/* DP over 4: every gradient all-reduced once a step, whatever m is. 2 + 6 L + 2 units. */
static void expect_dp(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    add(e, GAL_OP_ALL_REDUCE, 4, LAYER_MATRIX_UNITS * L + 3, (uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE);
}

/* The matrices in shares of 1/4: wte, wpe, 4 per layer, the head's table. */
static void matrices(expected *e, gal_op op, uint32_t times, uint32_t shares, uint32_t group)
{
    add(e, op, group, (uint64_t)times * (LAYER_MATRIX_UNITS * L + 3),
        (uint64_t)times * ((uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / shares);
}

/* The same once, each in place. */
static void matrices_in_place(expected *e, gal_op op, uint32_t shares, uint32_t group)
{
    const uint64_t calls = LAYER_MATRIX_UNITS * L + 3;
    gal_step_add_calls(e, op, group, calls, calls, ((uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / shares);
}

/* ZeRO-1: a reduce-scatter once a step and an all-gather of the updated weights. */
static void expect_zero_1(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices_in_place(e, GAL_OP_REDUCE_SCATTER, 4, 4);
    matrices_in_place(e, GAL_OP_ALL_GATHER, 4, 4);
}

/* ZeRO-2: the reduce-scatter of every microbatch, since nobody holds a whole gradient between them. */
static void expect_zero_2(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices(e, GAL_OP_REDUCE_SCATTER, M, 4, 4);
    matrices_in_place(e, GAL_OP_ALL_GATHER, 4, 4);
}

/* ZeRO-3, of every microbatch: 2 gathers and 1 scatter of each layer's matrices. The tables of the embedding are not
 * read in backward, and the head's forward is next to its backward: one gather each. No gather after the update. */
static void expect_zero_3(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices(e, GAL_OP_REDUCE_SCATTER, M, 4, 4);
    add(e, GAL_OP_ALL_GATHER, 4, M * (2 * LAYER_MATRIX_UNITS * L + 3),
        M * (2 * (uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / 4);
}

/* ZeRO-3 over 2, DP over 2: the same in shares of 1/2; the shards' replicas are all-reduced once a step. Vectors over
 * all 4. */
static void expect_zero_3_dp(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices(e, GAL_OP_REDUCE_SCATTER, M, 2, 2);
    matrices(e, GAL_OP_ALL_REDUCE, 1, 2, 2);
    add(e, GAL_OP_ALL_GATHER, 2, M * (2 * LAYER_MATRIX_UNITS * L + 3),
        M * (2 * (uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / 2);
}

/* ---- tensor parallelism ---- */

/* The loss over a split vocabulary: the largest logit of each row, then the sum of exponentials and the target's. */
void gal_step_loss(expected *e, uint32_t group, uint64_t tokens)
{
    add(e, GAL_OP_ALL_REDUCE, group, 2 * M, M * 3 * tokens);
}

/* 1D TP: per layer and microbatch 4 all-reduces of T h (2 behind the row-parallel products, 2 of the gradients in front
 * of the column-parallel ones); the embedding's partial rows and the gradient in front of the head add one each. A ring
 * moves an all- reduce twice: 8 T h. No gradient is a partial sum. */
static void expect_tp(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, GAL_OP_ALL_REDUCE, 4, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)T * H);
    gal_step_loss(e, 4, T);
}

/* Recompute adds nothing: a block's input is kept, and the only collective of its forward makes its output, which its
 * backward does not read. (For whole layers under one checkpoint it would be 5, 10 T h: attention's is needed again.)
 */
static void expect_tp_recompute(expected *e, uint32_t rank)
{
    expect_tp(e, rank);
}

/* TP with sequence parallelism, per layer and microbatch: forward 2 gathers and 2 scatters, backward 2 scatters, 2
 * gathers of the outputs' gradients and 2 more of the inputs, kept as chunks: 10 T h in all, in chunks of T h / 4. The
 * embedding scatters its partial rows and gathers their gradient, the head gathers its rows once and scatters their
 * gradient. Vectors and positions see only a chunk of the rows: their gradients are partial sums over TP. */
static void expect_tp_sp(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, GAL_OP_ALL_GATHER, 4, M * (6 * L + 2), M * (6 * L + 2) * (uint64_t)T * H / 4);
    add(e, GAL_OP_REDUCE_SCATTER, 4, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)T * H / 4);
    gal_step_loss(e, 4, T);
    reduce_vectors(e, 4);
    add(e, GAL_OP_ALL_REDUCE, 4, 1, WPE);
}

/* Products cut in two by rows: of a block's layer an all-reduce of T / 2 tokens for each half, forward and backward;
 * recompute has none. */
static void expect_tp_intra_op(expected *e, uint32_t rank)
{
    (void)rank;
    const uint32_t calls = 2 * L * 2 * 2;
    add(e, GAL_OP_ALL_REDUCE, 4, M * (calls + 2), M * ((uint64_t)calls * (T / 2) + 2 * T) * H);
    gal_step_loss(e, 4, T);
}

/* All of forward again, as Megatron-LM has it: an all-reduce of each block more. */
static void expect_tp_repeat(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, GAL_OP_ALL_REDUCE, 4, M * (6 * L + 2), M * (6 * L + 2) * (uint64_t)T * H);
    gal_step_loss(e, 4, T);
}

/* With sequence parallelism a scatter more; the gather is there in any case. */
static void expect_tp_sp_repeat(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, GAL_OP_ALL_GATHER, 4, M * (6 * L + 2), M * (6 * L + 2) * (uint64_t)T * H / 4);
    add(e, GAL_OP_REDUCE_SCATTER, 4, M * (6 * L + 2), M * (6 * L + 2) * (uint64_t)T * H / 4);
    gal_step_loss(e, 4, T);
    reduce_vectors(e, 4);
    add(e, GAL_OP_ALL_REDUCE, 4, 1, WPE);
}

/* Two sub-batches of T / 2 tokens (Oases, section 3): a block has an all-reduce forward and one backward for each, and
 * one more in recompute where that runs all of forward again. */
static void halved_tp(expected *e, uint32_t in_recompute)
{
    const uint32_t calls = 2 * L * 2 * (1 + in_recompute + 1);
    add(e, GAL_OP_ALL_REDUCE, 4, M * (calls + 2), M * ((uint64_t)calls * (T / 2) + 2 * T) * H);
    gal_step_loss(e, 4, T);
}

static void expect_tp_fine(expected *e, uint32_t rank)
{
    (void)rank;
    halved_tp(e, 0);
}

static void expect_tp_cross_pass(expected *e, uint32_t rank)
{
    (void)rank;
    halved_tp(e, 1);
}

/* With sequence parallelism: of a block and sub-batch forward a gather and a scatter, backward a gather and a scatter.
 * In recompute the gather stays, whatever the overlap: its result is an operand of the weights' gradients and only its
 * chunk is kept. The scatter behind it is what fine does without. */
static void halved_tp_sp(expected *e, uint32_t scatters_in_recompute)
{
    const uint32_t gathers = 2 * L * 2 * 3, scatters = 2 * L * 2 * (2 + scatters_in_recompute);
    add(e, GAL_OP_ALL_GATHER, 4, M * (gathers + 2), M * ((uint64_t)gathers * (T / 2) + 2 * T) * H / 4);
    add(e, GAL_OP_REDUCE_SCATTER, 4, M * (scatters + 2), M * ((uint64_t)scatters * (T / 2) + 2 * T) * H / 4);
    gal_step_loss(e, 4, T);
    reduce_vectors(e, 4);
    add(e, GAL_OP_ALL_REDUCE, 4, 1, WPE);
}

static void expect_tp_sp_fine(expected *e, uint32_t rank)
{
    (void)rank;
    halved_tp_sp(e, 0);
}

static void expect_tp_sp_cross_pass(expected *e, uint32_t rank)
{
    (void)rank;
    halved_tp_sp(e, 1);
}

/* TP over 2 inside DP over 2: a device has half of the samples, so T / 2 tokens, and half of each matrix; vectors and
 * positions are whole. TP and DP groups both have 2 ranks. */
static void expect_tp_dp(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, GAL_OP_ALL_REDUCE, 2, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)(T / 2) * H);
    gal_step_loss(e, 2, T / 2);
    reduce_vectors(e, 2);
    add(e, GAL_OP_ALL_REDUCE, 2, LAYER_MATRIX_UNITS * L + 3,
        (uint64_t)LAYER_MATRICES * L / 2 + WTE / 2 + WPE + WTE / 2);
}

/* ---- sequence parallelism ---- */

/* Ulysses over n devices that have `tokens` tokens together, in `passes` passes through attention (forward, backward):
 * queries, keys and values there, 3 of tokens h / n elements on a device, and h back; an n-th of them to each. */
static void exchange_heads(expected *e, uint32_t n, uint32_t tokens, uint32_t passes)
{
    add(e, GAL_OP_ALL_TO_ALL, n, (uint64_t)M * L * passes * 2, (uint64_t)M * L * passes * 4 * tokens * H / n / n);
}

/* Every gradient is a partial sum, as over DP. */
static void expect_ulysses(expected *e, uint32_t rank)
{
    expect_dp(e, rank);
    exchange_heads(e, 4, T, 2);
}

/* A recomputed attention takes both exchanges of forward again: the product behind it reads its output. */
static void expect_ulysses_recompute(expected *e, uint32_t rank)
{
    expect_dp(e, rank);
    exchange_heads(e, 4, T, 3);
}

/* States are cut over all 4; each pair exchanges heads of half of the samples. */
static void expect_ulysses_zero_3(expected *e, uint32_t rank)
{
    expect_zero_3(e, rank);
    exchange_heads(e, 2, T / 2, 2);
}

/* Half of the heads are a device of TP's; of their features each of two has a half. Rows between blocks are half of the
 * positions. */
static void expect_ulysses_tp(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, GAL_OP_ALL_REDUCE, 2, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)(T / 2) * H);
    gal_step_loss(e, 2, T / 2);
    reduce_vectors(e, 2);
    add(e, GAL_OP_ALL_REDUCE, 2, LAYER_MATRIX_UNITS * L + 3,
        (uint64_t)LAYER_MATRICES * L / 2 + WTE / 2 + WPE + WTE / 2);
    add(e, GAL_OP_ALL_TO_ALL, 2, (uint64_t)M * L * 4, (uint64_t)M * L * 8 * T * (H / 2) / 4);
}

/* A ring of 4: keys and values of a chunk, 2 T h / 4 elements, take 3 hops in a pass through attention; the gradients
 * of both take 4 in backward, home. */
static void pass_keys(expected *e, uint64_t hops)
{
    add(e, GAL_OP_ROTATE, 4, M * L * hops, M * L * hops * 2 * T * H / 4);
}

static void expect_ring(expected *e, uint32_t rank)
{
    expect_dp(e, rank);
    pass_keys(e, 3 + 3 + 4);
}

static void expect_ring_recompute(expected *e, uint32_t rank)
{
    expect_dp(e, rank);
    pass_keys(e, 3 + 3 + 3 + 4);
}

/* Zig-zag every device also trades half of its queries, keys and values, 3 T h / 8 elements, and of the context, T h /
 * 8, forward, and of their gradients backward. A recomputed attention trades both again: the product behind it reads
 * its context. */
static void trade_halves(expected *e, uint64_t passes)
{
    add(e, GAL_OP_MIRROR, 4, M * L * 2 * passes, M * L * passes * 4 * T * H / 8);
}

static void expect_zigzag(expected *e, uint32_t rank)
{
    expect_ring(e, rank);
    trade_halves(e, 2);
}

static void expect_zigzag_recompute(expected *e, uint32_t rank)
{
    expect_ring_recompute(e, rank);
    trade_halves(e, 3);
}

/* ---- pipeline ---- */

/* 4 stages of one rank: of every microbatch T h forward over each border and T h back. */
static void expect_pipeline(expected *e, uint32_t rank)
{
    const uint32_t borders = rank == 0 || rank == 3 ? 1 : 2;
    add(e, GAL_OP_SEND, 2, M * borders, M * borders * (uint64_t)T * H);
    add(e, GAL_OP_RECEIVE, 2, M * borders, M * borders * (uint64_t)T * H);
}

/* 2 stages of DP 2 with a tied table: T / 2 tokens per device cross the border; gradients are all-reduced within the
 * stage; that of the table then once more between its two copies. Stage 0 has the embedding and layer 0, stage 1 layer
 * 1 and the head. */
static void expect_tied_pipeline(expected *e, uint32_t rank)
{
    add(e, GAL_OP_SEND, 2, M, M * (uint64_t)(T / 2) * H);
    add(e, GAL_OP_RECEIVE, 2, M, M * (uint64_t)(T / 2) * H);
    add(e, GAL_OP_ALL_REDUCE, 2, LAYER_VECTOR_UNITS + LAYER_MATRIX_UNITS, LAYER_VECTORS + LAYER_MATRICES);
    add(e, GAL_OP_ALL_REDUCE, 2, 2, rank < 2 ? WTE + WPE : WTE + HEAD_VECTORS);
    add(e, GAL_OP_ALL_REDUCE, 2, 1, WTE);
}

/* ---- conversions ---- */

/* DP 4 | TP 4 | TP 4 with SP | DP 4 ...: embedding | attention | FFN | the rest.
 * DP -> TP: the samples are gathered; backward takes its own (0).
 * TP -> SP: takes its own positions (0); backward gathers them.
 * SP -> DP: positions against samples, all-to-all both ways: T h / 4 elements per rank, a quarter of them to each.
 * Attention under TP: 2 all-reduces; the FFN under SP: 3 gathers and 2 scatters. Its vectors' gradients are partial
 * over TP as those of DP blocks over DP; attention's are complete, its matrices are split. */
static void expect_conversions(expected *e, uint32_t rank)
{
    const uint64_t quarter = (uint64_t)T * H / 4;
    (void)rank;
    add(e, GAL_OP_ALL_GATHER, 4, M, M * quarter);
    add(e, GAL_OP_ALL_GATHER, 4, M, M * quarter);
    add(e, GAL_OP_ALL_TO_ALL, 4, 2 * M, 2 * M * quarter / 4);
    add(e, GAL_OP_ALL_REDUCE, 4, 2 * M, 2 * M * (uint64_t)T * H);
    add(e, GAL_OP_ALL_GATHER, 4, 3 * M, 3 * M * quarter);
    add(e, GAL_OP_REDUCE_SCATTER, 4, 2 * M, 2 * M * quarter);
    add(e, GAL_OP_ALL_REDUCE, 4, 2, WTE + WPE);                      /* embedding */
    add(e, GAL_OP_ALL_REDUCE, 4, 1, LAYER_VECTORS / 2);              /* FFN of layer 0 */
    add(e, GAL_OP_ALL_REDUCE, 4, 6, LAYER_VECTORS + LAYER_MATRICES); /* layer 1 */
    add(e, GAL_OP_ALL_REDUCE, 4, 2, HEAD_VECTORS + WTE);
}

/* ---- modes ---- */

#define DP_4                                                                                                           \
    {                                                                                                                  \
        .axis_count = 1, .axis = { {GAL_AXIS_DP, 4} }                                                                  \
    }
#define ZERO_4(stage)                                                                                                  \
    {                                                                                                                  \
        .axis_count = 1, .axis = {{GAL_AXIS_SDP, 4}}, .zero_stage = stage                                              \
    }
#define TP_4(sp, how)                                                                                                  \
    {                                                                                                                  \
        .axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .sequence_parallel = sp, .recompute = how                         \
    }
#define TP_4_OVERLAP(sp, kind)                                                                                         \
    {                                                                                                                  \
        .axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .sequence_parallel = sp, .recompute = GAL_RECOMPUTE_FULL,         \
        .overlap = kind                                                                                                \
    }

typedef struct mode {
    const char *name;
    void (*expect)(expected *e, uint32_t rank);
    uint32_t stages;
    bool tied;
    gal_strategy strategy; /* of all blocks, but in "conversions" */
} mode;

static const mode modes[] = {
    {"dp4", expect_dp, 1, false, DP_4},
    {"zero1-4", expect_zero_1, 1, false, ZERO_4(1)},
    {"zero2-4", expect_zero_2, 1, false, ZERO_4(2)},
    {"zero3-4", expect_zero_3, 1, false, ZERO_4(3)},
    {"zero3-2-dp2",
     expect_zero_3_dp,
     1,
     false,
     {.axis_count = 2, .axis = {{GAL_AXIS_SDP, 2}, {GAL_AXIS_DP, 2}}, .zero_stage = 3}},
    {"tp4", expect_tp, 1, false, TP_4(false, GAL_RECOMPUTE_NONE)},
    {"tp4-recompute", expect_tp_recompute, 1, false, TP_4(false, GAL_RECOMPUTE_FULL)},
    {"tp4.sp", expect_tp_sp, 1, false, TP_4(true, GAL_RECOMPUTE_NONE)},
    {"tp4.sp-recompute", expect_tp_sp, 1, false, TP_4(true, GAL_RECOMPUTE_FULL)},
    {"tp4-intraop", expect_tp_intra_op, 1, false, {1, {{GAL_AXIS_TP, 4}}, .overlap = GAL_OVERLAP_INTRA_OP}},
    {"tp4-recompute-intraop", expect_tp_intra_op, 1, false, TP_4_OVERLAP(false, GAL_OVERLAP_INTRA_OP)},
    {"tp4-repeat", expect_tp_repeat, 1, false, TP_4(false, GAL_RECOMPUTE_REPEAT)},
    {"tp4.sp-repeat", expect_tp_sp_repeat, 1, false, TP_4(true, GAL_RECOMPUTE_REPEAT)},
    {"tp4-inpass", expect_tp_fine, 1, false, {1, {{GAL_AXIS_TP, 4}}, .overlap = GAL_OVERLAP_IN_PASS}},
    {"tp4-recompute-inpass", expect_tp_cross_pass, 1, false, TP_4_OVERLAP(false, GAL_OVERLAP_IN_PASS)},
    {"tp4-recompute-crosspass", expect_tp_cross_pass, 1, false, TP_4_OVERLAP(false, GAL_OVERLAP_CROSS_PASS)},
    {"tp4-recompute-fine", expect_tp_fine, 1, false, TP_4_OVERLAP(false, GAL_OVERLAP_FINE)},
    {"tp4.sp-recompute-inpass", expect_tp_sp_cross_pass, 1, false, TP_4_OVERLAP(true, GAL_OVERLAP_IN_PASS)},
    {"tp4.sp-recompute-crosspass", expect_tp_sp_cross_pass, 1, false, TP_4_OVERLAP(true, GAL_OVERLAP_CROSS_PASS)},
    {"tp4.sp-recompute-fine", expect_tp_sp_fine, 1, false, TP_4_OVERLAP(true, GAL_OVERLAP_FINE)},
    {"tp2-dp2", expect_tp_dp, 1, false, {.axis_count = 2, .axis = {{GAL_AXIS_TP, 2}, {GAL_AXIS_DP, 2}}}},
    {"ulysses4", expect_ulysses, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_ULYSSES, 4}}}},
    {"ulysses4-recompute",
     expect_ulysses_recompute,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_ULYSSES, 4}}, .recompute = GAL_RECOMPUTE_FULL}},
    {"ulysses2-zero3-2",
     expect_ulysses_zero_3,
     1,
     false,
     {.axis_count = 2, .axis = {{GAL_AXIS_ULYSSES, 2}, {GAL_AXIS_SDP, 2}}, .zero_stage = 3}},
    {"tp2-ulysses2", expect_ulysses_tp, 1, false, {.axis_count = 2, .axis = {{GAL_AXIS_TP, 2}, {GAL_AXIS_ULYSSES, 2}}}},
    {"ring4", expect_ring, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_RING, 4}}}},
    {"ring4-recompute",
     expect_ring_recompute,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_RING, 4}}, .recompute = GAL_RECOMPUTE_SELECTIVE}},
    {"zigzag4", expect_zigzag, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_ZIGZAG, 4}}}},
    {"zigzag4-recompute",
     expect_zigzag_recompute,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_ZIGZAG, 4}}, .recompute = GAL_RECOMPUTE_FULL}},
    {"tp4.2d", gal_step_2d, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .tp_mode = GAL_TP_2D}},
    {"tp4.2d.step",
     gal_step_2d_stepped,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .tp_mode = GAL_TP_2D, .stepped = true}},
    {"tp4.2d.step-zero3-2",
     gal_step_2d_stepped_zero_3,
     1,
     false,
     {.axis_count = 2,
      .axis = {{GAL_AXIS_TP, 4}, {GAL_AXIS_SDP, 2}},
      .tp_mode = GAL_TP_2D,
      .zero_stage = 3,
      .stepped = true}},
    {"tp8.2.5d.d2.step",
     gal_step_2p5d_stepped,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_2P5D, .tp_depth = 2, .stepped = true}},
    {"tp8.2.5d.d2",
     gal_step_2p5d,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_2P5D, .tp_depth = 2}},
    {"tp8.3d.keep",
     gal_step_3d_kept,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D, .keep_panels = true}},
    {"tp4.2d.keep",
     gal_step_2d_kept,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .tp_mode = GAL_TP_2D, .keep_panels = true}},
    {"tp8.3d", gal_step_3d, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D}},
    {"tp8.3d.keepw.z2",
     gal_step_3d_weights_2,
     1,
     false,
     {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D, .zero_stage = 2, .keep_weights = true}},
    {"tp8.3d.keep.keepw.z1",
     gal_step_3d_both_1,
     1,
     false,
     {.axis_count = 1,
      .axis = {{GAL_AXIS_TP, 8}},
      .tp_mode = GAL_TP_3D,
      .zero_stage = 1,
      .keep_panels = true,
      .keep_weights = true}},
    {"t5.tp4.2d", gal_step_t5_2d, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .tp_mode = GAL_TP_2D}},
    {"t5.tp8.3d", gal_step_t5_3d, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D}},
    {"swin.tp4.2d", gal_step_swin_2d, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}, .tp_mode = GAL_TP_2D}},
    {"swin.tp8.3d", gal_step_swin_3d, 1, false, {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D}},
    {"pp4", expect_pipeline, 4, false, {0}},
    {"pp2-dp2-tied", expect_tied_pipeline, 2, true, {.axis_count = 1, .axis = {{GAL_AXIS_DP, 2}}}},
    {"conversions", expect_conversions, 1, false, DP_4},
};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

/* Modes of other families than GPT. */
static const struct {
    void (*expect)(expected *e, uint32_t rank);
    void (*turn)(gal_model *model);
} others[] = {{gal_step_t5_2d, gal_step_turn_to_t5},
              {gal_step_t5_3d, gal_step_turn_to_t5},
              {gal_step_swin_2d, gal_step_turn_to_swin},
              {gal_step_swin_3d, gal_step_turn_to_swin}};

static void make_model(const mode *at, gal_model *model)
{
    gal_model_defaults(model);
    model->layer_count = L;
    model->hidden = H;
    model->ffn_hidden = F;
    model->head_count = HEADS;
    model->sequence_length = S;
    model->vocabulary = VOCABULARY;
    model->vocabulary_multiple = V;
    model->tied_embeddings = at->tied;
    model->compute_dtype = GAL_FP64;
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (at->expect == others[i].expect) {
            others[i].turn(model);
        }
    }
}

void gal_step_mode_plan(uint32_t index, gal_step_plan *storage)
{
    const mode *at = &modes[index];
    gal_plan *out = &storage->plan;
    gal_plan_stage *stage = storage->stage;
    gal_plan_run *run = storage->run;
    *out = (gal_plan){.global_batch_samples = M * B,
                      .microbatch_count = M,
                      .pp_degree = at->stages,
                      .schedule = GAL_SCHEDULE_1F1B,
                      .prefetch_depth = 2,
                      .stage_count = at->stages,
                      .stage = stage,
                      .run = run};
    make_model(at, &out->model);
    const uint32_t blocks = out->run_count = gal_model_block_count(&out->model);
    GAL_ASSERT(blocks <= GAL_STEP_BLOCKS_MAX);
    out->cluster.device_count = gal_step_mode_ranks(index);
    for (uint32_t i = 0; i < blocks; i++) {
        run[i] = (gal_plan_run){1, at->strategy};
    }
    if (at->expect == expect_conversions) {
        const gal_strategy tp = TP_4(false, GAL_RECOMPUTE_NONE), tp_sp = TP_4(true, GAL_RECOMPUTE_NONE);
        run[1].strategy = tp;
        run[2].strategy = tp_sp;
    }
    for (uint32_t s = 0; s < at->stages; s++) {
        const uint32_t first = blocks * s / at->stages, end = blocks * (s + 1) / at->stages;
        stage[s] = (gal_plan_stage){.first_run = first, .run_count = end - first};
    }
}

uint32_t gal_step_mode_count(void)
{
    return MODE_COUNT;
}

uint32_t gal_step_mode_ranks(uint32_t index)
{
    uint32_t ranks = modes[index].stages;
    for (uint32_t i = 0; i < modes[index].strategy.axis_count; i++) {
        ranks *= modes[index].strategy.axis[i].degree;
    }
    return ranks;
}

const char *gal_step_mode_name(uint32_t index)
{
    return modes[index].name;
}

void gal_step_mode_expect(uint32_t index, uint32_t rank, gal_step_counts *out)
{
    out->count = 0;
    modes[index].expect(out, rank);
    add(out, GAL_OP_ALL_REDUCE, gal_step_mode_ranks(index), 1, 2);
}
