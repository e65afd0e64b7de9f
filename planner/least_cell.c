#include "planner/least_cell.h"

#include <stdlib.h>
#include <string.h>

#include "planner/least_items.h"
#include "planner/path.h"

enum { LABELS_MAX = 2000000, NOTHING = UINT32_MAX };

/* A path up to a block. */
typedef struct label {
    int64_t bytes; /* of the open stage, without what is shared */
    gal_shared_bytes shared;
    int64_t worst; /* of the stages closed before */
    uint32_t before, item;
    uint16_t stage;
} label;

/* The strategies that a search looks at. */
typedef struct view {
    uint32_t layout; /* NOTHING: any */
    uint32_t shards; /* of who holds the token table */
} view;

/* The labels at a block: for each stage from `low` to `high` and each item a range of them. */
typedef struct lists {
    uint32_t low, high; /* none: low > high */
    uint32_t *range;    /* [stage][item][2] */
} lists;

typedef struct least {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    gal_least_items items;
    view view;
    int64_t *least_node;   /* [stage][block]: of the view; < 0: there is none */
    int64_t *least_shared; /* [block]: of what it uses in turn */
    uint32_t *begin;       /* [stage], and the end: stages filled from the back; none begins earlier */
    uint32_t *end;         /* [stage]: filled from the front; none ends later */
    /* [stage][block]: of the blocks from here up to where the next stage must begin; sum and largest: */
    int64_t *rest, *rest_shared;
    label *label;
    uint32_t label_count, label_capacity;
    lists before, here;  /* at two blocks in a row */
    uint32_t *closed;    /* [stage][item]: the label before whose stage closes with least worst; NOTHING */
    uint32_t item_count; /* of a type at most */
    bool gave_up;
    int64_t *in_flight;         /* [stage] */
    uint32_t *stage, *strategy; /* [block]: of the last chain found */
} least;

/* ---- bytes (planner/cell_steps.c) ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool holds_table(const least *l, uint32_t block)
{
    return l->types->table_shared && (l->types->shape[l->types->type_of[block]].shared >> GAL_SHARED_TABLE & 1U) != 0;
}

/* Whether another block of the stage brings the token table. */
static bool borrows_table(const least *l, uint32_t block, uint32_t stage)
{
    const uint32_t last = l->types->block_count - 1;
    const bool beside_head = stage + 1 == l->spec->pp_degree && holds_table(l, last);
    return holds_table(l, block) && (stage == 0 ? block > 0 : block != last && beside_head);
}

static int64_t at_most_two(const least *l)
{
    return l->spec->microbatch_count < 2 ? (int64_t)l->spec->microbatch_count : 2;
}

static int64_t node_bytes(const least *l, uint32_t block, uint32_t stage, const gal_least_item *item)
{
    const bool makes = l->types->shape[l->types->type_of[block]].kind == GAL_BLOCK_BRIDGE;
    return item->state - (borrows_table(l, block, stage) ? item->table : 0) + l->in_flight[stage] * item->saved +
           (makes ? (l->in_flight[stage] + 1) * item->carried_out : 0);
}

static int64_t close_bytes(const least *l, uint32_t stage, const gal_least_item *item)
{
    const bool last = stage + 1 == l->spec->pp_degree;
    const int64_t own = (last ? 2 : 1) * GAL_ALIGNMENT_BYTES + l->items.bias_bytes;
    return last ? own : own + 2 * at_most_two(l) * item->boundary + (at_most_two(l) - 1) * item->carried_out;
}

/* c: NULL where nothing is converted. */
static int64_t version_bytes(const least *l, uint32_t stage, const gal_least_item *to, const gal_least_conversion *c,
                             bool reads)
{
    return c != NULL && reads ? (l->in_flight[stage] + 1) * to->carried_in + c->carried : 0;
}

static int64_t entry_bytes(const least *l, uint32_t stage, const gal_least_item *from, const gal_least_item *to,
                           const gal_least_conversion *c)
{
    const int64_t k = l->in_flight[stage];
    const int64_t m = l->spec->microbatch_count;
    const int64_t two = at_most_two(l);
    const int64_t ahead = k < m ? k + 1 : m;
    const int64_t rows = c != NULL ? 2 * two * from->boundary : (ahead + two) * from->boundary - k * to->input;
    return rows + (ahead + two) * from->carried_out;
}

