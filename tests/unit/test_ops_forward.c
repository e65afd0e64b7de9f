/* Host operators on small cases worked by hand, in fp64; dropout against masks drawn here, number by number. */
#include <float.h>
#include <math.h>

#include "tests/support/ops_case.h"

static const gal_ops *const ops = &gal_ops_host_fp64;

/* Values of size 1 and a few operations: 1e-12 is thousands of roundings. */
static void expect_near(const double *got, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(got[i] - expected[i]) <= 1e-12 * fmax(1.0, fabs(expected[i])))) {
            print_error("entry %zu: %.17g, expected %.17g\n", i, got[i], expected[i]);
            fail();
        }
    }
}

/* The definition in runtime/ops/ops.h, one element at a time. */
static double factor_of(const ops_case *at, double probability, uint32_t site, uint64_t index)
{
    uint32_t lanes[4];
    gal_philox(at->step.seed, index / 4, 2 * at->call.block + site, (uint32_t)at->step.step, lanes);
    return (double)lanes[index % 4] < probability * 4294967296.0 ? 0.0 : 1.0 / (1.0 - probability);
}

static void tables_are_complete(void **state)
{
    (void)state;
    for (int op = GAL_OP_EMBED; op <= GAL_OP_ADAM; op++) {
        assert_non_null(gal_ops_host_fp32.kernel[op]);
        assert_non_null(gal_ops_host_fp64.kernel[op]);
    }
    assert_null(gal_ops_host_fp32.kernel[GAL_OP_LOAD_TOKENS]);
    assert_null(gal_ops_host_fp32.kernel[GAL_OP_ALL_REDUCE]);
    assert_int_equal(gal_ops_host_fp32.dtype, GAL_FP32);
    assert_int_equal(gal_ops_host_fp64.dtype, GAL_FP64);
    assert_string_equal(gal_ops_host_fp64.name, "host");
}

/* Samples (1 2) and (3 0); the second rank holds ids 2 and 3. Rows are position by position: 1 3 2 0. */
static void embed(void **state)
{
    (void)state;
    ops_case at;
    const int32_t tokens[4] = {1, 2, 3, 0};
    double table[4] = {20, 21, 30, 31}, e[8];
    ops_case_init(&at);
    at.call.group_index = 1;
    OPS(&at, ops, GAL_OP_EMBED, DIMS(2, 2, 2, 2), (void *)(uintptr_t)tokens, table, e);
    expect_near(e, (const double[]){0, 0, 30, 31, 20, 21, 0, 0}, 8);
}

/* Gradient rows of tokens 1 3 2 0: ids 2 and 3 take the third and the second. Written, then added to. */
static void embed_backward(void **state)
{
    (void)state;
    ops_case at;
    int32_t tokens[4] = {1, 2, 3, 0};
    double de[8] = {1, 2, 3, 4, 5, 6, 7, 8}, dtable[4] = {9, 9, 9, 9};
    ops_case_init(&at);
    at.call.group_index = 1;
    OPS(&at, ops, GAL_OP_EMBED_BACKWARD, DIMS(2, 2, 2, 2), tokens, de, dtable);
    expect_near(dtable, (const double[]){5, 6, 3, 4}, 4);
    at.call.add = true;
    OPS(&at, ops, GAL_OP_EMBED_BACKWARD, DIMS(2, 2, 2, 2), tokens, de, dtable);
    expect_near(dtable, (const double[]){10, 12, 6, 8}, 4);
}

