/* Parameters: units, ZeRO sharding and gradient synchronisation (Colossal-AI section III-C; DeepSpeed's stages).
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
#include <string.h>

#include "runtime/program/emit.h"

/* Bytes of an element of gradients, moments and masters. */
static uint64_t wide_bytes(const gal_builder *b)
{
    return gal_dtype_bytes(gal_dtype_wide(b->program->dtype));
}

static uint64_t local_elements(const gal_atoms *atoms, const gal_tensor *t)
{
    return t->outer / gal_group_size(atoms, t->outer_group) * (t->split / gal_group_size(atoms, t->split_group)) *
           (t->inner / gal_group_size(atoms, t->inner_group));
}

static gal_group split_over(const gal_tensor *t)
{
    return t->outer_group | t->split_group | t->inner_group;
}

/* "h.12." (by family) and the suffix for a layer's own tensors. Written by hand: names are a tenth of a lowering if
 * printf does it. */
static void public_name(const gal_block_emit *e, const char *suffix, bool shared, char *name, size_t capacity)
{
    const gal_block_kind kind = e->shape.kind;
    size_t used = 0;
    if (!shared && kind != GAL_BLOCK_EMBEDDING && kind != GAL_BLOCK_BRIDGE && kind != GAL_BLOCK_HEAD) {
        char digits[12];
        size_t count = 0;
        for (uint32_t layer = e->shape.layer; layer > 0 || count == 0; layer /= 10) {
            digits[count++] = (char)('0' + layer % 10);
        }
        used = strlen(e->graph.layer_prefix);
        GAL_ASSERT(used + sizeof digits < capacity);
        memcpy(name, e->graph.layer_prefix, used);
        while (count > 0) {
            name[used++] = digits[--count];
        }
        name[used++] = '.';
    }
    const size_t bytes = strlen(suffix) + 1;
    GAL_ASSERT(used + bytes <= capacity);
    memcpy(name + used, suffix, bytes);
}

/* Tensors are numbered over the model: those of the embedding, as many per block as the family says, then those of the
 * head; the tensors that several blocks hold say their own numbers, a table 0. */
static uint32_t tensor_number(const gal_builder *b, const gal_block_emit *e, const gal_tensor *t)
{
    uint32_t block = b->spec->block[e->index].block;
    const gal_shared shared = e->graph.unit[t->unit].shared;
    if (shared != GAL_SHARED_COUNT) {
        return shared == GAL_SHARED_TABLE ? 0 : t->number;
    }
    return block == 0 ? t->number
                      : e->graph.embedding_tensor_numbers + e->graph.block_tensor_numbers * (block - 1) + t->number;
}

static void add_parameters(gal_builder *b, const gal_block_emit *e, uint8_t unit)
{
    for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
        const gal_tensor *tensor = &e->graph.tensor[t];
        if (tensor->unit != unit) {
            continue;
        }
        gal_parameter p = {.tensor = tensor_number(b, e, tensor),
                           .unit = e->unit[unit],
                           .offset_elements = e->tensor_offset[t],
                           .outer = tensor->outer,
                           .split = tensor->split,
                           .inner = tensor->inner,
                           .outer_group = tensor->outer_group,
                           .split_group = tensor->split_group,
                           .inner_group = tensor->inner_group,
                           .split_used = tensor->split_used,
                           .columns = tensor->columns,
                           .leading_ones = tensor->leading_ones,
                           .window = tensor->window,
                           .initial = tensor->initial};
        public_name(e, tensor->suffix, e->graph.unit[unit].shared != GAL_SHARED_COUNT, p.name, sizeof p.name);
        gal_builder_parameter(b, &p);
    }
}

/* Whether what reads the unit reads one row per sample: every device of the sequence axis then has the whole gradient.
 */
static bool is_of_single_rows(const gal_graph *g, uint8_t unit)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const gal_node *n = &g->node[i];
        if (n->weight != GAL_NO_VALUE && g->tensor[n->weight].unit == unit && n->in[0] != GAL_NO_VALUE &&
            g->value[n->in[0]].single) {
            return true;
        }
    }
    return false;
}

