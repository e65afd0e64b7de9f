/* fp32 kernels against the fp64 ones on the same (fp32) inputs. Bounds count roundings: u = 2^-24 is the most that one
 * rounding is off, relatively; a sum of n products is off by at most n u times the sum of their sizes (N. Higham,
 * "Accuracy and stability of numerical algorithms", section 3.1). exp is off by 2 units in the last place: 4 u. */
#include <float.h>
#include <math.h>

#define GAL_REAL_FP64 0 /* the fp32 exponential is tested by itself */
#include "runtime/ops/host/real.h"
#include "tests/support/ops_case.h"

static const gal_ops *const single = &gal_ops_host_fp32;
static const gal_ops *const ops = &gal_ops_host_fp64;
static const double u = 0x1p-24;

/* The same values in both types: rounded to fp32. */
static void fill_both(float *low, double *high, size_t count, double size, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        low[i] = (float)(size * ops_random(&seed));
        high[i] = (double)low[i];
    }
}

static void expect_within(const float *got, const double *expected, size_t index, double bound)
{
    const double difference = fabs((double)got[index] - expected[index]);
    if (!(difference <= bound)) {
        print_error("entry %zu: %.9g, expected %.17g: off by %.3g, bound %.3g\n", index, (double)got[index],
                    expected[index], difference, bound);
        fail();
    }
}

/* 2 units in the last place are 4 u of the power of two at or under the result. */
static void exponential(void **state)
{
    (void)state;
    double worst = 0.0;
    for (float x = 0.0F; x > -87.3F; x -= 0.00013F) {
        const double exact = exp((double)x), unit = exp2(floor(log2(exact))) * 2 * u;
        worst = fmax(worst, fabs((double)gal_exp_nonpositive(x) - exact) / unit);
    }
    if (worst > 2.0) {
        print_error("off by %.3g units in the last place\n", worst);
        fail();
    }
    assert_true(gal_exp_nonpositive(0.0F) == 1.0F);
    assert_true(gal_exp_nonpositive(-88.0F) == 0.0F);
    assert_true(gal_exp_nonpositive(-FLT_MAX) == 0.0F);
    assert_true(gal_exp_nonpositive(-INFINITY) == 0.0F);
    assert_true(isnan(gal_exp_nonpositive(NAN)));
}

/* k products and the bias: (k + 1) u (sum |a||b| + |bias|). */
static void gemm(void **state)
{
    (void)state;
    enum { M = 9, N = 11, K = 200 };
    float a[M * K], b[K * N], bias[N], c[M * N];
    double a64[M * K], b64[K * N], bias64[N], c64[M * N];
    ops_case at;
    ops_case_init(&at);
    fill_both(a, a64, M * K, 1.0, 1);
    fill_both(b, b64, K * N, 1.0, 2);
    fill_both(bias, bias64, N, 1.0, 3);
    OPS(&at, single, GAL_OP_GEMM, DIMS(M, N, K, GAL_GEMM_BIAS), a, b, c, bias);
    OPS(&at, ops, GAL_OP_GEMM, DIMS(M, N, K, GAL_GEMM_BIAS), a64, b64, c64, bias64);
    for (size_t i = 0; i < M * N; i++) {
        double size = fabs(bias64[i % N]);
        for (size_t k = 0; k < K; k++) {
            size += fabs(a64[i / N * K + k] * b64[k * N + i % N]);
        }
        expect_within(c, c64, i, (K + 1) * u * size);
    }
}

