/* The forward of nodes, and of a block. */
#include "runtime/program/lower/emit_nodes.h"

#include <string.h>

/* The value's buffer, running its producer again where it was not kept. */
uint32_t gal_emit_input(gal_builder *b, gal_block_emit *e, gal_emit_place at, uint8_t value)
{
    if (at.buffer[value] == GAL_NO_BUFFER && at.again) {
        uint8_t producer = gal_graph_producer(&e->graph, value);
        if (value == e->graph.x) {
            at.buffer[value] = e->x;
        } else if (value == e->graph.carried_in) {
            at.buffer[value] = e->carried;
        } else if (e->redo[producer]) {
            gal_emit_node(b, e, at, producer);
        } else {
            at.buffer[value] = e->forward[value];
        }
    }
    GAL_ASSERT(at.buffer[value] != GAL_NO_BUFFER);
    return at.buffer[value];
}

uint32_t gal_emit_output(gal_builder *b, gal_block_emit *e, gal_emit_place at, uint8_t value)
{
    if (at.buffer[value] == GAL_NO_BUFFER) {
        const uint8_t storage = gal_graph_storage(&e->graph, value);
        bool kept = !at.again && e->saved[storage];
        if (kept && gal_activations_has(e, storage)) {
            GAL_ASSERT(storage == value); /* others are where their storage is */
            at.buffer[value] = gal_activations_place(b, e, value);
            return at.buffer[value];
        }
        at.buffer[value] = gal_builder_buffer(b, kept ? GAL_CLASS_SAVED : GAL_CLASS_WORK, e->index,
                                              e->graph.value[value].name, gal_emit_bytes(b, e, value));
    }
    return at.buffer[value];
}

static void forward_load(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    gal_op op = e->graph.head                       ? GAL_OP_LOAD_TARGETS
                : e->shape.kind == GAL_BLOCK_BRIDGE ? GAL_OP_LOAD_DECODER_TOKENS
                                                    : GAL_OP_LOAD_TOKENS;
    gal_shape shape = {.op = op, .dtype = GAL_I32, .dims = {e->samples, gal_emit_positions(e, n->out[0])}};
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = gal_emit_layout(e, n->out[0]);
    gal_emit_access(b, e, to, n->out[0], GAL_WRITE);
}

static void forward_load_patches(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    gal_shape shape = {.op = GAL_OP_LOAD_PATCHES,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, gal_emit_positions(e, n->out[0]), e->graph.value[n->out[0]].features}};
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = e->chunk_layout;
    gal_emit_access(b, e, to, n->out[0], GAL_WRITE);
}

/* Of the positions that are keys: the carried tensor's, where there is one. */
static void forward_load_lengths(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    const bool carried = e->graph.carried_in != GAL_NO_VALUE;
    gal_shape shape = {.op = GAL_OP_LOAD_LENGTHS,
                       .dtype = GAL_I32,
                       .dims = {e->samples, carried ? e->carried_positions : e->all_positions}};
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape)->layout = gal_emit_layout(e, n->out[0]);
    gal_emit_access(b, e, to, n->out[0], GAL_WRITE);
}

/* Devices that have other parts of the vocabulary; a table that is gathered is whole. */
gal_group gal_emit_table_group(const gal_block_emit *e, const gal_node *n)
{
    return e->graph.tensor[n->weight].gather_group != GAL_GROUP_NONE ? GAL_GROUP_NONE : e->mesh.tp;
}

gal_shape gal_emit_embed_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    const uint32_t parts = gal_group_size(&b->program->atoms, gal_emit_table_group(e, n));
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->sequence, e->graph.value[n->out[0]].features,
                                gal_model_padded_vocabulary(gal_emit_model(b)) / parts}};
}

