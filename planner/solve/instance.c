#include "planner/solve/instance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"

static int64_t picoseconds(double seconds)
{
    return (int64_t)llround(seconds * 1e12);
}

/* ---- classes of strategies ---- */

static bool same_class(const gal_instance *g, uint32_t transition_count, uint32_t a, uint32_t b)
{
    const uint32_t n = g->strategy_count;
    for (uint32_t t = 0; t < transition_count; t++) {
        const int64_t *change = g->change_ps + (size_t)t * n * n;
        if (memcmp(change + (size_t)a * n, change + (size_t)b * n, n * sizeof *change) != 0) {
            return false;
        }
        for (uint32_t u = 0; u < n; u++) {
            if (change[(size_t)u * n + a] != change[(size_t)u * n + b]) {
                return false;
            }
        }
    }
    return true;
}

static void find_classes(gal_instance *g, uint32_t transition_count)
{
    const uint32_t n = g->strategy_count;
    uint32_t member[GAL_PROBLEM_STRATEGIES_MAX];
    for (uint32_t s = 0; s < n; s++) {
        uint32_t k = 0;
        while (k < g->class_count && !same_class(g, transition_count, member[k], s)) {
            k++;
        }
        if (k == g->class_count) {
            member[g->class_count++] = s;
        }
        g->class_of[s] = k;
    }
    const uint32_t classes = g->class_count;
    for (uint32_t t = 0; t < transition_count; t++) {
        for (uint32_t a = 0; a < classes; a++) {
            for (uint32_t b = 0; b < classes; b++) {
                g->class_change_ps[((size_t)t * classes + a) * classes + b] =
                    g->change_ps[((size_t)t * n + member[a]) * n + member[b]];
            }
        }
    }
}

/* ---- create ---- */

static bool allocate(gal_instance *g, const gal_problem *p)
{
    const size_t cells = (size_t)p->kind_count * p->strategy_count;
    const size_t changes = (size_t)p->transition_count * p->strategy_count * p->strategy_count;
    g->kind = calloc(g->layer_count, sizeof *g->kind);
    g->run_first = calloc(g->layer_count, sizeof *g->run_first);
    g->transition = calloc(p->kind_count, sizeof *g->transition);
    g->in_flight = calloc(p->stage_count, sizeof *g->in_flight);
    g->seconds_ps = calloc(cells, sizeof *g->seconds_ps);
    g->enter_ps = calloc(cells, sizeof *g->enter_ps);
    g->state_bytes = calloc(cells, sizeof *g->state_bytes);
    g->forward_bytes = calloc(cells, sizeof *g->forward_bytes);
    g->backward_bytes = calloc(cells, sizeof *g->backward_bytes);
    g->tied_ps = calloc(p->strategy_count, sizeof *g->tied_ps);
    g->change_ps = calloc(changes, sizeof *g->change_ps);
    g->class_of = calloc(p->strategy_count, sizeof *g->class_of);
    g->class_change_ps = calloc(changes, sizeof *g->class_change_ps);
    return g->kind != NULL && g->run_first != NULL && g->transition != NULL && g->in_flight != NULL &&
           g->seconds_ps != NULL && g->enter_ps != NULL && g->state_bytes != NULL && g->forward_bytes != NULL &&
           g->backward_bytes != NULL && g->tied_ps != NULL && g->change_ps != NULL && g->class_of != NULL &&
           g->class_change_ps != NULL;
}

static void fill(gal_instance *g, const gal_problem *p)
{
    uint32_t layer = 0;
    for (uint32_t r = 0; r < p->run_count; r++) {
        for (uint32_t i = 0; i < p->run[r].layer_count; i++, layer++) {
            const uint32_t kind = p->run[r].kind_index;
            g->kind[layer] = kind;
            g->run_first[layer] = layer > 0 && g->kind[layer - 1] == kind ? g->run_first[layer - 1] : layer;
        }
    }
    for (uint32_t k = 0; k < p->kind_count; k++) {
        g->transition[k] = p->kind[k].transition_index;
    }
    for (uint32_t i = 0; i < p->stage_count; i++) {
        g->in_flight[i] = gal_problem_in_flight(p, i);
    }
    for (size_t i = 0; i < (size_t)p->kind_count * p->strategy_count; i++) {
        g->seconds_ps[i] = picoseconds(p->cost[i].seconds);
        g->enter_ps[i] = picoseconds(p->cost[i].enter_seconds);
        g->state_bytes[i] = (int64_t)p->cost[i].state_bytes;
        g->forward_bytes[i] = (int64_t)p->cost[i].forward_bytes;
        g->backward_bytes[i] = (int64_t)p->cost[i].backward_bytes;
    }
    for (uint32_t s = 0; s < p->strategy_count; s++) {
        g->tied_ps[s] = picoseconds(p->strategy[s].tied_seconds);
    }
    for (size_t i = 0; i < (size_t)p->transition_count * p->strategy_count * p->strategy_count; i++) {
        g->change_ps[i] = picoseconds(p->transition_seconds[i]);
    }
}

