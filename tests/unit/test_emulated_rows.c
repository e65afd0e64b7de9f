/* Device kernels that move or add rows, on emulated threads, against the host's in fp64: every type, rows that can and
 * that cannot be accessed by 16 bytes. Where numbers only move, the bits are equal. u is 2^-24, what fp32 arithmetic
 * rounds by; device_case_expect adds the rounding of the result. */
#include <math.h>

#include "runtime/ops/cuda/gemm_bias.h"
#include "tests/support/emulated/device_case.h"

static const double u = 0x1p-24;
static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};

typedef void (*one_case)(device_case *at, uint32_t width);

/* Rows of 48 at even and odd addresses, of 37, and of 1; all types. */
static void in_all_forms(one_case run)
{
    static const uint32_t widths[] = {48, 37, 1};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t w = 0; w < 3; w++) {
            for (uint32_t odd = 0; odd < 2; odd++) {
                device_case at;
                device_case_init(&at, types[t], odd != 0);
                run(&at, widths[w]);
                device_case_free(&at);
            }
        }
    }
}

/* 2 blocks at rank 1 of 2, tokens of others among them. */
static void embed_case(device_case *at, uint32_t hidden)
{
    enum { SAMPLES = 3, SEQUENCE = 25, VOCABULARY = 11 };
    int32_t tokens[SAMPLES * SEQUENCE];
    for (int32_t i = 0; i < SAMPLES * SEQUENCE; i++) {
        tokens[i] = i * 7 % 23;
    }
    at->ops.call.group_index = 1;
    at->ops.call.group_count = 2;
    device_case_add_tokens(at, tokens, SAMPLES * SEQUENCE);
    device_case_add(at, ELEMENT, VOCABULARY * hidden, 1.0, 1);
    const operand *e = device_case_add(at, ELEMENT, SAMPLES * SEQUENCE * hidden, 0.0, 0);
    device_case_run(at, GAL_OP_EMBED, DIMS(SAMPLES, SEQUENCE, hidden, VOCABULARY));
    device_case_expect_all(at, e, 0.0);
}

static void embed(void **state)
{
    (void)state;
    in_all_forms(embed_case);
}

/* 231 tokens: 8 pieces of 32. Token 5 fills two pieces and parts of their neighbours, others lie within a piece, at its
 * ends, or nowhere; `common` is the number of 5s. Sums of at most 231 numbers within 1. */
static void embed_backward_of(device_case *at, uint32_t hidden, int32_t common, bool add)
{
    enum { SAMPLES = 3, SEQUENCE = 77, VOCABULARY = 40, COUNT = SAMPLES * SEQUENCE };
    int32_t tokens[COUNT];
    for (int32_t i = 0; i < COUNT; i++) {
        const int32_t place = i * 100 % COUNT; /* 100 and 231 have no common divisor */
        tokens[i] = place < common ? 5 : place * 13 % 47 - 3;
    }
    at->ops.call.add = add;
    device_case_add_tokens(at, tokens, COUNT);
    device_case_add(at, ELEMENT, (size_t)COUNT * hidden, 1.0, 2);
    const operand *dtable = device_case_add(at, FLOAT, (size_t)VOCABULARY * hidden, add ? 1.0 : 0.0, 3);
    device_case_run(at, GAL_OP_EMBED_BACKWARD, DIMS(SAMPLES, SEQUENCE, hidden, VOCABULARY));
    device_case_expect_all(at, dtable, COUNT * u * COUNT);
    device_case_free(at);
}

static void embed_backward_case(device_case *at, uint32_t hidden)
{
    static const int32_t common[] = {0, 1, 90, 231};
    for (uint32_t i = 0; i < 4; i++) {
        embed_backward_of(at, hidden, common[i], false);
        embed_backward_of(at, hidden, common[i], true);
    }
}

static void embed_backward(void **state)
{
    (void)state;
    in_all_forms(embed_backward_case);
}

