#include "planner/least/least_cell.h"

#include <stdlib.h>
#include <string.h>

#include "planner/cell/path.h"
#include "planner/least/least_stages.h"

enum { LABELS_MAX = 2000000 };
#define NOTHING UINT32_MAX

/* A path up to a block. */
typedef struct label {
    int64_t bytes; /* of the open stage, without what is shared */
    gal_shared_bytes shared;
    int64_t worst; /* of the stages closed before */
    uint32_t before, item;
    uint16_t stage;
} label;

typedef struct range {
    uint32_t first, end;
} range;

/* The labels at a block: for each stage from `low` to `high` and each item a range of them. */
typedef struct lists {
    uint32_t low, high; /* none: low > high */
    range *of;          /* [stage][item] */
} lists;

typedef struct least {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    gal_least_items items;
    gal_least_stages stages;
    label *label;
    uint32_t label_count, label_capacity;
    lists before, here;  /* at two blocks in a row */
    uint32_t *closed;    /* [stage][item]: the label before whose stage closes with least worst; NOTHING */
    uint32_t item_count; /* of a type at most */
    bool gave_up;
    int64_t *in_flight;         /* [stage] */
    uint32_t *stage, *strategy; /* [block]: of the last chain found */
} least;

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
    return gal_least_reaches(&l->stages, block, own->stage, own->bytes, gal_shared_sum(&own->shared), limit);
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
    label own = *before;
    if (crosses) {
        own.bytes = gal_least_entry_bytes(&l->stages, before->stage + 1u, from, to, c);
        GAL_ASSERT(own.bytes >= 0); /* rows that are not converted are as large received as saved: bounds rely on it */
        own.worst = 0;
        own.shared = (gal_shared_bytes){0};
        own.stage++;
    }
    own.bytes += gal_least_node_bytes(&l->stages, block, own.stage, to) +
                 gal_least_version_bytes(&l->stages, block, own.stage, crosses ? NULL : from, to, c);
    gal_shared_join(&own.shared, &to->shared);
    const gal_shared_bytes between = {.of = {[GAL_SHARED_BOUNDARY] = crosses ? 0 : 2 * from->boundary,
                                             [GAL_SHARED_RELAYOUT] = c == NULL ? 0 : (crosses ? c->entry : c->inside)}};
    gal_shared_join(&own.shared, &between);
    *out = own;
}

static int64_t closed_bytes(const least *l, const label *own, const gal_least_item *item)
{
    return own->bytes + gal_shared_sum(&own->shared) + gal_least_close_bytes(&l->stages, own->stage, item);
}

static int64_t worst_of(const least *l, const label *own, const gal_least_item *item)
{
    const int64_t bytes = closed_bytes(l, own, item);
    return bytes > own->worst ? bytes : own->worst;
}

