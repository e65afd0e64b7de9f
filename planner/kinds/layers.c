#include "planner/kinds/layers.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/alike.h"

static bool stands_alone(gal_block_kind kind)
{
    return kind == GAL_BLOCK_EMBEDDING || kind == GAL_BLOCK_BRIDGE || kind == GAL_BLOCK_MERGE || kind == GAL_BLOCK_HEAD;
}

/* The layer that begins at a block; *end is the block behind it. */
static gal_layer_type layer_at(const gal_model *model, uint32_t block, uint32_t *end)
{
    gal_layer_type layer = {.block_count = 0};
    bool closed = false;
    for (*end = block; !closed; ++*end) {
        GAL_ASSERT(layer.block_count < GAL_LAYER_BLOCKS_MAX);
        gal_block_shape *shape = &layer.shape[layer.block_count];
        gal_model_block(model, *end, shape);
        layer.half[layer.block_count++] = shape->kind == GAL_BLOCK_FFN ? GAL_HALF_FFN : GAL_HALF_ATTENTION;
        layer.alone = stands_alone(shape->kind);
        layer.holds_table = layer.holds_table || (shape->shared >> GAL_SHARED_TABLE & 1U) != 0;
        closed = layer.alone || shape->kind == GAL_BLOCK_FFN;
    }
    return layer;
}

static bool carries_alike(const gal_block_shape *a, const gal_block_shape *b)
{
    return a->carried_in.positions == b->carried_in.positions && a->carried_out.positions == b->carried_out.positions;
}

/* like: [type of block]: gal_price_type_like. */
static bool are_alike(const gal_layer_type *a, const gal_layer_type *b, const uint32_t *like)
{
    bool alike = a->block_count == b->block_count;
    for (uint32_t i = 0; i < a->block_count && alike; i++) {
        alike = like[a->shape[i].type] == like[b->shape[i].type] && carries_alike(&a->shape[i], &b->shape[i]);
    }
    return alike;
}

static gal_code add_layer(gal_layers *layers, const gal_layer_type *layer, const uint32_t *like, gal_error *err)
{
    uint32_t type = 0;
    while (type < layers->type_count && !are_alike(layer, &layers->type[type], like)) {
        type++;
    }
    if (type == GAL_LAYER_TYPES_MAX) {
        return gal_fail(err, GAL_NO, "the model has more than %d types of layers", GAL_LAYER_TYPES_MAX);
    }
    if (type == layers->type_count) {
        layers->type[type] = *layer;
        layers->type[type].first_layer = layers->layer_count;
        layers->type_count++;
    }
    layers->type_of[layers->layer_count++] = type;
    return GAL_OK;
}

gal_code gal_layers_create(const gal_model *model, const gal_durations *durations, gal_layers *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_layers layers = {0};
    uint32_t like[GAL_TYPES_MAX], tables = 0;
    const uint32_t blocks = gal_model_block_count(model);
    layers.type_of = calloc(blocks, sizeof *layers.type_of);
    layers.first_block = calloc((size_t)blocks + 1, sizeof *layers.first_block);
    if (layers.type_of == NULL || layers.first_block == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        like[type] = gal_price_type_like(model, durations, type);
    }
    for (uint32_t block = 0, end = 0; block < blocks; block = end) {
        const gal_layer_type layer = layer_at(model, block, &end);
        tables += layer.holds_table;
        GAL_TRY(add_layer(&layers, &layer, like, err));
        layers.first_block[layers.layer_count] = end;
    }
    layers.table_shared = tables > 1;
    *out = layers;
    memset(&layers, 0, sizeof layers);
cleanup:
    gal_layers_free(&layers);
    return code;
}

void gal_layers_free(gal_layers *layers)
{
    free(layers->type_of);
    free(layers->first_block);
    memset(layers, 0, sizeof *layers);
}
