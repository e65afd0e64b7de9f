/* The bound of a plan's certificate, proved again from prices alone: nothing here is shared with the search.
 *
 * No plan of a cell runs faster than its kernels alone take (costmodel/floor.h); where that is not enough, none has a
 * lower objective (costmodel/objective.h). Of one stage blocks first take what their prices are at least; then what is
 * cheapest by that has its price. For P stages that cut the chain of blocks it is at least
 * n max round_p + sum added_p + common: round is forward and backward of a stage's blocks, its turns and conversions;
 * added is k round + w tail (first stage: nothing hides it; 0 <= w <= 1, for what is negative counts as 0) + update / P
 * (the slowest is no less than the mean) + (k + 1) transfer. n, and k of the stage: gal_round_counts_of; with one stage
 * m round + w tail + once + update (costmodel/lag.h; of kernels alone w is 0: others may hide what these leave). Of
 * ZeRO-3 neighbours are taken to hide all that they may (costmodel/price.h), which no company makes less. What blocks
 * take together on a stage is bounded by weak duality: any price >= 0 per byte over the limit may be charged, and what
 * is left is a shortest path through the chain. Of the bytes that blocks use in turn the stage has at least the largest
 * of one, so they are taken in bands: in a band larger ones may not be had and its smallest is charged. Where that is
 * not enough all choices of a stage are counted, block by whole block. Cuts that take less than the claim are looked
 * for, stage by stage: none left is the proof. Source of the dual bound: M. L. Fisher, "The Lagrangian Relaxation
 * Method for Solving Integer Programming Problems", 1981; of its price: G. Y. Handler, I. Zang, "A dual algorithm for
 * the constrained shortest path problem", 1980. */
#ifndef GAL_PLANNER_CERTIFICATE_CERTIFICATE_H
#define GAL_PLANNER_CERTIFICATE_CERTIFICATE_H

#include "costmodel/floor.h"
#include "costmodel/price.h"
#include "schemas/plan.h"

/* Of a space with offload: that saves bytes of a device and no time (costmodel/price.h), so the same without it, on
 * devices without a limit, has a bound of all its plans. That first, and where it is no good the cell as it is; or one
 * of them alone. Under a charge for the host's memory as it is. */
typedef enum gal_certificate_way {
    GAL_CERTIFICATE_BOTH_WAYS,
    GAL_CERTIFICATE_ON_DEVICES,
    GAL_CERTIFICATE_AS_IT_IS
} gal_certificate_way;

/* The plans that a bound is of: stages of several pieces and split backward are not bounded. */
typedef struct gal_certificate_cell {
    const gal_model *model;
    const gal_space *space;
    gal_schedule schedule;
    uint32_t prefetch_depth, device_count;
    uint32_t global_batch_samples, microbatch_count, pp_degree;
    uint64_t work_limit;        /* harder means are given up beyond it: what is proved then is less; UINT64_MAX: none */
    uint64_t arena_limit_bytes; /* per device, charged as a search does: rings at their depth times the largest use */
    gal_certificate_way way;
} gal_certificate_cell;

/* All of the cell's model and of the same durations. */
typedef struct gal_certificate_sources {
    const gal_durations *durations;
    gal_price_cache *cache;
    gal_floors *floors;
} gal_certificate_sources;

/* None of the plans takes less. */
typedef struct gal_certificate_proof {
    double seconds; /* infinity: none fits, or the numbers do not divide */
    bool plain; /* all that was asked for, by least seconds alone: so is anything that is less by more than rounding */
} gal_certificate_proof;

/* Once a bound is enough_seconds it need not be the best, and one that is good_seconds, at most as much, is not raised
 * by harder means. GAL_ERR_SYSTEM without memory; else as gal_price_block. */
gal_code gal_certificate_bound(const gal_certificate_sources *from, const gal_certificate_cell *cell,
                               double enough_seconds, double good_seconds, gal_certificate_proof *out, gal_error *err);

#endif
