#include "planner/search/host_chains.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/screened.h"
#include "schemas/base/heap.h"

/* ROUNDS: of the dual. With more strategies that may be in a faster plan a cell is not solved. WORK_PER_LABEL: labels
 * compared, of each that the limit allows. */
enum { ROUNDS = 120, STRATEGIES_MAX = 256, FIRST_LABELS = 256, WORK_PER_LABEL = 500 };
static const double rounding = 1e-12;

/* A share on storage of a block under a strategy in a stage. */
typedef struct share {
    gal_price_share of;
    double update_seconds, excess_seconds; /* true; charged, above the share of least charge */
    uint64_t state, staged, stored;        /* bytes */
    uint64_t kept_stored;                  /* of a microbatch in flight, likewise */
    gal_stored_parts parts;
} share;

/* Of a place in the cell's tables; count 0: not read yet. */
typedef struct share_list {
    share *share;
    uint32_t count;
} share_list;

typedef struct label {
    gal_path path;                  /* by true prices */
    uint64_t state, staged, stored; /* of the open stage */
    gal_stored_parts parts;         /* its largest */
    double weighted;                /* charged */
    uint32_t parent, stage, strategy, share;
    uint32_t first, table_share; /* where the token table is of several: the embedding's, and its rank_of */
} label;

/* The labels at one block, those of a node behind each other. */
typedef struct layer {
    label *label;
    uint32_t count, room;
} layer;

typedef struct search {
    const gal_host_chains *task;
    gal_cell *plain, *charged; /* of the same strategies */
    gal_dual *dual;            /* of the charged one */
    gal_heap heap;
    share_list *shares; /* gal_cell_price_index */
    layer *layer;       /* [block] */
    double cutoff;      /* charged seconds that are of no use */
    bool storage_binds; /* some choice takes more of it than there is */
    uint64_t work;
    bool stopped;
    gal_error *err;
} search;

/* ---- shares ---- */

static gal_price_query query_of(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return (gal_price_query){.type = cell->types.shape[cell->types.type_of[block]].type,
                             .strategy = &cell->strategy[strategy],
                             .device_count = cell->stage_devices,
                             .stage = stage,
                             .stage_count = cell->spec.pp_degree,
                             .microbatch_samples = cell->samples,
                             .prefetch_depth = cell->spec.prefetch_depth};
}

/* In the order of gal_price_shares. */
static uint32_t rank_of(const gal_price_share *at)
{
    return (at->masters ? GAL_PRICE_SHARES_MAX : 0) + at->percent;
}

/* own: of the strategy itself. */
static share share_of(const search *s, const gal_block_price *own, const gal_price_share *at, bool borrows)
{
    const gal_block_price *price = at->price;
    const gal_block_host *host = &price->memory->host;
    double update = price->update_seconds;
    for (uint32_t i = 0; i < GAL_SHARED_COUNT; i++) {
        update -= i != GAL_SHARED_TABLE || borrows ? price->shared_update_seconds[i] : 0.0;
    }
    share out = {.of = *at,
                 .update_seconds = rint(update / s->plain->unit_seconds) * s->plain->unit_seconds,
                 .state = host->state - (borrows ? host->table_state : 0),
                 .staged = own->memory->host.kept,
                 .stored = host->stored - (borrows ? host->table_stored : 0),
                 .kept_stored = own->memory->host.kept_stored,
                 .parts = host->parts};
    out.parts.kept = own->memory->host.parts.kept;
    out.excess_seconds = update + s->task->charge.host_seconds_per_byte * (double)(out.state + out.staged);
    return out;
}

/* Into a list in the order of ranks what it lacks of another one. */
static void join(gal_price_share *list, uint32_t *count, const gal_price_share *other, uint32_t other_count)
{
    for (uint32_t i = 0; i < other_count; i++) {
        uint32_t at = 0;
        while (at < *count && rank_of(&list[at]) < rank_of(&other[i])) {
            at++;
        }
        if (at == *count || rank_of(&list[at]) != rank_of(&other[i])) {
            memmove(&list[at + 1], &list[at], (*count - at) * sizeof *list);
            list[at] = other[i];
            (*count)++;
        }
    }
}

