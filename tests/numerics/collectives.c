/* Communication of a training step, by mode, as closed forms: what libpmpi_count.so must have counted.
 *
 *     mpirun -np 4 collectives           runs a step of every mode; the counting layer's phase is the mode's name
 *     collectives expect RANK            prints what rank RANK of those 4 does in it, as the counting layer does
 *
 * The forms below know the model and the mode, nothing of programs. h hidden, f FFN, s sequence, V padded vocabulary,
 * L layers, m microbatches, b samples of one, T = b s its tokens. Bytes are as the layer counts them: the whole buffer
 * of an all-reduce or transfer, one member's share of the others. Every mode has one all-reduce over all ranks of two
 * fp64 more: squares of the gradients and the loss. All-reduces are in place, and so is what ZeRO does with buffers
 * that stay whole: the scatter of stage 1, the gather of stages 1 and 2. No communicator is made in a step. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"
#include "tests/support/numerics_trial.h"

enum { RANKS = 4, L = 2, H = 32, F = 64, HEADS = 4, S = 8, V = 64, VOCABULARY = 61, M = 2, B = 4, T = B * S };
enum { BLOCKS = 2 * L + 2, ITEM_BYTES = 8 };

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

typedef struct tally {
    const char *function;
    uint32_t group;
    uint64_t calls, in_place, elements;
} tally;

enum { ROWS = 16 };
typedef struct expected {
    tally row[ROWS];
    uint32_t count;
} expected;

static const char all_reduce[] = "MPI_Iallreduce";
static const char reduce_scatter[] = "MPI_Ireduce_scatter_block";
static const char all_gather[] = "MPI_Iallgather";
static const char all_to_all[] = "MPI_Ialltoall";
static const char send[] = "MPI_Isend";
static const char receive[] = "MPI_Irecv";

/* `calls` calls that carry `elements` elements in all, `in_place` of them in place. */
static void add_calls(expected *e, const char *function, uint32_t group, uint64_t calls, uint64_t in_place,
                      uint64_t elements)
{
    uint32_t i = 0;
    while (i < e->count && (e->row[i].group != group || strcmp(e->row[i].function, function) != 0)) {
        i++;
    }
    GAL_ASSERT(i < ROWS);
    if (calls == 0) {
        return;
    }
    if (i == e->count) {
        e->row[e->count++] = (tally){function, group, 0, 0, 0};
    }
    e->row[i].calls += calls;
    e->row[i].in_place += in_place;
    e->row[i].elements += elements;
}

/* In place as far as the function is always. */
static void add(expected *e, const char *function, uint32_t group, uint64_t calls, uint64_t elements)
{
    add_calls(e, function, group, calls, function == all_reduce ? calls : 0, elements);
}

/* ---- parameters ---- */

/* Vectors of all blocks, once a step: every unit one all-reduce over `group` ranks. */
static void reduce_vectors(expected *e, uint32_t group)
{
    add(e, all_reduce, group, LAYER_VECTOR_UNITS * L + 1, LAYER_VECTORS * L + HEAD_VECTORS);
}

