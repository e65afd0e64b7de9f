/* What forward keeps for backward, in the host's memory (S. Rajbhandari et al., "ZeRO-Infinity", section 5.1.4, for
 * inputs of recomputed blocks; here for whatever a block keeps, or a share of it).
 *
 * On the device the values of a block that leave it lie together in one of two buffers that blocks take in turn, and
 * its input in one of two others: the block before writes it there. Behind the block's forward they are copied to the
 * host, where every microbatch in flight has its own; in front of its backward they are copied in again. So one block's
 * copies run beside the next one's kernels, both ways: the waits for the turn of a buffer are all that holds them back.
 * Of a share the first ones leave, in the order in which forward has them: it has them longest before the block ends,
 * and backward asks for them last.
 * Of these the first ones, as many as the strategy says, go on to a file and come back from there. Every microbatch in
 * flight has its place in the file; the host's memory has a ring of three values alone, through which one is copied out
 * while those before it are written, or copied in while those behind it are read. */
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

/* The values of a block by bytes of a microbatch, and how many of these are chosen by now. */
typedef struct share {
    uint64_t total, away, stored;
} share;

static bool takes(uint64_t total, uint64_t percent, uint64_t *taken, uint64_t bytes)
{
    const bool fits = percent > 0 && (*taken + bytes) * PERCENT <= total * percent;
    *taken += fits ? bytes : 0;
    return fits;
}

/* Whether the next value leaves the device; *stored: for the file. */
static bool leaves(const gal_strategy *strategy, uint64_t bytes, share *of, bool *stored)
{
    const bool away = takes(of->total, strategy->offload_activations_percent, &of->away, bytes);
    *stored = away && takes(of->total, strategy->offload_storage_activations_percent, &of->stored, bytes);
    return away;
}