/* Of a list before, the label that closes with least worst. */
static uint32_t best_to_close(const least *l, range from, const gal_least_item *item, int64_t limit)
{
    uint32_t best = NOTHING;
    for (uint32_t at = from.first; at < from.end; at++) {
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
    const gal_least_item *item = gal_least_items_of(&l->stages, block, &count);
    for (uint32_t p = l->before.low; p <= l->before.high && p + 1 < l->spec->pp_degree; p++) {
        for (uint32_t i = 0; i < count; i++) {
            l->closed[place(l, p, i)] = best_to_close(l, l->before.of[place(l, p, i)], &item[i], limit);
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
    step(l, block, &before, crosses, of, &gal_least_items_of(&l->stages, block, &count)[to_index], c, &own);
    own.before = from;
    own.item = to_index;
    own.worst = crosses ? worst_of(l, &before, of) : before.worst;
    return can_go_on(l, &own, block, limit) ? add_label(l, first, &own, err) : GAL_OK;
}

/* All ways into an item of a block on a stage. */
static gal_code extend(least *l, uint32_t block, uint32_t stage, uint32_t to_index, int64_t limit, gal_error *err)
{
    static const range none = {0, 0};
    gal_code code = GAL_OK;
    uint32_t count = 0, own_count = 0;
    const gal_least_item *from = gal_least_items_of(&l->stages, block - 1, &count);
    const gal_least_item *to = &gal_least_items_of(&l->stages, block, &own_count)[to_index];
    const uint32_t first = l->label_count;
    for (uint32_t i = 0; i < count; i++) {
        const range same = is_open(&l->before, stage) ? l->before.of[place(l, stage, i)] : none;
        const bool may_cross = stage > 0 && is_open(&l->before, stage - 1);
        const uint32_t crossing = may_cross ? l->closed[place(l, stage - 1, i)] : NOTHING;
        const gal_least_conversion *c = NULL;
        if (same.first == same.end && crossing == NOTHING) {
            continue;
        }
        if (from[i].layout != to->layout) {
            GAL_TRY(gal_least_convert(&l->items, block, &from[i], to, &c, err));
            if (!c->legal) {
                continue;
            }
        }
        for (uint32_t at = same.first; at < same.end; at++) {
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
    const gal_least_item *item = &gal_least_items_of(&l->stages, 0, &count)[to_index];
    const label own = {.bytes = gal_least_node_bytes(&l->stages, 0, 0, item),
                       .shared = item->shared,
                       .before = NOTHING,
                       .item = to_index};
    return can_go_on(l, &own, 0, limit) ? add_label(l, l->label_count, &own, err) : GAL_OK;
}

/* The labels at a block, on all stages that it can be on. */
static gal_code fill_block(least *l, uint32_t block, int64_t limit, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t count = 0;
    const gal_least_item *item = gal_least_items_of(&l->stages, block, &count);
    lists *here = &l->here;
    for (here->low = 0; here->low < l->spec->pp_degree && l->stages.end[here->low] <= block;) {
        here->low++;
    }
    for (here->high = here->low; here->high + 1 < l->spec->pp_degree && l->stages.begin[here->high + 1] <= block;) {
        here->high++;
    }
    for (uint32_t p = here->low; p <= here->high; p++) {
        for (uint32_t i = 0; i < count; i++) {
            range *own = &here->of[place(l, p, i)];
            own->first = l->label_count;
            if (gal_least_is_seen(&l->stages, block, &item[i])) {
                GAL_TRY(block == 0 ? start(l, i, limit, err) : extend(l, block, p, i, limit, err));
            }
            own->end = l->label_count;
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
        l->strategy[block] = gal_least_items_of(&l->stages, block, &count)[own->item].strategy;
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
    if (!gal_least_fill(&l->stages, limit)) {
        return GAL_OK;
    }
    gal_least_sum_rest(&l->stages);
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
    const gal_least_item *item = gal_least_items_of(&l->stages, last, &count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = best_to_close(l, l->here.of[place(l, stages - 1, i)], &item[i], limit);
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
    if (!gal_least_fill(&l->stages, high)) {
        return GAL_OK;
    }
    low = gal_least_bound(&l->stages, high);
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
    if (!gal_least_look(&l->stages, (gal_least_view){GAL_LEAST_ANY_LAYOUT, shards}) ||
        !gal_least_fill(&l->stages, out->found ? (int64_t)out->bytes - 1 : limit)) {
        return GAL_OK;
    }
    for (uint32_t layout = 0; layout < l->items.layout_count && !out->found; layout++) {
        if (gal_least_look(&l->stages, (gal_least_view){layout, shards})) {
            GAL_TRY(descend(l, limit, goal, out, &open, err));
        }
    }
    (void)gal_least_look(&l->stages, (gal_least_view){GAL_LEAST_ANY_LAYOUT, shards});
    GAL_TRY(descend(l, limit, goal, out, &open, err));
    out->bound_bytes = open < out->bound_bytes ? open : out->bound_bytes;
cleanup:
    return code;
}

static gal_code create(const gal_cell_spec *spec, const gal_block_types *types, least *l, gal_error *err)
{
    const uint32_t stages = spec->pp_degree;
    const size_t blocks = types->block_count;
    gal_code code = gal_least_items_create(spec, types, &l->items, err);
    code = code == GAL_OK ? gal_least_stages_create(&l->items, &l->stages, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        const uint32_t count = l->items.first[type + 1] - l->items.first[type];
        l->item_count = count > l->item_count ? count : l->item_count;
    }
    const size_t places = place(l, stages, 0) + 1;
    l->before.of = calloc(places, sizeof *l->before.of);
    l->here.of = calloc(places, sizeof *l->here.of);
    l->closed = calloc(places, sizeof *l->closed);
    l->stage = calloc(blocks, sizeof *l->stage);
    l->strategy = calloc(blocks, sizeof *l->strategy);
    const bool have =
        l->before.of != NULL && l->here.of != NULL && l->closed != NULL && l->stage != NULL && l->strategy != NULL;
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static void release(least *l)
{
    free(l->strategy);
    free(l->stage);
    free(l->closed);
    free(l->here.of);
    free(l->before.of);
    free(l->label);
    gal_least_stages_free(&l->stages);
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
