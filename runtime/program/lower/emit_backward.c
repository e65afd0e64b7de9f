/* The backward of nodes, and of a block. */
#include "runtime/program/lower/emit_nodes.h"

#include <string.h>

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
    e->gradient[value] = belongs_in_port(e, value) ? e->dx : gal_emit_work(b, e, name, gal_emit_bytes(b, e, value));
    return e->gradient[value];
}

/* The gradient of a value is in the buffer, or a part of it is: another reader's is there already. */
static void take_gradient(gal_builder *b, gal_block_emit *e, uint8_t value, uint32_t buffer)
{
    if (e->gradient[value] == GAL_NO_BUFFER) {
        e->gradient[value] = buffer;
        return;
    }
    const uint64_t elements = (uint64_t)gal_emit_rows(e, value) * e->graph.value[value].features;
    gal_shape shape = {.op = GAL_OP_ADD, .dtype = b->program->dtype, .dims = {gal_builder_dim(b, elements)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "add dx", &shape);
    gal_emit_read(b, e, buffer, value);
    gal_emit_access(b, e, e->gradient[value], value, GAL_UPDATE);
}

void gal_emit_bias_gradient(gal_builder *b, gal_block_emit *e, uint8_t tensor, uint32_t dy, uint8_t value,
                            const char *name)
{
    gal_operand gradient = gal_zero_gradient(b, e, tensor);
    gal_shape shape = {.op = GAL_OP_BIAS_GRADIENT,
                       .dtype = b->program->dtype,
                       .dims = {gal_emit_rows(e, value), e->graph.value[value].features}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape);
    gal_emit_read(b, e, dy, value);
    gal_builder_operand_at(b, &gradient);
    gal_zero_gradient_done(b, e, tensor);
}

/* Where other devices wait for the gradient of a linear's input, it is issued first, and that of the weight behind the
 * collective that it starts, so that both run side by side (Megatron; Colossal-AI's public implementation does the
 * same). Elsewhere the weight's comes first, unless it takes the weight's place: its reduction starts earlier, and
 * between the input's and what is done with it nothing stands, so that the two can be one kernel
 * (runtime/ops/cuda/gemm.h). */
static bool communicates(const gal_node *n)
{
    return n->kind == GAL_NODE_SPLIT || n->kind == GAL_NODE_GATHER_SEQUENCE || n->kind == GAL_NODE_COLLECT_HEADS ||
           n->kind == GAL_NODE_MIRROR;
}

/* The node behind it in the backward communicates, or there is none and the gradient leaves the block. */
static bool others_wait(const gal_block_emit *e, const gal_node *n)
{
    return n == e->graph.node || communicates(n - 1);
}

static void weight_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t dy)
{
    const gal_operand gradient = gal_zero_gradient_panel(b, e, n->weight);
    const gal_linear_panels panels = gal_emit_panels(b, e, n, e->backward[n->in[0]], dy, &gradient);
    const uint32_t wide = gal_dtype_is_narrow(b->program->dtype) ? GAL_GEMM_FP32_C : 0;
    const gal_panel *rows = n->weight_transposed ? &panels.out : &panels.in;
    const gal_panel *columns = n->weight_transposed ? &panels.in : &panels.out;
    for (uint32_t t = 0; t < panels.count; t++) {
        const gal_shape shape = {.op = GAL_OP_GEMM,
                                 .dtype = b->program->dtype,
                                 .dims = {n->weight_transposed ? n->out_features : n->in_features,
                                          n->weight_transposed ? n->in_features : n->out_features,
                                          gal_emit_rows(e, n->in[0]), GAL_GEMM_TRANSPOSE_A | wide}};
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->weight_gradient_name, &shape);
        gal_emit_part(b, rows, t, GAL_READ);
        gal_emit_part(b, columns, t, GAL_READ);
        gal_emit_part(b, &panels.weight, t, (gal_access)gradient.access);
    }
    gal_zero_gradient_panel_done(b, e, n->weight, &gradient);
}

