#include "planner/partition/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* least[stage][begin]: of the stages from `stage` on that have the layers from `begin` on. */
typedef struct solver {
    const gal_partition_problem *problem;
    double *least; /* [stage_count + 1][layer_count + 1] */
    uint32_t *end; /* likewise: where the stage ends */
    double next;   /* the least one above the bottleneck that the last program met */
} solver;

static size_t place(const solver *s, uint32_t stage, uint32_t begin)
{
    return (size_t)stage * (s->problem->layer_count + 1) + begin;
}

/* The best end of a stage that begins at a layer, under a bottleneck. */
static void solve_begin(solver *s, uint32_t stage, uint32_t begin, double bottleneck)
{
    const gal_partition_problem *p = s->problem;
    const uint32_t behind = p->stage_count - 1 - stage; /* stages, each with a layer at least */
    double least = INFINITY;
    for (uint32_t end = begin + 1; end + behind <= p->layer_count; end++) {
        const gal_stage_seconds own = p->seconds(p->context, stage, begin, end);
        if (own.bottleneck > bottleneck + p->falls) {
            s->next = fmin(s->next, own.bottleneck);
            break;
        }
        if (own.bottleneck > bottleneck) {
            s->next = fmin(s->next, own.bottleneck);
            continue;
        }
        const double sum = own.once + s->least[place(s, stage + 1, end)];
        if (sum < least) {
            least = sum;
            s->end[place(s, stage, begin)] = end;
        }
    }
    s->least[place(s, stage, begin)] = least;
}

/* The least sum with no stage above the bottleneck. */
static double solve_under(solver *s, double bottleneck)
{
    const gal_partition_problem *p = s->problem;
    s->next = INFINITY;
    for (uint32_t begin = 0; begin <= p->layer_count; begin++) {
        s->least[place(s, p->stage_count, begin)] = begin == p->layer_count ? 0.0 : INFINITY;
    }
    for (uint32_t stage = p->stage_count; stage-- > 0;) {
        for (uint32_t begin = stage; begin < p->layer_count; begin++) {
            solve_begin(s, stage, begin, bottleneck);
        }
    }
    return s->least[place(s, 0, 0)];
}

/* The least bottleneck of any partition: least[][] are maxima here. */
static double least_bottleneck(solver *s)
{
    const gal_partition_problem *p = s->problem;
    for (uint32_t begin = 0; begin <= p->layer_count; begin++) {
        s->least[place(s, p->stage_count, begin)] = begin == p->layer_count ? 0.0 : INFINITY;
    }
    for (uint32_t stage = p->stage_count; stage-- > 0;) {
        for (uint32_t begin = stage; begin < p->layer_count; begin++) {
            double least = INFINITY;
            for (uint32_t end = begin + 1; end + (p->stage_count - 1 - stage) <= p->layer_count; end++) {
                const double own = p->seconds(p->context, stage, begin, end).bottleneck;
                if (own >= least + p->falls) {
                    break;
                }
                least = fmin(least, fmax(own, s->least[place(s, stage + 1, end)]));
            }
            s->least[place(s, stage, begin)] = least;
        }
    }
    return s->least[place(s, 0, 0)];
}

static void read_cut(const solver *s, uint32_t *cut)
{
    cut[0] = 0;
    for (uint32_t stage = 0; stage < s->problem->stage_count; stage++) {
        cut[stage + 1] = s->end[place(s, stage, cut[stage])];
    }
}

static double slowest(const gal_partition_problem *p, const uint32_t *cut)
{
    double most = 0.0;
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        most = fmax(most, p->seconds(p->context, stage, cut[stage], cut[stage + 1]).bottleneck);
    }
    return most;
}

/* From the least bottleneck upwards: each is the least one that the one before ruled out. */
static void sweep(solver *s, uint32_t *cut, uint32_t *best_cut, double *objective)
{
    const gal_partition_problem *p = s->problem;
    const double least_sum = solve_under(s, INFINITY);
    *objective = INFINITY;
    if (isinf(least_sum)) {
        return;
    }
    read_cut(s, best_cut);
    *objective = slowest(p, best_cut) + least_sum;
    for (double bottleneck = least_bottleneck(s); isfinite(bottleneck) && bottleneck + least_sum < *objective;
         bottleneck = s->next) {
        const double sum = solve_under(s, bottleneck);
        if (isinf(sum)) { /* the least bottleneck allows one */
            continue;
        }
        read_cut(s, cut);
        const double value = slowest(p, cut) + sum;
        if (value < *objective) {
            *objective = value;
            memcpy(best_cut, cut, (p->stage_count + (size_t)1) * sizeof *cut);
        }
    }
}

gal_code gal_partition_solve(const gal_partition_problem *problem, uint32_t *cut, double *objective, gal_error *err)
{
    const size_t room = ((size_t)problem->stage_count + 1) * (problem->layer_count + (size_t)1);
    solver s = {.problem = problem};
    s.least = calloc(room, sizeof *s.least);
    s.end = calloc(room + problem->stage_count + 1, sizeof *s.end);
    gal_code code = GAL_OK;
    if (s.least == NULL || s.end == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    } else {
        sweep(&s, s.end + room, cut, objective);
    }
    free(s.least);
    free(s.end);
    return code;
}
