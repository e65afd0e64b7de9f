/* Nodes to instructions, forward and backward. One function per node kind and direction; the tables at the end are the
 * only place that lists them. */
#include "runtime/program/lower/emit.h"
#include "runtime/program/halves.h"

#include <string.h>

gal_instruction *gal_emit_collective(gal_builder *b, gal_op op, gal_stream stream, const char *name, gal_dtype dtype,
                                     gal_group group, uint64_t elements, uint32_t option)
{
    gal_shape shape = {.op = op, .dtype = dtype, .dims = {gal_builder_dim(b, elements), option}};
    gal_instruction *out = gal_builder_instruction(b, stream, name, &shape);
    bool per_member = op == GAL_OP_ALL_GATHER || op == GAL_OP_REDUCE_SCATTER || op == GAL_OP_ALL_TO_ALL;
    uint64_t members = per_member ? gal_group_size(&b->program->atoms, group) : op == GAL_OP_MIRROR ? 2 : 1;
    out->group = group;
    out->bytes = elements * members * gal_dtype_bytes(dtype);
    return out;
}

static uint16_t half_layout(gal_builder *b, const gal_layout *layout, uint32_t half)
{
    gal_layout part;
    gal_layout_half(layout, half, &part);
    return gal_builder_layout(b, &part);
}

/* GAL_NO_BUFFER has all bits set. */
static void forget_buffers(uint32_t forward[GAL_GRAPH_MAX], uint32_t backward[GAL_GRAPH_MAX],
                           uint32_t gradient[GAL_GRAPH_MAX])
{
    memset(forward, 0xFF, GAL_GRAPH_MAX * sizeof *forward);
    memset(backward, 0xFF, GAL_GRAPH_MAX * sizeof *backward);
    memset(gradient, 0xFF, GAL_GRAPH_MAX * sizeof *gradient);
}

/* Neighbours of one type under one strategy have one graph, but for the layer that it is of: it is made once. So they
 * are in the chains that are priced; in whole stages attention and FFN take turns. */
static bool is_like(const gal_block_emit *before, const gal_block_spec *block)
{
    gal_block_shape shape = before->shape;
    shape.layer = block->shape.layer;
    return before->strategy == block->strategy && memcmp(&shape, &block->shape, sizeof shape) == 0;
}

static void make_graph(const gal_builder *b, const gal_block_spec *block, const gal_mesh *mesh, gal_graph *out)
{
    const gal_atoms *atoms = &b->program->atoms;
    gal_graph_of(b->spec->model, &block->shape, out);
    if (mesh->output != GAL_GROUP_NONE) {
        gal_shard_3d(out, atoms, mesh->column, mesh->tp, mesh->output);
    } else if (mesh->column != GAL_GROUP_NONE) {
        gal_shard_2d(out, atoms, mesh->tp, mesh->column, block->strategy->stepped);
    } else {
        gal_shard_1d(out, atoms, mesh->tp, block->strategy->sequence_parallel);
        gal_shard_sequence(out, gal_strategy_sequence_axis(block->strategy), gal_group_size(atoms, mesh->sequence));
    }
}

void gal_emit_init(gal_builder *b, uint32_t index, const gal_layout *layout, const gal_block_emit *before,
                   gal_block_emit *out)
{
    const gal_block_spec *block = &b->spec->block[index];
    memset(out, 0, sizeof *out);
    out->index = index;
    out->strategy = block->strategy;
    out->mesh = gal_mesh_of(&b->program->atoms, block->strategy);
    out->layout = *layout;
    gal_layout whole = *layout, all = *layout;
    whole.sequence_group = out->mesh.sequence;
    all.sequence_group = GAL_GROUP_NONE;
    if (out->mesh.output != GAL_GROUP_NONE) {
        gal_layout turned;
        gal_layout_turn(layout, &b->program->atoms, out->mesh.tp, out->mesh.output, &turned);
        out->turned_layout = gal_builder_layout(b, &turned);
    }
    out->shape = block->shape;
    out->cut = gal_strategy_overlap_of(block->strategy, block->shape.kind) == GAL_OVERLAP_INTRA_OP;
    out->halved = gal_strategy_halves(block->strategy, block->shape.kind);
    out->samples = gal_layout_local_samples(layout) / (out->halved ? 2 : 1);
    if (out->halved) {
        out->other = (gal_emit_half){.chunk_layout = half_layout(b, layout, 1),
                                     .whole_layout = half_layout(b, &whole, 1),
                                     .all_layout = half_layout(b, &all, 1)};
        out->chunk_layout = half_layout(b, layout, 0);
        out->whole_layout = half_layout(b, &whole, 0);
        out->all_layout = half_layout(b, &all, 0);
    } else {
        out->chunk_layout = gal_builder_layout(b, layout);
        out->whole_layout = gal_builder_layout(b, &whole);
        out->all_layout = gal_builder_layout(b, &all);
    }
    const uint32_t sequence_degree = gal_group_size(&b->program->atoms, out->mesh.sequence);
    out->all_positions = block->shape.positions;
    out->sequence = out->all_positions / sequence_degree;
    out->chunk_positions = out->all_positions / gal_group_size(&b->program->atoms, layout->sequence_group);
    const gal_flow carried = block->shape.carried_in.positions > 0 ? block->shape.carried_in : block->shape.carried_out;
    out->carried_positions = carried.positions;
    out->carried_sequence = carried.positions / sequence_degree;
    out->carried_chunk = carried.positions / gal_group_size(&b->program->atoms, layout->sequence_group);
    if (before != NULL && is_like(before, block)) {
        out->graph = before->graph;
        out->graph.shape = block->shape;
    } else {
        make_graph(b, block, &out->mesh, &out->graph);
    }
    gal_recompute_policy(out);
    gal_activations_choose(b, out);
    forget_buffers(out->forward, out->backward, out->gradient);
    if (out->halved) {
        forget_buffers(out->other.forward, out->other.backward, out->other.gradient);
        out->other.pending = GAL_NO_VALUE;
        out->other.dy = out->other.dx = GAL_NO_BUFFER;
    }
    for (uint32_t u = 0; u < GAL_BLOCK_UNITS; u++) {
        out->bucket[u] = GAL_NO_BUFFER;
    }
    out->pending = out->summed = GAL_NO_VALUE;
    out->x = out->y = out->dy = out->dx = out->carried = out->dcarried = GAL_NO_BUFFER;
}
