/* Calibration finds the constants again that measurements were made with, wherever it begins: rows are the formulas'
 * own seconds under constants that differ from what cluster and framework say, some of them at their bounds. Seeded. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/calibrate.h"
#include "tests/support/random_plan.h"

static const uint64_t SEED = 20261122;
enum { TRIALS = 60, ROWS = 48, GROUPS = 12, FREE = 6 };

static const gal_constant varied[FREE] = {GAL_CONSTANT_GEMM_FRACTION,  GAL_CONSTANT_MEMORY_FRACTION,
                                          GAL_CONSTANT_KERNEL_SECONDS, GAL_CONSTANT_HOST_SECONDS,
                                          GAL_CONSTANT_INNER_FRACTION, GAL_CONSTANT_STEP_SECONDS};

typedef struct trial {
    gal_framework framework;
    gal_cluster cluster;
    gal_model model;
    gal_uniform_layout layout[ROWS];
    gal_calibrate_row row[ROWS];
    bool is_free[GAL_CONSTANT_COUNT];
} trial;

static gal_uniform_layout any_layout(uint64_t *random)
{
    const uint32_t tp = 1u << gal_random_below(random, 3), dp = 1u << gal_random_below(random, 2);
    const uint32_t microbatch = 1u << gal_random_below(random, 4);
    return (gal_uniform_layout){.dp_degree = dp,
                                .tp_degree = tp,
                                .pp_degree = 1,
                                .recompute = GAL_RECOMPUTE_FULL,
                                .schedule = GAL_SCHEDULE_1F1B,
                                .chunk_count = 1,
                                .microbatch_samples = microbatch,
                                .global_batch_samples = dp * microbatch << gal_random_below(random, 4)};
}

/* What is measured is made with each constant at up to four times more or less; fractions may end at 1. */
static void make(uint64_t *random, trial *t)
{
    gal_error err = {0};
    gal_constants truth;
    memset(t, 0, sizeof *t);
    assert_int_equal(gal_framework_read("megatron-deepspeed-2023", &t->framework, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("a100-8", &t->cluster, &err), GAL_OK);
    assert_int_equal(gal_model_read("gpt2-medium", &t->model, &err), GAL_OK);
    gal_constants_default(&t->cluster, &t->framework, &truth);
    for (uint32_t i = 0; i < FREE; i++) {
        const gal_constant c = varied[i];
        t->is_free[c] = true;
        truth.value[c] *= exp2(0.01 * (double)gal_random_below(random, 401) - 2.0);
        truth.value[c] = fmin(fmax(truth.value[c], gal_constant_least[c]), gal_constant_most[c]);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        gal_framework_estimate estimate;
        t->layout[i] = any_layout(random);
        gal_framework_price(&t->framework, &t->cluster, &truth, &t->model, &t->layout[i], &estimate);
        t->row[i] = (gal_calibrate_row){.model = &t->model,
                                        .cluster = &t->cluster,
                                        .layout = &t->layout[i],
                                        .seconds = estimate.seconds,
                                        .group = i % GROUPS};
    }
}

/* The worst of the rows under the constants found. */
static double worst_error(const trial *t, const gal_constants *found)
{
    double worst = 0.0;
    for (uint32_t i = 0; i < ROWS; i++) {
        gal_framework_estimate estimate;
        gal_framework_price(&t->framework, &t->cluster, found, &t->model, &t->layout[i], &estimate);
        worst = fmax(worst, fabs(estimate.seconds / t->row[i].seconds - 1.0));
    }
    return worst;
}

/* The prior draws constants that few rows tell of: a constant a factor e away costs what a row 5 % off does. So the
 * errors left are small, not zero; half of 5 % at most. */
static void seconds_are_found_again(void **state)
{
    static trial t;
    uint64_t random = SEED;
    double worst = 0.0;
    (void)state;
    for (uint32_t i = 0; i < TRIALS; i++) {
        gal_constants found = {0};
        gal_error err = {0};
        make(&random, &t);
        assert_int_equal(gal_calibrate(&t.framework, t.row, ROWS, GROUPS, NULL, t.is_free, &found, &err), GAL_OK);
        worst = fmax(worst, worst_error(&t, &found));
    }
    print_message("worst error of %d trials %.4f\n", TRIALS, worst);
    assert_true(worst <= 0.025);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(seconds_are_found_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
