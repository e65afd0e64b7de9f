/* Nodes to instructions, forward and backward. One function per node kind and direction; the tables at the end are the
 * only place that lists them. */
#include "runtime/program/emit.h"

#include <string.h>

gal_instruction *gal_emit_collective(gal_builder *b, gal_op op, gal_stream stream, const char *name, gal_dtype dtype,
                                     gal_group group, uint64_t elements, uint32_t option)
{
    gal_shape shape = {.op = op, .dtype = dtype, .dims = {gal_builder_dim(b, elements), option}};
    gal_instruction *out = gal_builder_instruction(b, stream, name, &shape);
    bool per_member = op == GAL_OP_ALL_GATHER || op == GAL_OP_REDUCE_SCATTER || op == GAL_OP_ALL_TO_ALL;
    uint64_t members = per_member ? gal_group_size(&b->program->atoms, group) : 1;
    out->group = group;
    out->bytes = elements * members * gal_dtype_bytes(dtype);
    return out;
}

static const gal_model *model_of(const gal_builder *b)
{
    return b->spec->model;
}

static uint32_t positions_of(const gal_block_emit *e, uint8_t value)
{
    const gal_value *v = &e->graph.value[value];
    return v->single    ? 1
           : v->carried ? (v->chunk ? e->carried_chunk : e->carried_sequence)
                        : (v->chunk ? e->chunk_positions : e->sequence);
}

static uint32_t rows_of(const gal_block_emit *e, uint8_t value)
{
    return positions_of(e, value) * e->samples;
}

static uint64_t bytes_of(const gal_builder *b, const gal_block_emit *e, uint8_t value)
{
    gal_dtype dtype = e->graph.value[value].int32 ? GAL_I32 : b->program->dtype;
    return (uint64_t)rows_of(e, value) * e->graph.value[value].features * gal_dtype_bytes(dtype);
}

void gal_emit_init(gal_builder *b, uint32_t index, const gal_layout *layout, gal_block_emit *out)
{
    const gal_block_spec *block = &b->spec->block[index];
    memset(out, 0, sizeof *out);
    out->index = index;
    out->strategy = block->strategy;
    out->mesh = gal_mesh_of(&b->program->atoms, block->strategy);
    out->layout = *layout;
    gal_layout whole = *layout;
    whole.sequence_group = GAL_GROUP_NONE;
    out->chunk_layout = gal_builder_layout(b, layout);
    out->whole_layout = gal_builder_layout(b, &whole);
    out->samples = gal_layout_local_samples(layout);
    out->shape = block->shape;
    out->sequence = block->shape.positions;
    out->chunk_positions = out->sequence / gal_group_size(&b->program->atoms, layout->sequence_group);
    const gal_flow carried = block->shape.carried_in.positions > 0 ? block->shape.carried_in : block->shape.carried_out;
    out->carried_sequence = carried.positions;
    out->carried_chunk = carried.positions / gal_group_size(&b->program->atoms, layout->sequence_group);
    gal_graph_of(b->spec->model, &block->shape, &out->graph);
    gal_shard_1d(&out->graph, gal_group_size(&b->program->atoms, out->mesh.tp), block->strategy->sequence_parallel);
    gal_recompute_policy(out);
    for (uint32_t v = 0; v < GAL_GRAPH_MAX; v++) {
        out->forward[v] = GAL_NO_BUFFER;
        out->backward[v] = GAL_NO_BUFFER;
        out->gradient[v] = GAL_NO_BUFFER;
    }
    for (uint32_t u = 0; u < GAL_BLOCK_UNITS; u++) {
        out->bucket[u] = GAL_NO_BUFFER;
    }
    out->pending = GAL_NO_VALUE;
    out->x = out->y = out->dy = out->dx = out->carried = out->dcarried = GAL_NO_BUFFER;
}

/* ---- operands ---- */

static void read_value(gal_builder *b, const gal_block_emit *e, uint32_t buffer, uint8_t value)
{
    gal_operand operand = {.buffer = buffer, .access = GAL_READ, .bytes = bytes_of(b, e, value)};
    gal_builder_operand_at(b, &operand);
}

static void access_value(gal_builder *b, const gal_block_emit *e, uint32_t buffer, uint8_t value, gal_access access)
{
    gal_operand operand = {.buffer = buffer, .access = (uint8_t)access, .bytes = bytes_of(b, e, value)};
    gal_builder_operand_at(b, &operand);
}

static uint32_t work(gal_builder *b, const gal_block_emit *e, const char *name, uint64_t bytes)
{
    return gal_builder_buffer(b, GAL_CLASS_WORK, e->index, name, bytes);
}

/* ---- forward ---- */

/* Where a forward is being issued: in the forward fragment, or again inside backward. */
typedef struct place {
    uint32_t *buffer; /* value -> buffer */
    bool again;
} place;

static void forward_node(gal_builder *b, gal_block_emit *e, place at, uint8_t index);

/* The value's buffer, running its producer again where it was not kept. */
static uint32_t input(gal_builder *b, gal_block_emit *e, place at, uint8_t value)
{
    if (at.buffer[value] == GAL_NO_BUFFER && at.again) {
        uint8_t producer = gal_graph_producer(&e->graph, value);
        if (value == e->graph.x) {
            at.buffer[value] = e->x;
        } else if (value == e->graph.carried_in) {
            at.buffer[value] = e->carried;
        } else if (e->redo[producer]) {
            forward_node(b, e, at, producer);
        } else {
            at.buffer[value] = e->forward[value];
        }
    }
    GAL_ASSERT(at.buffer[value] != GAL_NO_BUFFER);
    return at.buffer[value];
}

