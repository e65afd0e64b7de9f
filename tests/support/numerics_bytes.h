/* What a program really touched of a poisoned arena, and what the process holds. */
#ifndef GAL_TESTS_SUPPORT_NUMERICS_BYTES_H
#define GAL_TESTS_SUPPORT_NUMERICS_BYTES_H

#include "runtime/device/device.h"
#include "runtime/program/program.h"

/* The arena (poisoned before its first use: every byte 0xFF, which nothing but a load of targets writes eight times in
 * a row) against the plan:
 *   - every class ends where its last written byte is, rounded up to GAL_ALIGNMENT_BYTES, in every item
 *   - no byte outside the program's buffers was written
 * A write before or behind the arena has faulted. False, with the first difference as text. */
bool gal_arena_as_planned(const gal_program *program, const gal_memory *memory, char *text, size_t capacity);

/* Anonymous memory of this process that is resident, in bytes: the arena, the heap, stacks; not what is mapped from
 * files or shared between ranks (Open MPI's transport, touched as messages come). The allocator first gives back what
 * it keeps free: temporaries of MPI's reductions, as many as happened to be under way at once. Allocates nothing. */
uint64_t gal_resident_anonymous_bytes(void);

#endif
