/* Products cut in two by rows (schemas/plan.h, overlap intra_op), where a collective sums what they give: each half is
 * summed as soon as it is there, the first one beside the product of the second. Rows are positions first, so a half is
 * one of the positions. Halves of one buffer, which waits.c keeps apart. */
#include "runtime/program/lower/emit_nodes.h"

enum { CHUNKS = 2 };

static uint32_t chunks_of(const gal_block_emit *e, const gal_node *linear, const gal_node *sum, uint8_t value)
{
    const bool summed = e->cut && linear->kind == GAL_NODE_LINEAR && linear->in_panel == 0 && linear->out_panel == 0;
    return summed && sum->over == GAL_GROUP_NONE && !sum->over_sequence && gal_emit_positions(e, value) % CHUNKS == 0
               ? CHUNKS
               : 1;
}

uint32_t gal_emit_forward_chunks(const gal_block_emit *e, const gal_node *n)
{
    const gal_node *next = n + 1, *end = e->graph.node + e->graph.node_count;
    const bool summed = next < end && next->kind == GAL_NODE_REDUCE && next->in[0] == n->out[0];
    return summed ? chunks_of(e, n, next, n->out[0]) : 1;
}

uint32_t gal_emit_gradient_chunks(const gal_block_emit *e, const gal_node *n)
{
    const gal_node *before = n > e->graph.node ? n - 1 : n;
    const bool summed = before->kind == GAL_NODE_SPLIT && before->out[0] == n->in[0];
    return summed && e->gradient[n->in[0]] == GAL_NO_BUFFER ? chunks_of(e, n, before, n->in[0]) : 1;
}

gal_panel gal_emit_chunk(const gal_panel *panel, uint32_t c, uint32_t chunks)
{
    gal_panel part = *panel;
    part.first.bytes /= chunks;
    part.first.offset_bytes += c * part.first.bytes;
    return part;
}

void gal_emit_chunk_sum(gal_builder *b, gal_block_emit *e, const char *name, uint8_t value, const gal_panel *part)
{
    const uint64_t elements = (uint64_t)gal_emit_rows(e, value) * e->graph.value[value].features / CHUNKS;
    gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, name, b->program->dtype, e->mesh.tp, elements,
                        GAL_REDUCE_SUM);
    gal_emit_part(b, part, 0, GAL_UPDATE);
    e->summed = value;
    if (!b->out_of_memory) {
        b->program->buffer[part->first.buffer].cut_bytes = part->first.bytes;
    }
}
