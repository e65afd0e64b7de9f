/* What forward keeps for backward, in the host's memory (S. Rajbhandari et al., "ZeRO-Infinity", section 5.1.4, for
 * inputs of recomputed blocks; here for whatever a block keeps).
 *
 * On the device the kept values of a block lie together in one of two buffers that blocks take in turn, and its input
 * in one of two others: the block before writes it there. Behind the block's forward they are copied to the host, where
 * every microbatch in flight has its own; in front of its backward they are copied in again. So one block's copies run
 * beside the next one's kernels, both ways: the waits for the turn of a buffer are all that holds them back. */
#include <string.h>

#include "runtime/program/lower/emit_nodes.h"

void gal_activations_begin(gal_block_emit *e)
{
    e->puts_away = e->strategy->offload_activations && e->graph.x != GAL_NO_VALUE && !e->graph.head;
    e->staged = e->staged_x = e->host_x = GAL_NO_BUFFER;
    e->staged_bytes = 0;
    memset(e->host_saved, 0xFF, sizeof e->host_saved); /* GAL_NO_BUFFER */
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
    const gal_operand input = {.buffer = x, .bytes = gal_layout_bytes(b, &e->layout, e->shape.in)};
    copy(b, op, b->program->dtype, input, e->host_x);
    for (uint32_t v = 0; v < e->graph.value_count; v++) {
        if (e->host_saved[v] != GAL_NO_BUFFER) {
            const gal_value *value = &e->graph.value[v];
            const gal_dtype dtype = value->int32  ? GAL_I32
                                    : value->wide ? gal_dtype_wide(b->program->dtype)
                                                  : b->program->dtype;
            copy(b, op, dtype, gal_emit_whole(b, e, e->staged, (uint8_t)v), e->host_saved[v]);
        }
    }
}

void gal_activations_put_away(gal_builder *b, gal_block_emit *e)
{
    if (e->puts_away && !b->out_of_memory) {
        copy_all(b, e, GAL_OP_COPY_OUT, e->x);
    }
}

void gal_activations_fetch(gal_builder *b, gal_block_emit *e)
{
    if (e->puts_away && !b->out_of_memory) {
        e->x = e->staged_x; /* of a chunk's first block forward had it as it was received */
        copy_all(b, e, GAL_OP_COPY_IN, e->x);
    }
}
