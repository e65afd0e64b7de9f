/* galplan search --risk: the normal distribution; where all durations are spread alike the plan is that of the plain
 * search; a larger quantile never gives fewer seconds, and no plan has fewer at it than the one found for it; a step
 * is faster than its quantile as often as it says; a device runs out of memory no more often than it says. Seeded: the
 * same cases every time. timeout_seconds: 600 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/interval.h"
#include "costmodel/objective.h"
#include "costmodel/simulate.h"
#include "planner/search/risk.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"

enum { SEARCHES = 80, SAMPLES = 20000 };
static const double rounding = 1e-9;

static double uniform(uint64_t *state)
{
    return ((double)(gal_random_next(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Box and Muller. */
static double normal(uint64_t *state)
{
    const double radius = sqrt(-2.0 * log(uniform(state)));
    return radius * cos(2.0 * acos(-1.0) * uniform(state));
}

static void test_normal(void **state)
{
    (void)state;
    assert_true(gal_normal_quantile(0.5) == 0.0 && gal_normal_chance(0.0) == 0.5);
    /* of tables */
    assert_true(fabs(gal_normal_quantile(0.975) - 1.959963984540054) < 1e-12);
    assert_true(fabs(gal_normal_quantile(0.05) + 1.644853626951472) < 1e-12);
    assert_true(fabs(gal_normal_quantile(0.95) - GAL_NORMAL_AT_95) < 1e-14);
    assert_true(fabs(gal_normal_quantile(0.75) - GAL_NORMAL_AT_75) < 1e-14);
    for (double p = 0.001; p < 1.0; p += 0.013) {
        assert_true(fabs(gal_normal_chance(gal_normal_quantile(p)) - p) < 1e-14);
    }
    /* An interval from 1/2 to 3 with 90 %: its ends are its quantiles of 5 % and 95 %. */
    assert_true(fabs(gal_interval_quantile(0.5, 3.0, 0.95) - 3.0) < 1e-12);
    assert_true(fabs(gal_interval_quantile(0.5, 3.0, 0.05) - 0.5) < 1e-12);
    assert_true(gal_interval_quantile(0.5, 3.0, 0.5) == 1.0);
}

/* ---- searches ---- */

/* Collectives of every group, as the analytic ones but measured: spread by up to twice their seconds, by operation. */
static void measure_collectives(uint64_t *random, gal_profile *profile)
{
    static const gal_op ops[] = {GAL_OP_ALL_REDUCE, GAL_OP_ALL_GATHER, GAL_OP_REDUCE_SCATTER, GAL_OP_SEND};
    const uint32_t most = profile->cluster.device_count;
    profile->collectives = calloc(4u * most * most * 10u, sizeof *profile->collectives);
    assert_non_null(profile->collectives);
    for (uint32_t i = 0; i < 4 * most * most; i++) {
        const uint32_t inner = i / 4 % most + 1, outer = i / 4 / most + 1;
        const double spread = 2.0 * uniform(random);
        for (uint32_t size = 0; size < 10 && inner * outer > 1; size++) {
            gal_profile_collective entry = {.op = ops[i % 4], .bytes = UINT64_C(1) << (4 * size)};
            const uint32_t counts[GAL_LINK_LEVELS_MAX] = {inner, outer, 1, 1};
            memcpy(entry.level_counts, counts, sizeof entry.level_counts);
            entry.seconds = gal_collective_analytic_seconds(&profile->cluster, entry.op, counts, entry.bytes);
            entry.spread_seconds = spread * entry.seconds;
            profile->collectives[profile->collective_count++] = entry;
        }
    }
}

/* At a quantile; the search's durations are renewed to be at it. */
static void run_at(gal_random_search *search, double quantile, gal_search_result *out)
{
    gal_random_search_renew(search);
    gal_durations_set_quantile(search->durations, quantile);
    gal_random_search_run(search, 0, out);
    assert_true(out->feasible);
}

static double objective_at(gal_random_search *search, double quantile, const gal_plan *plan)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    double seconds = 0.0;
    gal_random_search_renew(search);
    gal_durations_set_quantile(search->durations, quantile);
    assert_int_equal(gal_price_cache_create(&search->model, search->durations, &cache, &err), GAL_OK);
    assert_int_equal(gal_plan_objective(cache, search->durations, plan, &seconds, &err), GAL_OK);
    gal_price_cache_free(cache);
    return seconds / plan->global_batch_samples;
}

static bool same_plan(const gal_plan *a, const gal_plan *b)
{
    bool same =
        a->pp_degree == b->pp_degree && a->microbatch_count == b->microbatch_count && a->run_count == b->run_count;
    for (uint32_t r = 0; same && r < a->run_count; r++) {
        same = a->run[r].block_count == b->run[r].block_count &&
               gal_strategy_equal(&a->run[r].strategy, &b->run[r].strategy);
    }
    return same;
}

