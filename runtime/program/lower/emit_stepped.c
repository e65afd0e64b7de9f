/* Products on a square step by step (SUMMA: R. van de Geijn, J. Watts, 1997; Q. Xu et al., arXiv 2104.05343, Algorithms
 * 1 to 3, the three forms AB, AB^T and A^T B). Of the side of the product that the row shares, its input or, of a token
 * table, its output, step t takes part t: what is read of it the device t of the row broadcasts, what is written of it
 * the row sums to that device. Weights: of the column, likewise.
 *
 *     forward   for t: X_t along the row, W_t along the column; Y += X_t W_t
 *     dX        for t: W_t along the column; dY W_t^T, summed along the row to t
 *     dW        for t: X_t along the row; X_t^T dY, summed along the column to t
 *
 * So 3 (q - 1) (T in + in out) elements move as in the gathered form, in 6 q calls for 6; a broadcast of a part takes
 * q / (q - 1) times as long as its share of a gather. For that there are prefetch_depth parts of each factor at a time
 * where the gathered form has panels of q. With one part a step waits for the product of the one before. With two the
 * broadcasts of step t + 1 are issued in front of the product of step t and run beside it, as its sums run beside the
 * product behind; weights that ZeRO-3 has gathered, or the host has sent, have one buffer of the ring for their parts,
 * since their own shard takes the other. */
#include "runtime/program/lower/emit_nodes.h"

/* The groups of a product, and its steps. */
typedef struct stepped {
    gal_builder *b;
    gal_block_emit *e;
    const gal_node *n;
    gal_group row, column;
    uint32_t ahead; /* steps that are spread in front of the product of one */
} stepped;

enum { PARTS_MAX = 2 };

/* Buffers that steps take in turn. */
typedef struct parts {
    uint32_t count;
    gal_operand of[PARTS_MAX];
} parts;

static stepped begin(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    GAL_ASSERT(b->spec->prefetch_depth <= PARTS_MAX);
    return (stepped){b, e, n, e->mesh.tp, e->graph.tensor[n->weight].gather_group, b->spec->prefetch_depth - 1};
}

/* The steps that are to be spread in front of the product of step t, where so many are ahead: *first up to *end. */
static void spread_now(const stepped *s, uint32_t ahead, uint32_t t, uint32_t *first, uint32_t *end)
{
    *first = t == 0 ? 0 : t + ahead;
    *end = t + ahead < s->n->steps ? t + ahead + 1 : s->n->steps;
}

static void move(const stepped *s, gal_op op, gal_stream stream, const char *name, gal_dtype dtype, gal_group group,
                 uint32_t root, gal_operand from, gal_operand to)
{
    gal_emit_collective(s->b, op, stream, name, dtype, group, from.bytes / gal_dtype_bytes(dtype), root);
    from.access = GAL_READ;
    gal_builder_operand_at(s->b, &from);
    gal_builder_operand_at(s->b, &to);
}

static gal_operand part_buffer(const stepped *s, const char *name, uint64_t bytes)
{
    return (gal_operand){.buffer = gal_emit_work(s->b, s->e, name, bytes), .access = GAL_WRITE, .bytes = bytes};
}

static parts part_buffers(const stepped *s, const char *name, uint64_t bytes)
{
    parts out = {.count = 1 + s->ahead};
    for (uint32_t i = 0; i < out.count; i++) {
        out.of[i] = part_buffer(s, name, bytes);
    }
    return out;
}

static const gal_operand *part_of(const parts *p, uint32_t t)
{
    return &p->of[t % p->count];
}

/* What of the rows is to be spread in front of the product of step t. */
static void spread_rows(const stepped *s, const char *name, uint32_t t, uint32_t buffer, uint8_t value,
                        const parts *part)
{
    uint32_t first = 0, end = 0;
    for (spread_now(s, s->ahead, t, &first, &end); first < end; first++) {
        move(s, GAL_OP_BROADCAST, GAL_STREAM_TENSOR, name, s->b->program->dtype, s->row, first,
             gal_emit_whole(s->b, s->e, buffer, value), *part_of(part, first));
    }
}