/* Numbers that are small and whole: sums are exact in any order. No row is left out, or counted twice. */
static void count_rows(const int32_t *tokens, uint32_t sequence, uint32_t vocabulary)
{
    enum { HIDDEN = 4 };
    device_case at;
    device_case_init(&at, GAL_FP32, false);
    device_case_add_tokens(&at, tokens, sequence);
    operand *de = device_case_add(&at, ELEMENT, sequence * HIDDEN, 1.0, 1);
    const operand *dtable = device_case_add(&at, FLOAT, vocabulary * HIDDEN, 0.0, 0);
    for (size_t i = 0; i < de->count; i++) {
        de->exact[i] = (double)(i % 5) - 2.0;
    }
    device_case_run(&at, GAL_OP_EMBED_BACKWARD, DIMS(1, sequence, HIDDEN, vocabulary));
    device_case_expect_all(&at, dtable, 0.0);
    device_case_free(&at);
}

static void embed_backward_counts_each_row_once(void **state)
{
    (void)state;
    enum { SEQUENCE = 1200, VOCABULARY = 7 };
    int32_t tokens[SEQUENCE];
    uint64_t seed = 9;
    for (size_t i = 0; i < SEQUENCE; i++) {
        tokens[i] = (int32_t)(fabs(ops_random(&seed)) * VOCABULARY);
    }
    count_rows(tokens, SEQUENCE, VOCABULARY);
}

/* In order, table rows begin and end with pieces of 32: one is a piece, one is two, one a piece and one more, one the
 * rest of that piece, one alone. */
static void embed_backward_of_whole_pieces(void **state)
{
    (void)state;
    static const uint32_t counts[] = {32, 64, 33, 31, 1};
    int32_t tokens[32 + 64 + 33 + 31 + 1];
    uint32_t total = 0;
    for (int32_t row = 0; row < 5; row++) {
        for (uint32_t i = 0; i < counts[row]; i++) {
            tokens[total++] = row;
        }
    }
    count_rows(tokens, total, 5);
}

/* Four terms within 1, doubled by dropout. */
static void position_of(device_case *at, uint32_t hidden, uint32_t types_count, uint32_t class_token, double dropout)
{
    enum { SAMPLES = 3, POSITIONS = 5, SEQUENCE = 12 };
    at->ops.model.sequence_length = SEQUENCE;
    at->ops.model.embedding_dropout = dropout;
    at->ops.step.step = 5;
    at->ops.call.block = 3;
    at->ops.call.position_begin = class_token != 0 ? 0 : 4;
    at->ops.sample_map[1] = 7;
    device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 1.0, 1);
    device_case_add(at, ELEMENT, SEQUENCE * hidden, 1.0, 2);
    const operand *y = device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 0.0, 0);
    if (types_count + class_token > 0) {
        device_case_add(at, ELEMENT, (types_count + class_token) * hidden, 1.0, 3);
    }
    device_case_run(at, GAL_OP_POSITION, DIMS(SAMPLES, POSITIONS, hidden, SEQUENCE, types_count, class_token));
    device_case_expect_all(at, y, 4 * u * 6);
    device_case_free(at);
}

static void position_case(device_case *at, uint32_t hidden)
{
    position_of(at, hidden, 0, 0, 0.0);
    position_of(at, hidden, 2, 0, 0.0);
    position_of(at, hidden, 0, 1, 0.5);
    position_of(at, hidden, 2, 0, 0.3);
}

static void position(void **state)
{
    (void)state;
    in_all_forms(position_case);
}

