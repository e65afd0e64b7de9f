#include "planner/solve/galvatron.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/base/checked.h"
#include "schemas/base/vector.h"

enum { STEPS_DEFAULT = 1024 };
#define CELLS_MAX (UINT64_C(1) << 28) /* of the table of one stage: 512 MiB */

typedef struct table {
    uint32_t steps, layers;
    uint64_t unit_bytes;  /* of a step */
    int64_t *least_bytes; /* (layer): steps count what a layer takes above it */
    int64_t floor_bytes;  /* their sum */
    int64_t *time;        /* (step, strategy): C(l, E_fwd) by last strategy */
    int64_t *entered;     /* (step, strategy): least time of the layers before, with the transition into this one */
    uint16_t *before;     /* (layer, step, strategy): the strategy before */
    int64_t *choice;      /* (strategy): of one step, before */
    uint32_t *trial;      /* strategy (layer of the model) */
} table;

static void free_table(table *t)
{
    free(t->least_bytes);
    free(t->time);
    free(t->entered);
    free(t->before);
    free(t->choice);
    free(t->trial);
}

/* Of E_f alone. */
static int64_t kept_bytes(const gal_instance *g, uint32_t stage, uint32_t layer, uint32_t strategy)
{
    const size_t cell = (size_t)g->kind[layer] * g->strategy_count + strategy;
    return g->state_bytes[cell] + (int64_t)g->in_flight[stage] * g->forward_bytes[cell];
}

/* False: even the least of every layer is more than the budget. */
static bool set_floor(const gal_instance *g, uint32_t stage, uint32_t first, table *t)
{
    for (uint32_t l = 0; l < t->layers; l++) {
        int64_t least = kept_bytes(g, stage, first + l, 0);
        for (uint32_t s = 1; s < g->strategy_count; s++) {
            const int64_t bytes = kept_bytes(g, stage, first + l, s);
            least = bytes < least ? bytes : least;
        }
        t->least_bytes[l] = least;
        t->floor_bytes += least;
    }
    return t->floor_bytes <= g->budget_bytes;
}

static uint64_t unit_of(const gal_solver_limits *limits, uint64_t bytes)
{
    const uint64_t even = bytes / STEPS_DEFAULT + (bytes % STEPS_DEFAULT != 0);
    return limits->memory_unit_bytes != 0 ? limits->memory_unit_bytes : even > 0 ? even : 1;
}

/* After set_floor. */
static gal_code reserve_steps(const gal_instance *g, const gal_solver_limits *limits, table *t, gal_error *err)
{
    const uint64_t above = (uint64_t)(g->budget_bytes - t->floor_bytes);
    const uint32_t layers = t->layers;
    uint64_t cells = CELLS_MAX + 1;
    t->unit_bytes = unit_of(limits, above);
    const uint64_t steps = above / t->unit_bytes;
    t->steps = (uint32_t)steps;
    if (steps >= UINT32_MAX || !gal_checked_mul((steps + 1) * g->strategy_count, layers, &cells) || cells > CELLS_MAX) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--memory-unit: a table of %u layers, %llu steps and %u strategies is too large", layers,
                        (unsigned long long)steps, g->strategy_count);
    }
    t->time = calloc((size_t)(steps + 1) * g->strategy_count, sizeof *t->time);
    t->entered = calloc((size_t)(steps + 1) * g->strategy_count, sizeof *t->entered);
    t->before = calloc((size_t)cells, sizeof *t->before);
    t->choice = calloc(g->strategy_count, sizeof *t->choice);
    t->trial = calloc(g->layer_count, sizeof *t->trial);
    return t->time != NULL && t->entered != NULL && t->before != NULL && t->choice != NULL && t->trial != NULL
               ? GAL_OK
               : gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
}

/* ---- Eq. 4 ---- */

/* Of one step: the least of the layers before by the strategy to come, the first of equals. One comparison and two
 * selections of one width: what the compiler makes vectors of. */
GAL_VECTOR static void enter_step(size_t n, const int64_t *restrict time, const int64_t *restrict change,
                                  int64_t *restrict entered, int64_t *restrict choice)
{
    for (size_t to = 0; to < n; to++) {
        entered[to] = GAL_NEVER;
        choice[to] = 0;
    }
    for (size_t from = 0; from < n; from++) {
        const int64_t so_far = time[from];
        for (size_t to = 0; so_far != GAL_NEVER && to < n; to++) {
            const int64_t through = so_far + change[from * n + to];
            choice[to] = through < entered[to] ? (int64_t)from : choice[to];
            entered[to] = through < entered[to] ? through : entered[to];
        }
    }
}