/* Of a block by itself; a holder of a token table of several, which have one share, changes where any of them does. */
static gal_code list_shares(search *s, uint32_t block, const gal_price_query *query, gal_price_share *out,
                            uint32_t *count)
{
    gal_code code = GAL_OK;
    const gal_block_types *types = &s->plain->types;
    gal_price_cache *cache = s->task->spec->cache;
    const bool masters = s->task->charge.masters;
    GAL_TRY(gal_price_shares(cache, query, masters, out, count, s->err));
    for (uint32_t type = 0; gal_cell_holds_table(s->plain, block) && type < types->type_count; type++) {
        gal_price_share other[GAL_PRICE_SHARES_MAX];
        uint32_t other_count = 0;
        gal_price_query of_type = *query;
        of_type.type = types->shape[type].type;
        if (gal_cell_holds_table(s->plain, types->type_first[type]) && types->type_of[block] != type) {
            GAL_TRY(gal_price_shares(cache, &of_type, masters, other, &other_count, s->err));
            join(out, count, other, other_count);
        }
    }
    for (uint32_t i = 0; i < *count; i++) {
        GAL_TRY(gal_price_share_of(cache, query, &out[i], s->err));
    }
cleanup:
    return code;
}

static gal_code read_shares(search *s, uint32_t block, uint32_t stage, uint32_t strategy, share_list *out)
{
    gal_code code = GAL_OK;
    gal_price_share at[GAL_PRICE_SHARES_MAX];
    uint32_t count = 1;
    double least = HUGE_VAL;
    const gal_block_price *own = gal_cell_price(s->plain, block, stage, strategy);
    const gal_price_query query = query_of(s->plain, block, stage, strategy);
    const bool borrows = gal_cell_borrows_table(s->plain, block, stage);
    at[0] = (gal_price_share){.percent = query.strategy->offload_storage_percent, .price = own};
    if (s->task->charge.storage) {
        GAL_TRY(list_shares(s, block, &query, at, &count));
    }
    out->share = gal_heap_take(&s->heap, count, sizeof *out->share);
    GAL_TRY(s->heap.code);
    for (uint32_t i = 0; i < count; i++) {
        out->share[i] = share_of(s, own, &at[i], borrows);
        least = fmin(least, out->share[i].excess_seconds);
    }
    for (uint32_t i = 0; i < count; i++) {
        out->share[i].excess_seconds -= least;
    }
    out->count = count;
cleanup:
    return code;
}

static gal_code shares_at(search *s, uint32_t block, uint32_t stage, uint32_t strategy, const share_list **out)
{
    share_list *at = &s->shares[gal_cell_price_index(s->plain, block, stage, strategy)];
    *out = at;
    return at->count > 0 ? GAL_OK : read_shares(s, block, stage, strategy, at);
}

/* On storage, in a stage. */
static uint64_t stored_of(const search *s, const share *by, uint32_t stage)
{
    return by->stored + s->plain->in_flight[stage] * by->kept_stored;
}

/* Of all blocks the most that each may have there, as if all were of one stage. */
static gal_code read_storage(search *s)
{
    gal_code code = GAL_OK;
    const gal_cell *cell = s->plain;
    uint64_t all = 0;
    for (uint32_t block = 0; block < cell->block_count; block++) {
        uint64_t most = 0;
        for (uint32_t node = 0; node < cell->spec.pp_degree * cell->strategy_count; node++) {
            const uint32_t stage = node / cell->strategy_count, strategy = node % cell->strategy_count;
            const share_list *list = NULL;
            if (gal_cell_price(cell, block, stage, strategy) != NULL) {
                GAL_TRY(shares_at(s, block, stage, strategy, &list));
            }
            for (uint32_t i = 0; list != NULL && i < list->count; i++) {
                const uint64_t bytes = stored_of(s, &list->share[i], stage);
                most = bytes > most ? bytes : most;
            }
        }
        all += most;
    }
    s->storage_binds = all > s->task->limits.storage_bytes;
cleanup:
    return code;
}

/* ---- labels ---- */