/* ---- the view ---- */

static const gal_least_item *items_of(const least *l, uint32_t block, uint32_t *count)
{
    const uint32_t type = l->types->type_of[block];
    *count = l->items.first[type + 1] - l->items.first[type];
    return l->items.item + l->items.first[type];
}

static bool is_seen(const least *l, uint32_t block, const gal_least_item *item)
{
    return (l->view.layout == NOTHING || item->layout == l->view.layout) &&
           (!holds_table(l, block) || item->shards == l->view.shards);
}

/* Of a block on a stage, by itself and in turn with others; < 0: it has nothing to choose. */
static void find_least(const least *l, uint32_t block, uint32_t stage, int64_t *node, int64_t *shared)
{
    uint32_t count = 0;
    const gal_least_item *item = items_of(l, block, &count);
    *node = *shared = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (is_seen(l, block, &item[i])) {
            const int64_t own = node_bytes(l, block, stage, &item[i]);
            const int64_t in_turn = gal_shared_sum(&item[i].shared);
            *node = *node < 0 || own < *node ? own : *node;
            *shared = *shared < 0 || in_turn < *shared ? in_turn : *shared;
        }
    }
}

/* False: some block has nothing to choose. */
static bool look(least *l, view v)
{
    const uint32_t blocks = l->types->block_count;
    bool everywhere = true;
    l->view = v;
    for (uint32_t p = 0; p < l->spec->pp_degree && everywhere; p++) {
        int64_t *node = l->least_node + (size_t)p * blocks;
        for (uint32_t i = 0; i < blocks && everywhere; i++) {
            const uint32_t like = l->types->type_first[l->types->type_of[i]];
            if (like == i) {
                find_least(l, i, p, &node[i], &l->least_shared[i]);
            } else {
                node[i] = node[like];
                l->least_shared[i] = l->least_shared[like];
            }
            everywhere = node[i] >= 0;
        }
    }
    return everywhere;
}

/* What the blocks of a stage from each one on take up to where the next stage must begin. */
static void sum_rest(least *l, uint32_t stage)
{
    const uint32_t blocks = l->types->block_count;
    const int64_t *node = l->least_node + (size_t)stage * blocks;
    int64_t *rest = l->rest + (size_t)stage * (blocks + 1);
    int64_t *rest_shared = l->rest_shared + (size_t)stage * (blocks + 1);
    rest[blocks] = rest_shared[blocks] = 0;
    for (uint32_t i = blocks; i-- > 0;) {
        const bool must = i < l->begin[stage + 1];
        rest[i] = must ? rest[i + 1] + node[i] : 0;
        rest_shared[i] = must ? larger(rest_shared[i + 1], l->least_shared[i]) : 0;
    }
}

/* Of stages filled with whole blocks by their least bytes: where each begins at the earliest, and ends at the latest.
 * False: they do not hold all blocks. */
static bool fill_stages(least *l, int64_t limit)
{
    const uint32_t blocks = l->types->block_count;
    const uint32_t stages = l->spec->pp_degree;
    const int64_t own = GAL_ALIGNMENT_BYTES + l->items.bias_bytes;
    l->begin[stages] = blocks;
    for (uint32_t p = stages; p-- > 0;) {
        const int64_t *node = l->least_node + (size_t)p * blocks;
        int64_t bytes = own;
        int64_t shared = 0;
        uint32_t at = l->begin[p + 1];
        while (at > p && bytes + node[at - 1] + larger(shared, l->least_shared[at - 1]) <= limit) {
            at--;
            bytes += node[at];
            shared = larger(shared, l->least_shared[at]);
        }
        if (at == l->begin[p + 1]) {
            return false;
        }
        l->begin[p] = at;
    }
    uint32_t at = 0;
    for (uint32_t p = 0; p < stages; p++) {
        const int64_t *node = l->least_node + (size_t)p * blocks;
        int64_t bytes = own;
        int64_t shared = 0;
        while (at + (stages - 1 - p) < blocks && bytes + node[at] + larger(shared, l->least_shared[at]) <= limit) {
            bytes += node[at];
            shared = larger(shared, l->least_shared[at]);
            at++;
        }
        l->end[p] = at;
    }
    return l->begin[0] == 0;
}

