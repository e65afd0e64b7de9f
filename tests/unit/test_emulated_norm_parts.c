/* Device kernels of norms whose rows' features are split, on emulated threads, against the host's in fp64. u is 2^-24,
 * what fp32 arithmetic rounds by; device_case_expect adds the rounding of the result. Rows for a warp, odd ones, and
 * such as take a block. */
#include <math.h>

#include "tests/support/emulated/device_case.h"

static const double u = 0x1p-24;
static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};

enum { ROWS = 11, PARTS = 3 };

typedef void (*one_case)(device_case *at, uint32_t features, bool centred);

static void in_all_forms(one_case run)
{
    static const uint32_t features[] = {48, 37, 1, 1160};
    for (uint32_t i = 0; i < 3 * 4 * 2 * 2; i++) {
        device_case at;
        device_case_init(&at, types[i % 3], i / 12 % 2 != 0);
        run(&at, features[i / 3 % 4], i / 24 != 0);
        device_case_free(&at);
    }
}

/* x within 1 of 3: the mean is off by (n + 1) u of 4 at most; a deviation by that and u of 4; so the sum of n squares
 * of deviations within 2 by n (2 * 2 times that) and its own (n + 2) u. */
static void sums_case(device_case *at, uint32_t features, bool centred)
{
    const double n = features, mean_error = (n + 1) * u * 4;
    (void)centred; /* both have the moments */
    operand *x = device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 1);
    const operand *moments = device_case_add(at, FLOAT, 2 * ROWS, 0.0, 0);
    for (size_t i = 0; i < x->count; i++) {
        x->exact[i] = device_case_round(at, ELEMENT, x->exact[i] + 3.0);
    }
    device_case_run(at, GAL_OP_NORM_SUMS, DIMS(ROWS, features));
    for (size_t i = 0; i < ROWS; i++) {
        device_case_expect(at, moments, i, mean_error);
        device_case_expect(at, moments, ROWS + i,
                           n * 4 * (mean_error + 4 * u) + (n + 2) * u * moments->exact[ROWS + i]);
    }
}

static void sums(void **state)
{
    (void)state;
    in_all_forms(sums_case);
}

/* Means within 1, squares from 1 to 3 per feature, so the deviation is at least 1 and its reciprocal at most 1. The
 * mean is off by (PARTS + 1) u; all squares relatively by some (PARTS + 6) u more than twice that, the reciprocal by
 * half of it and 2 u; y by the mean's error and that times a deviation within 2, and 4 u of at most 3. */
static void by_sums_case(device_case *at, uint32_t features, bool centred)
{
    const double mean_error = (PARTS + 1) * u, relative = (PARTS + 6) * u + 8 * mean_error;
    device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 1);
    device_case_add(at, ELEMENT, features, 1.0, 2);
    operand *moments = device_case_add(at, FLOAT, 2 * PARTS * ROWS, 1.0, 3);
    const operand *y = device_case_add(at, ELEMENT, (size_t)ROWS * features, 0.0, 0);
    const operand *stats = device_case_add(at, FLOAT, centred ? 2 * ROWS : ROWS, 0.0, 0);
    if (centred) {
        device_case_add(at, ELEMENT, features, 1.0, 4);
    }
    for (size_t i = 0; i < moments->count; i++) {
        const bool is_mean = i / ROWS % 2 == 0;
        moments->exact[i] =
            is_mean ? moments->exact[i] : device_case_round(at, FLOAT, features * (2.0 + moments->exact[i]));
    }
    device_case_run(at, GAL_OP_NORM_BY_SUMS, DIMS(ROWS, features, PARTS, centred));
    device_case_expect_all(at, stats, mean_error + relative / 2 + 2 * u);
    device_case_expect_all(at, y, mean_error + 2 * (relative / 2 + 2 * u) + 12 * u);
}

static void by_sums(void **state)
{
    (void)state;
    in_all_forms(by_sums_case);
}

static void set_statistics(operand *stats, bool centred)
{
    for (size_t i = 0; i < stats->count; i++) {
        stats->exact[i] = centred && i < ROWS ? 0.125 : 1.75;
    }
}

/* As norm_backward of test_emulated_kernels.c: |xhat| <= 2, |d| <= 1; n terms within 1, and within 2 off by 5 u each.
 */
static void sums_backward_of(device_case *at, uint32_t features, bool centred, bool add)
{
    const double n = features, column = (ROWS + 4.0) * u * (2.0 * ROWS + 1.0);
    at->ops.call.add = add;
    device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 1);
    device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 2);
    device_case_add(at, ELEMENT, features, 1.0, 3);
    set_statistics(device_case_add(at, FLOAT, centred ? 2 * ROWS : ROWS, 1.0, 4), centred);
    const operand *row_sums = device_case_add(at, FLOAT, 2 * ROWS, 0.0, 0);
    const operand *dgain = device_case_add(at, FLOAT, features, add ? 1.0 : 0.0, 5);
    const operand *dbias = centred ? device_case_add(at, FLOAT, features, add ? 1.0 : 0.0, 6) : NULL;
    device_case_run(at, GAL_OP_NORM_SUMS_BACKWARD, DIMS(ROWS, features, centred));
    device_case_expect_all(at, row_sums, n * 2 * (n + 5) * u);
    device_case_expect_all(at, dgain, column);
    if (centred) {
        device_case_expect_all(at, dbias, column);
    }
    device_case_free(at);
}

static void sums_backward_case(device_case *at, uint32_t features, bool centred)
{
    sums_backward_of(at, features, centred, false);
    sums_backward_of(at, features, centred, true);
}

static void sums_backward(void **state)
{
    (void)state;
    in_all_forms(sums_backward_case);
}

/* Sums within the number of features of a row, so their means within 1: terms 1, 1 and 2, off by 10 u of them. */
static void by_sums_backward_of(device_case *at, uint32_t features, bool centred, uint32_t addend)
{
    device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 1);
    device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 2);
    device_case_add(at, ELEMENT, features, 1.0, 3);
    set_statistics(device_case_add(at, FLOAT, centred ? 2 * ROWS : ROWS, 1.0, 4), centred);
    device_case_add(at, FLOAT, 2 * ROWS, PARTS * features, 5);
    const operand *dx = device_case_add(at, ELEMENT, (size_t)ROWS * features, 0.0, 0);
    if (addend != 0) {
        device_case_add(at, ELEMENT, (size_t)ROWS * features, 1.0, 7);
    }
    device_case_run(at, GAL_OP_NORM_BY_SUMS_BACKWARD, DIMS(ROWS, features, PARTS, centred, addend));
    device_case_expect_all(at, dx, 1.75 * 10 * u * 4 + u);
    device_case_free(at);
}

static void by_sums_backward_case(device_case *at, uint32_t features, bool centred)
{
    by_sums_backward_of(at, features, centred, 0);
    by_sums_backward_of(at, features, centred, 1);
}

static void by_sums_backward(void **state)
{
    (void)state;
    in_all_forms(by_sums_backward_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(by_sums),
        cmocka_unit_test(sums_backward),
        cmocka_unit_test(by_sums_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