static uint32_t output(gal_builder *b, gal_block_emit *e, place at, uint8_t value)
{
    if (at.buffer[value] == GAL_NO_BUFFER) {
        bool kept = !at.again && e->saved[gal_graph_storage(&e->graph, value)];
        at.buffer[value] = gal_builder_buffer(b, kept ? GAL_CLASS_SAVED : GAL_CLASS_WORK, e->index,
                                              e->graph.value[value].name, bytes_of(b, e, value));
    }
    return at.buffer[value];
}

static void forward_load(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    gal_op op = e->graph.head                       ? GAL_OP_LOAD_TARGETS
                : e->shape.kind == GAL_BLOCK_BRIDGE ? GAL_OP_LOAD_DECODER_TOKENS
                                                    : GAL_OP_LOAD_TOKENS;
    gal_shape shape = {.op = op, .dtype = GAL_I32, .dims = {e->samples, positions_of(e, n->out[0])}};
    uint32_t to = output(b, e, at, n->out[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = e->whole_layout;
    gal_builder_operand(b, to, GAL_WRITE);
}

static void forward_load_patches(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    gal_shape shape = {.op = GAL_OP_LOAD_PATCHES,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, positions_of(e, n->out[0]), e->graph.value[n->out[0]].features}};
    uint32_t to = output(b, e, at, n->out[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = e->chunk_layout;
    gal_builder_operand(b, to, GAL_WRITE);
}

static void forward_embed(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t tokens = input(b, e, at, n->in[0]);
    gal_operand table = gal_zero_weight(b, e, n->weight);
    uint32_t to = output(b, e, at, n->out[0]);
    uint32_t vocabulary = gal_model_padded_vocabulary(model_of(b)) / e->graph.tp_degree;
    gal_shape shape = {.op = GAL_OP_EMBED,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->sequence, e->shape.out.features, vocabulary}};
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, tokens, n->in[0]);
    gal_builder_operand_at(b, &table);
    access_value(b, e, to, n->out[0], GAL_WRITE);
}

static gal_shape position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->chunk_positions, e->shape.out.features, e->sequence, n->types,
                                n->bias != GAL_NO_VALUE && n->types == 0}};
}

static void forward_position(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    const bool has_more = n->bias != GAL_NO_VALUE;
    uint32_t from = input(b, e, at, n->in[0]);
    gal_operand table = gal_zero_weight(b, e, n->weight);
    gal_operand more = has_more ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
    uint32_t to = output(b, e, at, n->out[0]);
    gal_shape shape = position_shape(b, e, GAL_OP_POSITION, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = e->chunk_layout;
    read_value(b, e, from, n->in[0]);
    gal_builder_operand_at(b, &table);
    access_value(b, e, to, n->out[0], GAL_WRITE);
    if (has_more) {
        gal_builder_operand_at(b, &more);
    }
}

static void forward_norm(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    const bool has_bias = n->bias != GAL_NO_VALUE;
    uint32_t x = input(b, e, at, n->in[0]);
    gal_operand gain = gal_zero_weight(b, e, n->weight);
    gal_operand bias = has_bias ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
    uint32_t a = output(b, e, at, n->out[0]);
    uint32_t stats = output(b, e, at, n->out[1]);
    gal_shape shape = {.op = has_bias ? GAL_OP_LAYER_NORM : GAL_OP_RMS_NORM,
                       .dtype = b->program->dtype,
                       .dims = {rows_of(e, n->in[0]), e->graph.value[n->in[0]].features}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    read_value(b, e, x, n->in[0]);
    gal_builder_operand_at(b, &gain);
    if (has_bias) {
        gal_builder_operand_at(b, &bias);
    }
    access_value(b, e, a, n->out[0], GAL_WRITE);
    access_value(b, e, stats, n->out[1], GAL_WRITE);
}

static void forward_linear(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t x = input(b, e, at, n->in[0]);
    gal_operand weight = gal_zero_weight(b, e, n->weight);
    uint32_t y = output(b, e, at, n->out[0]);
    uint32_t flags =
        (n->weight_transposed ? GAL_GEMM_TRANSPOSE_B : 0u) | (n->bias != GAL_NO_VALUE ? GAL_GEMM_BIAS : 0u);
    gal_shape shape = {.op = GAL_OP_GEMM,
                       .dtype = b->program->dtype,
                       .dims = {rows_of(e, n->in[0]), n->out_features, n->in_features, flags}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    read_value(b, e, x, n->in[0]);
    gal_builder_operand_at(b, &weight);
    access_value(b, e, y, n->out[0], GAL_WRITE);
    if (n->bias != GAL_NO_VALUE) {
        gal_operand bias = gal_zero_weight(b, e, n->bias);
        gal_builder_operand_at(b, &bias);
    }
}

/* Of a node with a table of relative positions. */
static gal_shape relative_shape(const gal_builder *b, const gal_block_emit *e, gal_op op)
{
    const gal_model *model = model_of(b);
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->sequence, e->shape.head_count / e->graph.tp_degree, e->shape.head_dim,
                                e->shape.decodes, model->relative_bucket_count, model->relative_max_distance}};
}

static gal_shape attention_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    const gal_block_shape *shape = &e->shape;
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->sequence, shape->head_count / e->graph.tp_degree, shape->head_dim,
                                shape->kv_head_count / e->graph.tp_degree, n->attention_flags}};
}

/* Queries and keys turned in place: forward, or back. */
static void turn(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t buffer, uint8_t value,
                 bool inverse)
{
    const uint32_t heads = (e->shape.head_count + e->shape.kv_head_count) / e->graph.tp_degree;
    gal_shape shape = {
        .op = GAL_OP_ROTARY,
        .dtype = b->program->dtype,
        .dims = {e->samples, e->sequence, heads, e->shape.head_dim, e->graph.value[value].features, inverse}};
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    access_value(b, e, buffer, value, GAL_UPDATE);
}

