/* exact against ilp, which share the instance and the tables of choices, but no bound, search or answer: 20 small
 * problems with any numbers, one to three stages, and 16 of 200 Transformers of 12 to 48 layers and 8 to 44 strategies;
 * with PLANS of 500 and more (make check-all) all 200. Each is to be proven within 60 s. GLPK computes to a tolerance:
 * equal is within 1e-6. timeout_seconds: 7200 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "planner/solve/solver.h"
#include "schemas/base/clock.h"
#include "tests/support/random_problem.h"

#define TOLERANCE 1e-6

/* *closed: ilp ended before its time did. Where it did not, exact must lie between what it has and what it proved. */
static double compare(uint64_t seed, const gal_problem *p, bool *closed)
{
    const gal_solver_limits limits = {.label_limit = 10000000, .time_limit_seconds = 60.0};
    gal_instance *g = NULL;
    gal_solution exact;
    gal_solution ilp;
    assert_int_equal(gal_instance_create(p, &g, NULL), GAL_OK);
    assert_int_equal(gal_solve(&gal_solvers[GAL_SOLVER_EXACT], g, &limits, &exact, NULL), GAL_OK);
    const double begin = gal_now_seconds();
    assert_int_equal(gal_solve(&gal_solvers[GAL_SOLVER_ILP], g, &limits, &ilp, NULL), GAL_OK);
    const double seconds = gal_now_seconds() - begin;
    assert_int_equal(exact.bound_ps, exact.best.value_ps);
    const double value = (double)exact.best.value_ps;
    if (exact.best.value_ps == GAL_NEVER) {
        if (ilp.best.value_ps != GAL_NEVER || ilp.bound_ps != GAL_NEVER) {
            fail_msg("seed %llu: exact proves that nothing fits, ilp does not", (unsigned long long)seed);
        }
        *closed = true;
        goto released;
    }
    *closed = seconds < limits.time_limit_seconds;
    if (ilp.best.value_ps < exact.best.value_ps || ilp.bound_ps > exact.best.value_ps ||
        (*closed && ((double)ilp.best.value_ps > value * (1.0 + TOLERANCE) ||
                     (double)ilp.bound_ps < value * (1.0 - 2.0 * TOLERANCE) - 2.0))) {
        fail_msg("seed %llu: exact %lld, ilp %lld, which proves %lld, in %.1f s", (unsigned long long)seed,
                 (long long)exact.best.value_ps, (long long)ilp.best.value_ps, (long long)ilp.bound_ps, seconds);
    }
released:
    gal_solution_free(&exact);
    gal_solution_free(&ilp);
    gal_instance_free(g);
    return seconds;
}

/* Six layers of one kind under a budget of 330 bytes. a: 10 ps, 100 bytes; b and c: 20 ps, 10 bytes. From b to c and
 * back 1 ps, from b to b or c to c 100, between a and these 1,000. So: b and c in turn, 6 * 20 + 5 * 1 = 125. Without
 * the rule that a round trip is entered from somewhere: a, four layers b, c, b, c round, a: 2 * 10 + 4 * 20 + 4 = 104
 * in 240 bytes. */
static void test_round_trips(void **state)
{
    (void)state;
    static const double change_ps[] = {0, 1000, 1000, 1000, 100, 1, 1000, 1, 100};
    gal_problem p = {.name = "round trips",
                     .schedule = GAL_SCHEDULE_1F1B,
                     .stage_count = 1,
                     .microbatch_count = 1,
                     .budget_bytes = 330,
                     .strategy_count = 3,
                     .transition_count = 1,
                     .kind_count = 1,
                     .run_count = 1,
                     .strategy = calloc(3, sizeof *p.strategy),
                     .transition_seconds = calloc(9, sizeof *p.transition_seconds),
                     .kind = calloc(1, sizeof *p.kind),
                     .cost = calloc(3, sizeof *p.cost),
                     .run = calloc(1, sizeof *p.run)};
    assert_true(p.strategy != NULL && p.transition_seconds != NULL && p.kind != NULL && p.cost != NULL &&
                p.run != NULL);
    for (uint32_t i = 0; i < 9; i++) {
        p.transition_seconds[i] = change_ps[i] * 1e-12;
    }
    for (uint32_t s = 0; s < 3; s++) {
        p.cost[s] = (gal_problem_cost){.seconds = s == 0 ? 10e-12 : 20e-12, .state_bytes = s == 0 ? 100 : 10};
    }
    p.run[0].layer_count = 6;
    const gal_solver_limits limits = {.label_limit = 10000000, .time_limit_seconds = 60.0};
    gal_instance *g = NULL;
    gal_solution ilp;
    assert_int_equal(gal_instance_create(&p, &g, NULL), GAL_OK);
    assert_int_equal(gal_solve(&gal_solvers[GAL_SOLVER_ILP], g, &limits, &ilp, NULL), GAL_OK);
    assert_int_equal(ilp.best.value_ps, 125);
    assert_in_range(ilp.bound_ps, 123, 125); /* the optimum, lowered by the tolerance */
    gal_solution_free(&ilp);
    gal_instance_free(g);
    gal_problem_free(&p);
}

static void test_small(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        gal_problem p;
        gal_random_problem(seed, 3, 6, 4, 1 + (uint32_t)(seed % 3), &p);
        bool closed;
        (void)compare(seed, &p, &closed);
        assert_true(closed);
        gal_problem_free(&p);
    }
}

static void test_transformers(void **state)
{
    (void)state;
    static const double budgets[] = {0.08, 0.3, 0.7};
    const char *plans = getenv("PLANS");
    const uint32_t step = plans != NULL && atoi(plans) >= 500 ? 1 : 13; /* prime to all periods below */
    uint32_t count = 0;
    double worst = 0.0;
    uint32_t open_count = 0;
    for (uint32_t i = 0; i < 200; i += step) {
        gal_problem p;
        const uint32_t layers = 12 + 12 * (i % 4);
        const uint32_t strategies = 8 + 12 * (i / 4 % 4);
        const uint32_t runs = i % 5 == 4 ? layers : 1 + i % 5;
        const gal_transformer_problem form = {i, layers, strategies, runs, 1, 4, budgets[i % 3], i % 7 == 0};
        gal_random_transformer_problem(&form, &p);
        bool closed;
        const double seconds = compare(i, &p, &closed);
        count++;
        open_count += !closed;
        worst = seconds > worst ? seconds : worst;
        gal_problem_free(&p);
    }
    print_message("%u problems, %u not closed in 60 s, the slowest took %.1f s\n", count, open_count, worst);
    assert_int_equal(open_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trips), cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
