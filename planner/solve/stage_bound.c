#include "planner/solve/stage_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"

enum { STEPS_MAX = 40, SWAP_PASSES = 3 };

/* ---- paths ---- */

typedef struct path_cost {
    int64_t seconds_ps, kept_bytes, peak_bytes; /* kept: the relaxed row */
} path_cost;

static path_cost cost_of(const gal_stage *stage, const uint32_t *strategy)
{
    const gal_instance *g = stage->choices->instance;
    const uint32_t i = stage->choices->stage;
    const gal_stage_cost cost = gal_instance_stage_cost(g, i, stage->first, stage->end, strategy);
    path_cost out = {.seconds_ps = cost.seconds_ps, .peak_bytes = cost.peak_bytes};
    for (uint32_t l = stage->first; l < stage->end; l++) {
        const size_t cell = (size_t)g->kind[l] * g->strategy_count + strategy[l];
        out.kept_bytes += g->state_bytes[cell] + (int64_t)g->in_flight[i] * g->forward_bytes[cell];
        out.kept_bytes += l + 1 == stage->end ? g->backward_bytes[cell] : 0;
    }
    return out;
}

void gal_stage_offer(const gal_stage *stage, gal_stage_bound *bound, const uint32_t *strategy)
{
    const path_cost cost = cost_of(stage, strategy);
    if (cost.peak_bytes <= stage->choices->instance->budget_bytes && cost.seconds_ps < bound->best_ps) {
        bound->best_ps = cost.seconds_ps;
        memcpy(bound->best + stage->first, strategy + stage->first, (stage->end - stage->first) * sizeof *strategy);
    }
}

/* The least kept bytes, and of these the fastest node by node. */
static void smallest_path(const gal_stage *stage, uint32_t *strategy)
{
    const gal_menu *o = stage->choices;
    for (uint32_t l = stage->first; l < stage->end; l++) {
        const uint32_t *start = gal_stage_start(stage, l);
        const gal_choice *best = &o->choice[start[0]];
        int64_t best_bytes = 0;
        for (uint32_t c = start[0]; c < start[o->instance->class_count]; c++) {
            const gal_choice *at = &o->choice[c];
            const int64_t bytes = at->kept_bytes + (l + 1 == stage->end ? at->backward_bytes : 0);
            if (c == start[0] || bytes < best_bytes || (bytes == best_bytes && at->seconds_ps < best->seconds_ps)) {
                best = at;
                best_bytes = bytes;
            }
        }
        strategy[l] = best->strategy;
    }
}

/* ---- lengths under a multiplier ---- */

static void price_nodes(const gal_stage *stage, gal_stage_bound *b, double lambda)
{
    const gal_menu *o = stage->choices;
    const uint32_t classes = o->instance->class_count;
    const uint32_t *before = NULL;
    for (uint32_t l = stage->first; l < stage->end; l++) {
        const uint32_t *start = gal_stage_start(stage, l);
        const size_t row = (size_t)(l - stage->first) * classes;
        const bool is_last = l + 1 == stage->end;
        if (start == before && !is_last) {
            memcpy(b->node + row, b->node + row - classes, classes * sizeof *b->node);
            memcpy(b->pick + row, b->pick + row - classes, classes * sizeof *b->pick);
            continue;
        }
        before = start;
        for (uint32_t k = 0; k < classes; k++) {
            double least = INFINITY;
            for (uint32_t c = start[k]; c < start[k + 1]; c++) {
                const gal_choice *at = &o->choice[c];
                const int64_t bytes = at->kept_bytes + (is_last ? at->backward_bytes : 0);
                const double length = (double)at->seconds_ps + lambda * (double)bytes;
                if (length < least) {
                    least = length;
                    b->pick[row + k] = c;
                }
            }
            b->node[row + k] = least;
        }
    }
}

