/* Where kernels under test are carried out: on emulated threads (machine.c beside this), or on the GPU
 * (tests/gpu/machine.c). The same tests are linked with the one or the other.
 *
 * Memory has two addresses, which are equal on emulated threads: the test writes and reads at its own, kernels are
 * given gal_machine_at() of it. Between begin and end the kernels have it, else the test. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_MACHINE_H
#define GAL_TESTS_SUPPORT_EMULATED_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/ops/ops.h"

/* Aligned to 16 bytes; what lies outside of it is not to be touched. */
void *gal_machine_allocate(size_t bytes);
void gal_machine_free(void *memory); /* accepts NULL */

/* The kernels' address of a byte that was allocated here. */
void *gal_machine_at(const void *memory);

/* Of the kernels until end; reverse: the last thread of a block goes first, where there is a choice. */
void gal_machine_begin(bool reverse);
/* They are done. Fails the test (cmocka) if one failed, or wrote outside of what was allocated. */
void gal_machine_end(void);

/* Kernels launched so far; 0 where nobody counts. */
uint64_t gal_machine_launches(void);

/* Who carries out an attention; workspace by the call without operands. odd: also at addresses that are not multiples
 * of 16. */
bool gal_machine_attention_odd(void);
uint64_t gal_machine_attention_workspace_bytes(gal_op op, gal_dtype dtype, const gal_kernel_call *call);
gal_code gal_machine_attention(gal_op op, gal_dtype dtype, gal_kernel_call *call, gal_error *err);

#endif
