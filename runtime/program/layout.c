/* Layouts and their conversion by slices, gathers and all-to-alls ("Slice-Gather", Galvatron-BMW section III-B2). */
#include "runtime/program/layout.h"
#include "runtime/program/halves.h"

#include <string.h>

enum { ELEMENTARY_MAX = 2 * GAL_DIGITS_MAX, LOCAL = GAL_DIGIT_LOCAL };

void gal_layout_whole(uint32_t sample_count, gal_layout *out)
{
    memset(out, 0, sizeof *out);
    out->sample_count = sample_count;
    out->digit_count = 1;
    out->digit[0] = (gal_digit){sample_count, 1, LOCAL};
}

uint32_t gal_layout_local_samples(const gal_layout *layout)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        count *= layout->digit[i].atom == LOCAL ? layout->digit[i].radix : 1;
    }
    return count;
}

bool gal_layout_equal(const gal_layout *a, const gal_layout *b)
{
    if (a->sample_count != b->sample_count || a->digit_count != b->digit_count ||
        a->sequence_group != b->sequence_group || a->feature_group != b->feature_group) {
        return false;
    }
    for (uint32_t i = 0; i < a->digit_count; i++) {
        if (a->digit[i].radix != b->digit[i].radix || a->digit[i].atom != b->digit[i].atom) {
            return false;
        }
    }
    return true;
}

void gal_layout_sample_map(const gal_layout *layout, const gal_atoms *atoms, uint32_t device, uint32_t *map)
{
    uint32_t count = gal_layout_local_samples(layout);
    for (uint32_t local = 0; local < count; local++) {
        uint32_t rest = local;
        uint32_t sample = 0;
        for (uint32_t i = layout->digit_count; i-- > 0;) {
            const gal_digit *digit = &layout->digit[i];
            uint32_t value = 0;
            if (gal_digit_is_fixed(digit)) {
                value = gal_digit_value(digit);
            } else if (digit->atom == LOCAL) {
                value = rest % digit->radix;
                rest /= digit->radix;
            } else {
                uint32_t atom = (uint32_t)digit->atom;
                value = device / atoms->stride[atom] % atoms->radix[atom];
            }
            sample += value * digit->stride;
        }
        map[local] = sample;
    }
}

/* Neighbouring local digits become one; a digit of radix 1 is dropped unless it is the only one. */
static void merge_local(gal_layout *layout)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        gal_digit digit = layout->digit[i];
        if (kept > 0 && digit.atom == LOCAL && layout->digit[kept - 1].atom == LOCAL) {
            layout->digit[kept - 1].radix *= digit.radix;
            layout->digit[kept - 1].stride = digit.stride;
        } else if (digit.atom != LOCAL || digit.radix > 1 || layout->digit_count == 1) {
            layout->digit[kept++] = digit;
        }
    }
    GAL_ASSERT(kept > 0);
    layout->digit_count = kept;
}

