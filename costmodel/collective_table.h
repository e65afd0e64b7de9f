/* Seconds of collectives as a profile has them: its entries, between and beyond them (duration.h has the formulas). */
#ifndef GAL_COSTMODEL_COLLECTIVE_TABLE_H
#define GAL_COSTMODEL_COLLECTIVE_TABLE_H

#include "costmodel/origin.h"

typedef struct gal_collective_table {
    uint32_t count;
    gal_profile_collective *entry; /* owned; by op, level_counts, bytes */
} gal_collective_table;

/* *out is zeroed before; gal_collective_table_free after, also of one that failed. GAL_ERR_SYSTEM without memory. */
gal_code gal_collective_table_create(const gal_profile *profile, gal_collective_table *out, gal_error *err);
void gal_collective_table_free(gal_collective_table *table);

/* Analytic where no entry says more. With as many blocks of a GPU as the library takes.
 * cluster  the profile's
 * op       send for p2p, receive counts as send
 * bytes    as gal_instruction.bytes */
double gal_collective_table_seconds(const gal_collective_table *table, const gal_cluster *cluster, gal_op op,
                                    const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t bytes, gal_origin *from);

/* Whether an entry was measured, or fitted. */
bool gal_collective_table_has_measurements(const gal_collective_table *table);

#endif
