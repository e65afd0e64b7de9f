/* Units whose optimizer is in the host's memory (Colossal-AI section III-B; J. Ren et al., "ZeRO-Offload",
 * section 4.2).
 *
 * On the device they have weights and gradients alone. The complete gradient is copied out as soon as it is, beside
 * what is left of backward; Adam works on the host's copy of the weights, which is copied in when it is new, before it
 * is gathered. So per step and parameter of a shard 4 bytes go out and 4 (of programs of 16 bits 2) come in, on a
 * stream each; and one unit is copied while the next one is updated, and while the device updates its own.
 * Where the weights are on the host alone, they are copied to the ring of gathered weights before each use instead (of
 * ZeRO-3 the shard, which is then gathered): the copies run ahead until the ring is full, and nothing is copied in
 * after the update.
 * The host's Adam is that of the host's operators: where the device is the host, the weights have the bits that they
 * would have without all this. */
#include "runtime/program/lower/emit.h"

enum { PERCENT = 100 };

/* Biases of relative positions are a few kilobytes that all stages hold. Of a token table all copies are updated alike,
 * bit for bit, so on the host or on the device on every stage: a share of one block need not have it where another
 * block's has. */
static bool may_leave(const gal_block_unit *unit, uint32_t optimizer_percent)
{
    return unit->shared == GAL_SHARED_COUNT || (unit->shared == GAL_SHARED_TABLE && optimizer_percent == PERCENT);
}

/* Hundredths of elements that a share of the block's parameters has; units take of it in their order, as far as they
 * fit. A unit that the block borrows counts as its own would: which others fit does not depend on where its neighbours
 * are. */
static uint64_t share_of(const gal_block_emit *e, const uint64_t elements[GAL_BLOCK_UNITS], uint64_t percent)
{
    uint64_t total = 0;
    GAL_ASSERT(percent <= PERCENT);
    for (uint8_t u = 0; u < e->graph.unit_count; u++) {
        total += elements[u];
    }
    return total * percent;
}

static bool take(uint64_t *left, uint64_t elements)
{
    const bool fits = elements > 0 && elements * PERCENT <= *left;
    *left -= fits ? elements * PERCENT : 0;
    return fits;
}

void gal_host_choose(gal_block_emit *e, const uint64_t elements[GAL_BLOCK_UNITS])
{
    const gal_strategy *s = e->strategy;
    uint64_t host = share_of(e, elements, s->offload_optimizer_percent);
    uint64_t fetched = share_of(e, elements, s->offload_parameters_percent);
    uint64_t stored = share_of(e, elements, s->offload_storage_percent);
    uint64_t weights = share_of(e, elements, s->offload_storage_parameters_percent);
    for (uint8_t u = 0; u < e->graph.unit_count; u++) {
        gal_unit_places *at = &e->unit_at[u];
        at->on_host = may_leave(&e->graph.unit[u], s->offload_optimizer_percent) && take(&host, elements[u]);
        at->fetched = at->on_host && !e->graph.unit[u].persistent && take(&fetched, elements[u]);
        at->stored = at->on_host && take(&stored, elements[u]);
        at->weight_stored = at->fetched && at->stored && take(&weights, elements[u]);
    }
}

void gal_host_buffers(gal_builder *b, uint32_t block, gal_unit *unit)
{
    gal_program *p = b->program;
    const gal_dtype wide = gal_dtype_wide(p->dtype);
    unit->host_weight = unit->weight;
    if (!b->out_of_memory && gal_class_medium((gal_class)p->buffer[unit->weight].class) == GAL_MEDIUM_DEVICE) {
        const uint64_t bytes = unit->shard_elements * gal_dtype_bytes(p->dtype);
        unit->host_weight = gal_builder_buffer(b, GAL_CLASS_HOST, block, "host w", bytes);
    }
    unit->host_gradient =
        gal_builder_buffer(b, GAL_CLASS_HOST, block, "host dw", unit->shard_elements * gal_dtype_bytes(wide));
    if (p->host_norm_buffer == GAL_NO_BUFFER) {
        p->host_norm_buffer = gal_builder_buffer(b, GAL_CLASS_HOST, GAL_NO_BUFFER, "host norm", 16);
    }
}

static void copy(gal_builder *b, gal_op op, const char *name, gal_dtype dtype, uint64_t elements)
{
    const gal_shape shape = {
        .op = op, .dtype = dtype, .dims = {gal_builder_dim(b, elements), (uint32_t)gal_dtype_bytes(dtype)}};
    gal_builder_instruction(b, op == GAL_OP_COPY_OUT ? GAL_STREAM_HOST_OUT : GAL_STREAM_HOST_IN, name, &shape);
}

void gal_host_fetch(gal_builder *b, const gal_unit *unit, uint32_t buffer)
{
    if (gal_unit_stores_weights(b->program, unit)) {
        gal_storage_fetch(b, unit, buffer);
        return;
    }
    const gal_dtype dtype = b->program->dtype;
    const uint64_t bytes = b->program->buffer[unit->weight].bytes;
    copy(b, GAL_OP_COPY_IN, "fetch w", dtype, bytes / gal_dtype_bytes(dtype));
    const gal_operand target = {.buffer = buffer, .access = GAL_WRITE, .bytes = bytes};
    gal_builder_operand(b, unit->weight, GAL_READ);
    gal_builder_operand_at(b, &target);
}

void gal_host_take_gradient(gal_builder *b, const gal_unit *unit, const gal_operand *gradient)
{
    copy(b, GAL_OP_COPY_OUT, "dw out", gal_dtype_wide(b->program->dtype), unit->shard_elements);
    gal_builder_operand_at(b, gradient);
    gal_builder_operand(b, unit->host_gradient, GAL_WRITE);
}

void gal_host_take_norm(gal_builder *b)
{
    const gal_program *p = b->program;
    if (p->host_norm_buffer != GAL_NO_BUFFER) {
        copy(b, GAL_OP_COPY_OUT, "norm out", GAL_FP64, 2);
        gal_builder_operand(b, p->norm_buffer, GAL_READ);
        gal_builder_operand(b, p->host_norm_buffer, GAL_WRITE);
    }
}

void gal_host_update(gal_builder *b, const gal_unit *unit)
{
    const gal_dtype dtype = b->program->dtype;
    const gal_shape shape = {
        .op = GAL_OP_HOST_ADAM,
        .dtype = dtype,
        .dims = {gal_builder_dim(b, unit->shard_elements), gal_builder_dim(b, unit->decay_elements)}};
    gal_builder_instruction(b, GAL_STREAM_HOST, "host adam", &shape)->group = unit->zero_group;
    gal_builder_operand(b, unit->host_weight, GAL_UPDATE);
    gal_builder_operand(b, unit->host_gradient, GAL_READ);
    gal_builder_operand(b, unit->first_moment, GAL_UPDATE);
    gal_builder_operand(b, unit->second_moment, GAL_UPDATE);
    gal_builder_operand(b, b->program->host_norm_buffer, GAL_READ);
    if (unit->master != GAL_NO_BUFFER) {
        gal_builder_operand(b, unit->master, GAL_UPDATE);
    }
}

void gal_host_bring(gal_builder *b, const gal_unit *unit, const gal_operand *weight)
{
    if (!gal_unit_is_fetched(unit)) {
        copy(b, GAL_OP_COPY_IN, "w in", b->program->dtype, unit->shard_elements);
        gal_operand target = *weight;
        target.access = GAL_WRITE;
        gal_builder_operand(b, unit->host_weight, GAL_READ);
        gal_builder_operand_at(b, &target);
    }
}