static void forward_rotary(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t buffer = input(b, e, at, n->in[0]);
    turn(b, e, n->name, buffer, n->in[0], false);
    at.buffer[n->out[0]] = buffer;
}

static void forward_attention(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    const bool biased = n->weight != GAL_NO_VALUE;
    uint32_t qkv = input(b, e, at, n->in[0]);
    gal_operand bias = biased ? gal_zero_weight(b, e, n->weight) : (gal_operand){0};
    uint32_t ctx = output(b, e, at, n->out[0]);
    uint32_t lse = output(b, e, at, n->out[1]);
    gal_shape shape =
        biased ? relative_shape(b, e, GAL_OP_RELATIVE_ATTENTION) : attention_shape(b, e, GAL_OP_ATTENTION, n);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, qkv, n->in[0]);
    if (biased) {
        gal_builder_operand_at(b, &bias);
    }
    access_value(b, e, ctx, n->out[0], GAL_WRITE);
    access_value(b, e, lse, n->out[1], GAL_WRITE);
}

static gal_shape cross_shape(const gal_builder *b, const gal_block_emit *e, gal_op op)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->sequence, e->shape.head_count / e->graph.tp_degree, e->shape.head_dim,
                                e->carried_sequence}};
}

static void forward_cross_attention(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t q = input(b, e, at, n->in[0]);
    uint32_t kv = input(b, e, at, n->in[1]);
    uint32_t ctx = output(b, e, at, n->out[0]);
    uint32_t lse = output(b, e, at, n->out[1]);
    gal_shape shape = cross_shape(b, e, GAL_OP_CROSS_ATTENTION);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, q, n->in[0]);
    read_value(b, e, kv, n->in[1]);
    access_value(b, e, ctx, n->out[0], GAL_WRITE);
    access_value(b, e, lse, n->out[1], GAL_WRITE);
}

/* In place. */
static void scale(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t buffer, uint8_t value)
{
    const uint64_t elements = (uint64_t)rows_of(e, value) * e->graph.value[value].features;
    gal_shape shape = {
        .op = GAL_OP_SCALE, .dtype = b->program->dtype, .dims = {gal_builder_dim(b, elements), model_of(b)->hidden}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape);
    access_value(b, e, buffer, value, GAL_UPDATE);
}

static void forward_scale(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t buffer = input(b, e, at, n->in[0]);
    scale(b, e, n->name, buffer, n->in[0]);
    at.buffer[n->out[0]] = buffer;
}

static gal_shape activation_shape(gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t value)
{
    uint64_t elements = (uint64_t)rows_of(e, value) * e->graph.value[value].features;
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {gal_builder_dim(b, elements), (uint32_t)model_of(b)->activation}};
}

static void forward_activation(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t u = input(b, e, at, n->in[0]);
    uint32_t g = output(b, e, at, n->out[0]);
    gal_shape shape = activation_shape(b, e, GAL_OP_ACTIVATION, n->in[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    read_value(b, e, u, n->in[0]);
    access_value(b, e, g, n->out[0], GAL_WRITE);
}

static gal_shape gated_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    return (gal_shape){
        .op = op,
        .dtype = b->program->dtype,
        .dims = {rows_of(e, n->out[0]), e->graph.value[n->out[0]].features, (uint32_t)model_of(b)->activation}};
}

static void forward_gated_activation(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t u = input(b, e, at, n->in[0]);
    uint32_t g = output(b, e, at, n->out[0]);
    gal_shape shape = gated_shape(b, e, GAL_OP_GATED_ACTIVATION, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    read_value(b, e, u, n->in[0]);
    access_value(b, e, g, n->out[0], GAL_WRITE);
}

static gal_shape residual_shape(const gal_builder *b, const gal_block_emit *e, gal_op op)
{
    return (gal_shape){
        .op = op, .dtype = b->program->dtype, .dims = {e->samples, e->chunk_positions, e->shape.out.features}};
}

static void forward_residual(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t x = input(b, e, at, n->in[0]);
    uint32_t o = input(b, e, at, n->in[1]);
    const bool has_bias = n->bias != GAL_NO_VALUE;
    gal_operand bias = has_bias ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
    uint32_t y = output(b, e, at, n->out[0]);
    gal_shape shape = residual_shape(b, e, GAL_OP_RESIDUAL);
    shape.dims[3] = has_bias;
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = e->chunk_layout;
    read_value(b, e, x, n->in[0]);
    read_value(b, e, o, n->in[1]);
    access_value(b, e, y, n->out[0], GAL_WRITE);
    if (has_bias) {
        gal_builder_operand_at(b, &bias);
    }
}

/* The same mask forward and backward. */
static void drop(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t from, uint32_t to, uint8_t value)
{
    gal_shape shape = residual_shape(b, e, GAL_OP_DROPOUT);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape)->layout = e->chunk_layout;
    read_value(b, e, from, value);
    access_value(b, e, to, value, GAL_WRITE);
}

static void forward_dropout(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t x = input(b, e, at, n->in[0]);
    drop(b, e, n->name, x, output(b, e, at, n->out[0]), n->in[0]);
}

static gal_shape first_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, positions_of(e, n->in[0]), e->graph.value[n->in[0]].features}};
}

static void forward_first_position(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t x = input(b, e, at, n->in[0]);
    uint32_t y = output(b, e, at, n->out[0]);
    gal_shape shape = first_position_shape(b, e, GAL_OP_FIRST_POSITION, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = e->chunk_layout;
    read_value(b, e, x, n->in[0]);
    access_value(b, e, y, n->out[0], GAL_WRITE);
}

static gal_shape vocabulary_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t logits)
{
    return (gal_shape){
        .op = op,
        .dtype = b->program->dtype,
        .dims = {e->samples, positions_of(e, logits), e->graph.value[logits].features, model_of(b)->vocabulary}};
}

