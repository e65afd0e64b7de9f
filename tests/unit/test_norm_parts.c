/* Norms of rows in parts against norms of whole rows, in fp64: 3 parts of 8 features, as three devices of a row would
 * have them. Also of values far from zero, where E[x^2] - E[x]^2 would have no digit left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/support/ops_case.h"

enum { ROWS = 5, PARTS = 3, FEATURES = 8, HIDDEN = PARTS * FEATURES };

static const gal_ops *const ops = &gal_ops_host_fp64;

/* Rounding of sums of HIDDEN terms in two orders, relative to the largest term: HIDDEN eps each, and a division. */
static const double relative_bound = 4.0 * HIDDEN * 0x1p-52;

typedef struct norm {
    double x[ROWS * HIDDEN], gain[HIDDEN], bias[HIDDEN], dy[ROWS * HIDDEN], addend[ROWS * HIDDEN];
    double y[ROWS * HIDDEN], stats[2 * ROWS], dx[ROWS * HIDDEN], dgain[HIDDEN], dbias[HIDDEN];
} norm;

static double value(uint32_t i, uint32_t stream)
{
    return sin(1.0 + 1.7 * i + 0.3 * stream);
}

static void fill(norm *n, double offset)
{
    memset(n, 0, sizeof *n);
    for (uint32_t i = 0; i < ROWS * HIDDEN; i++) {
        n->x[i] = offset + value(i, 1);
        n->dy[i] = value(i, 2);
        n->addend[i] = value(i, 3);
    }
    for (uint32_t j = 0; j < HIDDEN; j++) {
        n->gain[j] = 1.0 + 0.5 * value(j, 4);
        n->bias[j] = value(j, 5);
    }
}

static void run_whole(ops_case *at, norm *n, bool centred)
{
    if (centred) {
        OPS(at, ops, GAL_OP_LAYER_NORM, DIMS(ROWS, HIDDEN), n->x, n->gain, n->bias, n->y, n->stats);
        OPS(at, ops, GAL_OP_LAYER_NORM_BACKWARD, DIMS(ROWS, HIDDEN, 1), n->dy, n->x, n->gain, n->stats, n->dx, n->dgain,
            n->dbias, n->addend);
    } else {
        OPS(at, ops, GAL_OP_RMS_NORM, DIMS(ROWS, HIDDEN), n->x, n->gain, n->y, n->stats);
        OPS(at, ops, GAL_OP_RMS_NORM_BACKWARD, DIMS(ROWS, HIDDEN, 1), n->dy, n->x, n->gain, n->stats, n->dx, n->dgain,
            n->addend);
    }
}

/* The columns of one part, or back. */
static void take(const double *whole, uint32_t part, double *out)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        memcpy(out + (size_t)i * FEATURES, whole + (size_t)i * HIDDEN + part * FEATURES, FEATURES * sizeof *out);
    }
}

static void give(double *whole, uint32_t part, const double *in)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        memcpy(whole + (size_t)i * HIDDEN + part * FEATURES, in + (size_t)i * FEATURES, FEATURES * sizeof *in);
    }
}

enum { OWN = ROWS * FEATURES };

static void forward_parts(ops_case *at, norm *n, bool centred)
{
    double moments[PARTS * 2 * ROWS], x[OWN], y[OWN];
    for (uint32_t p = 0; p < PARTS; p++) {
        take(n->x, p, x);
        OPS(at, ops, GAL_OP_NORM_SUMS, DIMS(ROWS, FEATURES), x, moments + (size_t)p * 2 * ROWS);
    }
    for (uint32_t p = 0; p < PARTS; p++) {
        take(n->x, p, x);
        if (centred) {
            OPS(at, ops, GAL_OP_NORM_BY_SUMS, DIMS(ROWS, FEATURES, PARTS, 1), x, n->gain + p * FEATURES, moments, y,
                n->stats, n->bias + p * FEATURES);
        } else {
            OPS(at, ops, GAL_OP_NORM_BY_SUMS, DIMS(ROWS, FEATURES, PARTS, 0), x, n->gain + p * FEATURES, moments, y,
                n->stats);
        }
        give(n->y, p, y);
    }
}

