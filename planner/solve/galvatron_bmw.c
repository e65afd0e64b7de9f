/* Galvatron-BMW, Section IV-B2, Algorithm 2: from the partition balanced in memory towards that balanced in time, one
 * boundary layer of the slowest stage at a time. For one batch and one pipeline degree, which the problem gives.
 *
 * What the paper leaves open, and how it is read here: Strategy_Init is the first strategy in the list of the problem,
 * for every layer. PP_Partition_Init and p_t are the exact partitions of least largest bytes and of least largest
 * seconds under given strategies. A layer that moves keeps its strategy until the next search, and Validate weighs p'
 * and p_t by these. Of the two neighbours that the boundary layer may go to, the one with less time is tried first. A
 * partition that was met before ends it. Line 18 keeps the cost of the last partition; here the best of all is kept. */
#include <stdlib.h>
#include <string.h>

#include "planner/solve/galvatron.h"

typedef struct loads {
    int64_t most_seconds_ps, most_bytes;
    uint32_t slowest;
} loads;

static loads loads_of(const gal_instance *g, const uint32_t *stage_first, const uint32_t *strategy, int64_t *stage_ps)
{
    loads out = {0};
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost = gal_instance_stage_cost(g, i, stage_first[i], stage_first[i + 1], strategy);
        stage_ps[i] = cost.seconds_ps;
        out.slowest = cost.seconds_ps > out.most_seconds_ps ? i : out.slowest;
        out.most_seconds_ps = cost.seconds_ps > out.most_seconds_ps ? cost.seconds_ps : out.most_seconds_ps;
        out.most_bytes = cost.peak_bytes > out.most_bytes ? cost.peak_bytes : out.most_bytes;
    }
    return out;
}

/* The partition of least largest stage, by seconds or by bytes, under these strategies. */
static gal_code balance(const gal_instance *g, const uint32_t *strategy, bool by_seconds, uint32_t *stage_first,
                        gal_error *err)
{
    const uint32_t width = g->layer_count + 1;
    int64_t *least = calloc((size_t)(g->stage_count + 1) * width, sizeof *least);
    uint32_t *from = calloc((size_t)(g->stage_count + 1) * width, sizeof *from);
    if (least == NULL || from == NULL) {
        free(least);
        free(from);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t i = 1; i <= g->stage_count; i++) {
        for (uint32_t end = i; end <= g->layer_count; end++) {
            int64_t best = GAL_NEVER;
            for (uint32_t first = i - 1; first < (i == 1 ? 1 : end); first++) {
                const gal_stage_cost cost = gal_instance_stage_cost(g, i - 1, first, end, strategy);
                const int64_t here = by_seconds ? cost.seconds_ps : cost.peak_bytes;
                const int64_t before = least[(size_t)(i - 1) * width + first];
                const int64_t worst = here > before ? here : before;
                if (worst < best) {
                    best = worst;
                    from[(size_t)i * width + end] = first;
                }
            }
            least[(size_t)i * width + end] = best;
        }
    }
    uint32_t end = g->layer_count;
    for (uint32_t i = g->stage_count; i > 0; i--) {
        end = from[(size_t)i * width + end];
        stage_first[i - 1] = end;
    }
    free(least);
    free(from);
    return GAL_OK;
}

/* PP_Partition_Adjust with Validate: the boundary layer of the slowest stage goes to a neighbour if then no stage takes
 * longer than the slowest did, more than the budget, or more than the largest under p_t. False: no way. */
static bool adjust(const gal_instance *g, const uint32_t *strategy, const uint32_t *balanced_first,
                   uint32_t *stage_first, int64_t *stage_ps)
{
    const int64_t limit_bytes = loads_of(g, balanced_first, strategy, stage_ps).most_bytes;
    const loads now = loads_of(g, stage_first, strategy, stage_ps);
    const uint32_t i = now.slowest;
    const bool has_left = i > 0;
    const bool has_right = i + 1 < g->stage_count;
    const bool left_first = has_left && (!has_right || stage_ps[i - 1] <= stage_ps[i + 1]);
    if (stage_first[i + 1] - stage_first[i] < 2) {
        return false;
    }
    for (uint32_t attempt = 0; attempt < 2; attempt++) {
        const bool to_left = left_first == (attempt == 0);
        if (to_left ? !has_left : !has_right) {
            continue;
        }
        uint32_t *border = to_left ? &stage_first[i] : &stage_first[i + 1];
        const uint32_t old = *border;
        *border = to_left ? old + 1 : old - 1;
        const loads then = loads_of(g, stage_first, strategy, stage_ps);
        if (then.most_seconds_ps <= now.most_seconds_ps && then.most_bytes <= g->budget_bytes &&
            then.most_bytes <= limit_bytes) {
            return true;
        }
        *border = old;
    }
    return false;
}

