#include "runtime/program/lower/carried.h"

#include <stdlib.h>
#include <string.h>

static gal_carried_version *latest(const gal_carried *c)
{
    return c->version_count > 0 ? &c->version[c->version_count - 1] : NULL;
}

static bool add_version(gal_carried *c, uint32_t block, const gal_layout *layout, const gal_layout_step *steps,
                        uint32_t step_count)
{
    gal_layout_step *kept = step_count > 0 ? malloc(step_count * sizeof *kept) : NULL;
    if ((step_count > 0 && kept == NULL) ||
        !gal_grow(&c->version, &c->version_capacity, c->version_count, sizeof *c->version)) {
        free(kept);
        return false;
    }
    if (step_count > 0) {
        memcpy(kept, steps, step_count * sizeof *kept);
    }
    c->version[c->version_count++] = (gal_carried_version){.layout = *layout,
                                                           .block = block,
                                                           .step_count = step_count,
                                                           .step = kept,
                                                           .buffer = GAL_NO_BUFFER,
                                                           .gradient = GAL_NO_BUFFER};
    return true;
}

void gal_carried_begin(gal_carried *c, uint32_t first, uint32_t end)
{
    *c = (gal_carried){.first = first, .end = end, .first_reader = UINT32_MAX};
}

bool gal_carried_add_block(gal_carried *c, const gal_atoms *atoms, uint32_t index, const gal_block_shape *shape,
                           const gal_layout *layout, const gal_layout *entry)
{
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    c->sent = shape->carried_out.positions > 0;
    if (index == c->first && shape->carried_in.positions > 0) {
        c->received = true;
        c->flow = shape->carried_in;
        if (!add_version(c, index, entry, NULL, 0)) {
            return false;
        }
    }
    if (shape->kind == GAL_BLOCK_BRIDGE) {
        c->flow = shape->carried_out;
        return add_version(c, index, layout, NULL, 0);
    }
    if (shape->kind == GAL_BLOCK_CROSS_ATTENTION) {
        const uint32_t count = gal_layout_convert_to(&latest(c)->layout, atoms, layout, steps);
        if (count > 0 && !add_version(c, index, layout, steps, count)) {
            return false;
        }
        latest(c)->read = true;
        c->first_reader = index < c->first_reader ? index : c->first_reader;
    }
    return true;
}

void gal_carried_free(gal_carried *c)
{
    for (uint32_t v = 0; v < c->version_count; v++) {
        free(c->version[v].step);
    }
    free(c->version);
}

static bool comes_in(const gal_carried *c, const gal_carried_version *v)
{
    return c->received && v == c->version;
}

static bool goes_out(const gal_carried *c, const gal_carried_version *v)
{
    return c->sent && v == latest(c);
}

/* A version that blocks read lives until their backward. */
static gal_class class_of(const gal_carried *c, const gal_carried_version *v)
{
    return !v->read ? GAL_CLASS_Y_OUT : comes_in(c, v) ? GAL_CLASS_CARRIED : GAL_CLASS_SAVED;
}

static gal_class gradient_class_of(const gal_carried *c, const gal_carried_version *v)
{
    return goes_out(c, v) ? GAL_CLASS_DY_IN : comes_in(c, v) ? GAL_CLASS_DX_OUT : GAL_CLASS_DCARRIED;
}

void gal_carried_make_ports(gal_builder *b, gal_carried *c, gal_block_emit *blocks)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < c->version_count; i++) {
        gal_carried_version *at = &c->version[i];
        const uint64_t bytes = gal_layout_bytes(b, &at->layout, c->flow);
        const gal_class class = class_of(c, at);
        const uint32_t owner = class == GAL_CLASS_SAVED ? at->block : GAL_NO_BUFFER;
        at->buffer = gal_builder_buffer(b, class, owner, "carried", bytes);
        at->gradient = gal_builder_buffer(b, gradient_class_of(c, at), GAL_NO_BUFFER, "dcarried", bytes);
    }
    for (uint32_t i = c->first; c->version_count > 0 && i < c->end; i++) {
        while (v + 1 < c->version_count && c->version[v + 1].block <= i) {
            v++;
        }
        if (blocks[i].graph.carried_in != GAL_NO_VALUE || blocks[i].graph.carried_out != GAL_NO_VALUE) {
            blocks[i].carried = c->version[v].buffer;
            blocks[i].dcarried = c->version[v].gradient;
        }
    }
}

uint32_t gal_carried_received(const gal_carried *c)
{
    return c->received ? c->version[0].buffer : GAL_NO_BUFFER;
}

uint32_t gal_carried_sent(const gal_carried *c)
{
    return c->sent ? latest(c)->buffer : GAL_NO_BUFFER;
}

uint32_t gal_carried_received_gradient(const gal_carried *c)
{
    return c->sent ? latest(c)->gradient : GAL_NO_BUFFER;
}

uint32_t gal_carried_sent_gradient(const gal_carried *c)
{
    return c->received ? c->version[0].gradient : GAL_NO_BUFFER;
}

uint32_t gal_carried_ready(const gal_carried *c)
{
    return c->received && c->version_count == 1 ? UINT32_MAX : latest(c)->block;
}

uint32_t gal_carried_gradient_ready(const gal_carried *c)
{
    return c->first_reader;
}

/* The version that is converted for a block, or NULL. */
static gal_carried_version *converted_for(const gal_carried *c, const gal_block_emit *e)
{
    for (uint32_t v = 0; v < c->version_count; v++) {
        if (c->version[v].step_count > 0 && c->version[v].block == e->index) {
            return &c->version[v];
        }
    }
    return NULL;
}

static gal_carried_version *of_block(const gal_carried *c, const gal_block_emit *e)
{
    for (uint32_t v = c->version_count; e->carried != GAL_NO_BUFFER && v-- > 0;) {
        if (c->version[v].buffer == e->carried) {
            return &c->version[v];
        }
    }
    return NULL;
}

void gal_carried_before_forward(gal_builder *b, const gal_carried *c, const gal_block_emit *e)
{
    const gal_carried_version *v = converted_for(c, e);
    if (v != NULL) {
        gal_emit_steps(b, GAL_CLASS_CARRIED_RELAYOUT, v->step, v->step_count, false, c->flow, v[-1].buffer, v->buffer,
                       0);
    }
}

void gal_carried_begin_backward(gal_carried *c)
{
    for (uint32_t v = 0; v < c->version_count; v++) {
        c->version[v].gradient_begun = goes_out(c, &c->version[v]);
    }
}

void gal_carried_before_backward(gal_carried *c, gal_block_emit *e)
{
    gal_carried_version *v = of_block(c, e);
    if (v != NULL) {
        e->dcarried_written = v->gradient_begun;
        v->gradient_begun = true;
    }
}

void gal_carried_after_backward(gal_builder *b, gal_carried *c, const gal_block_emit *e)
{
    gal_carried_version *v = converted_for(c, e);
    if (v != NULL) {
        gal_emit_steps(b, GAL_CLASS_CARRIED_RELAYOUT, v->step, v->step_count, true, c->flow, v->gradient,
                       v[-1].gradient, 0);
        v[-1].gradient_begun = true;
    }
}
