#include "planner/least/least_items.h"

#include <stdlib.h>
#include <string.h>

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static int64_t larger(uint64_t a, uint64_t b)
{
    return (int64_t)(a > b ? a : b);
}

/* ---- layouts and shards ---- */

static uint32_t layout_of(gal_least_items *items, uint32_t strategy)
{
    uint32_t i = 0;
    while (i < items->layout_count && !gal_price_rows_alike(&items->strategy[items->layout_first[i]],
                                                            &items->strategy[strategy], items->stage_devices)) {
        i++;
    }
    if (i == items->layout_count) {
        items->layout_first[items->layout_count++] = strategy;
    }
    return i;
}

static uint32_t shards_of(gal_least_items *items, uint32_t strategy)
{
    uint32_t i = 0;
    while (i < items->shards_count &&
           !gal_strategy_same_shards(&items->strategy[items->shards_first[i]], &items->strategy[strategy])) {
        i++;
    }
    if (i == items->shards_count) {
        items->shards_first[items->shards_count++] = strategy;
    }
    return i;
}

/* ---- items ---- */

static gal_price_query query_of(const gal_least_items *items, uint32_t type, uint32_t strategy)
{
    return (gal_price_query){.type = items->types->shape[type].type,
                             .strategy = &items->strategy[strategy],
                             .device_count = items->stage_devices,
                             .stage = 0, /* bytes are the same on every stage */
                             .stage_count = 1,
                             .microbatch_samples = items->samples,
                             .prefetch_depth = items->spec->prefetch_depth};
}

static int64_t carried_bytes(const gal_least_items *items, gal_flow carried, uint32_t strategy)
{
    return carried.positions == 0
               ? 0
               : (int64_t)gal_price_rows_bytes(items->spec->model, &items->strategy[strategy], items->samples, carried);
}

static gal_least_item item_of(gal_least_items *items, uint32_t type, uint32_t strategy, const gal_block_memory *memory)
{
    const gal_block_shape *shape = &items->types->shape[type];
    const bool holds = items->types->table_shared && (shape->shared >> GAL_SHARED_TABLE & 1U) != 0;
    uint64_t state = memory->bytes.state + memory->bytes.gradient;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        state -= shared != GAL_SHARED_TABLE ? memory->shared_bytes[shared] : 0;
    }
    return (gal_least_item){.strategy = strategy,
                            .layout = layout_of(items, strategy),
                            .shards = holds ? shards_of(items, strategy) : 0,
                            .state = (int64_t)state,
                            .table = (int64_t)memory->shared_bytes[GAL_SHARED_TABLE],
                            .saved = (int64_t)memory->bytes.saved,
                            .input = (int64_t)memory->bytes.input,
                            .boundary = (int64_t)memory->bytes.boundary,
                            .carried_out = carried_bytes(items, shape->carried_out, strategy),
                            .carried_in = carried_bytes(items, shape->carried_in, strategy),
                            .shared = gal_cell_shared_of(memory, items->spec->prefetch_depth,
                                                         gal_cell_work_sides(items->spec->space, items->types, type))};
}

/* Where they stand alike and a is nowhere larger. */
static bool beats(const gal_least_item *a, const gal_least_item *b)
{
    bool no_larger = a->layout == b->layout && a->shards == b->shards && a->input == b->input &&
                     a->boundary == b->boundary && a->carried_in == b->carried_in && a->carried_out == b->carried_out &&
                     a->state <= b->state && a->state - a->table <= b->state - b->table && a->saved <= b->saved;
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        no_larger = no_larger && a->shared.of[kind] <= b->shared.of[kind];
    }
    return no_larger;
}

/* Behind those of the type that are there, in place of what it beats. */
static void keep_unbeaten(gal_least_item *item, uint32_t *count, const gal_least_item *own)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        if (beats(&item[i], own)) {
            return;
        }
    }
    for (uint32_t i = 0; i < *count; i++) {
        if (!beats(own, &item[i])) {
            item[kept++] = item[i];
        }
    }
    item[kept++] = *own;
    *count = kept;
}

/* The biases of relative positions are whole on every device: any strategy says how many bytes they have. */
static void note_biases(const gal_block_memory *memory, int64_t most[GAL_SHARED_COUNT])
{
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        most[shared] = shared == GAL_SHARED_TABLE ? 0 : larger((uint64_t)most[shared], memory->shared_bytes[shared]);
    }
}

static gal_code fill_type(gal_least_items *items, uint32_t type, int64_t biases[GAL_SHARED_COUNT], gal_error *err)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < items->strategy_count; s++) {
        const gal_block_price *price = NULL;
        const gal_price_query query = query_of(items, type, s);
        gal_error reason = {0};
        if (!gal_cell_is_legal(items->spec, items->types, type, &items->strategy[s])) {
            continue;
        }
        const gal_code code = gal_price_block(items->spec->cache, &query, &price, &reason);
        if (gal_is_too_large(code)) {
            continue;
        }
        if (code != GAL_OK) {
            return gal_fail(err, code, "%s", reason.text);
        }
        const gal_least_item own = item_of(items, type, s, price->memory);
        keep_unbeaten(items->item + items->first[type], &count, &own);
        note_biases(price->memory, biases);
    }
    items->first[type + 1] = items->first[type] + count;
    return GAL_OK;
}