/* The first local digit whose radix is a multiple of `factor`, or -1. */
static int find_divisible(const gal_layout *layout, uint32_t factor)
{
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        if (layout->digit[i].atom == LOCAL && layout->digit[i].radix % factor == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Gives the leading part of one local digit to the atoms of the group, the highest atom most significant, so that the
 * rows skipped are linear in the group index. False if no single digit can be cut so. */
static bool own_samples(gal_layout *layout, const gal_atoms *atoms, gal_group group)
{
    uint32_t size = gal_group_size(atoms, group);
    int at = find_divisible(layout, size);
    if (at < 0) {
        return false;
    }
    gal_digit whole = layout->digit[at];
    gal_digit parts[GAL_ATOMS_MAX + 1];
    uint32_t part_count = 0;
    uint32_t radix = whole.radix;
    for (uint32_t a = atoms->count; a-- > 0;) {
        if (gal_group_has(group, a)) {
            radix /= atoms->radix[a];
            parts[part_count++] = (gal_digit){atoms->radix[a], radix * whole.stride, (int32_t)a};
        }
    }
    if (radix > 1) {
        parts[part_count++] = (gal_digit){radix, whole.stride, LOCAL};
    }
    GAL_ASSERT(layout->digit_count + part_count - 1 <= GAL_DIGITS_MAX);
    uint32_t tail = layout->digit_count - (uint32_t)at - 1;
    memmove(&layout->digit[(uint32_t)at + part_count], &layout->digit[at + 1], tail * sizeof layout->digit[0]);
    memcpy(&layout->digit[at], parts, part_count * sizeof parts[0]);
    layout->digit_count += part_count - 1;
    layout->sample_group |= group;
    return true;
}

void gal_layout_split(uint32_t sample_count, const gal_atoms *atoms, gal_group sample_group, gal_group sequence_group,
                      gal_layout *out)
{
    gal_layout_whole(sample_count, out);
    const bool cut = sample_group == 0 || own_samples(out, atoms, sample_group);
    GAL_ASSERT(cut); /* one digit: atom after atom leaves the same as all at once */
    out->sequence_group = sequence_group;
}

/* The atom of `to` that has as many before it there as this one has in `from`. */
static int32_t counterpart(gal_group from, gal_group to, uint32_t atom)
{
    uint32_t rank = 0, a = 0;
    for (uint32_t i = 0; i < atom; i++) {
        rank += gal_group_has(from, i);
    }
    while (!gal_group_has(to, a) || rank-- > 0) {
        a++;
    }
    return (int32_t)a;
}

void gal_layout_turn(const gal_layout *layout, const gal_atoms *atoms, gal_group samples, gal_group features,
                     gal_layout *out)
{
    GAL_ASSERT((layout->sample_group & samples) == samples && layout->feature_group == features &&
               gal_group_size(atoms, samples) == gal_group_size(atoms, features));
    *out = *layout;
    for (uint32_t i = 0; i < out->digit_count; i++) {
        gal_digit *digit = &out->digit[i];
        if (digit->atom != LOCAL && gal_group_has(samples, (uint32_t)digit->atom)) {
            digit->atom = counterpart(samples, features, (uint32_t)digit->atom);
        }
    }
    out->sample_group = (layout->sample_group & ~samples) | features;
    out->feature_group = samples;
}

static void release_samples(gal_layout *layout, gal_group group)
{
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        int32_t atom = layout->digit[i].atom;
        if (atom != LOCAL && gal_group_has(group, (uint32_t)atom)) {
            layout->digit[i].atom = LOCAL;
        }
    }
    layout->sample_group &= ~group;
    merge_local(layout);
}

/* Digits of both sides of a step cut at each other's borders. */
typedef struct elementary {
    uint32_t radix;
    int32_t from_atom, to_atom;
    uint32_t from_local; /* stride among the local samples of `from`, where local */
} elementary;

static const gal_digit *digit_at(const gal_layout *layout, uint32_t stride)
{
    const gal_digit *found = &layout->digit[layout->digit_count - 1];
    for (uint32_t i = layout->digit_count; i-- > 0;) {
        if (layout->digit[i].stride <= stride) {
            found = &layout->digit[i];
        }
    }
    return found;
}

static uint32_t cut_digits(const gal_layout *from, const gal_layout *to, elementary *out)
{
    uint32_t count = 0;
    uint32_t above = from->sample_count;
    uint32_t i = 0;
    uint32_t j = 0;
    while (i < from->digit_count || j < to->digit_count) {
        uint32_t next_from = i < from->digit_count ? from->digit[i].stride : 0;
        uint32_t next_to = j < to->digit_count ? to->digit[j].stride : 0;
        uint32_t stride = next_from > next_to ? next_from : next_to;
        i += next_from == stride;
        j += next_to == stride;
        GAL_ASSERT(stride > 0 && above % stride == 0 && count < ELEMENTARY_MAX);
        const gal_digit *from_digit = digit_at(from, stride);
        const gal_digit *to_digit = digit_at(to, stride);
        if (above > stride) {
            out[count++] = (elementary){above / stride, from_digit->atom, to_digit->atom, 0};
        }
        above = stride;
    }
    uint32_t local = 1;
    for (uint32_t e = count; e-- > 0;) {
        if (out[e].from_atom == LOCAL) {
            out[e].from_local = local;
            local *= out[e].radix;
        }
    }
    return count;
}

typedef struct dim_list {
    uint32_t count, size[ELEMENTARY_MAX + 2], stride[ELEMENTARY_MAX + 2];
} dim_list;

static void add_dim(dim_list *dims, uint32_t size, uint32_t stride)
{
    if (size == 1) {
        return;
    }
    if (dims->count > 0 && dims->stride[dims->count - 1] == size * stride) {
        dims->size[dims->count - 1] *= size;
        dims->stride[dims->count - 1] = stride;
        return;
    }
    dims->size[dims->count] = size;
    dims->stride[dims->count] = stride;
    dims->count++;
}

static uint32_t atom_stride_in_group(const gal_atoms *atoms, gal_group group, int32_t atom)
{
    return gal_group_size(atoms, group & ((UINT32_C(1) << atom) - 1u));
}

static bool fill_permutation(const dim_list *dims, uint32_t view_stride, gal_permutation *out)
{
    if (dims->count > GAL_PERMUTE_DIMS) {
        return false;
    }
    memset(out, 0, sizeof *out);
    uint32_t lead = GAL_PERMUTE_DIMS - dims->count;
    for (uint32_t i = 0; i < GAL_PERMUTE_DIMS; i++) {
        out->count[i] = i < lead ? 1 : dims->size[i - lead];
        out->stride[i] = i < lead ? 0 : dims->stride[i - lead];
    }
    out->view_stride = view_stride;
    out->identity = view_stride == 0 && (dims->count == 0 || (dims->count == 1 && dims->stride[0] == 1));
    return true;
}

/* Rows skipped per group index. False if the skipped rows are not linear in the index: the digits that the group is to
 * own are not neighbours in its own order. */
static bool slice_view(const elementary *digit, uint32_t digit_count, const gal_atoms *atoms, gal_group group,
                       uint32_t *view_stride)
{
    *view_stride = 0;
    for (uint32_t e = digit_count; e-- > 0;) {
        if (digit[e].to_atom != LOCAL && digit[e].from_atom == LOCAL) {
            uint32_t in_group = atom_stride_in_group(atoms, group, digit[e].to_atom);
            *view_stride = *view_stride == 0 ? digit[e].from_local : *view_stride;
            if (digit[e].from_local != *view_stride * in_group) {
                return false;
            }
        }
    }
    return true;
}

/* Parts of rows: a gather delivers [member][row], a slice takes one part of every row. */
static bool feature_permutation(const gal_layout_step *step, const gal_atoms *atoms, uint32_t row_count,
                                gal_permutation *out)
{
    const uint32_t parts = gal_group_size(atoms, step->group);
    dim_list dims = {0};
    if (step->kind == GAL_STEP_SLICE) {
        dims = (dim_list){1, {row_count}, {parts}};
        return fill_permutation(&dims, 1, out);
    }
    dims = (dim_list){2, {row_count, parts}, {1, row_count}};
    return fill_permutation(&dims, 0, out);
}

bool gal_step_permutation(const gal_layout_step *step, const gal_atoms *atoms, uint32_t sequence, gal_permutation *out)
{
    if (step->kind == GAL_STEP_HALVE || step->kind == GAL_STEP_JOIN) {
        gal_halves_permutation(step, sequence / gal_group_size(atoms, step->from.sequence_group), out);
        return true;
    }
    elementary digit[ELEMENTARY_MAX];
    uint32_t digit_count = cut_digits(&step->from, &step->to, digit);
    uint32_t from_samples = gal_layout_local_samples(&step->from);
    uint32_t from_positions = sequence / gal_group_size(atoms, step->from.sequence_group);
    uint32_t to_positions = sequence / gal_group_size(atoms, step->to.sequence_group);
    dim_list dims = {0};
    uint32_t view_stride = 0;
    if (step->from.feature_group != step->to.feature_group) {
        return feature_permutation(step, atoms, from_positions * from_samples, out);
    }
    bool to_samples = step->kind == GAL_STEP_ALL_TO_ALL && step->from.sequence_group != 0;
    if (step->kind == GAL_STEP_SLICE && step->from.sequence_group != step->to.sequence_group) {
        add_dim(&dims, to_positions * from_samples, 1);
        return fill_permutation(&dims, to_positions * from_samples, out);
    }
    for (uint32_t a = atoms->count; to_samples && a-- > 0;) { /* target [member][position][sample]: by member first */
        for (uint32_t e = 0; e < digit_count; e++) {
            if (digit[e].to_atom == (int32_t)a && digit[e].from_atom == LOCAL) {
                add_dim(&dims, digit[e].radix, digit[e].from_local);
            }
        }
    }
    uint32_t positions = to_samples ? from_positions : to_positions;
    add_dim(&dims, positions, from_samples);
    for (uint32_t e = 0; e < digit_count; e++) {
        if (digit[e].to_atom == LOCAL && digit[e].from_atom == LOCAL) {
            add_dim(&dims, digit[e].radix, digit[e].from_local);
        } else if (digit[e].to_atom == LOCAL) {
            add_dim(&dims, digit[e].radix,
                    atom_stride_in_group(atoms, step->group, digit[e].from_atom) * positions * from_samples);
        }
    }
    if (step->kind == GAL_STEP_SLICE && !slice_view(digit, digit_count, atoms, step->group, &view_stride)) {
        return false;
    }
    return fill_permutation(&dims, view_stride, out);
}

gal_layout_step gal_layout_step_inverse(const gal_layout_step *step)
{
    static const gal_step_kind inverse[] = {[GAL_STEP_SLICE] = GAL_STEP_GATHER,
                                            [GAL_STEP_GATHER] = GAL_STEP_SLICE,
                                            [GAL_STEP_ALL_TO_ALL] = GAL_STEP_ALL_TO_ALL,
                                            [GAL_STEP_HALVE] = GAL_STEP_JOIN,
                                            [GAL_STEP_JOIN] = GAL_STEP_HALVE};
    return (gal_layout_step){inverse[step->kind], step->group, step->to, step->from};
}

typedef struct conversion {
    const gal_atoms *atoms;
    gal_layout now;
    gal_layout_step *steps;
    uint32_t count;
} conversion;

static void push(conversion *c, gal_step_kind kind, gal_group group, const gal_layout *to)
{
    GAL_ASSERT(c->count < GAL_LAYOUT_STEPS_MAX);
    c->steps[c->count++] = (gal_layout_step){kind, group, c->now, *to};
    c->now = *to;
}

static bool step_fits(const conversion *c, gal_step_kind kind, gal_group group, const gal_layout *to)
{
    gal_layout_step step = {kind, group, c->now, *to};
    gal_layout_step inverse = gal_layout_step_inverse(&step);
    gal_permutation permutation;
    uint32_t sequence = UINT32_C(1) << 20;
    return gal_step_permutation(&step, c->atoms, sequence, &permutation) &&
           gal_step_permutation(&inverse, c->atoms, sequence, &permutation);
}

static void slice_samples(conversion *c, gal_group group)
{
    gal_layout to = c->now;
    if (group == 0) {
        return;
    }
    if (own_samples(&to, c->atoms, group) && step_fits(c, GAL_STEP_SLICE, group, &to)) {
        push(c, GAL_STEP_SLICE, group, &to);
        return;
    }
    for (uint32_t a = c->atoms->count; a-- > 0;) {
        gal_group atom = group & UINT32_C(1) << a;
        if (atom != 0) {
            to = c->now;
            bool cut = own_samples(&to, c->atoms, atom);
            GAL_ASSERT(cut); /* a prime that divides the local samples divides one of their digits */
            push(c, GAL_STEP_SLICE, atom, &to);
        }
    }
}

static void gather_samples(conversion *c, gal_group group)
{
    gal_layout to = c->now;
    if (group == 0) {
        return;
    }
    release_samples(&to, group);
    if (step_fits(c, GAL_STEP_GATHER, group, &to)) {
        push(c, GAL_STEP_GATHER, group, &to);
        return;
    }
    for (uint32_t a = c->atoms->count; a-- > 0;) {
        gal_group atom = group & UINT32_C(1) << a;
        if (atom != 0) {
            to = c->now;
            release_samples(&to, atom);
            push(c, GAL_STEP_GATHER, atom, &to);
        }
    }
}

/* Positions split over a group that is to own samples, or the reverse: one all-to-all instead of gather and slice. */
static void exchange(conversion *c, gal_group sample_group, gal_group sequence_group)
{
    gal_layout to = c->now;
    gal_group now_sequence = c->now.sequence_group;
    if (now_sequence != 0 && sequence_group == 0 && (now_sequence & ~sample_group) == 0) {
        to.sequence_group = 0;
        if (own_samples(&to, c->atoms, now_sequence) && step_fits(c, GAL_STEP_ALL_TO_ALL, now_sequence, &to)) {
            push(c, GAL_STEP_ALL_TO_ALL, now_sequence, &to);
        }
    } else if (now_sequence == 0 && sequence_group != 0 && (sequence_group & ~c->now.sample_group) == 0) {
        to.sequence_group = sequence_group;
        release_samples(&to, sequence_group);
        if (step_fits(c, GAL_STEP_ALL_TO_ALL, sequence_group, &to)) {
            push(c, GAL_STEP_ALL_TO_ALL, sequence_group, &to);
        }
    }
}

uint32_t gal_layout_convert(const gal_layout *from, const gal_atoms *atoms, gal_group sample_group,
                            gal_group sequence_group, gal_layout_step *steps, gal_layout *to)
{
    conversion c = {atoms, *from, steps, 0};
    if (from->sample_group == sample_group && from->sequence_group == sequence_group) {
        *to = *from;
        return 0;
    }
    if (c.now.sequence_group != sequence_group) {
        exchange(&c, sample_group, sequence_group);
    }
    if (c.now.sequence_group != sequence_group && c.now.sequence_group != 0) {
        gal_layout whole = c.now;
        whole.sequence_group = 0;
        push(&c, GAL_STEP_GATHER, c.now.sequence_group, &whole);
    }
    /* Slicing first makes the gather smaller; it is possible unless the samples left are too few. */
    gal_group wanted = sample_group & ~c.now.sample_group;
    gal_group unwanted = c.now.sample_group & ~sample_group;
    if (gal_layout_local_samples(&c.now) % gal_group_size(atoms, wanted) == 0) {
        slice_samples(&c, wanted);
        gather_samples(&c, unwanted);
    } else {
        gather_samples(&c, unwanted);
        slice_samples(&c, wanted);
    }
    if (c.now.sequence_group != sequence_group) {
        gal_layout split = c.now;
        split.sequence_group = sequence_group;
        push(&c, GAL_STEP_SLICE, sequence_group, &split);
    }
    *to = c.now;
    return c.count;
}

void gal_layout_of_strategy(uint32_t sample_count, const gal_atoms *atoms, const gal_strategy *strategy,
                            gal_layout *out)
{
    const gal_mesh mesh = gal_mesh_of(atoms, strategy);
    gal_layout_split(sample_count, atoms, gal_mesh_samples(&mesh), gal_mesh_positions(&mesh, strategy), out);
    out->feature_group = gal_mesh_features(&mesh);
}

/* Features that are split over other devices than the block wants are whole while samples and positions move. */
uint32_t gal_layout_enter(const gal_layout *from, const gal_atoms *atoms, const gal_strategy *strategy,
                          gal_layout_step *steps, gal_layout *to)
{
    const gal_mesh mesh = gal_mesh_of(atoms, strategy);
    const gal_group features = gal_mesh_features(&mesh);
    const bool moves = from->feature_group != features;
    conversion c = {atoms, *from, steps, 0};
    if (moves && from->feature_group != GAL_GROUP_NONE) {
        gal_layout whole = c.now;
        whole.feature_group = GAL_GROUP_NONE;
        push(&c, GAL_STEP_GATHER, from->feature_group, &whole);
    }
    c.count += gal_layout_convert(&c.now, atoms, gal_mesh_samples(&mesh), gal_mesh_positions(&mesh, strategy),
                                  steps + c.count, to);
    if (moves && features != GAL_GROUP_NONE) {
        c.now = *to;
        to->feature_group = features;
        push(&c, GAL_STEP_SLICE, features, to);
    }
    return c.count;
}

/* The layout's digit that an atom owns, or NULL. */
static const gal_digit *owned_digit(const gal_layout *layout, uint32_t atom)
{
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        if (layout->digit[i].atom == (int32_t)atom) {
            return &layout->digit[i];
        }
    }
    return NULL;
}

