/* What the formulas look up, for costmodel/galvatron*.c alone. A question that no row answers is GAL_ERR_DOCUMENT. */
#ifndef GAL_COSTMODEL_GALVATRON_TABLES_H
#define GAL_COSTMODEL_GALVATRON_TABLES_H

#include "costmodel/galvatron.h"

/* Forward of a layer on `samples` samples, which may be a fraction: those of a replica over the devices that split it.
 */
double gal_galvatron_forward_seconds(const gal_galvatron_tables *tables, uint32_t layer_type, double samples);
double gal_galvatron_outside_forward_seconds(const gal_galvatron_tables *tables, double samples);

/* Seconds per byte of an all-reduce's volume; 0 for one device. A stride that was not measured is that of neighbours.
 */
gal_code gal_galvatron_reduce_cost(const gal_galvatron_tables *tables, uint32_t group_size, bool strided, double *out,
                                   gal_error *err);
gal_code gal_galvatron_p2p_cost(const gal_galvatron_tables *tables, uint32_t stage_count, double *out, gal_error *err);
/* One collective on a whole tensor: the row of its size, else a straight line through all rows. */
gal_code gal_galvatron_message_seconds(const gal_galvatron_tables *tables, gal_galvatron_collective op,
                                       uint32_t group_size, double message_bytes, double *out, gal_error *err);

double gal_galvatron_parameter_bytes(const gal_galvatron_tables *tables, uint32_t layer_type);
double gal_galvatron_recompute_bytes(const gal_galvatron_tables *tables, uint32_t layer_type);
gal_code gal_galvatron_activation_bytes(const gal_galvatron_tables *tables, uint32_t layer_type, uint32_t degree,
                                        double *out, gal_error *err);
gal_code gal_galvatron_outside_state_bytes(const gal_galvatron_tables *tables, gal_galvatron_place place,
                                           uint32_t degree, double *out, gal_error *err);
gal_code gal_galvatron_outside_activation_bytes(const gal_galvatron_tables *tables, gal_galvatron_place place,
                                                uint32_t degree, double *out, gal_error *err);

#endif