/* One position (the third of three) of two samples; the rest of the table's gradient is zeroed, or kept when adding. */
static void position(void **state)
{
    (void)state;
    ops_case at;
    double e[4] = {1, 2, 3, 4}, table[6] = {0, 0, 0, 0, 10, 20}, y[4], de[4], dtable[6] = {7, 7, 7, 7, 7, 7};
    ops_case_init(&at);
    at.call.position_begin = 2;
    at.call.sample_map = NULL; /* not read without dropout */
    OPS(&at, ops, GAL_OP_POSITION, DIMS(2, 1, 2, 3, 0, 0), e, table, y);
    expect_near(y, (const double[]){11, 22, 13, 24}, 4);
    OPS(&at, ops, GAL_OP_POSITION_BACKWARD, DIMS(2, 1, 2, 3, 0, 0), y, de, dtable);
    expect_near(de, y, 4);
    expect_near(dtable, (const double[]){0, 0, 0, 0, 24, 46}, 6);
    at.call.add = true;
    OPS(&at, ops, GAL_OP_POSITION_BACKWARD, DIMS(2, 1, 2, 3, 0, 0), y, de, dtable);
    expect_near(dtable, (const double[]){0, 0, 0, 0, 48, 92}, 6);
}

/* (1 3 5 7): mean 4, variance (9 + 1 + 1 + 9) / 4 = 5; with epsilon 4 the deviation is 3. */
static void layer_norm(void **state)
{
    (void)state;
    ops_case at;
    double x[4] = {1, 3, 5, 7}, gain[4] = {3, 3, 3, 6}, bias[4] = {0, 1, 0, 0}, y[4], stats[2];
    ops_case_init(&at);
    at.model.norm_epsilon = 4.0;
    OPS(&at, ops, GAL_OP_LAYER_NORM, DIMS(1, 4), x, gain, bias, y, stats);
    expect_near(y, (const double[]){-3, 0, 1, 6}, 4);
    expect_near(stats, (const double[]){4, 1.0 / 3}, 2);
}

/* Values near 2^32, whose squares have units of 2^12: E[x^2] - E[x]^2 would give nonsense. */
static void layer_norm_far_from_zero(void **state)
{
    (void)state;
    ops_case at;
    const double far = 0x1p32;
    double x[4] = {far - 3, far - 1, far + 1, far + 3}, one[4] = {1, 1, 1, 1}, zero[4] = {0}, y[4], stats[2];
    ops_case_init(&at);
    at.model.norm_epsilon = 4.0;
    OPS(&at, ops, GAL_OP_LAYER_NORM, DIMS(1, 4), x, one, zero, y, stats);
    expect_near(y, (const double[]){-1, -1.0 / 3, 1.0 / 3, 1}, 4);
}

/* A = (1 2 3; 4 5 6), B = (1 0; 2 1; 0 3): AB = (5 11; 14 23). The same from A^T and B^T as stored. */
static void gemm(void **state)
{
    (void)state;
    double a[6] = {1, 2, 3, 4, 5, 6}, at_[6] = {1, 4, 2, 5, 3, 6}, b[6] = {1, 0, 2, 1, 0, 3},
           bt[6] = {1, 2, 0, 0, 1, 3};
    double bias[2] = {100, 200}, c[4];
    ops_case at;
    ops_case_init(&at);
    for (uint32_t flags = 0; flags < 4; flags++) {
        double *left = (flags & GAL_GEMM_TRANSPOSE_A) != 0 ? at_ : a;
        double *right = (flags & GAL_GEMM_TRANSPOSE_B) != 0 ? bt : b;
        for (int i = 0; i < 4; i++) {
            c[i] = NAN; /* what is written is not read */
        }
        at.call.add = false;
        OPS(&at, ops, GAL_OP_GEMM, DIMS(2, 2, 3, flags), left, right, c);
        expect_near(c, (const double[]){5, 11, 14, 23}, 4);
        at.call.add = true;
        OPS(&at, ops, GAL_OP_GEMM, DIMS(2, 2, 3, flags | GAL_GEMM_BIAS), left, right, c, bias);
        expect_near(c, (const double[]){110, 222, 128, 246}, 4);
        at.call.add = false;
        OPS(&at, ops, GAL_OP_GEMM, DIMS(2, 2, 3, flags | GAL_GEMM_BIAS), left, right, c, bias);
        expect_near(c, (const double[]){105, 211, 114, 223}, 4);
    }
}