/* Sums over 3 samples, and of the type over 5 positions of them; numbers within 1, doubled by dropout. */
static void position_backward_of(device_case *at, uint32_t hidden, uint32_t types_count, uint32_t class_token,
                                 double dropout, bool add)
{
    enum { SAMPLES = 3, POSITIONS = 5, SEQUENCE = 12 };
    at->ops.model.sequence_length = SEQUENCE;
    at->ops.model.embedding_dropout = dropout;
    at->ops.call.position_begin = class_token != 0 ? 0 : 4;
    at->ops.call.add = add;
    device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 1.0, 1);
    const operand *de = device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 0.0, 0);
    const operand *dtable = device_case_add(at, FLOAT, SEQUENCE * hidden, add ? 1.0 : 0.0, 2);
    const operand *more = NULL;
    if (types_count + class_token > 0) {
        more = device_case_add(at, FLOAT, (types_count + class_token) * hidden, add ? 1.0 : 0.0, 3);
    }
    device_case_run(at, GAL_OP_POSITION_BACKWARD, DIMS(SAMPLES, POSITIONS, hidden, SEQUENCE, types_count, class_token));
    device_case_expect_all(at, de, 2 * u);
    device_case_expect_all(at, dtable, 5 * u * 8);
    if (more != NULL) {
        device_case_expect_all(at, more, 20 * u * 32);
    }
    device_case_free(at);
}

static void position_backward_case(device_case *at, uint32_t hidden)
{
    position_backward_of(at, hidden, 0, 0, 0.0, false);
    position_backward_of(at, hidden, 2, 0, 0.5, true);
    position_backward_of(at, hidden, 2, 0, 0.0, false);
    position_backward_of(at, hidden, 0, 1, 0.3, false);
    position_backward_of(at, hidden, 0, 1, 0.0, true);
}

static void position_backward(void **state)
{
    (void)state;
    in_all_forms(position_backward_case);
}

/* Three terms, two of them doubled. */
static void residual_of(device_case *at, uint32_t hidden, uint32_t bias, double dropout, bool training)
{
    enum { SAMPLES = 3, POSITIONS = 5 };
    at->ops.model.sequence_length = 12;
    at->ops.model.residual_dropout = dropout;
    at->ops.step.step = 0x123456789U;
    at->ops.step.training = training;
    at->ops.call.block = 6;
    at->ops.call.position_begin = 4;
    at->ops.sample_map[2] = 1000;
    device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 1.0, 1);
    device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 1.0, 2);
    const operand *y = device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 0.0, 0);
    if (bias != 0) {
        device_case_add(at, ELEMENT, hidden, 1.0, 3);
    }
    device_case_run(at, GAL_OP_RESIDUAL, DIMS(SAMPLES, POSITIONS, hidden, bias));
    device_case_expect_all(at, y, 4 * u * 5);
    device_case_free(at);
}

static void residual_case(device_case *at, uint32_t hidden)
{
    residual_of(at, hidden, 0, 0.0, true);
    residual_of(at, hidden, 1, 0.0, true);
    residual_of(at, hidden, 0, 0.5, true);
    residual_of(at, hidden, 1, 0.1, true);
    residual_of(at, hidden, 1, 0.5, false);
}

static void residual(void **state)
{
    (void)state;
    in_all_forms(residual_case);
}

/* Of probability 1/2 kept numbers are doubled exactly: the masks are equal, bit by bit. */
static void dropout_case(device_case *at, uint32_t hidden)
{
    enum { SAMPLES = 3, POSITIONS = 5 };
    at->ops.model.sequence_length = 12;
    at->ops.model.residual_dropout = 0.5;
    at->ops.call.position_begin = 4;
    device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 1.0, 1);
    const operand *y = device_case_add(at, ELEMENT, SAMPLES * POSITIONS * hidden, 0.0, 0);
    device_case_run(at, GAL_OP_DROPOUT, DIMS(SAMPLES, POSITIONS, hidden));
    device_case_expect_all(at, y, 0.0);
}

static void dropout(void **state)
{
    (void)state;
    in_all_forms(dropout_case);
}

static void first_position_case(device_case *at, uint32_t features)
{
    enum { SAMPLES = 3, POSITIONS = 4 };
    for (uint32_t begin = 0; begin < 2; begin++) {
        at->ops.call.position_begin = begin * POSITIONS;
        device_case_add(at, ELEMENT, SAMPLES * POSITIONS * features, 1.0, 1);
        const operand *y = device_case_add(at, ELEMENT, SAMPLES * features, 0.0, 0);
        device_case_run(at, GAL_OP_FIRST_POSITION, DIMS(SAMPLES, POSITIONS, features));
        device_case_expect_all(at, y, 0.0);
        device_case_free(at);
        device_case_add(at, ELEMENT, SAMPLES * features, 1.0, 1);
        const operand *dx = device_case_add(at, ELEMENT, SAMPLES * POSITIONS * features, 0.0, 0);
        device_case_run(at, GAL_OP_FIRST_POSITION_BACKWARD, DIMS(SAMPLES, POSITIONS, features));
        device_case_expect_all(at, dx, 0.0);
        device_case_free(at);
    }
}

