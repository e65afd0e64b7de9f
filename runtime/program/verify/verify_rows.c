/* Row algebra of verify_types.c. Proves that a chain of gathers, scatters, exchanges and strided copies leaves the rows
 * in the order in which the next kernel reads them. */
#include "runtime/program/verify/verify_rows.h"

#include <string.h>

bool gal_rows_equal(const gal_rows *a, const gal_rows *b)
{
    if (a->digit_count != b->digit_count || a->owners != b->owners || a->base != b->base ||
        memcmp(a->digit, b->digit, a->digit_count * sizeof a->digit[0]) != 0) {
        return false;
    }
    for (uint32_t atom = 0; atom < GAL_ATOMS_MAX; atom++) {
        if (gal_group_has(a->owners, atom) && a->owner_stride[atom] != b->owner_stride[atom]) {
            return false;
        }
    }
    return true;
}

/* Appends a digit behind the last; false if there are too many. */
static bool append(gal_rows *rows, uint64_t radix, uint64_t stride)
{
    if (radix == 1) {
        return true;
    }
    rows->local_count *= radix;
    gal_row_digit *last = rows->digit_count > 0 ? &rows->digit[rows->digit_count - 1] : NULL;
    if (last != NULL && last->stride == radix * stride) {
        *last = (gal_row_digit){last->radix * radix, stride};
        return true;
    }
    if (rows->digit_count == GAL_ROW_DIGITS_MAX) {
        return false;
    }
    rows->digit[rows->digit_count++] = (gal_row_digit){radix, stride};
    return true;
}

static void start(gal_rows *rows, const gal_rows *owners_of)
{
    rows->digit_count = 0;
    rows->local_count = 1;
    rows->owners = GAL_GROUP_NONE;
    rows->base = owners_of != NULL ? owners_of->base : 0;
    if (owners_of != NULL) {
        rows->owners = owners_of->owners;
        memcpy(rows->owner_stride, owners_of->owner_stride, sizeof rows->owner_stride);
    }
}

bool gal_rows_of_layout(const gal_layout *layout, const gal_atoms *atoms, uint64_t local_positions, gal_rows *out)
{
    start(out, NULL);
    uint64_t chunk = local_positions * layout->sample_count;
    for (uint32_t a = 0; a < atoms->count; a++) {
        if (gal_group_has(layout->sequence_group, a)) {
            out->owners |= UINT32_C(1) << a;
            out->owner_stride[a] = chunk;
            chunk *= atoms->radix[a];
        }
    }
    bool fits = append(out, local_positions, layout->sample_count);
    for (uint32_t i = 0; fits && i < layout->digit_count; i++) {
        const gal_digit *digit = &layout->digit[i];
        if (gal_digit_is_fixed(digit)) {
            out->base += (uint64_t)gal_digit_value(digit) * digit->stride;
            continue;
        }
        if (digit->atom < 0) {
            fits = append(out, digit->radix, digit->stride);
            continue;
        }
        uint32_t atom = (uint32_t)digit->atom;
        if (atom >= atoms->count || digit->radix != atoms->radix[atom] || gal_group_has(out->owners, atom)) {
            return false;
        }
        out->owners |= UINT32_C(1) << atom;
        out->owner_stride[atom] = digit->stride;
    }
    return fits;
}

static const char *gather_into(const gal_rows *from, const gal_atoms *atoms, gal_group group,
                               const uint64_t *owner_stride, gal_rows *to)
{
    bool fits = true;
    for (uint32_t a = atoms->count; a-- > 0;) { /* the member's number: the outermost atom is the most significant */
        if (gal_group_has(group, a)) {
            fits = fits && append(to, atoms->radix[a], owner_stride[a]);
        }
    }
    for (uint32_t i = 0; i < from->digit_count; i++) {
        fits = fits && append(to, from->digit[i].radix, from->digit[i].stride);
    }
    return fits ? NULL : "rows in too many pieces";
}

const char *gal_rows_gather(const gal_rows *from, const gal_atoms *atoms, gal_group group, gal_rows *to)
{
    if ((group & ~from->owners) != 0) {
        return "gathers over devices that hold the same rows";
    }
    start(to, from);
    to->owners &= ~group;
    return gather_into(from, atoms, group, from->owner_stride, to);
}

/* Takes the chunks of the members off the most significant digits of *rest. */
static const char *take_chunks(gal_rows *rest, const gal_atoms *atoms, gal_group group, uint64_t *owner_stride)
{
    uint32_t first = 0;
    for (uint32_t a = atoms->count; a-- > 0;) {
        if (!gal_group_has(group, a)) {
            continue;
        }
        if (first == rest->digit_count || rest->digit[first].radix % atoms->radix[a] != 0) {
            return "the rows do not divide by the group";
        }
        rest->digit[first].radix /= atoms->radix[a];
        rest->local_count /= atoms->radix[a];
        owner_stride[a] = rest->digit[first].stride * rest->digit[first].radix;
        first += rest->digit[first].radix == 1;
    }
    memmove(rest->digit, rest->digit + first, (rest->digit_count - first) * sizeof rest->digit[0]);
    rest->digit_count -= first;
    return NULL;
}

const char *gal_rows_scatter(const gal_rows *from, const gal_atoms *atoms, gal_group group, gal_rows *to)
{
    if ((group & from->owners) != 0) {
        return "scatters over devices that hold different rows";
    }
    *to = *from;
    to->owners |= group;
    return take_chunks(to, atoms, group, to->owner_stride);
}