/* The mean is rounded (u |mean|), then four roundings of the scaled deviation and one of y; double as to spare. */
static void layer_norm(void **state)
{
    (void)state;
    enum { ROWS = 7, HIDDEN = 333 };
    static float x[ROWS * HIDDEN], gain[HIDDEN], bias[HIDDEN], y[ROWS * HIDDEN], stats[2 * ROWS];
    static double x64[ROWS * HIDDEN], gain64[HIDDEN], bias64[HIDDEN], y64[ROWS * HIDDEN], stats64[2 * ROWS];
    ops_case at;
    ops_case_init(&at);
    fill_both(x, x64, ROWS * HIDDEN, 1.0, 1);
    fill_both(gain, gain64, HIDDEN, 1.0, 2);
    fill_both(bias, bias64, HIDDEN, 1.0, 3);
    for (size_t i = 0; i < ROWS * HIDDEN; i++) {
        x[i] += 100.0F;
        x64[i] = (double)x[i];
    }
    OPS(&at, single, GAL_OP_LAYER_NORM, DIMS(ROWS, HIDDEN), x, gain, bias, y, stats);
    OPS(&at, ops, GAL_OP_LAYER_NORM, DIMS(ROWS, HIDDEN), x64, gain64, bias64, y64, stats64);
    for (size_t i = 0; i < ROWS * HIDDEN; i++) {
        const double mean = stats64[i / HIDDEN], scale = stats64[ROWS + i / HIDDEN] * fabs(gain64[i % HIDDEN]);
        expect_within(y, y64, i, 2 * u * (mean * scale + 4 * fabs(x64[i] - mean) * scale + fabs(y64[i])));
    }
}

/* With xhat of the exact statistics, both sides read the same fp32 ones. dx = reciprocal (d - mean d - xhat mean):
 * xhat is off by 2 u, each product by 1 more, and the sums are taken in double: under 10 u of the terms' sizes. */
static void layer_norm_backward(void **state)
{
    (void)state;
    enum { ROWS = 70, HIDDEN = 40, COUNT = ROWS * HIDDEN };
    static float x[COUNT], gain[HIDDEN], dy[COUNT], stats[2 * ROWS], dx[COUNT], dgain[HIDDEN], dbias[HIDDEN];
    static double x64[COUNT], gain64[HIDDEN], dy64[COUNT], stats64[2 * ROWS], dx64[COUNT], dgain64[HIDDEN];
    static double dbias64[HIDDEN];
    ops_case at;
    ops_case_init(&at);
    fill_both(x, x64, COUNT, 1.0, 1);
    fill_both(gain, gain64, HIDDEN, 1.0, 2);
    fill_both(dy, dy64, COUNT, 1.0, 3);
    for (size_t i = 0; i < ROWS; i++) {
        stats[i] = 0.125F;
        stats[ROWS + i] = 1.75F;
        stats64[i] = 0.125;
        stats64[ROWS + i] = 1.75;
    }
    OPS(&at, single, GAL_OP_LAYER_NORM_BACKWARD, DIMS(ROWS, HIDDEN, 0), dy, x, gain, stats, dx, dgain, dbias);
    OPS(&at, ops, GAL_OP_LAYER_NORM_BACKWARD, DIMS(ROWS, HIDDEN, 0), dy64, x64, gain64, stats64, dx64, dgain64,
        dbias64);
    for (size_t i = 0; i < COUNT; i++) { /* |xhat| <= 2, |d| <= 1: terms 1, 1 and 2 * 2 */
        expect_within(dx, dx64, i, 10 * u * 1.75 * 6);
    }
    for (size_t j = 0; j < HIDDEN; j++) { /* each term off by 3 u of at most 2; then one rounding */
        expect_within(dgain, dgain64, j, ROWS * 2 * 3 * u + u * fabs(dgain64[j]));
        expect_within(dbias, dbias64, j, u * fabs(dbias64[j]));
    }
}

/* gelu_tanh: a is off by 4 u |a|, so exp(-2|a|) by 8 u |a| + 4 u, the quotient and product add 3 u; below the smallest
 * normal exponential the result is 0. The derivative has two such terms, and their sizes add. */
