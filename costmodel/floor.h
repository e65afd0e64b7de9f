/* What a block takes at least: compute and what it waits for in any case, states shared by all devices.
 *
 * A block split over the devices of tp and of an axis of the positions runs the same kernels in company of any data
 * parallelism, and with any of its weights and optimizer in the host's memory; so floors of a few splits stand for
 * every strategy, and cost a lowering each once, then a microsecond for other samples. In forward a 1d block waits for
 * its collectives of tensor parallelism (costmodel/price.c: waits_for_tensor), which count where they are quickest. A
 * search rules out with floors whatever cannot win, before it prices anything.
 */
#ifndef GAL_COSTMODEL_FLOOR_H
#define GAL_COSTMODEL_FLOOR_H

#include "costmodel/duration.h"
#include "schemas/plan.h"

/* How a block is computed: what of a strategy decides its kernels. */
typedef struct gal_split_kind {
    uint32_t tp_degree;
    gal_axis_kind sequence_kind; /* of an axis that splits the positions */
    uint32_t sequence_degree;    /* 1: none */
    bool sequence_parallel;
    gal_recompute recompute;
    gal_tp_mode tp_mode; /* 2d stands for 2.5d too */
    bool stepped;        /* of a square; no work is counted, as ZeRO-2 may place it in less */
    bool keep_panels;    /* of a grid */
    bool keep_weights;   /* of a cube */
    gal_shard_unit unit; /* of a chunk and of a bucket it takes no more than of a matrix each: not of a grid */
    bool offload;        /* as much as can be is in the host's memory */
    bool waits;          /* 1d, positions not split, no two sub-batches: what tp exchanges in forward counts */
} gal_split_kind;

/* Just this, on tp_degree times sequence_degree devices. */
gal_strategy gal_split_strategy(const gal_split_kind *split);
/* How a strategy splits blocks; nothing is in the host's memory, and nothing waits. */
gal_split_kind gal_split_of(const gal_strategy *strategy);
/* Equal where two split alike, whatever the unit, offload and waits, which all splits of a space share. */
uint64_t gal_split_key(const gal_split_kind *split);

typedef struct gal_block_floor {
    double seconds;       /* forward and backward of one microbatch; with what it waits for */
    uint64_t state_bytes; /* of parameters and what goes with them, of one of the devices; without tensors that others
                             hold too */
    uint64_t saved_bytes; /* of one microbatch */
    uint64_t work_bytes;  /* while it runs */
} gal_block_floor;

typedef struct gal_floors gal_floors; /* any thread may ask */

/* model and durations are referred to, not copied. GAL_ERR_SYSTEM without memory. */
gal_code gal_floors_create(const gal_model *model, const gal_durations *durations, gal_floors **out, gal_error *err);
void gal_floors_free(gal_floors *floors); /* accepts NULL */

/* Of a block of the type under the split, which is legal for it, on so many samples per such group. GAL_ERR_DOCUMENT if
 * a tensor is too large for a program, GAL_ERR_SYSTEM without memory. */
gal_code gal_floors_of(gal_floors *floors, uint32_t type, gal_split_kind split, uint32_t samples, gal_block_floor *out,
                       gal_error *err);

#endif
