/* The forward of attention: its shapes, rotary positions, and its rules by what it is among. */
#include "runtime/program/lower/emit_nodes.h"

/* Within windows of a grid. */
static gal_shape window_shape(const gal_builder *b, const gal_block_emit *e, bool backward)
{
    const gal_block_shape *shape = &e->shape;
    return (gal_shape){.op = backward ? GAL_OP_WINDOW_ATTENTION_BACKWARD : GAL_OP_WINDOW_ATTENTION,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->all_positions, gal_emit_heads(e, shape->head_count), shape->head_dim,
                                shape->side, shape->window, shape->shift}};
}

/* With a table of buckets of distances. */
static gal_shape relative_shape(const gal_builder *b, const gal_block_emit *e, bool backward)
{
    const gal_model *model = gal_emit_model(b);
    return (gal_shape){.op = backward ? GAL_OP_RELATIVE_ATTENTION_BACKWARD : GAL_OP_RELATIVE_ATTENTION,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->all_positions, gal_emit_heads(e, e->shape.head_count), e->shape.head_dim,
                                e->shape.decodes, model->relative_bucket_count, model->relative_max_distance}};
}

gal_shape gal_emit_attention_shape(const gal_builder *b, const gal_block_emit *e, bool backward, const gal_node *n)
{
    const gal_block_shape *shape = &e->shape;
    if (n->weight != GAL_NO_VALUE) {
        return (shape->window > 0 ? window_shape : relative_shape)(b, e, backward);
    }
    return (gal_shape){.op = backward ? GAL_OP_ATTENTION_BACKWARD : GAL_OP_ATTENTION,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->all_positions, gal_emit_heads(e, shape->head_count), shape->head_dim,
                                gal_emit_heads(e, shape->kv_head_count), n->attention_flags}};
}

uint32_t gal_emit_lengths(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    return n->in[2] != GAL_NO_VALUE ? gal_emit_input(b, e, at, n->in[2]) : GAL_NO_BUFFER;
}

void gal_emit_read_lengths(gal_builder *b, const gal_block_emit *e, uint32_t lengths, const gal_node *n)
{
    if (lengths != GAL_NO_BUFFER) {
        gal_emit_read(b, e, lengths, n->in[2]);
    }
}

/* Queries and keys turned in place: forward, or back. */
void gal_emit_turn(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t buffer, uint8_t value,
                   bool inverse)
{
    const uint32_t heads = (e->shape.head_count + e->shape.kv_head_count) / e->graph.tp_degree;
    gal_shape shape = {
        .op = GAL_OP_ROTARY,
        .dtype = b->program->dtype,
        .dims = {e->samples, e->sequence, heads, e->shape.head_dim, e->graph.value[value].features, inverse}};
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape);
    i->group = e->mesh.tp;
    i->layout = gal_emit_layout(e, value);
    gal_emit_access(b, e, buffer, value, GAL_UPDATE);
}

void gal_emit_forward_rotary(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t buffer = gal_emit_input(b, e, at, n->in[0]);
    gal_emit_turn(b, e, n->name, buffer, n->in[0], false);
    at.buffer[n->out[0]] = buffer;
}

void gal_emit_forward_attention(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    const bool biased = n->weight != GAL_NO_VALUE;
    uint32_t qkv = gal_emit_input(b, e, at, n->in[0]);
    uint32_t lengths = gal_emit_lengths(b, e, at, n);
    gal_operand bias = biased ? gal_zero_weight(b, e, n->weight) : (gal_operand){0};
    uint32_t ctx = gal_emit_output(b, e, at, n->out[0]);
    uint32_t lse = gal_emit_output(b, e, at, n->out[1]);
    gal_shape shape = gal_emit_attention_shape(b, e, false, n);
    gal_emit_place_heads(e, gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape), n->in[0]);
    gal_emit_read(b, e, qkv, n->in[0]);
    if (biased) {
        gal_builder_operand_at(b, &bias);
    }
    gal_emit_access(b, e, ctx, n->out[0], GAL_WRITE);
    gal_emit_access(b, e, lse, n->out[1], GAL_WRITE);
    gal_emit_read_lengths(b, e, lengths, n);
}

gal_shape gal_emit_cross_shape(const gal_builder *b, const gal_block_emit *e, gal_op op)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->all_positions, gal_emit_heads(e, e->shape.head_count), e->shape.head_dim,
                                e->carried_positions}};
}

void gal_emit_forward_cross_attention(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t q = gal_emit_input(b, e, at, n->in[0]);
    uint32_t kv = gal_emit_input(b, e, at, n->in[1]);
    uint32_t lengths = gal_emit_lengths(b, e, at, n);
    uint32_t ctx = gal_emit_output(b, e, at, n->out[0]);
    uint32_t lse = gal_emit_output(b, e, at, n->out[1]);
    gal_shape shape = gal_emit_cross_shape(b, e, GAL_OP_CROSS_ATTENTION);
    gal_emit_place_heads(e, gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape), n->in[0]);
    gal_emit_read(b, e, q, n->in[0]);
    gal_emit_read(b, e, kv, n->in[1]);
    gal_emit_access(b, e, ctx, n->out[0], GAL_WRITE);
    gal_emit_access(b, e, lse, n->out[1], GAL_WRITE);
    gal_emit_read_lengths(b, e, lengths, n);
}

void gal_emit_forward_ring_attention(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t qkv = gal_emit_input(b, e, at, n->in[0]);
    uint32_t ctx = gal_emit_output(b, e, at, n->out[0]);
    uint32_t lse = gal_emit_output(b, e, at, n->out[1]);
    gal_emit_ring(b, e, n, qkv, ctx, lse);
}
