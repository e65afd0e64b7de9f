/* How many elements the chunks of a stage have (S. Li et al., "Colossal-AI: A Unified Deep Learning System For
 * Large-Scale Parallel Training", section III-B; J. Fang et al., "PatrickStar", section 6.1).
 *
 * Units are packed in the order of their first use into chunks of equal size; none is split. What a chunk has left
 * behind its last unit, and what rounds it up to shards of one size, is waste: of the ring of buffers, whose items are
 * as large as the largest chunk, and of messages, which are the larger the fewer they are. The size of least waste
 * among those whose chunks are long enough for the links: at least `least_elements`, and up to twice as many, as beyond
 * that there is little left to gain and the ring grows. Every size packs as the largest sum of neighbours below it
 * does, so those sums are all that there is to try. */
#ifndef GAL_PLANNER_SPACE_CHUNK_SIZE_H
#define GAL_PLANNER_SPACE_CHUNK_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_chunk_unit {
    uint64_t elements; /* on a device */
    bool begins;       /* it cannot be in one chunk with the unit in front of it */
} gal_chunk_unit;

typedef struct gal_chunk_rule {
    uint64_t least_elements, most_elements; /* of a full chunk */
    uint32_t shard_count;                   /* chunks are padded to a multiple of it */
} gal_chunk_rule;

typedef struct gal_chunk_packing {
    uint64_t fullest_elements; /* that units have in a chunk, at most */
    uint64_t largest_elements; /* of a chunk, padded */
    uint64_t waste_elements;   /* of all of them */
    uint32_t chunk_count;
} gal_chunk_packing;

/* Chunks of up to chunk_elements; a unit that is larger is one by itself. count >= 1. */
gal_chunk_packing gal_chunk_pack(const gal_chunk_unit *unit, uint32_t count, uint64_t chunk_elements,
                                 uint32_t shard_count);

/* *out: the size of least waste, of equals the smallest, whose fullest chunk has at least least_elements, or, where all
 * units together have fewer, all of them; never below the largest unit. 0: none has most_elements or fewer.
 * GAL_ERR_SYSTEM without memory. */
gal_code gal_chunk_size(const gal_chunk_unit *unit, uint32_t count, const gal_chunk_rule *rule, uint64_t *out,
                        gal_error *err);

#endif