static void forward_embed(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t tokens = gal_emit_input(b, e, at, n->in[0]);
    gal_operand table = gal_zero_weight_panel(b, e, n->weight);
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    const gal_shape shape = gal_emit_embed_shape(b, e, GAL_OP_EMBED, n);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    i->group = gal_emit_table_group(e, n);
    i->layout = e->whole_layout;
    gal_emit_read(b, e, tokens, n->in[0]);
    gal_builder_operand_at(b, &table);
    gal_emit_access(b, e, to, n->out[0], GAL_WRITE);
}

gal_shape gal_emit_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, e->chunk_positions, e->graph.value[n->out[0]].features, e->all_positions,
                                n->types, n->bias != GAL_NO_VALUE && n->types == 0}};
}

static void forward_position(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    const bool has_more = n->bias != GAL_NO_VALUE;
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    gal_operand table = gal_zero_weight(b, e, n->weight);
    gal_operand more = has_more ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_shape shape = gal_emit_position_shape(b, e, GAL_OP_POSITION, n);
    gal_emit_by_rows(b, e, n->name, &shape);
    gal_emit_read(b, e, from, n->in[0]);
    gal_builder_operand_at(b, &table);
    gal_emit_access(b, e, to, n->out[0], GAL_WRITE);
    if (has_more) {
        gal_builder_operand_at(b, &more);
    }
}

/* A kernel that is told which rows this device holds, and which part of their features. */
void gal_emit_by_rows(gal_builder *b, const gal_block_emit *e, const char *name, const gal_shape *shape)
{
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, shape);
    i->layout = e->chunk_layout;
    i->group = e->layout.feature_group;
}

