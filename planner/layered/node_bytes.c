/* Exact bytes of a stage of layers. */
#include <stdlib.h>

#include "planner/layered/node.h"

/* Counts the blocks of the layers [begin, end) and, if block is not NULL, writes them. */
static uint32_t list_blocks(const gal_node *node, uint32_t begin, uint32_t end, const uint32_t *kind,
                            gal_stage_block *block)
{
    uint32_t count = 0;
    for (uint32_t layer = begin; layer < end; layer++) {
        const gal_kind *of = &node->table->kind[kind[layer]];
        for (uint32_t b = 0; b < node->table->query.layers->type[of->type].block_count; b++) {
            if (block != NULL) {
                block[count] = (gal_stage_block){gal_kind_memory(node->table, of, b), 0};
            }
            count++;
        }
    }
    return count;
}

static uint64_t boundary_of(const gal_node *node, uint32_t kind)
{
    const gal_kind *of = &node->table->kind[kind];
    return gal_kind_memory(node->table, of, node->table->query.layers->type[of->type].block_count - 1)->bytes.boundary;
}

gal_code gal_node_stage_bytes(const gal_node *node, const gal_node_limits *limits, uint32_t stage, uint32_t begin,
                              uint32_t end, const uint32_t *kind, uint64_t *bytes, gal_error *err)
{
    const uint32_t layers = node->table->query.layers->layer_count;
    const uint32_t blocks = list_blocks(node, begin, end, kind, NULL);
    gal_stage_block *block = calloc(blocks, sizeof *block);
    if (block == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    (void)list_blocks(node, begin, end, kind, block);
    const gal_chunk_memory chunk = {
        .block_count = blocks,
        .in_flight = gal_in_flight(limits->schedule, stage, node->numbers.pp_degree, node->numbers.microbatch_count),
        .receives = begin > 0,
        .sends = end<layers, .entry_bytes = begin> 0 ? boundary_of(node, kind[begin - 1]) : 0};
    const gal_stage_memory memory = {.microbatch_count = node->numbers.microbatch_count,
                                     .prefetch_depth = node->table->query.prefetch_depth,
                                     .chunk_count = 1,
                                     .chunk = &chunk,
                                     .block = block};
    *bytes = gal_stage_bytes(&memory);
    free(block);
    return GAL_OK;
}