const char *gal_rows_exchange(const gal_rows *from, const gal_atoms *atoms, gal_group group, gal_rows *to)
{
    if ((group & ~from->owners) != 0) {
        return "exchanges among devices that hold the same rows";
    }
    gal_rows rest = *from;
    const char *rule = take_chunks(&rest, atoms, group, rest.owner_stride);
    if (rule != NULL) {
        return rule;
    }
    start(to, &rest);
    return gather_into(&rest, atoms, group, from->owner_stride, to);
}

/* The pieces of the source's digits between place and place * radix, most significant first, appended to found. */
static uint32_t cut_digits(const gal_rows *from, uint64_t place, uint64_t radix, gal_row_digit *found)
{
    gal_row_digit piece[GAL_ROW_DIGITS_MAX];
    uint32_t count = 0;
    uint64_t here = 1; /* place of the digit in the local row number */
    for (uint32_t i = from->digit_count; i-- > 0 && radix > 1;) {
        uint64_t above = here * from->digit[i].radix;
        if (place < above) {
            if (place % here != 0 || above % place != 0) {
                return 0;
            }
            uint64_t room = above / place;
            uint64_t part = radix < room ? radix : room;
            if (room % part != 0 || radix % part != 0) {
                return 0;
            }
            piece[count++] = (gal_row_digit){part, from->digit[i].stride * (place / here)};
            radix /= part;
            place *= part;
        }
        here = above;
    }
    for (uint32_t i = 0; i < count; i++) {
        found[i] = piece[count - 1 - i];
    }
    return radix == 1 ? count : 0;
}

/* Places and radices must tile the local row number: each source row (of the view) exactly once. */
static bool tile(gal_row_digit *part, uint32_t count, uint64_t total)
{
    uint64_t place = 1;
    for (uint32_t done = 0; done < count; done++) {
        uint32_t i = 0;
        while (i < count && (part[i].radix == 0 || part[i].stride != place)) {
            i++;
        }
        if (i == count) {
            return false;
        }
        place *= part[i].radix;
        part[i].radix = 0; /* used */
    }
    return place == total;
}

const char *gal_rows_permute(const gal_rows *from, const gal_atoms *atoms, const uint32_t *dims, gal_group view,
                             uint64_t view_stride, gal_rows *to)
{
    static const char broken[] = "the strides do not take every row once";
    enum { COUNTS = 5 };
    gal_row_digit part[COUNTS + GAL_ATOMS_MAX];
    uint32_t parts = 0;
    start(to, from);
    if ((view & from->owners) != 0) {
        return "slices over devices that hold different rows";
    }
    for (uint32_t a = 0; a < atoms->count; a++) {
        gal_row_digit found[GAL_ROW_DIGITS_MAX];
        if (!gal_group_has(view, a)) {
            continue;
        }
        if (cut_digits(from, view_stride, atoms->radix[a], found) != 1) {
            return broken;
        }
        to->owners |= UINT32_C(1) << a;
        to->owner_stride[a] = found[0].stride;
        part[parts++] = (gal_row_digit){atoms->radix[a], view_stride};
        view_stride *= atoms->radix[a];
    }
    for (uint32_t i = 0; i < COUNTS; i++) {
        uint64_t count = dims[1 + i];
        uint64_t stride = dims[1 + COUNTS + i];
        gal_row_digit found[GAL_ROW_DIGITS_MAX];
        if (count == 1) {
            continue;
        }
        uint32_t pieces = count == 0 || stride == 0 ? 0 : cut_digits(from, stride, count, found);
        if (pieces == 0) {
            return broken;
        }
        for (uint32_t k = 0; k < pieces; k++) {
            if (!append(to, found[k].radix, found[k].stride)) {
                return "rows in too many pieces";
            }
        }
        part[parts++] = (gal_row_digit){count, stride};
    }
    return tile(part, parts, from->local_count) ? NULL : broken;
}

const char *gal_rows_cut(const gal_rows *from, uint64_t first, uint64_t count, gal_rows *to)
{
    static const char broken[] = "reads what no instruction wrote as a whole";
    if (count == 0 || from->digit_count == 0 || from->local_count % count != 0 || first % count != 0) {
        return broken;
    }
    const gal_row_digit *lead = &from->digit[0];
    const uint64_t below = from->local_count / lead->radix; /* rows of each of its values */
    if (count % below != 0) {
        return broken;
    }
    start(to, from);
    to->base += first / below * lead->stride;
    bool fits = append(to, count / below, lead->stride);
    for (uint32_t i = 1; i < from->digit_count; i++) {
        fits = fits && append(to, from->digit[i].radix, from->digit[i].stride);
    }
    return fits ? NULL : "rows in too many pieces";
}

bool gal_rows_join(const gal_rows *first, const gal_rows *second, gal_rows *to)
{
    gal_rows moved = *second;
    moved.base = first->base;
    if (second->base <= first->base || !gal_rows_equal(first, &moved)) {
        return false;
    }
    start(to, first);
    bool fits = append(to, 2, second->base - first->base);
    for (uint32_t i = 0; i < first->digit_count; i++) {
        fits = fits && append(to, first->digit[i].radix, first->digit[i].stride);
    }
    return fits;
}
