/* From the times of a chain to the parts of a price (costmodel/price.h). For costmodel alone. */
#ifndef GAL_COSTMODEL_PRICE_TIMES_H
#define GAL_COSTMODEL_PRICE_TIMES_H

#include "costmodel/chain.h"

/* Blocks until times repeat: two, but three under ZeRO-2, whose scatters are still gaining on compute in the second,
 * under ZeRO-3, where gathers and scatters of the first two still meet, where a third one takes the first one's turn of
 * what goes to the host, and where two sub-batches take turns over the borders of blocks. */
uint32_t gal_times_steady_count(const gal_strategy *strategy);

/* What sync adds to a chain's backward, and the first microbatch to its forward; 0: nothing but rounding. */
double gal_times_added_by_sync(const gal_chain_times *t);
double gal_times_added_by_first(const gal_chain_times *t);
bool gal_times_add_sync(const gal_chain_times *t); /* whether sync adds anything */

/* One more of count equal blocks, where the first one holds what they share: by the ends of the first of the last
 * gal_times_steady_count and of the one behind it in backward, of the last two in forward. Where two sub-batches take
 * turns a block ends when the first one is in the next block already: so of the blocks before those. What sync adds is
 * by a chain that has one block less: in a chain the last reduction runs alone, those before it beside compute, which
 * slow each other. stage_blocks: of an even stage. */
void gal_times_read_steady(const gal_chain_times *t, double shorter_sync_seconds, uint32_t count,
                           const gal_strategy *strategy, double stage_blocks, gal_block_price *out);
/* While collectives take the links; of what is gained by two blocks as of these (beside), else NULL. */
void gal_times_read_links(const gal_chain_times *t, const gal_block_price *beside, gal_block_price *out);
/* Embedding and head: what a chain of two blocks gains by them. */
void gal_times_read_end(const gal_block_price *beside, bool head, const gal_chain_times *t, gal_block_price *out);
/* A bridge or a merge, behind two blocks, whose turns are theirs. */
void gal_times_read_single(const gal_block_price *beside, const gal_chain_times *t, gal_block_price *out);
/* Of sync what the token table takes, which it brings to the chain but not to every stage: no more than of an
 * embedding. There backward has nothing left to hide it: so at a bridge that is the first of its stage. */
void gal_times_read_table(const gal_block_price *embedding, bool bridge, gal_block_price *out);

/* What a block among its like takes at least is less than its kernels by this share: in a chain they are the
 * difference of two ends, which are rounded. */
extern const double gal_times_below;
/* Kernels and what they wait for, or the collectives of a stream. */
double gal_times_least_forward(const gal_chain_times *t, bool waits_for_tensor);
/* Backward and sync together: kernels, or the collectives of a stream. */
double gal_times_least_with_sync(const gal_chain_times *t);

#endif