static void sum_suffixes(const gal_stage *stage, const gal_stage_bound *b, double *suffix)
{
    const uint32_t classes = stage->choices->instance->class_count;
    double behind[GAL_PROBLEM_STRATEGIES_MAX];
    uint32_t l = stage->end - 1;
    for (uint32_t k = 0; k < classes; k++) {
        suffix[(size_t)(l - stage->first) * classes + k] = 0.0;
    }
    while (l-- > stage->first) {
        const int64_t *change = gal_stage_change(stage, l + 1);
        const size_t row = (size_t)(l - stage->first) * classes;
        for (uint32_t to = 0; to < classes; to++) {
            behind[to] = b->node[row + classes + to] + suffix[row + classes + to];
        }
        for (uint32_t from = 0; from < classes; from++) {
            double least = INFINITY;
            for (uint32_t to = 0; to < classes; to++) {
                const double length = (double)change[(size_t)from * classes + to] + behind[to];
                least = length < least ? length : least;
            }
            suffix[row + from] = least;
        }
    }
}

static void sum_prefixes(const gal_stage *stage, gal_stage_bound *b)
{
    const uint32_t classes = stage->choices->instance->class_count;
    memcpy(b->prefix, b->node, classes * sizeof *b->prefix);
    for (uint32_t l = stage->first + 1; l < stage->end; l++) {
        const int64_t *change = gal_stage_change(stage, l);
        const size_t row = (size_t)(l - stage->first) * classes;
        for (uint32_t to = 0; to < classes; to++) {
            double least = INFINITY;
            for (uint32_t from = 0; from < classes; from++) {
                const double length = b->prefix[row - classes + from] + (double)change[(size_t)from * classes + to];
                least = length < least ? length : least;
            }
            b->prefix[row + to] = least + b->node[row + to];
        }
    }
}

/* A shortest path by the suffixes; returns its length. */
static double walk(const gal_stage *stage, const gal_stage_bound *b, const double *suffix, uint32_t *strategy)
{
    const uint32_t classes = stage->choices->instance->class_count;
    uint32_t at = 0;
    double total = 0.0;
    for (uint32_t l = stage->first; l < stage->end; l++) {
        const size_t row = (size_t)(l - stage->first) * classes;
        const int64_t *change = l == stage->first ? NULL : gal_stage_change(stage, l) + (size_t)at * classes;
        double least = INFINITY;
        for (uint32_t k = 0; k < classes; k++) {
            const double length = (change == NULL ? 0.0 : (double)change[k]) + b->node[row + k] + suffix[row + k];
            if (length < least) {
                least = length;
                at = k;
            }
        }
        total = l == stage->first ? least : total;
        strategy[l] = stage->choices->choice[b->pick[row + at]].strategy;
    }
    return total;
}

/* ---- better paths that fit ---- */

/* Every layer in turn takes the strategy that gains most and still fits. own[l - first]: peak of the layers from l on,
 * without what others hold. */
