/* Seconds of kernels as a profile has them: its entries by shape, and a fit per (op, dtype) over those that were
 * measured (duration.h has the formulas). */
#ifndef GAL_COSTMODEL_KERNEL_TABLE_H
#define GAL_COSTMODEL_KERNEL_TABLE_H

#include "costmodel/origin.h"

typedef struct gal_kernel_entry {
    gal_shape shape;
    double seconds, spread_seconds;
    gal_source source;
} gal_kernel_entry;

typedef struct gal_kernel_fit {
    bool known;
    bool scaled;           /* analytic times coefficient[0] */
    double coefficient[3]; /* seconds, per flop, per byte */
    double log_residual;   /* root of the mean square of log (fitted / measured), unless scaled */
} gal_kernel_fit;

typedef struct gal_kernel_table {
    uint32_t count;
    gal_kernel_entry *entry; /* owned; of several of one shape the first */
    uint32_t slot_mask;
    uint32_t *slot; /* owned; open addressing: index + 1 into entry */
    gal_kernel_fit fit[GAL_OP_COUNT][GAL_DTYPE_COUNT];
} gal_kernel_table;

/* *out is zeroed before; gal_kernel_table_free after, also of one that failed. GAL_ERR_SYSTEM without memory. */
gal_code gal_kernel_table_create(const gal_profile *profile, gal_kernel_table *out, gal_error *err);
void gal_kernel_table_free(gal_kernel_table *table);

/* False: the profile says nothing of such a kernel, and *seconds and *from are as they were.
 * device  the profile's */
bool gal_kernel_table_seconds(const gal_kernel_table *table, const gal_device *device, const gal_shape *shape,
                              double *seconds, gal_origin *from);

/* Whether there is an entry of the operator's. */
bool gal_kernel_table_knows(const gal_kernel_table *table, gal_op op);
/* Whether an entry was measured, or fitted. */
bool gal_kernel_table_has_measurements(const gal_kernel_table *table);

#endif