/* All durations analytic: spread alike. */
static void test_equal_spreads(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEARCHES; seed++) {
        gal_random_search search;
        gal_search_result plain = {0}, even = {0}, risky = {0};
        gal_random_search_create(seed, true, &search);
        gal_random_search_run(&search, 0, &plain);
        run_at(&search, 0.5, &even);
        run_at(&search, 0.9, &risky);
        const double factor = exp(gal_normal_quantile(0.9) * gal_interval_log_deviation(GAL_INTERVAL_ANALYTIC));
        const gal_plan *plan = &plain.finalist[0].plan;
        assert_true(same_plan(plan, &even.finalist[0].plan));
        assert_true(plain.finalist[0].objective_seconds == even.finalist[0].objective_seconds);
        const double scaled = factor * objective_at(&search, 0.5, plan);
        assert_true(fabs(gal_random_search_objective(&risky) / scaled - 1.0) <= rounding);
        gal_search_result_free(&plain);
        gal_search_result_free(&even);
        gal_search_result_free(&risky);
        gal_random_search_free(&search);
    }
}

static void test_quantiles_rise(void **state)
{
    (void)state;
    static const double quantiles[] = {0.5, 0.7, 0.9, 0.99};
    uint32_t changed = 0, proven = 0;
    for (uint64_t seed = 1000; seed < 1000 + SEARCHES; seed++) {
        gal_random_search search;
        gal_search_result found[4] = {0};
        uint64_t random = seed;
        double before = 0.0;
        gal_random_search_create(seed, true, &search);
        measure_collectives(&random, &search.profile);
        for (uint32_t i = 0; i < 4; i++) {
            run_at(&search, quantiles[i], &found[i]);
            const double now = gal_random_search_objective(&found[i]);
            assert_true(now >= before * (1.0 - rounding));
            before = now;
        }
        if (found[2].unproven_cell_count == 0) { /* no other plan has fewer seconds at its quantile */
            const double plain = objective_at(&search, 0.9, &found[0].finalist[0].plan);
            assert_true(gal_random_search_objective(&found[2]) <= plain * (1.0 + rounding));
            proven++;
        }
        changed += !same_plan(&found[0].finalist[0].plan, &found[3].finalist[0].plan);
        for (uint32_t i = 0; i < 4; i++) {
            gal_search_result_free(&found[i]);
        }
        free(search.profile.collectives);
        gal_random_search_free(&search);
    }
    print_message("of %d searches %u end with another plan at 0.99; at 0.9 %u are proven\n", SEARCHES, changed, proven);
    assert_true(changed > 0 && proven > SEARCHES / 2);
}

/* ---- a step ---- */

static double simulated_at(gal_random_search *search, double quantile, const gal_plan *plan)
{
    gal_error err = {0};
    gal_program *program[8] = {0};
    gal_simulation simulation = {0};
    gal_random_search_renew(search);
    gal_durations_set_quantile(search->durations, quantile);
    assert_int_equal(gal_lower_plan(plan, program, &err), GAL_OK);
    assert_int_equal(gal_simulate(program, plan->stage_count, search->durations, false, &simulation, &err), GAL_OK);
    const double seconds = simulation.iteration_seconds;
    gal_simulation_free(&simulation);
    for (uint32_t i = 0; i < 8; i++) {
        gal_program_free(program[i]);
    }
    return seconds;
}

/* Steps drawn by the model of duration.h: all durations off by one normal variable. */
static void test_steps_within_quantile(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    static const double quantile = 0.9;
    for (uint64_t seed = 2000; seed < 2006; seed++) {
        gal_random_search search;
        gal_search_result found = {0};
        uint64_t random = seed;
        uint32_t within = 0;
        gal_random_search_create(seed, true, &search);
        measure_collectives(&random, &search.profile);
        run_at(&search, quantile, &found);
        const gal_plan *plan = &found.finalist[0].plan;
        const double limit = simulated_at(&search, quantile, plan);
        for (uint32_t i = 0; i < STEPS; i++) {
            within += simulated_at(&search, gal_normal_chance(normal(&random)), plan) <= limit;
        }
        /* four deviations of a binomial count */
        assert_true(fabs(within - quantile * STEPS) <= 4.0 * sqrt(STEPS * quantile * (1.0 - quantile)));
        gal_search_result_free(&found);
        free(search.profile.collectives);
        gal_random_search_free(&search);
    }
}

/* ---- memory ---- */