static bool swap_pass(const gal_stage *stage, gal_stage_bound *b, int64_t *own)
{
    const gal_menu *o = stage->choices;
    const gal_instance *g = o->instance;
    const size_t n = g->strategy_count;
    uint32_t *s = b->best;
    int64_t held = 0;
    int64_t forward = 0; /* of layers before l */
    int64_t peak = 0;
    bool gained = false;
    const int64_t factor = (int64_t)g->in_flight[o->stage] - 1;
    own[stage->end - stage->first] = 0;
    for (uint32_t l = stage->end; l-- > stage->first;) {
        const size_t cell = g->kind[l] * n + s[l];
        const int64_t behind = own[l + 1 - stage->first];
        held += g->state_bytes[cell] + factor * g->forward_bytes[cell];
        own[l - stage->first] =
            g->forward_bytes[cell] + (g->backward_bytes[cell] > behind ? g->backward_bytes[cell] : behind);
    }
    for (uint32_t l = stage->first; l < stage->end; l++) {
        const bool is_first = l == stage->first;
        const bool is_last = l + 1 == stage->end;
        const uint32_t *start = gal_stage_start(stage, l);
        const int64_t *in = g->change_ps + g->transition[g->kind[l]] * n * n;
        const int64_t *out = is_last ? NULL : g->change_ps + g->transition[g->kind[l + 1]] * n * n;
        const int64_t behind = own[l + 1 - stage->first];
        const size_t now = g->kind[l] * n + s[l];
        int64_t now_ps = g->seconds_ps[now] + gal_instance_edge_ps(g, o->stage, g->kind[l], s[l], is_first, is_last);
        now_ps += is_first ? 0 : in[s[l - 1] * n + s[l]];
        now_ps += is_last ? 0 : out[s[l] * n + s[l + 1]];
        held -= g->state_bytes[now] + factor * g->forward_bytes[now];
        int64_t least = now_ps;
        for (uint32_t c = start[0]; c < start[g->class_count]; c++) {
            const gal_choice *at = &o->choice[c];
            const int64_t worst = at->backward_bytes > behind ? at->backward_bytes : behind;
            const int64_t mine = forward + at->kept_bytes - at->held_bytes + worst;
            int64_t ps = at->seconds_ps + (is_first ? 0 : in[s[l - 1] * n + at->strategy]);
            ps += is_last ? 0 : out[at->strategy * n + s[l + 1]];
            if (ps < least && held + at->held_bytes + (mine > peak ? mine : peak) <= g->budget_bytes) {
                least = ps;
                s[l] = at->strategy;
            }
        }
        const size_t cell = g->kind[l] * n + s[l];
        b->best_ps -= now_ps - least;
        gained = gained || least < now_ps;
        held += g->state_bytes[cell] + factor * g->forward_bytes[cell];
        forward += g->forward_bytes[cell];
        peak = forward + g->backward_bytes[cell] > peak ? forward + g->backward_bytes[cell] : peak;
    }
    return gained;
}

/* The head of one path and the tail of the other, cut anywhere. */
static void cross(const gal_stage *stage, gal_stage_bound *b, uint32_t *mixed)
{
    for (uint32_t way = 0; way < 2; way++) {
        const uint32_t *head = b->path[way];
        const uint32_t *tail = b->path[1 - way];
        memcpy(mixed + stage->first, tail + stage->first, (stage->end - stage->first) * sizeof *mixed);
        for (uint32_t l = stage->first; l + 1 < stage->end; l++) {
            mixed[l] = head[l];
            if (head[l] != tail[l]) {
                gal_stage_offer(stage, b, mixed);
            }
        }
    }
}

/* ---- the multiplier ---- */

/* Tables and path of one multiplier. Until the last place is taken each keeps its own; then they share it. */
static path_cost try_multiplier(const gal_stage *stage, gal_stage_bound *b, double lambda, uint32_t *strategy)
{
    const gal_instance *g = stage->choices->instance;
    const bool has_room = b->multiplier_count < GAL_MULTIPLIERS_MAX;
    gal_multiplier *m = &b->multiplier[has_room ? b->multiplier_count++ : GAL_MULTIPLIERS_MAX - 1];
    m->lambda = lambda;
    price_nodes(stage, b, lambda);
    sum_suffixes(stage, b, m->suffix);
    const double length = walk(stage, b, m->suffix, strategy);
    m->bound = length - lambda * (double)g->budget_bytes;
    const double proven = m->bound - gal_multiplier_slack(m, g->budget_bytes, length);
    const int64_t whole = proven <= 0.0 ? 0 : (int64_t)ceil(proven);
    b->bound_ps = whole > b->bound_ps ? whole : b->bound_ps;
    gal_stage_offer(stage, b, strategy);
    return cost_of(stage, strategy);
}