static void bias_gradient(void **state)
{
    (void)state;
    double dy[6] = {1, 2, 3, 10, 20, 30}, dbias[3] = {5, 5, 5};
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_BIAS_GRADIENT, DIMS(2, 3), dy, dbias);
    expect_near(dbias, (const double[]){11, 22, 33}, 3);
    at.call.add = true;
    OPS(&at, ops, GAL_OP_BIAS_GRADIENT, DIMS(2, 3), dy, dbias);
    expect_near(dbias, (const double[]){22, 44, 66}, 3);
}

/* Head of one. Alone, position 0 sees itself: context v0 = 5, log-sum-exp q0 k0 = 2. With k0 = 0 and a second
 * position, scores of that are q1 k0 = 0 and q1 k1 = ln 3: weights 1/4 and 3/4 of 5 and 9, log-sum-exp ln 4. */
static void attention_by_hand(void **state)
{
    (void)state;
    const double ln3 = 1.0986122886681096914;
    double qkv[6] = {1, 2, 5, ln3, 1, 9}, ctx[2], lse[2];
    ops_case at;
    ops_case_init(&at);
    at.model.sequence_length = 2;
    OPS(&at, ops, GAL_OP_ATTENTION, DIMS(1, 1, 1, 1, 1, GAL_ATTENTION_CAUSAL), qkv, ctx, lse);
    expect_near(ctx, (const double[]){5}, 1);
    expect_near(lse, (const double[]){2}, 1);
    qkv[1] = 0.0;
    OPS(&at, ops, GAL_OP_ATTENTION, DIMS(1, 2, 1, 1, 1, GAL_ATTENTION_CAUSAL), qkv, ctx, lse);
    expect_near(ctx, (const double[]){5, 8}, 2);
    expect_near(lse, (const double[]){0, 2 * 0.69314718055994530942}, 2);
}

enum { SAMPLES = 2, SEQUENCE = 131, HEADS = 2, DIM = 5, WIDTH = HEADS * DIM, ROWS = SAMPLES * SEQUENCE };

/* One query by the definition: it sees keys below `end`. Layouts as in schemas/operator.h. */
static void attend_one(const ops_case *at, const double *qkv, uint32_t s, uint32_t h, uint32_t query, uint32_t end,
                       double *ctx, double *lse)
{
    const double *row[SEQUENCE];
    double weight[SEQUENCE], total = 0.0;
    for (uint32_t key = 0; key < SEQUENCE; key++) {
        row[key] = qkv + ((size_t)key * SAMPLES + s) * 3 * WIDTH + (size_t)h * DIM;
    }
    for (uint32_t key = 0; key < end; key++) {
        double score = 0.0;
        for (uint32_t d = 0; d < DIM; d++) {
            score += row[query][d] * row[key][WIDTH + d];
        }
        weight[key] = exp(score / sqrt(DIM));
        total += weight[key];
    }
    memset(ctx, 0, DIM * sizeof *ctx);
    for (uint32_t key = 0; key < end; key++) {
        const uint64_t head = (uint64_t)at->sample_map[s] * at->model.head_count + at->call.group_index * HEADS + h;
        const uint64_t index = (head * SEQUENCE + query) * 132 + key; /* 131 rounded up to a multiple of 4 */
        const double factor =
            at->model.attention_dropout > 0.0 ? factor_of(at, at->model.attention_dropout, 1, index) : 1.0;
        for (uint32_t d = 0; d < DIM; d++) {
            ctx[d] += factor * weight[key] / total * row[key][2 * WIDTH + d];
        }
    }
    /* cppcheck-suppress invalidFunctionArg ; of one key at least */
    *lse = log(total);
}