static void new_unit(gal_builder *b, gal_block_emit *e, uint8_t index)
{
    const gal_block_unit *about = &e->graph.unit[index];
    const gal_atoms *atoms = &b->program->atoms;
    gal_unit u = {.block = e->index, .name = about->name};
    gal_group split = GAL_GROUP_NONE;
    for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
        const gal_tensor *tensor = &e->graph.tensor[t];
        if (tensor->unit == index) { /* tensors that decay are listed first in every unit */
            split = split_over(tensor);
            u.used_elements += e->tensor_elements[t];
            u.decay_elements += tensor->decays ? e->tensor_elements[t] : 0;
        }
    }
    const gal_group partial = is_of_single_rows(&e->graph, index) ? GAL_GROUP_NONE : e->mesh.sequence;
    const bool sharded = !about->persistent && e->strategy->zero_stage > 0;
    u.zero_group = sharded ? e->mesh.sdp | partial : GAL_GROUP_NONE;
    u.zero_stage = u.zero_group != GAL_GROUP_NONE ? e->strategy->zero_stage : 0;
    u.split_group = split;
    bool partial_over_tp = about->by_heads || (e->strategy->sequence_parallel && split == GAL_GROUP_NONE);
    /* On a grid a tensor is cut over some of the devices that have other rows or features, and a sum over the rest. */
    const gal_group others = gal_mesh_samples(&e->mesh) | gal_mesh_features(&e->mesh);
    u.sync_group = (others & ~split) | partial | (partial_over_tp ? e->mesh.tp : GAL_GROUP_NONE);
    uint32_t shards = gal_group_size(atoms, u.zero_group);
    u.shard_elements = (u.used_elements + shards - 1) / shards;
    u.elements = u.shard_elements * shards;
    const uint32_t copies =
        about->shared == GAL_SHARED_COUNT ? 1 : gal_stage_set_count(&b->program->holders[about->shared]);
    u.copies = copies > 1 ? gal_group_of_shared(about->shared) : GAL_GROUP_NONE;
    u.replicas = b->program->device_count / (shards * gal_group_size(atoms, u.split_group)) * copies;
    const uint64_t item = gal_dtype_bytes(b->program->dtype), wide = wide_bytes(b);
    const uint64_t shard = u.shard_elements * wide;
    const bool fetched = e->unit_on_host[index] && e->strategy->offload_parameters && !about->persistent;
    u.weight = gal_builder_buffer(b, fetched ? GAL_CLASS_HOST : GAL_CLASS_STATE, e->index, "w",
                                  (u.zero_stage == 3 ? u.shard_elements : u.elements) * item);
    const gal_class kept = e->unit_on_host[index] ? GAL_CLASS_HOST : GAL_CLASS_STATE;
    u.first_moment = gal_builder_buffer(b, kept, e->index, "m", shard);
    u.second_moment = gal_builder_buffer(b, kept, e->index, "v", shard);
    u.reuses = b->spec->gradient_reuses_parameter && !about->persistent; /* its parts come one by one */
    u.master = gal_dtype_is_narrow(b->program->dtype) || u.reuses
                   ? gal_builder_buffer(b, kept, e->index, "master", shard)
                   : GAL_NO_BUFFER;
    u.host_weight = u.host_gradient = GAL_NO_BUFFER;
    if (e->unit_on_host[index]) {
        gal_host_buffers(b, e->index, &u);
    }
    u.gradient = u.reuses ? u.weight
                          : gal_builder_buffer(b, GAL_CLASS_GRADIENT, e->index, "dw",
                                               u.zero_stage >= 2 ? shard : u.elements * wide);
    e->unit[index] = gal_builder_unit(b, &u);
    if (b->spec->lowered == GAL_LOWERED_WHOLE) {
        add_parameters(b, e, index);
    }
}

void gal_zero_units(gal_builder *b, gal_block_emit *e, gal_holders *holders)
{
    uint64_t used[GAL_BLOCK_UNITS] = {0};
    for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
        const gal_tensor *tensor = &e->graph.tensor[t];
        e->tensor_elements[t] = local_elements(&b->program->atoms, tensor);
        e->tensor_offset[t] = used[tensor->unit];
        used[tensor->unit] += e->tensor_elements[t];
    }
    gal_host_choose(e, used);
    for (uint8_t u = 0; u < e->graph.unit_count; u++) {
        const gal_shared shared = e->graph.unit[u].shared;
        gal_block_emit *holder = shared == GAL_SHARED_COUNT ? NULL : holders->block[shared];
        if (holder != NULL) {
            e->unit[u] = holder->unit[holders->unit[shared]];
            e->unit_borrowed[u] = true;
            holder->unit_lent[holders->unit[shared]] = true;
        } else {
            new_unit(b, e, u);
        }
        if (shared != GAL_SHARED_COUNT) {
            holders->block[shared] = e;
            holders->unit[shared] = u;
        }
    }
}

