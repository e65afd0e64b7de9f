/* Blocks that work on two sub-batches (Oases, section 3): each is emitted as one block is, the second behind the first.
 * Blocks that do not go through here too, once. */
#include "runtime/program/lower/emit.h"

#include <string.h>

static void exchange(void *a, void *b, size_t bytes)
{
    uint32_t kept[GAL_GRAPH_MAX];
    memcpy(kept, a, bytes);
    memcpy(a, b, bytes);
    memcpy(b, kept, bytes);
}

/* What is emitted from now on is of this sub-batch; of whole microbatches where the block is not halved. */
static void take_half(gal_builder *b, gal_block_emit *e, uint32_t half)
{
    gal_emit_half *other = &e->other;
    b->sub_batch = e->halved ? (uint8_t)(half + 1) : 0;
    if (!e->halved || e->half == half) {
        return;
    }
    e->half = (uint8_t)half;
    exchange(&e->chunk_layout, &other->chunk_layout, sizeof e->chunk_layout);
    exchange(&e->whole_layout, &other->whole_layout, sizeof e->whole_layout);
    exchange(&e->all_layout, &other->all_layout, sizeof e->all_layout);
    exchange(&e->pending, &other->pending, sizeof e->pending);
    exchange(&e->dy, &other->dy, sizeof e->dy);
    exchange(&e->dx, &other->dx, sizeof e->dx);
    exchange(e->forward, other->forward, sizeof e->forward);
    exchange(e->backward, other->backward, sizeof e->backward);
    exchange(e->gradient, other->gradient, sizeof e->gradient);
}

void gal_emit_begin_segment(gal_builder *b, const gal_block_emit *e, uint32_t fragment)
{
    gal_builder_begin_segment(b, fragment);
    if (!b->out_of_memory && e->halved) {
        b->program->segment[b->program->segment_count].halved_block = e->index;
    }
}

static uint32_t sub_batches(const gal_block_emit *e)
{
    return e->halved ? 2 : 1;
}

/* What follows is of whole microbatches. */
static void leave(gal_builder *b, gal_block_emit *e)
{
    take_half(b, e, 0);
    b->sub_batch = 0;
}

void gal_emit_forward_all(gal_builder *b, gal_block_emit *e)
{
    for (uint32_t half = 0; half < sub_batches(e); half++) {
        take_half(b, e, half);
        gal_emit_forward(b, e);
    }
    leave(b, e);
}

bool gal_emit_passes_apart(const gal_block_emit *e)
{
    return e->halved && e->strategy->overlap == GAL_OVERLAP_IN_PASS && e->strategy->recompute == GAL_RECOMPUTE_FULL;
}

static void recompute_pass(gal_builder *b, gal_block_emit *e)
{
    const uint32_t first = b->program->instruction_count;
    for (uint32_t half = 0; half < sub_batches(e); half++) {
        take_half(b, e, half);
        gal_emit_recompute(b, e);
    }
    gal_overlap_order(b, first, UINT32_MAX);
}

/* Whether all of forward runs again in front of backward. */
static bool repeats_forward(const gal_block_emit *e)
{
    const bool crosses = e->halved && e->strategy->overlap == GAL_OVERLAP_CROSS_PASS;
    const bool layer = e->shape.kind == GAL_BLOCK_ATTENTION || e->shape.kind == GAL_BLOCK_CROSS_ATTENTION ||
                       e->shape.kind == GAL_BLOCK_FFN;
    return crosses || (layer && e->strategy->recompute == GAL_RECOMPUTE_REPEAT);
}

void gal_emit_backward_all(gal_builder *b, gal_block_emit *e)
{
    const bool apart = gal_emit_passes_apart(e);
    const bool repeats = repeats_forward(e);
    if (apart) {
        recompute_pass(b, e);
    }
    const uint32_t first = b->program->instruction_count;
    for (uint32_t half = 0; half < sub_batches(e); half++) {
        take_half(b, e, half);
        if (repeats) {
            gal_emit_recompute(b, e);
        }
        (b->split ? gal_emit_backward_input : gal_emit_backward)(b, e);
    }
    if (apart) {
        gal_overlap_order(b, first, UINT32_MAX);
    }
    leave(b, e);
}

void gal_emit_set_dx(gal_builder *b, gal_block_emit *e, bool apart, uint32_t buffer)
{
    e->dx = e->other.dx = buffer;
    e->dx_apart = apart;
    if (apart && !b->out_of_memory) {
        uint32_t *second = &b->boundary_second[e->index & 1u];
        if (*second == GAL_NO_BUFFER) {
            *second = gal_builder_buffer(b, GAL_CLASS_BOUNDARY, GAL_NO_BUFFER, "boundary", 0);
        }
        gal_builder_grow_buffer(b, *second, gal_layout_bytes(b, &e->layout, e->shape.in) / 2);
        e->other.dx = *second;
    }
}

void gal_emit_set_dy(const gal_builder *b, gal_block_emit *e, bool apart, uint32_t buffer)
{
    e->dy = buffer;
    e->dy_apart = apart;
    e->other.dy = apart ? b->boundary_second[(e->index + 1) & 1u] : buffer;
}
