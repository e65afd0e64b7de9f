#include "planner/block_types.h"

#include <stdlib.h>

static uint32_t pair_like(const gal_block_types *types, uint32_t block)
{
    uint32_t pair = 0;
    while (pair < types->pair_count && (types->type_of[types->pair_first[pair] - 1] != types->type_of[block - 1] ||
                                        types->type_of[types->pair_first[pair]] != types->type_of[block])) {
        pair++;
    }
    return pair;
}

static void number(const gal_model *model, gal_block_types *types)
{
    for (uint32_t i = types->block_count; i-- > 0;) {
        gal_block_shape shape;
        gal_model_block(model, i, &shape);
        types->type_of[i] = shape.type;
        types->type_first[shape.type] = i;
        types->kind[shape.type] = shape.kind;
    }
    types->alternates = true;
    for (uint32_t i = 3; i + 1 < types->block_count; i++) {
        types->alternates = types->alternates && types->type_of[i] == types->type_of[i - 2];
    }
    for (uint32_t i = 1; i < types->block_count; i++) {
        const uint32_t pair = pair_like(types, i);
        if (pair == types->pair_count) {
            types->pair_first[types->pair_count++] = i;
        }
        types->pair_of[i] = pair;
        types->pair_repeats[pair]++;
    }
}

gal_code gal_block_types_create(const gal_model *model, gal_block_types *out, gal_error *err)
{
    const uint32_t blocks = gal_model_block_count(model), count = gal_model_type_count(model);
    GAL_ASSERT(count <= GAL_TYPES_MAX);
    gal_block_types types = {.block_count = blocks,
                             .type_count = count,
                             .type_of = calloc(blocks, sizeof *types.type_of),
                             .pair_of = calloc(blocks, sizeof *types.pair_of),
                             .type_first = calloc(count, sizeof *types.type_first),
                             .pair_first = calloc(blocks, sizeof *types.pair_first),
                             .pair_repeats = calloc(blocks, sizeof *types.pair_repeats),
                             .kind = calloc(count, sizeof *types.kind)};
    if (types.type_of == NULL || types.pair_of == NULL || types.type_first == NULL || types.pair_first == NULL ||
        types.pair_repeats == NULL || types.kind == NULL) {
        gal_block_types_free(&types);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    number(model, &types);
    *out = types;
    return GAL_OK;
}

void gal_block_types_free(gal_block_types *types)
{
    free(types->kind);
    free(types->pair_repeats);
    free(types->pair_first);
    free(types->type_first);
    free(types->pair_of);
    free(types->type_of);
    *types = (gal_block_types){0};
}