void gal_emit_pending(gal_builder *b, gal_block_emit *e)
{
    if (e->pending == GAL_NO_VALUE) {
        return;
    }
    const gal_node *n = &e->graph.node[e->pending];
    e->pending = GAL_NO_VALUE;
    const uint32_t dy = e->gradient[n->out[0]];
    if (n->steps > 0) {
        gal_emit_stepped_weight_gradient(b, e, n, e->backward[n->in[0]], dy);
    } else {
        weight_gradient(b, e, n, dy);
    }
    if (n->bias != GAL_NO_VALUE) {
        gal_emit_bias_gradient(b, e, n->bias, dy, n->out[0], "db");
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
    uint32_t tokens = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    gal_operand gradient = gal_zero_gradient_panel(b, e, n->weight);
    const gal_shape shape = gal_emit_embed_shape(b, e, GAL_OP_EMBED_BACKWARD, n);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    i->group = gal_emit_table_group(e, n);
    i->layout = e->whole_layout;
    gal_emit_read(b, e, tokens, n->in[0]);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_builder_operand_at(b, &gradient);
    gal_zero_gradient_panel_done(b, e, n->weight, &gradient);
}

static void backward_position(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const bool has_more = n->bias != GAL_NO_VALUE;
    uint32_t de = gradient_buffer(b, e, n->in[0], "de");
    gal_operand gradient = gal_zero_gradient(b, e, n->weight);
    gal_operand more = has_more ? gal_zero_gradient(b, e, n->bias) : (gal_operand){0};
    gal_shape shape = gal_emit_position_shape(b, e, GAL_OP_POSITION_BACKWARD, n);
    gal_emit_by_rows(b, e, n->backward_name, &shape);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_access(b, e, de, n->in[0], GAL_WRITE);
    gal_builder_operand_at(b, &gradient);
    if (has_more) {
        gal_builder_operand_at(b, &more);
        gal_zero_gradient_done(b, e, n->bias);
    }
    gal_zero_gradient_done(b, e, n->weight);
}

static void backward_norm(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t x = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    uint32_t stats = gal_emit_input(b, e, gal_emit_again(e), n->out[1]);
    uint32_t addend = e->gradient[n->in[0]];
    const bool has_bias = n->bias != GAL_NO_VALUE;
    gal_operand gain = gal_zero_weight(b, e, n->weight);
    const uint32_t dx = gradient_buffer(b, e, n->in[0], "dx");
    gal_operand dgain = gal_zero_gradient(b, e, n->weight);
    gal_operand dbias = has_bias ? gal_zero_gradient(b, e, n->bias) : (gal_operand){0};
    if (e->graph.feature_parts > 1) {
        const gal_operand gradients[2] = {dgain, dbias};
        gal_emit_norm_parts_backward(b, e, n, x, stats, &gain, gradients, addend, dx);
        return;
    }
    gal_shape shape = {
        .op = has_bias ? GAL_OP_LAYER_NORM_BACKWARD : GAL_OP_RMS_NORM_BACKWARD,
        .dtype = b->program->dtype,
        .dims = {gal_emit_rows(e, n->in[0]), e->graph.value[n->in[0]].features, addend != GAL_NO_BUFFER}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, x, n->in[0]);
    gal_builder_operand_at(b, &gain);
    gal_emit_read(b, e, stats, n->out[1]);
    gal_emit_access(b, e, dx, n->in[0], GAL_WRITE);
    gal_builder_operand_at(b, &dgain);
    if (has_bias) {
        gal_builder_operand_at(b, &dbias);
    }
    if (addend != GAL_NO_BUFFER) {
        gal_emit_read(b, e, addend, n->in[0]);
    }
    gal_zero_gradient_done(b, e, n->weight);
    if (has_bias) {
        gal_zero_gradient_done(b, e, n->bias);
    }
}

/* What the weight part of a linear starts from: its input, or what that is gathered from. */
uint8_t gal_emit_weight_source(const gal_block_emit *e, const gal_node *n)
{
    const uint8_t producer = gal_graph_producer(&e->graph, n->in[0]);
    const bool gathered =
        producer != GAL_NO_VALUE && e->graph.node[producer].kind == GAL_NODE_GATHER_SEQUENCE && e->redo[producer];
    return gathered ? e->graph.node[producer].in[0] : n->in[0];
}

/* Data have no gradient. */
static bool is_loaded(const gal_block_emit *e, uint8_t value)
{
    const uint8_t producer = gal_graph_producer(&e->graph, value);
    return producer != GAL_NO_VALUE && e->graph.node[producer].kind == GAL_NODE_LOAD_PATCHES;
}

static void gradient_products(gal_builder *b, const gal_node *n, const gal_linear_panels *panels, uint32_t rows,
                              bool add)
{
    const gal_shape shape = {
        .op = GAL_OP_GEMM,
        .dtype = b->program->dtype,
        .dims = {rows, n->in_features, n->out_features, n->weight_transposed ? 0 : GAL_GEMM_TRANSPOSE_B}};
    for (uint32_t t = 0; t < panels->count; t++) {
        const bool adds = add || (t > 0 && n->out_panel > 0);
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
        gal_emit_part(b, &panels->out, t, GAL_READ);
        gal_emit_part(b, &panels->weight, t, GAL_READ);
        gal_emit_part(b, &panels->in, t, adds ? GAL_UPDATE : GAL_WRITE);
    }
}

static void stepped_input_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t dy)
{
    const bool add = e->gradient[n->in[0]] != GAL_NO_BUFFER;
    const bool apart = add && !n->steps_outputs; /* parts come one by one: they are added when all are there */
    const uint32_t dx = apart ? gal_emit_work(b, e, "da", gal_emit_bytes(b, e, n->in[0]))
                        : add ? e->gradient[n->in[0]]
                              : gradient_buffer(b, e, n->in[0], "dx");
    gal_emit_stepped_input_gradient(b, e, n, dy, dx, add);
    if (apart) {
        take_gradient(b, e, n->in[0], dx);
    }
}

