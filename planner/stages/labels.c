#include "planner/stages/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/outlook.h"
#include "planner/bound/room.h"

typedef struct label {
    gal_path path;
    double weighted; /* seconds so far under the dual's weights */
    double bound;    /* weighted + to_go + constant */
    uint32_t parent; /* index in the block before */
    uint32_t stage, strategy;
    bool ample; /* its open stage fits whatever follows */
} label;

typedef struct layer { /* the labels at one block, by node, then by bound */
    label *label;
    uint32_t count, capacity;
} layer;

/* What is left of a label when the next block has been reached. */
typedef struct trace {
    uint32_t parent, stage, strategy;
} trace;

/* A label that may become one. */
typedef struct candidate {
    double bound, weighted;
    uint32_t parent;
} candidate;

typedef struct search {
    gal_dual *dual;
    const gal_cell *cell;
    gal_label_settings settings;
    layer from, to;
    trace **trace; /* [block] */
    candidate *candidate;
    uint32_t candidate_capacity;
    double best;
    double useful; /* a label whose bound reaches this is of no use */
    gal_room room;
    gal_outlook outlook;
    gal_label_result result;
    bool out_of_memory, stopped;
} search;

static bool goes_on(const search *s)
{
    return !s->out_of_memory && !s->stopped;
}

/* ---- the labels of a block ---- */

static int by_bound(const void *x, const void *y)
{
    const label *a = x;
    const label *b = y;
    if (a->bound != b->bound) {
        return a->bound < b->bound ? -1 : 1;
    }
    if (a->stage != b->stage) {
        return a->stage < b->stage ? -1 : 1;
    }
    if (a->strategy != b->strategy) {
        return a->strategy < b->strategy ? -1 : 1;
    }
    return a->parent < b->parent ? -1 : a->parent > b->parent;
}

static void stop(search *s)
{
    s->result.bound = s->dual->bound;
    s->stopped = true;
}

/* Between two nodes of a block, when more than `most` labels are there. */
static void limit_labels(search *s, uint32_t most)
{
    const uint32_t limit = s->settings.label_limit;
    if (s->to.count <= most) {
        return;
    }
    if (s->settings.stop_at_limit) {
        stop(s);
        return;
    }
    qsort(s->to.label, s->to.count, sizeof s->to.label[0], by_bound);
    s->result.bound = fmin(s->result.bound, s->to.label[limit].bound);
    s->to.count = limit;
}

static bool is_dominated(search *s, uint32_t block, uint32_t first, const label *l)
{
    const size_t node = gal_dual_node(s->cell, block, l->stage, l->strategy);
    for (uint32_t i = first; i < s->to.count && !s->settings.keep_dominated; i++) {
        const label *kept = &s->to.label[i];
        s->dual->work++;
        if ((kept->ample || gal_room_larger_by(&s->room, block, l->stage, &kept->path, &l->path) <= 0) &&
            (s->settings.any_path || gal_room_slower_by(&s->room, node, l->stage, &kept->path, &l->path) <= 0.0)) {
            return true;
        }
    }
    return false;
}

/* Keeps a label unless it cannot fit, is too slow, or one of the same node, from index `first` on, dominates it. */
static void keep(search *s, uint32_t block, uint32_t first, label *l)
{
    s->dual->work += s->outlook.view_count + s->cell->block_count;
    if (gal_path_bytes(&l->path) > (int64_t)s->cell->spec.arena_limit_bytes ||
        (!s->settings.any_path &&
         gal_outlook_reaches(&s->outlook, block, l->stage, l->strategy, &l->path, s->useful)) ||
        is_dominated(s, block, first, l)) {
        return;
    }
    l->ample = gal_room_is_ample(&s->room, block, l->stage, &l->path);
    if (s->to.count == s->to.capacity) {
        const uint32_t wanted = s->to.capacity == 0 ? 256 : s->to.capacity * 2;
        label *grown = realloc(s->to.label, wanted * sizeof *grown);
        if (grown == NULL) {
            s->out_of_memory = true;
            return;
        }
        s->to.label = grown;
        s->to.capacity = wanted;
    }
    s->to.label[s->to.count++] = *l;
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
        if (first.bound < s->useful) {
            gal_cell_start(s->cell, strategy, &step);
            gal_path_add(&first.path, &step);
            keep(s, 0, s->to.count, &first);
        }
    }
}

/* ---- from block to block ---- */

static int by_candidate_bound(const void *x, const void *y)
{
    const candidate *a = x;
    const candidate *b = y;
    if (a->bound != b->bound) {
        return a->bound < b->bound ? -1 : 1;
    }
    return a->parent < b->parent ? -1 : a->parent > b->parent;
}

/* All ways to a node whose bound is useful, best first; returns their number. */
static uint32_t list_candidates(search *s, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const gal_dual *dual = s->dual;
    const double behind = dual->to_go[gal_dual_node(s->cell, block, stage, strategy)] + dual->constant;
    const bool enters = gal_dual_crosses(dual, block, stage);
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->from.count; i++) {
        const label *from = &s->from.label[i];
        const bool crosses = from->stage != stage;
        if (crosses && !(enters && from->stage + 1 == stage)) {
            continue;
        }
        const size_t edge = gal_cell_pair_index(s->cell, block, stage, from->strategy, strategy);
        const double weighted = from->weighted + (crosses ? dual->cross : dual->follow)[edge];
        if (weighted + behind < s->useful) {
            s->candidate[count++] = (candidate){weighted + behind, weighted, i};
        }
    }
    qsort(s->candidate, count, sizeof s->candidate[0], by_candidate_bound);
    s->dual->work += s->from.count + 4 * count;
    return count;
}