static gal_code fill(gal_least_items *items, gal_error *err)
{
    const gal_cell_spec *spec = items->spec;
    int64_t biases[GAL_SHARED_COUNT] = {0};
    items->strategy_count = gal_space_strategies(spec->space, items->stage_devices, items->strategy);
    items->item = calloc((size_t)items->types->type_count * items->strategy_count + 1, sizeof *items->item);
    items->layout_first = calloc((size_t)items->strategy_count + 1, sizeof *items->layout_first);
    items->shards_first = calloc((size_t)items->strategy_count + 1, sizeof *items->shards_first);
    if (items->item == NULL || items->layout_first == NULL || items->shards_first == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t type = 0; type < items->types->type_count; type++) {
        const gal_code code = fill_type(items, type, biases, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        items->bias_bytes += biases[shared];
    }
    items->conversion = calloc((size_t)items->types->pair_count * items->layout_count * items->layout_count + 1,
                               sizeof *items->conversion);
    return items->conversion != NULL ? GAL_OK : out_of_memory(err);
}

gal_code gal_least_items_create(const gal_cell_spec *spec, const gal_block_types *types, gal_least_items *out,
                                gal_error *err)
{
    gal_least_items items = {
        .spec = spec,
        .types = types,
        .stage_devices = spec->device_count / spec->pp_degree,
        .samples = spec->global_batch_samples / spec->microbatch_count,
        .strategy = calloc(gal_space_room(spec->space, spec->device_count / spec->pp_degree), sizeof *items.strategy),
        .first = calloc((size_t)types->type_count + 1, sizeof *items.first)};
    const gal_code code = items.strategy == NULL || items.first == NULL ? out_of_memory(err) : fill(&items, err);
    if (code != GAL_OK) {
        gal_least_items_free(&items);
        return code;
    }
    *out = items;
    return GAL_OK;
}

void gal_least_items_free(gal_least_items *items)
{
    free(items->conversion);
    free(items->shards_first);
    free(items->layout_first);
    free(items->item);
    free(items->first);
    free(items->strategy);
    *items = (gal_least_items){0};
}

/* ---- conversions ---- */

/* Of the rows, and of the tensor beside them where the block reads it. */
static gal_code price_conversion(gal_least_items *items, uint32_t block, const gal_least_item *from,
                                 const gal_least_item *to, gal_least_conversion *c, gal_error *err)
{
    const gal_block_types *types = items->types;
    const gal_block_shape *before = &types->shape[types->type_of[block - 1]];
    const gal_block_shape *behind = &types->shape[types->type_of[block]];
    const gal_strategy both[2] = {items->strategy[from->strategy], items->strategy[to->strategy]};
    const gal_price_query query = query_of(items, types->type_of[block - 1], from->strategy);
    const gal_pair_price *rows = NULL;
    const gal_pair_price *carried = NULL;
    gal_conversions most = {0};
    gal_code code = GAL_OK;
    GAL_TRY(gal_price_pair(items->spec->cache, &query, behind->type, &items->strategy[to->strategy], &rows, err));
    GAL_TRY(gal_conversions_create(items->spec->model, types, items->stage_devices, items->samples, both, 2,
                                   GAL_CONVERSIONS_LAYOUTS, &most, err));
    const size_t at = gal_conversion_index(&most, types->pair_flow[types->pair_of[block]], 0, 1);
    c->inside = larger(rows->relayout_bytes, most.inside_bytes[at]);
    c->entry = larger(rows->relayout_entry_bytes, most.entry_bytes[at]);
    if (behind->kind == GAL_BLOCK_CROSS_ATTENTION && before->carried_out.positions > 0) {
        const gal_price_query here = query_of(items, types->type_of[block], to->strategy);
        GAL_TRY(gal_price_carried(items->spec->cache, &here, &items->strategy[from->strategy], &carried, err));
        c->carried =
            larger(carried->relayout_bytes, most.entry_bytes[gal_conversion_index(&most, types->carried_flow, 0, 1)]);
    }
    c->legal = true;
cleanup:
    gal_conversions_free(&most);
    return code;
}

gal_code gal_least_convert(gal_least_items *items, uint32_t block, const gal_least_item *from, const gal_least_item *to,
                           const gal_least_conversion **out, gal_error *err)
{
    const gal_block_shape *behind = &items->types->shape[items->types->type_of[block]];
    gal_least_conversion *c =
        &items->conversion[((size_t)items->types->pair_of[block] * items->layout_count + from->layout) *
                               items->layout_count +
                           to->layout];
    *out = c;
    if (c->known) {
        return GAL_OK;
    }
    c->known = true;
    if (behind->carried_in.positions > 0 && behind->kind != GAL_BLOCK_CROSS_ATTENTION) {
        return GAL_OK; /* the rows keep their layout beside the carried tensor */
    }
    gal_error reason = {0};
    const gal_code code = price_conversion(items, block, from, to, c, &reason);
    return code == GAL_OK || gal_is_too_large(code) ? GAL_OK : gal_fail(err, code, "%s", reason.text);
}
