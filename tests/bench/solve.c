/* make bench-solve: milliseconds of gal_solve by `exact`, without reading and writing, median and worst over problems
 * that look like Transformers (tests/support/random_problem.h): 1 to 3 runs and all layers different, three budgets,
 * both forms of transitions, two seeds; each problem's time is the median of 5. Last the slope in layers on log axes.
 * Exit 1 if the median of 48 layers x 44 strategies is over 5 ms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "planner/solve/solver.h"
#include "tests/support/random_problem.h"

enum { REPEATS = 5, PROBLEMS_MAX = 64 };

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *value, size_t count)
{
    qsort(value, count, sizeof *value, order);
    return count % 2 == 1 ? value[count / 2] : 0.5 * (value[count / 2 - 1] + value[count / 2]);
}

static double solve_ms(const gal_problem *p, uint64_t *labels, bool *proven)
{
    const gal_solver_limits limits = {.label_limit = 4000000};
    gal_instance *g = NULL;
    double ms[REPEATS];
    if (gal_instance_create(p, &g, NULL) != GAL_OK) {
        exit(GAL_ERR_SYSTEM);
    }
    for (uint32_t i = 0; i < REPEATS; i++) {
        gal_solution s;
        const double begin = now_ms();
        if (gal_solve(&gal_solvers[0], g, &limits, &s, NULL) != GAL_OK) {
            exit(GAL_ERR_SYSTEM);
        }
        ms[i] = now_ms() - begin;
        *labels = s.effort_count;
        *proven = s.bound_ps == s.best.value_ps;
        gal_solution_free(&s);
    }
    gal_instance_free(g);
    return median(ms, REPEATS);
}

/* Median over the problems of a size. */
static double bench(uint32_t layers, uint32_t strategies, uint32_t stages)
{
    static const double budgets[] = {0.08, 0.3, 0.7};
    double ms[PROBLEMS_MAX];
    size_t count = 0;
    uint32_t unproven = 0;
    uint64_t most_labels = 0;
    for (uint32_t i = 0; i < 48; i++) {
        gal_problem p;
        uint64_t labels;
        bool proven;
        const uint32_t runs = i % 4 == 3 ? layers : 1 + i % 4;
        const gal_transformer_problem form = {i / 24 + 1, layers, strategies,         runs,
                                              stages,     8,      budgets[i / 4 % 3], i / 12 % 2 == 1};
        gal_random_transformer_problem(&form, &p);
        ms[count++] = solve_ms(&p, &labels, &proven);
        most_labels = labels > most_labels ? labels : most_labels;
        unproven += !proven;
        gal_problem_free(&p);
    }
    const double middle = median(ms, count);
    (void)printf("%6u  %10u  %6u  %9.3f  %9.3f  %11llu  %8u\n", layers, strategies, stages, middle, ms[count - 1],
                 (unsigned long long)most_labels, unproven);
    (void)fflush(stdout);
    return middle;
}

int main(void)
{
    (void)printf("layers  strategies  stages  median ms   worst ms  most labels  unproven\n");
    const double small = bench(24, 44, 1);
    const double target = bench(48, 44, 1);
    const double large = bench(96, 44, 1);
    (void)bench(48, 22, 1);
    (void)bench(24, 22, 4);
    (void)printf("slope in layers, 24 to 96: %.2f (log of milliseconds over log of layers)\n",
                 log(large / small) / log(4.0));
    (void)printf("48 layers x 44 strategies: %.3f ms, at most 5\n", target);
    return target <= 5.0 ? 0 : 1;
}