static void gelu_tanh(void **state)
{
    (void)state;
    enum { COUNT = 4001 };
    static float x[COUNT], g[COUNT], one[COUNT], d[COUNT];
    static double x64[COUNT], g64[COUNT], one64[COUNT], d64[COUNT];
    ops_case at;
    ops_case_init(&at);
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - 2000) * 0.00503F;
        x64[i] = (double)x[i];
        one[i] = 1.0F;
        one64[i] = 1.0;
    }
    OPS(&at, single, GAL_OP_ACTIVATION, DIMS(COUNT, GAL_ACTIVATION_GELU_TANH), x, g);
    OPS(&at, ops, GAL_OP_ACTIVATION, DIMS(COUNT, GAL_ACTIVATION_GELU_TANH), x64, g64);
    OPS(&at, single, GAL_OP_ACTIVATION_BACKWARD, DIMS(COUNT, GAL_ACTIVATION_GELU_TANH), one, x, d);
    OPS(&at, ops, GAL_OP_ACTIVATION_BACKWARD, DIMS(COUNT, GAL_ACTIVATION_GELU_TANH), one64, x64, d64);
    for (size_t i = 0; i < COUNT; i++) {
        const double a = 0.7978845608028654 * (x64[i] + 0.044715 * x64[i] * x64[i] * x64[i]);
        const double s = 1 / (1 + exp(-2 * a)), e = exp(-2 * fabs(a));
        const double term = 2 * fabs(x64[i]) * e / ((1 + e) * (1 + e)) * 0.8 * (1 + 0.135 * x64[i] * x64[i]);
        const double relative = u * (8 * fabs(a) + 8);
        expect_within(g, g64, i, relative * fabs(g64[i]) + 20 * (double)FLT_MIN);
        expect_within(d, d64, i, (relative + 4 * u) * (s + term) + 4000 * (double)FLT_MIN);
    }
}

/* erfc of libm is off by a few units in the last place; its argument by 2 u, which erfc magnifies by 2 z^2 + 1. */
static void gelu_erf_and_relu(void **state)
{
    (void)state;
    enum { COUNT = 1001 };
    static float x[COUNT], g[COUNT];
    static double x64[COUNT], g64[COUNT];
    ops_case at;
    ops_case_init(&at);
    fill_both(x, x64, COUNT, 5.0, 1);
    OPS(&at, single, GAL_OP_ACTIVATION, DIMS(COUNT, GAL_ACTIVATION_GELU_ERF), x, g);
    OPS(&at, ops, GAL_OP_ACTIVATION, DIMS(COUNT, GAL_ACTIVATION_GELU_ERF), x64, g64);
    for (size_t i = 0; i < COUNT; i++) {
        expect_within(g, g64, i, u * (2 * (x64[i] * x64[i] + 2) + 10) * fabs(g64[i]));
    }
    OPS(&at, single, GAL_OP_ACTIVATION, DIMS(COUNT, GAL_ACTIVATION_RELU), x, g);
    OPS(&at, ops, GAL_OP_ACTIVATION, DIMS(COUNT, GAL_ACTIVATION_RELU), x64, g64);
    for (size_t i = 0; i < COUNT; i++) {
        expect_within(g, g64, i, 0.0);
    }
}

/* q, k, v, dctx within 1, heads of DIM: scores within S = sqrt(DIM), each off by (DIM + 2) u S; less the maximum and
 * exp 3 S u + 4 u more, so a probability is off by E = (DIM + 5) S u + 4 u, twice with its normaliser (relatively).
 * ctx: 2 E + (SEQUENCE + 8) u for the sums and rescalings of three tiles.
 * dP and D are off by (DIM + 2) u DIM and within DIM; so p (dP - D) by p DIM (2 * 2 E + 2 (DIM + 2) u + 4 u); lse,
 * within S + ln SEQUENCE < 9, is rounded: 9 u in E. dq sums p to 1, dk and dv over up to SEQUENCE queries. */
