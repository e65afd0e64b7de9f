/* Parameters: units, ZeRO sharding and gradient synchronisation (Colossal-AI section III-C; DeepSpeed's stages).
 * Everything below is of units, whatever they are: a matrix, a block's, or a chunk of several blocks (zero_units.c). A
 * chunk stays in its ring buffer from the first block that reads it to the last; its gradients are complete, and leave
 * their bucket, with the last block that writes one.
 *
 *   stage 0  weights, moments, gradients whole; at the last microbatch all_reduce of the gradient
 *   stage 1  moments sharded; at the last microbatch reduce_scatter in place, update of the own range, all_gather
 *   stage 2  gradients sharded too: every microbatch bucket -> reduce_scatter -> scratch -> added to the shard
 *   stage 3  weights sharded too: all_gather into a ring buffer before use. Prefetch needs no pass: the gather stream
 *            runs ahead until the ring is full; release is the wait of the next gather into that buffer
 * DP atoms beside SDP atoms (replicas of the shards) are reduced after the scatter, at the last microbatch. Along an
 * axis that splits the positions weights are whole and gradients partial, as along SDP: shards are cut over both.
 *
 * Where gradients reuse their parameters' space (Colossal-AI, section III-C2 and Figure 10), a unit has no gradient of
 * its own: it is summed in the bucket, whole, and then kept, rounded, where the weights were, which nobody reads any
 * more; the update has them from the masters again. So a step has one backward, and no unit a second reader.
 *
 * In programs of 16 bits the weights that kernels read are those of fp32 master weights, rounded: masters are sharded
 * as moments are, gradients are kept and summed in fp32, gathers move 16 bits (Micikevicius et al., "Mixed precision
 * training", section 3.1). Units that are updated on the host: zero_host.c. */
#include "runtime/program/lower/zero.h"

void gal_zero_begin_fragment(gal_builder *b)
{
    for (uint32_t i = 0; i < GAL_RING_MAX; i++) {
        b->gathered.unit[i] = GAL_NO_BUFFER;
        b->bucket.unit[i] = GAL_NO_BUFFER;
    }
    b->gathered.next = 0;
    b->bucket.next = 0;
    b->stored_turn = 0;
}

static void make_ring(gal_builder *b, gal_ring *ring, gal_class class, uint32_t count)
{
    if (ring->count == 0) {
        for (uint32_t i = 0; i < count; i++) {
            ring->buffer[i] = gal_builder_buffer(b, class, GAL_NO_BUFFER, gal_class_names[class], 0);
        }
        ring->count = count;
    }
}

/* The ring holds panels and shards beside whole units: one tensor of a unit is gathered over a grid, so its unit names
 * it. */
#define PANEL_OF(unit) (UINT32_C(0x80000000) | (unit))
#define SHARD_OF(unit) (UINT32_C(0x40000000) | (unit))

/* For which block a ring buffer is taken: the one that is emitted, or all that the unit is of. */
static uint32_t taker_of(const gal_builder *b, uint32_t unit)
{
    const gal_unit *u = unit < b->program->unit_count ? &b->program->unit[unit] : NULL;
    return u != NULL && u->last_block > u->block ? u->block : b->block;
}

/* The ring buffer that holds the unit from now on. */
static uint32_t take_turn(gal_builder *b, gal_ring *ring, uint32_t unit, uint64_t bytes)
{
    uint32_t slot = ring->next;
    ring->next = (slot + 1) % ring->count;
    ring->unit[slot] = unit;
    ring->block[slot] = taker_of(b, unit);
    gal_builder_grow_buffer(b, ring->buffer[slot], bytes);
    return ring->buffer[slot];
}

/* The same, of a buffer that is not `taken`. */
static uint32_t take_turn_beside(gal_builder *b, gal_ring *ring, uint32_t taken, uint32_t unit, uint64_t bytes)
{
    ring->next = (ring->next + (ring->buffer[ring->next] == taken)) % ring->count;
    return take_turn(b, ring, unit, bytes);
}