static void attention_by_definition(void **state)
{
    (void)state;
    static double qkv[ROWS * 3 * WIDTH], ctx[ROWS * WIDTH], lse[ROWS * HEADS];
    int32_t lengths[SAMPLES] = {1, 66};
    for (int with = 0; with < 4; with++) {
        const bool padded = with >= 2;
        ops_case at;
        ops_case_init(&at);
        at.model.sequence_length = SEQUENCE;
        at.model.head_count = 6;
        at.model.attention_dropout = with % 2 != 0 ? 0.3 : 0.0;
        at.call.group_index = 2;
        at.call.block = 7;
        at.step.step = 11;
        at.sample_map[0] = 4;
        ops_randomize(qkv, ROWS * 3 * WIDTH, 1);
        ops_run(&at, ops, GAL_OP_ATTENTION,
                DIMS(SAMPLES, SEQUENCE, HEADS, DIM, HEADS, padded ? 0 : GAL_ATTENTION_CAUSAL), padded ? 4 : 3,
                (void *[]){qkv, ctx, lse, lengths});
        for (uint32_t s = 0; s < SAMPLES; s++) {
            for (uint32_t h = 0; h < HEADS; h++) {
                for (uint32_t query = 0; query < SEQUENCE; query++) {
                    double expected[DIM], expected_lse;
                    attend_one(&at, qkv, s, h, query, padded ? (uint32_t)lengths[s] : query + 1, expected,
                               &expected_lse);
                    expect_near(ctx + ((size_t)query * SAMPLES + s) * WIDTH + (size_t)h * DIM, expected, DIM);
                    expect_near(lse + ((size_t)s * HEADS + h) * SEQUENCE + query, &expected_lse, 1);
                }
            }
        }
    }
}

/* Scores of some thousands: the softmax must neither overflow nor lose the largest. */
static void attention_of_large_scores(void **state)
{
    (void)state;
    enum { LENGTH = 70 };
    double qkv[LENGTH * 3], ctx[LENGTH], lse[LENGTH];
    ops_case at;
    ops_case_init(&at);
    at.model.sequence_length = LENGTH;
    for (int i = 0; i < LENGTH; i++) {
        qkv[3 * i] = 100;
        qkv[3 * i + 1] = i == 0 ? -90 : 20.0 * i; /* each key outweighs all before it by exp(2000) */
        qkv[3 * i + 2] = i + 0.5;
    }
    OPS(&at, ops, GAL_OP_ATTENTION, DIMS(1, LENGTH, 1, 1, 1, GAL_ATTENTION_CAUSAL), qkv, ctx, lse);
    for (int i = 0; i < LENGTH; i++) {
        expect_near(ctx + i, (const double[]){i + 0.5}, 1);
        expect_near(lse + i, (const double[]){i == 0 ? -9000.0 : 2000.0 * i}, 1);
    }
}

/* gelu(1): tanh form 0.841191990608276, erf form Phi(1) = 0.841344746068543 (both to 15 digits); relu by sight. */
static void activation(void **state)
{
    (void)state;
    double u[3] = {-1, 0, 1}, g[3];
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_ACTIVATION, DIMS(3, GAL_ACTIVATION_GELU_TANH), u, g);
    expect_near(g, (const double[]){0.841191990608276 - 1, 0, 0.841191990608276}, 3);
    OPS(&at, ops, GAL_OP_ACTIVATION, DIMS(3, GAL_ACTIVATION_GELU_ERF), u, g);
    expect_near(g, (const double[]){0.841344746068543 - 1, 0, 0.841344746068543}, 3);
    OPS(&at, ops, GAL_OP_ACTIVATION, DIMS(3, GAL_ACTIVATION_RELU), u, g);
    expect_near(g, (const double[]){0, 0, 1}, 3);
}

