/* Simulations that skip what repeats against the same played in full. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/simulate.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

enum { TRIALS = 300, MORE = 64 };

typedef struct tally {
    uint64_t plans, events, repeated;
} tally;

/* Of a plan with more microbatches of the same size. */
static void compare(gal_plan *plan, uint32_t more, tally *sum)
{
    gal_error err = {0};
    gal_program *programs[16];
    gal_durations *durations = NULL;
    gal_simulation skipped = {0};
    gal_simulation full = {0};
    plan->microbatch_count *= more;
    plan->global_batch_samples *= more;
    if (gal_plan_check(plan, "", &err) != GAL_OK) {
        return;
    }
    assert_int_equal(gal_lower_plan(plan, programs, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&plan->cluster, &durations, &err), GAL_OK);
    assert_int_equal(gal_simulate(programs, plan->stage_count, durations, false, &skipped, &err), GAL_OK);
    assert_int_equal(gal_simulate(programs, plan->stage_count, durations, true, &full, &err), GAL_OK);
    assert_int_equal(full.repeated_count, 0);
    assert_true(fabs(skipped.iteration_seconds / full.iteration_seconds - 1.0) < 1e-9);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const double finish = skipped.stage[s].finish_seconds - full.stage[s].finish_seconds;
        assert_true(fabs(finish) < 1e-9 * full.iteration_seconds);
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            const double busy = skipped.stage[s].busy_seconds[stream] - full.stage[s].busy_seconds[stream];
            assert_true(fabs(busy) < 1e-9 * full.iteration_seconds);
        }
        gal_program_free(programs[s]);
    }
    sum->plans++;
    sum->events += skipped.event_count;
    sum->repeated += skipped.repeated_count;
    gal_simulation_free(&skipped);
    gal_simulation_free(&full);
    gal_durations_free(durations);
}

static void what_repeats_is_skipped(void **unused)
{
    (void)unused;
    static const uint32_t worlds[] = {1, 2, 3, 4, 6, 8};
    tally sum = {0};
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        gal_plan plan;
        gal_random_plan(seed, worlds[seed % 6], &plan);
        gal_random_offload(seed, &plan);
        compare(&plan, 1 + (uint32_t)(seed % 3) * MORE / 2, &sum);
        gal_plan_free(&plan);
    }
    print_message("%llu plans, %llu of %llu events repeat\n", (unsigned long long)sum.plans,
                  (unsigned long long)sum.repeated, (unsigned long long)sum.events);
    assert_true(sum.plans > TRIALS / 2);
    assert_true(sum.repeated > sum.events / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
