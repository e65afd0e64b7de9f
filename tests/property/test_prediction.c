/* The interval of a plan is what its programs take with all durations at 5 % and at 95 %, also where it is had without
 * simulating; steps at quantiles between lie in it, others do not; of its bytes only the fixed ones stray; a
 * framework's is the one of its constants, at whatever quantile the plan was searched. Seeded. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/framework.h"
#include "costmodel/interval.h"
#include "costmodel/prediction.h"
#include "costmodel/simulate.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"

enum { TRIALS = 24, STEPS = 200, STAGES_MAX = 8 };
static const double rounding = 1e-9;

static double seconds_at(const gal_durations *durations, double quantile, const gal_plan *plan)
{
    gal_error err = {0};
    gal_program *program[STAGES_MAX] = {0};
    gal_simulation simulation = {0};
    gal_durations *at = NULL;
    assert_int_equal(gal_durations_create_quantile(durations, quantile, &at, &err), GAL_OK);
    assert_int_equal(gal_lower_plan(plan, program, &err), GAL_OK);
    assert_int_equal(gal_simulate(program, plan->stage_count, at, false, &simulation, &err), GAL_OK);
    const double seconds = simulation.iteration_seconds;
    gal_simulation_free(&simulation);
    gal_durations_free(at);
    for (uint32_t i = 0; i < STAGES_MAX; i++) {
        gal_program_free(program[i]);
    }
    return seconds;
}

/* A profile of every second trial has measurements; bytes are fixed in every third. */
static void make(uint64_t seed, gal_random_search *search, gal_search_result *found)
{
    static gal_profile_collective entry;
    gal_random_search_create(seed, true, search);
    if (seed % 2 == 1) {
        entry = (gal_profile_collective){.op = GAL_OP_ALL_REDUCE,
                                         .bytes = 1 << 16,
                                         .level_counts = {2, 1, 1, 1},
                                         .seconds = 1e-3,
                                         .spread_seconds = 5e-4};
        search->profile.collectives = &entry;
        search->profile.collective_count = 1;
        search->profile.fixed_step_seconds = 1e-3;
    }
    search->profile.fixed_bytes = seed % 3 == 0 ? 12345678 : 0;
    gal_random_search_renew(search);
    gal_random_search_run(search, 0, found);
    assert_true(found->feasible);
}

static void test_ends(void **state)
{
    uint32_t measured = 0, inside = 0;
    uint64_t random = 11;
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        gal_random_search search;
        gal_search_result found = {0};
        gal_prediction in;
        gal_error err = {0};
        make(seed, &search, &found);
        const gal_plan *plan = &found.finalist[0].plan;
        assert_int_equal(gal_plan_interval(plan, search.durations, &in, &err), GAL_OK);
        assert_true(fabs(in.low_seconds / seconds_at(search.durations, 0.05, plan) - 1.0) <= rounding);
        assert_true(fabs(in.high_seconds / seconds_at(search.durations, 0.95, plan) - 1.0) <= rounding);
        assert_true(in.low_seconds < plan->simulated_seconds && plan->simulated_seconds < in.high_seconds);
        measured += gal_durations_have_measurements(search.durations);
        for (uint32_t i = 0; i < STEPS / TRIALS; i++) {
            const double share = 0.001 + 0.998 * (double)gal_random_below(&random, 1000) / 999.0;
            const double seconds = seconds_at(search.durations, share, plan);
            const bool within = in.low_seconds <= seconds && seconds <= in.high_seconds;
            assert_true(within == (share >= 0.05 && share <= 0.95));
            inside += within;
        }
        const double fixed = (double)plan->fixed_bytes, peak = (double)found.finalist[0].peak_bytes;
        assert_true(fabs(in.low_bytes - (peak - fixed + fixed * exp(-GAL_INTERVAL_MEASURED))) <= 1.0);
        assert_true(fabs(in.high_bytes - (peak - fixed + fixed * exp(GAL_INTERVAL_MEASURED))) <= 1.0);
        search.profile.collectives = NULL;
        search.profile.collective_count = 0;
        gal_search_result_free(&found);
        gal_random_search_free(&search);
    }
    print_message("%u of %d profiles have measurements; %u of %d steps inside\n", measured, TRIALS, inside,
                  STEPS / TRIALS * TRIALS);
    assert_int_equal(measured, TRIALS / 2);
}

static void test_framework(void **state)
{
    gal_plan plan = {.objective_seconds = 2.0, .pricing = {.present = true, .bytes = 1000}};
    gal_error err = {0};
    gal_constants constants;
    gal_prediction plain, risky;
    (void)state;
    assert_int_equal(gal_cluster_read("a100-8", &plan.cluster, &err), GAL_OK);
    assert_int_equal(gal_framework_read("megatron-2021", &plan.pricing.framework, &err), GAL_OK);
    gal_constants_default(&plan.cluster, &plan.pricing.framework, &constants);
    gal_pricing_interval(&plan, &plain);
    assert_true(fabs(plain.low_seconds - 2.0 * constants.seconds_low_factor) < 1e-12);
    assert_true(fabs(plain.high_seconds - 2.0 * constants.seconds_high_factor) < 1e-12);
    assert_true(plain.low_bytes < 1000.0 && plain.high_bytes > 1000.0);
    const double at = gal_interval_quantile(constants.seconds_low_factor, constants.seconds_high_factor, 0.9);
    plan.objective_seconds *= at;
    plan.risk = (gal_risk){.present = true, .quantile = 0.9};
    gal_pricing_interval(&plan, &risky);
    assert_true(fabs(risky.low_seconds - plain.low_seconds) < 1e-12);
    assert_true(fabs(risky.high_seconds - plain.high_seconds) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends), cmocka_unit_test(test_framework)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
