/* Bytes that a conversion of layouts takes, in closed form: what runtime/program lays out for its steps, to the byte.
 *
 * Forward and backward each need their buffers between the steps, and one where a step cannot move rows in place; a
 * conversion of the stream also keeps the rows that enter it. */
#ifndef GAL_COSTMODEL_RELAYOUT_H
#define GAL_COSTMODEL_RELAYOUT_H

#include "runtime/program/program.h"

typedef struct gal_relayout_bytes {
    uint64_t inside;  /* of class relayout, inside a stage */
    uint64_t entry;   /* the same in front of a stage: the rows that enter are in the ports */
    uint64_t carried; /* of class carried_relayout, if it is the carried tensor */
} gal_relayout_bytes;

/* Of steps from layout to layout (gal_layout_convert, gal_layout_convert_to) of rows of so many positions and features
 * per sample. All 0 without steps. */
gal_relayout_bytes gal_relayout_bytes_of(const gal_atoms *atoms, const gal_layout_step *steps, uint32_t step_count,
                                         gal_flow rows, gal_dtype dtype);
/* No less, whatever the order of samples in the steps' layouts: what they split, over which devices, alone counts. */
gal_relayout_bytes gal_relayout_bytes_any_order(const gal_atoms *atoms, const gal_layout_step *steps,
                                                uint32_t step_count, gal_flow rows, gal_dtype dtype);
/* Of the rows that lie as `from`, to a strategy on device_count devices. */
gal_relayout_bytes gal_relayout_bytes_to(uint32_t device_count, const gal_layout *from, const gal_strategy *to,
                                         gal_flow rows, gal_dtype dtype);
/* From the rows that lie as `from` to just the layout `to`. */
gal_relayout_bytes gal_relayout_bytes_between(uint32_t device_count, const gal_layout *from, const gal_layout *to,
                                              gal_flow rows, gal_dtype dtype);

/* What a step does: a copy of rows on the device, or a collective. */
typedef struct gal_relayout_work {
    gal_step_kind kind; /* of the step */
    bool begins;        /* the first of its step */
    gal_shape shape;    /* of a copy; of a collective its operator alone */
    gal_group group;    /* of a collective */
    uint64_t bytes;     /* gal_instruction.bytes */
} gal_relayout_work;

enum { GAL_RELAYOUT_WORKS_MAX = 2 * GAL_LAYOUT_STEPS_MAX };

/* The instructions that runtime/program/lower/relayout.c makes of steps, and their bytes. */
typedef struct gal_relayout {
    gal_relayout_bytes bytes;
    bool too_large; /* for a program: it is not lowered */
    uint32_t forward_count, backward_count;
    gal_relayout_work forward[GAL_RELAYOUT_WORKS_MAX], backward[GAL_RELAYOUT_WORKS_MAX];
} gal_relayout;

void gal_relayout_of(const gal_atoms *atoms, const gal_layout_step *steps, uint32_t step_count, gal_flow rows,
                     gal_dtype dtype, gal_relayout *out);

#endif