/* y = x + factor (o + bias), and the same factors backward; feature counts that no four divides. */
static void residual(void **state)
{
    (void)state;
    enum { LOCAL = 3, HIDDEN = 7, COUNT = 2 * LOCAL * HIDDEN };
    double x[COUNT], o[COUNT], bias[HIDDEN], y[COUNT], d_o[COUNT], expected[COUNT], factor[COUNT];
    ops_case at;
    ops_case_init(&at);
    ops_randomize(x, COUNT, 1);
    ops_randomize(o, COUNT, 2);
    ops_randomize(bias, HIDDEN, 3);
    at.model.sequence_length = 12;
    at.model.residual_dropout = 0.5;
    at.call.position_begin = 6;
    at.call.block = 2;
    at.sample_map[0] = 3;
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t feature = i % HIDDEN, sample = i / HIDDEN % 2, place = i / HIDDEN / 2;
        const uint64_t row = (uint64_t)at.sample_map[sample] * 12 + 6 + place;
        factor[i] = factor_of(&at, 0.5, 0, row * HIDDEN + feature);
        expected[i] = x[i] + factor[i] * (o[i] + bias[feature]);
    }
    OPS(&at, ops, GAL_OP_RESIDUAL, DIMS(2, LOCAL, HIDDEN, 1), x, o, y, bias);
    expect_near(y, expected, COUNT);
    OPS(&at, ops, GAL_OP_DROPOUT, DIMS(2, LOCAL, HIDDEN), x, d_o);
    for (uint32_t i = 0; i < COUNT; i++) {
        expected[i] = x[i] * factor[i];
    }
    expect_near(d_o, expected, COUNT);
    at.step.training = false;
    OPS(&at, ops, GAL_OP_DROPOUT, DIMS(2, LOCAL, HIDDEN), x, d_o);
    expect_near(d_o, x, COUNT);
}

/* Of 40000 elements at probability 0.1, 4000 +- 5 sqrt(40000 0.1 0.9) = 300 are dropped. */
static void dropout_share(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    static double x[COUNT], y[COUNT];
    ops_case at;
    ops_case_init(&at);
    at.model.sequence_length = 1;
    at.model.residual_dropout = 0.1;
    for (int i = 0; i < COUNT; i++) {
        x[i] = 1.0;
    }
    OPS(&at, ops, GAL_OP_DROPOUT, DIMS(1, 1, COUNT), x, y);
    int dropped = 0;
    for (int i = 0; i < COUNT; i++) {
        dropped += y[i] == 0.0 ? 1 : 0;
    }
    assert_in_range(dropped, 3700, 4300);
}

/* Logits (0, ln 2, ln 5 | padding): max ln 5, sum (1 + 2 + 5) / 5, target 1: loss ln 8 - ln 2 = 2 ln 2.
 * Probabilities 1/8, 2/8, 5/8. Padding holds a huge logit that must not count. */
static void cross_entropy(void **state)
{
    (void)state;
    const double ln2 = 0.69314718055994530942, ln5 = 1.6094379124341003746;
    double logits[4] = {0, ln2, ln5, 1e30}, max, sums[2], loss[2] = {50.0, 50.0};
    int32_t target = 1;
    ops_case at;
    ops_case_init(&at);
    at.step.loss_scale = 16.0;
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_MAX, DIMS(1, 4, 3), logits, &max);
    expect_near(&max, &ln5, 1);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_SUM, DIMS(1, 1, 4, 3), logits, &max, &target, sums);
    expect_near(sums, (const double[]){8.0 / 5, ln2 - ln5}, 2);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(1), sums, loss);
    expect_near(loss, (const double[]){2 * ln2, 0}, 2);
    at.call.add = true;
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(1), sums, loss);
    expect_near(loss, (const double[]){4 * ln2, 0}, 2);
    double right[] = {0, 8.0 / 5, 0, 0}; /* a row without a target, then one whose target is the largest */
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(2), right, loss);
    expect_near(loss, (const double[]){4 * ln2 + log(8.0 / 5), 1}, 2);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(1, 1, 4, 3), logits, &max, sums, &target);
    expect_near(logits, (const double[]){2, 4 - 16, 10, 0}, 4);
}

/* A rank that holds padding alone: the least finite number, no sum, no target, no gradient. */
static void cross_entropy_of_padding(void **state)
{
    (void)state;
    double logits[4] = {1, 2, 3, NAN}, max, sums[2], global_max = 0.0, global_sums[2] = {1, 0};
    int32_t target = 1;
    ops_case at;
    ops_case_init(&at);
    at.call.group_index = 1;
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_MAX, DIMS(1, 4, 3), logits, &max);
    assert_true(max == -DBL_MAX);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_SUM, DIMS(1, 1, 4, 3), logits, &global_max, &target, sums);
    assert_true(sums[0] == 0.0 && sums[1] == 0.0);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(1, 1, 4, 3), logits, &global_max, global_sums, &target);
    expect_near(logits, (const double[]){0, 0, 0, 0}, 4);
}