static void input_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const bool add = e->gradient[n->in[0]] != GAL_NO_BUFFER;
    const uint32_t dy = e->gradient[n->out[0]];
    if (n->steps > 0) {
        stepped_input_gradient(b, e, n, dy);
        return;
    }
    const gal_operand weight = gal_zero_weight_panel(b, e, n->weight);
    const uint32_t chunks = gal_emit_gradient_chunks(e, n);
    const uint32_t dx = add ? e->gradient[n->in[0]] : gradient_buffer(b, e, n->in[0], "dx");
    const gal_linear_panels panels = gal_emit_panels(b, e, n, dx, dy, &weight);
    for (uint32_t c = 0; c < chunks; c++) {
        const gal_linear_panels part = {panels.count, gal_emit_chunk(&panels.in, c, chunks), panels.weight,
                                        gal_emit_chunk(&panels.out, c, chunks)};
        gradient_products(b, n, &part, gal_emit_rows(e, n->in[0]) / chunks, add);
        if (chunks > 1) {
            gal_emit_chunk_sum(b, e, n[-1].backward_name, n->in[0], &part.in);
        }
    }
}

static void backward_linear(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const bool weight_first = !others_wait(e, n) && !b->spec->gradient_reuses_parameter;
    /* a gather, if any, runs beside the next GEMM */
    gal_emit_input(b, e, gal_emit_again(e), b->split && !e->graph.head ? gal_emit_weight_source(e, n) : n->in[0]);
    e->pending = b->split ? e->pending : (uint8_t)(n - e->graph.node);
    if (weight_first) {
        gal_emit_pending(b, e);
    }
    if (!is_loaded(e, n->in[0])) {
        input_gradient(b, e, n);
    }
    if (!others_wait(e, n)) {
        gal_emit_pending(b, e);
    }
}

static void backward_add_bias(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const uint32_t dy = e->gradient[n->out[0]];
    gal_emit_bias_gradient(b, e, n->bias, dy, n->out[0], n->weight_gradient_name);
    e->gradient[n->in[0]] = dy;
}

static void backward_attention(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t qkv = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    uint32_t ctx = gal_emit_input(b, e, gal_emit_again(e), n->out[0]);
    uint32_t lse = gal_emit_input(b, e, gal_emit_again(e), n->out[1]);
    uint32_t lengths = gal_emit_lengths(b, e, gal_emit_again(e), n);
    const bool biased = n->weight != GAL_NO_VALUE;
    uint32_t dqkv = gradient_buffer(b, e, n->in[0], "dqkv");
    gal_operand bias = biased ? gal_zero_weight(b, e, n->weight) : (gal_operand){0};
    gal_operand dbias = biased ? gal_zero_gradient(b, e, n->weight) : (gal_operand){0};
    gal_shape shape = gal_emit_attention_shape(b, e, true, n);
    gal_emit_place_heads(e, gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape), n->in[0]);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, qkv, n->in[0]);
    gal_emit_read(b, e, ctx, n->out[0]);
    gal_emit_read(b, e, lse, n->out[1]);
    if (biased) {
        gal_builder_operand_at(b, &bias);
    }
    gal_emit_access(b, e, dqkv, n->in[0], GAL_WRITE);
    if (biased) {
        gal_builder_operand_at(b, &dbias);
    }
    gal_emit_read_lengths(b, e, lengths, n);
    if (biased) {
        gal_zero_gradient_done(b, e, n->weight);
    }
}

