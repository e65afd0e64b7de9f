/* The bytes that fill a device, by kind of content.
 *
 *     weights      parameters as kernels read them; with gradient_reuses_parameter the gradient lies in the same bytes
 *     gradients    of the weights, kept over the microbatches of a step
 *     optimizer    moments and, where the weights are of 16 bits, masters
 *     activations  tensors kept between forward and backward, of every microbatch in flight, and the rows that pass
 *                  between blocks and stages
 *     workspace    buffers that live within a block's forward, backward or update: temporaries, gathered weights,
 *                  buckets of gradients, copies on their way to the host, scalars of the step
 *     fixed        bytes that the profile measured beside the program: contexts, libraries
 *
 * The kinds add up to arena_bytes + fixed_bytes, to the byte. Buffers on the host or on storage are in none of them.
 */
#ifndef GAL_COSTMODEL_MEMORY_KINDS_H
#define GAL_COSTMODEL_MEMORY_KINDS_H

#include "runtime/program/program.h"

/* X(enumerator, name) */
#define GAL_MEMORY_KINDS(X)                                                                                            \
    X(GAL_MEMORY_WEIGHTS, "weights")                                                                                   \
    X(GAL_MEMORY_GRADIENTS, "gradients")                                                                               \
    X(GAL_MEMORY_OPTIMIZER, "optimizer")                                                                               \
    X(GAL_MEMORY_ACTIVATIONS, "activations")                                                                           \
    X(GAL_MEMORY_WORKSPACE, "workspace")                                                                               \
    X(GAL_MEMORY_FIXED, "fixed")

#define X(enumerator, name) enumerator,
typedef enum gal_memory_kind { GAL_MEMORY_KINDS(X) GAL_MEMORY_KIND_COUNT } gal_memory_kind;
#undef X

extern const char *const gal_memory_kind_names[GAL_MEMORY_KIND_COUNT];

typedef struct gal_memory_kinds {
    uint64_t bytes[GAL_MEMORY_KIND_COUNT];
} gal_memory_kinds;

/* Splits the bytes of a placed program (gal_lower). fixed_bytes: per device, beside the program. */
void gal_memory_kinds_of(const gal_program *program, uint64_t fixed_bytes, gal_memory_kinds *out);
/* Splits the bytes of the stage whose devices are fullest, the first one of equals, and returns its number.
 * stage_count >= 1. */
uint32_t gal_memory_kinds_fullest(gal_program *const *programs, uint32_t stage_count, uint64_t fixed_bytes,
                                  gal_memory_kinds *out);
uint64_t gal_memory_kinds_sum(const gal_memory_kinds *kinds);

#endif
