#include "planner/space/block_types.h"

#include <stdlib.h>

/* The number of a block of that shape, made if it is new. like: [type of the model] */
static uint32_t number_of(gal_block_types *types, const uint32_t *like, const gal_block_shape *shape)
{
    uint32_t type = 0;
    while (type < types->type_count && (like[types->shape[type].type] != like[shape->type] ||
                                        types->shape[type].carried_in.positions != shape->carried_in.positions ||
                                        types->shape[type].carried_out.positions != shape->carried_out.positions)) {
        type++;
    }
    if (type == types->type_count) {
        types->shape[types->type_count++] = *shape;
    }
    return type;
}

static uint32_t first_like(const gal_block_types *types, const uint32_t *like, uint32_t type)
{
    uint32_t first = 0;
    while (like[types->shape[first].type] != like[types->shape[type].type]) {
        first++;
    }
    return first;
}

static uint32_t flow_like(gal_block_types *types, gal_flow rows)
{
    uint32_t flow = 0;
    while (flow < types->flow_count &&
           (types->flow[flow].positions != rows.positions || types->flow[flow].features != rows.features)) {
        flow++;
    }
    if (flow == types->flow_count) {
        types->flow[types->flow_count++] = rows;
    }
    return flow;
}

static uint32_t pair_like(const gal_block_types *types, uint32_t block)
{
    uint32_t pair = 0;
    while (pair < types->pair_count && (types->type_of[types->pair_first[pair] - 1] != types->type_of[block - 1] ||
                                        types->type_of[types->pair_first[pair]] != types->type_of[block])) {
        pair++;
    }
    return pair;
}

static void number_types(const gal_model *model, const gal_durations *durations, gal_block_types *types)
{
    uint32_t like[GAL_TYPES_MAX], tables = 0;
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        like[type] = gal_price_type_like(model, durations, type);
    }
    for (uint32_t i = 0; i < types->block_count; i++) {
        gal_block_shape shape;
        gal_model_block(model, i, &shape);
        const uint32_t known = types->type_count;
        types->type_of[i] = number_of(types, like, &shape);
        types->type_sides[types->type_of[i]] |= i % 2 == 0 ? GAL_SIDE_EVEN : GAL_SIDE_ODD;
        if (types->type_count > known) {
            types->type_first[known] = i;
            types->type_like[known] = first_like(types, like, known);
        }
        tables += shape.shared >> GAL_SHARED_TABLE & 1U;
    }
    types->table_shared = tables > 1;
    types->alternates = true;
    for (uint32_t i = 3; i + 1 < types->block_count; i++) {
        types->alternates = types->alternates && types->type_of[i] == types->type_of[i - 2];
    }
}

static void number_pairs(gal_block_types *types)
{
    for (uint32_t i = 1; i < types->block_count; i++) {
        const uint32_t pair = pair_like(types, i);
        if (pair == types->pair_count) {
            types->pair_first[types->pair_count] = i;
            types->pair_flow[types->pair_count++] = flow_like(types, types->shape[types->type_of[i]].in);
        }
        const gal_flow carried = types->shape[types->type_of[i]].carried_in;
        types->carried_flow = carried.positions > 0 ? flow_like(types, carried) : types->carried_flow;
        types->pair_of[i] = pair;
        types->pair_repeats[pair]++;
    }
}

gal_code gal_block_types_create(const gal_model *model, const gal_durations *durations, gal_block_types *out,
                                gal_error *err)
{
    const uint32_t blocks = gal_model_block_count(model);
    gal_block_types types = {.block_count = blocks,
                             .type_of = calloc(blocks, sizeof *types.type_of),
                             .pair_of = calloc(blocks, sizeof *types.pair_of),
                             .type_first = calloc(blocks, sizeof *types.type_first),
                             .type_sides = calloc(blocks, sizeof *types.type_sides),
                             .type_like = calloc(blocks, sizeof *types.type_like),
                             .pair_first = calloc(blocks, sizeof *types.pair_first),
                             .pair_repeats = calloc(blocks, sizeof *types.pair_repeats),
                             .pair_flow = calloc(blocks, sizeof *types.pair_flow),
                             .flow = calloc(blocks, sizeof *types.flow),
                             .shape = calloc(blocks, sizeof *types.shape)};
    if (types.type_of == NULL || types.pair_of == NULL || types.type_first == NULL || types.type_like == NULL ||
        types.type_sides == NULL || types.pair_first == NULL || types.pair_repeats == NULL || types.pair_flow == NULL ||
        types.flow == NULL || types.shape == NULL) {
        gal_block_types_free(&types);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    number_types(model, durations, &types);
    number_pairs(&types);
    *out = types;
    return GAL_OK;
}

void gal_block_types_free(gal_block_types *types)
{
    free(types->shape);
    free(types->flow);
    free(types->pair_flow);
    free(types->pair_repeats);
    free(types->pair_first);
    free(types->type_like);
    free(types->type_sides);
    free(types->type_first);
    free(types->pair_of);
    free(types->type_of);
    *types = (gal_block_types){0};
}
