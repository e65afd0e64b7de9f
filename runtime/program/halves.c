/* Rows of two sub-batches: which ones, and how they come to lie one behind the other. */
#include "runtime/program/halves.h"

#include <string.h>

/* The digit that is cut in two. */
static uint32_t even_digit(const gal_layout *layout)
{
    uint32_t at = 0;
    while (at < layout->digit_count &&
           (layout->digit[at].atom != GAL_DIGIT_LOCAL || layout->digit[at].radix % 2 != 0)) {
        at++;
    }
    GAL_ASSERT(at < layout->digit_count);
    return at;
}

void gal_layout_half(const gal_layout *layout, uint32_t half, gal_layout *out)
{
    const uint32_t at = even_digit(layout);
    gal_digit *digit = &out->digit[at];
    *out = *layout;
    GAL_ASSERT(half < 2 && layout->digit_count < GAL_DIGITS_MAX);
    memmove(digit + 1, digit, (layout->digit_count - at) * sizeof *digit);
    out->digit_count++;
    digit[1].radix /= 2;
    digit[0] = (gal_digit){2, digit[1].radix * digit[1].stride, gal_digit_fixed(half)};
    if (digit[1].radix == 1) {
        out->digit_count--;
        memmove(digit + 1, digit + 2, (out->digit_count - at - 1) * sizeof *digit);
    }
}

uint32_t gal_halves_add_steps(bool from_halved, bool to_halved, const gal_layout *from, const gal_layout *to,
                              gal_layout_step *steps, uint32_t count)
{
    if (from_halved && to_halved && count == 0) {
        return 0;
    }
    if (from_halved) {
        memmove(steps + 1, steps, count++ * sizeof *steps);
        steps[0] = (gal_layout_step){GAL_STEP_JOIN, GAL_GROUP_NONE, *from, *from};
    }
    if (to_halved) {
        steps[count++] = (gal_layout_step){GAL_STEP_HALVE, GAL_GROUP_NONE, *to, *to};
    }
    return count;
}

/* Neighbouring dimensions that are one become one. */
static void add_dim(gal_permutation *p, uint32_t *count, uint32_t size, uint32_t stride)
{
    if (size == 1) {
        return;
    }
    if (*count > 0 && p->stride[*count - 1] == size * stride) {
        p->count[*count - 1] *= size;
        p->stride[*count - 1] = stride;
        return;
    }
    p->count[*count] = size;
    p->stride[(*count)++] = stride;
}

/* Dimensions at the end, ones in front of them. */
static void align_right(gal_permutation *p, uint32_t count)
{
    const uint32_t lead = GAL_PERMUTE_DIMS - count;
    memmove(p->count + lead, p->count, count * sizeof p->count[0]);
    memmove(p->stride + lead, p->stride, count * sizeof p->stride[0]);
    for (uint32_t i = 0; i < lead; i++) {
        p->count[i] = 1;
        p->stride[i] = 0;
    }
}

void gal_halves_permutation(const gal_layout_step *step, uint32_t local_positions, gal_permutation *out)
{
    const uint32_t samples = gal_layout_local_samples(&step->from), at = even_digit(&step->from);
    uint32_t inner = step->from.digit[at].radix / 2; /* samples of a half that lie together */
    uint32_t count = 0;
    for (uint32_t i = at + 1; i < step->from.digit_count; i++) {
        inner *= step->from.digit[i].atom == GAL_DIGIT_LOCAL ? step->from.digit[i].radix : 1;
    }
    const uint32_t outer = samples / 2 / inner;
    memset(out, 0, sizeof *out);
    if (step->kind == GAL_STEP_HALVE) {
        add_dim(out, &count, 2, inner);
        add_dim(out, &count, local_positions, samples);
        add_dim(out, &count, outer, 2 * inner);
    } else {
        add_dim(out, &count, local_positions, samples / 2);
        add_dim(out, &count, outer, inner);
        add_dim(out, &count, 2, local_positions * (samples / 2));
    }
    add_dim(out, &count, inner, 1);
    align_right(out, count);
    out->identity = count == 0 || (count == 1 && out->stride[GAL_PERMUTE_DIMS - 1] == 1);
}