/* Remembers the partition; false if it was there, or without memory. */
static bool is_new(const gal_instance *g, const uint32_t *stage_first, uint32_t **met, size_t *met_count)
{
    const size_t width = g->stage_count;
    for (size_t i = 0; i < *met_count; i++) {
        if (memcmp(*met + i * width, stage_first, width * sizeof *stage_first) == 0) {
            return false;
        }
    }
    uint32_t *larger = realloc(*met, (*met_count + 1) * width * sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    *met = larger;
    memcpy(*met + (*met_count)++ * width, stage_first, width * sizeof *stage_first);
    return true;
}

gal_code gal_solve_galvatron_bmw(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_assignment trial = {0};
    uint32_t *met = NULL;
    size_t met_count = 0;
    uint32_t *balanced_first = calloc((size_t)g->stage_count + 1, sizeof *balanced_first);
    int64_t *stage_ps = calloc(g->stage_count, sizeof *stage_ps);
    GAL_TRY(gal_assignment_create(g, &trial, err));
    if (balanced_first == NULL || stage_ps == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    balanced_first[g->stage_count] = g->layer_count;
    GAL_TRY(balance(g, trial.strategy, false, trial.stage_first, err));
    while (is_new(g, trial.stage_first, &met, &met_count)) {
        GAL_TRY(gal_galvatron_search(g, limits, &trial, &out->effort_count, err));
        if (trial.value_ps == GAL_NEVER) {
            break;
        }
        if (trial.value_ps < out->best.value_ps) {
            gal_assignment_copy(g, &out->best, &trial);
        }
        GAL_TRY(balance(g, trial.strategy, true, balanced_first, err));
        if (!adjust(g, trial.strategy, balanced_first, trial.stage_first, stage_ps)) {
            break;
        }
    }
cleanup:
    free(met);
    free(balanced_first);
    free(stage_ps);
    gal_assignment_free(&trial);
    return code;
}

/* Strategies for the balanced partition, the partition balanced under these, until one comes again; the best of all. */
static gal_code solve_balanced(const gal_instance *g, const gal_solver_limits *limits, bool by_seconds,
                               gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_assignment trial = {0};
    uint32_t *met = NULL;
    size_t met_count = 0;
    GAL_TRY(gal_assignment_create(g, &trial, err));
    GAL_TRY(balance(g, trial.strategy, by_seconds, trial.stage_first, err));
    while (is_new(g, trial.stage_first, &met, &met_count)) {
        GAL_TRY(gal_galvatron_search(g, limits, &trial, &out->effort_count, err));
        if (trial.value_ps == GAL_NEVER) {
            break;
        }
        if (trial.value_ps < out->best.value_ps) {
            gal_assignment_copy(g, &out->best, &trial);
        }
        GAL_TRY(balance(g, trial.strategy, by_seconds, trial.stage_first, err));
    }
cleanup:
    free(met);
    gal_assignment_free(&trial);
    return code;
}

gal_code gal_solve_galvatron_memory(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out,
                                    gal_error *err)
{
    return solve_balanced(g, limits, false, out, err);
}

gal_code gal_solve_galvatron_time(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out,
                                  gal_error *err)
{
    return solve_balanced(g, limits, true, out, err);
}

void gal_balance_degrees(const gal_instance *g, const gal_assignment *a, double *of_seconds, double *of_bytes)
{
    double most[2] = {0.0, 0.0};
    double sum[2] = {0.0, 0.0};
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost =
            gal_instance_stage_cost(g, i, a->stage_first[i], a->stage_first[i + 1], a->strategy);
        const double value[2] = {(double)cost.seconds_ps, (double)cost.peak_bytes};
        for (uint32_t v = 0; v < 2; v++) {
            most[v] = value[v] > most[v] ? value[v] : most[v];
            sum[v] += value[v];
        }
    }
    *of_seconds = sum[0] > 0.0 ? 1.0 - most[0] / sum[0] : 0.0;
    *of_bytes = sum[1] > 0.0 ? 1.0 - most[1] / sum[1] : 0.0;
}