static void forward_norm(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    if (e->graph.feature_parts > 1) {
        uint32_t in = gal_emit_input(b, e, at, n->in[0]);
        gal_operand vectors[2] = {gal_zero_weight(b, e, n->weight)};
        vectors[1] = n->bias != GAL_NO_VALUE ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
        uint32_t out = gal_emit_output(b, e, at, n->out[0]);
        gal_emit_norm_parts(b, e, n, in, vectors, out, gal_emit_output(b, e, at, n->out[1]));
        return;
    }
    const bool has_bias = n->bias != GAL_NO_VALUE;
    uint32_t x = gal_emit_input(b, e, at, n->in[0]);
    gal_operand gain = gal_zero_weight(b, e, n->weight);
    gal_operand bias = has_bias ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
    uint32_t a = gal_emit_output(b, e, at, n->out[0]);
    uint32_t stats = gal_emit_output(b, e, at, n->out[1]);
    gal_shape shape = {.op = has_bias ? GAL_OP_LAYER_NORM : GAL_OP_RMS_NORM,
                       .dtype = b->program->dtype,
                       .dims = {gal_emit_rows(e, n->in[0]), e->graph.value[n->in[0]].features}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    gal_emit_read(b, e, x, n->in[0]);
    gal_builder_operand_at(b, &gain);
    if (has_bias) {
        gal_builder_operand_at(b, &bias);
    }
    gal_emit_access(b, e, a, n->out[0], GAL_WRITE);
    gal_emit_access(b, e, stats, n->out[1], GAL_WRITE);
}

static void forward_products(gal_builder *b, gal_block_emit *e, const gal_node *n, const gal_linear_panels *panels,
                             uint32_t rows)
{
    for (uint32_t t = 0; t < panels->count; t++) {
        const bool adds = t > 0 && n->in_panel > 0, biased = n->bias != GAL_NO_VALUE && !adds;
        uint32_t flags = (n->weight_transposed ? GAL_GEMM_TRANSPOSE_B : 0u) | (biased ? GAL_GEMM_BIAS : 0u);
        gal_shape shape = {
            .op = GAL_OP_GEMM, .dtype = b->program->dtype, .dims = {rows, n->out_features, n->in_features, flags}};
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
        gal_emit_part(b, &panels->in, t, GAL_READ);
        gal_emit_part(b, &panels->weight, t, GAL_READ);
        gal_emit_part(b, &panels->out, t, adds ? GAL_UPDATE : GAL_WRITE);
        if (biased) {
            gal_operand bias = gal_zero_weight(b, e, n->bias);
            gal_builder_operand_at(b, &bias);
        }
    }
}

static void forward_linear(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t x = gal_emit_input(b, e, at, n->in[0]);
    if (n->steps > 0) {
        gal_emit_stepped_forward(b, e, n, x, gal_emit_output(b, e, at, n->out[0]));
        return;
    }
    gal_operand weight = gal_zero_weight_panel(b, e, n->weight);
    uint32_t y = gal_emit_output(b, e, at, n->out[0]);
    const gal_linear_panels panels = gal_emit_panels(b, e, n, x, y, &weight);
    const uint32_t chunks = gal_emit_forward_chunks(e, n);
    for (uint32_t c = 0; c < chunks; c++) {
        const gal_linear_panels part = {panels.count, gal_emit_chunk(&panels.in, c, chunks), panels.weight,
                                        gal_emit_chunk(&panels.out, c, chunks)};
        forward_products(b, e, n, &part, gal_emit_rows(e, n->in[0]) / chunks);
        if (chunks > 1) {
            gal_emit_chunk_sum(b, e, n[1].name, n->out[0], &part.out);
        }
    }
}

/* In place. */
static void forward_add_bias(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t x = gal_emit_input(b, e, at, n->in[0]);
    gal_operand bias = gal_zero_weight(b, e, n->bias);
    gal_shape shape = {.op = GAL_OP_ADD_BIAS,
                       .dtype = b->program->dtype,
                       .dims = {gal_emit_rows(e, n->in[0]), e->graph.value[n->in[0]].features}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    gal_emit_access(b, e, x, n->in[0], GAL_UPDATE);
    gal_builder_operand_at(b, &bias);
    at.buffer[n->out[0]] = x;
}

/* In place. */
void gal_emit_scale(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t buffer, uint8_t value)
{
    const uint64_t elements = (uint64_t)gal_emit_rows(e, value) * e->graph.value[value].features;
    gal_shape shape = {.op = GAL_OP_SCALE,
                       .dtype = b->program->dtype,
                       .dims = {gal_builder_dim(b, elements), gal_emit_model(b)->hidden}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape);
    gal_emit_access(b, e, buffer, value, GAL_UPDATE);
}

static void forward_scale(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t buffer = gal_emit_input(b, e, at, n->in[0]);
    gal_emit_scale(b, e, n->name, buffer, n->in[0]);
    at.buffer[n->out[0]] = buffer;
}

gal_shape gal_emit_activation_shape(gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t value)
{
    uint64_t elements = (uint64_t)gal_emit_rows(e, value) * e->graph.value[value].features;
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {gal_builder_dim(b, elements), (uint32_t)gal_emit_model(b)->activation}};
}

static void forward_activation(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t u = gal_emit_input(b, e, at, n->in[0]);
    uint32_t g = gal_emit_output(b, e, at, n->out[0]);
    gal_shape shape = gal_emit_activation_shape(b, e, GAL_OP_ACTIVATION, n->in[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    gal_emit_read(b, e, u, n->in[0]);
    gal_emit_access(b, e, g, n->out[0], GAL_WRITE);
}

gal_shape gal_emit_gated_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {gal_emit_rows(e, n->out[0]), e->graph.value[n->out[0]].features,
                                (uint32_t)gal_emit_model(b)->activation}};
}

static void forward_gated_activation(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t u = gal_emit_input(b, e, at, n->in[0]);
    uint32_t g = gal_emit_output(b, e, at, n->out[0]);
    gal_shape shape = gal_emit_gated_shape(b, e, GAL_OP_GATED_ACTIVATION, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    gal_emit_read(b, e, u, n->in[0]);
    gal_emit_access(b, e, g, n->out[0], GAL_WRITE);
}

static gal_shape residual_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t value)
{
    return (gal_shape){
        .op = op, .dtype = b->program->dtype, .dims = {e->samples, e->chunk_positions, e->graph.value[value].features}};
}

static void forward_residual(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t x = gal_emit_input(b, e, at, n->in[0]);
    uint32_t o = gal_emit_input(b, e, at, n->in[1]);
    const bool has_bias = n->bias != GAL_NO_VALUE;
    gal_operand bias = has_bias ? gal_zero_weight(b, e, n->bias) : (gal_operand){0};
    uint32_t y = gal_emit_output(b, e, at, n->out[0]);
    gal_shape shape = residual_shape(b, e, GAL_OP_RESIDUAL, n->out[0]);
    shape.dims[3] = has_bias;
    gal_emit_by_rows(b, e, n->name, &shape);
    gal_emit_read(b, e, x, n->in[0]);
    gal_emit_read(b, e, o, n->in[1]);
    gal_emit_access(b, e, y, n->out[0], GAL_WRITE);
    if (has_bias) {
        gal_builder_operand_at(b, &bias);
    }
}

/* The same mask forward and backward. */
void gal_emit_dropout(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t from, uint32_t to,
                      uint8_t value)
{
    const gal_shape shape = residual_shape(b, e, GAL_OP_DROPOUT, value);
    gal_emit_by_rows(b, e, name, &shape);
    gal_emit_read(b, e, from, value);
    gal_emit_access(b, e, to, value, GAL_WRITE);
}

static void forward_dropout(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t x = gal_emit_input(b, e, at, n->in[0]);
    gal_emit_dropout(b, e, n->name, x, gal_emit_output(b, e, at, n->out[0]), n->in[0]);
}

/* y of x alone, by one kernel that is told which rows this device holds. */
static void forward_of_rows(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n,
                            const gal_shape *shape)
{
    uint32_t x = gal_emit_input(b, e, at, n->in[0]);
    uint32_t y = gal_emit_output(b, e, at, n->out[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, shape)->layout = e->chunk_layout;
    gal_emit_read(b, e, x, n->in[0]);
    gal_emit_access(b, e, y, n->out[0], GAL_WRITE);
}

gal_shape gal_emit_first_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, gal_emit_positions(e, n->in[0]), e->graph.value[n->in[0]].features}};
}