static void raise_bound(const gal_stage *stage, gal_stage_bound *b, uint32_t *found)
{
    const int64_t budget = stage->choices->instance->budget_bytes;
    const size_t bytes = stage->end * sizeof *found;
    path_cost fits = cost_of(stage, b->path[0]);
    path_cost over = try_multiplier(stage, b, 0.0, b->path[1]);
    for (uint32_t step = 0; step < STEPS_MAX && over.kept_bytes > budget; step++) {
        const double lambda = (double)(fits.seconds_ps - over.seconds_ps) / (double)(over.kept_bytes - fits.kept_bytes);
        const path_cost next = try_multiplier(stage, b, lambda, found);
        const double line = (double)fits.seconds_ps + lambda * (double)fits.kept_bytes;
        if ((double)next.seconds_ps + lambda * (double)next.kept_bytes >= line * (1.0 - 1e-13)) {
            return;
        }
        memcpy(b->path[next.kept_bytes > budget], found, bytes);
        *(next.kept_bytes > budget ? &over : &fits) = next;
    }
}

static void best_multiplier_first(gal_stage_bound *b)
{
    for (uint32_t i = 1; i < b->multiplier_count; i++) {
        if (b->multiplier[i].bound > b->multiplier[0].bound) {
            const gal_multiplier swap = b->multiplier[0];
            b->multiplier[0] = b->multiplier[i];
            b->multiplier[i] = swap;
        }
    }
}

static bool allocate(const gal_stage *stage, gal_stage_bound *b)
{
    const size_t cells = (size_t)(stage->end - stage->first) * stage->choices->instance->class_count;
    bool good = true;
    for (uint32_t i = 0; i < GAL_MULTIPLIERS_MAX; i++) {
        b->multiplier[i].suffix = calloc(cells, sizeof *b->multiplier[i].suffix);
        good = good && b->multiplier[i].suffix != NULL;
    }
    b->prefix = calloc(cells, sizeof *b->prefix);
    b->node = calloc(cells, sizeof *b->node);
    b->pick = calloc(cells, sizeof *b->pick);
    b->best = calloc(stage->end, sizeof *b->best);
    b->path[0] = calloc(stage->end, sizeof *b->path[0]);
    b->path[1] = calloc(stage->end, sizeof *b->path[1]);
    return good && b->prefix != NULL && b->node != NULL && b->pick != NULL && b->best != NULL && b->path[0] != NULL &&
           b->path[1] != NULL;
}

gal_code gal_stage_bound_create(const gal_stage *stage, gal_stage_bound *b, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t *scratch = calloc(stage->end, sizeof *scratch);
    int64_t *own = calloc((size_t)stage->end + 1, sizeof *own);
    *b = (gal_stage_bound){.best_ps = GAL_NEVER};
    if (!allocate(stage, b) || scratch == NULL || own == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    smallest_path(stage, b->path[0]);
    if (cost_of(stage, b->path[0]).kept_bytes > stage->choices->instance->budget_bytes) {
        b->bound_ps = GAL_NEVER;
        goto cleanup;
    }
    gal_stage_offer(stage, b, b->path[0]);
    raise_bound(stage, b, scratch);
    best_multiplier_first(b);
    price_nodes(stage, b, b->multiplier[0].lambda);
    sum_prefixes(stage, b);
    if (b->best_ps > b->bound_ps) {
        cross(stage, b, scratch);
    }
    for (uint32_t pass = 0; pass < SWAP_PASSES && b->best_ps != GAL_NEVER && b->best_ps > b->bound_ps; pass++) {
        if (!swap_pass(stage, b, own)) {
            break;
        }
    }
cleanup:
    free(scratch);
    free(own);
    if (code != GAL_OK) {
        gal_stage_bound_free(b);
    }
    return code;
}

void gal_stage_bound_free(gal_stage_bound *b)
{
    for (uint32_t i = 0; i < GAL_MULTIPLIERS_MAX; i++) {
        free(b->multiplier[i].suffix);
    }
    free(b->prefix);
    free(b->node);
    free(b->pick);
    free(b->best);
    free(b->path[0]);
    free(b->path[1]);
    *b = (gal_stage_bound){.best_ps = GAL_NEVER};
}
