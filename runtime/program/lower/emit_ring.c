/* Ring attention. A chunk's keys and values stay for one step and go on to the next device: while step m is computed
 * those of step m + 1 travel. Forward merges the steps as they come, by their log-sum-exps, in sums as wide as
 * gradients of weights. Backward takes keys and values round again; the gradient of a chunk's keys and values follows
 * them one device behind: a step's part is added to what the devices before have added, and N hops take the sum home.
 *
 *     tensor    keys 1 | keys 2, sum 0 | keys 3, sum 1 | ...            one member's share of each
 *     compute   step 0 | step 1        | add, step 2   | ...
 *
 * Two buffers of keys take turns, and two of sums. Zig-zag differs in the rows that a chunk has, and so in what its
 * steps see. */
#include "runtime/program/lower/emit_nodes.h"

typedef struct ring {
    gal_builder *b;
    gal_block_emit *e;
    const gal_node *n;
    uint32_t chunks, rows, heads, kv_heads, dim;
    gal_dtype dtype, wide;
} ring;

static ring ring_of(gal_builder *b, gal_block_emit *e, const gal_node *n)
{
    return (ring){.b = b,
                  .e = e,
                  .n = n,
                  .chunks = e->graph.sequence_degree,
                  .rows = gal_emit_rows(e, n->in[0]),
                  .heads = gal_emit_heads(e, e->shape.head_count),
                  .kv_heads = gal_emit_heads(e, e->shape.kv_head_count),
                  .dim = e->shape.head_dim,
                  .dtype = b->program->dtype,
                  .wide = gal_dtype_wide(b->program->dtype)};
}

static uint64_t query_elements(const ring *r)
{
    return (uint64_t)r->rows * r->heads * r->dim;
}

static uint64_t key_elements(const ring *r)
{
    return (uint64_t)r->rows * 2 * r->kv_heads * r->dim;
}

static uint32_t work(const ring *r, const char *name, uint64_t elements, gal_dtype dtype)
{
    return gal_emit_work(r->b, r->e, name, elements * gal_dtype_bytes(dtype));
}

static void take_keys(const ring *r, uint32_t qkv, uint32_t keys)
{
    const gal_shape shape = {
        .op = GAL_OP_TAKE_KEYS, .dtype = r->dtype, .dims = {r->rows, r->heads, r->kv_heads, r->dim}};
    gal_builder_instruction(r->b, GAL_STREAM_COMPUTE, "keys", &shape);
    gal_emit_read(r->b, r->e, qkv, r->n->in[0]);
    gal_builder_operand(r->b, keys, GAL_WRITE);
}

static void rotate(const ring *r, const char *name, gal_dtype dtype, uint32_t from, uint32_t to)
{
    gal_emit_collective(r->b, GAL_OP_ROTATE, GAL_STREAM_TENSOR, name, dtype, r->e->mesh.sequence, key_elements(r), 0);
    gal_builder_operand(r->b, from, GAL_READ);
    gal_builder_operand(r->b, to, GAL_WRITE);
}

void gal_emit_mirror(gal_builder *b, gal_block_emit *e, const char *name, uint32_t from, uint8_t source, uint32_t to,
                     uint8_t target)
{
    const uint64_t elements = (uint64_t)gal_emit_rows(e, source) * e->graph.value[source].features;
    gal_emit_collective(b, GAL_OP_MIRROR, GAL_STREAM_TENSOR, name, b->program->dtype, e->mesh.sequence, elements / 2, 0)
        ->layout = gal_emit_layout(e, source);
    gal_emit_read(b, e, from, source);
    gal_emit_access(b, e, to, target, GAL_WRITE);
}

static void begin_step(const ring *r, gal_op op, const char *name, uint32_t step)
{
    const gal_shape shape = {
        .op = op,
        .dtype = r->dtype,
        .dims = {r->e->samples, r->e->sequence, r->heads, r->dim, r->kv_heads, r->n->attention_flags, step, r->chunks}};
    gal_emit_place_heads(r->e, gal_builder_instruction(r->b, GAL_STREAM_COMPUTE, name, &shape), r->n->in[0]);
}

/* What a step adds to: the first one writes it. */
static void add_to(const ring *r, uint32_t buffer, uint32_t step)
{
    gal_builder_operand(r->b, buffer, step == 0 ? GAL_WRITE : GAL_UPDATE);
}

/* The same of a value of the node. */
static void add_to_value(const ring *r, uint32_t buffer, uint8_t value, uint32_t step)
{
    gal_emit_access(r->b, r->e, buffer, value, step == 0 ? GAL_WRITE : GAL_UPDATE);
}