void gal_zero_begin_fragment(gal_builder *b)
{
    for (uint32_t i = 0; i < GAL_RING_MAX; i++) {
        b->gathered.unit[i] = GAL_NO_BUFFER;
        b->bucket.unit[i] = GAL_NO_BUFFER;
    }
    b->gathered.next = 0;
    b->bucket.next = 0;
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

/* The ring buffer that holds the unit from now on. */
static uint32_t take_turn(gal_builder *b, gal_ring *ring, uint32_t unit, uint64_t bytes)
{
    uint32_t slot = ring->next;
    ring->next = (slot + 1) % ring->count;
    ring->unit[slot] = unit;
    ring->block[slot] = b->block;
    gal_builder_grow_buffer(b, ring->buffer[slot], bytes);
    return ring->buffer[slot];
}

/* The ring buffer that holds `what`, taken by this block; GAL_NO_BUFFER: none. */
static uint32_t held(const gal_builder *b, const gal_ring *ring, uint32_t what)
{
    for (uint32_t i = 0; i < ring->count; i++) {
        if (ring->unit[i] == what && ring->block[i] == b->block) {
            return ring->buffer[i];
        }
    }
    return GAL_NO_BUFFER;
}

/* The ring holds panels and shards beside whole units: one tensor of a unit is gathered over a grid, so its unit names
 * it. */
#define PANEL_OF(unit) (UINT32_C(0x80000000) | (unit))
#define SHARD_OF(unit) (UINT32_C(0x40000000) | (unit))

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

gal_operand gal_zero_gradient_panel(gal_builder *b, gal_block_emit *e, uint8_t tensor)
{
    const gal_group group = e->graph.tensor[tensor].gather_group;
    if (group == GAL_GROUP_NONE || b->out_of_memory) {
        return gal_zero_gradient(b, e, tensor);
    }
    const gal_operand own = tensor_operand(e, tensor, 0, wide_bytes(b), GAL_WRITE);
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
    if (e->gradients_left[index] == 0) {
        for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
            e->gradients_left[index] += e->graph.tensor[t].unit == index ? (e->halved ? 2 : 1) : 0;
        }
    }
    const bool adds = e->half == 1; /* to what the first sub-batch wrote */
    if (u.zero_stage < 2 && !u.reuses) {
        return tensor_operand(e, tensor, u.gradient, wide_bytes(b),
                              adds || e->unit_lent[index] ? GAL_UPDATE : GAL_ACCUMULATE);
    }
    make_ring(b, &b->bucket, GAL_CLASS_BUCKET, GAL_RING_MAX);
    if (e->bucket[index] == GAL_NO_BUFFER) {
        e->bucket[index] = take_turn(b, &b->bucket, e->unit[index], u.elements * wide_bytes(b));
    }
    return tensor_operand(e, tensor, e->bucket[index], wide_bytes(b), adds ? GAL_UPDATE : GAL_WRITE);
}

