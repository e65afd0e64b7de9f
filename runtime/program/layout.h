/* The copies that a step of a layout conversion needs, as a strided permutation of rows. */
#ifndef GAL_RUNTIME_PROGRAM_LAYOUT_H
#define GAL_RUNTIME_PROGRAM_LAYOUT_H

#include "runtime/program/atoms.h"

enum { GAL_PERMUTE_DIMS = 5 };

/* target[c0]..[c4] = source row (sum c_i stride_i), target rows in order. identity: the copy can be left out. */
typedef struct gal_permutation {
    uint32_t count[GAL_PERMUTE_DIMS];
    uint32_t stride[GAL_PERMUTE_DIMS];
    uint32_t view_stride; /* source rows skipped per group index of this device (slices); 0 otherwise */
    bool identity;
} gal_permutation;

/* What takes the rows back: the step of the backward pass. */
gal_layout_step gal_layout_step_inverse(const gal_layout_step *step);

/* The permutation of a step for a sequence of `sequence` positions. For gathers of samples and all-to-alls towards
 * positions the source is what the collective delivers, [member][position][sample]; for all-to-alls towards samples
 * the target is what it takes, [member][position][sample]; a slice reads its own rows.
 * False if the step needs more dimensions than a permute has, or skips rows not linearly. */
bool gal_step_permutation(const gal_layout_step *step, const gal_atoms *atoms, uint32_t sequence, gal_permutation *out);

#endif