/* The same of the weights, whose buffers are the ring's. */
static void spread_weights(const stepped *s, uint32_t t, parts *weight)
{
    uint32_t first = 0, end = 0;
    for (spread_now(s, weight->count - 1, t, &first, &end); first < end; first++) {
        weight->of[first % weight->count] = gal_zero_weight_step(s->b, s->e, s->n->weight, first);
    }
}

static parts weight_parts(const stepped *s)
{
    return (parts){.count = gal_zero_weight_steps(s->b, s->e, s->n->weight)};
}

/* The device t of the row has its part of the value then; all have theirs behind the last step. */
static void sum_rows(const stepped *s, const char *name, uint32_t t, const gal_operand *part, uint32_t buffer,
                     uint8_t value)
{
    gal_operand to = gal_emit_whole(s->b, s->e, buffer, value);
    to.access = t == 0 ? GAL_WRITE : GAL_UPDATE;
    move(s, GAL_OP_REDUCE, GAL_STREAM_TENSOR, name, s->b->program->dtype, s->row, t, *part, to);
}

static void product(const stepped *s, const char *name, const gal_shape *shape, const gal_operand *a,
                    const gal_operand *w, const gal_operand *c, gal_access access)
{
    const gal_operand *const read[2] = {a, w};
    gal_builder_instruction(s->b, GAL_STREAM_COMPUTE, name, shape);
    for (uint32_t i = 0; i < 2; i++) {
        gal_operand operand = *read[i];
        operand.access = GAL_READ;
        gal_builder_operand_at(s->b, &operand);
    }
    gal_operand out = *c;
    out.access = (uint8_t)access;
    gal_builder_operand_at(s->b, &out);
}

static gal_shape shape_of(const stepped *s, uint32_t n, uint32_t k, uint32_t flags)
{
    return (gal_shape){
        .op = GAL_OP_GEMM, .dtype = s->b->program->dtype, .dims = {gal_emit_rows(s->e, s->n->in[0]), n, k, flags}};
}

void gal_emit_stepped_forward(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t y)
{
    const stepped s = begin(b, e, n);
    const uint8_t parted = n->steps_outputs ? n->out[0] : n->in[0];
    const gal_operand whole_x = gal_emit_whole(b, e, x, n->in[0]), whole_y = gal_emit_whole(b, e, y, n->out[0]);
    const parts part = part_buffers(&s, "part", gal_emit_bytes(b, e, parted));
    parts weight = weight_parts(&s);
    for (uint32_t t = 0; t < n->steps; t++) {
        const bool biased = n->bias != GAL_NO_VALUE && t == 0;
        const gal_shape shape =
            shape_of(&s, n->out_features, n->in_features,
                     (n->weight_transposed ? GAL_GEMM_TRANSPOSE_B : 0u) | (biased ? GAL_GEMM_BIAS : 0u));
        if (!n->steps_outputs) {
            spread_rows(&s, "spread a", t, x, n->in[0], &part);
        }
        spread_weights(&s, t, &weight);
        const bool adds = t > 0 && !n->steps_outputs;
        product(&s, n->name, &shape, n->steps_outputs ? &whole_x : part_of(&part, t), part_of(&weight, t),
                n->steps_outputs ? part_of(&part, t) : &whole_y, adds ? GAL_UPDATE : GAL_WRITE);
        if (biased) {
            gal_operand bias = gal_zero_weight(b, e, n->bias);
            gal_builder_operand_at(b, &bias);
        }
        if (n->steps_outputs) {
            sum_rows(&s, "sum y", t, part_of(&part, t), y, n->out[0]);
        }
    }
}