static void backward_cross_attention(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t q = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    uint32_t kv = gal_emit_input(b, e, gal_emit_again(e), n->in[1]);
    uint32_t ctx = gal_emit_input(b, e, gal_emit_again(e), n->out[0]);
    uint32_t lse = gal_emit_input(b, e, gal_emit_again(e), n->out[1]);
    uint32_t lengths = gal_emit_lengths(b, e, gal_emit_again(e), n);
    uint32_t dq = gradient_buffer(b, e, n->in[0], "dq");
    uint32_t dkv = gradient_buffer(b, e, n->in[1], "dkv");
    gal_shape shape = gal_emit_cross_shape(b, e, GAL_OP_CROSS_ATTENTION_BACKWARD);
    gal_emit_place_heads(e, gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape), n->in[0]);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, q, n->in[0]);
    gal_emit_read(b, e, kv, n->in[1]);
    gal_emit_read(b, e, ctx, n->out[0]);
    gal_emit_read(b, e, lse, n->out[1]);
    gal_emit_access(b, e, dq, n->in[0], GAL_WRITE);
    gal_emit_access(b, e, dkv, n->in[1], GAL_WRITE);
    gal_emit_read_lengths(b, e, lengths, n);
}

static void backward_scale(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t buffer = e->gradient[n->out[0]];
    gal_emit_scale(b, e, n->backward_name, buffer, n->out[0]);
    e->gradient[n->in[0]] = buffer;
}

static void backward_rotary(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t buffer = e->gradient[n->out[0]];
    gal_emit_turn(b, e, n->backward_name, buffer, n->out[0], true);
    e->gradient[n->in[0]] = buffer;
}

static void backward_gated_activation(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t u = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    uint32_t du = gradient_buffer(b, e, n->in[0], "du");
    gal_shape shape = gal_emit_gated_shape(b, e, GAL_OP_GATED_ACTIVATION_BACKWARD, n);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, u, n->in[0]);
    gal_emit_access(b, e, du, n->in[0], GAL_WRITE);
}

/* In the place of what it reads, whose last reader it is: a product that writes that gradient and the derivative can
 * then be one kernel, which writes nothing that the product reads. */
static void backward_activation(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t u = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    const uint32_t du = e->gradient[n->out[0]];
    e->gradient[n->in[0]] = du;
    gal_shape shape = gal_emit_activation_shape(b, e, GAL_OP_ACTIVATION_BACKWARD, n->in[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, u, n->in[0]);
    gal_emit_access(b, e, du, n->in[0], GAL_WRITE);
}

static void backward_residual(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t dy = e->gradient[n->out[0]];
    e->gradient[n->in[0]] = dy;
    e->gradient[n->in[1]] = dy;
    /* A port is added to before the weight part reads what was there: a copy for it. */
    if (gal_emit_model(b)->residual_dropout > 0 || (b->split && dy == e->dx)) {
        gal_emit_dropout(b, e, n->backward_name, dy, gradient_buffer(b, e, n->in[1], "do"), n->in[1]);
    }
    if (n->bias != GAL_NO_VALUE && !b->split) {
        gal_emit_bias_gradient(b, e, n->bias, e->gradient[n->in[1]], n->in[1], n->weight_gradient_name);
    }
}

static void backward_dropout(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    gal_emit_dropout(b, e, n->backward_name, e->gradient[n->out[0]], gradient_buffer(b, e, n->in[0], "dx"), n->in[0]);
}

/* dx of dy alone, by one kernel that is told which rows this device holds. */
static void backward_of_rows(gal_builder *b, gal_block_emit *e, const gal_node *n, const gal_shape *shape)
{
    uint32_t dx = gradient_buffer(b, e, n->in[0], "dx");
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, shape)->layout = e->chunk_layout;
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_access(b, e, dx, n->in[0], GAL_WRITE);
}

static void backward_first_position(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const gal_shape shape = gal_emit_first_position_shape(b, e, GAL_OP_FIRST_POSITION_BACKWARD, n);
    backward_of_rows(b, e, n, &shape);
}

static void backward_mean_position(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const gal_shape shape = gal_emit_mean_position_shape(b, e, GAL_OP_MEAN_POSITION_BACKWARD, n);
    backward_of_rows(b, e, n, &shape);
}