static bool fits(const search *s, const label *l)
{
    const uint64_t host = gal_stage_host_bytes(l->state, l->staged, s->plain->in_flight[l->stage], &l->parts);
    return host <= s->task->limits.host_bytes && l->stored <= s->task->limits.storage_bytes &&
           gal_path_bytes(&l->path) <= (int64_t)s->task->spec->arena_limit_bytes;
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Of the host's memory, whatever follows: where b has less on its way, as if that stayed the largest. */
static bool takes_no_more(const search *s, const label *a, const label *b)
{
    const uint32_t in_flight = s->plain->in_flight[a->stage];
    const gal_stored_parts more = {beyond(a->parts.moment, b->parts.moment), beyond(a->parts.master, b->parts.master),
                                   beyond(a->parts.weight, b->parts.weight), beyond(a->parts.kept, b->parts.kept)};
    const uint64_t on_the_way = gal_stage_host_bytes(0, 0, in_flight, &more);
    return (a->state == 0 || b->state > 0) && /* a norm too */
           a->state + in_flight * a->staged + on_the_way <= b->state + in_flight * b->staged;
}

static bool is_no_more(const search *s, const label *a, const label *b)
{
    const gal_path *x = &a->path, *y = &b->path;
    const bool goes_on = a->stage + 1 < s->plain->spec.pp_degree; /* what drains hides tails of later stages */
    bool less = a->first == b->first && a->table_share == b->table_share && takes_no_more(s, a, b) &&
                (!s->storage_binds || a->stored <= b->stored) && x->additive <= y->additive &&
                x->slowest <= y->slowest && x->exposed <= y->exposed && x->update <= y->update &&
                x->stage_round <= y->stage_round && x->stage_update <= y->stage_update &&
                x->stage_tail - x->drained <= y->stage_tail - y->drained && x->bytes <= y->bytes &&
                (!goes_on || x->drained + x->stage_backward >= y->drained + y->stage_backward);
    for (uint32_t kind = 0; less && kind < GAL_SHARED_KIND_COUNT; kind++) {
        less = x->shared.of[kind] <= y->shared.of[kind];
    }
    return less;
}

static double charge_of_limit(const gal_host_chains *task)
{
    return task->charge.host_seconds_per_byte > 0.0
               ? task->charge.host_seconds_per_byte * (double)task->limits.host_bytes
               : 0.0;
}

/* What prices of blocks do not charge of the open stage: its parts on their way. */
static double charge_on_the_way(const search *s, const label *l)
{
    const double weight = gal_rates_of(&s->dual->weights, &s->charged->spec, l->stage).update;
    const uint64_t bytes = gal_stage_host_bytes(0, 0, 0, &l->parts);
    return weight * s->task->charge.host_seconds_per_byte * (double)bytes;
}

/* Unless one of its node, from `first` on, is no more. */
static gal_code keep(search *s, layer *to, uint32_t first, const label *l)
{
    for (uint32_t i = first; i < to->count; i++) {
        s->work++;
        if (is_no_more(s, &to->label[i], l)) {
            return GAL_OK;
        }
    }
    if (to->count >= s->task->label_limit || s->work > (uint64_t)s->task->label_limit * WORK_PER_LABEL) {
        s->stopped = true;
        return GAL_OK;
    }
    if (to->count == to->room) {
        const uint32_t room = to->room > 0 ? 2 * to->room : FIRST_LABELS;
        label *grown = realloc(to->label, room * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(s->err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        to->label = grown;
        to->room = room;
    }
    to->label[to->count++] = *l;
    return GAL_OK;
}

/* The holders of the token table have one share, and keep it alike. */
static bool ties_hold(const search *s, uint32_t block, const label *next, const share *by)
{
    const gal_cell *cell = s->plain;
    return block == 0 || !gal_cell_holds_table(cell, block) ||
           (rank_of(&by->of) == next->table_share &&
            gal_strategy_same_shards(&cell->strategy[next->first], &cell->strategy[next->strategy]));
}

/* The node behind a label by every share. at: reached, but for the update of the block. */
static gal_code extend(search *s, uint32_t block, uint32_t first, const label *at, double listed_update)
{
    const share_list *list = NULL;
    gal_code code = shares_at(s, block, at->stage, at->strategy, &list);
    const double weight = gal_rates_of(&s->dual->weights, &s->charged->spec, at->stage).update;
    const double behind = s->dual->to_go[gal_dual_node(s->charged, block, at->stage, at->strategy)] + s->dual->constant;
    for (uint32_t i = 0; code == GAL_OK && i < list->count && !s->stopped; i++) {
        const share *by = &list->share[i];
        label next = *at;
        next.share = i;
        next.weighted += weight * by->excess_seconds;
        next.path.stage_update += by->update_seconds - listed_update;
        next.state += by->state;
        next.staged += by->staged;
        next.stored += stored_of(s, by, at->stage);
        next.parts = gal_stored_parts_join(&next.parts, &by->parts);
        if (block == 0) {
            const bool tied = s->plain->types.table_shared;
            next.first = tied ? at->strategy : 0;
            next.table_share = tied ? rank_of(&by->of) : 0;
        }
        if (next.weighted + behind + charge_on_the_way(s, &next) < s->cutoff && ties_hold(s, block, &next, by) &&
            fits(s, &next)) {
            code = keep(s, &s->layer[block], first, &next);
        }
    }
    return code;
}

static gal_code start(search *s)
{
    gal_code code = GAL_OK;
    for (uint32_t strategy = 0; strategy < s->plain->strategy_count && code == GAL_OK; strategy++) {
        label at = {.weighted = s->dual->start[strategy], .strategy = strategy};
        gal_cell_step step;
        if (at.weighted < HUGE_VAL) {
            gal_cell_start(s->plain, strategy, &step);
            gal_path_add(&at.path, &step);
            code = extend(s, 0, s->layer[0].count, &at, step.update_seconds);
        }
    }
    return code;
}

/* From a label in the same stage or the one before. False: the stage that it closes does not fit. */
static bool reach(const search *s, uint32_t block, const label *from, label *at, double *listed_update)
{
    gal_cell_step step;
    const bool crosses = from->stage != at->stage;
    const size_t edge = gal_cell_pair_index(s->charged, block, at->stage, from->strategy, at->strategy);
    label next = *from;
    next.stage = at->stage;
    next.strategy = at->strategy;
    next.parent = at->parent;
    next.weighted += (crosses ? s->dual->cross : s->dual->follow)[edge];
    if (next.weighted == HUGE_VAL) {
        return false;
    }
    if (crosses) {
        gal_cell_close(s->plain, block - 1, from->stage, from->strategy, &step);
        if (!gal_path_close(&next.path, s->plain, &step)) {
            return false;
        }
        next.path.bytes = 0;
        next.weighted += charge_on_the_way(s, from);
        next.state = next.staged = next.stored = 0;
        next.parts = (gal_stored_parts){0};
        gal_cell_cross(s->plain, block, at->stage, from->strategy, at->strategy, &step);
    } else {
        gal_cell_follow(s->plain, block, at->stage, from->strategy, at->strategy, &step);
    }
    gal_path_add(&next.path, &step);
    *listed_update = step.update_seconds;
    *at = next;
    return true;
}

static gal_code reach_node(search *s, uint32_t block, uint32_t stage, uint32_t strategy)
{
    gal_code code = GAL_OK;
    const layer *from = &s->layer[block - 1];
    const uint32_t first = s->layer[block].count;
    const bool enters = gal_dual_crosses(s->dual, block, stage);
    for (uint32_t i = 0; i < from->count && code == GAL_OK && !s->stopped; i++) {
        const label *before = &from->label[i];
        label at = {.stage = stage, .strategy = strategy, .parent = i};
        double listed_update = 0.0;
        if ((before->stage == stage || (enters && before->stage + 1 == stage)) &&
            reach(s, block, before, &at, &listed_update)) {
            code = extend(s, block, first, &at, listed_update);
        }
    }
    return code;
}

static gal_code advance(search *s, uint32_t block)
{
    gal_code code = GAL_OK;
    for (uint32_t stage = 0; stage < s->plain->spec.pp_degree; stage++) {
        const uint32_t *strategy = NULL;
        const uint32_t count = gal_dual_choices(s->dual, block, stage, &strategy);
        for (uint32_t i = 0; i < count && code == GAL_OK && !s->stopped; i++) {
            code = reach_node(s, block, stage, strategy[i]);
        }
    }
    return code;
}

static void write_path(const search *s, uint32_t winner, gal_host_answer *out)
{
    for (uint32_t block = s->plain->block_count; block-- > 0;) {
        const label *l = &s->layer[block].label[winner];
        const share_list *list = &s->shares[gal_cell_price_index(s->plain, block, l->stage, l->strategy)];
        out->stage[block] = l->stage;
        out->strategy[block] = gal_price_share_strategy(&s->plain->strategy[l->strategy], &list->share[l->share].of);
        winner = l->parent;
    }
}

static void finish(const search *s, gal_host_answer *out)
{
    const uint32_t last = s->plain->block_count - 1;
    uint32_t winner = UINT32_MAX;
    for (uint32_t i = 0; i < s->layer[last].count; i++) {
        const label *l = &s->layer[last].label[i];
        gal_path path = l->path;
        gal_cell_step step;
        gal_cell_close(s->plain, last, l->stage, l->strategy, &step);
        if (gal_path_close(&path, s->plain, &step) && gal_path_seconds(&path, s->plain) < out->seconds) {
            out->seconds = gal_path_seconds(&path, s->plain);
            winner = i;
        }
    }
    if (winner != UINT32_MAX) {
        write_path(s, winner, out);
    }
}

/* ---- a cell ---- */

/* The strategies that may be in a plan below the cutoff: allowed[type][strategy]. */
static uint32_t choose(const gal_screened *screened, double cutoff, bool *allowed)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < screened->strategy_count; i++) {
        bool any = false;
        for (uint32_t type = 0; type < screened->types->type_count; type++) {
            const size_t at = (size_t)type * screened->strategy_count + i;
            allowed[at] = screened->legal[at] && screened->reduced_seconds[at] < cutoff;
            any = any || allowed[at];
        }
        count += any;
    }
    return count;
}

/* The dual's weights of all paths; then what of them may be below the cutoff. */
static gal_code raise(search *s, gal_host_answer *out)
{
    gal_code code = GAL_OK;
    gal_choices all = {0};
    gal_best_path best = {HUGE_VAL, gal_heap_take(&s->heap, s->charged->block_count, sizeof(uint32_t)),
                          gal_heap_take(&s->heap, s->charged->block_count, sizeof(uint32_t))};
    GAL_TRY(s->heap.code);
    GAL_TRY(gal_dual_create(s->charged, &s->dual, s->err));
    GAL_TRY(gal_choices_create(s->charged, &all, s->err));
    gal_choices_copy(s->charged, &s->dual->choices, &all);
    gal_dual_raise(s->dual, ROUNDS, &best);
    gal_choices_copy(s->charged, &all, &s->dual->choices); /* it left out what is no use for the charged optimum */
    gal_dual_weigh(s->dual);
    gal_dual_solve(s->dual);
    out->bound = fmax(out->bound, s->dual->bound - charge_of_limit(s->task));
    if (s->dual->bound < s->cutoff) {
        gal_dual_narrow(s->dual, s->cutoff);
    }
cleanup:
    gal_choices_free(&all);
    return code;
}

static gal_code create(search *s, const gal_screened *screened, const bool *allowed)
{
    gal_code code = GAL_OK;
    gal_cell_spec spec = *s->task->spec;
    spec.listed = screened->strategy;
    spec.listed_count = screened->strategy_count;
    spec.allowed = allowed;
    GAL_TRY(gal_cell_create(&spec, &s->plain, s->err));
    spec.cache = s->task->charged;
    GAL_TRY(gal_cell_create(&spec, &s->charged, s->err));
    s->shares = gal_heap_take(&s->heap, gal_cell_price_count(s->plain) + 1, sizeof *s->shares);
    s->layer = gal_heap_take(&s->heap, s->plain->block_count, sizeof *s->layer);
    code = s->heap.code;
cleanup:
    return code;
}

static gal_code solve(search *s, const gal_screened *screened, gal_host_answer *out)
{
    gal_code code = GAL_OK;
    bool *allowed =
        gal_heap_take(&s->heap, (size_t)screened->types->type_count * screened->strategy_count + 1, sizeof *allowed);
    GAL_TRY(s->heap.code);
    if (choose(screened, s->cutoff, allowed) > STRATEGIES_MAX) {
        return GAL_OK;
    }
    GAL_TRY(create(s, screened, allowed));
    GAL_TRY(raise(s, out));
    if (s->dual->bound >= s->cutoff) {
        return GAL_OK;
    }
    GAL_TRY(read_storage(s));
    GAL_TRY(start(s));
    for (uint32_t block = 1; block < s->plain->block_count && !s->stopped; block++) {
        GAL_TRY(advance(s, block));
    }
    if (!s->stopped) {
        finish(s, out);
        out->bound = fmin(out->seconds, s->task->give_up_seconds);
    }
cleanup:
    return code;
}

gal_code gal_host_chains_solve(const gal_host_chains *task, gal_host_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_screened_prices *prices = NULL;
    gal_screened screened = {0};
    search s = {.task = task,
                .cutoff = (task->give_up_seconds + charge_of_limit(task)) * (1.0 - rounding),
                .heap.err = err,
                .err = err};
    gal_cell_spec spec = *task->spec;
    spec.cache = task->charged;
    out->seconds = HUGE_VAL;
    out->bound = 0.0;
    GAL_TRY(gal_screened_create(&spec, task->types, GAL_ALL_ORDERS, NULL, &prices, &screened, err));
    out->bound = fmax(0.0, screened.bound - charge_of_limit(task));
    if (screened.bound < s.cutoff) {
        GAL_TRY(solve(&s, &screened, out));
    }
cleanup:
    for (uint32_t block = 0; s.layer != NULL && s.plain != NULL && block < s.plain->block_count; block++) {
        free(s.layer[block].label);
    }
    gal_dual_free(s.dual);
    gal_cell_free(s.charged);
    gal_cell_free(s.plain);
    gal_heap_free(&s.heap);
    gal_screened_free(&screened);
    gal_screened_prices_free(prices);
    return code;
}
