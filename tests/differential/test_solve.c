/* The solvers of raw problems against brute force over every partition and every assignment, with times and bytes
 * written out once more here (schemas/problem.h says them); and against one another. timeout_seconds: 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/solve/solver.h"
#include "tests/support/random_problem.h"

enum { LAYERS_MAX = 8, ONE_STAGE_CASES = 1400, PIPELINE_CASES = 700 };

/* ---- brute force ---- */

typedef struct trial {
    const gal_problem *p;
    uint32_t layer_count;
    uint32_t kind[LAYERS_MAX], strategy[LAYERS_MAX], stage_first[LAYERS_MAX + 1];
    int64_t best_ps, least_bytes;
} trial;

static int64_t whole(double seconds)
{
    return llround(seconds * 1e12);
}

static void price_stage(const trial *t, uint32_t i, int64_t *time, int64_t *bytes)
{
    const gal_problem *p = t->p;
    const uint32_t n = p->strategy_count;
    const uint32_t first = t->stage_first[i];
    const uint32_t end = t->stage_first[i + 1];
    int64_t state = 0;
    int64_t forward = 0;
    int64_t peak = 0;
    *time = 0;
    for (uint32_t l = first; l < end; l++) {
        const gal_problem_cost *c = &p->cost[t->kind[l] * n + t->strategy[l]];
        *time += whole(c->seconds);
        if (l > first) {
            const uint32_t matrix = p->kind[t->kind[l]].transition_index;
            *time += whole(p->transition_seconds[(matrix * n + t->strategy[l - 1]) * n + t->strategy[l]]);
        } else if (i > 0) {
            *time += whole(c->enter_seconds);
        }
        state += (int64_t)c->state_bytes;
        forward += (int64_t)c->forward_bytes;
        peak = forward + (int64_t)c->backward_bytes > peak ? forward + (int64_t)c->backward_bytes : peak;
    }
    if (p->stage_count > 1 && i == 0) {
        *time += whole(p->strategy[t->strategy[first]].tied_seconds);
    }
    if (p->stage_count > 1 && i + 1 == p->stage_count) {
        *time += whole(p->strategy[t->strategy[end - 1]].tied_seconds);
    }
    const uint32_t behind = p->stage_count - i;
    const uint32_t held =
        p->schedule == GAL_SCHEDULE_1F1B && behind < p->microbatch_count ? behind : p->microbatch_count;
    *bytes = state + (int64_t)(held - 1) * forward + peak;
}

static void weigh(trial *t)
{
    int64_t sum = 0;
    int64_t slowest = 0;
    int64_t most = 0;
    for (uint32_t i = 0; i < t->p->stage_count; i++) {
        int64_t time;
        int64_t bytes;
        price_stage(t, i, &time, &bytes);
        sum += time;
        slowest = time > slowest ? time : slowest;
        most = bytes > most ? bytes : most;
    }
    const int64_t value = (int64_t)(t->p->microbatch_count - 1) * slowest + sum;
    t->least_bytes = most < t->least_bytes ? most : t->least_bytes;
    if (most <= (int64_t)t->p->budget_bytes && value < t->best_ps) {
        t->best_ps = value;
    }
}

static void try_strategies(trial *t)
{
    memset(t->strategy, 0, sizeof t->strategy);
    for (;;) {
        weigh(t);
        uint32_t l = 0;
        while (l < t->layer_count && ++t->strategy[l] == t->p->strategy_count) {
            t->strategy[l++] = 0;
        }
        if (l == t->layer_count) {
            return;
        }
    }
}

static void try_cuts(trial *t, uint32_t stage, uint32_t first)
{
    t->stage_first[stage] = first;
    if (stage + 1 == t->p->stage_count) {
        t->stage_first[stage + 1] = t->layer_count;
        try_strategies(t);
        return;
    }
    for (uint32_t end = first + 1; end + (t->p->stage_count - stage - 1) <= t->layer_count; end++) {
        try_cuts(t, stage + 1, end);
    }
}

static void brute_force(const gal_problem *p, trial *t)
{
    *t = (trial){.p = p, .best_ps = GAL_NEVER, .least_bytes = INT64_MAX};
    for (uint32_t r = 0; r < p->run_count; r++) {
        for (uint32_t i = 0; i < p->run[r].layer_count; i++) {
            t->kind[t->layer_count++] = p->run[r].kind_index;
        }
    }
    try_cuts(t, 0, 0);
}

/* ---- tests ---- */

