/* Schedules: the order of a stage's calls in a step.
 *
 * All are one form. A unit is a microbatch in a chunk; forwards and backwards of a stage come each in an order of units
 * that is the same on all stages, and a schedule says how many forwards are ahead:
 *     `ahead` forwards, then one forward and one backward in turn, then the backwards that are left
 *   gpipe        ahead = all
 *   1f1b         ahead = P - 1 - stage (PipeDream-flush; Galvatron-BMW, section III-A3)
 *   interleaved  ahead = 2 (P - 1 - stage) + (v - 1) G (Megatron-LM; D. Narayanan et al., "Efficient Large-Scale
 *                Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2)
 *   zero_bubble  as 1f1b, but backward has an input part B and a weight part W, and W of a microbatch follows B of the
 *                stage-th next one; what is left comes last (ZB-H1; P. Qi et al., "Zero Bubble Pipeline Parallelism",
 *                arXiv 2401.10241, section 3): a bubble of (P - 1)(F + B - W) for (P - 1)(F + B + W), min(m, P)
 *                microbatches in flight on every stage
 * Units: a group of microbatches at a time goes through the chunks one after the other, forward from chunk 0 on,
 * backward from the last. If m is a multiple of P, groups are of P, and G, the largest of them, is P. Departs from
 * Megatron-LM, which asks for that: else there are floor(m / P) groups as equal as can be, so that none is smaller than
 * P unless m is (with a smaller one behind others stages wait for each other in a circle: P = 4, v = 3, m = 5). Per
 * chunk both orders are those of the microbatches, so what a chunk has in flight is consecutive and "microbatch mod
 * count" is a slot. */
#ifndef GAL_RUNTIME_PROGRAM_SCHEDULE_H
#define GAL_RUNTIME_PROGRAM_SCHEDULE_H

#include "runtime/program/program.h"

typedef struct gal_schedule_place {
    gal_schedule schedule;
    uint32_t stage, stage_count;            /* P */
    uint32_t chunk_count, microbatch_count; /* v, m */
} gal_schedule_place;

/* The calls of a step but the update, one by one: begins with the place set and the rest zero. */
typedef struct gal_schedule_walk {
    gal_schedule_place at;
    uint32_t forward, backward, weight; /* units so far */
} gal_schedule_walk;

/* The next call, or false. The last part of backward of the last microbatch of a chunk is the one with gradient sync.
 */
bool gal_schedule_next(gal_schedule_walk *walk, gal_call *out);
uint32_t gal_schedule_call_count(const gal_schedule_place *at); /* of them */

/* Unit `index` forward, as the call of a fragment of this kind. */
gal_call gal_schedule_forward(const gal_schedule_place *at, uint32_t index, gal_fragment_kind kind);

/* Whether backward is in two parts. */
bool gal_schedule_splits(gal_schedule schedule);

/* Plays the order: in_flight[chunk] the microbatches that the chunk has between forward and the last part of backward
 * at most. Returns the same of all chunks together. */
uint32_t gal_schedule_in_flight(const gal_schedule_place *at, uint32_t in_flight[GAL_CHUNKS_MAX]);

/* The same between the two parts of backward, on a stage that is one chunk; 0 without parts. */
uint32_t gal_schedule_kept(const gal_schedule_place *at);

#endif