/* The ring buffer that holds `what`, taken for this block; GAL_NO_BUFFER: none. */
static uint32_t held(const gal_builder *b, const gal_ring *ring, uint32_t what)
{
    for (uint32_t i = 0; i < ring->count; i++) {
        if (ring->unit[i] == what && ring->block[i] == taker_of(b, what)) {
            return ring->buffer[i];
        }
    }
    return GAL_NO_BUFFER;
}

/* What this device keeps of a unit's weights, on the device. */
static uint32_t kept_weight(gal_builder *b, const gal_unit *u, uint32_t unit)
{
    if (!gal_unit_is_fetched(u)) {
        return u->weight;
    }
    const uint64_t bytes = b->program->buffer[u->weight].bytes;
    const uint32_t buffer = take_turn(b, &b->gathered, u->zero_stage == 3 ? SHARD_OF(unit) : unit, bytes);
    gal_host_fetch(b, u, buffer);
    return buffer;
}

/* A unit's weights whole, in the ring where they are not kept so. */
static uint32_t gathered_weight(gal_builder *b, uint32_t unit)
{
    gal_unit u = b->program->unit[unit];
    if (u.zero_stage != 3 && !gal_unit_is_fetched(&u)) {
        return u.weight;
    }
    make_ring(b, &b->gathered, GAL_CLASS_GATHERED, b->spec->prefetch_depth);
    const uint32_t there = held(b, &b->gathered, unit);
    if (there != GAL_NO_BUFFER) {
        return there;
    }
    const uint32_t own = kept_weight(b, &u, unit);
    if (u.zero_stage != 3) {
        return own;
    }
    uint64_t bytes = u.elements * gal_dtype_bytes(b->program->dtype);
    uint32_t buffer = take_turn(b, &b->gathered, unit, bytes);
    GAL_ASSERT(b->out_of_memory || buffer != own); /* gal_plan_check: depth 2 where both take turns */
    gal_emit_collective(b, GAL_OP_ALL_GATHER, GAL_STREAM_GATHER, "gather w", b->program->dtype, u.zero_group,
                        u.shard_elements, 0);
    const gal_operand shard = {
        .buffer = own, .access = GAL_READ, .bytes = u.shard_elements * gal_dtype_bytes(b->program->dtype)};
    gal_builder_operand_at(b, &shard);
    gal_operand whole = {.buffer = buffer, .access = GAL_WRITE, .bytes = bytes};
    gal_builder_operand_at(b, &whole);
    return buffer;
}

/* The tensor and those joined with it, of item bytes per element. */
static gal_operand tensor_operand(const gal_block_emit *e, uint8_t tensor, uint32_t buffer, uint64_t item,
                                  gal_access access)
{
    uint64_t elements = 0;
    for (uint32_t t = tensor; t <= tensor + e->graph.tensor[tensor].joined; t++) {
        elements += e->tensor_elements[t];
    }
    return (gal_operand){.buffer = buffer,
                         .access = (uint8_t)access,
                         .offset_bytes = e->tensor_offset[tensor] * item,
                         .bytes = elements * item};
}

gal_operand gal_zero_weight(gal_builder *b, gal_block_emit *e, uint8_t tensor)
{
    gal_operand nowhere = {0};
    if (b->out_of_memory) {
        return nowhere;
    }
    uint32_t unit = e->unit[e->graph.tensor[tensor].unit];
    uint32_t buffer = gathered_weight(b, unit);
    return tensor_operand(e, tensor, buffer, gal_dtype_bytes(b->program->dtype), GAL_READ);
}

/* Tensors that are read as one are gathered one by one where their rows are cut: those of the next lie behind all of
 * one's. Where columns are, a part has rows of all of them. */
static uint32_t gathers_of(const gal_tensor *t)
{
    const gal_group rows = t->outer == 1 ? t->split_group : t->outer_group;
    return (rows & t->gather_group) != 0 ? 1U + t->joined : 1;
}

