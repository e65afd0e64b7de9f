/* Exact bytes of a stage of layers. */
#include <stdlib.h>

#include "planner/layered/node.h"

typedef struct stage_blocks {
    const gal_node *node;
    const uint32_t *kind; /* [layer] */
    uint32_t stage, begin, end;
    uint32_t count;
    gal_stage_block *block; /* owned */
} stage_blocks;

static const gal_kind *kind_of(const stage_blocks *s, uint32_t layer)
{
    return &s->node->table->kind[s->kind[layer]];
}

static uint32_t last_block(const gal_node *node, const gal_kind *kind)
{
    return node->table->query.layers->type[kind->type].block_count - 1;
}

/* What it takes to convert the rows between two layers; *pair: NULL: they lie alike. */
static gal_code find_pair(const stage_blocks *s, uint32_t layer, const gal_pair_price **pair, gal_error *err)
{
    const gal_kind_table *table = s->node->table;
    const gal_kind_query *q = &table->query;
    const gal_kind *from = kind_of(s, layer - 1), *to = kind_of(s, layer);
    const uint32_t *rows = q->meshes->rows_of;
    *pair = NULL;
    if (rows[from->strategy[GAL_HALF_FFN]] == rows[to->strategy[GAL_HALF_ATTENTION]]) {
        return GAL_OK;
    }
    const uint32_t block = last_block(s->node, from);
    const gal_price_query query = {.type = q->layers->type[from->type].shape[block].type,
                                   .strategy = gal_kind_strategy(table, from, block),
                                   .device_count = q->device_count,
                                   .stage = s->stage,
                                   .stage_count = q->stage_count,
                                   .microbatch_samples = q->microbatch_samples,
                                   .prefetch_depth = q->prefetch_depth};
    return gal_price_pair(q->cache, &query, q->layers->type[to->type].shape[0].type, gal_kind_strategy(table, to, 0),
                          pair, err);
}

static gal_code list_blocks(stage_blocks *s, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t layer = s->begin; layer < s->end && code == GAL_OK; layer++) {
        const gal_kind *kind = kind_of(s, layer);
        const gal_pair_price *pair = NULL;
        code = layer > 0 ? find_pair(s, layer, &pair, err) : GAL_OK;
        for (uint32_t b = 0; b <= last_block(s->node, kind); b++) {
            s->block[s->count++] = (gal_stage_block){gal_kind_memory(s->node->table, kind, b), 0};
        }
        if (pair != NULL) {
            s->block[s->count - 1 - last_block(s->node, kind)].relayout_bytes =
                layer == s->begin ? pair->relayout_entry_bytes : pair->relayout_bytes;
        }
    }
    return code;
}

gal_code gal_node_stage_bytes(const gal_node *node, const gal_node_limits *limits, uint32_t stage, uint32_t begin,
                              uint32_t end, const uint32_t *kind, uint64_t *bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t layers = node->table->query.layers->layer_count;
    const uint32_t m = node->numbers.microbatch_count;
    stage_blocks s = {.node = node, .kind = kind, .stage = stage, .begin = begin, .end = end};
    const gal_pair_price *entry = NULL;
    gal_chunk_memory chunk = {.receives = begin > 0};
    s.block = calloc((size_t)(end - begin) * GAL_LAYER_BLOCKS_MAX, sizeof *s.block);
    if (s.block == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(list_blocks(&s, err));
    chunk.block_count = s.count;
    chunk.in_flight = gal_in_flight(limits->schedule, stage, node->numbers.pp_degree, m);
    chunk.sends = layers > end;
    if (begin > 0) {
        const gal_kind *sender = kind_of(&s, begin - 1);
        chunk.entry_bytes = gal_kind_memory(node->table, sender, last_block(node, sender))->bytes.boundary;
        GAL_TRY(find_pair(&s, begin, &entry, err));
        chunk.converts_entry = entry != NULL;
    }
    const gal_stage_memory memory = {.microbatch_count = m,
                                     .prefetch_depth = node->table->query.prefetch_depth,
                                     .chunk_count = 1,
                                     .chunk = &chunk,
                                     .block = s.block};
    *bytes = gal_stage_bytes(&memory);
cleanup:
    free(s.block);
    return code;
}
