/* make bench-solve: milliseconds of gal_solve by `exact` on tables of Oases' equations (planner/solve/oases.h), of 24
 * layers of two blocks: degrees 2, 4 and 8, and 44 strategies. As in its paper layers are alike; half of the chains
 * differ by block in every number. Three budgets between the least and the most that any choice needs. The tables are
 * there; a time is the processor's, the median of 5. Exit 1 if any chain of a size is over its limit: 1 ms, 20 ms. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "planner/solve/oases.h"
#include "planner/solve/solver.h"
#include "tests/support/random_plan.h"

enum { LAYERS = 24, BLOCKS = 2 * LAYERS, REPEATS = 5, CHAINS = 24 };

static double spent_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *value, size_t count)
{
    qsort(value, count, sizeof *value, order);
    return count % 2 == 1 ? value[count / 2] : 0.5 * (value[count / 2 - 1] + value[count / 2]);
}

/* Within a fifth. */
static double about(uint64_t *state, double value)
{
    return value * (0.8 + 0.4 * (double)gal_random_below(state, 1000) / 1000.0);
}

/* A block on `degree` devices: 40 ms of forward and 120 of backward shared by them, all-reduces by their volume over a
 * link that is a node's from 8 on, 12 GB of states. */
static void draw_block(uint64_t *state, uint32_t degree, gal_oases_cost *out)
{
    const double rate = degree < 8 ? 5e9 : 2e9;
    for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
        for (uint32_t half = 0; half < 2; half++) {
            out->compute_seconds[pass][half] = about(state, (pass == GAL_OASES_FORWARD ? 0.02 : 0.06) / degree);
            out->reduce_seconds[pass][half] = about(state, gal_oases_reduce_seconds(16e6, degree, rate));
        }
    }
    out->state_bytes = (uint64_t)about(state, 12e9 / degree);
    out->saved_bytes = (uint64_t)about(state, 64e6 / degree);
    out->runtime_bytes = (uint64_t)about(state, 1e9 / degree);
}

static void set_budget(gal_oases *o, double share)
{
    uint64_t least = 0, most = 0;
    for (uint32_t i = 0; i < o->block_count; i++) {
        uint64_t small = UINT64_MAX, large = 0;
        for (uint32_t s = 0; s < o->degree_count; s++) {
            const gal_oases_cost *c = &o->cost[i * o->degree_count + s];
            const uint64_t bytes = c->state_bytes + c->saved_bytes + (i + 1 == o->block_count ? c->runtime_bytes : 0);
            small = bytes < small ? bytes : small;
            large = bytes > large ? bytes : large;
        }
        least += small;
        most += large;
    }
    o->budget_bytes = least + (uint64_t)(share * (double)(most - least)) + 2;
}

static void draw_chain(uint64_t seed, uint32_t strategies, gal_oases *o)
{
    static const double shares[] = {0.1, 0.3, 0.7};
    uint64_t state = seed;
    const bool alike = seed % 2 == 0;
    if (gal_oases_create(BLOCKS, strategies, o, NULL) != GAL_OK) {
        exit(GAL_ERR_SYSTEM);
    }
    for (uint32_t s = 0; s < strategies; s++) {
        o->degree[s] = strategies == 3 ? 2u << s : 2 + s;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        for (uint32_t s = 0; s < strategies; s++) {
            gal_oases_cost *c = &o->cost[i * strategies + s];
            draw_block(&state, o->degree[s], c);
            *c = alike && i >= 2 ? o->cost[(i % 2) * strategies + s] : *c;
            for (uint32_t from = 0; from < strategies; from++) {
                const uint32_t large = from > s ? o->degree[from] : o->degree[s];
                o->gather_seconds[(i * strategies + from) * strategies + s] =
                    from == s ? 0.0 : gal_oases_gather_seconds(16e6, large, 5e9);
            }
        }
    }
    set_budget(o, shares[seed / 2 % 3]);
}

static double solve_ms(const gal_oases *o, bool *proven)
{
    const gal_solver_limits limits = {.label_limit = 4000000};
    gal_problem tables;
    gal_instance *g = NULL;
    double ms[REPEATS];
    if (gal_oases_tabulate(o, &tables, NULL) != GAL_OK || gal_instance_create(&tables, &g, NULL) != GAL_OK) {
        exit(GAL_ERR_SYSTEM);
    }
    for (uint32_t i = 0; i < REPEATS; i++) {
        gal_solution s;
        const double begin = spent_ms();
        if (gal_solve(&gal_solvers[GAL_SOLVER_EXACT], g, &limits, &s, NULL) != GAL_OK) {
            exit(GAL_ERR_SYSTEM);
        }
        ms[i] = spent_ms() - begin;
        *proven = s.best.value_ps != GAL_NEVER && s.bound_ps == s.best.value_ps;
        gal_solution_free(&s);
    }
    gal_instance_free(g);
    gal_problem_free(&tables);
    return median(ms, REPEATS);
}

static bool bench(uint32_t strategies, double limit_ms)
{
    double ms[CHAINS];
    uint32_t unproven = 0;
    for (uint32_t seed = 0; seed < CHAINS; seed++) {
        gal_oases o;
        bool proven = false;
        draw_chain(seed, strategies, &o);
        ms[seed] = solve_ms(&o, &proven);
        unproven += !proven;
        gal_oases_free(&o);
    }
    const double middle = median(ms, CHAINS);
    (void)printf("oases, %u layers x %u strategies: median %.3f ms, worst %.3f ms, at most %.0f; %u of %u unproven\n",
                 (unsigned)LAYERS, strategies, middle, ms[CHAINS - 1], limit_ms, unproven, (unsigned)CHAINS);
    return ms[CHAINS - 1] <= limit_ms && unproven == 0;
}

int main(void)
{
    const bool small = bench(3, 1.0);
    const bool large = bench(44, 20.0);
    return small && large ? 0 : 1;
}
