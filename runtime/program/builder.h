/* The program under construction: growing arrays, interned shapes and layouts. For runtime/program alone.
 *
 * Nothing here fails loudly: the first failed allocation sets out_of_memory, further calls do nothing harmful, and
 * gal_lower_spec reports it once at the end. */
#ifndef GAL_RUNTIME_PROGRAM_BUILDER_H
#define GAL_RUNTIME_PROGRAM_BUILDER_H

#include "runtime/program/program.h"

enum { GAL_RING_MAX = 2 };

/* Two buffers that take turns; which unit each holds is known while a fragment is emitted. */
typedef struct gal_ring {
    uint32_t buffer[GAL_RING_MAX];
    uint32_t unit[GAL_RING_MAX];  /* held now; GAL_NO_BUFFER: none */
    uint32_t block[GAL_RING_MAX]; /* for this one: a block that shares a unit takes it anew */
    uint32_t count, next;
} gal_ring;

typedef struct gal_builder {
    const gal_stage_spec *spec;
    gal_program *program;
    uint32_t shape_slots;
    uint32_t *shape_slot; /* open addressing: index + 1 into shape */
    gal_ring gathered, bucket;
    uint32_t boundary[2], scratch;
    uint32_t boundary_second[2];                        /* of the second sub-batch, where it has one for itself */
    uint32_t staged[2], staged_x[2];                    /* what is on its way to or from the host: rings */
    uint32_t passing[GAL_STORED_RING], passing_next;    /* likewise values to or from a file: a ring */
    uint32_t stored[GAL_STORED_RING][GAL_STORED_KINDS]; /* parts of what is on storage take turns in these, which are
                                                         * made when one comes ... */
    uint32_t stored_parts;                              /* ... of so many; fewer than the ring: it has fewer */
    uint32_t stored_turn;                               /* of weights that are read to be used, in the fragment */
    uint32_t rows[2], rows_next;                        /* gathered rows of the weight part: a ring */
    uint32_t block;                                     /* being emitted: index in the stage */
    uint32_t chunk;                                     /* whose buffers are being made */
    bool split;                                         /* backward in two parts ... */
    bool sync_later;                                    /* ... in the first, where units are not synchronised yet */
    bool only_last;                                     /* mark what is emitted now */
    uint8_t sub_batch;                                  /* likewise */
    bool repeats;                                       /* likewise */
    bool out_of_memory;
    bool too_large; /* a count of elements that no shape can hold */
} gal_builder;

uint32_t gal_builder_buffer(gal_builder *b, gal_class class, uint32_t block, const char *name, uint64_t bytes);
/* Rings are as large as their largest use. */
void gal_builder_grow_buffer(gal_builder *b, uint32_t buffer, uint64_t bytes);
uint16_t gal_builder_layout(gal_builder *b, const gal_layout *layout);
uint32_t gal_builder_unit(gal_builder *b, const gal_unit *unit);
void gal_builder_parameter(gal_builder *b, const gal_parameter *parameter);

/* One instruction with the shape's op; operands follow by gal_builder_operand*. The returned record is valid until the
 * next instruction. */
gal_instruction *gal_builder_instruction(gal_builder *b, gal_stream stream, const char *name, const gal_shape *shape);
void gal_builder_operand(gal_builder *b, uint32_t buffer, gal_access access); /* the whole buffer */
void gal_builder_operand_at(gal_builder *b, const gal_operand *operand);

/* A count of elements as a shape's dimension; what does not fit in 32 bits is refused when the lowering ends. */
uint32_t gal_builder_dim(gal_builder *b, uint64_t count);

/* Begins / ends a segment at the present instruction. */
void gal_builder_begin_segment(gal_builder *b, uint32_t fragment);
void gal_builder_end_segment(gal_builder *b);

/* Reorders the instructions from `first` on, which are of blocks that work on two sub-batches, each block's first one
 * in front of its second: overlap.c. The segments from first_segment on then are of all of them together. */
void gal_overlap_order(gal_builder *b, uint32_t first, uint32_t first_segment);

/* Nothing in it, its memory kept. */
void gal_program_empty(gal_program *program);

/* Grows *array of element_bytes each to hold count + 1. False without memory. */
bool gal_grow(void *array, uint32_t *capacity, uint32_t count, size_t element_bytes);

/* A pass over the finished lists (waits.c), for the first fragment_count of them; false without memory. clock:
 * [instruction][GAL_STREAM_COUNT], what is known complete when an instruction starts: numbers within the fragment and
 * stream, plus one. */
bool gal_derive_waits(gal_program *program, uint32_t fragment_count, uint32_t (*clock)[GAL_STREAM_COUNT]);

#endif
