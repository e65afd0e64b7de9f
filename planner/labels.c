#include "planner/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct label {
    gal_chain chain;
    double weighted;   /* seconds so far under the dual's weights */
    double bound;      /* weighted + to_go + constant */
    uint32_t parent;   /* index in the block before */
    uint32_t stage, strategy;
} label;

typedef struct layer { /* the labels at one block */
    label *label;
    uint32_t count, capacity;
} layer;

typedef struct search {
    const gal_dual *dual;
    const gal_cell *cell;
    layer *layer; /* [block] */
    double best;
    uint32_t limit;
    gal_label_result result;
    bool out_of_memory;
} search;

/* What two labels at one node can differ by at most, after any equal completion: a is never slower than b if <= 0. */
static double slower_by(const gal_chain *a, const gal_chain *b, uint32_t microbatch_count)
{
    double additive = (a->additive + a->stage_round) - (b->additive + b->stage_round);
    double slowest = fmax(a->slowest - b->slowest, a->stage_round - b->stage_round);
    double exposed = fmax(a->exposed - b->exposed, (a->stage_tail - a->drained) - (b->stage_tail - b->drained));
    exposed = fmax(exposed, (b->drained + b->stage_backward) - (a->drained + a->stage_backward));
    double update = fmax(a->update - b->update, a->stage_update - b->stage_update);
    return additive + (microbatch_count - 1) * fmax(slowest, 0.0) + fmax(exposed, 0.0) + fmax(update, 0.0);
}

static int64_t over(uint64_t a, uint64_t b)
{
    return a > b ? (int64_t)(a - b) : 0;
}

/* Likewise in bytes of the open stage. */
static int64_t larger_by(const gal_chain *a, const gal_chain *b)
{
    return a->bytes - b->bytes + over(a->gathered, b->gathered) + over(a->bucket, b->bucket) +
           over(a->boundary, b->boundary) + over(a->scratch, b->scratch) + over(a->relayout, b->relayout) +
           over(a->work, b->work);
}

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

static void remove_dominated(search *s, layer *at)
{
    uint32_t microbatches = s->cell->spec.microbatch_count;
    uint32_t kept = 0;
    uint32_t first = 0; /* of this node among the kept */
    qsort(at->label, at->count, sizeof at->label[0], by_node_and_bound);
    for (uint32_t i = 0; i < at->count; i++) {
        const label candidate = at->label[i];
        bool new_node = kept == 0 || at->label[kept - 1].stage != candidate.stage ||
                        at->label[kept - 1].strategy != candidate.strategy;
        bool dominated = false;
        first = new_node ? kept : first;
        for (uint32_t j = first; j < kept && !dominated; j++) {
            dominated = slower_by(&at->label[j].chain, &candidate.chain, microbatches) <= 0.0 &&
                        larger_by(&at->label[j].chain, &candidate.chain) <= 0;
        }
        if (!dominated) {
            at->label[kept++] = candidate;
        }
    }
    at->count = kept;
}

static void limit_room(search *s, layer *at)
{
    if (at->count <= s->limit) {
        return;
    }
    qsort(at->label, at->count, sizeof at->label[0], by_bound);
    s->result.dropped_bound = fmin(s->result.dropped_bound, at->label[s->limit].bound);
    at->count = s->limit;
}

static void push(search *s, layer *to, const label *candidate)
{
    if (candidate->bound >= s->best * (1.0 - 1e-12)) {
        return;
    }
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
    if (to->count > 4 * s->limit) {
        remove_dominated(s, to);
        limit_room(s, to);
    }
}