static void forward_cross_entropy(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t logits = input(b, e, at, n->in[0]);
    uint32_t targets = input(b, e, at, n->in[1]);
    uint32_t max = output(b, e, at, n->out[0]);
    uint32_t sums = output(b, e, at, n->out[1]);
    uint32_t rows = rows_of(e, n->in[0]);
    gal_dtype dtype = b->program->dtype;
    gal_shape shape = {.op = GAL_OP_CROSS_ENTROPY_MAX,
                       .dtype = dtype,
                       .dims = {rows, e->graph.value[n->in[0]].features, model_of(b)->vocabulary}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "loss max", &shape)->group = e->mesh.tp;
    read_value(b, e, logits, n->in[0]);
    access_value(b, e, max, n->out[0], GAL_WRITE);
    if (e->mesh.tp != GAL_GROUP_NONE) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, "reduce max", dtype, e->mesh.tp, rows,
                            GAL_REDUCE_MAX);
        access_value(b, e, max, n->out[0], GAL_UPDATE);
    }
    shape = vocabulary_shape(b, e, GAL_OP_CROSS_ENTROPY_SUM, n->in[0]);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, "loss sum", &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, logits, n->in[0]);
    read_value(b, e, max, n->out[0]);
    read_value(b, e, targets, n->in[1]);
    access_value(b, e, sums, n->out[1], GAL_WRITE);
    if (e->mesh.tp != GAL_GROUP_NONE) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, "reduce sums", dtype, e->mesh.tp,
                            2 * (uint64_t)rows, GAL_REDUCE_SUM);
        access_value(b, e, sums, n->out[1], GAL_UPDATE);
    }
    shape = (gal_shape){.op = GAL_OP_CROSS_ENTROPY_LOSS, .dtype = dtype, .dims = {rows}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    read_value(b, e, sums, n->out[1]);
    gal_builder_operand(b, b->program->loss_buffer, GAL_ACCUMULATE);
}

static void forward_alias(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    at.buffer[n->out[0]] = input(b, e, at, n->in[0]);
}

static void forward_reduce(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t buffer = input(b, e, at, n->in[0]);
    gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, n->name, b->program->dtype, e->mesh.tp,
                        (uint64_t)rows_of(e, n->in[0]) * e->graph.value[n->in[0]].features, GAL_REDUCE_SUM);
    access_value(b, e, buffer, n->in[0], GAL_UPDATE);
    at.buffer[n->out[0]] = buffer;
}

/* all_gather (to whole rows) or reduce_scatter (to chunks) between two values. */
static void move_sequence(gal_builder *b, gal_block_emit *e, gal_op op, const char *name, uint32_t from, uint8_t source,
                          uint32_t to, uint8_t target)
{
    uint8_t chunk = op == GAL_OP_ALL_GATHER ? source : target;
    gal_emit_collective(b, op, GAL_STREAM_TENSOR, name, b->program->dtype, e->mesh.tp,
                        (uint64_t)rows_of(e, chunk) * e->graph.value[chunk].features, 0);
    read_value(b, e, from, source);
    access_value(b, e, to, target, GAL_WRITE);
}

static void forward_gather(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t from = input(b, e, at, n->in[0]);
    uint32_t to = output(b, e, at, n->out[0]);
    move_sequence(b, e, GAL_OP_ALL_GATHER, n->name, from, n->in[0], to, n->out[0]);
}

static void forward_scatter(gal_builder *b, gal_block_emit *e, place at, const gal_node *n)
{
    uint32_t from = input(b, e, at, n->in[0]);
    uint32_t to = output(b, e, at, n->out[0]);
    move_sequence(b, e, GAL_OP_REDUCE_SCATTER, n->name, from, n->in[0], to, n->out[0]);
}

/* ---- backward ---- */

static place again(gal_block_emit *e)
{
    return (place){e->backward, true};
}

/* The input's gradient belongs in the port; so does that of a sum which the input enters as it is: what else reads the
 * input adds to it. */
static bool belongs_in_port(const gal_block_emit *e, uint8_t value)
{
    const uint8_t producer = gal_graph_producer(&e->graph, value);
    return value == e->graph.x || (producer != GAL_NO_VALUE && e->graph.node[producer].kind == GAL_NODE_RESIDUAL &&
                                   e->graph.node[producer].in[0] == e->graph.x);
}

/* Where the gradient of a value is written for the first time. */
static uint32_t gradient_buffer(gal_builder *b, gal_block_emit *e, uint8_t value, const char *name)
{
    e->gradient[value] = belongs_in_port(e, value) ? e->dx : work(b, e, name, bytes_of(b, e, value));
    return e->gradient[value];
}

