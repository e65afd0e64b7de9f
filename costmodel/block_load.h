/* Work that a block brings to its stage, by what carries it out: what a layer takes at least follows from that.
 *
 * Computation, each stream of collectives and each level of the links do one thing at a time. So no schedule of a
 * microbatch is shorter than what one of them has to do, and where two of them run at the same time they slow each
 * other.
 */
#ifndef GAL_COSTMODEL_BLOCK_LOAD_H
#define GAL_COSTMODEL_BLOCK_LOAD_H

#include "costmodel/price.h"

/* Seconds of what runs alone, of one microbatch but where it says otherwise. */
typedef struct gal_block_load {
    double compute_seconds;                   /* kernels of forward and backward, with what is run again */
    double exposed_seconds;                   /* collectives of tensor parallelism in forward that kernels wait for */
    double link_seconds[GAL_LINK_LEVELS_MAX]; /* of all collectives, the exposed ones among them */
    double sync_seconds[GAL_LINK_LEVELS_MAX]; /* of the last microbatch: what its collectives take more */
    double update_seconds;                    /* of a step: kernels of the update */
    double update_link_seconds[GAL_LINK_LEVELS_MAX]; /* likewise, its collectives */
    double table_seconds[GAL_LINK_LEVELS_MAX]; /* of the last microbatch: reductions of what other blocks hold too; in
                                                * no bound, as another block may bring it */
    const gal_block_memory *memory;            /* the cache's */
} gal_block_load;

/* The load of a query as gal_price_block takes it. cache: without parts. GAL_ERR_DOCUMENT if a tensor is too large for
 * a program, GAL_ERR_SYSTEM without memory. */
gal_code gal_block_load_of(gal_price_cache *cache, const gal_price_query *query, gal_block_load *out, gal_error *err);

void gal_block_load_add(const gal_block_load *more, gal_block_load *sum); /* all but memory */

/* Seconds that m microbatches take at least on a stage that has the load, whatever runs beside it: forward and backward
 * of all, with_sync: and the reductions of the last; the update comes on top: gal_load_least_update. */
double gal_load_least_seconds(const gal_block_load *load, const gal_durations *durations, uint32_t microbatch_count,
                              bool with_sync);

double gal_load_least_update(const gal_block_load *load);

#endif
