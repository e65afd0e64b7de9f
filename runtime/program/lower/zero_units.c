/* Units: which tensors are sharded, gathered and synchronised together, over which devices, and the buffers that they
 * keep. A graph says which tensors belong together at least (a matrix and its bias); of these a unit takes one, all of
 * a block, or those of consecutive blocks up to a number of elements, as the strategy says (gal_shard_unit), where they
 * are divided and summed over the same devices and updated on the same side. A unit is open while it may take more;
 * then offsets, sizes and buffers are known. In a piece one is open at most: units follow each other in the order of
 * their first use, so a ring of two buffers holds what a block reads. */
#include <string.h>

#include "runtime/program/lower/zero.h"

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

static void add_parameter(gal_builder *b, const gal_block_emit *e, uint32_t t)
{
    const gal_tensor *tensor = &e->graph.tensor[t];
    gal_parameter p = {.tensor = tensor_number(b, e, tensor),
                       .unit = e->unit[tensor->unit],
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
    public_name(e, tensor->suffix, e->graph.unit[tensor->unit].shared != GAL_SHARED_COUNT, p.name, sizeof p.name);
    gal_builder_parameter(b, &p);
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

/* Over which devices a unit with the graph's `index` in it is divided and summed; without sizes and buffers. */
static gal_unit begun_unit(const gal_builder *b, const gal_block_emit *e, uint8_t index)
{
    const gal_block_unit *about = &e->graph.unit[index];
    gal_unit u = {
        .block = e->index, .last_block = e->index, .model_block = b->spec->block[e->index].block, .name = about->name};
    gal_group split = GAL_GROUP_NONE;
    for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
        split = e->graph.tensor[t].unit == index ? split_over(&e->graph.tensor[t]) : split;
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
    const uint32_t copies =
        about->shared == GAL_SHARED_COUNT ? 1 : gal_stage_set_count(&b->program->holders[about->shared]);
    u.copies = copies > 1 ? gal_group_of_shared(about->shared) : GAL_GROUP_NONE;
    u.reuses = b->spec->gradient_reuses_parameter && !about->persistent; /* its parts come one by one */
    u.weight = u.gradient = u.first_moment = u.second_moment = GAL_NO_BUFFER;
    u.master = u.host_weight = u.host_gradient = GAL_NO_BUFFER;
    return u;
}

/* Its sizes, when all that it has is known. */
static void size_unit(const gal_builder *b, gal_unit *u)
{
    const gal_atoms *atoms = &b->program->atoms;
    const uint32_t shards = gal_group_size(atoms, u->zero_group);
    const uint32_t copies =
        u->copies == GAL_GROUP_NONE ? 1 : gal_stage_set_count(&b->program->holders[gal_shared_of_group(u->copies)]);
    u->shard_elements = (u->used_elements + shards - 1) / shards;
    u->elements = u->shard_elements * shards;
    u->replicas = b->program->device_count / (shards * gal_group_size(atoms, u->split_group)) * copies;
}

static void make_buffers(gal_builder *b, gal_unit_places at, bool stores_masters, gal_unit *u)
{
    const uint64_t item = gal_dtype_bytes(b->program->dtype), wide = gal_zero_wide_bytes(b);
    const uint64_t shard = u->shard_elements * wide;
    const gal_class kept = at.on_host ? GAL_CLASS_HOST : GAL_CLASS_STATE;
    const bool has_master = gal_dtype_is_narrow(b->program->dtype) || u->reuses;
    const gal_class holds = at.weight_stored ? GAL_CLASS_STORAGE : at.fetched ? GAL_CLASS_HOST : GAL_CLASS_STATE;
    u->weight =
        gal_builder_buffer(b, holds, u->block, "w", (u->zero_stage == 3 ? u->shard_elements : u->elements) * item);
    if (at.stored) {
        gal_storage_buffers(b, u->block, (gal_storage_kinds){has_master && stores_masters, at.weight_stored}, u);
    } else {
        u->first_moment = gal_builder_buffer(b, kept, u->block, "m", shard);
        u->second_moment = gal_builder_buffer(b, kept, u->block, "v", shard);
    }
    if (has_master && u->master == GAL_NO_BUFFER) {
        u->master = gal_builder_buffer(b, kept, u->block, "master", shard);
    }
    if (at.on_host) {
        gal_host_buffers(b, u->block, u);
    }
    u->gradient = u->reuses ? u->weight
                            : gal_builder_buffer(b, GAL_CLASS_GRADIENT, u->block, "dw",
                                                 u->zero_stage >= 2 ? shard : u->elements * wide);
}

static bool is_home(gal_unit_home a, gal_unit_home b)
{
    return a.block == b.block && a.index == b.index;
}

/* The tensors of the unit to their places in it and to the program's parameters, those that decay first. */
static void lay_out(gal_builder *b, gal_unit_home home, uint32_t number, gal_unit *u)
{
    gal_block_emit *const end = home.block + (u->last_block - u->block) + 1;
    u->used_elements = u->decay_elements = 0;
    for (gal_block_emit *e = home.block; e < end; e++) {
        for (uint32_t i = 0; i < e->graph.unit_count; i++) {
            e->unit[i] = is_home(e->home[i], home) ? number : e->unit[i];
        }
    }
    for (uint32_t decays = 2; decays-- > 0;) {
        for (gal_block_emit *e = home.block; e < end; e++) {
            for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
                const gal_tensor *tensor = &e->graph.tensor[t];
                if (!is_home(e->home[tensor->unit], home) || tensor->decays != decays) {
                    continue;
                }
                e->tensor_offset[t] = u->used_elements;
                u->used_elements += e->tensor_elements[t];
                u->decay_elements += decays * e->tensor_elements[t];
                if (b->spec->lowered == GAL_LOWERED_WHOLE) {
                    add_parameter(b, e, t);
                }
            }
        }
    }
}

/* Nothing more comes to the unit. */
static void close_unit(gal_builder *b, gal_unit_home home, const gal_unit *begun)
{
    gal_unit u = *begun;
    const gal_block_emit *e = home.block;
    lay_out(b, home, b->program->unit_count, &u);
    size_unit(b, &u);
    make_buffers(b, e->unit_at[home.index], e->strategy->offload_storage_masters, &u);
    (void)gal_builder_unit(b, &u);
}

/* ---- what is one unit ---- */

static bool continues(const gal_builder *b, const gal_unit_home *open, const gal_block_emit *e)
{
    const gal_block_emit *first = open->block;
    return first != NULL && !b->spec->chunks_apart && e->strategy->shard_unit == GAL_SHARD_CHUNK &&
           gal_block_joins_chunks(first->shape.kind) && gal_block_joins_chunks(e->shape.kind) &&
           gal_strategy_equal(first->strategy, e->strategy);
}

static bool may_join(const gal_block_emit *e, uint8_t index)
{
    const gal_block_unit *about = &e->graph.unit[index];
    return e->strategy->shard_unit != GAL_SHARD_MATRIX && !about->persistent && about->shared == GAL_SHARED_COUNT;
}

static bool is_alike(const gal_unit *a, const gal_unit *b)
{
    return a->zero_group == b->zero_group && a->sync_group == b->sync_group && a->split_group == b->split_group;
}

static bool is_kept_alike(gal_unit_places a, gal_unit_places b)
{
    return a.on_host == b.on_host && a.fetched == b.fetched && a.stored == b.stored &&
           a.weight_stored == b.weight_stored;
}

/* Whether the unit that is open takes what would be a unit of its own. */
static bool takes(const gal_holders *holders, const gal_block_emit *e, uint8_t index, const gal_unit *own)
{
    const gal_unit_home open = holders->open;
    const bool fits = e->strategy->shard_unit != GAL_SHARD_CHUNK || !gal_block_joins_chunks(e->shape.kind) ||
                      holders->open_unit.used_elements + own->used_elements <= e->strategy->chunk_elements;
    return open.block != NULL && fits && is_kept_alike(open.block->unit_at[open.index], e->unit_at[index]) &&
           is_alike(&holders->open_unit, own);
}

static void count_gradients(gal_block_emit *e, uint8_t index)
{
    const gal_unit_home home = e->home[index];
    for (uint32_t t = 0; t < e->graph.tensor_count; t++) {
        home.block->gradients[home.index] += e->graph.tensor[t].unit == index ? (e->halved ? 2 : 1) : 0;
    }
}

void gal_zero_close_units(gal_builder *b, gal_holders *holders)
{
    if (holders->open.block != NULL) {
        close_unit(b, holders->open, &holders->open_unit);
        holders->open.block = NULL;
    }
}

static void add_unit(gal_builder *b, gal_block_emit *e, uint8_t index, uint64_t elements, gal_holders *holders)
{
    const gal_unit_home own = {e, index};
    gal_unit u = begun_unit(b, e, index);
    u.used_elements = elements;
    e->home[index] = own;
    if (!may_join(e, index)) {
        close_unit(b, own, &u);
    } else if (takes(holders, e, index, &u)) {
        e->home[index] = holders->open;
        holders->open_unit.used_elements += elements;
        holders->open_unit.last_block = e->index;
        holders->open_unit.name = gal_shard_unit_names[e->strategy->shard_unit];
    } else {
        gal_zero_close_units(b, holders);
        holders->open = own;
        holders->open_unit = u;
    }
    count_gradients(e, index);
}

static void borrow(gal_block_emit *e, uint8_t index, gal_block_emit *holder, uint8_t lent)
{
    e->unit[index] = holder->unit[lent];
    e->unit_borrowed[index] = true;
    holder->unit_lent[lent] = true;
    e->home[index] = (gal_unit_home){e, index};
    count_gradients(e, index);
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
    if (!continues(b, &holders->open, e)) {
        gal_zero_close_units(b, holders);
    }
    for (uint8_t u = 0; u < e->graph.unit_count; u++) {
        const gal_shared shared = e->graph.unit[u].shared;
        gal_block_emit *holder = shared == GAL_SHARED_COUNT ? NULL : holders->block[shared];
        if (holder != NULL) {
            borrow(e, u, holder, holders->unit[shared]);
        } else {
            add_unit(b, e, u, used[u], holders);
        }
        if (shared != GAL_SHARED_COUNT) {
            holders->block[shared] = e;
            holders->unit[shared] = u;
        }
    }
    if (e->strategy->shard_unit != GAL_SHARD_CHUNK || !gal_block_joins_chunks(e->shape.kind)) {
        gal_zero_close_units(b, holders);
    }
}
