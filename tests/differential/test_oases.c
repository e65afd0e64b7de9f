/* Oases, Eq. 3 to 6: the label search and GLPK on the tables made of them against brute force over Eq. 3 to 6 as they
 * are printed, on 1,000 random chains. Costs are whole picoseconds, so exact and brute force are equal; GLPK computes
 * to a tolerance: equal is within 1e-6. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "planner/solve/oases.h"
#include "planner/solve/solver.h"
#include "tests/support/random_plan.h"

#define TOLERANCE 1e-6

enum { BLOCKS_MAX = 7, DEGREES_MAX = 4 };

static const gal_oases_pass F = GAL_OASES_FORWARD, B = GAL_OASES_BACKWARD;

static double draw(uint64_t *state, uint32_t below)
{
    return (double)gal_random_below(state, below) * 1e-12;
}

/* More devices: less to compute, fewer bytes, more to communicate; with noise, so that nothing is monotone. */
static void draw_chain(uint64_t seed, gal_oases *o)
{
    uint64_t state = seed;
    const uint32_t blocks = 2 + gal_random_below(&state, BLOCKS_MAX - 1);
    const uint32_t degrees = 2 + gal_random_below(&state, DEGREES_MAX - 1);
    uint64_t most = 0;
    assert_int_equal(gal_oases_create(blocks, degrees, o, NULL), GAL_OK);
    for (uint32_t i = 0; i < blocks * degrees; i++) {
        const uint32_t s = i % degrees;
        gal_oases_cost *c = &o->cost[i];
        o->degree[s] = UINT32_C(1) << s;
        for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
            for (uint32_t half = 0; half < 2; half++) {
                c->compute_seconds[pass][half] = draw(&state, 30 + 60 / o->degree[s]);
                c->reduce_seconds[pass][half] = draw(&state, 1 + 30 * s);
            }
        }
        c->state_bytes = 5 + gal_random_below(&state, 40 / o->degree[s]);
        c->saved_bytes = gal_random_below(&state, 20 / o->degree[s]);
        c->runtime_bytes = gal_random_below(&state, seed % 3 == 0 ? 50 : 10);
        most = most < c->state_bytes + c->saved_bytes ? c->state_bytes + c->saved_bytes : most;
    }
    for (uint32_t i = 0; i < blocks * degrees * degrees; i++) {
        o->gather_seconds[i] = draw(&state, 40);
    }
    o->budget_bytes = 2 + gal_random_below(&state, (uint32_t)(blocks * most) + 20);
}

/* Eq. 3. */
static double node_seconds(const gal_oases *o, const uint32_t *s, gal_oases_pass pass)
{
    const uint32_t n = o->degree_count;
    const uint32_t k = o->block_count - 1;
    double sum = o->cost[s[0]].compute_seconds[pass][0] + o->cost[k * n + s[k]].reduce_seconds[pass][1];
    for (uint32_t i = 1; i <= k; i++) {
        sum += fmax(o->cost[i * n + s[i]].compute_seconds[pass][0],
                    o->cost[(i - 1) * n + s[i - 1]].reduce_seconds[pass][1]);
    }
    for (uint32_t i = 0; i <= k; i++) {
        sum += fmax(o->cost[i * n + s[i]].compute_seconds[pass][1], o->cost[i * n + s[i]].reduce_seconds[pass][0]);
    }
    return sum;
}

/* Eq. 4, between v and u = v + 1. */
static double edge_seconds(const gal_oases *o, const uint32_t *s, uint32_t u)
{
    const uint32_t n = o->degree_count;
    const uint32_t i = s[u - 1];
    const uint32_t j = s[u];
    const gal_oases_cost *from = &o->cost[(u - 1) * n + i];
    const gal_oases_cost *to = &o->cost[u * n + j];
    const double gather = o->gather_seconds[(u * n + i) * n + j];
    return i < j   ? gather + fmin(from->reduce_seconds[F][1], to->compute_seconds[F][0])
           : i > j ? gather + fmin(from->reduce_seconds[B][1], to->compute_seconds[B][0])
                   : 0.0;
}

