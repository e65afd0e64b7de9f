#include "costmodel/relayout.h"

#include "runtime/program/layout.h"

typedef struct rows {
    const gal_atoms *atoms;
    gal_flow flow;
    gal_dtype dtype;
    bool any_order; /* samples may lie in any order: nothing is moved in place that need not be so in all */
} rows;

static uint64_t elements_in(const rows *r, const gal_layout *layout)
{
    return (uint64_t)(r->flow.positions / gal_group_size(r->atoms, layout->sequence_group)) *
           gal_layout_local_samples(layout) * (r->flow.features / gal_group_size(r->atoms, layout->feature_group));
}

static uint64_t bytes_in(const rows *r, const gal_layout *layout)
{
    return gal_align(elements_in(r, layout) * gal_dtype_bytes(r->dtype));
}

/* Positions that are gathered lie right. */
static bool copies(const gal_layout_step *step)
{
    return step->kind != GAL_STEP_GATHER || step->from.sequence_group == step->to.sequence_group;
}

static bool packs(const gal_layout_step *step)
{
    return step->kind == GAL_STEP_ALL_TO_ALL && step->from.sequence_group != GAL_GROUP_NONE;
}

static gal_permutation permutation_of(const rows *r, const gal_layout_step *step)
{
    gal_permutation how;
    const bool fits = gal_step_permutation(step, r->atoms, r->flow.positions, &how);
    GAL_ASSERT(fits);
    return how;
}

/* ---- works ---- */

/* Of one direction. */
typedef struct works {
    const rows *rows;
    gal_relayout_work *work;
    uint32_t count;
    bool too_large;
} works;

static void add_copy(works *w, const gal_layout_step *step, const gal_permutation *how)
{
    const rows *r = w->rows;
    gal_relayout_work *work = &w->work[w->count++];
    const uint32_t features =
        r->flow.features / gal_group_size(r->atoms, step->from.feature_group | step->to.feature_group);
    *work =
        (gal_relayout_work){.kind = step->kind, .shape = {.op = GAL_OP_PERMUTE, .dtype = r->dtype, .dims = {features}}};
    for (uint32_t i = 0; i < GAL_PERMUTE_DIMS; i++) {
        work->shape.dims[1 + i] = how->count[i];
        work->shape.dims[1 + GAL_PERMUTE_DIMS + i] = how->stride[i];
    }
}

static void add_collective(works *w, const gal_layout_step *step)
{
    const rows *r = w->rows;
    const bool gathers = step->kind == GAL_STEP_GATHER;
    const uint64_t members = gal_group_size(r->atoms, step->group);
    const uint64_t elements = elements_in(r, &step->from) / (gathers ? 1 : members);
    w->too_large = w->too_large || elements > UINT32_MAX;
    w->work[w->count++] =
        (gal_relayout_work){.kind = step->kind,
                            .shape = {.op = gathers ? GAL_OP_ALL_GATHER : GAL_OP_ALL_TO_ALL, .dtype = r->dtype},
                            .group = step->group,
                            .bytes = elements * members * gal_dtype_bytes(r->dtype)};
}

static bool is_local(const gal_layout_step *step)
{
    return step->kind != GAL_STEP_GATHER && step->kind != GAL_STEP_ALL_TO_ALL;
}

/* how: NULL: nothing is copied. */
static void add_works(works *w, const gal_layout_step *step, const gal_permutation *how)
{
    const uint32_t begin = w->count;
    const bool before = how != NULL && (is_local(step) || packs(step));
    if (before) {
        add_copy(w, step, how);
    }
    if (!is_local(step)) {
        add_collective(w, step);
    }
    if (how != NULL && !before) {
        add_copy(w, step, how);
    }
    w->work[begin].begins = true;
}

/* What a step needs beside its source and its target: rows packed for an exchange, or as a collective delivers them.
 * w: may be NULL. */
static uint64_t step_bytes(const rows *r, const gal_layout_step *step, works *w)
{
    gal_permutation how = {.identity = true};
    const bool local = step->kind == GAL_STEP_SLICE;
    if (copies(step) && !r->any_order && (!local || w != NULL)) {
        how = permutation_of(r, step);
    }
    if (w != NULL) {
        add_works(w, step, is_local(step) || !how.identity ? &how : NULL);
    }
    const bool moves = copies(step) && !local && (r->any_order || !how.identity);
    return moves ? bytes_in(r, packs(step) ? &step->from : &step->to) : 0;
}

/* forwards, backwards: their works go there, unless NULL. */
static gal_relayout_bytes bytes_of(const rows *r, const gal_layout_step *steps, uint32_t step_count, works *forwards,
                                   works *backwards)
{
    uint64_t forward = 0;
    uint64_t backward = 0;
    if (step_count == 0) {
        return (gal_relayout_bytes){0};
    }
    for (uint32_t i = 0; i < step_count; i++) {
        const gal_layout_step inverse = gal_layout_step_inverse(&steps[step_count - 1 - i]);
        const bool last = i + 1 == step_count;
        forward += step_bytes(r, &steps[i], forwards) + (last ? 0 : bytes_in(r, &steps[i].to));
        backward += step_bytes(r, &inverse, backwards) + (last ? 0 : bytes_in(r, &inverse.to));
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
    return bytes_of(&r, steps, step_count, NULL, NULL);
}

void gal_relayout_of(const gal_atoms *atoms, const gal_layout_step *steps, uint32_t step_count, gal_flow flow,
                     gal_dtype dtype, gal_relayout *out)
{
    const rows r = {atoms, flow, dtype, false};
    works forward = {.rows = &r, .work = out->forward};
    works backward = {.rows = &r, .work = out->backward};
    out->bytes = bytes_of(&r, steps, step_count, &forward, &backward);
    out->forward_count = forward.count;
    out->backward_count = backward.count;
    out->too_large = forward.too_large || backward.too_large;
}

gal_relayout_bytes gal_relayout_bytes_any_order(const gal_atoms *atoms, const gal_layout_step *steps,
                                                uint32_t step_count, gal_flow flow, gal_dtype dtype)
{
    const rows r = {atoms, flow, dtype, true};
    return bytes_of(&r, steps, step_count, NULL, NULL);
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