static void forward_first_position(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    const gal_shape shape = gal_emit_first_position_shape(b, e, GAL_OP_FIRST_POSITION, n);
    forward_of_rows(b, e, at, n, &shape);
}

gal_shape gal_emit_mean_position_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    gal_shape shape = gal_emit_first_position_shape(b, e, op, n);
    shape.dims[3] = e->all_positions;
    return shape;
}

static void forward_mean_position(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    const gal_shape shape = gal_emit_mean_position_shape(b, e, GAL_OP_MEAN_POSITION, n);
    forward_of_rows(b, e, at, n, &shape);
}

gal_shape gal_emit_merge_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, const gal_node *n)
{
    gal_shape shape = gal_emit_first_position_shape(b, e, op, n);
    shape.dims[3] = e->shape.side;
    return shape;
}

static void forward_merge(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    const gal_shape shape = gal_emit_merge_shape(b, e, GAL_OP_MERGE, n);
    forward_of_rows(b, e, at, n, &shape);
}

gal_shape gal_emit_vocabulary_shape(const gal_builder *b, const gal_block_emit *e, gal_op op, uint8_t logits)
{
    return (gal_shape){.op = op,
                       .dtype = b->program->dtype,
                       .dims = {e->samples, gal_emit_positions(e, logits), e->graph.value[logits].features,
                                gal_emit_model(b)->vocabulary}};
}