/* Zeros behind the tensors, where ZeRO's ranges are padded. */
static void fill_padding(gal_builder *b, const gal_unit *u, uint32_t buffer)
{
    uint64_t item = wide_bytes(b);
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

/* This device's range of a whole buffer, or all of a shard buffer, of item bytes per element. */
static gal_operand own_range(const gal_unit *u, uint32_t buffer, bool whole, uint64_t item, gal_access access)
{
    const uint64_t bytes = u->shard_elements * item;
    bool view = whole && u->zero_group != GAL_GROUP_NONE;
    return (gal_operand){.buffer = buffer,
                         .access = (uint8_t)access,
                         .view = view ? u->zero_group : GAL_GROUP_NONE,
                         .view_stride_bytes = view ? bytes : 0,
                         .bytes = bytes};
}

/* The range of the gradient that this device has when it is synchronised. */
static gal_operand own_gradient(const gal_builder *b, const gal_unit *u, gal_access access)
{
    if (u->reuses) {
        return own_range(u, u->weight, u->zero_stage < 3, gal_dtype_bytes(b->program->dtype), access);
    }
    return own_range(u, u->gradient, u->zero_stage < 2, wide_bytes(b), access);
}

static uint32_t scratch_of(gal_builder *b, uint64_t bytes)
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
        to = (gal_operand){.buffer = scratch_of(b, gradient.bytes), .access = GAL_WRITE, .bytes = gradient.bytes};
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
    (void)scratch_of(b, shard * item);
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
        gal_operand range = own_gradient(b, u, GAL_UPDATE);
        gal_builder_operand_at(b, &range);
    }
    if (u->host_gradient != GAL_NO_BUFFER && u->copies == GAL_GROUP_NONE) {
        const gal_operand range = own_gradient(b, u, GAL_READ);
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
    const gal_operand from = own_gradient(b, &summed, GAL_READ);
    const gal_operand to = own_gradient(b, u, GAL_WRITE);
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
    GAL_ASSERT(e->gradients_left[index] >= written);
    e->gradients_left[index] -= written;
    if (e->gradients_left[index] > 0) {
        return;
    }
    const gal_unit u = b->program->unit[e->unit[index]];
    if (u.reuses) {
        keep_gradient(b, &u, e->bucket[index]);
        e->bucket[index] = GAL_NO_BUFFER;
        return;
    }
    if (u.zero_stage >= 2) {
        scatter_bucket(b, &u, e->bucket[index], e->unit_lent[index]);
        e->bucket[index] = GAL_NO_BUFFER;
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

static void start_norm(gal_builder *b, uint32_t loss_replicas)
{
    gal_program *p = b->program;
    bool has_loss = p->loss_buffer != GAL_NO_BUFFER;
    gal_shape shape = {.op = GAL_OP_NORM_START, .dtype = GAL_FP64, .dims = {loss_replicas}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "loss", &shape);
    if (has_loss) {
        gal_builder_operand(b, p->loss_buffer, GAL_READ);
    }
    gal_builder_operand(b, p->norm_buffer, GAL_WRITE);
}

static void reduce_norm(gal_builder *b)
{
    gal_instruction *i = gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_REDUCE, "norm", GAL_FP64, GAL_GROUP_WORLD,
                                             2, GAL_REDUCE_SUM);
    i->bytes = 2 * gal_dtype_bytes(GAL_FP64);
    gal_builder_operand(b, b->program->norm_buffer, GAL_UPDATE);
}

/* Adam where the unit's moments are. */
static void update_range(gal_builder *b, const gal_unit *u)
{
    const gal_operand weight =
        own_range(u, u->weight, u->zero_stage < 3, gal_dtype_bytes(b->program->dtype), GAL_UPDATE);
    if (u->host_weight != GAL_NO_BUFFER) {
        gal_host_update(b, u, &weight);
        return;
    }
    gal_shape shape = {.op = u->reuses ? GAL_OP_ADAM_IN_PLACE : GAL_OP_ADAM,
                       .dtype = b->program->dtype,
                       .dims = {gal_builder_dim(b, u->shard_elements), gal_builder_dim(b, u->decay_elements)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "adam", &shape)->group = u->zero_group;
    const gal_operand gradient = own_gradient(b, u, GAL_READ);
    gal_builder_operand_at(b, &weight);
    if (!u->reuses) {
        gal_builder_operand_at(b, &gradient);
    }
    gal_builder_operand(b, u->first_moment, GAL_UPDATE);
    gal_builder_operand(b, u->second_moment, GAL_UPDATE);
    gal_builder_operand(b, b->program->norm_buffer, GAL_READ);
    if (u->master != GAL_NO_BUFFER) {
        gal_builder_operand(b, u->master, GAL_UPDATE);
    }
}

static void update_unit(gal_builder *b, const gal_unit *u)
{
    update_range(b, u);
    if (u->zero_stage == 1 || u->zero_stage == 2) {
        gal_emit_collective(b, GAL_OP_ALL_GATHER, GAL_STREAM_GATHER, "gather w", b->program->dtype, u->zero_group,
                            u->shard_elements, 1);
        gal_builder_operand(b, u->weight, GAL_UPDATE);
    }
}

static void reduce_copies(gal_builder *b, gal_group copies)
{
    const gal_program *p = b->program;
    for (uint32_t i = 0; i < p->unit_count; i++) {
        const gal_unit u = p->unit[i];
        if (u.copies == copies) {
            gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_REDUCE, "reduce tied dw", gal_dtype_wide(p->dtype),
                                copies, u.shard_elements, GAL_REDUCE_SUM);
            gal_operand range = own_gradient(b, &u, GAL_UPDATE);
            gal_builder_operand_at(b, &range);
            if (u.host_gradient != GAL_NO_BUFFER) {
                range.access = GAL_READ;
                gal_host_take_gradient(b, &u, &range);
            }
        }
    }
}

void gal_zero_update(gal_builder *b, uint32_t loss_replicas)
{
    gal_program *p = b->program;
    /* Copies on several stages. In update, not in backward: there the reduction would wait for a stream that waits for
     * it. In one order everywhere, whatever the order of the units. */
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        reduce_copies(b, gal_group_of_shared((gal_shared)shared));
    }
    start_norm(b, loss_replicas);
    for (uint32_t i = 0; i < p->unit_count; i++) {
        const gal_unit u = p->unit[i];
        gal_shape shape = {.op = GAL_OP_SUM_SQUARES,
                           .dtype = u.reuses ? p->dtype : gal_dtype_wide(p->dtype),
                           .dims = {gal_builder_dim(b, u.shard_elements), u.replicas}};
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, "square dw", &shape);
        gal_operand range = own_gradient(b, &u, GAL_READ);
        gal_builder_operand_at(b, &range);
        gal_builder_operand(b, p->norm_buffer, GAL_UPDATE);
    }
    reduce_norm(b);
    gal_host_take_norm(b);
    for (uint32_t i = 0; i < p->unit_count; i++) {
        const gal_unit u = p->unit[i];
        update_unit(b, &u);
    }
}

void gal_zero_report(gal_builder *b, uint32_t loss_replicas)
{
    start_norm(b, loss_replicas);
    reduce_norm(b);
}