static void first_position(void **state)
{
    (void)state;
    in_all_forms(first_position_case);
}

/* 9 numbers within 1 are added, and divided by 18. */
static void mean_position_case(device_case *at, uint32_t features)
{
    enum { SAMPLES = 3, POSITIONS = 9, SEQUENCE = 18 };
    device_case_add(at, ELEMENT, SAMPLES * POSITIONS * features, 1.0, 1);
    const operand *y = device_case_add(at, ELEMENT, SAMPLES * features, 0.0, 0);
    device_case_run(at, GAL_OP_MEAN_POSITION, DIMS(SAMPLES, POSITIONS, features, SEQUENCE));
    device_case_expect_all(at, y, 10 * u);
    device_case_free(at);
    device_case_add(at, ELEMENT, SAMPLES * features, 1.0, 1);
    const operand *dx = device_case_add(at, ELEMENT, SAMPLES * POSITIONS * features, 0.0, 0);
    device_case_run(at, GAL_OP_MEAN_POSITION_BACKWARD, DIMS(SAMPLES, POSITIONS, features, SEQUENCE));
    device_case_expect_all(at, dx, u);
}

static void mean_position(void **state)
{
    (void)state;
    in_all_forms(mean_position_case);
}

static void merge_case(device_case *at, uint32_t features)
{
    enum { SAMPLES = 3, SIDE = 6, POSITIONS = 4 * SIDE, COUNT = SAMPLES * POSITIONS };
    static const gal_op ops[] = {GAL_OP_MERGE, GAL_OP_MERGE_BACKWARD};
    for (uint32_t i = 0; i < 2; i++) {
        device_case_add(at, ELEMENT, COUNT * features, 1.0, 1);
        const operand *y = device_case_add(at, ELEMENT, COUNT * features, 0.0, 0);
        device_case_run(at, ops[i], DIMS(SAMPLES, POSITIONS, features, SIDE));
        device_case_expect_all(at, y, 0.0);
        device_case_free(at);
    }
}

static void merge(void **state)
{
    (void)state;
    in_all_forms(merge_case);
}

/* 2 x 3 x 5 x 2 x 3 rows of a source of 360: reversed places; rows of two that follow one another; a slice; a whole. */
static void permute_case(device_case *at, uint32_t row)
{
    static const uint32_t places[][10] = {
        {2, 3, 5, 2, 3, 1, 2, 6, 30, 60},   {2, 3, 5, 2, 3, 90, 30, 6, 3, 1}, {1, 3, 5, 2, 2, 0, 30, 6, 3, 1},
        {1, 1, 4, 5, 3, 0, 0, 90, 6, 1},    {1, 1, 1, 1, 7, 0, 0, 0, 0, 2},   {1, 1, 1, 1, 1, 0, 0, 0, 0, 0},
        {2, 2, 2, 2, 2, 100, 50, 12, 7, 1},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const uint32_t *p = places[i];
        const size_t rows = (size_t)p[0] * p[1] * p[2] * p[3] * p[4];
        device_case_add(at, ELEMENT, (size_t)360 * row, 1.0, 1);
        const operand *target = device_case_add(at, ELEMENT, rows * row, 0.0, 0);
        device_case_run(at, GAL_OP_PERMUTE, DIMS(row, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]));
        device_case_expect_all(at, target, 0.0);
        device_case_free(at);
    }
}

static void permute(void **state)
{
    (void)state;
    in_all_forms(permute_case);
}