static void forward_cross_entropy(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t logits = gal_emit_input(b, e, at, n->in[0]);
    uint32_t targets = gal_emit_input(b, e, at, n->in[1]);
    uint32_t max = gal_emit_output(b, e, at, n->out[0]);
    uint32_t sums = gal_emit_output(b, e, at, n->out[1]);
    uint32_t rows = gal_emit_rows(e, n->in[0]);
    gal_dtype dtype = b->program->dtype;
    gal_shape shape = {.op = GAL_OP_CROSS_ENTROPY_MAX,
                       .dtype = dtype,
                       .dims = {rows, e->graph.value[n->in[0]].features, gal_emit_model(b)->vocabulary}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "loss max", &shape)->group = e->mesh.tp;
    gal_emit_read(b, e, logits, n->in[0]);
    gal_emit_access(b, e, max, n->out[0], GAL_WRITE);
    if (e->mesh.tp != GAL_GROUP_NONE) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, "reduce max", gal_dtype_wide(dtype), e->mesh.tp,
                            rows, GAL_REDUCE_MAX);
        gal_emit_access(b, e, max, n->out[0], GAL_UPDATE);
    }
    shape = gal_emit_vocabulary_shape(b, e, GAL_OP_CROSS_ENTROPY_SUM, n->in[0]);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, "loss sum", &shape);
    i->group = e->mesh.tp;
    i->layout = gal_emit_layout(e, n->in[0]);
    gal_emit_read(b, e, logits, n->in[0]);
    gal_emit_read(b, e, max, n->out[0]);
    gal_emit_read(b, e, targets, n->in[1]);
    gal_emit_access(b, e, sums, n->out[1], GAL_WRITE);
    if (e->mesh.tp != GAL_GROUP_NONE) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, "reduce sums", gal_dtype_wide(dtype), e->mesh.tp,
                            2 * (uint64_t)rows, GAL_REDUCE_SUM);
        gal_emit_access(b, e, sums, n->out[1], GAL_UPDATE);
    }
    shape = (gal_shape){.op = GAL_OP_CROSS_ENTROPY_LOSS, .dtype = gal_dtype_wide(dtype), .dims = {rows}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    gal_emit_read(b, e, sums, n->out[1]);
    gal_builder_operand(b, b->program->loss_buffer, GAL_ACCUMULATE);
}

static void forward_alias(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    at.buffer[n->out[0]] = gal_emit_input(b, e, at, n->in[0]);
}

static void forward_reduce(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t buffer = gal_emit_input(b, e, at, n->in[0]);
    if (e->summed != n->in[0]) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, n->name, b->program->dtype,
                            n->over_sequence ? e->mesh.sequence : e->mesh.tp,
                            (uint64_t)gal_emit_rows(e, n->in[0]) * e->graph.value[n->in[0]].features, GAL_REDUCE_SUM);
        gal_emit_access(b, e, buffer, n->in[0], GAL_UPDATE);
    }
    e->summed = GAL_NO_VALUE;
    at.buffer[n->out[0]] = buffer;
}

/* all_gather (to whole rows) or reduce_scatter (to chunks) between two values. */
void gal_emit_move_sequence(gal_builder *b, gal_block_emit *e, const gal_node *n, gal_op op, const char *name,
                            uint32_t from, uint8_t source, uint32_t to, uint8_t target)
{
    uint8_t chunk = op == GAL_OP_ALL_GATHER ? source : target; /* of positions, samples or features */
    gal_emit_collective(b, op, GAL_STREAM_TENSOR, name, b->program->dtype,
                        n->over != GAL_GROUP_NONE ? n->over : e->mesh.tp,
                        (uint64_t)gal_emit_rows(e, chunk) * e->graph.value[chunk].features, 0);
    gal_emit_read(b, e, from, source);
    gal_emit_access(b, e, to, target, GAL_WRITE);
}

static void forward_gather(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_emit_move_sequence(b, e, n, GAL_OP_ALL_GATHER, n->name, from, n->in[0], to, n->out[0]);
}

static void forward_scatter(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_emit_move_sequence(b, e, n, GAL_OP_REDUCE_SCATTER, n->name, from, n->in[0], to, n->out[0]);
}

