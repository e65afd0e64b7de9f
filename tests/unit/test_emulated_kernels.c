/* Device kernels that compute, on emulated threads, against the host's in fp64: every type, shapes that take each path
 * of the launchers. u is 2^-24, what fp32 arithmetic rounds by: a sum of n numbers is off by at most n u times the sum
 * of their sizes (N. Higham, "Accuracy and stability of numerical algorithms", section 3.1). device_case_expect adds
 * the rounding of the result. */
#include <float.h>
#include <math.h>

#include "tests/support/emulated/device_case.h"
#include "tests/support/emulated/machine.h"

static const double u = 0x1p-24;
static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};

typedef void (*one_case)(device_case *at, uint32_t size);

/* All types, even and odd addresses; the latter take one path whatever the length. */
static void in_all_forms(one_case run, const uint32_t *sizes, uint32_t size_count)
{
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < size_count; s++) {
            for (uint32_t odd = 0; odd < (sizes[s] > 2000 ? 1U : 2U); odd++) {
                device_case at;
                device_case_init(&at, types[t], odd != 0);
                run(&at, sizes[s]);
                device_case_free(&at);
            }
        }
    }
}
#define IN_ALL_FORMS(run, ...)                                                                                         \
    in_all_forms(run, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* ---- element by element: lengths that fill no access, some, and whole blocks of them ---- */

static void scale_case(device_case *at, uint32_t elements)
{
    const operand *a = device_case_add(at, ELEMENT, elements, 1.0, 1);
    device_case_run(at, GAL_OP_SCALE, DIMS(elements, 3));
    device_case_expect_all(at, a, 2 * u);
}

static void scale(void **state)
{
    (void)state;
    IN_ALL_FORMS(scale_case, 1, 7, 8, 100, 8192, 8203);
}

static void add_case(device_case *at, uint32_t elements)
{
    for (int add = 0; add < 2; add++) {
        at->ops.call.add = add != 0;
        device_case_add(at, ELEMENT, elements, 1.0, 1);
        const operand *target = device_case_add(at, ELEMENT, elements, add != 0 ? 1.0 : 0.0, 2);
        device_case_run(at, GAL_OP_ADD, DIMS(elements));
        device_case_expect_all(at, target, add != 0 ? 2 * u : 0.0);
        device_case_free(at);
    }
}

static void add(void **state)
{
    (void)state;
    IN_ALL_FORMS(add_case, 1, 7, 8, 100, 8192, 8203);
}

static void fill_case(device_case *at, uint32_t elements)
{
    const operand *target = device_case_add(at, ELEMENT, elements, 0.0, 0);
    device_case_run(at, GAL_OP_FILL, DIMS(elements));
    device_case_expect_all(at, target, 0.0);
}

static void fill(void **state)
{
    (void)state;
    IN_ALL_FORMS(fill_case, 1, 100);
}

/* Results and slopes at u = x: relative errors of test_ops_precision.c's derivation: of gelu_tanh u (8 |a| + 8) with a
 * within 0.8 (|x| + 0.045 |x|^3) and in the slope 4 u more of two terms, of which the second is below 1.2 in size; erfc
 * magnifies its argument's 2 u by 2 z^2 + 1; silu like gelu with a = x / 2. All of them are within 1.2 (1 + |x|). */
static double activation_bound(double x)
{
    const double a = 0.8 * (fabs(x) + 0.045 * fabs(x * x * x));
    return u * (8 * a + 2 * (x * x + 2) + 12) * 1.2 * (1 + fabs(x)) + 4000 * (double)FLT_MIN;
}

static void activation_case(device_case *at, uint32_t elements)
{
    for (uint32_t kind = 0; kind < GAL_ACTIVATION_COUNT; kind++) {
        const operand *x = device_case_add(at, ELEMENT, elements, 5.0, 1);
        const operand *g = device_case_add(at, ELEMENT, elements, 0.0, 0);
        device_case_run(at, GAL_OP_ACTIVATION, DIMS(elements, kind));
        for (size_t i = 0; i < elements; i++) {
            device_case_expect(at, g, i, activation_bound(x->exact[i]));
        }
        device_case_free(at);
        device_case_add(at, ELEMENT, elements, 1.0, 1);
        x = device_case_add(at, ELEMENT, elements, 5.0, 2);
        const operand *du = device_case_add(at, ELEMENT, elements, 0.0, 0);
        device_case_run(at, GAL_OP_ACTIVATION_BACKWARD, DIMS(elements, kind));
        for (size_t i = 0; i < elements; i++) {
            device_case_expect(at, du, i, activation_bound(x->exact[i]) + u);
        }
        device_case_free(at);
    }
}

static void activation(void **state)
{
    (void)state;
    IN_ALL_FORMS(activation_case, 1, 7, 1000, 8203);
}

/* Products of the above with numbers within 1. */
static void gated_case(device_case *at, uint32_t features)
{
    enum { ROWS = 5 };
    const size_t count = (size_t)ROWS * features;
    for (uint32_t kind = 0; kind < GAL_ACTIVATION_COUNT; kind++) {
        const operand *x = device_case_add(at, ELEMENT, 2 * count, 1.0, 1);
        const operand *g = device_case_add(at, ELEMENT, count, 0.0, 0);
        device_case_run(at, GAL_OP_GATED_ACTIVATION, DIMS(ROWS, features, kind));
        for (size_t i = 0; i < count; i++) {
            const double gate = x->exact[i / features * 2 * features + i % features];
            device_case_expect(at, g, i, activation_bound(gate) + u);
        }
        device_case_free(at);
        device_case_add(at, ELEMENT, count, 1.0, 1);
        x = device_case_add(at, ELEMENT, 2 * count, 1.0, 2);
        const operand *du = device_case_add(at, ELEMENT, 2 * count, 0.0, 0);
        device_case_run(at, GAL_OP_GATED_ACTIVATION_BACKWARD, DIMS(ROWS, features, kind));
        for (size_t i = 0; i < 2 * count; i++) {
            const double gate = x->exact[i / (2 * features) * 2 * features + i % features];
            device_case_expect(at, du, i, activation_bound(gate) + 2 * u);
        }
        device_case_free(at);
    }
}

static void gated(void **state)
{
    (void)state;
    IN_ALL_FORMS(gated_case, 1, 37, 48, 256);
}

/* ---- normalisation. Lengths: rows for a warp, for 128 and 512 threads, and longer ones (bf16: from 16,385) ---- */

/* x within 1 of 3. The mean is off by n u |x|, of 4 at most; the variance, near 1/3, by the squares' own errors: in all
 * (n + 6) u relatively, and twice the mean's error squared; so the reciprocal, near sqrt 3, by half of that and 2 u. */
static void layer_norm_case(device_case *at, uint32_t hidden)
{
    enum { ROWS = 3 };
    const double mean_error = (hidden + 1) * u * 4;
    operand *x = device_case_add(at, ELEMENT, (size_t)ROWS * hidden, 1.0, 1);
    operand *gain = device_case_add(at, ELEMENT, hidden, 1.0, 2);
    device_case_add(at, ELEMENT, hidden, 1.0, 3);
    const operand *y = device_case_add(at, ELEMENT, (size_t)ROWS * hidden, 0.0, 0);
    const operand *stats = device_case_add(at, FLOAT, 2 * ROWS, 0.0, 0);
    for (size_t i = 0; i < x->count; i++) {
        x->exact[i] = device_case_round(at, ELEMENT, x->exact[i] + 3.0);
    }
    device_case_run(at, GAL_OP_LAYER_NORM, DIMS(ROWS, hidden));
    for (size_t i = 0; i < ROWS; i++) {
        const double reciprocal = stats->exact[ROWS + i];
        const double variance = 1.0 / (reciprocal * reciprocal);
        const double relative = (hidden + 6) * u + mean_error * mean_error / variance;
        device_case_expect(at, stats, i, mean_error);
        device_case_expect(at, stats, ROWS + i, reciprocal * (relative / 2 + 2 * u));
        for (size_t j = 0; j < hidden; j++) {
            const double deviation = fabs(x->exact[i * hidden + j] - stats->exact[i]) + mean_error;
            const double scale = reciprocal * fabs(gain->exact[j]);
            device_case_expect(at, y, i * hidden + j,
                               scale * (mean_error + deviation * (relative / 2 + 6 * u)) + 2 * u);
        }
    }
}

static void layer_norm(void **state)
{
    (void)state;
    IN_ALL_FORMS(layer_norm_case, 48, 37, 520, 1032, 4104, 16392);
}

/* The mean square is off by (n + 1) u relatively, the reciprocal by half of that and 2 u. */
static void rms_norm_case(device_case *at, uint32_t hidden)
{
    enum { ROWS = 3 };
    const double relative = (hidden + 1) * u / 2 + 2 * u;
    device_case_add(at, ELEMENT, (size_t)ROWS * hidden, 1.0, 1);
    device_case_add(at, ELEMENT, hidden, 1.0, 2);
    const operand *y = device_case_add(at, ELEMENT, (size_t)ROWS * hidden, 0.0, 0);
    const operand *reciprocals = device_case_add(at, FLOAT, ROWS, 0.0, 0);
    device_case_run(at, GAL_OP_RMS_NORM, DIMS(ROWS, hidden));
    for (size_t i = 0; i < y->count; i++) {
        device_case_expect(at, y, i, (relative + 3 * u) * fabs(y->exact[i]));
    }
    for (size_t i = 0; i < ROWS; i++) {
        device_case_expect(at, reciprocals, i, relative * reciprocals->exact[i]);
    }
}

static void rms_norm(void **state)
{
    (void)state;
    IN_ALL_FORMS(rms_norm_case, 48, 37, 520, 1032, 4104, 16392);
}

/* As layer_norm_backward of test_ops_precision.c, with 1.75 the reciprocal, |xhat| <= 2, |d| <= 1: terms 1, 1 and 4,
 * off by 10 u of them; and the sums of `hidden` terms within 1 and 2 in fp32, by (hidden + 1) u (1 + 2 * 2) of their
 * means. Column sums: each of `rows` terms off by 3 u of at most 2, and the additions. */
static void norm_backward_of(device_case *at, uint32_t rows, uint32_t hidden, bool centred, uint32_t addend, bool add)
{
    const size_t count = (size_t)rows * hidden;
    const double column = (rows + 4.0) * u * (2.0 * rows + 1.0);
    at->ops.call.add = add;
    device_case_add(at, ELEMENT, count, 1.0, 1);
    device_case_add(at, ELEMENT, count, 1.0, 2);
    device_case_add(at, ELEMENT, hidden, 1.0, 3);
    operand *stats = device_case_add(at, FLOAT, centred ? 2 * rows : rows, 1.0, 4);
    const operand *dx = device_case_add(at, ELEMENT, count, 0.0, 0);
    const operand *dgain = device_case_add(at, FLOAT, hidden, add ? 1.0 : 0.0, 5);
    const operand *dbias = centred ? device_case_add(at, FLOAT, hidden, add ? 1.0 : 0.0, 6) : NULL;
    if (addend != 0) {
        device_case_add(at, ELEMENT, count, 1.0, 7);
    }
    for (size_t i = 0; i < stats->count; i++) {
        stats->exact[i] = centred && i < rows ? 0.125 : 1.75;
    }
    device_case_run(at, centred ? GAL_OP_LAYER_NORM_BACKWARD : GAL_OP_RMS_NORM_BACKWARD, DIMS(rows, hidden, addend));
    device_case_expect_all(at, dx, 1.75 * (10 * u * 6 + (hidden + 1) * u * 5) + u);
    device_case_expect_all(at, dgain, column);
    if (centred) {
        device_case_expect_all(at, dbias, column);
    }
    device_case_free(at);
}

static void norm_backward_case(device_case *at, uint32_t hidden)
{
    norm_backward_of(at, 3, hidden, true, 0, false);
    norm_backward_of(at, 3, hidden, true, 1, true);
    norm_backward_of(at, 3, hidden, false, 1, false);
    norm_backward_of(at, 3, hidden, false, 0, true);
}

static void norm_backward(void **state)
{
    (void)state;
    device_case at;
    IN_ALL_FORMS(norm_backward_case, 48, 37, 2056, 4104);
    device_case_init(&at, GAL_BF16, false); /* rows too long to be kept */
    norm_backward_of(&at, 3, 8200, true, 1, false);
    norm_backward_of(&at, 3, 8200, false, 0, true);
}

/* More rows than blocks: those take several in turn. */
static void norm_backward_of_many_rows(void **state)
{
    (void)state;
    device_case at;
    device_case_init(&at, GAL_BF16, false);
    norm_backward_of(&at, 1100, 16, true, 1, false);
    device_case_init(&at, GAL_FP32, false);
    norm_backward_of(&at, 270, 2052, false, 0, false);
}

/* ---- cross-entropy ---- */

/* Rank 1 of 2 with 520 columns, of which `vocabulary` - 520 are real: some, one, none. Logits within 8: z - max is off
 * by 16 u, exp by 2 units in the last place, the sum by as many u as it has terms. */
static void cross_entropy_of(device_case *at, uint32_t local, uint32_t vocabulary)
{
    enum { SAMPLES = 2, SEQUENCE = 3, ROWS = SAMPLES * SEQUENCE };
    const int32_t targets[ROWS] = {0, (int32_t)local, -1, 2, (int32_t)vocabulary - 1, (int32_t)local + 3};
    double maxima[ROWS], sums[2 * ROWS];
    const size_t count = (size_t)ROWS * local;
    const double exponential = 16 * u + 4 * u;
    at->ops.call.group_index = 1;
    at->ops.call.group_count = 2;
    at->ops.step.loss_scale = 0.25;
    device_case_add(at, ELEMENT, count, 8.0, 1);
    const operand *max = device_case_add(at, FLOAT, ROWS, 0.0, 0);
    device_case_run(at, GAL_OP_CROSS_ENTROPY_MAX, DIMS(ROWS, local, vocabulary));
    for (size_t i = 0; i < ROWS; i++) { /* the host's least number is that of fp64 */
        maxima[i] = vocabulary > local ? max->exact[i] : 8.0;
        assert_true(max->got[i] == (vocabulary > local ? max->exact[i] : -(double)FLT_MAX));
    }
    device_case_free(at);

    device_case_add(at, ELEMENT, count, 8.0, 1);
    memcpy(device_case_add(at, FLOAT, ROWS, 1.0, 2)->exact, maxima, sizeof maxima);
    device_case_add_tokens(at, targets, ROWS);
    const operand *sum = device_case_add(at, FLOAT, 2 * ROWS, 0.0, 0);
    device_case_run(at, GAL_OP_CROSS_ENTROPY_SUM, DIMS(SAMPLES, SEQUENCE, local, vocabulary));
    for (size_t i = 0; i < ROWS; i++) {
        device_case_expect(at, sum, i, (exponential + local * u) * sum->exact[i]);
        device_case_expect(at, sum, ROWS + i, 16 * u);
        sums[i] = device_case_round(at, FLOAT, 1.0 + sum->exact[i]); /* what other ranks add */
        sums[ROWS + i] = 0.0;
    }
    device_case_free(at);

    operand *z = device_case_add(at, ELEMENT, count, 8.0, 1);
    memcpy(device_case_add(at, FLOAT, ROWS, 1.0, 2)->exact, maxima, sizeof maxima);
    memcpy(device_case_add(at, FLOAT, 2 * ROWS, 1.0, 2)->exact, sums, sizeof sums);
    device_case_add_tokens(at, targets, ROWS);
    device_case_run(at, GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(SAMPLES, SEQUENCE, local, vocabulary));
    for (size_t i = 0; i < count; i++) { /* p / sum loss_scale: two more roundings; and one of the difference */
        device_case_expect(at, z, i, 0.25 * ((exponential + 3 * u) + u));
    }
    device_case_free(at);
}

static void cross_entropy_case(device_case *at, uint32_t local)
{
    cross_entropy_of(at, local, 2 * local - 3);
    cross_entropy_of(at, local, local + 4);
    cross_entropy_of(at, local, local);
}

static void cross_entropy(void **state)
{
    (void)state;
    device_case at;
    IN_ALL_FORMS(cross_entropy_case, 8, 37, 520);
    device_case_init(&at, GAL_BF16, false); /* four accesses of a thread at a time */
    cross_entropy_of(&at, 16648, 2 * 16648 - 3);
}

/* Gradients of fp16 are scaled, by a power of two: all else is equal. */
static void cross_entropy_scales_its_gradient(void **state)
{
    (void)state;
    enum { ROWS = 2, LOCAL = 16 };
    static const int32_t targets[ROWS] = {3, 7};
    double plain[ROWS * LOCAL];
    for (int scaled = 0; scaled < 2; scaled++) {
        device_case at;
        device_case_init(&at, GAL_FP16, false);
        at.gradient_scale = scaled != 0 ? 64.0 : 1.0;
        const operand *z = device_case_add(&at, ELEMENT, ROWS * LOCAL, 1.0, 1);
        device_case_add(&at, FLOAT, ROWS, 0.5, 2);
        device_case_add(&at, FLOAT, 2 * ROWS, 1.0, 3);
        at.operand[2].exact[0] = at.operand[2].exact[1] = 16.0;
        device_case_add_tokens(&at, targets, ROWS);
        device_case_run(&at, GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(1, ROWS, LOCAL, LOCAL));
        for (size_t i = 0; i < ROWS * LOCAL; i++) {
            if (scaled != 0) {
                assert_true(z->got[i] == 64.0 * plain[i]);
            }
            plain[i] = z->got[i];
        }
        device_case_free(&at);
    }
}

/* Rows without a target, and such that are right; log in fp64 on both sides: only the order of sums differs. */
static void cross_entropy_loss(void **state)
{
    (void)state;
    enum { ROWS = 2500 };
    for (int add = 0; add < 2; add++) {
        device_case at;
        device_case_init(&at, GAL_BF16, false);
        at.ops.call.add = add != 0;
        operand *sums = device_case_add(&at, FLOAT, 2 * ROWS, 4.0, 1);
        const operand *loss = device_case_add(&at, WHOLE, 2, add != 0 ? 1.0 : 0.0, 2);
        for (size_t i = 0; i < ROWS; i++) {
            sums->exact[i] = i % 7 == 0 ? 0.0 : device_case_round(&at, FLOAT, 5.0 + sums->exact[i]);
            sums->exact[ROWS + i] = i % 3 == 0 || i % 7 == 0 ? 0.0 : -fabs(sums->exact[ROWS + i]);
        }
        device_case_run(&at, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(ROWS));
        assert_true(fabs(loss->got[0] - loss->exact[0]) <= ROWS * 0x1p-53 * ROWS * 7);
        assert_true(fabs(loss->got[1] - loss->exact[1]) <= ROWS * 0x1p-53 * ROWS);
        device_case_free(&at);
    }
}

/* ---- the optimizer ---- */

static void norm_start(void **state)
{
    (void)state;
    for (int has_loss = 0; has_loss < 2; has_loss++) {
        device_case at;
        device_case_init(&at, GAL_BF16, false);
        if (has_loss != 0) {
            device_case_add(&at, WHOLE, 2, 5.0, 1);
        }
        const operand *norm = device_case_add(&at, WHOLE, 2, 0.0, 0);
        device_case_run(&at, GAL_OP_NORM_START, DIMS(3));
        device_case_expect_all(&at, norm, 0.0);
        device_case_free(&at);
    }
}

/* Squares are exact in fp64; the order of sums differs. */
static void sum_squares_case(device_case *at, uint32_t elements)
{
    device_case_add(at, ELEMENT, elements, 3.0, 1);
    operand *norm = device_case_add(at, WHOLE, 2, 1.0, 2);
    norm->exact[0] = 0.5;
    device_case_run(at, GAL_OP_SUM_SQUARES, DIMS(elements, 3));
    assert_true(fabs(norm->got[0] - norm->exact[0]) <= elements * 0x1p-53 * norm->exact[0]);
    assert_true(norm->got[1] == norm->exact[1]);
}

static void sum_squares(void **state)
{
    (void)state;
    IN_ALL_FORMS(sum_squares_case, 1, 7, 4099, 50003);
}

static void adam_model(device_case *at)
{
    at->ops.model.optimizer = (gal_optimizer){.kind = GAL_OPTIMIZER_ADAMW,
                                              .beta1 = 0.9,
                                              .beta2 = 0.95,
                                              .epsilon = 1e-8,
                                              .weight_decay = 0.1,
                                              .gradient_clip_norm = 1.0};
    at->ops.step.learning_rate = 0.1;
    at->ops.step.step = 2;
}

/* w, or of mixed precision rounded w and the master at the end. Kinds: moments that a step before has left. */
static void adam_operands(device_case *at, uint32_t elements)
{
    device_case_add(at, ELEMENT, elements, 1.0, 1);
    device_case_add(at, FLOAT, elements, 1.0, 2);
    device_case_add(at, FLOAT, elements, 0.1, 3);
    operand *v = device_case_add(at, FLOAT, elements, 0.1, 4);
    device_case_add(at, WHOLE, 2, 1.0, 5)->exact[0] = 4.0;
    for (size_t i = 0; i < elements; i++) {
        v->exact[i] = device_case_round(at, FLOAT, fabs(v->exact[i]) + 0.0078125);
    }
    if (at->dtype != GAL_FP32) {
        device_case_add(at, FLOAT, elements, 1.0, 1);
    }
}

/* Rank 1 of 3; decay ends within its range, before it, behind it. The host's w starts as the master. mhat and vhat are
 * off by some 6 u each of at most 1, vhat's root is 0.08 at least: the step, rate * mhat / root, by 0.1 * 20 u * 15. */
static void adam_of(device_case *at, uint32_t elements, uint32_t decay_elements, gal_optimizer_kind kind)
{
    const bool mixed = at->dtype != GAL_FP32;
    adam_model(at);
    at->ops.model.optimizer.kind = kind;
    at->ops.call.group_index = 1;
    at->ops.call.group_count = 3;
    adam_operands(at, elements);
    const operand *w = &at->operand[0], *m = &at->operand[2], *v = &at->operand[3];
    const operand *master = mixed ? &at->operand[5] : w;
    if (mixed) {
        memcpy(w->exact, master->exact, elements * sizeof *w->exact);
    }
    device_case_run(at, GAL_OP_ADAM, DIMS(elements, decay_elements));
    for (size_t i = 0; i < elements; i++) {
        const double bound = 0.1 * 20 * u * 15 + 4 * u * 1.1;
        const double off = fabs(master->got[i] - w->exact[i]);
        if (!(off <= bound)) {
            print_error("weight %zu: off by %.3g, bound %.3g\n", i, off, bound);
            fail();
        }
        assert_true(w->got[i] == device_case_round(at, ELEMENT, master->got[i]));
        device_case_expect(at, m, i, 6 * u * 1.1);
        device_case_expect(at, v, i, 8 * u * 1.1);
    }
    device_case_free(at);
}

static void adam_case(device_case *at, uint32_t elements)
{
    adam_of(at, elements, elements + elements / 2, GAL_OPTIMIZER_ADAMW);
    adam_of(at, elements, elements + elements / 2, GAL_OPTIMIZER_ADAM);
    adam_of(at, elements, elements / 2, GAL_OPTIMIZER_ADAMW);
    adam_of(at, elements, 3 * elements, GAL_OPTIMIZER_ADAMW);
}

static void adam(void **state)
{
    (void)state;
    IN_ALL_FORMS(adam_case, 1, 6, 4098, 5003);
}

/* A gradient in its weights' place, rounded as they were: the step of adam from it, and the weights; where the step is
 * skipped the old weights are there again and nothing else has changed. */
static void adam_in_place_of(device_case *at, uint32_t elements, bool skipped)
{
    adam_model(at);
    at->ops.call.group_index = 1;
    at->ops.call.group_count = 3;
    const operand *w = device_case_add(at, ELEMENT, elements, 1.0, 2);
    const operand *m = device_case_add(at, FLOAT, elements, 0.1, 3);
    const operand *v = device_case_add(at, FLOAT, elements, 0.1, 4);
    device_case_add(at, WHOLE, 2, 1.0, 5)->exact[0] = skipped ? NAN : 4.0;
    const operand *master = device_case_add(at, FLOAT, elements, 1.0, 1);
    for (size_t i = 0; i < elements; i++) {
        v->exact[i] = device_case_round(at, FLOAT, fabs(v->exact[i]) + 0.0078125);
    }
    device_case_run(at, GAL_OP_ADAM_IN_PLACE, DIMS(elements, elements + elements / 2));
    for (size_t i = 0; i < elements; i++) {
        const double bound = skipped ? 0.0 : 0.1 * 20 * u * 15 + 4 * u * 1.1;
        assert_true(fabs(master->got[i] - master->exact[i]) <= bound);
        assert_true(w->got[i] == device_case_round(at, ELEMENT, master->got[i]));
        device_case_expect(at, m, i, skipped ? 0.0 : 6 * u * 1.1);
        device_case_expect(at, v, i, skipped ? 0.0 : 8 * u * 1.1);
    }
    device_case_free(at);
}

static void adam_in_place_case(device_case *at, uint32_t elements)
{
    adam_in_place_of(at, elements, false);
    adam_in_place_of(at, elements, true);
}

static void adam_in_place(void **state)
{
    (void)state;
    IN_ALL_FORMS(adam_in_place_case, 1, 6, 4098, 5003);
}

static void keep_gradient_case(device_case *at, uint32_t elements)
{
    const operand *gradient = device_case_add(at, FLOAT, elements, 1.0, 2);
    const operand *place = device_case_add(at, ELEMENT, elements, 0.0, 0);
    device_case_run(at, GAL_OP_KEEP_GRADIENT, DIMS(elements));
    for (size_t i = 0; i < elements; i++) {
        assert_true(place->got[i] == device_case_round(at, ELEMENT, gradient->exact[i]));
    }
}

static void keep_gradient(void **state)
{
    (void)state;
    IN_ALL_FORMS(keep_gradient_case, 1, 6, 4098, 5003);
}

/* Gradients times 2^10 and a record that says so: the same step, to the bit; and the same norm. */
static void scaled_gradients_give_the_same_step(void **state)
{
    (void)state;
    enum { ELEMENTS = 101 };
    double weight[ELEMENTS], norm = 0.0;
    for (int scaled = 0; scaled < 2; scaled++) {
        device_case at;
        device_case_init(&at, GAL_FP16, false);
        adam_model(&at);
        at.gradient_scale = scaled != 0 ? 1024.0 : 1.0;
        adam_operands(&at, ELEMENTS);
        for (size_t i = 0; i < ELEMENTS; i++) {
            at.operand[1].exact[i] *= at.gradient_scale;
        }
        device_case_run(&at, GAL_OP_ADAM, DIMS(ELEMENTS, 50));
        for (size_t i = 0; i < ELEMENTS; i++) {
            assert_true(scaled == 0 || at.operand[5].got[i] == weight[i]);
            weight[i] = at.operand[5].got[i];
        }
        device_case_free(&at);
        operand *g = device_case_add(&at, ELEMENT, ELEMENTS, 1.0, 2);
        const operand *sum = device_case_add(&at, WHOLE, 2, 1.0, 3);
        at.operand[1].exact[0] = 0.0;
        for (size_t i = 0; i < ELEMENTS; i++) {
            g->exact[i] *= at.gradient_scale;
        }
        device_case_run(&at, GAL_OP_SUM_SQUARES, DIMS(ELEMENTS, 1));
        assert_true(scaled == 0 || sum->got[0] == norm);
        norm = sum->got[0];
        device_case_free(&at);
    }
}

/* The norm or the loss is not finite: weights and moments stay. (The host's engine sees to that itself.) */
static void skipped_steps_write_nothing(void **state)
{
    (void)state;
    enum { ELEMENTS = 37 };
    static const double bad[] = {NAN, INFINITY};
    for (uint32_t c = 0; c < 12; c++) {
        device_case at;
        double before[GAL_KERNEL_OPERANDS_MAX][ELEMENTS];
        device_case_init(&at, types[c / 4], false);
        adam_model(&at);
        adam_operands(&at, ELEMENTS);
        at.operand[4].exact[c % 2] = bad[c / 2 % 2];
        for (uint32_t o = 0; o < at.operand_count; o++) {
            memcpy(before[o], at.operand[o].exact, at.operand[o].count * sizeof(double));
        }
        device_case_run(&at, GAL_OP_ADAM, DIMS(ELEMENTS, 10));
        for (uint32_t o = 0; o < at.operand_count; o++) {
            for (size_t i = 0; i < at.operand[o].count && o != 4; i++) {
                assert_true(at.operand[o].got[i] == before[o][i]);
            }
        }
        device_case_free(&at);
    }
}

/* ---- what is refused ---- */

static void expect_refusal(gal_kernel kernel, const gal_kernel_call *call, const char *text)
{
    gal_error err = {.code = GAL_OK};
    const uint64_t launches = gal_machine_launches();
    assert_int_equal(kernel(call, &err), GAL_ERR_DEVICE);
    assert_string_equal(err.text, text);
    assert_true(gal_machine_launches() == launches);
}

/* Before anything is queued. */
static void refusals(void **state)
{
    (void)state;
    ops_case at;
    ops_case_init(&at);
    at.call.workspace_bytes = 31;
    at.call.dims = DIMS(1, 4, 0);
    expect_refusal(gal_cuda_layer_norm_backward_bf16, &at.call, "layer_norm_backward: 31 bytes of workspace, needs 32");
    at.call.dims = DIMS(100, GAL_ACTIVATION_COUNT);
    expect_refusal(gal_cuda_activation_fp32, &at.call, "activation 4 is none");
    at.call.operand_count = 5;
    expect_refusal(gal_cuda_adam_bf16, &at.call, "adam: 5 operands");
    at.call.dims = DIMS(0x10000, 0x8000, 9, 0);
    expect_refusal(gal_cuda_residual_bf16, &at.call, "residual: 19327352832 accesses, at most 2147483647");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scale),
        cmocka_unit_test(add),
        cmocka_unit_test(fill),
        cmocka_unit_test(activation),
        cmocka_unit_test(gated),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(rms_norm),
        cmocka_unit_test(norm_backward),
        cmocka_unit_test(norm_backward_of_many_rows),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(cross_entropy_scales_its_gradient),
        cmocka_unit_test(cross_entropy_loss),
        cmocka_unit_test(norm_start),
        cmocka_unit_test(sum_squares),
        cmocka_unit_test(adam),
        cmocka_unit_test(adam_in_place),
        cmocka_unit_test(keep_gradient),
        cmocka_unit_test(scaled_gradients_give_the_same_step),
        cmocka_unit_test(skipped_steps_write_nothing),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