/* Queries, keys and values of 4, 2 and 2 heads to 2 members; one part to 3. */
static void deal_case(device_case *at, uint32_t dim)
{
    static const uint32_t parts[][4] = {{2, 4, 2, 2}, {3, 6, 0, 0}, {2, 2, 2, 0}};
    static const gal_op ops[] = {GAL_OP_DEAL_FEATURES, GAL_OP_COLLECT_FEATURES};
    enum { ROWS = 7 };
    for (size_t i = 0; i < 2 * sizeof parts / sizeof *parts; i++) {
        const uint32_t *p = parts[i / 2];
        const size_t count = (size_t)ROWS * (p[1] + p[2] + p[3]) * dim;
        device_case_add(at, ELEMENT, count, 1.0, 1);
        const operand *target = device_case_add(at, ELEMENT, count, 0.0, 0);
        device_case_run(at, ops[i % 2], DIMS(ROWS, p[0], p[1] * dim, p[2] * dim, p[3] * dim));
        device_case_expect_all(at, target, 0.0);
        device_case_free(at);
    }
}

static void deal(void **state)
{
    (void)state;
    in_all_forms(deal_case);
}

/* Behind 3 heads of queries 2 of keys and 2 of values: taken out, and their gradients put back, rounded. */
static void take_keys_case(device_case *at, uint32_t dim)
{
    enum { ROWS = 7, HEADS = 3, KV_HEADS = 2 };
    const size_t queries = (size_t)ROWS * HEADS * dim, keys = (size_t)ROWS * 2 * KV_HEADS * dim;
    device_case_add(at, ELEMENT, queries + keys, 1.0, 1);
    const operand *kv = device_case_add(at, ELEMENT, keys, 0.0, 0);
    device_case_run(at, GAL_OP_TAKE_KEYS, DIMS(ROWS, HEADS, KV_HEADS, dim));
    device_case_expect_all(at, kv, 0.0);
    device_case_free(at);
    device_case_add(at, FLOAT, queries, 1.0, 1);
    device_case_add(at, FLOAT, keys, 1.0, 2);
    const operand *dqkv = device_case_add(at, ELEMENT, queries + keys, 0.0, 0);
    device_case_run(at, GAL_OP_JOIN_GRADIENTS, DIMS(ROWS, HEADS, KV_HEADS, dim));
    for (size_t i = 0; i < dqkv->count; i++) { /* rounded to the nearest */
        assert_true(dqkv->got[i] == device_case_round(at, ELEMENT, dqkv->exact[i]));
    }
}

static void take_keys(void **state)
{
    (void)state;
    in_all_forms(take_keys_case);
}

static void narrow_case(device_case *at, uint32_t elements)
{
    device_case_add(at, FLOAT, elements, 1.0, 1);
    const operand *target = device_case_add(at, ELEMENT, elements, 0.0, 0);
    device_case_run(at, GAL_OP_NARROW, DIMS(elements));
    for (size_t i = 0; i < elements; i++) {
        assert_true(target->got[i] == device_case_round(at, ELEMENT, target->exact[i]));
    }
}

static void narrow(void **state)
{
    (void)state;
    in_all_forms(narrow_case);
}

static void add_bias_case(device_case *at, uint32_t features)
{
    enum { ROWS = 7 };
    const operand *x = device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 1);
    device_case_add(at, ELEMENT, features, 1.0, 2);
    device_case_run(at, GAL_OP_ADD_BIAS, DIMS(ROWS, features));
    device_case_expect_all(at, x, 2 * u);
}

static void add_bias(void **state)
{
    (void)state;
    in_all_forms(add_bias_case);
}

/* ---- the gradient of a bias: another table's kernel ---- */

static uint64_t sums_workspace_bytes(const device_case *at, gal_op op, const gal_kernel_call *call)
{
    (void)at;
    (void)op;
    return gal_bias_gradient_workspace_bytes(call->dims[0], call->dims[1]);
}

