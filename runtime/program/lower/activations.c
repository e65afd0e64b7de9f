/* What forward keeps for backward, in the host's memory (S. Rajbhandari et al., "ZeRO-Infinity", section 5.1.4, for
 * inputs of recomputed blocks; here for whatever a block keeps, or a share of it).
 *
 * On the device the values of a block that leave it lie together in one of two buffers that blocks take in turn, and
 * its input in one of two others: the block before writes it there. Behind the block's forward they are copied to the
 * host, where every microbatch in flight has its own; in front of its backward they are copied in again. So one block's
 * copies run beside the next one's kernels, both ways: the waits for the turn of a buffer are all that holds them back.
 * Of a share the first ones leave, in the order in which forward has them: it has them longest before the block ends,
 * and backward asks for them last. */
#include <string.h>

#include "runtime/program/lower/emit_nodes.h"

enum { PERCENT = 100 };

/* Whether forward keeps a value in a buffer of its own, which ports are not. */
static bool keeps(const gal_block_emit *e, uint8_t value)
{
    const gal_graph *g = &e->graph;
    const bool port = value == g->x || value == g->carried_in || value == g->carried_out ||
                      (g->y != GAL_NO_VALUE && value == gal_graph_storage(g, g->y));
    return value != GAL_NO_VALUE && e->saved[value] && !port;
}

/* The values that forward keeps, in the order in which it makes them. Returns their count. */
static uint32_t list_kept(const gal_block_emit *e, uint8_t kept[GAL_GRAPH_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->graph.node_count; i++) {
        for (uint32_t o = 0; o < sizeof e->graph.node[i].out / sizeof e->graph.node[i].out[0]; o++) {
            const uint8_t value = e->graph.node[i].out[o];
            if (keeps(e, value)) {
                kept[count++] = value;
            }
        }
    }
    return count;
}

void gal_activations_choose(const gal_builder *b, gal_block_emit *e)
{
    const uint64_t percent = e->strategy->offload_activations_percent;
    const bool may = percent > 0 && e->graph.x != GAL_NO_VALUE && !e->graph.head;
    uint8_t kept[GAL_GRAPH_MAX];
    const uint32_t count = may ? list_kept(e, kept) : 0;
    const uint64_t input = may ? gal_layout_bytes(b, &e->layout, e->shape.in) : 0;
    uint64_t total = input;
    GAL_ASSERT(percent <= PERCENT);
    for (uint32_t i = 0; i < count; i++) {
        total += gal_emit_bytes(b, e, kept[i]);
    }
    e->puts_x_away = may && input * PERCENT <= total * percent;
    uint64_t taken = e->puts_x_away ? input : 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = gal_emit_bytes(b, e, kept[i]);
        if ((taken + bytes) * PERCENT <= total * percent) {
            e->away[e->away_count++] = kept[i];
            taken += bytes;
        }
    }
    e->staged = e->staged_x = e->host_x = GAL_NO_BUFFER;
    memset(e->host_saved, 0xFF, sizeof e->host_saved); /* GAL_NO_BUFFER */
}

bool gal_activations_has(const gal_block_emit *e, uint8_t value)
{
    return memchr(e->away, value, e->away_count) != NULL;
}

static uint32_t turn_of(gal_builder *b, uint32_t ring[2], uint32_t block, const char *name, uint64_t bytes)
{
    uint32_t *buffer = &ring[block & 1U];
    if (*buffer == GAL_NO_BUFFER) {
        *buffer = gal_builder_buffer(b, GAL_CLASS_STAGED, GAL_NO_BUFFER, name, 0);
    }
    gal_builder_grow_buffer(b, *buffer, bytes);
    return *buffer;
}

uint32_t gal_activations_input(gal_builder *b, gal_block_emit *e)
{
    const uint64_t bytes = gal_layout_bytes(b, &e->layout, e->shape.in);
    e->staged_x = turn_of(b, b->staged_x, e->index, "staged x", bytes);
    e->host_x = gal_builder_buffer(b, GAL_CLASS_HOST_SAVED, e->index, "host x", bytes);
    return e->staged_x;
}

uint32_t gal_activations_place(gal_builder *b, gal_block_emit *e, uint8_t value)
{
    const uint64_t bytes = gal_emit_bytes(b, e, value);
    e->staged_offset[value] = e->staged_bytes;
    e->staged_bytes += gal_align(bytes);
    e->staged = turn_of(b, b->staged, e->index, "staged", e->staged_bytes);
    e->host_saved[value] = gal_builder_buffer(b, GAL_CLASS_HOST_SAVED, e->index, "host kept", bytes);
    return e->staged;
}

/* Between a place on the device and the buffer of the host that holds it. */
static void copy(gal_builder *b, gal_op op, gal_dtype dtype, gal_operand device, uint32_t host)
{
    const uint64_t item = gal_dtype_bytes(dtype);
    const gal_shape shape = {
        .op = op, .dtype = dtype, .dims = {gal_builder_dim(b, device.bytes / item), (uint32_t)item}};
    const bool out = op == GAL_OP_COPY_OUT;
    gal_builder_instruction(b, out ? GAL_STREAM_HOST_OUT : GAL_STREAM_HOST_IN, out ? "put away" : "fetch", &shape);
    device.access = out ? GAL_READ : GAL_WRITE;
    if (out) {
        gal_builder_operand_at(b, &device);
        gal_builder_operand(b, host, GAL_WRITE);
    } else {
        gal_builder_operand(b, host, GAL_READ);
        gal_builder_operand_at(b, &device);
    }
}

static void copy_all(gal_builder *b, gal_block_emit *e, gal_op op, uint32_t x)
{
    if (e->puts_x_away) {
        const gal_operand input = {.buffer = x, .bytes = gal_layout_bytes(b, &e->layout, e->shape.in)};
        copy(b, op, b->program->dtype, input, e->host_x);
    }
    for (uint32_t i = 0; i < e->away_count; i++) {
        const uint8_t v = e->away[i];
        const gal_value *value = &e->graph.value[v];
        const gal_dtype dtype = value->int32  ? GAL_I32
                                : value->wide ? gal_dtype_wide(b->program->dtype)
                                              : b->program->dtype;
        copy(b, op, dtype, gal_emit_whole(b, e, e->staged, v), e->host_saved[v]);
    }
}

void gal_activations_put_away(gal_builder *b, gal_block_emit *e)
{
    if (!b->out_of_memory) {
        copy_all(b, e, GAL_OP_COPY_OUT, e->x);
    }
}

void gal_activations_fetch(gal_builder *b, gal_block_emit *e)
{
    if (!b->out_of_memory) {
        e->x = e->puts_x_away ? e->staged_x : e->x; /* of a chunk's first block forward had it as it was received */
        copy_all(b, e, GAL_OP_COPY_IN, e->x);
    }
}