static void attention(void **state)
{
    (void)state;
    enum { SEQUENCE = 140, HEADS = 2, DIM = 16, WIDTH = HEADS * DIM, COUNT = SEQUENCE * WIDTH };
    static float qkv[3 * COUNT], ctx[COUNT], lse[HEADS * SEQUENCE], dctx[COUNT], dqkv[3 * COUNT];
    static double qkv64[3 * COUNT], ctx64[COUNT], lse64[HEADS * SEQUENCE], dctx64[COUNT], dqkv64[3 * COUNT];
    const double spread = sqrt(DIM), error = (DIM + 5) * spread * u + 13 * u;
    const double slope = DIM * (4 * error + 2 * (DIM + 2) * u + 4 * u) + (SEQUENCE + 4) * u * 2 * DIM;
    ops_case at;
    ops_case_init(&at);
    at.model.sequence_length = SEQUENCE;
    at.model.head_count = HEADS;
    for (int with = 0; with < 2; with++) {
        at.model.attention_dropout = with != 0 ? 0.5 : 0.0; /* doubles what is kept */
        const double kept = with != 0 ? 2.0 : 1.0;
        fill_both(qkv, qkv64, 3 * COUNT, 1.0, 1);
        fill_both(dctx, dctx64, COUNT, 1.0, 2);
        OPS(&at, single, GAL_OP_ATTENTION, DIMS(1, SEQUENCE, HEADS, DIM, HEADS, GAL_ATTENTION_CAUSAL), qkv, ctx, lse);
        OPS(&at, ops, GAL_OP_ATTENTION, DIMS(1, SEQUENCE, HEADS, DIM, HEADS, GAL_ATTENTION_CAUSAL), qkv64, ctx64,
            lse64);
        OPS(&at, single, GAL_OP_ATTENTION_BACKWARD, DIMS(1, SEQUENCE, HEADS, DIM, HEADS, GAL_ATTENTION_CAUSAL), dctx,
            qkv, ctx, lse, dqkv);
        OPS(&at, ops, GAL_OP_ATTENTION_BACKWARD, DIMS(1, SEQUENCE, HEADS, DIM, HEADS, GAL_ATTENTION_CAUSAL), dctx64,
            qkv64, ctx64, lse64, dqkv64);
        for (size_t i = 0; i < COUNT; i++) {
            expect_within(ctx, ctx64, i, kept * (2 * error + (SEQUENCE + 8) * u));
        }
        for (size_t i = 0; i < HEADS * SEQUENCE; i++) {
            expect_within(lse, lse64, i, error + 9 * u);
        }
        for (size_t i = 0; i < 3 * COUNT; i++) {
            const bool is_query = i / WIDTH % 3 == 0;
            expect_within(dqkv, dqkv64, i, kept * slope / spread * (is_query ? 1.0 : SEQUENCE));
        }
    }
}

/* Logits within 8: z - max is off by 16 u, exp by 4 u more, the sum's rounding 1 u; z - max of the target by 16 u. */
static void cross_entropy(void **state)
{
    (void)state;
    enum { SAMPLES = 2, SEQUENCE = 3, ROWS = SAMPLES * SEQUENCE, LOCAL = 520, VOCABULARY = 517 };
    static float z[ROWS * LOCAL], max[ROWS], sums[2 * ROWS];
    static double z64[ROWS * LOCAL], max64[ROWS], sums64[2 * ROWS];
    int32_t target[ROWS] = {0, 516, 300, 2, 77, 511};
    double loss[2], loss64[2];
    ops_case at;
    ops_case_init(&at);
    fill_both(z, z64, ROWS * LOCAL, 8.0, 1);
    OPS(&at, single, GAL_OP_CROSS_ENTROPY_MAX, DIMS(ROWS, LOCAL, VOCABULARY), z, max);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_MAX, DIMS(ROWS, LOCAL, VOCABULARY), z64, max64);
    OPS(&at, single, GAL_OP_CROSS_ENTROPY_SUM, DIMS(SAMPLES, SEQUENCE, LOCAL, VOCABULARY), z, max, target, sums);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_SUM, DIMS(SAMPLES, SEQUENCE, LOCAL, VOCABULARY), z64, max64, target, sums64);
    OPS(&at, single, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(ROWS), sums, loss);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(ROWS), sums64, loss64);
    for (size_t i = 0; i < ROWS; i++) {
        expect_within(max, max64, i, 0.0);
    }
    assert_true(fabs(loss[0] - loss64[0]) <= ROWS * (16 + 4 + 1 + 16) * u);
    OPS(&at, single, GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(SAMPLES, SEQUENCE, LOCAL, VOCABULARY), z, max, sums, target);
    OPS(&at, ops, GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(SAMPLES, SEQUENCE, LOCAL, VOCABULARY), z64, max64, sums64,
        target);
    for (size_t i = 0; i < ROWS * LOCAL; i++) { /* probability p off by (2 * 20 + 4) u p; minus 1: one rounding more */
        const double p = z64[i] < 0.0 ? z64[i] + 1.0 : z64[i];
        expect_within(z, z64, i, 44 * u * p + u);
    }
}