static void backward_merge(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const gal_shape shape = gal_emit_merge_shape(b, e, GAL_OP_MERGE_BACKWARD, n);
    backward_of_rows(b, e, n, &shape);
}

static void backward_cross_entropy(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    gal_shape shape = gal_emit_vocabulary_shape(b, e, GAL_OP_CROSS_ENTROPY_BACKWARD, n->in[0]);
    uint32_t logits = gal_emit_input(b, e, gal_emit_again(e), n->in[0]);
    gal_instruction *i = gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    i->group = e->mesh.tp;
    i->layout = gal_emit_layout(e, n->in[0]);
    gal_emit_access(b, e, logits, n->in[0], GAL_UPDATE);
    gal_emit_read(b, e, gal_emit_input(b, e, gal_emit_again(e), n->out[0]), n->out[0]);
    gal_emit_read(b, e, gal_emit_input(b, e, gal_emit_again(e), n->out[1]), n->out[1]);
    gal_emit_read(b, e, gal_emit_input(b, e, gal_emit_again(e), n->in[1]), n->in[1]);
    e->gradient[n->in[0]] = logits;
}

static void backward_split(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t buffer = e->gradient[n->out[0]];
    if (e->summed != n->out[0]) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, n->backward_name, b->program->dtype, e->mesh.tp,
                            (uint64_t)gal_emit_rows(e, n->out[0]) * e->graph.value[n->out[0]].features, GAL_REDUCE_SUM);
        gal_emit_access(b, e, buffer, n->out[0], GAL_UPDATE);
    }
    e->summed = GAL_NO_VALUE;
    gal_emit_pending(b, e); /* beside it, and in front of an addition that waits for it */
    take_gradient(b, e, n->in[0], buffer);
}

static void backward_alias(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    take_gradient(b, e, n->in[0], e->gradient[n->out[0]]);
}

static void backward_gather(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const bool add = e->gradient[n->in[0]] != GAL_NO_BUFFER;
    uint32_t to =
        add ? gal_emit_work(b, e, "da", gal_emit_bytes(b, e, n->in[0])) : gradient_buffer(b, e, n->in[0], "da");
    gal_emit_move_sequence(b, e, n, GAL_OP_REDUCE_SCATTER, n->backward_name, e->gradient[n->out[0]], n->out[0], to,
                           n->in[0]);
    if (add) {
        gal_emit_pending(b, e);
        take_gradient(b, e, n->in[0], to);
    }
}

static void backward_scatter(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t to = gradient_buffer(b, e, n->in[0], "do");
    gal_emit_move_sequence(b, e, n, GAL_OP_ALL_GATHER, n->backward_name, e->gradient[n->out[0]], n->out[0], to,
                           n->in[0]);
}

static void backward_turn(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    uint32_t to = gradient_buffer(b, e, n->in[0], "do");
    gal_emit_turn_rows(b, e, e->gradient[n->out[0]], n->out[0], to, n->in[0]);
}

static void backward_deal(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const uint32_t from = e->gradient[n->out[0]];
    const uint32_t to = gradient_buffer(b, e, n->in[0], "dqkv");
    gal_emit_collect(b, e, n->backward_name, n->part, from, n->out[0], to, n->in[0]);
}

static void backward_collect(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const uint32_t from = e->gradient[n->out[0]];
    const uint32_t to = gradient_buffer(b, e, n->in[0], "dctx");
    gal_emit_deal(b, e, n->backward_name, n->part, from, n->out[0], to, n->in[0]);
}

static void backward_mirror(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    const uint32_t dy = e->gradient[n->out[0]], dx = gradient_buffer(b, e, n->in[0], "dx");
    gal_emit_mirror(b, e, n->backward_name, dy, n->out[0], dx, n->in[0]);
}

static void backward_ring_attention(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    gal_ring_backward of = {.qkv = gal_emit_input(b, e, gal_emit_again(e), n->in[0])};
    of.ctx = gal_emit_input(b, e, gal_emit_again(e), n->out[0]);
    of.lse = gal_emit_input(b, e, gal_emit_again(e), n->out[1]);
    of.dctx = e->gradient[n->out[0]];
    of.dqkv = gradient_buffer(b, e, n->in[0], "dqkv");
    gal_emit_ring_backward(b, e, n, &of);
}

/* ---- the walk ---- */

