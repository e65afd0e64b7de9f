/* Bytes of a stage in closed form, from numbers of its blocks: equal to the placed gal_program.arena_bytes to the byte.
 * All numbers are multiples of GAL_ALIGNMENT_BYTES.
 *
 *     bytes = sum(state + gradient) + sum over chunks (k sum(saved) + c x_in + 2 (y_out + dy_in + dx_out)) + boundary
 *           + max(relayout) + gathered + bucket + staged + max(scratch) + max(work) + carried
 *           + the stage's own numbers (norm, loss)
 * with k microbatches of the chunk in flight, c = min(m, k + 1), or min(m, 2) where x_in is converted or goes on to the
 * host; the 2 is min(m, 2). What has no k is of the stage: the chunks share it.
 * boundary, gathered, bucket and staged are rings of buffers that blocks use in turn: a buffer is as large as the
 * largest use whose turn it was, so the blocks' uses are replayed in order. gathered <= prefetch_depth max, the others
 * <= 2 max: what a search may charge without knowing the order. Of a tensor that several blocks of the stage hold
 * (gal_shared) state and gradient count once. carried is of the tensor that flows beside the stream: its versions
 * (runtime/program/lower/carried.h) and what their conversions take. Departs from Galvatron-BMW, Eq. 2, which lets a
 * block's work memory reuse what earlier blocks have freed: with k > 1 microbatches in flight their slots are fixed, so
 * the work memory is a maximum over the stage, wherever the block is.
 */
#ifndef GAL_COSTMODEL_MEMORY_H
#define GAL_COSTMODEL_MEMORY_H

#include "runtime/program/program.h"

enum { GAL_RING_TURNS = 3 };

/* The uses of a ring by one block in one fragment, in order. A ring has two buffers at most, so of more than three uses
 * two or three stand for all, odd as they were: each is as large as the largest whose buffer it has. */
typedef struct gal_ring_turns {
    uint32_t count;
    uint64_t bytes[GAL_RING_TURNS]; /* behind count: 0 */
} gal_ring_turns;

/* Bytes of the largest part that is on its way from storage at a time: of a moment, of a master and of weights that are
 * there too, and the largest value of what forward keeps there. */
typedef struct gal_stored_parts {
    uint64_t moment, master, weight, kept;
} gal_stored_parts;

/* Of each the larger. */
gal_stored_parts gal_stored_parts_join(const gal_stored_parts *a, const gal_stored_parts *b);

/* What a block has beside the device. */
typedef struct gal_block_host {
    uint64_t kept, kept_stored; /* of every microbatch in flight: of what leaves the device (bytes.staged_input and
                                 * staged_saved) what stays in the host's memory; on storage, in whole blocks */
    uint64_t state, stored;     /* in the host's memory, what is of the table included; on storage */
    uint64_t table_state, table_stored; /* of them: what is of the token table, if it is one of several holders */
    gal_stored_parts parts;
} gal_block_host;

/* bytes.saved includes the block's own input; bytes.boundary are the rows that leave it, in its layout; bytes.relayout
 * is of the conversion in front of it in the program read, 0 without one; at the entry of a stage the rows to convert
 * lie in x_in and it takes relayout_entry instead. carried_relayout is of the conversion of the carried tensor. */
typedef struct gal_block_memory {
    gal_block_bytes bytes;
    uint64_t relayout_entry, carried_relayout;
    bool halved; /* of a price: works on two sub-batches. The boundary rows of the second have a ring of their own, and
                  * work of odd blocks lies behind that of even ones */
    uint64_t shared_bytes[GAL_SHARED_COUNT]; /* of state and gradient: what is of each shared tensor */
    gal_ring_turns gathers_forward, gathers_backward, gathers_evaluate, buckets;
    gal_block_host host;
} gal_block_memory;

/* Reads the numbers of block `index` of a placed program, as they are inside a chain: an input that is received counts
 * as saved. All but bytes.boundary, which the next block's rows would say. Shared tensors are told by having copies on
 * other stages. */
void gal_block_memory_of(const gal_program *program, uint32_t index, gal_block_memory *out);

typedef struct gal_stage_block {
    const gal_block_memory *memory;
    uint64_t relayout_bytes; /* of the conversion in front of it, whatever memory says */
} gal_stage_block;

typedef struct gal_chunk_memory {
    uint32_t block_count, in_flight; /* of the stage's blocks; k */
    bool receives, sends;            /* is not the first, the last piece of the chain */
    bool converts_entry;             /* the first block has another layout than what is received */
    uint64_t entry_bytes;            /* rows as the piece before sends them; 0 if it receives none */
} gal_chunk_memory;

/* A version of the carried tensor in a chunk: received, or else made or converted there. */
typedef struct gal_carried_memory {
    uint32_t chunk;
    uint64_t bytes;
    bool read;           /* by a block of the chunk, as it is */
    bool received, sent; /* from the piece before, to the next one */
} gal_carried_memory;

typedef struct gal_stage_memory {
    uint32_t microbatch_count; /* m */
    uint32_t prefetch_depth;
    uint32_t chunk_count;
    const gal_chunk_memory *chunk;
    const gal_stage_block *block; /* chunk by chunk */
    uint32_t carried_count;
    const gal_carried_memory *carried;
    uint64_t carried_relayout_bytes; /* the most of its conversions */
} gal_stage_memory;

uint64_t gal_stage_bytes(const gal_stage_memory *stage);
/* Bytes of a stage of one chunk in the host's memory, from sums over its blocks: of host.state and host.kept, and the
 * largest of host.parts. What is on its way from storage is charged at its most: a ring of the largest parts, whatever
 * the turns; so a program takes no more (gal_program.host_bytes), and exactly so much where nothing is on storage. */
uint64_t gal_stage_host_bytes(uint64_t state_bytes, uint64_t kept_bytes, uint32_t in_flight,
                              const gal_stored_parts *parts);
/* Microbatches in flight on a stage that is one chunk: min(m, P - stage) for 1F1B, m for GPipe. */
uint32_t gal_in_flight(gal_schedule schedule, uint32_t stage, uint32_t stage_count, uint32_t microbatch_count);

#endif