/* All steps; nothing is before the first layer. More steps that buy nothing have the same answer. */
static void enter_layer(const gal_instance *g, table *t, uint32_t layer, bool is_first, uint16_t *before)
{
    const size_t n = g->strategy_count;
    const int64_t *change = g->change_ps + g->transition[g->kind[layer]] * n * n;
    if (is_first) {
        memset(t->entered, 0, ((size_t)t->steps + 1) * n * sizeof *t->entered);
        return;
    }
    for (size_t step = 0; step <= t->steps; step++) {
        const int64_t *time = t->time + step * n;
        int64_t *entered = t->entered + step * n;
        if (step > 0 && memcmp(time, time - n, n * sizeof *time) == 0) {
            memcpy(entered, entered - n, n * sizeof *entered);
        } else {
            enter_step(n, time, change, entered, t->choice);
        }
        for (size_t to = 0; to < n; to++) {
            before[step * n + to] = (uint16_t)t->choice[to];
        }
    }
}

static uint64_t steps_of(const gal_instance *g, const table *t, uint32_t stage, uint32_t first, uint32_t layer,
                         uint32_t strategy)
{
    const uint64_t bytes = (uint64_t)(kept_bytes(g, stage, layer, strategy) - t->least_bytes[layer - first]);
    return bytes / t->unit_bytes + (bytes % t->unit_bytes != 0);
}

static void add_layer(const gal_instance *g, table *t, uint32_t stage, uint32_t first, uint32_t layer)
{
    const size_t n = g->strategy_count;
    const bool is_first = layer == first, is_last = layer + 1 == first + t->layers;
    for (uint32_t s = 0; s < n; s++) {
        const uint64_t needed = steps_of(g, t, stage, first, layer, s);
        const int64_t own = g->seconds_ps[g->kind[layer] * n + s] +
                            gal_instance_edge_ps(g, stage, g->kind[layer], s, is_first, is_last);
        for (uint64_t step = 0; step <= t->steps; step++) {
            const int64_t before = step < needed ? GAL_NEVER : t->entered[(step - needed) * n + s];
            t->time[step * n + s] = before == GAL_NEVER ? GAL_NEVER : before + own;
        }
    }
}

/* ---- Algorithm 3 ---- */

/* The path of least time with so many steps; false if there is none. */
static bool path_at(const gal_instance *g, const table *t, uint32_t stage, uint32_t first, uint64_t step,
                    uint32_t *strategy)
{
    const size_t n = g->strategy_count;
    const int64_t *time = t->time + step * n;
    uint32_t s = 0;
    for (uint32_t other = 1; other < n; other++) {
        s = time[other] < time[s] ? other : s;
    }
    if (time[s] == GAL_NEVER) {
        return false;
    }
    for (uint32_t l = first + t->layers; l-- > first;) {
        strategy[l] = s;
        step -= steps_of(g, t, stage, first, l, s);
        s = t->before[((size_t)(l - first) * ((size_t)t->steps + 1) + step) * n + s];
    }
    return true;
}

/* Lines 9 to 25. A budget without any path is no failed check: there is nothing to check. */
static bool raise_forward_budget(const gal_instance *g, table *t, uint32_t stage, uint32_t first, uint32_t *strategy)
{
    const uint32_t end = first + t->layers;
    int64_t most = 0;
    bool found = false;
    for (uint32_t l = first; l < end; l++) {
        for (uint32_t s = 0; s < g->strategy_count; s++) {
            const int64_t bytes = g->backward_bytes[(size_t)g->kind[l] * g->strategy_count + s];
            most = bytes > most ? bytes : most;
        }
    }
    uint64_t step = 0;
    if (most + t->floor_bytes <= g->budget_bytes) {
        step = (uint64_t)(g->budget_bytes - most - t->floor_bytes) / t->unit_bytes;
        found = path_at(g, t, stage, first, step, strategy);
        step++;
    }
    for (; step <= t->steps; step++) {
        if (!path_at(g, t, stage, first, step, t->trial)) {
            continue;
        }
        if (gal_instance_stage_cost(g, stage, first, end, t->trial).peak_bytes > g->budget_bytes) {
            break;
        }
        found = true;
        memcpy(strategy + first, t->trial + first, t->layers * sizeof *strategy);
    }
    return found;
}

