/* planner/partition against enumeration, and planner/layered/pipeline against sums worked by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "planner/layered/pipeline.h"
#include "planner/partition/partition.h"

enum { INSTANCES = 400, LAYERS_MAX = 9, STAGES_MAX = 4 };

static uint64_t seed = 20261128;

static uint32_t below(uint32_t count)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % count;
}

/* Stages differ in how fast they are and in how many layers they hold. */
typedef struct chain {
    double layer_seconds[LAYERS_MAX], stage_factor[STAGES_MAX], weight;
    double border_seconds[LAYERS_MAX], falls; /* behind a layer; the most of any */
    uint32_t most_layers[STAGES_MAX];
} chain;

static gal_stage_seconds seconds_of(void *context, uint32_t stage, uint32_t begin, uint32_t end)
{
    const chain *c = context;
    double sum = 0.0;
    for (uint32_t layer = begin; layer < end; layer++) {
        sum += c->layer_seconds[layer] * c->stage_factor[stage];
    }
    sum += c->border_seconds[end - 1];
    sum = end - begin > c->most_layers[stage] ? INFINITY : sum;
    return (gal_stage_seconds){.once = sum, .bottleneck = c->weight * sum};
}

static double enumerate(chain *c, uint32_t stages, uint32_t layers, uint32_t stage, uint32_t begin, double sum,
                        double most)
{
    if (stage == stages) {
        return begin == layers ? sum + most : INFINITY;
    }
    double least = INFINITY;
    for (uint32_t end = begin + 1; end <= layers; end++) {
        const gal_stage_seconds own = seconds_of(c, stage, begin, end);
        least = fmin(least, enumerate(c, stages, layers, stage + 1, end, sum + own.once, fmax(most, own.bottleneck)));
    }
    return least;
}

static double value_of(chain *c, uint32_t stages, const uint32_t *cut)
{
    double sum = 0.0, most = 0.0;
    for (uint32_t stage = 0; stage < stages; stage++) {
        const gal_stage_seconds own = seconds_of(c, stage, cut[stage], cut[stage + 1]);
        sum += own.once;
        most = fmax(most, own.bottleneck);
    }
    return sum + most;
}

static void test_partition_is_the_best_of_all(void **state)
{
    (void)state;
    uint32_t fitting = 0;
    for (uint32_t n = 0; n < INSTANCES; n++) {
        chain c = {.weight = below(4) == 0 ? 0.0 : 1.0 + below(12)};
        uint32_t cut[STAGES_MAX + 1] = {0};
        double objective = 0.0;
        gal_error err = {0};
        const uint32_t stages = 1 + below(STAGES_MAX), layers = stages + below(LAYERS_MAX - stages + 1);
        for (uint32_t i = 0; i < layers; i++) {
            c.layer_seconds[i] = 1.0 + below(9);
            c.border_seconds[i] = below(5);
            c.falls = fmax(c.falls, c.border_seconds[i]);
        }
        for (uint32_t i = 0; i < stages; i++) {
            c.stage_factor[i] = 1.0 + 0.25 * below(3);
            c.most_layers[i] = 1 + below(layers);
        }
        const gal_partition_problem problem = {stages, layers, seconds_of, &c, c.weight * c.falls};
        assert_int_equal(gal_partition_solve(&problem, cut, &objective, &err), GAL_OK);
        const double expected = enumerate(&c, stages, layers, 0, 0, 0.0, 0.0);
        assert_int_equal(isinf(expected), isinf(objective));
        if (!isinf(expected)) {
            fitting++;
            assert_true(fabs(expected - objective) < 1e-9);
            assert_true(cut[0] == 0 && cut[stages] == layers);
            assert_true(fabs(value_of(&c, stages, cut) - objective) < 1e-9);
        }
    }
    assert_in_range(fitting, INSTANCES / 2, INSTANCES);
}

/* Equal stages, 1F1B: (m - 1 + P)(f + b), what each last backward takes longer, reductions of the first stage at the
 * end, the slowest update behind. */
static void test_equal_stages(void **state)
{
    (void)state;
    gal_pipeline_stage stage[4];
    double seconds = 0.0;
    gal_error err = {0};
    for (uint32_t i = 0; i < 4; i++) {
        stage[i] =
            (gal_pipeline_stage){1.0, 2.0, .last_seconds = 2.5, .sync_seconds = 0.5, .update_seconds = 0.25 * (i + 1)};
    }
    assert_int_equal(gal_pipeline_seconds(stage, 4, 8, GAL_SCHEDULE_1F1B, &seconds, &err), GAL_OK);
    assert_true(fabs(seconds - ((8 - 1 + 4) * 3.0 + 4 * 0.5 + 0.5 + 1.0)) < 1e-9);
    assert_int_equal(gal_pipeline_seconds(stage, 4, 8, GAL_SCHEDULE_GPIPE, &seconds, &err), GAL_OK);
    assert_true(fabs(seconds - ((8 - 1 + 4) * 3.0 + 4 * 0.5 + 0.5 + 1.0)) < 1e-9);
}

/* One slow stage in the middle, one microbatch after the other through it; transfers on the way in and out. */
static void test_bottleneck_and_transfers(void **state)
{
    (void)state;
    const gal_pipeline_stage stage[] = {
        {1.0, 1.0, 1.0, 0.0, 0.0, 0.5}, {4.0, 4.0, 4.0, 0.0, 0.0, 0.5}, {1.0, 1.0, 1.0, 0.0, 0.0, 0.0}};
    double seconds = 0.0;
    gal_error err = {0};
    /* 1 + .5 in front of the second stage; its first forward 4, then .5 + 1 + 1 + .5 until its backward 4, .5 and 1. */
    assert_int_equal(gal_pipeline_seconds(stage, 3, 1, GAL_SCHEDULE_1F1B, &seconds, &err), GAL_OK);
    assert_true(fabs(seconds - (1.5 + 4.0 + 3.0 + 4.0 + 1.5)) < 1e-9);
    /* One forward is ahead there, so beside the others it is never idle: 1.5 + 4 + 4 | 4 + 4 + ... */
    assert_int_equal(gal_pipeline_seconds(stage, 3, 5, GAL_SCHEDULE_1F1B, &seconds, &err), GAL_OK);
    assert_true(fabs(seconds - (1.5 + 5 * 8.0 + 1.5)) < 1e-9);
    /* Many microbatches, of which the steady state is not played. */
    assert_int_equal(gal_pipeline_seconds(stage, 3, 1000, GAL_SCHEDULE_1F1B, &seconds, &err), GAL_OK);
    assert_true(fabs(seconds - (1.5 + 1000 * 8.0 + 1.5)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partition_is_the_best_of_all),
        cmocka_unit_test(test_equal_stages),
        cmocka_unit_test(test_bottleneck_and_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
