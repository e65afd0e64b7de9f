/* What the files that turn nodes into instructions share: emit_forward.c, emit_backward.c, emit_parts.c. For them
 * alone.
 */
#ifndef GAL_RUNTIME_PROGRAM_LOWER_EMIT_NODES_H
#define GAL_RUNTIME_PROGRAM_LOWER_EMIT_NODES_H

#include "runtime/program/lower/emit.h"

static inline const gal_model *gal_emit_model(const gal_builder *b)
{
    return b->spec->model;
}

static inline uint32_t gal_emit_positions(const gal_block_emit *e, uint8_t value)
{
    const gal_value *v = &e->graph.value[value];
    if (v->single) {
        return 1;
    }
    if (v->carried) {
        return v->dealt ? e->carried_positions : v->chunk ? e->carried_chunk : e->carried_sequence;
    }
    return (v->dealt ? e->all_positions : v->chunk ? e->chunk_positions : e->sequence) / (v->merged ? 4 : 1);
}

/* The program layout of rows that Megatron's chunks do not cut; of one device's rows. */
static inline uint16_t gal_emit_layout(const gal_block_emit *e, uint8_t value)
{
    const gal_value *v = &e->graph.value[value];
    return v->turned ? e->turned_layout : v->single || v->dealt ? e->all_layout : e->whole_layout;
}

/* Heads of a device in attention, of so many in the block. */
static inline uint32_t gal_emit_heads(const gal_block_emit *e, uint32_t heads)
{
    return heads / e->graph.head_degree;
}

/* Where the heads of an instruction lie. */
static inline void gal_emit_place_heads(const gal_block_emit *e, gal_instruction *i, uint8_t value)
{
    i->group = e->mesh.tp;
    i->within = e->graph.value[value].dealt ? e->mesh.sequence : GAL_GROUP_NONE;
    i->layout = gal_emit_layout(e, value);
}

static inline uint32_t gal_emit_rows(const gal_block_emit *e, uint8_t value)
{
    const uint32_t blocks = e->graph.value[value].row_blocks;
    return gal_emit_positions(e, value) * e->samples * (blocks > 0 ? blocks : 1);
}

static inline uint64_t gal_emit_bytes(const gal_builder *b, const gal_block_emit *e, uint8_t value)
{
    const gal_value *v = &e->graph.value[value];
    const gal_dtype dtype = v->int32 ? GAL_I32 : v->wide ? gal_dtype_wide(b->program->dtype) : b->program->dtype;
    return (uint64_t)gal_emit_rows(e, value) * v->features * gal_dtype_bytes(dtype);
}

/* ---- operands: the whole value, in a buffer that holds it ---- */

/* Where a value lies in its buffer: the second sub-batch's part of a port is behind the first's. */
static inline gal_operand gal_emit_whole(const gal_builder *b, const gal_block_emit *e, uint32_t buffer, uint8_t value)
{
    const bool shared =
        buffer == e->x || buffer == e->y || (buffer == e->dy && !e->dy_apart) || (buffer == e->dx && !e->dx_apart);
    const uint64_t bytes = gal_emit_bytes(b, e, value);
    if (buffer == e->staged && buffer != GAL_NO_BUFFER) {
        return (gal_operand){
            .buffer = buffer, .offset_bytes = e->staged_offset[gal_graph_storage(&e->graph, value)], .bytes = bytes};
    }
    return (gal_operand){.buffer = buffer, .offset_bytes = e->half == 1 && shared ? bytes : 0, .bytes = bytes};
}

static inline void gal_emit_read(gal_builder *b, const gal_block_emit *e, uint32_t buffer, uint8_t value)
{
    const gal_operand operand = gal_emit_whole(b, e, buffer, value); /* GAL_READ is 0 */
    gal_builder_operand_at(b, &operand);
}

static inline void gal_emit_access(gal_builder *b, const gal_block_emit *e, uint32_t buffer, uint8_t value,
                                   gal_access access)
{
    gal_operand operand = gal_emit_whole(b, e, buffer, value);
    operand.access = (uint8_t)access;
    gal_builder_operand_at(b, &operand);
}