/* No chain of the view has less. */
static int64_t bound_of(least *l, int64_t limit)
{
    int64_t low = 0;
    int64_t high = limit;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (fill_stages(l, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* ---- labels ---- */

/* Whether b closes with no less than a, whatever follows. */
static bool is_no_worse(const label *a, const label *b)
{
    int64_t bytes = a->bytes;
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        bytes += a->shared.of[kind] > b->shared.of[kind] ? a->shared.of[kind] - b->shared.of[kind] : 0;
    }
    return bytes <= b->bytes;
}

static bool can_go_on(const least *l, const label *own, uint32_t block, int64_t limit)
{
    const size_t next = (size_t)own->stage * (l->types->block_count + 1) + block + 1;
    return own->bytes + l->rest[next] + larger(gal_shared_sum(&own->shared), l->rest_shared[next]) +
               GAL_ALIGNMENT_BYTES + l->items.bias_bytes <=
           limit;
}

static size_t place(const least *l, uint32_t stage, uint32_t item)
{
    return (size_t)stage * l->item_count + item;
}

static bool is_open(const lists *at, uint32_t stage)
{
    return stage >= at->low && stage <= at->high;
}

/* Into the list that ends with the last label and begins at `first`. */
static gal_code add_label(least *l, uint32_t first, const label *own, gal_error *err)
{
    uint32_t kept = first;
    for (uint32_t i = first; i < l->label_count; i++) {
        if (is_no_worse(&l->label[i], own)) {
            return GAL_OK;
        }
    }
    for (uint32_t i = first; i < l->label_count; i++) {
        if (!is_no_worse(own, &l->label[i])) {
            l->label[kept++] = l->label[i];
        }
    }
    l->label_count = kept;
    if (l->label_count == l->label_capacity) {
        const uint32_t wanted = l->label_capacity == 0 ? 4096 : 2 * l->label_capacity;
        label *grown = wanted > LABELS_MAX * 2 ? NULL : realloc(l->label, wanted * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        l->label = grown;
        l->label_capacity = wanted;
    }
    l->label[l->label_count++] = *own;
    return GAL_OK;
}

/* One stage on from the block before, or the same stage. */
static void step(const least *l, uint32_t block, const label *before, bool crosses, const gal_least_item *from,
                 const gal_least_item *to, const gal_least_conversion *c, label *out)
{
    const bool reads = l->types->shape[l->types->type_of[block]].kind == GAL_BLOCK_CROSS_ATTENTION;
    label own = *before;
    if (crosses) {
        own.bytes = entry_bytes(l, before->stage + 1u, from, to, c);
        GAL_ASSERT(own.bytes >= 0); /* rows that are not converted are as large received as saved: bounds rely on it */
        own.worst = 0;
        own.shared = (gal_shared_bytes){0};
        own.stage++;
    }
    own.bytes += node_bytes(l, block, own.stage, to) + version_bytes(l, own.stage, to, c, reads);
    gal_shared_join(&own.shared, &to->shared);
    const gal_shared_bytes between = {.of = {[GAL_SHARED_BOUNDARY] = crosses ? 0 : 2 * from->boundary,
                                             [GAL_SHARED_RELAYOUT] = c == NULL ? 0 : (crosses ? c->entry : c->inside)}};
    gal_shared_join(&own.shared, &between);
    *out = own;
}

static int64_t closed_bytes(const least *l, const label *own, const gal_least_item *item)
{
    return own->bytes + gal_shared_sum(&own->shared) + close_bytes(l, own->stage, item);
}

static int64_t worst_of(const least *l, const label *own, const gal_least_item *item)
{
    const int64_t bytes = closed_bytes(l, own, item);
    return larger(bytes, own->worst);
}

/* Of a list before, the label that closes with least worst. */
static uint32_t best_to_close(const least *l, const uint32_t range[2], const gal_least_item *item, int64_t limit)
{
    uint32_t best = NOTHING;
    for (uint32_t at = range[0]; at < range[1]; at++) {
        const label *own = &l->label[at];
        if (closed_bytes(l, own, item) <= limit &&
            (best == NOTHING || worst_of(l, own, item) < worst_of(l, &l->label[best], item))) {
            best = at;
        }
    }
    return best;
}

static void close_stages(least *l, uint32_t block, int64_t limit)
{
    uint32_t count = 0;
    const gal_least_item *item = items_of(l, block, &count);
    for (uint32_t p = l->before.low; p <= l->before.high && p + 1 < l->spec->pp_degree; p++) {
        for (uint32_t i = 0; i < count; i++) {
            l->closed[place(l, p, i)] = best_to_close(l, &l->before.range[2 * place(l, p, i)], &item[i], limit);
        }
    }
}

/* From the label `from`, at item `of`, into an item of a block; c: NULL where nothing is converted. */
static gal_code go_on(least *l, uint32_t block, uint32_t first, uint32_t from, const gal_least_item *of, bool crosses,
                      uint32_t to_index, const gal_least_conversion *c, int64_t limit, gal_error *err)
{
    uint32_t count = 0;
    label own;
    const label before = l->label[from];
    step(l, block, &before, crosses, of, &items_of(l, block, &count)[to_index], c, &own);
    own.before = from;
    own.item = to_index;
    own.worst = crosses ? worst_of(l, &before, of) : before.worst;
    return can_go_on(l, &own, block, limit) ? add_label(l, first, &own, err) : GAL_OK;
}

/* All ways into an item of a block on a stage. */
static gal_code extend(least *l, uint32_t block, uint32_t stage, uint32_t to_index, int64_t limit, gal_error *err)
{
    static const uint32_t none[2] = {0, 0};
    gal_code code = GAL_OK;
    uint32_t count = 0, own_count = 0;
    const gal_least_item *from = items_of(l, block - 1, &count);
    const gal_least_item *to = &items_of(l, block, &own_count)[to_index];
    const uint32_t first = l->label_count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *range = is_open(&l->before, stage) ? &l->before.range[2 * place(l, stage, i)] : none;
        const bool may_cross = stage > 0 && is_open(&l->before, stage - 1);
        const uint32_t crossing = may_cross ? l->closed[place(l, stage - 1, i)] : NOTHING;
        const gal_least_conversion *c = NULL;
        if (range[0] == range[1] && crossing == NOTHING) {
            continue;
        }
        if (from[i].layout != to->layout) {
            GAL_TRY(gal_least_convert(&l->items, block, &from[i], to, &c, err));
            if (!c->legal) {
                continue;
            }
        }
        for (uint32_t at = range[0]; at < range[1]; at++) {
            GAL_TRY(go_on(l, block, first, at, &from[i], false, to_index, c, limit, err));
        }
        if (crossing != NOTHING) {
            GAL_TRY(go_on(l, block, first, crossing, &from[i], true, to_index, c, limit, err));
        }
    }
cleanup:
    return code;
}

static gal_code start(least *l, uint32_t to_index, int64_t limit, gal_error *err)
{
    uint32_t count = 0;
    const gal_least_item *item = &items_of(l, 0, &count)[to_index];
    const label own = {.bytes = node_bytes(l, 0, 0, item), .shared = item->shared, .before = NOTHING, .item = to_index};
    return can_go_on(l, &own, 0, limit) ? add_label(l, l->label_count, &own, err) : GAL_OK;
}

/* The labels at a block, on all stages that it can be on. */
static gal_code fill_block(least *l, uint32_t block, int64_t limit, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t count = 0;
    const gal_least_item *item = items_of(l, block, &count);
    lists *here = &l->here;
    for (here->low = 0; here->low < l->spec->pp_degree && l->end[here->low] <= block;) {
        here->low++;
    }
    for (here->high = here->low; here->high + 1 < l->spec->pp_degree && l->begin[here->high + 1] <= block;) {
        here->high++;
    }
    for (uint32_t p = here->low; p <= here->high; p++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t *range = &here->range[2 * place(l, p, i)];
            range[0] = l->label_count;
            if (is_seen(l, block, &item[i])) {
                GAL_TRY(block == 0 ? start(l, i, limit, err) : extend(l, block, p, i, limit, err));
            }
            range[1] = l->label_count;
        }
    }
cleanup:
    return code;
}

static void read_chain(least *l, uint32_t at)
{
    for (uint32_t block = l->types->block_count; block-- > 0;) {
        uint32_t count = 0;
        const label *own = &l->label[at];
        l->stage[block] = own->stage;
        l->strategy[block] = items_of(l, block, &count)[own->item].strategy;
        at = own->before;
    }
}

/* A chain of the view within the limit: the bytes of its largest stage; < 0: there is none, or l->gave_up. */
static gal_code search(least *l, int64_t limit, int64_t *bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t last = l->types->block_count - 1;
    const uint32_t stages = l->spec->pp_degree;
    uint32_t known = 0;
    *bytes = -1;
    l->gave_up = false;
    l->label_count = 0;
    if (!fill_stages(l, limit)) {
        return GAL_OK;
    }
    for (uint32_t p = 0; p < stages; p++) {
        sum_rest(l, p);
    }
    for (uint32_t block = 0; block <= last; block++) {
        known = l->label_count;
        GAL_TRY(fill_block(l, block, limit, err));
        l->gave_up = l->label_count > LABELS_MAX;
        if (l->label_count == known || l->gave_up) {
            return GAL_OK;
        }
        if (block < last) {
            const lists before = l->before;
            l->before = l->here;
            l->here = before;
            close_stages(l, block, limit);
        }
    }
    uint32_t count = 0;
    const gal_least_item *item = items_of(l, last, &count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = best_to_close(l, &l->here.range[2 * place(l, stages - 1, i)], &item[i], limit);
        if (at != NOTHING && (*bytes < 0 || worst_of(l, &l->label[at], &item[i]) < *bytes)) {
            *bytes = worst_of(l, &l->label[at], &item[i]);
            read_chain(l, at);
        }
    }
cleanup:
    return code;
}

/* ---- what a chain is charged ---- */

/* By the rule itself, in a cell of the chain's own strategies. */
static gal_code charge(least *l, uint64_t *bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = l->types->block_count;
    gal_cell_spec spec = *l->spec;
    gal_cell *cell = NULL;
    uint32_t *own = calloc(blocks, sizeof *own);
    bool *allowed = calloc((size_t)l->types->type_count * l->items.strategy_count, sizeof *allowed);
    if (own == NULL || allowed == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t i = 0; i < blocks; i++) {
        allowed[(size_t)l->types->type_of[i] * l->items.strategy_count + l->strategy[i]] = true;
    }
    spec.allowed = allowed;
    spec.arena_limit_bytes = INT64_MAX;
    GAL_TRY(gal_cell_create(&spec, &cell, err));
    for (uint32_t i = 0; i < blocks; i++) {
        while (cell->listed[own[i]] != l->strategy[i]) {
            own[i]++;
        }
    }
    (void)gal_cell_evaluate(cell, l->stage, own, bytes);
cleanup:
    gal_cell_free(cell);
    free(allowed);
    free(own);
    return code;
}

/* ---- the least ---- */

static void keep(const least *l, uint64_t bytes, gal_least_answer *out)
{
    out->found = true;
    out->bytes = bytes;
    if (out->stage != NULL) {
        memcpy(out->stage, l->stage, l->types->block_count * sizeof *out->stage);
        memcpy(out->strategy, l->strategy, l->types->block_count * sizeof *out->strategy);
    }
}

/* Halves the range in which the view's least lies: below what is known, from what the blocks alone need. *open: the
 * least that a chain of the view may still have. */
static gal_code descend(least *l, int64_t limit, gal_least_goal goal, gal_least_answer *out, uint64_t *open,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    int64_t high = out->found && (int64_t)out->bytes <= limit ? (int64_t)out->bytes - 1 : limit;
    int64_t low = 0;
    *open = UINT64_MAX;
    if (!fill_stages(l, high)) {
        return GAL_OK;
    }
    low = bound_of(l, high);
    for (bool any = false; low <= high && !(goal == GAL_LEAST_ANY && out->found); any = true) {
        int64_t bytes = 0;
        uint64_t charged = 0;
        const int64_t middle =
            any && goal == GAL_LEAST_SMALLEST ? low + (high - low) / 2 : high; /* often none is left */
        GAL_TRY(search(l, middle, &bytes, err));
        if (bytes < 0 && l->gave_up) {
            *open = (uint64_t)low;
            break;
        }
        low = bytes < 0 ? middle + 1 : low;
        if (bytes < 0) {
            continue;
        }
        GAL_TRY(charge(l, &charged, err));
        GAL_ASSERT((int64_t)charged >= bytes);
        if (!out->found ? charged <= l->spec->arena_limit_bytes : charged < out->bytes) {
            keep(l, charged, out);
        }
        *open = (int64_t)charged > bytes ? (uint64_t)bytes
                                         : *open; /* conversions of several layouts take more than of two */
        high = bytes - 1;
    }
cleanup:
    return code;
}

static gal_code solve_shards(least *l, uint32_t shards, gal_least_goal goal, gal_least_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const int64_t limit = (int64_t)l->spec->arena_limit_bytes;
    uint64_t open = UINT64_MAX;
    if (!look(l, (view){NOTHING, shards}) || !fill_stages(l, out->found ? (int64_t)out->bytes - 1 : limit)) {
        return GAL_OK;
    }
    for (uint32_t layout = 0; layout < l->items.layout_count && !out->found; layout++) {
        if (look(l, (view){layout, shards})) {
            GAL_TRY(descend(l, limit, goal, out, &open, err));
        }
    }
    (void)look(l, (view){NOTHING, shards});
    GAL_TRY(descend(l, limit, goal, out, &open, err));
    out->bound_bytes = open < out->bound_bytes ? open : out->bound_bytes;
cleanup:
    return code;
}

static gal_code create(const gal_cell_spec *spec, const gal_block_types *types, least *l, gal_error *err)
{
    const uint32_t stages = spec->pp_degree;
    const size_t blocks = types->block_count;
    const gal_code code = gal_least_items_create(spec, types, &l->items, err);
    if (code != GAL_OK) {
        return code;
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        const uint32_t count = l->items.first[type + 1] - l->items.first[type];
        l->item_count = count > l->item_count ? count : l->item_count;
    }
    const size_t places = place(l, stages, 0) + 1;
    l->least_node = calloc(stages * blocks, sizeof *l->least_node);
    l->least_shared = calloc(blocks, sizeof *l->least_shared);
    l->begin = calloc((size_t)stages + 1, sizeof *l->begin);
    l->end = calloc(stages, sizeof *l->end);
    l->rest = calloc(stages * (blocks + 1), sizeof *l->rest);
    l->rest_shared = calloc(stages * (blocks + 1), sizeof *l->rest_shared);
    l->before.range = calloc(2 * places, sizeof *l->before.range);
    l->here.range = calloc(2 * places, sizeof *l->here.range);
    l->closed = calloc(places, sizeof *l->closed);
    l->in_flight = calloc(stages, sizeof *l->in_flight);
    l->stage = calloc(blocks, sizeof *l->stage);
    l->strategy = calloc(blocks, sizeof *l->strategy);
    if (l->least_node == NULL || l->least_shared == NULL || l->begin == NULL || l->end == NULL || l->rest == NULL ||
        l->rest_shared == NULL || l->before.range == NULL || l->here.range == NULL || l->closed == NULL ||
        l->in_flight == NULL || l->stage == NULL || l->strategy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t p = 0; p < stages; p++) {
        l->in_flight[p] = gal_in_flight(spec->schedule, p, stages, spec->microbatch_count);
    }
    return GAL_OK;
}

static void release(least *l)
{
    free(l->strategy);
    free(l->stage);
    free(l->in_flight);
    free(l->closed);
    free(l->here.range);
    free(l->before.range);
    free(l->label);
    free(l->rest_shared);
    free(l->rest);
    free(l->end);
    free(l->begin);
    free(l->least_shared);
    free(l->least_node);
    gal_least_items_free(&l->items);
}

gal_code gal_least_cell(const gal_cell_spec *spec, const gal_block_types *types, gal_least_goal goal,
                        gal_least_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    least l = {.spec = spec, .types = types};
    gal_least_answer answer = {.bound_bytes = UINT64_MAX, .stage = out->stage, .strategy = out->strategy};
    GAL_TRY(create(spec, types, &l, err));
    const uint32_t kinds = types->table_shared ? l.items.shards_count : 1;
    for (uint32_t shards = 0; shards < kinds; shards++) {
        GAL_TRY(solve_shards(&l, shards, goal, &answer, err));
    }
    if (answer.found && answer.bytes < answer.bound_bytes) {
        answer.bound_bytes = answer.bytes;
    }
    *out = answer;
cleanup:
    release(&l);
    return code;
}