/* The index-th tensor of what an operand covers, and of the panel `at`, so many times as large. */
static void move_to_tensor(const gal_block_emit *e, uint8_t tensor, uint32_t index, uint64_t parts, gal_operand *own,
                           gal_operand *at)
{
    const uint64_t *elements = e->tensor_elements;
    const uint32_t count = gathers_of(&e->graph.tensor[tensor]);
    uint64_t all = 0, before = 0;
    for (uint32_t t = 0; t < count; t++) {
        before += t < index ? elements[tensor + t] : 0;
        all += elements[tensor + t];
    }
    const uint64_t item = count > 1 ? own->bytes / all : 1;
    const uint64_t bytes = count > 1 ? elements[tensor + index] * item : own->bytes;
    own->offset_bytes += before * item;
    at->offset_bytes += before * item * parts;
    own->bytes = bytes;
    at->bytes = bytes * parts;
}

gal_operand gal_zero_weight_panel(gal_builder *b, gal_block_emit *e, uint8_t tensor)
{
    const gal_group group = e->graph.tensor[tensor].gather_group;
    if (group == GAL_GROUP_NONE || b->out_of_memory) {
        return gal_zero_weight(b, e, tensor);
    }
    const uint32_t unit = e->unit[e->graph.tensor[tensor].unit];
    const gal_dtype dtype = b->program->dtype;
    make_ring(b, &b->gathered, GAL_CLASS_GATHERED, b->spec->prefetch_depth);
    uint32_t buffer = held(b, &b->gathered, PANEL_OF(unit));
    gal_operand own = tensor_operand(e, tensor, 0, gal_dtype_bytes(dtype), GAL_READ);
    const uint64_t bytes = own.bytes * gal_group_size(&b->program->atoms, group);
    if (buffer == GAL_NO_BUFFER) {
        own = gal_zero_weight(b, e, tensor);
        buffer = take_turn(b, &b->gathered, PANEL_OF(unit), bytes);
        GAL_ASSERT(b->out_of_memory || buffer != own.buffer); /* gal_plan_check: depth 2 with ZeRO-3 */
        for (uint32_t i = 0; i < gathers_of(&e->graph.tensor[tensor]); i++) {
            gal_operand part = own, panel = {.buffer = buffer, .access = GAL_WRITE};
            move_to_tensor(e, tensor, i, gal_group_size(&b->program->atoms, group), &part, &panel);
            gal_emit_collective(b, GAL_OP_ALL_GATHER, GAL_STREAM_GATHER, "gather w", dtype, group,
                                part.bytes / gal_dtype_bytes(dtype), 0);
            gal_builder_operand_at(b, &part);
            gal_builder_operand_at(b, &panel);
        }
    }
    return (gal_operand){.buffer = buffer, .access = GAL_READ, .bytes = bytes};
}

uint32_t gal_zero_weight_steps(const gal_builder *b, const gal_block_emit *e, uint8_t tensor)
{
    if (b->out_of_memory) {
        return 1;
    }
    const gal_unit *u = &b->program->unit[e->unit[e->graph.tensor[tensor].unit]];
    return u->zero_stage == 3 || gal_unit_is_fetched(u) ? 1 : b->spec->prefetch_depth;
}

gal_operand gal_zero_weight_step(gal_builder *b, gal_block_emit *e, uint8_t tensor, uint32_t t)
{
    const gal_operand own = gal_zero_weight(b, e, tensor);
    if (b->out_of_memory) {
        return own;
    }
    const gal_dtype dtype = b->program->dtype;
    make_ring(b, &b->gathered, GAL_CLASS_GATHERED, b->spec->prefetch_depth);
    gal_operand part = {.buffer = take_turn_beside(b, &b->gathered, own.buffer, GAL_NO_BUFFER, own.bytes),
                        .access = GAL_WRITE,
                        .bytes = own.bytes};
    GAL_ASSERT(b->out_of_memory || part.buffer != own.buffer); /* gal_plan_check: depth 2 where both take turns */
    gal_emit_collective(b, GAL_OP_BROADCAST, GAL_STREAM_GATHER, "spread w", dtype, e->graph.tensor[tensor].gather_group,
                        own.bytes / gal_dtype_bytes(dtype), t);
    gal_builder_operand_at(b, &own);
    gal_builder_operand_at(b, &part);
    part.access = GAL_READ;
    return part;
}