/* Gives the atom just this digit, which lies in one local digit. */
static void own_digit(gal_layout *layout, uint32_t atom, const gal_digit *wanted)
{
    gal_digit digit[GAL_DIGITS_MAX + 2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        const gal_digit whole = layout->digit[i];
        const uint32_t end = whole.stride * whole.radix, wanted_end = wanted->stride * wanted->radix;
        GAL_ASSERT(count + 3 <= sizeof digit / sizeof digit[0]);
        if (whole.atom != LOCAL || wanted->stride < whole.stride || wanted_end > end) {
            digit[count++] = whole;
            continue;
        }
        digit[count++] = (gal_digit){end / wanted_end, wanted_end, LOCAL};
        digit[count++] = (gal_digit){wanted->radix, wanted->stride, (int32_t)atom};
        digit[count++] = (gal_digit){wanted->stride / whole.stride, whole.stride, LOCAL};
    }
    GAL_ASSERT(count <= GAL_DIGITS_MAX);
    memcpy(layout->digit, digit, count * sizeof digit[0]);
    layout->digit_count = count;
    layout->sample_group |= UINT32_C(1) << atom;
    merge_local(layout);
}

/* The steps between rows of equal features, which reach just this layout. */
static uint32_t convert_rows_to(const gal_layout *from, const gal_atoms *atoms, const gal_layout *to,
                                gal_layout_step *steps)
{
    gal_layout reached;
    const uint32_t count = gal_layout_convert(from, atoms, to->sample_group, to->sequence_group, steps, &reached);
    if (gal_layout_equal(&reached, to)) {
        return count;
    }
    conversion c = {atoms, *from, steps, 0};
    if (c.now.sequence_group != 0) {
        gal_layout whole = c.now;
        whole.sequence_group = 0;
        push(&c, GAL_STEP_GATHER, c.now.sequence_group, &whole);
    }
    for (uint32_t a = atoms->count; a-- > 0;) { /* what is elsewhere */
        const gal_digit *now = owned_digit(&c.now, a), *wanted = owned_digit(to, a);
        if (now != NULL && (wanted == NULL || wanted->stride != now->stride)) {
            gal_layout next = c.now;
            release_samples(&next, UINT32_C(1) << a);
            push(&c, GAL_STEP_GATHER, UINT32_C(1) << a, &next);
        }
    }
    for (uint32_t a = atoms->count; a-- > 0;) {
        const gal_digit *wanted = owned_digit(to, a);
        if (wanted != NULL && owned_digit(&c.now, a) == NULL) {
            gal_layout next = c.now;
            own_digit(&next, a, wanted);
            push(&c, GAL_STEP_SLICE, UINT32_C(1) << a, &next);
        }
    }
    if (to->sequence_group != 0) {
        gal_layout split = c.now;
        split.sequence_group = to->sequence_group;
        push(&c, GAL_STEP_SLICE, to->sequence_group, &split);
    }
    GAL_ASSERT(gal_layout_equal(&c.now, to));
    return c.count;
}

uint32_t gal_layout_convert_to(const gal_layout *from, const gal_atoms *atoms, const gal_layout *to,
                               gal_layout_step *steps)
{
    const bool moves = from->feature_group != to->feature_group;
    conversion c = {atoms, *from, steps, 0};
    gal_layout rows = *to;
    if (moves && from->feature_group != GAL_GROUP_NONE) {
        gal_layout whole = c.now;
        whole.feature_group = GAL_GROUP_NONE;
        push(&c, GAL_STEP_GATHER, from->feature_group, &whole);
    }
    rows.feature_group = c.now.feature_group;
    c.count += convert_rows_to(&c.now, atoms, &rows, steps + c.count);
    c.now = rows;
    if (moves && to->feature_group != GAL_GROUP_NONE) {
        push(&c, GAL_STEP_SLICE, to->feature_group, to);
    }
    return c.count;
}