static void test_memory_chance(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint32_t trial = 0; trial < 40; trial++) {
        const uint64_t limit = (UINT64_C(1) << 30) + gal_random_next(&random) % (UINT64_C(1) << 36);
        const uint64_t fixed = 1 + gal_random_next(&random) % (limit / 2);
        const double quantile = GAL_RISK_MIN + (GAL_RISK_MAX - GAL_RISK_MIN) * uniform(&random);
        const uint64_t left = gal_risk_memory_bytes(limit, fixed, quantile);
        assert_true(left <= limit);
        const uint64_t arena = left - fixed - (trial % 2) * fixed / 100; /* full, or nearly */
        const double chance = gal_risk_memory_chance(limit, arena, fixed);
        const double deviation = gal_interval_log_deviation(GAL_INTERVAL_MEASURED);
        uint32_t more = 0;
        for (uint32_t i = 0; i < SAMPLES; i++) {
            more += (double)arena + (double)fixed * exp(deviation * normal(&random)) > (double)limit;
        }
        assert_true(chance <= 1.0 - quantile + rounding);
        assert_true(fabs(more - chance * SAMPLES) <= 4.0 * sqrt(SAMPLES * chance * (1.0 - chance)) + 1.0);
    }
    assert_true(gal_risk_memory_chance(100, 100, 0) == 0.0 && gal_risk_memory_chance(100, 101, 0) == 1.0);
    assert_true(gal_risk_memory_bytes(100, 1000, 0.9) == 0);
}

/* Searches with fixed bytes, under limits around what the plain plan needs: what fits at a quantile fits with its
 * chance, and the plan says so. */
static void test_searches_keep_bytes_free(void **state)
{
    (void)state;
    static const double quantile = 0.9;
    uint32_t fits = 0, short_of = 0;
    for (uint64_t seed = 3000; seed < 3000 + SEARCHES / 2; seed++) {
        gal_random_search search;
        gal_search_result plain = {0}, found = {0};
        gal_error err = {0};
        uint64_t random = seed;
        gal_random_search_create(seed, true, &search);
        search.profile.fixed_bytes = 1 + gal_random_below(&random, 1 << 20);
        gal_random_search_renew(&search);
        gal_random_search_run(&search, 0, &plain);
        const uint64_t peak = plain.finalist[0].peak_bytes;
        const uint64_t limit = peak + gal_random_below(&random, 1 << 18);
        gal_search_request risky = search.request;
        gal_durations *at = NULL;
        assert_int_equal(gal_durations_create(&search.profile, &at, &err), GAL_OK);
        gal_durations_set_quantile(at, quantile);
        risky.durations = at;
        risky.memory_bytes = gal_risk_memory_bytes(limit, search.profile.fixed_bytes, quantile);
        assert_int_equal(gal_search(&risky, &found, &err), GAL_OK);
        assert_int_equal(gal_risk_note(&search.request, quantile, limit, &found, &err), GAL_OK);
        if (found.feasible) {
            const gal_plan *plan = &found.finalist[0].plan;
            assert_true(plan->risk.memory_chance <= 1.0 - quantile + rounding);
            assert_true(plan->risk.quantile_seconds >= plan->simulated_seconds);
            assert_int_equal(gal_risk_check(plan, &err), GAL_OK);
            fits++;
        }
        short_of += gal_risk_plan_chance(&plain.finalist[0].plan, limit) > 1.0 - quantile;
        gal_search_result_free(&plain);
        gal_search_result_free(&found);
        gal_durations_free(at);
        gal_random_search_free(&search);
    }
    print_message("%u plans fit; of the plain ones %u would run out with a chance above %.1f\n", fits, short_of,
                  1.0 - quantile);
    assert_true(fits > 0 && short_of > 0);
}

static void test_tampered(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_plan_stage stage = {.predicted_bytes = 900};
    gal_plan plan = {.stage_count = 1,
                     .stage = &stage,
                     .fixed_bytes = 100,
                     .certificate = {.present = true, .memory_bytes = gal_risk_memory_bytes(1000, 100, 0.9)},
                     .risk = {.present = true, .quantile = 0.9, .memory_bytes = 1000}};
    plan.risk.memory_chance = gal_risk_plan_chance(&plan, 1000);
    assert_int_equal(gal_risk_check(&plan, &err), GAL_OK);
    gal_plan changed = plan;
    changed.risk.memory_chance += 1e-3;
    assert_int_equal(gal_risk_check(&changed, &err), GAL_NO);
    changed = plan;
    changed.risk.memory_bytes = 1100; /* more than the search had */
    assert_int_equal(gal_risk_check(&changed, &err), GAL_NO);
    changed = plan;
    changed.certificate.memory_bytes = 1000; /* nothing kept free */
    assert_int_equal(gal_risk_check(&changed, &err), GAL_NO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal),         cmocka_unit_test(test_equal_spreads),
        cmocka_unit_test(test_quantiles_rise), cmocka_unit_test(test_steps_within_quantile),
        cmocka_unit_test(test_memory_chance),  cmocka_unit_test(test_searches_keep_bytes_free),
        cmocka_unit_test(test_tampered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