gal_operand gal_zero_gradient_panel(gal_builder *b, gal_block_emit *e, uint8_t tensor)
{
    const gal_group group = e->graph.tensor[tensor].gather_group;
    if (group == GAL_GROUP_NONE || b->out_of_memory) {
        return gal_zero_gradient(b, e, tensor);
    }
    const gal_operand own = tensor_operand(e, tensor, 0, gal_zero_wide_bytes(b), GAL_WRITE);
    const uint64_t bytes = own.bytes * gal_group_size(&b->program->atoms, group);
    make_ring(b, &b->bucket, GAL_CLASS_BUCKET, GAL_RING_MAX);
    const uint32_t buffer = take_turn(b, &b->bucket, PANEL_OF(e->unit[e->graph.tensor[tensor].unit]), bytes);
    return (gal_operand){.buffer = buffer, .access = GAL_WRITE, .bytes = bytes};
}

gal_operand gal_zero_gradient(gal_builder *b, gal_block_emit *e, uint8_t tensor)
{
    gal_operand nowhere = {0};
    if (b->out_of_memory) {
        return nowhere;
    }
    uint8_t index = e->graph.tensor[tensor].unit;
    const gal_unit u = b->program->unit[e->unit[index]];
    const gal_unit_home home = e->home[index];
    if (home.block->gradients_left[home.index] == 0) {
        home.block->gradients_left[home.index] = home.block->gradients[home.index];
    }
    const bool adds = e->half == 1; /* to what the first sub-batch wrote */
    if (u.zero_stage < 2 && !u.reuses) {
        return tensor_operand(e, tensor, u.gradient, gal_zero_wide_bytes(b),
                              adds || e->unit_lent[index] ? GAL_UPDATE : GAL_ACCUMULATE);
    }
    make_ring(b, &b->bucket, GAL_CLASS_BUCKET, GAL_RING_MAX);
    uint32_t *bucket = &home.block->bucket[home.index];
    if (*bucket == GAL_NO_BUFFER) {
        *bucket = take_turn(b, &b->bucket, e->unit[index], u.elements * gal_zero_wide_bytes(b));
    }
    return tensor_operand(e, tensor, *bucket, gal_zero_wide_bytes(b), adds ? GAL_UPDATE : GAL_WRITE);
}