/* DP over 4: every gradient all-reduced once a step, whatever m is. 2 + 6 L + 2 units. */
static void expect_dp(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    add(e, all_reduce, 4, LAYER_MATRIX_UNITS * L + 3, (uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE);
}

/* The matrices in shares of 1/4: wte, wpe, 4 per layer, the head's table. */
static void matrices(expected *e, const char *function, uint32_t times, uint32_t shares, uint32_t group)
{
    add(e, function, group, (uint64_t)times * (LAYER_MATRIX_UNITS * L + 3),
        (uint64_t)times * ((uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / shares);
}

/* The same once, each in place. */
static void matrices_in_place(expected *e, const char *function, uint32_t shares, uint32_t group)
{
    const uint64_t calls = LAYER_MATRIX_UNITS * L + 3;
    add_calls(e, function, group, calls, calls, ((uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / shares);
}

/* ZeRO-1: a reduce-scatter once a step and an all-gather of the updated weights. */
static void expect_zero_1(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices_in_place(e, reduce_scatter, 4, 4);
    matrices_in_place(e, all_gather, 4, 4);
}

/* ZeRO-2: the reduce-scatter of every microbatch, since nobody holds a whole gradient between them. */
static void expect_zero_2(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices(e, reduce_scatter, M, 4, 4);
    matrices_in_place(e, all_gather, 4, 4);
}

/* ZeRO-3, of every microbatch: 2 gathers and 1 scatter of each layer's matrices. The tables of the embedding are not
 * read in backward, and the head's forward is next to its backward: one gather each. No gather after the update. */
static void expect_zero_3(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices(e, reduce_scatter, M, 4, 4);
    add(e, all_gather, 4, M * (2 * LAYER_MATRIX_UNITS * L + 3),
        M * (2 * (uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / 4);
}

/* ZeRO-3 over 2, DP over 2: the same in shares of 1/2; the shards' replicas are all-reduced once a step. Vectors over
 * all 4. */
static void expect_zero_3_dp(expected *e, uint32_t rank)
{
    (void)rank;
    reduce_vectors(e, 4);
    matrices(e, reduce_scatter, M, 2, 2);
    matrices(e, all_reduce, 1, 2, 2);
    add(e, all_gather, 2, M * (2 * LAYER_MATRIX_UNITS * L + 3),
        M * (2 * (uint64_t)LAYER_MATRICES * L + WTE + WPE + WTE) / 2);
}

/* ---- tensor parallelism ---- */

/* The loss over a split vocabulary: the largest logit of each row, then the sum of exponentials and the target's. */
static void expect_loss(expected *e, uint32_t group, uint64_t tokens)
{
    add(e, all_reduce, group, 2 * M, M * 3 * tokens);
}

/* 1D TP: per layer and microbatch 4 all-reduces of T h (2 behind the row-parallel products, 2 of the gradients in front
 * of the column-parallel ones); the embedding's partial rows and the gradient in front of the head add one each. A ring
 * moves an all- reduce twice: 8 T h. No gradient is a partial sum. */
static void expect_tp(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, all_reduce, 4, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)T * H);
    expect_loss(e, 4, T);
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
    add(e, all_gather, 4, M * (6 * L + 2), M * (6 * L + 2) * (uint64_t)T * H / 4);
    add(e, reduce_scatter, 4, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)T * H / 4);
    expect_loss(e, 4, T);
    reduce_vectors(e, 4);
    add(e, all_reduce, 4, 1, WPE);
}

/* TP over 2 inside DP over 2: a device has half of the samples, so T / 2 tokens, and half of each matrix; vectors and
 * positions are whole. TP and DP groups both have 2 ranks. */
static void expect_tp_dp(expected *e, uint32_t rank)
{
    (void)rank;
    add(e, all_reduce, 2, M * (4 * L + 2), M * (4 * L + 2) * (uint64_t)(T / 2) * H);
    expect_loss(e, 2, T / 2);
    reduce_vectors(e, 2);
    add(e, all_reduce, 2, LAYER_MATRIX_UNITS * L + 3, (uint64_t)LAYER_MATRICES * L / 2 + WTE / 2 + WPE + WTE / 2);
}

/* ---- pipeline ---- */

/* 4 stages of one rank: of every microbatch T h forward over each border and T h back. */
static void expect_pipeline(expected *e, uint32_t rank)
{
    const uint32_t borders = rank == 0 || rank == RANKS - 1 ? 1 : 2;
    add(e, send, 2, M * borders, M * borders * (uint64_t)T * H);
    add(e, receive, 2, M * borders, M * borders * (uint64_t)T * H);
}

/* 2 stages of DP 2 with a tied table: T / 2 tokens per device cross the border; gradients are all-reduced within the
 * stage; that of the table then once more between its two copies. Stage 0 has the embedding and layer 0, stage 1 layer
 * 1 and the head. */
static void expect_tied_pipeline(expected *e, uint32_t rank)
{
    add(e, send, 2, M, M * (uint64_t)(T / 2) * H);
    add(e, receive, 2, M, M * (uint64_t)(T / 2) * H);
    add(e, all_reduce, 2, LAYER_VECTOR_UNITS + LAYER_MATRIX_UNITS, LAYER_VECTORS + LAYER_MATRICES);
    add(e, all_reduce, 2, 2, rank < 2 ? WTE + WPE : WTE + HEAD_VECTORS);
    add(e, all_reduce, 2, 1, WTE);
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
    add(e, all_gather, 4, M, M * quarter);
    add(e, all_gather, 4, M, M * quarter);
    add(e, all_to_all, 4, 2 * M, 2 * M * quarter / 4);
    add(e, all_reduce, 4, 2 * M, 2 * M * (uint64_t)T * H);
    add(e, all_gather, 4, 3 * M, 3 * M * quarter);
    add(e, reduce_scatter, 4, 2 * M, 2 * M * quarter);
    add(e, all_reduce, 4, 2, WTE + WPE);                      /* embedding */
    add(e, all_reduce, 4, 1, LAYER_VECTORS / 2);              /* FFN of layer 0 */
    add(e, all_reduce, 4, 6, LAYER_VECTORS + LAYER_MATRICES); /* layer 1 */
    add(e, all_reduce, 4, 2, HEAD_VECTORS + WTE);
}

/* ---- modes ---- */

#define DP_4                                                                                                           \
    {                                                                                                                  \
        1, {{GAL_AXIS_DP, 4}}, 0, false, GAL_RECOMPUTE_NONE                                                            \
    }
#define ZERO_4(stage)                                                                                                  \
    {                                                                                                                  \
        1, {{GAL_AXIS_SDP, 4}}, stage, false, GAL_RECOMPUTE_NONE                                                       \
    }
#define TP_4(sp, recompute)                                                                                            \
    {                                                                                                                  \
        1, {{GAL_AXIS_TP, 4}}, 0, sp, recompute                                                                        \
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
     {2, {{GAL_AXIS_SDP, 2}, {GAL_AXIS_DP, 2}}, 3, false, GAL_RECOMPUTE_NONE}},
    {"tp4", expect_tp, 1, false, TP_4(false, GAL_RECOMPUTE_NONE)},
    {"tp4-recompute", expect_tp_recompute, 1, false, TP_4(false, GAL_RECOMPUTE_FULL)},
    {"tp4.sp", expect_tp_sp, 1, false, TP_4(true, GAL_RECOMPUTE_NONE)},
    {"tp4.sp-recompute", expect_tp_sp, 1, false, TP_4(true, GAL_RECOMPUTE_FULL)},
    {"tp2-dp2", expect_tp_dp, 1, false, {2, {{GAL_AXIS_TP, 2}, {GAL_AXIS_DP, 2}}, 0, false, GAL_RECOMPUTE_NONE}},
    {"pp4", expect_pipeline, 4, false, {0}},
    {"pp2-dp2-tied", expect_tied_pipeline, 2, true, {1, {{GAL_AXIS_DP, 2}}, 0, false, GAL_RECOMPUTE_NONE}},
    {"conversions", expect_conversions, 1, false, DP_4},
};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

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
}

static void make_plan(const mode *at, gal_plan *out, gal_plan_stage stage[RANKS], gal_plan_run run[BLOCKS])
{
    *out = (gal_plan){.global_batch_samples = M * B,
                      .microbatch_count = M,
                      .pp_degree = at->stages,
                      .schedule = GAL_SCHEDULE_1F1B,
                      .prefetch_depth = 2,
                      .stage_count = at->stages,
                      .stage = stage,
                      .run_count = BLOCKS,
                      .run = run};
    make_model(at, &out->model);
    out->cluster.device_count = RANKS;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        run[i] = (gal_plan_run){1, at->strategy};
    }
    if (at->expect == expect_conversions) {
        const gal_strategy tp = TP_4(false, GAL_RECOMPUTE_NONE), tp_sp = TP_4(true, GAL_RECOMPUTE_NONE);
        run[1].strategy = tp;
        run[2].strategy = tp_sp;
    }
    for (uint32_t s = 0; s < at->stages; s++) {
        const uint32_t first = BLOCKS * s / at->stages, end = BLOCKS * (s + 1) / at->stages;
        stage[s] = (gal_plan_stage){first, end - first, 0};
    }
}

static void name_phase(const char *name)
{
    void (*phase)(const char *);
    void *symbol = dlsym(RTLD_DEFAULT, "pmpi_count_phase");
    memcpy(&phase, &symbol, sizeof phase);
    if (phase != NULL) {
        phase(name);
    }
}

/* The second step is counted: nothing is special about the first. */
static gal_code run_mode(const mode *at, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan plan;
    gal_plan_stage stage[RANKS];
    gal_plan_run run[BLOCKS];
    gal_trial trial;
    gal_step_result result;
    memset(&trial, 0, sizeof trial);
    make_plan(at, &plan, stage, run);
    GAL_TRY(gal_plan_check(&plan, at->name, err));
    GAL_TRY(gal_trial_create(&plan, 1, NULL, &trial, err));
    for (uint64_t step = 0; step < 2; step++) {
        const gal_step_settings settings = {step, 1, 1e-3};
        name_phase(step == 0 ? "other" : at->name);
        GAL_TRY(gal_engine_step(trial.engine, &settings, &result, err));
    }
cleanup:
    name_phase("other");
    gal_trial_free(&trial);
    return code;
}

static void print_expected(const mode *at, uint32_t rank)
{
    expected e = {.count = 0};
    at->expect(&e, rank);
    add(&e, all_reduce, RANKS, 1, 2);
    for (uint32_t i = 0; i < e.count; i++) {
        (void)printf("%s %s %u %llu %llu %llu\n", at->name, e.row[i].function, e.row[i].group,
                     (unsigned long long)e.row[i].calls, (unsigned long long)e.row[i].in_place,
                     (unsigned long long)e.row[i].elements * ITEM_BYTES);
    }
}

int main(int argc, char **argv)
{
    gal_error err = {GAL_OK, ""};
    if (argc == 3 && strcmp(argv[1], "expect") == 0) {
        for (uint32_t i = 0; i < MODE_COUNT; i++) {
            print_expected(&modes[i], (uint32_t)strtoul(argv[2], NULL, 10));
        }
        return 0;
    }
    gal_code code = gal_mpi_init(&argc, &argv, &err);
    if (code == GAL_OK && gal_mpi_world_size() != RANKS) {
        code = gal_fail(&err, GAL_ERR_USAGE, "needs %d ranks", RANKS);
    }
    for (uint32_t i = 0; code == GAL_OK && i < MODE_COUNT; i++) {
        code = run_mode(&modes[i], &err);
    }
    if (code != GAL_OK) {
        (void)fprintf(stderr, "collectives: %s\n", err.text);
        return (int)code;
    }
    gal_mpi_finalize();
    return 0;
}