void gal_activations_choose(const gal_builder *b, gal_block_emit *e)
{
    const gal_strategy *strategy = e->strategy;
    const bool may = strategy->offload_activations_percent > 0 && e->graph.x != GAL_NO_VALUE && !e->graph.head;
    uint8_t kept[GAL_GRAPH_MAX];
    const uint32_t count = may ? list_kept(e, kept) : 0;
    const uint64_t input = may ? gal_layout_bytes(b, &e->layout, e->shape.in) : 0;
    share of = {.total = input};
    for (uint32_t i = 0; i < count; i++) {
        of.total += gal_emit_bytes(b, e, kept[i]);
    }
    e->puts_x_away = may && leaves(strategy, input, &of, &e->stores_x);
    for (uint32_t i = 0; i < count; i++) {
        if (leaves(strategy, gal_emit_bytes(b, e, kept[i]), &of, &e->stored[e->away_count])) {
            e->away[e->away_count++] = kept[i];
        }
    }
    e->staged = e->staged_x = GAL_NO_BUFFER;
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

/* Where a value of the block lies while it is away. */
static uint32_t place_away(gal_builder *b, const gal_block_emit *e, bool stored, const char *name, uint64_t bytes)
{
    return gal_builder_buffer(b, stored ? GAL_CLASS_STORAGE_SAVED : GAL_CLASS_HOST_SAVED, e->index, name, bytes);
}

uint32_t gal_activations_input(gal_builder *b, gal_block_emit *e)
{
    const uint64_t bytes = gal_layout_bytes(b, &e->layout, e->shape.in);
    e->staged_x = turn_of(b, b->staged_x, e->index, "staged x", bytes);
    e->away_x = place_away(b, e, e->stores_x, e->stores_x ? "stored x" : "host x", bytes);
    return e->staged_x;
}

uint32_t gal_activations_place(gal_builder *b, gal_block_emit *e, uint8_t value)
{
    const uint64_t bytes = gal_emit_bytes(b, e, value);
    uint32_t at = 0;
    while (e->away[at] != value) {
        at++;
    }
    e->staged_offset[value] = e->staged_bytes;
    e->staged_bytes += gal_align(bytes);
    e->staged = turn_of(b, b->staged, e->index, "staged", e->staged_bytes);
    e->away_in[at] = place_away(b, e, e->stored[at], e->stored[at] ? "stored kept" : "host kept", bytes);
    return e->staged;
}

/* Either way: an operator on a stream of its own, and what it is called. */
typedef struct way {
    gal_op op;
    gal_stream stream;
    const char *name;
} way;

static const way out_of_device = {GAL_OP_COPY_OUT, GAL_STREAM_HOST_OUT, "put away"};
static const way to_file = {GAL_OP_STORAGE_WRITE, GAL_STREAM_STORAGE_OUT, "store kept"};
static const way from_file = {GAL_OP_STORAGE_READ, GAL_STREAM_STORAGE_IN, "load kept"};
static const way in_to_device = {GAL_OP_COPY_IN, GAL_STREAM_HOST_IN, "fetch"};

static void move(gal_builder *b, way by, gal_dtype dtype, gal_operand from, gal_operand to)
{
    const uint64_t item = gal_dtype_bytes(dtype);
    const gal_shape shape = {
        .op = by.op, .dtype = dtype, .dims = {gal_builder_dim(b, from.bytes / item), (uint32_t)item}};
    from.access = GAL_READ;
    to.access = GAL_WRITE;
    gal_builder_instruction(b, by.stream, by.name, &shape);
    gal_builder_operand_at(b, &from);
    gal_builder_operand_at(b, &to);
}

/* The next place of the ring in the host's memory: as large as the largest value that comes to it, in whole blocks, as
 * they are moved. */
static gal_operand pass_through(gal_builder *b, uint64_t bytes)
{
    uint32_t *place = &b->passing[b->passing_next++ % GAL_STORED_RING];
    if (*place == GAL_NO_BUFFER) {
        *place = gal_builder_buffer(b, GAL_CLASS_STORED_SAVED, GAL_NO_BUFFER, "passing", 0);
    }
    gal_builder_grow_buffer(b, *place, gal_align_in(GAL_CLASS_STORED_SAVED, bytes));
    return (gal_operand){.buffer = *place, .bytes = bytes};
}

/* Between a place on the device and the buffer, on the host or in the file, that holds its value. */
static void carry(gal_builder *b, bool out, gal_dtype dtype, gal_operand device, uint32_t buffer, bool stored)
{
    const gal_operand away = {.buffer = buffer, .bytes = device.bytes};
    const gal_operand host = stored ? pass_through(b, device.bytes) : away;
    if (out) {
        move(b, out_of_device, dtype, device, host);
    }
    if (stored) {
        move(b, out ? to_file : from_file, dtype, out ? host : away, out ? away : host);
    }
    if (!out) {
        move(b, in_to_device, dtype, host, device);
    }
}

static void carry_all(gal_builder *b, const gal_block_emit *e, bool out, uint32_t x)
{
    if (e->puts_x_away) {
        const gal_operand input = {.buffer = x, .bytes = gal_layout_bytes(b, &e->layout, e->shape.in)};
        carry(b, out, b->program->dtype, input, e->away_x, e->stores_x);
    }
    for (uint32_t i = 0; i < e->away_count; i++) {
        const gal_value *value = &e->graph.value[e->away[i]];
        const gal_dtype dtype = value->int32  ? GAL_I32
                                : value->wide ? gal_dtype_wide(b->program->dtype)
                                              : b->program->dtype;
        carry(b, out, dtype, gal_emit_whole(b, e, e->staged, e->away[i]), e->away_in[i], e->stored[i]);
    }
}

void gal_activations_put_away(gal_builder *b, gal_block_emit *e)
{
    if (!b->out_of_memory) {
        carry_all(b, e, true, e->x);
    }
}

void gal_activations_fetch(gal_builder *b, gal_block_emit *e)
{
    if (!b->out_of_memory) {
        e->x = e->puts_x_away ? e->staged_x : e->x; /* of a chunk's first block forward had it as it was received */
        carry_all(b, e, false, e->x);
    }
}