gal_code gal_instance_create(const gal_problem *problem, gal_instance **out, gal_error *err)
{
    gal_instance *g = calloc(1, sizeof *g);
    if (g != NULL) {
        g->layer_count = gal_problem_layer_count(problem);
        g->strategy_count = problem->strategy_count;
        g->stage_count = problem->stage_count;
        g->microbatch_count = problem->microbatch_count;
        g->kind_count = problem->kind_count;
        g->budget_bytes = (int64_t)problem->budget_bytes;
    }
    if (g == NULL || !allocate(g, problem)) {
        gal_instance_free(g);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    fill(g, problem);
    find_classes(g, problem->transition_count);
    *out = g;
    return GAL_OK;
}

void gal_instance_free(gal_instance *g)
{
    if (g != NULL) {
        free(g->kind);
        free(g->run_first);
        free(g->transition);
        free(g->in_flight);
        free(g->seconds_ps);
        free(g->enter_ps);
        free(g->state_bytes);
        free(g->forward_bytes);
        free(g->backward_bytes);
        free(g->tied_ps);
        free(g->change_ps);
        free(g->class_of);
        free(g->class_change_ps);
        free(g);
    }
}

/* ---- prices ---- */

int64_t gal_instance_edge_ps(const gal_instance *g, uint32_t stage, uint32_t kind, uint32_t strategy, bool is_first,
                             bool is_last)
{
    int64_t sum = 0;
    if (g->stage_count > 1) {
        sum += is_first && stage > 0 ? g->enter_ps[(size_t)kind * g->strategy_count + strategy] : 0;
        sum += is_first && stage == 0 ? g->tied_ps[strategy] : 0;
        sum += is_last && stage + 1 == g->stage_count ? g->tied_ps[strategy] : 0;
    }
    return sum;
}

gal_stage_cost gal_instance_stage_cost(const gal_instance *g, uint32_t stage, uint32_t first, uint32_t end,
                                       const uint32_t *strategy)
{
    const size_t n = g->strategy_count;
    gal_stage_cost cost = {.peak_layer = first};
    int64_t forward = 0;
    int64_t state = 0;
    int64_t peak = -1;
    for (uint32_t l = first; l < end; l++) {
        const uint32_t kind = g->kind[l];
        const uint32_t s = strategy[l];
        const size_t cell = kind * n + s;
        cost.seconds_ps += g->seconds_ps[cell] + gal_instance_edge_ps(g, stage, kind, s, l == first, l + 1 == end);
        cost.seconds_ps += l == first ? 0 : g->change_ps[(g->transition[kind] * n + strategy[l - 1]) * n + s];
        forward += g->forward_bytes[cell];
        state += g->state_bytes[cell];
        if (forward + g->backward_bytes[cell] > peak) {
            peak = forward + g->backward_bytes[cell];
            cost.peak_layer = l;
        }
    }
    cost.peak_bytes = state + (int64_t)(g->in_flight[stage] - 1) * forward + peak;
    return cost;
}

/* ---- assignments ---- */

gal_code gal_assignment_create(const gal_instance *g, gal_assignment *out, gal_error *err)
{
    *out = (gal_assignment){.strategy = calloc(g->layer_count, sizeof *out->strategy),
                            .stage_first = calloc((size_t)g->stage_count + 1, sizeof *out->stage_first),
                            .value_ps = GAL_NEVER};
    if (out->strategy == NULL || out->stage_first == NULL) {
        gal_assignment_free(out);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    out->stage_first[g->stage_count] = g->layer_count;
    return GAL_OK;
}

void gal_assignment_free(gal_assignment *assignment)
{
    free(assignment->strategy);
    free(assignment->stage_first);
    *assignment = (gal_assignment){.value_ps = GAL_NEVER};
}

void gal_assignment_copy(const gal_instance *g, gal_assignment *to, const gal_assignment *from)
{
    memcpy(to->strategy, from->strategy, g->layer_count * sizeof *to->strategy);
    memcpy(to->stage_first, from->stage_first, ((size_t)g->stage_count + 1) * sizeof *to->stage_first);
    to->value_ps = from->value_ps;
}

void gal_assignment_price(const gal_instance *g, gal_assignment *a)
{
    int64_t sum = 0;
    int64_t slowest = 0;
    bool fits = true;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost =
            gal_instance_stage_cost(g, i, a->stage_first[i], a->stage_first[i + 1], a->strategy);
        sum += cost.seconds_ps;
        slowest = cost.seconds_ps > slowest ? cost.seconds_ps : slowest;
        fits = fits && cost.peak_bytes <= g->budget_bytes;
    }
    a->value_ps = fits ? (int64_t)(g->microbatch_count - 1) * slowest + sum : GAL_NEVER;
}