static void backward_parts(ops_case *at, norm *n, bool centred)
{
    double sums[2 * ROWS], all[2 * ROWS] = {0}, x[OWN], dy[OWN], dx[OWN], addend[OWN];
    for (uint32_t p = 0; p < PARTS; p++) {
        const size_t first = p * FEATURES;
        take(n->x, p, x);
        take(n->dy, p, dy);
        if (centred) {
            OPS(at, ops, GAL_OP_NORM_SUMS_BACKWARD, DIMS(ROWS, FEATURES, 1), dy, x, n->gain + first, n->stats, sums,
                n->dgain + first, n->dbias + first);
        } else {
            OPS(at, ops, GAL_OP_NORM_SUMS_BACKWARD, DIMS(ROWS, FEATURES, 0), dy, x, n->gain + first, n->stats, sums,
                n->dgain + first);
        }
        for (uint32_t i = 0; i < 2 * ROWS; i++) {
            all[i] += sums[i];
        }
    }
    for (uint32_t p = 0; p < PARTS; p++) {
        take(n->x, p, x);
        take(n->dy, p, dy);
        take(n->addend, p, addend);
        OPS(at, ops, GAL_OP_NORM_BY_SUMS_BACKWARD, DIMS(ROWS, FEATURES, PARTS, centred, 1), dy, x,
            n->gain + p * FEATURES, n->stats, all, dx, addend);
        give(n->dx, p, dx);
    }
}

static void expect_equal(const double *a, const double *b, uint32_t count, double scale)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!(fabs(a[i] - b[i]) <= relative_bound * scale)) {
            fail_msg("entry %u: %.17g in parts, %.17g whole", i, b[i], a[i]);
        }
    }
}

static double largest(const double *values, uint32_t count)
{
    double most = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        most = fmax(most, fabs(values[i]));
    }
    return most;
}

/* offset: of x, whose own digits are then fewer by that factor. */
static void compare(bool centred, double offset)
{
    norm whole, parts;
    ops_case at;
    ops_case_init(&at);
    fill(&whole, offset);
    fill(&parts, offset);
    run_whole(&at, &whole, centred);
    forward_parts(&at, &parts, centred);
    backward_parts(&at, &parts, centred);
    const double digits = 1.0 + fabs(offset);
    expect_equal(whole.y, parts.y, ROWS * HIDDEN, digits * largest(whole.y, ROWS * HIDDEN));
    expect_equal(whole.stats, parts.stats, centred ? 2 * ROWS : ROWS, digits * largest(whole.stats, 2 * ROWS));
    expect_equal(whole.dx, parts.dx, ROWS * HIDDEN, digits * largest(whole.dx, ROWS * HIDDEN));
    expect_equal(whole.dgain, parts.dgain, HIDDEN, digits * largest(whole.dgain, HIDDEN));
    expect_equal(whole.dbias, parts.dbias, HIDDEN, digits * largest(whole.dbias, HIDDEN) + 0x1p-1022);
}

static void test_layer_norm(void **state)
{
    (void)state;
    compare(true, 0.0);
    compare(true, 1e6); /* squares have 12 digits before the point: E[x^2] - E[x]^2 would keep 4 of the variance */
}

static void test_rms_norm(void **state)
{
    (void)state;
    compare(false, 0.0);
    compare(false, 3.0);
}

/* x (2, 2) and bias (10, 20). */
static void test_add_bias(void **state)
{
    (void)state;
    double x[4] = {1, 2, 3, 4};
    double bias[2] = {10, 20};
    const double expected[4] = {11, 22, 13, 24};
    ops_case at;
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_ADD_BIAS, DIMS(2, 2), x, bias);
    assert_memory_equal(x, expected, sizeof x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_rms_norm),
                                       cmocka_unit_test(test_add_bias)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