/* False if the stage that it closes does not fit. */
static bool extend(const search *s, uint32_t block, const candidate *c, label *next)
{
    const label *from = &s->from.label[c->parent];
    gal_cell_step step;
    next->path = from->path;
    next->weighted = c->weighted;
    next->bound = c->bound;
    next->parent = c->parent;
    if (from->stage == next->stage) {
        gal_cell_follow(s->cell, block, next->stage, from->strategy, next->strategy, &step);
    } else {
        gal_cell_close(s->cell, block - 1, from->stage, from->strategy, &step);
        if (!gal_path_close(&next->path, s->cell, &step)) {
            return false;
        }
        next->path.bytes = 0;
        next->path.shared = s->dual->least[next->stage];
        gal_cell_cross(s->cell, block, next->stage, from->strategy, next->strategy, &step);
    }
    gal_path_add(&next->path, &step);
    return true;
}

static void reach_node(search *s, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const uint32_t first = s->to.count;
    const uint32_t count = list_candidates(s, block, stage, strategy);
    if (s->dual->work > s->settings.work_limit) {
        stop(s);
    }
    for (uint32_t i = 0; i < count && goes_on(s); i++) {
        label next = {.stage = stage, .strategy = strategy};
        if (extend(s, block, &s->candidate[i], &next)) {
            keep(s, block, first, &next);
        }
    }
}

static bool make_room_for_candidates(search *s)
{
    if (s->from.count > s->candidate_capacity) {
        candidate *grown = realloc(s->candidate, s->from.count * sizeof *grown);
        s->out_of_memory = grown == NULL;
        s->candidate = grown == NULL ? s->candidate : grown;
        s->candidate_capacity = grown == NULL ? s->candidate_capacity : s->from.count;
    }
    return !s->out_of_memory;
}

/* The labels at `block` from those at the block before. */
static void advance(search *s, uint32_t block)
{
    const layer last = s->from;
    s->from = s->to;
    s->to = last;
    s->to.count = 0;
    if (s->from.count == 0 || !make_room_for_candidates(s)) {
        return;
    }
    for (uint32_t stage = 0; stage < s->cell->spec.pp_degree; stage++) {
        const uint32_t *strategy;
        const uint32_t count = gal_dual_choices(s->dual, block, stage, &strategy);
        for (uint32_t i = 0; i < count && goes_on(s); i++) {
            reach_node(s, block, stage, strategy[i]);
            limit_labels(s, (s->settings.stop_at_limit ? 1 : 4) * s->settings.label_limit);
        }
    }
}

static void leave_trace(search *s, uint32_t block)
{
    limit_labels(s, s->settings.label_limit);
    s->result.label_count += s->to.count;
    s->trace[block] = malloc((s->to.count + 1) * sizeof *s->trace[block]);
    if (s->trace[block] == NULL) {
        s->out_of_memory = true;
        return;
    }
    for (uint32_t i = 0; i < s->to.count; i++) {
        s->trace[block][i] = (trace){s->to.label[i].parent, s->to.label[i].stage, s->to.label[i].strategy};
    }
}

static void finish(search *s, gal_best_path *best)
{
    const uint32_t last = s->cell->block_count - 1;
    uint32_t winner = UINT32_MAX;
    for (uint32_t i = 0; i < s->to.count; i++) {
        const label *l = &s->to.label[i];
        gal_path path = l->path;
        gal_cell_step step;
        gal_cell_close(s->cell, last, l->stage, l->strategy, &step);
        if (gal_path_close(&path, s->cell, &step) && gal_path_seconds(&path, s->cell) < s->best) {
            s->best = gal_path_seconds(&path, s->cell);
            winner = i;
        }
    }
    if (winner == UINT32_MAX) {
        return;
    }
    best->seconds = s->best;
    for (uint32_t block = last + 1; block-- > 0;) {
        best->stage[block] = s->trace[block][winner].stage;
        best->strategy[block] = s->trace[block][winner].strategy;
        winner = s->trace[block][winner].parent;
    }
}

gal_code gal_label_search(gal_dual *dual, const gal_label_settings *settings, gal_best_path *best,
                          gal_label_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell *cell = dual->cell;
    const double reach = settings->reach_seconds;
    search s = {.dual = dual,
                .cell = cell,
                .settings = *settings,
                .best = fmin(fmin(best->seconds, reach), dual->most_seconds),
                .result.bound = reach < best->seconds ? reach : HUGE_VAL};
    s.trace = calloc(cell->block_count, sizeof *s.trace);
    if (s.trace == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    s.useful = settings->any_path ? 1e-9 * (double)cell->spec.arena_limit_bytes : s.best * (1.0 - 1e-12);
    GAL_TRY(gal_room_create(dual, settings->any_path ? HUGE_VAL : s.best, &s.room, err));
    GAL_TRY(gal_outlook_create(dual, &s.outlook, err));
    start(&s);
    leave_trace(&s, 0);
    for (uint32_t block = 1; block < cell->block_count && goes_on(&s); block++) {
        advance(&s, block);
        leave_trace(&s, block);
    }
    if (s.out_of_memory) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    if (!s.stopped) {
        finish(&s, best);
    }
    *out = s.result;
cleanup:
    for (uint32_t i = 0; s.trace != NULL && i < cell->block_count; i++) {
        free(s.trace[i]);
    }
    free(s.trace);
    free(s.candidate);
    free(s.from.label);
    free(s.to.label);
    gal_outlook_free(&s.outlook);
    gal_room_free(&s.room);
    return code;
}