static gal_code run_sums(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err)
{
    (void)op;
    const gal_kernel kernel = at->dtype == GAL_FP32   ? gal_cuda_bias_gradient_fp32
                              : at->dtype == GAL_BF16 ? gal_cuda_bias_gradient_bf16
                                                      : gal_cuda_bias_gradient_fp16;
    gal_kernel_call less = *call;
    gal_error refused = {.code = GAL_OK};
    less.workspace_bytes--;
    assert_int_equal(kernel(&less, &refused), GAL_ERR_DEVICE);
    return kernel(call, err);
}

/* Rows in one part and in many; dy within 1, so a sum is off by (rows + 8) u rows. */
static void bias_gradient_case(device_case *at, uint32_t features)
{
    static const device_case_library sums = {sums_workspace_bytes, run_sums};
    static const uint32_t rows[] = {1, 31, 200};
    at->library = &sums;
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t count = rows[i / 2], columns = 2 * features + 34; /* 130: two blocks and a part */
        at->ops.call.add = i % 2 != 0;
        device_case_add(at, ELEMENT, (size_t)count * columns, 1.0, 8);
        const operand *dbias = device_case_add(at, FLOAT, columns, i % 2 != 0 ? 1.0 : 0.0, 9);
        device_case_run(at, GAL_OP_BIAS_GRADIENT, DIMS(count, columns));
        device_case_expect_all(at, dbias, (count + 8.0) * u * (count + 1.0));
        device_case_free(at);
    }
}

static void bias_gradient(void **state)
{
    (void)state;
    in_all_forms(bias_gradient_case);
}

/* Heads of 48, 36 and 2 in rows with others behind them, positions far enough for many turns; a sine is off by 2 u for
 * its argument's rounding and 2 u of its own. */
static void rotary_of(device_case *at, uint32_t dim, uint32_t inverse, gal_rotary_scaling_kind scaling)
{
    enum { SAMPLES = 2, SEQUENCE = 70, HEADS = 3 };
    const uint32_t row = (HEADS + 2) * dim;
    at->ops.model.rotary_base = 10000.0;
    at->ops.model.rotary_scaling = (gal_rotary_scaling){.kind = scaling,
                                                        .factor = 8.0,
                                                        .low_frequency_factor = 1.0,
                                                        .high_frequency_factor = 4.0,
                                                        .original_positions = 64};
    const operand *x = device_case_add(at, ELEMENT, (size_t)SAMPLES * SEQUENCE * row, 1.0, 1);
    device_case_run(at, GAL_OP_ROTARY, DIMS(SAMPLES, SEQUENCE, HEADS, dim, row, inverse));
    device_case_expect_all(at, x, 2 * (4 * u + 2 * u));
    device_case_free(at);
}

static void rotary_case(device_case *at, uint32_t dim)
{
    const uint32_t even = dim + dim % 2;
    at->ops.call.position_begin = 140; /* the third of three chunks */
    rotary_of(at, even, 0, GAL_ROTARY_SCALING_NONE);
    at->ops.call.position_begin = 0;
    rotary_of(at, even, 1, GAL_ROTARY_SCALING_LINEAR);
    rotary_of(at, even, 1, GAL_ROTARY_SCALING_LLAMA3);
    rotary_of(at, 5 * even + 16, 0, GAL_ROTARY_SCALING_NONE); /* of 256: 128 pairs, and of more than fit at a time */
}

static void rotary(void **state)
{
    (void)state;
    in_all_forms(rotary_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed),
        cmocka_unit_test(embed_backward),
        cmocka_unit_test(embed_backward_counts_each_row_once),
        cmocka_unit_test(embed_backward_of_whole_pieces),
        cmocka_unit_test(position),
        cmocka_unit_test(position_backward),
        cmocka_unit_test(residual),
        cmocka_unit_test(dropout),
        cmocka_unit_test(first_position),
        cmocka_unit_test(mean_position),
        cmocka_unit_test(merge),
        cmocka_unit_test(permute),
        cmocka_unit_test(deal),
        cmocka_unit_test(take_keys),
        cmocka_unit_test(narrow),
        cmocka_unit_test(add_bias),
        cmocka_unit_test(bias_gradient),
        cmocka_unit_test(rotary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