/* Eq. 5 in picoseconds; GAL_NEVER where Eq. 6 does not hold. */
static int64_t value_of(const gal_oases *o, const uint32_t *s)
{
    const uint32_t n = o->degree_count;
    double sum = node_seconds(o, s, F) + node_seconds(o, s, B);
    uint64_t bytes = o->cost[(o->block_count - 1) * n + s[o->block_count - 1]].runtime_bytes;
    for (uint32_t i = 0; i < o->block_count; i++) {
        sum += i > 0 ? edge_seconds(o, s, i) : 0.0;
        bytes += o->cost[i * n + s[i]].state_bytes + o->cost[i * n + s[i]].saved_bytes;
    }
    return bytes < o->budget_bytes ? (int64_t)llround(sum * 1e12) : GAL_NEVER;
}

static int64_t brute_force(const gal_oases *o)
{
    uint32_t s[BLOCKS_MAX] = {0};
    int64_t best = GAL_NEVER;
    for (;;) {
        const int64_t value = value_of(o, s);
        uint32_t i = 0;
        best = value < best ? value : best;
        while (i < o->block_count && ++s[i] == o->degree_count) {
            s[i++] = 0;
        }
        if (i == o->block_count) {
            return best;
        }
    }
}

static void compare(uint64_t seed, uint32_t *feasible_count, uint32_t *mixed_count)
{
    const gal_solver_limits limits = {.label_limit = 1000000, .time_limit_seconds = 60.0};
    gal_oases o;
    gal_problem tables;
    gal_instance *g = NULL;
    gal_solution exact;
    gal_solution ilp;
    draw_chain(seed, &o);
    assert_int_equal(gal_oases_tabulate(&o, &tables, NULL), GAL_OK);
    assert_int_equal(gal_instance_create(&tables, &g, NULL), GAL_OK);
    assert_int_equal(gal_solve(&gal_solvers[GAL_SOLVER_EXACT], g, &limits, &exact, NULL), GAL_OK);
    assert_int_equal(gal_solve(&gal_solvers[GAL_SOLVER_ILP], g, &limits, &ilp, NULL), GAL_OK);
    const int64_t best = brute_force(&o);
    const bool found = best != GAL_NEVER;
    if (exact.best.value_ps != best || exact.bound_ps != best || (ilp.best.value_ps != GAL_NEVER) != found ||
        (found && (ilp.best.value_ps < best || (double)ilp.best.value_ps > (double)best * (1.0 + TOLERANCE)))) {
        fail_msg("seed %llu: brute force %lld, exact %lld, ilp %lld", (unsigned long long)seed, (long long)best,
                 (long long)exact.best.value_ps, (long long)ilp.best.value_ps);
    }
    if (found) { /* and what the search says of its answer is what the equations say */
        assert_int_equal(value_of(&o, exact.best.strategy), best);
        *feasible_count += 1;
        *mixed_count += exact.best.strategy[0] != exact.best.strategy[o.block_count - 1];
    }
    gal_solution_free(&exact);
    gal_solution_free(&ilp);
    gal_instance_free(g);
    gal_problem_free(&tables);
    gal_oases_free(&o);
}

static void test_random_chains(void **state)
{
    (void)state;
    const uint32_t count = 1000;
    uint32_t feasible_count = 0;
    uint32_t mixed_count = 0;
    for (uint32_t seed = 0; seed < count; seed++) {
        compare(seed, &feasible_count, &mixed_count);
    }
    print_message("%u chains, %u with a plan, %u of these with two degrees or more\n", count, feasible_count,
                  mixed_count);
    assert_true(feasible_count * 2 > count && mixed_count * 4 > count);
}

/* All-reduce of 800 bytes among 4 at 100 bytes/s: 2 x 800 x 3/4 = 1,200 bytes, 12 s; the gather half of that. */
static void test_volumes(void **state)
{
    (void)state;
    assert_true(gal_oases_reduce_seconds(800.0, 4, 100.0) == 12.0);
    assert_true(gal_oases_gather_seconds(800.0, 4, 100.0) == 6.0);
    assert_true(gal_oases_reduce_seconds(800.0, 1, 100.0) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_chains), cmocka_unit_test(test_volumes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