/* Rows of two elements. First (2 positions, 3 samples) transposed; then the middle rows copied in one piece. */
static void permute(void **state)
{
    (void)state;
    double source[12] = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51}, target[12];
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_PERMUTE, DIMS(2, 1, 1, 1, 3, 2, 0, 0, 0, 1, 3), source, target);
    expect_near(target, (const double[]){0, 1, 30, 31, 10, 11, 40, 41, 20, 21, 50, 51}, 12);
    OPS(&at, ops, GAL_OP_PERMUTE, DIMS(2, 1, 1, 1, 2, 2, 0, 0, 0, 3, 1), source, target);
    expect_near(target, (const double[]){0, 1, 10, 11, 30, 31, 40, 41}, 8);
}

/* Two rows of queries (4 features), keys and values (2 each) to two members: each has half of every part. */
static void deal_and_collect(void **state)
{
    (void)state;
    const double x[16] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17};
    double y[16] = {0}, back[16] = {0};
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_DEAL_FEATURES, DIMS(2, 2, 4, 2, 2), (void *)x, y);
    expect_near(y, (const double[]){0, 1, 4, 6, 10, 11, 14, 16, 2, 3, 5, 7, 12, 13, 15, 17}, 16);
    OPS(&at, ops, GAL_OP_COLLECT_FEATURES, DIMS(2, 2, 4, 2, 2), y, back);
    expect_near(back, x, 16);
}

/* Of 6 positions those from 4 on, by themselves. One sample, one head of 4 in rows of 5. */
static void rotary_of_a_chunk(void **state)
{
    (void)state;
    double x[30], chunk[10];
    ops_case at;
    ops_case_init(&at);
    at.model.rotary_base = 100.0;
    ops_randomize(x, 30, 1);
    memcpy(chunk, x + 20, sizeof chunk);
    OPS(&at, ops, GAL_OP_ROTARY, DIMS(1, 6, 1, 4, 5, 0), x);
    at.call.position_begin = 4;
    OPS(&at, ops, GAL_OP_ROTARY, DIMS(1, 2, 1, 4, 5, 0), chunk);
    expect_near(chunk, x + 20, 10);
}

static void add_and_fill(void **state)
{
    (void)state;
    double source[3] = {1, 2, 3}, target[3] = {9, 9, 9};
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_ADD, DIMS(3), source, target);
    expect_near(target, (const double[]){1, 2, 3}, 3);
    at.call.add = true;
    OPS(&at, ops, GAL_OP_ADD, DIMS(3), source, target);
    expect_near(target, (const double[]){2, 4, 6}, 3);
    OPS(&at, ops, GAL_OP_FILL, DIMS(3), target);
    expect_near(target, (const double[]){0, 0, 0}, 3);
}

/* Loss 6 held by 2 ranks; squares 9 + 16 on 5 ranks. */
static void norm(void **state)
{
    (void)state;
    double loss = 6.0, norm[2] = {7, 7}, gradient[2] = {3, 4};
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_NORM_START, DIMS(2), &loss, norm);
    expect_near(norm, (const double[]){0, 3}, 2);
    OPS(&at, ops, GAL_OP_SUM_SQUARES, DIMS(2, 5), gradient, norm);
    OPS(&at, ops, GAL_OP_SUM_SQUARES, DIMS(2, 1), gradient, norm);
    expect_near(norm, (const double[]){30, 3}, 2);
    OPS(&at, ops, GAL_OP_NORM_START, DIMS(2), norm);
    expect_near(norm, (const double[]){0, 0}, 2);
}

static void adam_case(ops_case *at, gal_optimizer_kind kind)
{
    ops_case_init(at);
    at->model.optimizer = (gal_optimizer){
        .kind = kind, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 1.0, .weight_decay = 0.5, .gradient_clip_norm = 0.0};
    at->step.learning_rate = 0.5;
}

