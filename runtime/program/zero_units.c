/* Units: which tensors of a block are sharded, gathered and synchronised together, over which devices, and the buffers
 * that they keep. */
#include <string.h>

#include "runtime/program/zero.h"

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
    const uint64_t item = gal_dtype_bytes(b->program->dtype), wide = gal_zero_wide_bytes(b);
    const uint64_t shard = u.shard_elements * wide;
    const bool fetched = e->unit_on_host[index] && e->strategy->offload_parameters && !about->persistent;
    u.weight = gal_builder_buffer(b, fetched ? GAL_CLASS_HOST : GAL_CLASS_STATE, e->index, "w",
                                  (u.zero_stage == 3 ? u.shard_elements : u.elements) * item);
    const gal_class kept = e->unit_on_host[index] ? GAL_CLASS_HOST : GAL_CLASS_STATE;
    if (e->unit_stored[index]) {
        gal_storage_buffers(b, e->index, &u);
    } else {
        u.first_moment = gal_builder_buffer(b, kept, e->index, "m", shard);
        u.second_moment = gal_builder_buffer(b, kept, e->index, "v", shard);
    }
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
