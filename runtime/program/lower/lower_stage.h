/* The stage that is being lowered: its chunks, the conversions in front of their blocks, the blocks as they are emitted
 * and the buffers that lead to the neighbours. What of a stage stands before its first instruction does; lower.c writes
 * the instructions. For the lowering of a stage alone. */
#ifndef GAL_RUNTIME_PROGRAM_LOWER_LOWER_STAGE_H
#define GAL_RUNTIME_PROGRAM_LOWER_LOWER_STAGE_H

#include "runtime/program/lower/carried.h"
#include "runtime/program/lower/emit.h"
#include "runtime/program/schedule.h"

/* The conversion in front of a block; most blocks have none. */
typedef struct gal_lower_conversion {
    uint32_t count;
    gal_layout_step *step; /* owned */
} gal_lower_conversion;

/* A piece of the chain on this stage. */
typedef struct gal_lower_chunk {
    uint32_t number;
    uint32_t first, end;                 /* blocks within the stage */
    uint32_t x_in, y_out, dy_in, dx_out; /* buffers to and from the neighbours, GAL_NO_BUFFER without one */
    gal_lower_conversion exit;           /* of what the last block hands on: joins its sub-batches */
    gal_layout entry_layout, exit_layout;
    const gal_layout *carried_layout; /* as the carried tensor enters */
    gal_carried carried;
} gal_lower_chunk;

enum { GAL_LOWER_FEW = 4 };

typedef struct gal_lower_stage {
    gal_builder b;
    gal_block_emit *block;         /* of many blocks owned, else few_blocks */
    gal_lower_conversion *convert; /* likewise */
    gal_lower_chunk *chunk;        /* of several owned, else one_chunk */
    uint32_t chunk_count;
    gal_lower_chunk one_chunk;
    gal_holders holders;
    gal_lower_conversion few_conversions[GAL_LOWER_FEW];
    gal_block_emit few_blocks[GAL_LOWER_FEW]; /* the last member: each is initialised when it is used */
} gal_lower_stage;

/* Sets out up to its first instruction: blocks, conversions, results and ports of every chunk. spec must outlive it.
 * GAL_ERR_SYSTEM: no memory for the stage itself; what is short of memory later sets out->b.out_of_memory.
 * GAL_ERR_DOCUMENT: a shared tensor lies in more than GAL_STAGE_RANGES_MAX runs of stages. In any case it is for
 * gal_lower_stage_free. */
gal_code gal_lower_stage_create(const gal_stage_spec *spec, gal_lower_stage *out, gal_error *err);

/* What it owns, its program with it. */
void gal_lower_stage_free(gal_lower_stage *s);

gal_schedule_place gal_lower_stage_place(const gal_lower_stage *s);

/* Whether the stage's last block has the loss. */
bool gal_lower_has_head(const gal_lower_stage *s);

/* Whether the dx of block i is read again by the weight part of the block below. */
bool gal_lower_keeps_dx(const gal_lower_stage *s, uint32_t i);

/* A new buffer of this class for rows in this layout. */
uint32_t gal_lower_port(gal_lower_stage *s, gal_class class, uint32_t block, const char *name, const gal_layout *layout,
                        gal_flow rows);

/* A buffer of class relayout from *next_offset on, at first its beginning: what enters a conversion; *next_offset is
 * then the next free one. */
uint32_t gal_lower_relayout_buffer(gal_lower_stage *s, uint32_t block, const gal_layout *layout, gal_flow rows,
                                   uint64_t *next_offset);

#endif