/* Whether a stage has the layers, the microbatches and the borders of the one before it: then also its answer. */
static bool is_repeated(const gal_instance *g, const uint32_t *stage_first, uint32_t stage)
{
    if (stage < 2 || stage + 1 == g->stage_count || g->in_flight[stage] != g->in_flight[stage - 1]) {
        return false; /* the first and the last have borders of their own */
    }
    const uint32_t before = stage_first[stage - 1], first = stage_first[stage], end = stage_first[stage + 1];
    bool same = end - first == first - before;
    for (uint32_t l = first; same && l < end; l++) {
        same = g->kind[l] == g->kind[before + (l - first)];
    }
    return same;
}

/* In a table as it stands: strategies and whether there are any. */
static gal_code fill_table(const gal_instance *g, uint32_t stage, const gal_solver_limits *limits, table *t,
                           gal_assignment *a, bool *found, uint64_t *cell_count, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t first = a->stage_first[stage];
    GAL_TRY(reserve_steps(g, limits, t, err));
    const size_t layer_cells = ((size_t)t->steps + 1) * g->strategy_count;
    for (uint32_t l = first; l < first + t->layers; l++) {
        const size_t row = (l - first) * layer_cells;
        enter_layer(g, t, l, l == first, t->before + row);
        add_layer(g, t, stage, first, l);
    }
    *cell_count += layer_cells * t->layers;
    *found = raise_forward_budget(g, t, stage, first, a->strategy);
cleanup:
    return code;
}

/* Layers rounded up to steps, as published; where that leaves none though the least bytes of all layers fit, what they
 * take above these. */
static gal_code search_stage(const gal_instance *g, uint32_t stage, const gal_solver_limits *limits, gal_assignment *a,
                             bool *found, uint64_t *cell_count, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t first = a->stage_first[stage], layers = a->stage_first[stage + 1] - first;
    table plain = {.layers = layers, .least_bytes = calloc(layers, sizeof *plain.least_bytes)};
    table above = {.layers = layers, .least_bytes = calloc(layers, sizeof *above.least_bytes)};
    *found = false;
    if (plain.least_bytes == NULL || above.least_bytes == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    if (!set_floor(g, stage, first, &above)) {
        goto cleanup;
    }
    GAL_TRY(fill_table(g, stage, limits, &plain, a, found, cell_count, err));
    if (!*found) {
        GAL_TRY(fill_table(g, stage, limits, &above, a, found, cell_count, err));
    }
cleanup:
    free_table(&above);
    free_table(&plain);
    return code;
}

gal_code gal_galvatron_search(const gal_instance *g, const gal_solver_limits *limits, gal_assignment *a,
                              uint64_t *cell_count, gal_error *err)
{
    bool found = true;
    a->value_ps = GAL_NEVER;
    for (uint32_t i = 0; i < g->stage_count && found; i++) {
        const uint32_t first = a->stage_first[i], count = a->stage_first[i + 1] - first;
        if (is_repeated(g, a->stage_first, i)) {
            memcpy(a->strategy + first, a->strategy + first - count, count * sizeof *a->strategy);
            continue;
        }
        const gal_code code = search_stage(g, i, limits, a, &found, cell_count, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    if (found) {
        gal_assignment_price(g, a);
        GAL_ASSERT(a->value_ps != GAL_NEVER);
    }
    return GAL_OK;
}

/* ---- Algorithm 1 ---- */

/* Galvatron-Base for one batch and one pipeline degree, which the problem gives (lines 5 to 7). PP_Partition_Init:
 * equal counts of layers, the first of the guides that the paper names; where they do not divide, later stages have
 * one more. */
gal_code gal_solve_galvatron_base(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out,
                                  gal_error *err)
{
    for (uint32_t i = 0; i < g->stage_count; i++) {
        out->best.stage_first[i] = (uint32_t)((uint64_t)g->layer_count * i / g->stage_count);
    }
    return gal_galvatron_search(g, limits, &out->best, &out->effort_count, err);
}