/* Zeros behind the tensors, where ZeRO's ranges are padded. */
static void fill_padding(gal_builder *b, const gal_unit *u, uint32_t buffer)
{
    uint64_t item = gal_zero_wide_bytes(b);
    uint64_t padding = u->elements - u->used_elements;
    if (padding == 0) {
        return;
    }
    gal_shape shape = {
        .op = GAL_OP_FILL, .dtype = gal_dtype_wide(b->program->dtype), .dims = {gal_builder_dim(b, padding)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "pad dw", &shape);
    gal_operand tail = {
        .buffer = buffer, .access = GAL_WRITE, .offset_bytes = u->used_elements * item, .bytes = padding * item};
    gal_builder_operand_at(b, &tail);
}

gal_operand gal_zero_own_range(const gal_unit *u, uint32_t buffer, bool whole, uint64_t item, gal_access access)
{
    const uint64_t bytes = u->shard_elements * item;
    bool view = whole && u->zero_group != GAL_GROUP_NONE;
    return (gal_operand){.buffer = buffer,
                         .access = (uint8_t)access,
                         .view = view ? u->zero_group : GAL_GROUP_NONE,
                         .view_stride_bytes = view ? bytes : 0,
                         .bytes = bytes};
}

gal_operand gal_zero_own_gradient(const gal_builder *b, const gal_unit *u, gal_access access)
{
    if (u->reuses) {
        return gal_zero_own_range(u, u->weight, u->zero_stage < 3, gal_dtype_bytes(b->program->dtype), access);
    }
    return gal_zero_own_range(u, u->gradient, u->zero_stage < 2, gal_zero_wide_bytes(b), access);
}

uint32_t gal_zero_scratch(gal_builder *b, uint64_t bytes)
{
    if (b->scratch == GAL_NO_BUFFER) {
        b->scratch = gal_builder_buffer(b, GAL_CLASS_SCRATCH, GAL_NO_BUFFER, "scratch", 0);
    }
    gal_builder_grow_buffer(b, b->scratch, bytes);
    return b->scratch;
}

/* Sums a tensor's panel (the index-th of those gathered one by one) over the devices among which its parts lie, and
 * adds this one's to its gradient. */
static void scatter_panel(gal_builder *b, gal_block_emit *e, uint8_t tensor, uint32_t index, const gal_operand *panel)
{
    const gal_dtype dtype = gal_dtype_wide(b->program->dtype);
    const gal_group group = e->graph.tensor[tensor].gather_group;
    gal_operand gradient = gal_zero_gradient(b, e, tensor), from = *panel;
    move_to_tensor(e, tensor, index, gal_group_size(&b->program->atoms, group), &gradient, &from);
    const bool adds = gradient.access != GAL_WRITE;
    const uint64_t elements = gradient.bytes / gal_dtype_bytes(dtype);
    gal_operand to = gradient;
    from.access = GAL_READ;
    if (adds) {
        to = (gal_operand){.buffer = gal_zero_scratch(b, gradient.bytes), .access = GAL_WRITE, .bytes = gradient.bytes};
    }
    gal_emit_collective(b, GAL_OP_REDUCE_SCATTER, GAL_STREAM_REDUCE, "scatter dw", dtype, group, elements, 0);
    gal_builder_operand_at(b, &from);
    gal_builder_operand_at(b, &to);
    if (adds) {
        const gal_shape shape = {.op = GAL_OP_ADD, .dtype = dtype, .dims = {gal_builder_dim(b, elements)}};
        gal_builder_instruction(b, GAL_STREAM_REDUCE, "accumulate", &shape);
        to.access = GAL_READ;
        gal_builder_operand_at(b, &to);
        gal_builder_operand_at(b, &gradient);
    }
}

static void scatter_bucket(gal_builder *b, const gal_unit *u, uint32_t bucket, bool lent)
{
    const gal_dtype dtype = gal_dtype_wide(b->program->dtype);
    uint64_t shard = u->shard_elements;
    uint64_t item = gal_dtype_bytes(dtype);
    fill_padding(b, u, bucket);
    (void)gal_zero_scratch(b, shard * item);
    gal_emit_collective(b, GAL_OP_REDUCE_SCATTER, GAL_STREAM_REDUCE, "scatter dw", dtype, u->zero_group, shard, 0);
    gal_operand from = {.buffer = bucket, .access = GAL_READ, .bytes = u->elements * item};
    gal_operand to = {.buffer = b->scratch, .access = GAL_WRITE, .bytes = shard * item};
    gal_builder_operand_at(b, &from);
    gal_builder_operand_at(b, &to);
    gal_shape shape = {.op = GAL_OP_ADD, .dtype = dtype, .dims = {gal_builder_dim(b, shard)}};
    gal_builder_instruction(b, GAL_STREAM_REDUCE, "accumulate", &shape);
    to.access = GAL_READ;
    gal_builder_operand_at(b, &to);
    gal_builder_operand(b, u->gradient, lent ? GAL_UPDATE : GAL_ACCUMULATE);
}

/* At the last microbatch: what is still a partial sum becomes the gradient. */
static void synchronise(gal_builder *b, const gal_unit *u)
{
    const gal_dtype dtype = gal_dtype_wide(b->program->dtype);
    b->only_last = true;
    if (u->zero_stage == 1) {
        fill_padding(b, u, u->gradient);
        gal_emit_collective(b, GAL_OP_REDUCE_SCATTER, GAL_STREAM_REDUCE, "scatter dw", dtype, u->zero_group,
                            u->shard_elements, 1);
        const gal_operand whole = {
            .buffer = u->gradient, .access = GAL_UPDATE, .bytes = u->elements * gal_dtype_bytes(dtype)};
        gal_builder_operand_at(b, &whole);
    }
    gal_group rest = u->sync_group & ~u->zero_group;
    if (rest != GAL_GROUP_NONE) {
        gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_REDUCE, "reduce dw", dtype, rest, u->shard_elements,
                            GAL_REDUCE_SUM);
        gal_operand range = gal_zero_own_gradient(b, u, GAL_UPDATE);
        gal_builder_operand_at(b, &range);
    }
    if (u->host_gradient != GAL_NO_BUFFER && u->copies == GAL_GROUP_NONE) {
        const gal_operand range = gal_zero_own_gradient(b, u, GAL_READ);
        gal_host_take_gradient(b, u, &range);
    }
    b->only_last = false;
}