/* Squares of fp32 numbers are exact in double, and both tables add in the same order: equal. */
static void sum_squares(void **state)
{
    (void)state;
    enum { COUNT = 1003 };
    static float x[COUNT];
    static double x64[COUNT];
    double norm[2] = {0, 0}, norm64[2] = {0, 0};
    ops_case at;
    ops_case_init(&at);
    fill_both(x, x64, COUNT, 3.0, 1);
    OPS(&at, single, GAL_OP_SUM_SQUARES, DIMS(COUNT, 3), x, norm);
    OPS(&at, ops, GAL_OP_SUM_SQUARES, DIMS(COUNT, 3), x64, norm64);
    assert_true(norm[0] == norm64[0]);
}

/* Some ten roundings of numbers within 1 (w) and of a step of rate * mhat / sqrt(vhat), here within 0.1 * 10. */
static void adam(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static float w[COUNT], g[COUNT], m[COUNT], v[COUNT];
    static double w64[COUNT], g64[COUNT], m64[COUNT], v64[COUNT];
    double norm[2] = {4.0, 0.0};
    ops_case at;
    ops_case_init(&at);
    at.model.optimizer = (gal_optimizer){.kind = GAL_OPTIMIZER_ADAMW,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-8,
                                         .weight_decay = 0.1,
                                         .gradient_clip_norm = 1.0};
    at.step.learning_rate = 0.1;
    fill_both(w, w64, COUNT, 1.0, 1);
    fill_both(g, g64, COUNT, 1.0, 2);
    OPS(&at, single, GAL_OP_ADAM, DIMS(COUNT, 100), w, g, m, v, norm);
    OPS(&at, ops, GAL_OP_ADAM, DIMS(COUNT, 100), w64, g64, m64, v64, norm);
    for (size_t i = 0; i < COUNT; i++) { /* the first step is 0.1 in size, whatever the gradient */
        expect_within(w, w64, i, 10 * u * 0.1 + 3 * u * 1.1);
        expect_within(m, m64, i, 5 * u * fabs(m64[i]));
        expect_within(v, v64, i, 7 * u * v64[i]);
    }
}

/* The same call twice gives the same bits. */
static void repeats_bit_for_bit(void **state)
{
    (void)state;
    enum { SEQUENCE = 130, DIM = 24, COUNT = SEQUENCE * DIM };
    static float qkv[3 * COUNT], dctx[COUNT], ctx[2][COUNT], lse[2][SEQUENCE], dqkv[2][3 * COUNT];
    static double unused[3 * COUNT];
    ops_case at;
    ops_case_init(&at);
    at.model.sequence_length = SEQUENCE;
    at.model.attention_dropout = 0.1;
    fill_both(qkv, unused, 3 * COUNT, 1.0, 1);
    fill_both(dctx, unused, COUNT, 1.0, 2);
    for (int i = 0; i < 2; i++) {
        memset(dqkv[i], i != 0 ? 0xFF : 0x00, sizeof dqkv[i]); /* what was there does not matter */
        memset(ctx[i], i != 0 ? 0xFF : 0x00, sizeof ctx[i]);
        OPS(&at, single, GAL_OP_ATTENTION, DIMS(1, SEQUENCE, 1, DIM, 1, GAL_ATTENTION_CAUSAL), qkv, ctx[i], lse[i]);
        OPS(&at, single, GAL_OP_ATTENTION_BACKWARD, DIMS(1, SEQUENCE, 1, DIM, 1, GAL_ATTENTION_CAUSAL), dctx, qkv,
            ctx[i], lse[i], dqkv[i]);
    }
    assert_memory_equal(ctx[0], ctx[1], sizeof ctx[0]);
    assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
    assert_memory_equal(dqkv[0], dqkv[1], sizeof dqkv[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential),         cmocka_unit_test(gemm),
        cmocka_unit_test(layer_norm),          cmocka_unit_test(layer_norm_backward),
        cmocka_unit_test(gelu_tanh),           cmocka_unit_test(gelu_erf_and_relu),
        cmocka_unit_test(attention),           cmocka_unit_test(cross_entropy),
        cmocka_unit_test(sum_squares),         cmocka_unit_test(adam),
        cmocka_unit_test(repeats_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
