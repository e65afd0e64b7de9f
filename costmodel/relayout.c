#include "costmodel/relayout.h"

#include "runtime/program/layout.h"

typedef struct rows {
    const gal_atoms *atoms;
    gal_flow flow;
    gal_dtype dtype;
    bool any_order; /* samples may lie in any order: nothing is moved in place that need not be so in all */
} rows;

static uint64_t bytes_in(const rows *r, const gal_layout *layout)
{
    return gal_align((uint64_t)(r->flow.positions / gal_group_size(r->atoms, layout->sequence_group)) *
                     gal_layout_local_samples(layout) *
                     (r->flow.features / gal_group_size(r->atoms, layout->feature_group)) * gal_dtype_bytes(r->dtype));
}

/* What a step needs beside its source and its target: rows packed for an exchange, or as a collective delivers them. */
static uint64_t step_bytes(const rows *r, const gal_layout_step *step)
{
    gal_permutation how;
    const bool sequence = step->from.sequence_group != step->to.sequence_group;
    if (step->kind == GAL_STEP_SLICE || (step->kind == GAL_STEP_GATHER && sequence)) {
        return 0;
    }
    const bool packs = step->kind == GAL_STEP_ALL_TO_ALL && step->from.sequence_group != GAL_GROUP_NONE;
    const uint64_t moved = bytes_in(r, packs ? &step->from : &step->to);
    if (r->any_order) {
        return moved;
    }
    const bool fits = gal_step_permutation(step, r->atoms, r->flow.positions, &how);
    GAL_ASSERT(fits);
    return how.identity ? 0 : moved;
}

static gal_relayout_bytes bytes_of(const rows *r, const gal_layout_step *steps, uint32_t step_count)
{
    uint64_t forward = 0;
    uint64_t backward = 0;
    if (step_count == 0) {
        return (gal_relayout_bytes){0};
    }
    for (uint32_t i = 0; i < step_count; i++) {
        const gal_layout_step inverse = gal_layout_step_inverse(&steps[i]);
        const bool first = i == 0, last = i + 1 == step_count;
        forward += step_bytes(r, &steps[i]) + (last ? 0 : bytes_in(r, &steps[i].to));
        backward += step_bytes(r, &inverse) + (first ? 0 : bytes_in(r, &inverse.to));
    }
    const uint64_t forward_rows = forward + bytes_in(r, &steps[0].from);
    const uint64_t backward_rows = backward + bytes_in(r, &steps[step_count - 1].to);
    return (gal_relayout_bytes){.inside = forward_rows > backward_rows ? forward_rows : backward_rows,
                                .entry = forward > backward_rows ? forward : backward_rows,
                                .carried = forward > backward ? forward : backward};
}

gal_relayout_bytes gal_relayout_bytes_of(const gal_atoms *atoms, const gal_layout_step *steps, uint32_t step_count,
                                         gal_flow flow, gal_dtype dtype)
{
    const rows r = {atoms, flow, dtype, false};
    return bytes_of(&r, steps, step_count);
}

gal_relayout_bytes gal_relayout_bytes_any_order(const gal_atoms *atoms, const gal_layout_step *steps,
                                                uint32_t step_count, gal_flow flow, gal_dtype dtype)
{
    const rows r = {atoms, flow, dtype, true};
    return bytes_of(&r, steps, step_count);
}

gal_relayout_bytes gal_relayout_bytes_to(uint32_t device_count, const gal_layout *from, const gal_strategy *to,
                                         gal_flow flow, gal_dtype dtype)
{
    gal_atoms atoms;
    gal_layout behind;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    gal_atoms_of(device_count, &atoms);
    const uint32_t count = gal_layout_enter(from, &atoms, to, steps, &behind);
    return gal_relayout_bytes_of(&atoms, steps, count, flow, dtype);
}

gal_relayout_bytes gal_relayout_bytes_between(uint32_t device_count, const gal_layout *from, const gal_layout *to,
                                              gal_flow flow, gal_dtype dtype)
{
    gal_atoms atoms;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    gal_atoms_of(device_count, &atoms);
    const uint32_t count = gal_layout_convert_to(from, &atoms, to, steps);
    return gal_relayout_bytes_of(&atoms, steps, count, flow, dtype);
}