/* What an algorithm says its assignment costs is what it costs, and no better than the best. */
static void expect_honest(const gal_problem *p, trial *t, const gal_solution *s, uint64_t seed, const char *name)
{
    if (s->bound_ps > t->best_ps) {
        fail_msg("seed %llu: %s proves more than the best", (unsigned long long)seed, name);
    }
    if (s->best.value_ps == GAL_NEVER) {
        return;
    }
    const int64_t best_ps = t->best_ps;
    memcpy(t->strategy, s->best.strategy, t->layer_count * sizeof *t->strategy);
    memcpy(t->stage_first, s->best.stage_first, (p->stage_count + 1) * sizeof *t->stage_first);
    t->best_ps = GAL_NEVER;
    weigh(t);
    if (t->best_ps != s->best.value_ps || t->best_ps < best_ps) {
        fail_msg("seed %llu: %s says %lld, brute force %lld for it and %lld at best", (unsigned long long)seed, name,
                 (long long)s->best.value_ps, (long long)t->best_ps, (long long)best_ps);
    }
    t->best_ps = best_ps;
}

static void check_case(uint64_t seed, const gal_problem *p, uint32_t solver_count, uint64_t label_limit,
                       uint32_t *feasible_count)
{
    const gal_solver_limits limits = {.label_limit = label_limit, .memory_unit_bytes = 1, .time_limit_seconds = 60.0};
    gal_instance *g = NULL;
    trial t;
    brute_force(p, &t);
    *feasible_count += t.best_ps != GAL_NEVER;
    assert_int_equal(gal_instance_create(p, &g, NULL), GAL_OK);
    for (uint32_t i = 0; i < solver_count; i++) {
        gal_solution s;
        assert_int_equal(gal_solve(&gal_solvers[i], g, &limits, &s, NULL), GAL_OK);
        expect_honest(p, &t, &s, seed, gal_solvers[i].name);
        if (i == 0 && label_limit > 1 && (s.best.value_ps != t.best_ps || s.bound_ps != t.best_ps)) {
            fail_msg("seed %llu: exact says %lld, proves %lld, brute force %lld", (unsigned long long)seed,
                     (long long)s.best.value_ps, (long long)s.bound_ps, (long long)t.best_ps);
        }
        gal_solution_free(&s);
    }
    gal_assignment least;
    int64_t bytes = 0;
    bool is_exact = false;
    assert_int_equal(gal_assignment_create(g, &least, NULL), GAL_OK);
    assert_int_equal(gal_solve_least_bytes(g, 1000000, &least, &bytes, &is_exact, NULL), GAL_OK);
    if (!is_exact || bytes != t.least_bytes || (bytes <= g->budget_bytes) != (t.best_ps != GAL_NEVER)) {
        fail_msg("seed %llu: least bytes %lld, brute force %lld", (unsigned long long)seed, (long long)bytes,
                 (long long)t.least_bytes);
    }
    gal_assignment_free(&least);
    gal_instance_free(g);
}

static void test_one_stage(void **state)
{
    (void)state;
    uint32_t feasible_count = 0;
    for (uint64_t seed = 0; seed < ONE_STAGE_CASES; seed++) {
        gal_problem p;
        gal_random_problem(seed, 2, seed % 8 == 0 ? 7 : 5, 6, 1, &p);
        check_case(seed, &p, 3, 1000000, &feasible_count);
        gal_problem_free(&p);
    }
    print_message("%u of %d can be solved\n", feasible_count, ONE_STAGE_CASES);
    assert_in_range(feasible_count, ONE_STAGE_CASES / 2, ONE_STAGE_CASES - 1);
}

static void test_pipelines(void **state)
{
    (void)state;
    uint32_t feasible_count = 0;
    for (uint64_t seed = 0; seed < PIPELINE_CASES; seed++) {
        gal_problem p;
        const bool is_large = seed % 8 == 0;
        gal_random_problem(seed, 4, is_large ? 8 : 6, 4, 2 + (uint32_t)(seed % 3), &p);
        check_case(seed, &p, 3, 1000000, &feasible_count);
        gal_problem_free(&p);
    }
    print_message("%u of %d can be solved\n", feasible_count, PIPELINE_CASES);
    assert_in_range(feasible_count, PIPELINE_CASES / 3, PIPELINE_CASES - 1);
}

/* With one label the exact solver gives up at once; what it says then still holds. */
static void test_label_limit(void **state)
{
    (void)state;
    uint32_t feasible_count = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        gal_problem p;
        gal_random_problem(seed, 4, 6, 4, 1 + (uint32_t)(seed % 3), &p);
        check_case(seed, &p, 1, 1, &feasible_count);
        gal_problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stage),
        cmocka_unit_test(test_pipelines),
        cmocka_unit_test(test_label_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