/* The gradient of a value is in the buffer, or a part of it is: another reader's is there already. */
static void take_gradient(gal_builder *b, gal_block_emit *e, uint8_t value, uint32_t buffer)
{
    if (e->gradient[value] == GAL_NO_BUFFER) {
        e->gradient[value] = buffer;
        return;
    }
    const uint64_t elements = (uint64_t)rows_of(e, value) * e->graph.value[value].features;
    gal_shape shape = {.op = GAL_OP_ADD, .dtype = b->program->dtype, .dims = {gal_builder_dim(b, elements)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "add dx", &shape);
    read_value(b, e, buffer, value);
    access_value(b, e, e->gradient[value], value, GAL_UPDATE);
}

static void bias_gradient(gal_builder *b, gal_block_emit *e, uint8_t tensor, uint32_t dy, uint8_t value,
                          const char *name)
{
    gal_operand gradient = gal_zero_gradient(b, e, tensor);
    gal_shape shape = {.op = GAL_OP_BIAS_GRADIENT,
                       .dtype = b->program->dtype,
                       .dims = {rows_of(e, value), e->graph.value[value].features}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape);
    read_value(b, e, dy, value);
    gal_builder_operand_at(b, &gradient);
    gal_zero_gradient_done(b, e, tensor);
}

/* The weight gradient of a linear is issued behind the collective that its input's gradient starts, so that both run
 * side by side (Megatron; Colossal-AI's public implementation does the same). */
static void issue_pending(gal_builder *b, gal_block_emit *e)
{
    if (e->pending == GAL_NO_VALUE) {
        return;
    }
    const gal_node *n = &e->graph.node[e->pending];
    e->pending = GAL_NO_VALUE;
    uint32_t x = e->backward[n->in[0]];
    uint32_t dy = e->gradient[n->out[0]];
    uint32_t rows = rows_of(e, n->in[0]);
    gal_operand gradient = gal_zero_gradient(b, e, n->weight);
    gal_shape shape = {.op = GAL_OP_GEMM, .dtype = b->program->dtype};
    uint32_t dims[4] = {n->in_features, n->out_features, rows, GAL_GEMM_TRANSPOSE_A};
    if (n->weight_transposed) {
        dims[0] = n->out_features;
        dims[1] = n->in_features;
    }
    memcpy(shape.dims, dims, sizeof dims);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->weight_gradient_name, &shape);
    if (n->weight_transposed) {
        read_value(b, e, dy, n->out[0]);
        read_value(b, e, x, n->in[0]);
    } else {
        read_value(b, e, x, n->in[0]);
        read_value(b, e, dy, n->out[0]);
    }
    gal_builder_operand_at(b, &gradient);
    gal_zero_gradient_done(b, e, n->weight);
    if (n->bias != GAL_NO_VALUE) {
        bias_gradient(b, e, n->bias, dy, n->out[0], "db");
    }
}

static void backward_nothing(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    (void)b;
    (void)e;
    (void)n;
}

static void backward_embed(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t tokens = input(b, e, again(e), n->in[0]);
    gal_operand gradient = gal_zero_gradient(b, e, n->weight);
    uint32_t vocabulary = gal_model_padded_vocabulary(model_of(b)) / e->graph.tp_degree;
    gal_shape shape = {.op = GAL_OP_EMBED_BACKWARD,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->sequence, e->shape.out.features, vocabulary}};
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, tokens, n->in[0]);
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_builder_operand_at(b, &gradient);
    gal_zero_gradient_done(b, e, n->weight);
}

static void backward_position(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const bool has_more = n->bias != GAL_NO_VALUE;
    uint32_t de = gradient_buffer(b, e, n->in[0], "de");
    gal_operand gradient = gal_zero_gradient(b, e, n->weight);
    gal_operand more = has_more ? gal_zero_gradient(b, e, n->bias) : (gal_operand){0};
    gal_shape shape = position_shape(b, e, GAL_OP_POSITION_BACKWARD, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape)->layout = e->chunk_layout;
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    access_value(b, e, de, n->in[0], GAL_WRITE);
    gal_builder_operand_at(b, &gradient);
    if (has_more) {
        gal_builder_operand_at(b, &more);
        gal_zero_gradient_done(b, e, n->bias);
    }
    gal_zero_gradient_done(b, e, n->weight);
}