/* The gradient, summed over the devices in the bucket, to the place of the weights. */
static void keep_gradient(gal_builder *b, const gal_unit *u, uint32_t bucket)
{
    gal_unit summed = *u; /* a unit whose gradient is the bucket */
    summed.reuses = false;
    summed.gradient = bucket;
    summed.zero_stage = u->zero_stage > 0 ? 1 : 0;
    synchronise(b, &summed);
    const gal_shape shape = {
        .op = GAL_OP_KEEP_GRADIENT, .dtype = b->program->dtype, .dims = {gal_builder_dim(b, u->shard_elements)}};
    b->only_last = true;
    gal_builder_instruction(b, GAL_STREAM_REDUCE, "keep dw", &shape);
    const gal_operand from = gal_zero_own_gradient(b, &summed, GAL_READ);
    const gal_operand to = gal_zero_own_gradient(b, u, GAL_WRITE);
    gal_builder_operand_at(b, &from);
    gal_builder_operand_at(b, &to);
    b->only_last = false;
}

void gal_zero_gradient_done(gal_builder *b, gal_block_emit *e, uint8_t tensor)
{
    uint8_t index = e->graph.tensor[tensor].unit;
    if (b->out_of_memory) {
        return;
    }
    const uint32_t written = 1U + e->graph.tensor[tensor].joined;
    const gal_unit_home home = e->home[index];
    uint32_t *left = &home.block->gradients_left[home.index], *bucket = &home.block->bucket[home.index];
    GAL_ASSERT(*left >= written);
    *left -= written;
    if (*left > 0) {
        return;
    }
    const gal_unit u = b->program->unit[e->unit[index]];
    if (u.reuses) {
        keep_gradient(b, &u, *bucket);
        *bucket = GAL_NO_BUFFER;
        return;
    }
    if (u.zero_stage >= 2) {
        scatter_bucket(b, &u, *bucket, e->unit_lent[index]);
        *bucket = GAL_NO_BUFFER;
    }
    if (b->sync_later) {
        e->unsynchronised[index] = true;
    } else if (!e->unit_borrowed[index]) {
        synchronise(b, &u);
    }
}

void gal_zero_gradient_panel_done(gal_builder *b, gal_block_emit *e, uint8_t tensor, const gal_operand *panel)
{
    const gal_tensor *t = &e->graph.tensor[tensor];
    for (uint32_t i = 0; t->gather_group != GAL_GROUP_NONE && !b->out_of_memory && i < gathers_of(t); i++) {
        scatter_panel(b, e, tensor, i, panel);
    }
    gal_zero_gradient_done(b, e, tensor);
}

void gal_zero_synchronise(gal_builder *b, gal_block_emit *e)
{
    for (uint32_t i = 0; i < e->graph.unit_count && !b->out_of_memory; i++) {
        if (e->unsynchronised[i] && !e->unit_borrowed[i]) {
            const gal_unit u = b->program->unit[e->unit[i]];
            synchronise(b, &u);
        }
        e->unsynchronised[i] = false;
    }
}