static void extend(search *s, uint32_t block, const label *from, uint32_t parent, uint32_t stage, uint32_t strategy)
{
    const gal_cell *cell = s->cell;
    double rest = s->dual->to_go[gal_dual_node(cell, block, stage, strategy)];
    label next = *from;
    gal_cell_step step;
    if (rest == HUGE_VAL) {
        return;
    }
    if (stage == from->stage) {
        gal_cell_follow(cell, block, stage, from->strategy, strategy, &step);
    } else {
        if (!gal_chain_close(&next.chain, cell, block - 1, from->stage, from->strategy)) {
            return;
        }
        next.chain.bytes = 0;
        next.weighted += gal_dual_close_seconds(s->dual, block - 1, from->stage, from->strategy);
        gal_cell_cross(cell, block, stage, from->strategy, strategy, &step);
    }
    gal_chain_add(&next.chain, cell, block, stage, strategy, &step);
    if (gal_chain_bytes(&next.chain) > (int64_t)cell->spec.arena_limit_bytes) {
        return;
    }
    next.weighted += gal_dual_step_seconds(s->dual, stage, &step);
    next.bound = next.weighted + rest + gal_dual_constant(s->dual);
    next.parent = parent;
    next.stage = stage;
    next.strategy = strategy;
    push(s, &s->layer[block], &next);
}

static void start(search *s)
{
    for (uint32_t strategy = 0; strategy < s->cell->strategy_count; strategy++) {
        double rest = s->dual->to_go[gal_dual_node(s->cell, 0, 0, strategy)];
        label first;
        gal_cell_step step;
        if (rest == HUGE_VAL) {
            continue;
        }
        memset(&first, 0, sizeof first);
        gal_cell_start(s->cell, strategy, &step);
        gal_chain_add(&first.chain, s->cell, 0, 0, strategy, &step);
        first.weighted = gal_dual_step_seconds(s->dual, 0, &step);
        first.bound = first.weighted + rest + gal_dual_constant(s->dual);
        first.strategy = strategy;
        push(s, &s->layer[0], &first);
    }
}

static void finish(search *s, uint32_t *best_stage, uint32_t *best_strategy)
{
    uint32_t last = s->cell->block_count - 1;
    const layer *end = &s->layer[last];
    uint32_t winner = UINT32_MAX;
    for (uint32_t i = 0; i < end->count; i++) {
        gal_chain chain = end->label[i].chain;
        if (gal_chain_close(&chain, s->cell, last, end->label[i].stage, end->label[i].strategy)) {
            double seconds = gal_chain_seconds(&chain, s->cell);
            if (seconds < s->best) {
                s->best = seconds;
                winner = i;
            }
        }
    }
    for (uint32_t block = last; winner != UINT32_MAX; block--) {
        const label *at = &s->layer[block].label[winner];
        best_stage[block] = at->stage;
        best_strategy[block] = at->strategy;
        winner = block == 0 ? UINT32_MAX : at->parent;
    }
}

gal_code gal_label_search(const gal_dual *dual, uint32_t label_limit, double *best_seconds, uint32_t *best_stage,
                          uint32_t *best_strategy, gal_label_result *out, gal_error *err)
{
    const gal_cell *cell = dual->cell;
    search s = {.dual = dual, .cell = cell, .best = *best_seconds, .limit = label_limit};
    s.result.dropped_bound = HUGE_VAL;
    s.layer = calloc(cell->block_count, sizeof *s.layer);
    s.out_of_memory = s.layer == NULL;
    if (!s.out_of_memory) {
        start(&s);
    }
    for (uint32_t block = 1; block < cell->block_count && !s.out_of_memory; block++) {
        layer *from = &s.layer[block - 1];
        remove_dominated(&s, from);
        limit_room(&s, from);
        s.result.label_count += from->count;
        for (uint32_t i = 0; i < from->count; i++) {
            uint32_t stage = from->label[i].stage;
            for (uint32_t strategy = 0; strategy < cell->strategy_count; strategy++) {
                extend(&s, block, &from->label[i], i, stage, strategy);
                if (stage + 1 < cell->spec.pp_degree) {
                    extend(&s, block, &from->label[i], i, stage + 1, strategy);
                }
            }
        }
    }
    if (!s.out_of_memory) {
        finish(&s, best_stage, best_strategy);
        *best_seconds = s.best;
        *out = s.result;
    }
    for (uint32_t i = 0; s.layer != NULL && i < cell->block_count; i++) {
        free(s.layer[i].label);
    }
    free(s.layer);
    return s.out_of_memory ? gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search") : GAL_OK;
}