typedef void backward_rule(gal_builder *, gal_block_emit *, const gal_node *);

static backward_rule *const rules[GAL_NODE_COUNT] = {
    [GAL_NODE_LOAD] = backward_nothing,
    [GAL_NODE_LOAD_PATCHES] = backward_nothing,
    [GAL_NODE_LOAD_LENGTHS] = backward_nothing,
    [GAL_NODE_EMBED] = backward_embed,
    [GAL_NODE_POSITION] = backward_position,
    [GAL_NODE_NORM] = backward_norm,
    [GAL_NODE_LINEAR] = backward_linear,
    [GAL_NODE_ROTARY] = backward_rotary,
    [GAL_NODE_ATTENTION] = backward_attention,
    [GAL_NODE_CROSS_ATTENTION] = backward_cross_attention,
    [GAL_NODE_SCALE] = backward_scale,
    [GAL_NODE_ACTIVATION] = backward_activation,
    [GAL_NODE_GATED_ACTIVATION] = backward_gated_activation,
    [GAL_NODE_RESIDUAL] = backward_residual,
    [GAL_NODE_DROPOUT] = backward_dropout,
    [GAL_NODE_FIRST_POSITION] = backward_first_position,
    [GAL_NODE_MEAN_POSITION] = backward_mean_position,
    [GAL_NODE_MERGE] = backward_merge,
    [GAL_NODE_CROSS_ENTROPY] = backward_cross_entropy,
    [GAL_NODE_SPLIT] = backward_split,
    [GAL_NODE_REDUCE] = backward_alias,
    [GAL_NODE_GATHER_SEQUENCE] = backward_gather,
    [GAL_NODE_SCATTER_SEQUENCE] = backward_scatter,
    [GAL_NODE_DEAL_HEADS] = backward_deal,
    [GAL_NODE_COLLECT_HEADS] = backward_collect,
    [GAL_NODE_MIRROR] = backward_mirror,
    [GAL_NODE_RING_ATTENTION] = backward_ring_attention,
    [GAL_NODE_TURN] = backward_turn,
    [GAL_NODE_ADD_BIAS] = backward_add_bias,
};

/* The block's part of the gradient of the carried tensor that it reads, when it is complete on its devices. */
static void add_to_carried(gal_builder *b, const gal_block_emit *e)
{
    const uint8_t value = e->graph.carried_in;
    const uint64_t elements = (uint64_t)gal_emit_rows(e, value) * e->graph.value[value].features;
    gal_shape shape = {.op = GAL_OP_ADD, .dtype = b->program->dtype, .dims = {gal_builder_dim(b, elements)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "add dcarried", &shape);
    gal_emit_read(b, e, e->gradient[value], value);
    gal_emit_access(b, e, e->dcarried, value, e->dcarried_written ? GAL_UPDATE : GAL_WRITE);
}

void gal_emit_recompute(gal_builder *b, gal_block_emit *e)
{
    const gal_node *last = &e->graph.node[gal_graph_producer(&e->graph, e->graph.y)];
    for (uint32_t i = 0; i < GAL_NODE_INPUTS; i++) {
        if (last->in[i] != GAL_NO_VALUE) {
            gal_emit_input(b, e, gal_emit_again(e), last->in[i]);
        }
    }
    b->repeats = true;
    gal_emit_input(b, e, gal_emit_again(e), e->graph.y);
    b->repeats = false;
}

void gal_emit_backward(gal_builder *b, gal_block_emit *e)
{
    if (e->graph.carried_out != GAL_NO_VALUE) {
        e->gradient[e->graph.carried_out] = e->dcarried;
    }
    if (e->graph.head) { /* the loss is wanted for itself */
        const gal_node *last = &e->graph.node[e->graph.node_count - 1];
        gal_emit_input(b, e, gal_emit_again(e), last->out[0]);
    } else {
        e->gradient[e->graph.y] = e->dy;
    }
    for (uint32_t i = e->graph.node_count; i-- > 0;) {
        const gal_node *n = &e->graph.node[i];
        rules[n->kind](b, e, n);
        if (communicates(n)) {
            gal_emit_pending(b, e);
        }
        if (n->in[0] != GAL_NO_VALUE && n->in[0] == e->graph.carried_in) {
            add_to_carried(b, e);
        }
    }
    gal_emit_pending(b, e);
    GAL_ASSERT(e->graph.x == GAL_NO_VALUE || e->gradient[e->graph.x] == e->dx);
}
