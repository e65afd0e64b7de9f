/* Content execution: programs of all stages run on hashes, every rank by itself, on placed memory.
 *
 * An instruction hashes what it reads into what it writes; a collective hashes what its members read, without order
 * where it sums. Memory is cut in physical cells at the borders of all operands, so that buffers placed on one another
 * destroy each other. What may run is decided by waits, the order of each stream, and partners that are all ready:
 * nothing here is shared with the verifier. Two training steps, an evaluation and a third step are issued without a
 * pause. */
#ifndef GAL_TESTS_SUPPORT_CONTENT_H
#define GAL_TESTS_SUPPORT_CONTENT_H

#include "runtime/program/program.h"

typedef struct gal_content gal_content;

/* The programs must outlive it. NULL without memory. */
gal_content *gal_content_create(gal_program *const *programs, uint32_t stage_count);
void gal_content_free(gal_content *content);

/* Runs everything in the order in which the hosts issue it, sends buffered, every buffer with bytes of its own for
 * every microbatch: what the program means. False if a stage waits for ever. *state is a hash of weights, moments, norm
 * and loss of all ranks. */
bool gal_content_reference(gal_content *content, uint64_t *state);

/* Runs one legal interleaving, chosen by seed. False if it gets stuck. */
bool gal_content_interleave(gal_content *content, uint64_t seed, uint64_t *state);

#endif
