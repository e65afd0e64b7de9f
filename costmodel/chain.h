/* Short chains of blocks, lowered and simulated alone: what prices are made of. For costmodel alone.
 *
 * A chain is lowered, its waits derived and its queues laid out once; its costs can be renewed for another placement,
 * and for another number of samples, without lowering: no instruction depends on it but by the sizes of its rows. */
#ifndef GAL_COSTMODEL_CHAIN_H
#define GAL_COSTMODEL_CHAIN_H

#include "costmodel/price.h"

enum { GAL_CHAIN_MAX = 4 };

typedef struct gal_chain_spec {
    const gal_model *model;
    const gal_durations *durations;
    const gal_price_query *query; /* where the chain lies; its kind and strategy are not read */
    const gal_layout *entry;      /* of the first block, or NULL: as reached from whole rows */
    uint32_t block_count;
    gal_block_kind kind[GAL_CHAIN_MAX]; /* an embedding only first, a head only last */
    const gal_strategy *strategy[GAL_CHAIN_MAX];
} gal_chain_spec;

/* Seconds of forward and backward after a first forward and backward, and with sync instead of backward. */
typedef struct gal_chain_times {
    double forward_seconds, backward_seconds; /* compute's */
    double sync_seconds;                      /* backward with sync on all streams, less backward_seconds */
    /* [block]: ends since the beginning of the call; sync's on all streams */
    double forward_end[GAL_CHAIN_MAX], backward_end[GAL_CHAIN_MAX], sync_end[GAL_CHAIN_MAX];
    double update_seconds[GAL_CHAIN_MAX];
} gal_chain_times;

typedef struct gal_chain gal_chain;

/* Nothing of the spec is referred to afterwards but its durations. GAL_ERR_SYSTEM without memory. */
gal_code gal_chain_create(const gal_chain_spec *spec, gal_chain **out, gal_error *err);
void gal_chain_free(gal_chain *chain);

/* Whether the chain also stands for so many samples per microbatch: every buffer that grows with them stays a multiple
 * of GAL_ALIGNMENT_BYTES, so that its placement scales. Not for chains that convert layouts. */
bool gal_chain_scales(const gal_chain *chain, uint32_t microbatch_samples);
/* For so many samples, on the devices of that stage. */
void gal_chain_measure(gal_chain *chain, uint32_t microbatch_samples, uint32_t stage, uint32_t stage_count,
                       gal_chain_times *out);
void gal_chain_memory(gal_chain *chain, uint32_t microbatch_samples, uint32_t block, gal_block_memory *out);

#endif