static void backward_norm(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t x = input(b, e, again(e), n->in[0]);
    uint32_t stats = input(b, e, again(e), n->out[1]);
    uint32_t addend = e->gradient[n->in[0]];
    const bool has_bias = n->bias != GAL_NO_VALUE;
    gal_operand gain = gal_zero_weight(b, e, n->weight);
    const uint32_t dx = gradient_buffer(b, e, n->in[0], "dx");
    gal_operand dgain = gal_zero_gradient(b, e, n->weight);
    gal_operand dbias = has_bias ? gal_zero_gradient(b, e, n->bias) : (gal_operand){0};
    gal_shape shape = {.op = has_bias ? GAL_OP_LAYER_NORM_BACKWARD : GAL_OP_RMS_NORM_BACKWARD,
                       .dtype = b->program->dtype,
                       .dims = {rows_of(e, n->in[0]), e->graph.value[n->in[0]].features, addend != GAL_NO_BUFFER}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    read_value(b, e, x, n->in[0]);
    gal_builder_operand_at(b, &gain);
    read_value(b, e, stats, n->out[1]);
    access_value(b, e, dx, n->in[0], GAL_WRITE);
    gal_builder_operand_at(b, &dgain);
    if (has_bias) {
        gal_builder_operand_at(b, &dbias);
    }
    if (addend != GAL_NO_BUFFER) {
        read_value(b, e, addend, n->in[0]);
    }
    gal_zero_gradient_done(b, e, n->weight);
    if (has_bias) {
        gal_zero_gradient_done(b, e, n->bias);
    }
}

/* What the weight part of a linear starts from: its input, or what that is gathered from. */
static uint8_t weight_source(const gal_block_emit *e, const gal_node *n)
{
    const uint8_t producer = gal_graph_producer(&e->graph, n->in[0]);
    const bool gathered = producer != GAL_NO_VALUE && e->graph.node[producer].kind == GAL_NODE_GATHER_SEQUENCE;
    return gathered ? e->graph.node[producer].in[0] : n->in[0];
}

/* Data have no gradient. */
static bool is_loaded(const gal_block_emit *e, uint8_t value)
{
    const uint8_t producer = gal_graph_producer(&e->graph, value);
    return producer != GAL_NO_VALUE && e->graph.node[producer].kind == GAL_NODE_LOAD_PATCHES;
}

static void backward_linear(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    /* a gather, if any, runs beside the next GEMM */
    input(b, e, again(e), b->split && !e->graph.head ? weight_source(e, n) : n->in[0]);
    e->pending = b->split ? e->pending : (uint8_t)(n - e->graph.node);
    if (is_loaded(e, n->in[0])) {
        return;
    }
    const bool add = e->gradient[n->in[0]] != GAL_NO_BUFFER;
    uint32_t dy = e->gradient[n->out[0]];
    gal_operand weight = gal_zero_weight(b, e, n->weight);
    uint32_t dx = add ? e->gradient[n->in[0]] : gradient_buffer(b, e, n->in[0], "dx");
    gal_shape shape = {.op = GAL_OP_GEMM,
                       .dtype = b->program->dtype,
                       .dims = {rows_of(e, n->in[0]), n->in_features, n->out_features,
                                n->weight_transposed ? 0 : GAL_GEMM_TRANSPOSE_B}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    read_value(b, e, dy, n->out[0]);
    gal_builder_operand_at(b, &weight);
    access_value(b, e, dx, n->in[0], add ? GAL_UPDATE : GAL_WRITE);
}

static void backward_attention(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t qkv = input(b, e, again(e), n->in[0]);
    uint32_t ctx = input(b, e, again(e), n->out[0]);
    uint32_t lse = input(b, e, again(e), n->out[1]);
    const bool biased = n->weight != GAL_NO_VALUE;
    uint32_t dqkv = gradient_buffer(b, e, n->in[0], "dqkv");
    gal_operand bias = biased ? gal_zero_weight(b, e, n->weight) : (gal_operand){0};
    gal_operand dbias = biased ? gal_zero_gradient(b, e, n->weight) : (gal_operand){0};
    gal_shape shape = biased ? relative_shape(b, e, GAL_OP_RELATIVE_ATTENTION_BACKWARD)
                             : attention_shape(b, e, GAL_OP_ATTENTION_BACKWARD, n);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    read_value(b, e, qkv, n->in[0]);
    read_value(b, e, ctx, n->out[0]);
    read_value(b, e, lse, n->out[1]);
    if (biased) {
        gal_builder_operand_at(b, &bias);
    }
    access_value(b, e, dqkv, n->in[0], GAL_WRITE);
    if (biased) {
        gal_builder_operand_at(b, &dbias);
        gal_zero_gradient_done(b, e, n->weight);
    }
}

static void backward_cross_attention(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t q = input(b, e, again(e), n->in[0]);
    uint32_t kv = input(b, e, again(e), n->in[1]);
    uint32_t ctx = input(b, e, again(e), n->out[0]);
    uint32_t lse = input(b, e, again(e), n->out[1]);
    uint32_t dq = gradient_buffer(b, e, n->in[0], "dq");
    uint32_t dkv = gradient_buffer(b, e, n->in[1], "dkv");
    gal_shape shape = cross_shape(b, e, GAL_OP_CROSS_ATTENTION_BACKWARD);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    read_value(b, e, q, n->in[0]);
    read_value(b, e, kv, n->in[1]);
    read_value(b, e, ctx, n->out[0]);
    read_value(b, e, lse, n->out[1]);
    access_value(b, e, dq, n->in[0], GAL_WRITE);
    access_value(b, e, dkv, n->in[1], GAL_WRITE);
}

static void backward_scale(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t buffer = e->gradient[n->out[0]];
    scale(b, e, n->backward_name, buffer, n->out[0]);
    e->gradient[n->in[0]] = buffer;
}

static void backward_rotary(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t buffer = e->gradient[n->out[0]];
    turn(b, e, n->backward_name, buffer, n->out[0], true);
    e->gradient[n->in[0]] = buffer;
}

static void backward_gated_activation(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t u = input(b, e, again(e), n->in[0]);
    uint32_t du = gradient_buffer(b, e, n->in[0], "du");
    gal_shape shape = gated_shape(b, e, GAL_OP_GATED_ACTIVATION_BACKWARD, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    read_value(b, e, u, n->in[0]);
    access_value(b, e, du, n->in[0], GAL_WRITE);
}

static void backward_activation(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t u = input(b, e, again(e), n->in[0]);
    uint32_t du = gradient_buffer(b, e, n->in[0], "du");
    gal_shape shape = activation_shape(b, e, GAL_OP_ACTIVATION_BACKWARD, n->in[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    read_value(b, e, u, n->in[0]);
    access_value(b, e, du, n->in[0], GAL_WRITE);
}

static void backward_residual(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t dy = e->gradient[n->out[0]];
    e->gradient[n->in[0]] = dy;
    e->gradient[n->in[1]] = dy;
    /* A port is added to before the weight part reads what was there: a copy for it. */
    if (model_of(b)->residual_dropout > 0 || (b->split && dy == e->dx)) {
        drop(b, e, n->backward_name, dy, gradient_buffer(b, e, n->in[1], "do"), n->in[1]);
    }
    if (n->bias != GAL_NO_VALUE && !b->split) {
        bias_gradient(b, e, n->bias, e->gradient[n->in[1]], n->in[1], n->weight_gradient_name);
    }
}

static void backward_dropout(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    drop(b, e, n->backward_name, e->gradient[n->out[0]], gradient_buffer(b, e, n->in[0], "dx"), n->in[0]);
}

static void backward_first_position(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t dx = gradient_buffer(b, e, n->in[0], "dx");
    gal_shape shape = first_position_shape(b, e, GAL_OP_FIRST_POSITION_BACKWARD, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape)->layout = e->chunk_layout;
    read_value(b, e, e->gradient[n->out[0]], n->out[0]);
    access_value(b, e, dx, n->in[0], GAL_WRITE);
}

static void backward_cross_entropy(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    gal_shape shape = vocabulary_shape(b, e, GAL_OP_CROSS_ENTROPY_BACKWARD, n->in[0]);
    uint32_t logits = input(b, e, again(e), n->in[0]);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    i->group = e->mesh.tp;
    i->layout = e->whole_layout;
    access_value(b, e, logits, n->in[0], GAL_UPDATE);
    read_value(b, e, input(b, e, again(e), n->out[0]), n->out[0]);
    read_value(b, e, input(b, e, again(e), n->out[1]), n->out[1]);
    read_value(b, e, input(b, e, again(e), n->in[1]), n->in[1]);
    e->gradient[n->in[0]] = logits;
}

static void backward_split(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t buffer = e->gradient[n->out[0]];
    gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, n->backward_name, b->program->dtype, e->mesh.tp,
                        (uint64_t)rows_of(e, n->out[0]) * e->graph.value[n->out[0]].features, GAL_REDUCE_SUM);
    access_value(b, e, buffer, n->out[0], GAL_UPDATE);
    issue_pending(b, e); /* beside it, and in front of an addition that waits for it */
    take_gradient(b, e, n->in[0], buffer);
}

static void backward_alias(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    take_gradient(b, e, n->in[0], e->gradient[n->out[0]]);
}

static void backward_gather(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const bool add = e->gradient[n->in[0]] != GAL_NO_BUFFER;
    uint32_t to = add ? work(b, e, "da", bytes_of(b, e, n->in[0])) : gradient_buffer(b, e, n->in[0], "da");
    move_sequence(b, e, GAL_OP_REDUCE_SCATTER, n->backward_name, e->gradient[n->out[0]], n->out[0], to, n->in[0]);
    if (add) {
        issue_pending(b, e);
        take_gradient(b, e, n->in[0], to);
    }
}

static void backward_scatter(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t to = gradient_buffer(b, e, n->in[0], "do");
    move_sequence(b, e, GAL_OP_ALL_GATHER, n->backward_name, e->gradient[n->out[0]], n->out[0], to, n->in[0]);
}

/* ---- tables and walks ---- */

typedef struct node_rule {
    void (*forward)(gal_builder *, gal_block_emit *, place, const gal_node *);
    void (*backward)(gal_builder *, gal_block_emit *, const gal_node *);
} node_rule;

static const node_rule rules[GAL_NODE_COUNT] = {
    [GAL_NODE_LOAD] = {forward_load, backward_nothing},
    [GAL_NODE_LOAD_PATCHES] = {forward_load_patches, backward_nothing},
    [GAL_NODE_EMBED] = {forward_embed, backward_embed},
    [GAL_NODE_POSITION] = {forward_position, backward_position},
    [GAL_NODE_NORM] = {forward_norm, backward_norm},
    [GAL_NODE_LINEAR] = {forward_linear, backward_linear},
    [GAL_NODE_ROTARY] = {forward_rotary, backward_rotary},
    [GAL_NODE_ATTENTION] = {forward_attention, backward_attention},
    [GAL_NODE_CROSS_ATTENTION] = {forward_cross_attention, backward_cross_attention},
    [GAL_NODE_SCALE] = {forward_scale, backward_scale},
    [GAL_NODE_ACTIVATION] = {forward_activation, backward_activation},
    [GAL_NODE_GATED_ACTIVATION] = {forward_gated_activation, backward_gated_activation},
    [GAL_NODE_RESIDUAL] = {forward_residual, backward_residual},
    [GAL_NODE_DROPOUT] = {forward_dropout, backward_dropout},
    [GAL_NODE_FIRST_POSITION] = {forward_first_position, backward_first_position},
    [GAL_NODE_CROSS_ENTROPY] = {forward_cross_entropy, backward_cross_entropy},
    [GAL_NODE_SPLIT] = {forward_alias, backward_split},
    [GAL_NODE_REDUCE] = {forward_reduce, backward_alias},
    [GAL_NODE_GATHER_SEQUENCE] = {forward_gather, backward_gather},
    [GAL_NODE_SCATTER_SEQUENCE] = {forward_scatter, backward_scatter},
};

static void forward_node(gal_builder *b, gal_block_emit *e, place at, uint8_t index)
{
    rules[e->graph.node[index].kind].forward(b, e, at, &e->graph.node[index]);
}

void gal_emit_forward(gal_builder *b, gal_block_emit *e)
{
    place here = {e->forward, false};
    if (e->graph.x != GAL_NO_VALUE) {
        e->forward[e->graph.x] = e->x;
    }
    if (e->graph.carried_in != GAL_NO_VALUE) {
        e->forward[e->graph.carried_in] = e->carried;
    }
    if (e->graph.carried_out != GAL_NO_VALUE) {
        e->forward[e->graph.carried_out] = e->carried;
    }
    if (e->graph.y != GAL_NO_VALUE) { /* an embedding's sum over devices works in place */
        e->forward[gal_graph_storage(&e->graph, e->graph.y)] = e->y;
    }
    for (uint8_t i = 0; i < e->graph.node_count; i++) {
        forward_node(b, e, here, i);
    }
}

/* The block's part of the gradient of the carried tensor that it reads, when it is complete on its devices. */
static void add_to_carried(gal_builder *b, const gal_block_emit *e)
{
    const uint8_t value = e->graph.carried_in;
    const uint64_t elements = (uint64_t)rows_of(e, value) * e->graph.value[value].features;
    gal_shape shape = {.op = GAL_OP_ADD, .dtype = b->program->dtype, .dims = {gal_builder_dim(b, elements)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "add dcarried", &shape);
    read_value(b, e, e->gradient[value], value);
    access_value(b, e, e->dcarried, value, e->dcarried_written ? GAL_UPDATE : GAL_WRITE);
}

void gal_emit_backward(gal_builder *b, gal_block_emit *e)
{
    if (e->graph.carried_out != GAL_NO_VALUE) {
        e->gradient[e->graph.carried_out] = e->dcarried;
    }
    if (e->graph.head) { /* the loss is wanted for itself */
        const gal_node *last = &e->graph.node[e->graph.node_count - 1];
        input(b, e, again(e), last->out[0]);
    } else {
        e->gradient[e->graph.y] = e->dy;
    }
    for (uint32_t i = e->graph.node_count; i-- > 0;) {
        const gal_node *n = &e->graph.node[i];
        bool communicates = n->kind == GAL_NODE_SPLIT || n->kind == GAL_NODE_GATHER_SEQUENCE;
        if (!communicates) {
            issue_pending(b, e);
        }
        rules[n->kind].backward(b, e, n);
        if (communicates) {
            issue_pending(b, e);
        }
        if (n->in[0] != GAL_NO_VALUE && n->in[0] == e->graph.carried_in) {
            add_to_carried(b, e);
        }
    }
    issue_pending(b, e);
    GAL_ASSERT(e->graph.x == GAL_NO_VALUE || e->gradient[e->graph.x] == e->dx);
}

/* ---- backward in two parts ---- */

bool gal_emit_weight_reads_dy(const gal_builder *b, const gal_block_emit *e)
{
    if (e->graph.head) {
        return false;
    }
    const gal_node *last = &e->graph.node[gal_graph_producer(&e->graph, e->graph.y)];
    if (e->graph.x == GAL_NO_VALUE || last->kind != GAL_NODE_RESIDUAL) {
        return true;
    }
    const uint8_t branch = gal_graph_producer(&e->graph, last->in[1]);
    return model_of(b)->residual_dropout <= 0 &&
           (last->bias != GAL_NO_VALUE || e->graph.node[branch].kind != GAL_NODE_SCATTER_SEQUENCE);
}

static void keep(gal_builder *b, uint32_t buffer)
{
    gal_buffer *at = &b->program->buffer[buffer];
    if (at->class == GAL_CLASS_WORK) {
        at->class = GAL_CLASS_KEPT;
        at->arena = (uint16_t)gal_arena_number(GAL_CLASS_KEPT, b->chunk);
    }
}

static void keep_for_weights(gal_builder *b, gal_block_emit *e)
{
    for (uint32_t i = 0; i < e->graph.node_count && !b->out_of_memory; i++) {
        const gal_node *n = &e->graph.node[i];
        if (n->kind == GAL_NODE_LINEAR) {
            keep(b, e->backward[weight_source(e, n)]);
            keep(b, e->gradient[n->out[0]]);
        } else if (n->kind == GAL_NODE_RESIDUAL && n->bias != GAL_NO_VALUE) {
            keep(b, e->gradient[n->in[1]]);
        }
    }
}

static void emit_whole(gal_builder *b, gal_block_emit *e)
{
    b->split = false;
    gal_emit_backward(b, e);
    b->split = true;
}

void gal_emit_backward_input(gal_builder *b, gal_block_emit *e)
{
    b->sync_later = true;
    if (e->graph.head) {
        emit_whole(b, e);
    } else if (e->graph.x != GAL_NO_VALUE) {
        gal_emit_backward(b, e);
        keep_for_weights(b, e);
    }
    b->sync_later = false;
}

/* The input of a linear that is gathered from chunks, again. Into a ring: in work a gather that runs ahead could meet
 * what an earlier block still reads. */
static void gather_again(gal_builder *b, gal_block_emit *e, uint8_t value)
{
    const uint32_t turn = b->rows_next;
    if (b->rows[turn] == GAL_NO_BUFFER) {
        b->rows[turn] = gal_builder_buffer(b, GAL_CLASS_GATHERED, GAL_NO_BUFFER, "rows", 0);
    }
    gal_builder_grow_buffer(b, b->rows[turn], bytes_of(b, e, value));
    b->rows_next = 1 - turn;
    e->backward[value] = b->rows[turn];
    forward_node(b, e, again(e), gal_graph_producer(&e->graph, value));
}

static void issue_weights(gal_builder *b, gal_block_emit *e)
{
    uint8_t gathered = GAL_NO_VALUE;
    for (uint32_t i = e->graph.node_count; i-- > 0;) {
        const gal_node *n = &e->graph.node[i];
        if (n->kind == GAL_NODE_RESIDUAL && n->bias != GAL_NO_VALUE) {
            bias_gradient(b, e, n->bias, e->gradient[n->in[1]], n->in[1], n->weight_gradient_name);
        }
        if (n->kind == GAL_NODE_LINEAR) {
            if (weight_source(e, n) != n->in[0] && gathered != n->in[0]) {
                gather_again(b, e, n->in[0]);
                gathered = n->in[0];
            }
            e->pending = (uint8_t)i;
            issue_pending(b, e);
        }
    }
}

void gal_emit_backward_weight(gal_builder *b, gal_block_emit *e)
{
    if (e->graph.x == GAL_NO_VALUE) {
        emit_whole(b, e);
    } else if (!e->graph.head) {
        issue_weights(b, e);
    }
    gal_zero_synchronise(b, e);
}

void gal_emit_head_evaluation(gal_builder *b, gal_block_emit *e)
{
    uint32_t buffer[GAL_GRAPH_MAX];
    memset(buffer, 0xFF, sizeof buffer); /* GAL_NO_BUFFER */
    input(b, e, (place){buffer, true}, e->graph.node[e->graph.node_count - 1].out[0]);
}