static inline uint32_t gal_emit_work(gal_builder *b, const gal_block_emit *e, const char *name, uint64_t bytes)
{
    return gal_builder_buffer(b, GAL_CLASS_WORK, e->index, name, bytes);
}

/* ---- emit_forward.c ---- */

/* Where a forward is being issued: in the forward fragment, or again inside backward. */
typedef struct gal_emit_place {
    uint32_t *buffer; /* value -> buffer */
    bool again;
} gal_emit_place;

static inline gal_emit_place gal_emit_again(gal_block_emit *e)
{
    return (gal_emit_place){e->backward, true};
}

/* The instructions of node `index`. */
void gal_emit_node(gal_builder *b, gal_block_emit *e, gal_emit_place at, uint8_t index);
/* The value's buffer, running its producer again where it was not kept. */
uint32_t gal_emit_input(gal_builder *b, gal_block_emit *e, gal_emit_place at, uint8_t value);
/* The buffer that a node writes its value to: kept until backward, or of work. */
uint32_t gal_emit_output(gal_builder *b, gal_block_emit *e, gal_emit_place at, uint8_t value);
/* One matrix, or a panel of several: part t begins t * bytes behind the first. */
typedef struct gal_panel {
    gal_operand first;
    uint64_t stride_bytes;
} gal_panel;

/* What the products of a linear read and write, part by part: its input, its weight, its output; count >= 1. */
typedef struct gal_linear_panels {
    uint32_t count;
    gal_panel in, weight, out;
} gal_linear_panels;

/* x and y are the buffers of its input and output, or of their gradients; weight that, or its gradient's. */
gal_linear_panels gal_emit_panels(gal_builder *b, const gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t y,
                                  const gal_operand *weight);
void gal_emit_part(gal_builder *b, const gal_panel *panel, uint32_t t, gal_access access);

/* ---- emit_chunks.c ---- */

/* Into how many parts the rows of a linear's product go, each summed over devices as soon as it is there: forward, or
 * of its input's gradient. */
uint32_t gal_emit_forward_chunks(const gal_block_emit *e, const gal_node *n);
uint32_t gal_emit_gradient_chunks(const gal_block_emit *e, const gal_node *n);
/* Part c of so many of the rows of a matrix. */
gal_panel gal_emit_chunk(const gal_panel *panel, uint32_t c, uint32_t chunks);
/* Behind the product that has written part c: its sum. `value`: what it is a part of, or the gradient of. */
void gal_emit_chunk_sum(gal_builder *b, gal_block_emit *e, const char *name, uint8_t value, const gal_panel *part);

/* ---- emit_stepped.c: linears in steps (gal_node.steps). x, y, dx, dy: buffers of input, output, their gradients ----
 */

void gal_emit_stepped_forward(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t y);
/* adds, where the parts are of the output: to what dx has; else dx is written. */
void gal_emit_stepped_input_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t dy, uint32_t dx,
                                     bool adds);
void gal_emit_stepped_weight_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t dy);

/* ---- emit_norm.c: norms of rows whose features are split ---- */

/* vectors: gain, and bias or nothing. */
void gal_emit_norm_parts(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, const gal_operand *vectors,
                         uint32_t y, uint32_t stats);
/* addend GAL_NO_BUFFER: none. gradients: of the vectors. */
void gal_emit_norm_parts_backward(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t stats,
                                  const gal_operand *gain, const gal_operand *gradients, uint32_t addend, uint32_t dx);

