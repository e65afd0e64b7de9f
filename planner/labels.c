#include "planner/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/outlook.h"
#include "planner/room.h"

enum { PRUNE_FIRST = 8192 }; /* labels of a block before they are pruned the first time */

typedef struct label {
    gal_path path;
    double weighted; /* seconds so far under the dual's weights */
    double bound;    /* weighted + to_go + constant */
    uint32_t parent; /* index in the block before */
    uint32_t stage, strategy;
    bool ample; /* its open stage fits whatever follows */
} label;

typedef struct layer { /* the labels at one block */
    label *label;
    uint32_t count, capacity;
    uint32_t prune_at;
} layer;

typedef struct search {
    const gal_dual *dual;
    const gal_cell *cell;
    layer *layer; /* [block] */
    double best;
    gal_label_settings settings;
    gal_room room;
    gal_outlook outlook;
    gal_label_result result;
    bool out_of_memory;
} search;

static int by_node_and_bound(const void *x, const void *y)
{
    const label *a = x;
    const label *b = y;
    if (a->stage != b->stage) {
        return a->stage < b->stage ? -1 : 1;
    }
    if (a->strategy != b->strategy) {
        return a->strategy < b->strategy ? -1 : 1;
    }
    if (a->bound != b->bound) {
        return a->bound < b->bound ? -1 : 1;
    }
    return a->parent < b->parent ? -1 : a->parent > b->parent;
}

static int by_bound(const void *x, const void *y)
{
    const label *a = x;
    const label *b = y;
    if (a->bound != b->bound) {
        return a->bound < b->bound ? -1 : 1;
    }
    return by_node_and_bound(x, y);
}

static bool dominates(const search *s, uint32_t block, const label *a, const label *b)
{
    const size_t node = gal_dual_node(s->cell, block, a->stage, a->strategy);
    return (a->ample || gal_room_larger_by(&s->room, block, a->stage, &a->path, &b->path) <= 0) &&
           gal_room_slower_by(&s->room, node, a->stage, &a->path, &b->path) <= 0.0;
}

static void remove_dominated(search *s, layer *at)
{
    const uint32_t block = (uint32_t)(at - s->layer);
    uint32_t kept = 0;
    uint32_t first = 0; /* of this node among the kept */
    if (at->count == 0 || s->settings.keep_dominated) {
        return;
    }
    qsort(at->label, at->count, sizeof at->label[0], by_node_and_bound);
    for (uint32_t i = 0; i < at->count; i++) {
        const label candidate = at->label[i];
        bool new_node = kept == 0 || at->label[kept - 1].stage != candidate.stage ||
                        at->label[kept - 1].strategy != candidate.strategy;
        bool dominated = false;
        first = new_node ? kept : first;
        for (uint32_t j = first; j < kept && !dominated; j++) {
            dominated = dominates(s, block, &at->label[j], &candidate);
        }
        if (!dominated) {
            at->label[kept++] = candidate;
        }
    }
    at->count = kept;
}

static void limit_room(search *s, layer *at)
{
    if (at->count <= s->settings.label_limit) {
        return;
    }
    qsort(at->label, at->count, sizeof at->label[0], by_bound);
    s->result.dropped_bound = fmin(s->result.dropped_bound, at->label[s->settings.label_limit].bound);
    at->count = s->settings.label_limit;
}

static double slowest_useful(const search *s)
{
    return s->best * (1.0 - 1e-12);
}

static void push(search *s, layer *to, const label *candidate)
{
    if (to->count == to->capacity) {
        uint32_t wanted = to->capacity == 0 ? 256 : to->capacity * 2;
        label *grown = realloc(to->label, wanted * sizeof *grown);
        if (grown == NULL) {
            s->out_of_memory = true;
            return;
        }
        to->label = grown;
        to->capacity = wanted;
    }
    to->label[to->count++] = *candidate;
    if (to->count >= to->prune_at) {
        remove_dominated(s, to);
        limit_room(s, to);
        to->prune_at = to->count < PRUNE_FIRST / 2 ? PRUNE_FIRST : 2 * to->count;
    }
}

