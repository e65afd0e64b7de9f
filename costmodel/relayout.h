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

#endif