/* A kernel that is told which rows this device holds, and which part of their features. */
void gal_emit_by_rows(gal_builder *b, const gal_block_emit *e, const char *name, const gal_shape *shape);
/* Devices that have other parts of the vocabulary of the table that an embedding reads. */
gal_group gal_emit_table_group(const gal_block_emit *e, const gal_node *n);
/* Shapes that a node has forward and backward. */
gal_shape gal_emit_embed_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n);
gal_shape gal_emit_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n);
gal_shape gal_emit_attention_shape(const gal_builder *b, const gal_block_emit *e, bool backward, const gal_node *n);
gal_shape gal_emit_cross_shape(const gal_builder *b, const gal_block_emit *e, gal_op op);
gal_shape gal_emit_activation_shape(gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t value);
gal_shape gal_emit_gated_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n);
gal_shape gal_emit_first_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n);
gal_shape gal_emit_mean_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n);
gal_shape gal_emit_merge_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n);
gal_shape gal_emit_vocabulary_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t logits);
/* The lengths of samples that an attention reads: their buffer, GAL_NO_BUFFER where it reads none; and its operand. */
uint32_t gal_emit_lengths(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n);
void gal_emit_read_lengths(gal_builder *b, const gal_block_emit *e, uint32_t lengths, const gal_node *n);
/* Queries and keys turned in place: forward, or back. */
void gal_emit_turn(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t buffer, uint8_t value,
                   bool inverse);
/* A value divided in place by the root of the features. */
void gal_emit_scale(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t buffer, uint8_t value);
/* The residual's mask on rows of a value: forward, or of their gradient. */
void gal_emit_dropout(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t from, uint32_t to,
                      uint8_t value);
/* emit_turn.c: rows as before a product on a 3d grid, from those behind it, or the reverse. */
void gal_emit_turn_rows(gal_builder *b, gal_block_emit *e, uint32_t from, uint8_t source, uint32_t to, uint8_t target);
/* Gathers or scatters chunks of the positions. */
void gal_emit_move_sequence(gal_builder *b, gal_block_emit *e, const gal_node *n, gal_op op, const char *name,
                            uint32_t from, uint8_t source, uint32_t to, uint8_t target);

/* Buffers of a ring attention's backward. */
typedef struct gal_ring_backward {
    uint32_t dctx, qkv, ctx, lse, dqkv;
} gal_ring_backward;

/* ---- emit_attention.c ---- */

void gal_emit_forward_rotary(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n);
void gal_emit_forward_attention(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n);
void gal_emit_forward_cross_attention(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n);
void gal_emit_forward_ring_attention(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n);

/* ---- emit_exchange.c ---- */

/* All heads of a chunk of the positions to all positions of own heads, by an all_to_all; and back. */
void gal_emit_deal(gal_builder *b, gal_block_emit *e, const char *name, const uint32_t part[GAL_FEATURE_PARTS],
                   uint32_t from, uint8_t source, uint32_t to, uint8_t target);
void gal_emit_collect(gal_builder *b, gal_block_emit *e, const char *name, const uint32_t part[GAL_FEATURE_PARTS],
                      uint32_t from, uint8_t source, uint32_t to, uint8_t target);

/* ---- emit_ring.c ---- */

/* The second half of the positions from the mirror of this device, the first from itself. */
void gal_emit_mirror(gal_builder *b, gal_block_emit *e, const char *name, uint32_t from, uint8_t source, uint32_t to,
                     uint8_t target);

/* Attention of the queries of a chunk with the keys and values of all chunks, which pass round; and its backward. */
void gal_emit_ring(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t qkv, uint32_t ctx, uint32_t lse);
void gal_emit_ring_backward(gal_builder *b, gal_block_emit *e, const gal_node *n, const gal_ring_backward *of);

/* ---- emit_backward.c ---- */

/* What the weight part of a linear starts from: its input, or what that is gathered from. */
uint8_t gal_emit_weight_source(const gal_block_emit *e, const gal_node *n);
/* Column sums of dy, the gradient of `value`. */
void gal_emit_bias_gradient(gal_builder *b, gal_block_emit *e, uint8_t tensor, uint32_t dy, uint8_t value,
                            const char *name);
/* Issues the weight gradient that is still to be issued, if any. */
void gal_emit_pending(gal_builder *b, gal_block_emit *e);

#endif