/* Step 2 (index 1): corrections 1 - 0.25 = 3/4 and 1 - 0.5625 = 7/16. Rank 1 of ranges of 2, of which the unit's
 * first 3 elements decay: the first here does, the second does not.
 * g = 4, m = 2 -> 3, v = 4/3 -> 1 + 4 = 5; mhat = 4, vhat = 80/7.
 * w = 8 - 0.5 (4 / (sqrt(80/7) + 1) + 0.5 * 8), and without the decay 8 - 0.5 (4 / (sqrt(80/7) + 1)). */
static void adamw(void **state)
{
    (void)state;
    double w[2] = {8, 8}, g[2] = {4, 4}, m[2] = {2, 2}, v[2] = {4.0 / 3, 4.0 / 3}, norm[2] = {32, 0};
    const double change = 2.0 / (sqrt(80.0 / 7) + 1);
    ops_case at;
    adam_case(&at, GAL_OPTIMIZER_ADAMW);
    at.step.step = 1;
    at.call.group_index = 1;
    OPS(&at, ops, GAL_OP_ADAM, DIMS(2, 3), w, g, m, v, norm);
    expect_near(w, (const double[]){8 - change - 2, 8 - change}, 2);
    expect_near(m, (const double[]){3, 3}, 2);
    expect_near(v, (const double[]){5, 5}, 2);
}

/* Step 1: corrections 1/2 and 1/4. The decay enters the gradient: g = 4 + 0.5 * 8 = 8, mhat = g, vhat = g^2:
 * w = 8 - 0.5 * 8 / (8 + 1); without decay 8 - 0.5 * 4 / (4 + 1). */
static void adam_with_l2(void **state)
{
    (void)state;
    double w[2] = {8, 8}, g[2] = {4, 4}, m[2] = {0, 0}, v[2] = {0, 0}, norm[2] = {32, 0};
    ops_case at;
    adam_case(&at, GAL_OPTIMIZER_ADAM);
    OPS(&at, ops, GAL_OP_ADAM, DIMS(2, 1), w, g, m, v, norm);
    expect_near(w, (const double[]){8 - 4.0 / 9, 8 - 2.0 / 5}, 2);
    expect_near(m, (const double[]){4, 2}, 2);
}

/* Norm 4 clipped to 2: the gradient 4 counts as 4 * 2 / (4 + 1e-6); a norm under the limit changes nothing. */
static void adam_clips(void **state)
{
    (void)state;
    double w = 8, g = 4, m = 0, v = 0, norm[2] = {16, 0};
    ops_case at;
    adam_case(&at, GAL_OPTIMIZER_ADAMW);
    at.model.optimizer.gradient_clip_norm = 2.0;
    OPS(&at, ops, GAL_OP_ADAM, DIMS(1, 0), &w, &g, &m, &v, norm);
    expect_near(&m, (const double[]){0.5 * 4 * 2 / (4 + 1e-6)}, 1);
    at.model.optimizer.gradient_clip_norm = 100.0;
    m = 0.0;
    OPS(&at, ops, GAL_OP_ADAM, DIMS(1, 0), &w, &g, &m, &v, norm);
    expect_near(&m, (const double[]){2}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_complete),
        cmocka_unit_test(embed),
        cmocka_unit_test(embed_backward),
        cmocka_unit_test(position),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(layer_norm_far_from_zero),
        cmocka_unit_test(gemm),
        cmocka_unit_test(bias_gradient),
        cmocka_unit_test(attention_by_hand),
        cmocka_unit_test(attention_by_definition),
        cmocka_unit_test(attention_of_large_scores),
        cmocka_unit_test(activation),
        cmocka_unit_test(residual),
        cmocka_unit_test(dropout_share),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(cross_entropy_of_padding),
        cmocka_unit_test(permute),
        cmocka_unit_test(deal_and_collect),
        cmocka_unit_test(rotary_of_a_chunk),
        cmocka_unit_test(add_and_fill),
        cmocka_unit_test(norm),
        cmocka_unit_test(adamw),
        cmocka_unit_test(adam_with_l2),
        cmocka_unit_test(adam_clips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
