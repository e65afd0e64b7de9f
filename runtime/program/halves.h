/* The rows of a block that works on two sub-batches: its two halves one behind the other, each as rows of a layout are,
 * [sub-batch][position][sample]. A half has every other part of the samples, those of its most significant local digit
 * that is even. For runtime/program, and for who counts the bytes of conversions. */
#ifndef GAL_RUNTIME_PROGRAM_HALVES_H
#define GAL_RUNTIME_PROGRAM_HALVES_H

#include "runtime/program/layout.h"

/* The rows of sub-batch `half`, 0 or 1. Asserts that the local samples are even in number (checked plans). */
void gal_layout_half(const gal_layout *layout, uint32_t half, gal_layout *out);

/* Adds to the steps of a conversion from one layout to another that sub-batches are joined before rows go elsewhere,
 * and cut behind that. Returns their count, 0 between two halved blocks without a conversion; steps has room for two
 * more. */
uint32_t gal_halves_add_steps(bool from_halved, bool to_halved, const gal_layout *from, const gal_layout *to,
                              gal_layout_step *steps, uint32_t count);

/* The copy of a step of kind halve or join. local_positions on the device. */
void gal_halves_permutation(const gal_layout_step *step, uint32_t local_positions, gal_permutation *out);

#endif
