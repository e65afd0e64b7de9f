/* What is sharded, gathered and reduced at once. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
    X(BUCKET_REPLICAS, "buckets, dp alone")                                                                            \
    X(BUCKET_ZERO_1, "buckets, zero1")                                                                                 \
    X(BUCKET_ZERO_2, "buckets, zero2")                                                                                 \
    X(BUCKET_ZERO_3, "buckets, zero3")                                                                                 \
    X(CHUNK_REPLICAS, "chunks, dp alone")                                                                              \
    X(CHUNK_ZERO_1, "chunks, zero1")                                                                                   \
    X(CHUNK_ZERO_2, "chunks, zero2")                                                                                   \
    X(CHUNK_ZERO_3, "chunks, zero3")                                                                                   \
    X(UNITS_TP, "buckets or chunks, tp")                                                                               \
    X(UNITS_SP, "buckets or chunks, tp+sp")                                                                            \
    X(UNITS_POSITIONS, "buckets or chunks, ulysses or ring")                                                           \
    X(UNITS_RECOMPUTE, "buckets or chunks, zero3, recompute")                                                          \
    X(UNITS_NO_PREFETCH, "buckets or chunks, zero3, prefetch 1")                                                       \
    X(UNITS_OVERLAP, "buckets or chunks, two sub-batches")                                                             \
    X(UNITS_REUSE, "buckets or chunks, gradients where their weights were")                                            \
    X(UNITS_HOST, "buckets or chunks, optimizer on the host")                                                          \
    X(UNITS_HOST_WEIGHTS, "buckets or chunks, weights on the host")                                                    \
    X(UNITS_SPLIT, "buckets or chunks, backward in two parts")                                                         \
    X(UNITS_INTERLEAVED, "buckets or chunks, interleaved")                                                             \
    X(UNITS_MICROBATCHES, "buckets or chunks, zero2, several microbatches")                                            \
    X(UNITS_LLAMA, "buckets or chunks, llama")                                                                         \
    X(UNITS_ENCODER_DECODER, "buckets or chunks, t5")                                                                  \
    X(UNITS_SWIN, "buckets or chunks, swin")

GAL_CELLS(CELLS);

static void hit_strategy(const gal_plan *plan, const gal_strategy *s, bool *hit)
{
    const bool stepped = s->zero_stage > 0;
    const uint32_t first = s->shard_unit == GAL_SHARD_BUCKET ? BUCKET_REPLICAS : CHUNK_REPLICAS;
    hit[first + s->zero_stage] |= stepped || gal_strategy_degree(s, GAL_AXIS_DP) > 1;
    hit[UNITS_TP] |= gal_strategy_degree(s, GAL_AXIS_TP) > 1 && !s->sequence_parallel;
    hit[UNITS_SP] |= s->sequence_parallel;
    hit[UNITS_POSITIONS] |= gal_strategy_sequence_degree(s) > 1;
    hit[UNITS_RECOMPUTE] |= s->zero_stage == 3 && s->recompute == GAL_RECOMPUTE_FULL;
    hit[UNITS_NO_PREFETCH] |= s->zero_stage == 3 && plan->prefetch_depth == 1;
    hit[UNITS_OVERLAP] |= s->overlap >= GAL_OVERLAP_IN_PASS;
    hit[UNITS_HOST] |= s->offload_optimizer_percent > 0;
    hit[UNITS_HOST_WEIGHTS] |= s->offload_parameters_percent > 0;
    hit[UNITS_MICROBATCHES] |= s->zero_stage == 2 && plan->microbatch_count > 1;
}

static void hit_units(const gal_plan *plan, bool *hit)
{
    const gal_family family = plan->model.family;
    bool any = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        if (plan->run[r].strategy.shard_unit != GAL_SHARD_MATRIX) {
            any = true;
            hit_strategy(plan, &plan->run[r].strategy, hit);
        }
    }
    hit[UNITS_REUSE] = any && plan->gradient_reuses_parameter;
    hit[UNITS_SPLIT] = any && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    hit[UNITS_INTERLEAVED] = any && plan->schedule == GAL_SCHEDULE_INTERLEAVED;
    hit[UNITS_LLAMA] = any && family == GAL_FAMILY_LLAMA;
    hit[UNITS_ENCODER_DECODER] = any && family == GAL_FAMILY_T5;
    hit[UNITS_SWIN] = any && family == GAL_FAMILY_SWIN;
}

const gal_coverage_cells gal_cells_of_units = {CELL_COUNT, names, hit_units};
