/* What the files of ZeRO share: zero.c (weights where they are used, gradients where they are made), zero_units.c (what
 * there is), zero_update.c (the update). For them alone. */
#ifndef GAL_RUNTIME_PROGRAM_LOWER_ZERO_H
#define GAL_RUNTIME_PROGRAM_LOWER_ZERO_H

#include "runtime/program/lower/emit.h"

/* Bytes of an element of gradients, moments and masters. */
static inline uint64_t gal_zero_wide_bytes(const gal_builder *b)
{
    return gal_dtype_bytes(gal_dtype_wide(b->program->dtype));
}

/* This device's range of a whole buffer, or all of a shard buffer, of item bytes per element. */
gal_operand gal_zero_own_range(const gal_unit *u, uint32_t buffer, bool whole, uint64_t item, gal_access access);
/* The range of the gradient that this device has when it is synchronised. */
gal_operand gal_zero_own_gradient(const gal_builder *b, const gal_unit *u, gal_access access);

#endif
