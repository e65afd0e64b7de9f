/* The work of a kernel, from its shape: floating-point operations and the bytes it must move through memory.
 *
 * One row per operator. A multiply-add counts two operations; an exponential or a division counts one. Bytes are the
 * operands read and written once (what a cache of any size cannot save), accumulated outputs read and written.
 * Estimates: they carry analytic durations and fits over shapes, never sizes of buffers. Collectives have no flops;
 * their bytes are gal_instruction.bytes and do not follow from the shape alone (0 here). */
#ifndef GAL_COSTMODEL_WORK_H
#define GAL_COSTMODEL_WORK_H

#include <stdbool.h>

#include "schemas/operator.h"

double gal_shape_flops(const gal_shape *shape);
double gal_shape_bytes(const gal_shape *shape);
/* Of an attention or its backward: how many (query, key) pairs it looks at. */
double gal_attention_pairs(const gal_shape *shape);
/* Whether it looks at a block on the diagonal, of which a half is masked. */
bool gal_attention_has_diagonal(const gal_shape *shape);

#endif