static void forward_turn(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    gal_emit_turn_rows(b, e, from, n->in[0], gal_emit_output(b, e, at, n->out[0]), n->out[0]);
}

static void forward_deal(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_emit_deal(b, e, n->name, n->part, from, n->in[0], to, n->out[0]);
}

static void forward_collect(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_emit_collect(b, e, n->name, n->part, from, n->in[0], to, n->out[0]);
}

static void forward_mirror(gal_builder *b, gal_block_emit *e, gal_emit_place at, const gal_node *n)
{
    uint32_t from = gal_emit_input(b, e, at, n->in[0]);
    uint32_t to = gal_emit_output(b, e, at, n->out[0]);
    gal_emit_mirror(b, e, n->name, from, n->in[0], to, n->out[0]);
}

/* ---- the walk ---- */

typedef void forward_rule(gal_builder *, gal_block_emit *, gal_emit_place, const gal_node *);

static forward_rule *const rules[GAL_NODE_COUNT] = {
    [GAL_NODE_LOAD] = forward_load,
    [GAL_NODE_LOAD_PATCHES] = forward_load_patches,
    [GAL_NODE_LOAD_LENGTHS] = forward_load_lengths,
    [GAL_NODE_EMBED] = forward_embed,
    [GAL_NODE_POSITION] = forward_position,
    [GAL_NODE_NORM] = forward_norm,
    [GAL_NODE_LINEAR] = forward_linear,
    [GAL_NODE_ROTARY] = gal_emit_forward_rotary,
    [GAL_NODE_ATTENTION] = gal_emit_forward_attention,
    [GAL_NODE_CROSS_ATTENTION] = gal_emit_forward_cross_attention,
    [GAL_NODE_SCALE] = forward_scale,
    [GAL_NODE_ACTIVATION] = forward_activation,
    [GAL_NODE_GATED_ACTIVATION] = forward_gated_activation,
    [GAL_NODE_RESIDUAL] = forward_residual,
    [GAL_NODE_DROPOUT] = forward_dropout,
    [GAL_NODE_FIRST_POSITION] = forward_first_position,
    [GAL_NODE_MEAN_POSITION] = forward_mean_position,
    [GAL_NODE_MERGE] = forward_merge,
    [GAL_NODE_CROSS_ENTROPY] = forward_cross_entropy,
    [GAL_NODE_SPLIT] = forward_alias,
    [GAL_NODE_REDUCE] = forward_reduce,
    [GAL_NODE_GATHER_SEQUENCE] = forward_gather,
    [GAL_NODE_SCATTER_SEQUENCE] = forward_scatter,
    [GAL_NODE_DEAL_HEADS] = forward_deal,
    [GAL_NODE_COLLECT_HEADS] = forward_collect,
    [GAL_NODE_MIRROR] = forward_mirror,
    [GAL_NODE_RING_ATTENTION] = gal_emit_forward_ring_attention,
    [GAL_NODE_TURN] = forward_turn,
    [GAL_NODE_ADD_BIAS] = forward_add_bias,
};

void gal_emit_node(gal_builder *b, gal_block_emit *e, gal_emit_place at, uint8_t index)
{
    rules[e->graph.node[index].kind](b, e, at, &e->graph.node[index]);
}

void gal_emit_forward(gal_builder *b, gal_block_emit *e)
{
    gal_emit_place here = {e->forward, false};
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
        gal_emit_node(b, e, here, i);
    }
}

void gal_emit_head_evaluation(gal_builder *b, gal_block_emit *e)
{
    uint32_t buffer[GAL_GRAPH_MAX];
    memset(buffer, 0xFF, sizeof buffer); /* GAL_NO_BUFFER */
    gal_emit_input(b, e, (gal_emit_place){buffer, true}, e->graph.node[e->graph.node_count - 1].out[0]);
}