void gal_emit_stepped_input_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t dy, uint32_t dx,
                                     bool adds)
{
    const stepped s = begin(b, e, n);
    const uint8_t parted = n->steps_outputs ? n->out[0] : n->in[0];
    const gal_operand whole_dx = gal_emit_whole(b, e, dx, n->in[0]), whole_dy = gal_emit_whole(b, e, dy, n->out[0]);
    const parts part = part_buffers(&s, "part", gal_emit_bytes(b, e, parted));
    parts weight = weight_parts(&s);
    const gal_shape shape =
        shape_of(&s, n->in_features, n->out_features, n->weight_transposed ? 0 : GAL_GEMM_TRANSPOSE_B);
    for (uint32_t t = 0; t < n->steps; t++) {
        if (n->steps_outputs) {
            spread_rows(&s, "spread dy", t, dy, n->out[0], &part);
        }
        spread_weights(&s, t, &weight);
        product(&s, n->backward_name, &shape, n->steps_outputs ? part_of(&part, t) : &whole_dy, part_of(&weight, t),
                n->steps_outputs ? &whole_dx : part_of(&part, t),
                n->steps_outputs && (adds || t > 0) ? GAL_UPDATE : GAL_WRITE);
        if (!n->steps_outputs) {
            sum_rows(&s, "sum da", t, part_of(&part, t), dx, n->in[0]);
        }
    }
}

/* For the terms of dW. Where their sum is not added to anything, compute does not wait for the last one, so that none
 * may be in work: there is one then. */
static parts term_buffers(const stepped *s, uint64_t bytes, bool adds)
{
    parts out = {.count = 1, .of = {{.buffer = gal_zero_scratch(s->b, bytes), .bytes = bytes}}};
    for (; adds && out.count < 1 + s->ahead; out.count++) {
        out.of[out.count] = part_buffer(s, "term", bytes);
    }
    return out;
}

void gal_emit_stepped_weight_gradient(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t dy)
{
    const stepped s = begin(b, e, n);
    const gal_dtype wide = gal_dtype_wide(b->program->dtype);
    const uint8_t parted = n->steps_outputs ? n->out[0] : n->in[0];
    gal_operand gradient = gal_zero_gradient(b, e, n->weight);
    const bool adds = gradient.access != GAL_WRITE;
    const parts part = part_buffers(&s, "part", gal_emit_bytes(b, e, parted));
    const parts term = term_buffers(&s, gradient.bytes, adds);
    gal_operand sum = adds ? part_buffer(&s, "dw", gradient.bytes) : gradient;
    const gal_operand own = n->steps_outputs ? gal_emit_whole(b, e, x, n->in[0]) : gal_emit_whole(b, e, dy, n->out[0]);
    const bool part_first = n->steps_outputs == n->weight_transposed; /* of [in][out], or of its transpose */
    const gal_shape shape = {.op = GAL_OP_GEMM,
                             .dtype = b->program->dtype,
                             .dims = {n->weight_transposed ? n->out_features : n->in_features,
                                      n->weight_transposed ? n->in_features : n->out_features,
                                      gal_emit_rows(e, n->in[0]),
                                      GAL_GEMM_TRANSPOSE_A | (wide != b->program->dtype ? GAL_GEMM_FP32_C : 0u)}};
    for (uint32_t t = 0; t < n->steps; t++) {
        const gal_operand *spread = part_of(&part, t), *made = part_of(&term, t);
        spread_rows(&s, n->steps_outputs ? "spread dy" : "spread a", t, n->steps_outputs ? dy : x, parted, &part);
        product(&s, n->weight_gradient_name, &shape, part_first ? spread : &own, part_first ? &own : spread, made,
                GAL_WRITE);
        sum.access = t == 0 ? GAL_WRITE : GAL_UPDATE;
        move(&s, GAL_OP_REDUCE, GAL_STREAM_TENSOR, "sum dw", wide, s.column, t, *made, sum);
    }
    if (adds) {
        const gal_shape addition = {
            .op = GAL_OP_ADD, .dtype = wide, .dims = {gal_builder_dim(b, sum.bytes / gal_dtype_bytes(wide))}};
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, "accumulate", &addition);
        sum.access = GAL_READ;
        gal_builder_operand_at(b, &sum);
        gal_builder_operand_at(b, &gradient);
    }
    gal_zero_gradient_done(b, e, n->weight);
}
