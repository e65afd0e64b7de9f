/* Seconds of a chain of blocks of any strategies on one stage that runs: prices of layers are slopes of these.
 *
 * The chain is lowered as a stage of its own and simulated with nothing of other stages: transfers take no time. It
 * runs in the order of 1F1B's steady state, forward and backward by turns, and ends with the update. What a layer costs
 * is the difference between two such chains of which one has a layer more: in the company of its neighbours, gathers
 * and reductions that wait for a shared link included. Where blocks begin or end a model the chain does as well. */
#ifndef GAL_COSTMODEL_LAYER_CHAIN_H
#define GAL_COSTMODEL_LAYER_CHAIN_H

#include "costmodel/duration.h"

enum { GAL_LAYER_CHAIN_BLOCKS_MAX = 128 };

typedef struct gal_layer_chain {
    const gal_model *model;
    const gal_durations *durations;
    uint32_t device_count;       /* D */
    uint32_t stage, stage_count; /* which devices */
    uint32_t microbatch_samples;
    uint32_t microbatch_count; /* m >= 1 */
    uint32_t prefetch_depth;
    uint32_t block_count;        /* 1 to GAL_LAYER_CHAIN_BLOCKS_MAX */
    const gal_block_spec *block; /* [block_count]: shape and strategy; what nothing enters only first, what nothing
                                  * leaves only last; the number is not read */
} gal_layer_chain;

/* All are differences of two ends on the compute stream, or of all streams behind the last backward. */
typedef struct gal_layer_times {
    double forward_seconds, backward_seconds; /* of one microbatch, in the steady state */
    double last_seconds;                      /* of the last backward, which reductions slow, on the compute stream */
    double sync_seconds;                      /* what its reductions take beyond that */
    double update_seconds;                    /* behind these */
    double step_seconds;                      /* of all m microbatches and the update */
} gal_layer_times;

/* With m = 1 forward_seconds are those of that microbatch and backward_seconds those of its backward on the compute
 * stream. With m = 2 the steady state is the second forward and the first backward. GAL_ERR_DOCUMENT if a tensor is too
 * large for a program, GAL_ERR_SYSTEM without memory. */
gal_code gal_layer_chain_times(const gal_layer_chain *chain, gal_layer_times *out, gal_error *err);

#endif
