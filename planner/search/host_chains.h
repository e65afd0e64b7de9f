/* Chains of a cell within limits of host and storage, exactly: each block's strategy, with what it has of weights and
 * activations on storage, and its share of moments there together, with masters of 16 bits or without them, block by
 * block.
 *
 * Labels along the chain, as in planner/stages/labels.h, with what their open stage has beside the device as further
 * coordinates: a node is extended by every share of its strategy. A label is dropped when its charged seconds
 * (costmodel/price_charged.c) under a dual's weights, plus what is to go at least, less the charge of the limit, reach
 * the best known plan; when its open stage cannot fit; or when another one at the node is no more in any coordinate.
 * What waits on its way from storage is counted at its most (gal_stage_host_bytes), and charged with the open stage's
 * label, for no price of a block has it. A label whose parts on the way are larger is still no more where it has as
 * much less of the rest. */
#ifndef GAL_PLANNER_SEARCH_HOST_CHAINS_H
#define GAL_PLANNER_SEARCH_HOST_CHAINS_H

#include "planner/cell/cell.h"
#include "planner/search/storage_fit.h"

typedef struct gal_host_chains {
    const gal_cell_spec *spec; /* its cache is not charged */
    const gal_block_types *types;
    gal_price_cache *charged; /* of that cache */
    gal_price_charge charge;  /* its */
    gal_host_limits limits;
    double give_up_seconds; /* only plans faster than this are looked for; infinity: any */
    uint32_t label_limit;   /* at one block */
} gal_host_chains;

typedef struct gal_host_answer {
    double seconds;  /* infinity: none was found */
    double bound;    /* no plan within the limits is faster; equal to seconds, or not below give_up_seconds: proven */
    uint32_t *stage; /* [block] the caller's */
    gal_strategy *strategy; /* likewise, with the share on storage */
} gal_host_answer;

/* GAL_ERR_SYSTEM without memory; else as gal_price_block. */
gal_code gal_host_chains_solve(const gal_host_chains *task, gal_host_answer *out, gal_error *err);

#endif