void gal_emit_ring(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t qkv, uint32_t ctx, uint32_t lse)
{
    const ring r = ring_of(b, e, n);
    const uint32_t keys[2] = {work(&r, "keys", key_elements(&r), r.dtype), work(&r, "keys", key_elements(&r), r.dtype)};
    const uint32_t sum = r.wide == r.dtype ? ctx : work(&r, "sum", query_elements(&r), r.wide);
    take_keys(&r, qkv, keys[0]);
    for (uint32_t step = 0; step < r.chunks; step++) {
        if (step + 1 < r.chunks) {
            rotate(&r, "pass keys", r.dtype, keys[step % 2], keys[(step + 1) % 2]);
        }
        begin_step(&r, GAL_OP_ATTENTION_STEP, n->name, step);
        gal_emit_read(b, e, qkv, n->in[0]);
        gal_builder_operand(b, keys[step % 2], GAL_READ);
        if (sum == ctx) {
            add_to_value(&r, ctx, n->out[0], step);
        } else {
            add_to(&r, sum, step);
        }
        add_to_value(&r, lse, n->out[1], step);
    }
    if (sum != ctx) {
        const gal_shape shape = {
            .op = GAL_OP_NARROW, .dtype = r.dtype, .dims = {gal_builder_dim(b, query_elements(&r))}};
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, "round", &shape);
        gal_builder_operand(b, sum, GAL_READ);
        gal_emit_access(b, e, ctx, n->out[0], GAL_WRITE);
    }
}

/* The sum of the devices before, as it arrives, and this device's part. */
static void add_part(const ring *r, uint32_t part, uint32_t sum)
{
    const gal_shape shape = {.op = GAL_OP_ADD, .dtype = r->wide, .dims = {gal_builder_dim(r->b, key_elements(r))}};
    gal_builder_instruction(r->b, GAL_STREAM_COMPUTE, "add dkeys", &shape);
    gal_builder_operand(r->b, part, GAL_READ);
    gal_builder_operand(r->b, sum, GAL_UPDATE);
}

static void step_backward(const ring *r, const gal_ring_backward *of, uint32_t step, uint32_t keys, uint32_t dq,
                          uint32_t part)
{
    begin_step(r, GAL_OP_ATTENTION_STEP_BACKWARD, r->n->backward_name, step);
    gal_emit_read(r->b, r->e, of->dctx, r->n->out[0]);
    gal_emit_read(r->b, r->e, of->qkv, r->n->in[0]);
    gal_builder_operand(r->b, keys, GAL_READ);
    gal_emit_read(r->b, r->e, of->ctx, r->n->out[0]);
    gal_emit_read(r->b, r->e, of->lse, r->n->out[1]);
    add_to(r, dq, step);
    gal_builder_operand(r->b, part, GAL_WRITE);
}

void gal_emit_ring_backward(gal_builder *b, gal_block_emit *e, const gal_node *n, const gal_ring_backward *of)
{
    const ring r = ring_of(b, e, n);
    const uint64_t elements = key_elements(&r);
    const uint32_t keys[2] = {work(&r, "keys", elements, r.dtype), work(&r, "keys", elements, r.dtype)};
    const uint32_t sum[2] = {work(&r, "dkeys", elements, r.wide), work(&r, "dkeys", elements, r.wide)};
    const uint32_t part = work(&r, "part", elements, r.wide), dq = work(&r, "dq", query_elements(&r), r.wide);
    take_keys(&r, of->qkv, keys[0]);
    for (uint32_t step = 0; step < r.chunks; step++) {
        if (step + 1 < r.chunks) {
            rotate(&r, "pass keys", r.dtype, keys[step % 2], keys[(step + 1) % 2]);
        }
        if (step > 0) {
            rotate(&r, "pass dkeys", r.wide, sum[(step - 1) % 2], sum[step % 2]);
        }
        step_backward(&r, of, step, keys[step % 2], dq, step == 0 ? sum[0] : part);
        if (step > 0) {
            add_part(&r, part, sum[step % 2]);
        }
    }
    rotate(&r, "pass dkeys", r.wide, sum[(r.chunks - 1) % 2], sum[r.chunks % 2]);
    const gal_shape shape = {
        .op = GAL_OP_JOIN_GRADIENTS, .dtype = r.dtype, .dims = {r.rows, r.heads, r.kv_heads, r.dim}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "join dqkv", &shape);
    gal_builder_operand(b, dq, GAL_READ);
    gal_builder_operand(b, sum[r.chunks % 2], GAL_READ);
    gal_emit_access(b, e, of->dqkv, n->in[0], GAL_WRITE);
}