static void extend(search *s, uint32_t block, const label *from, uint32_t parent, uint32_t stage, uint32_t strategy)
{
    const gal_cell *cell = s->cell;
    const gal_dual *dual = s->dual;
    const bool crosses = stage != from->stage;
    const size_t edge = gal_cell_pair_index(cell, block, stage, from->strategy, strategy);
    const double seconds = from->weighted + (crosses ? dual->cross : dual->follow)[edge];
    const double bound = seconds + dual->to_go[gal_dual_node(cell, block, stage, strategy)] + dual->constant;
    if (bound == HUGE_VAL || bound >= slowest_useful(s)) {
        return;
    }
    label next = *from;
    gal_cell_step step;
    if (crosses) {
        gal_cell_close(cell, block - 1, from->stage, from->strategy, &step);
        if (!gal_path_close(&next.path, cell, &step)) {
            return;
        }
        next.path.bytes = 0;
        next.path.shared = dual->least[stage];
        gal_cell_cross(cell, block, stage, from->strategy, strategy, &step);
    } else {
        gal_cell_follow(cell, block, stage, from->strategy, strategy, &step);
    }
    gal_path_add(&next.path, &step);
    if (gal_path_bytes(&next.path) <= (int64_t)cell->spec.arena_limit_bytes &&
        !gal_outlook_reaches(&s->outlook, block, stage, strategy, &next.path, slowest_useful(s))) {
        next.weighted = seconds;
        next.bound = bound;
        next.parent = parent;
        next.stage = stage;
        next.strategy = strategy;
        next.ample = gal_room_is_ample(&s->room, block, stage, &next.path);
        push(s, &s->layer[block], &next);
    }
}

static void start(search *s)
{
    for (uint32_t strategy = 0; strategy < s->cell->strategy_count; strategy++) {
        const double seconds = s->dual->start[strategy];
        label first = {.weighted = seconds, .strategy = strategy, .path.shared = s->dual->least[0]};
        gal_cell_step step;
        if (seconds == HUGE_VAL) {
            continue;
        }
        first.bound = seconds + s->dual->to_go[gal_dual_node(s->cell, 0, 0, strategy)] + s->dual->constant;
        if (first.bound >= slowest_useful(s)) {
            continue;
        }
        gal_cell_start(s->cell, strategy, &step);
        gal_path_add(&first.path, &step);
        if (gal_path_bytes(&first.path) <= (int64_t)s->cell->spec.arena_limit_bytes) {
            push(s, &s->layer[0], &first);
        }
    }
}

static bool finish(search *s, gal_best_path *best)
{
    uint32_t last = s->cell->block_count - 1;
    const layer *end = &s->layer[last];
    uint32_t winner = UINT32_MAX;
    for (uint32_t i = 0; i < end->count; i++) {
        gal_path path = end->label[i].path;
        gal_cell_step step;
        gal_cell_close(s->cell, last, end->label[i].stage, end->label[i].strategy, &step);
        if (gal_path_close(&path, s->cell, &step)) {
            double seconds = gal_path_seconds(&path, s->cell);
            if (seconds < s->best) {
                s->best = seconds;
                winner = i;
            }
        }
    }
    const bool found = winner != UINT32_MAX;
    for (uint32_t block = last; winner != UINT32_MAX; block--) {
        const label *at = &s->layer[block].label[winner];
        best->stage[block] = at->stage;
        best->strategy[block] = at->strategy;
        winner = block == 0 ? UINT32_MAX : at->parent;
    }
    return found;
}

/* All labels at a block from those at the block before. */
static void advance(search *s, uint32_t block)
{
    const gal_cell *cell = s->cell;
    layer *from = &s->layer[block - 1];
    remove_dominated(s, from);
    limit_room(s, from);
    s->result.label_count += from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        const uint32_t stage = from->label[i].stage;
        for (uint32_t to = stage; to <= stage + 1 && to < cell->spec.pp_degree; to++) {
            const uint32_t *strategy;
            const uint32_t count = gal_dual_choices(s->dual, block, to, &strategy);
            for (uint32_t j = 0; j < count; j++) {
                extend(s, block, &from->label[i], i, to, strategy[j]);
            }
        }
    }
}

gal_code gal_label_search(gal_dual *dual, const gal_label_settings *settings, gal_best_path *best,
                          gal_label_result *out, gal_error *err)
{
    const gal_cell *cell = dual->cell;
    search s = {.dual = dual, .cell = cell, .best = fmin(best->seconds, dual->most_seconds), .settings = *settings};
    s.result.dropped_bound = HUGE_VAL;
    s.layer = calloc(cell->block_count, sizeof *s.layer);
    s.out_of_memory = s.layer == NULL;
    for (uint32_t i = 0; s.layer != NULL && i < cell->block_count; i++) {
        s.layer[i].prune_at = PRUNE_FIRST;
    }
    if (!s.out_of_memory) {
        s.out_of_memory = gal_room_create(dual, s.best, &s.room, err) != GAL_OK ||
                          gal_outlook_create(dual, &s.outlook, err) != GAL_OK;
    }
    if (!s.out_of_memory) {
        start(&s);
    }
    for (uint32_t block = 1; block < cell->block_count && !s.out_of_memory; block++) {
        advance(&s, block);
    }
    if (!s.out_of_memory) {
        if (finish(&s, best)) {
            best->seconds = s.best;
        }
        *out = s.result;
    }
    for (uint32_t i = 0; s.layer != NULL && i < cell->block_count; i++) {
        free(s.layer[i].label);
    }
    free(s.layer);
    gal_outlook_free(&s.outlook);
    gal_room_free(&s.room);
    return s.out_of_memory ? gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search") : GAL_OK;
}
