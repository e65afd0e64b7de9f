/* What lies in the host's memory. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
    X(OFFLOAD_ALL, "a block's optimizer on the host")                                                                  \
    X(OFFLOAD_PART, "a part of a block's optimizer on the host")                                                       \
    X(OFFLOAD_DP, "optimizer on the host, dp")                                                                         \
    X(OFFLOAD_ZERO_1, "optimizer on the host, zero1")                                                                  \
    X(OFFLOAD_ZERO_2, "optimizer on the host, zero2")                                                                  \
    X(OFFLOAD_ZERO_3, "optimizer on the host, zero3")                                                                  \
    X(OFFLOAD_GRID, "optimizer on the host, a tp grid")                                                                \
    X(OFFLOAD_POSITIONS, "optimizer on the host, ulysses or ring")                                                     \
    X(OFFLOAD_TIED, "optimizer of a tied table on the host, P > 1")                                                    \
    X(OFFLOAD_SPLIT, "optimizer on the host, backward in two parts")                                                   \
    X(OFFLOAD_INTERLEAVED, "optimizer on the host, interleaved")                                                       \
    X(OFFLOAD_MICROBATCHES, "optimizer on the host, several microbatches")                                             \
    X(OFFLOAD_CLIPPED, "optimizer on the host, clipped")                                                               \
    X(OFFLOAD_WEIGHTS, "weights on the host")                                                                          \
    X(OFFLOAD_WEIGHTS_PART, "a part of a block's weights on the host")                                                 \
    X(OFFLOAD_WEIGHTS_ZERO_3, "weights on the host, zero3")                                                            \
    X(OFFLOAD_WEIGHTS_GRID, "weights on the host, a tp grid")                                                          \
    X(OFFLOAD_WEIGHTS_TIED, "tied table on the host, P > 1")                                                           \
    X(OFFLOAD_WEIGHTS_RECOMPUTE, "weights on the host, recompute")                                                     \
    X(STORAGE_ALL, "all moments on storage")                                                                           \
    X(STORAGE_PART, "a part of the host's moments on storage")                                                         \
    X(STORAGE_BLOCKS, "moments on storage, in parts of one block")                                                     \
    X(STORAGE_ZERO, "moments on storage, sharded by zero")                                                             \
    X(STORAGE_GRID, "moments on storage, a tp grid")                                                                   \
    X(STORAGE_WEIGHTS, "moments on storage, weights on the host")                                                      \
    X(STORED_WEIGHTS_ALL, "all weights on storage")                                                                    \
    X(STORED_WEIGHTS_PART, "a part of the host's weights on storage")                                                  \
    X(STORED_WEIGHTS_BLOCKS, "weights on storage, in parts of one block")                                              \
    X(STORED_WEIGHTS_ZERO_3, "weights on storage, zero3")                                                              \
    X(STORED_WEIGHTS_GRID, "weights on storage, a tp grid")                                                            \
    X(STORED_WEIGHTS_RECOMPUTE, "weights on storage, recompute")                                                       \
    X(STORED_WEIGHTS_TIED, "tied table on storage, P > 1")                                                             \
    X(STORED_WEIGHTS_MICROBATCHES, "weights on storage, several microbatches")                                         \
    X(STORAGE_ACTIVATIONS, "moments on storage, activations on the host")                                              \
    X(STORAGE_TIED, "moments of a tied table on storage, P > 1")                                                       \
    X(STORAGE_STAGES, "moments on storage, P > 1")                                                                     \
    X(STORAGE_CLIPPED, "moments on storage, clipped")                                                                  \
    X(ACTIVATIONS, "activations on the host")                                                                          \
    X(ACTIVATIONS_RECOMPUTE, "activations on the host, recompute")                                                     \
    X(ACTIVATIONS_SELECTIVE, "activations on the host, selective recompute")                                           \
    X(ACTIVATIONS_TP, "activations on the host, tp")                                                                   \
    X(ACTIVATIONS_SP, "activations on the host, tp+sp")                                                                \
    X(ACTIVATIONS_GRID, "activations on the host, a tp grid")                                                          \
    X(ACTIVATIONS_RING, "activations on the host, ring or zig-zag")                                                    \
    X(ACTIVATIONS_ULYSSES, "activations on the host, ulysses")                                                         \
    X(ACTIVATIONS_ZERO_3, "activations on the host, zero3")                                                            \
    X(ACTIVATIONS_OPTIMIZER, "activations and optimizer on the host")                                                  \
    X(ACTIVATIONS_WEIGHTS, "activations and weights on the host")                                                      \
    X(ACTIVATIONS_STAGES, "activations on the host, P > 1")                                                            \
    X(ACTIVATIONS_INTERLEAVED, "activations on the host, interleaved")                                                 \
    X(ACTIVATIONS_MICROBATCHES, "activations on the host, several microbatches")                                       \
    X(ACTIVATIONS_ENCODER_DECODER, "activations on the host, t5")                                                      \
    X(ACTIVATIONS_SWIN, "activations on the host, swin")                                                               \
    X(ACTIVATIONS_PADDING, "activations on the host, padded samples")                                                  \
    X(ACTIVATIONS_STORED, "activations on storage")                                                                    \
    X(ACTIVATIONS_STORED_PART, "a part of the host's activations on storage")                                          \
    X(ACTIVATIONS_STORED_MOMENTS, "activations and moments on storage")                                                \
    X(ACTIVATIONS_STORED_RECOMPUTE, "activations on storage, recompute")                                               \
    X(ACTIVATIONS_STORED_STAGES, "activations on storage, P > 1")                                                      \
    X(ACTIVATIONS_STORED_INTERLEAVED, "activations on storage, interleaved")                                           \
    X(ACTIVATIONS_STORED_MICROBATCHES, "activations on storage, several microbatches")                                 \
    X(ACTIVATIONS_PART, "a part of a block's activations on the host")                                                 \
    X(ACTIVATIONS_PART_RECOMPUTE, "a part of them, selective recompute")                                               \
    X(ACTIVATIONS_PART_STAGES, "a part of them, P > 1")                                                                \
    X(ACTIVATIONS_PART_MICROBATCHES, "a part of them, several microbatches")

GAL_CELLS(CELLS);

static void hit_stored(const gal_plan *plan, const gal_strategy *s, bool *hit)
{
    const uint32_t percent = s->offload_storage_activations_percent;
    if (percent == 0) {
        return;
    }
    hit[percent == s->offload_activations_percent ? ACTIVATIONS_STORED : ACTIVATIONS_STORED_PART] = true;
    hit[ACTIVATIONS_STORED_MOMENTS] |= s->offload_storage_percent > 0;
    hit[ACTIVATIONS_STORED_RECOMPUTE] |= percent == 100 && s->recompute == GAL_RECOMPUTE_FULL;
    hit[ACTIVATIONS_STORED_STAGES] |= plan->stage_count > 1;
    hit[ACTIVATIONS_STORED_INTERLEAVED] |= plan->schedule == GAL_SCHEDULE_INTERLEAVED;
    hit[ACTIVATIONS_STORED_MICROBATCHES] |= plan->microbatch_count > 1;
}

static void hit_activations(const gal_plan *plan, bool *hit)
{
    const gal_family family = plan->model.family;
    bool any = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        if (s->offload_activations_percent == 0) {
            continue;
        }
        const bool part = s->offload_activations_percent < 100;
        any = true;
        hit_stored(plan, s, hit);
        hit[ACTIVATIONS_PART] |= part;
        hit[ACTIVATIONS_PART_RECOMPUTE] |= part && s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[ACTIVATIONS_PART_STAGES] |= part && plan->stage_count > 1;
        hit[ACTIVATIONS_PART_MICROBATCHES] |= part && plan->microbatch_count > 1;
        hit[ACTIVATIONS_RECOMPUTE] |= !part && s->recompute == GAL_RECOMPUTE_FULL; /* of its input a part is nothing */
        hit[ACTIVATIONS_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[ACTIVATIONS_TP] |=
            gal_strategy_degree(s, GAL_AXIS_TP) > 1 && s->tp_mode == GAL_TP_1D && !s->sequence_parallel;
        hit[ACTIVATIONS_SP] |= s->sequence_parallel;
        hit[ACTIVATIONS_GRID] |= s->tp_mode != GAL_TP_1D;
        hit[ACTIVATIONS_RING] |= gal_strategy_ring_degree(s) > 1;
        hit[ACTIVATIONS_ULYSSES] |= gal_strategy_degree(s, GAL_AXIS_ULYSSES) > 1;
        hit[ACTIVATIONS_ZERO_3] |= s->zero_stage == 3;
        hit[ACTIVATIONS_OPTIMIZER] |= s->offload_optimizer_percent > 0;
        hit[ACTIVATIONS_WEIGHTS] |= s->offload_parameters_percent > 0;
    }
    hit[ACTIVATIONS] = any;
    hit[ACTIVATIONS_STAGES] = any && plan->stage_count > 1;
    hit[ACTIVATIONS_INTERLEAVED] = any && plan->schedule == GAL_SCHEDULE_INTERLEAVED;
    hit[ACTIVATIONS_MICROBATCHES] = any && plan->microbatch_count > 1;
    hit[ACTIVATIONS_ENCODER_DECODER] = any && family == GAL_FAMILY_T5;
    hit[ACTIVATIONS_SWIN] = any && family == GAL_FAMILY_SWIN;
    hit[ACTIVATIONS_PADDING] = any && plan->model.padding;
}

static void hit_stored_weights(const gal_plan *plan, bool *hit)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        if (s->offload_storage_parameters_percent == 0) {
            continue;
        }
        const bool all = s->offload_storage_parameters_percent == s->offload_parameters_percent;
        hit[all ? STORED_WEIGHTS_ALL : STORED_WEIGHTS_PART] = true;
        hit[STORED_WEIGHTS_BLOCKS] |= plan->storage_part_bytes == GAL_STORAGE_BLOCK_BYTES;
        hit[STORED_WEIGHTS_ZERO_3] |= s->zero_stage == 3;
        hit[STORED_WEIGHTS_GRID] |= s->tp_mode != GAL_TP_1D;
        hit[STORED_WEIGHTS_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
        hit[STORED_WEIGHTS_MICROBATCHES] |= plan->microbatch_count > 1;
    }
    hit[STORED_WEIGHTS_TIED] = plan->model.tied_embeddings && plan->stage_count > 1 &&
                               gal_plan_block_strategy(plan, 0)->offload_storage_parameters_percent == 100;
}

static void hit_storage(const gal_plan *plan, bool *hit)
{
    hit_stored_weights(plan, hit);
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        if (s->offload_storage_percent == 0) {
            continue;
        }
        hit[s->offload_storage_percent == s->offload_optimizer_percent ? STORAGE_ALL : STORAGE_PART] = true;
        hit[STORAGE_BLOCKS] |= plan->storage_part_bytes == GAL_STORAGE_BLOCK_BYTES;
        hit[STORAGE_ZERO] |= s->zero_stage > 0;
        hit[STORAGE_GRID] |= s->tp_mode != GAL_TP_1D;
        hit[STORAGE_WEIGHTS] |= s->offload_parameters_percent > 0;
        hit[STORAGE_ACTIVATIONS] |= s->offload_activations_percent > 0;
        hit[STORAGE_STAGES] |= plan->stage_count > 1;
        hit[STORAGE_CLIPPED] |= plan->model.optimizer.gradient_clip_norm > 0;
    }
    hit[STORAGE_TIED] = plan->model.tied_embeddings && plan->stage_count > 1 &&
                        gal_plan_block_strategy(plan, 0)->offload_storage_percent == 100;
}

static void hit_offload(const gal_plan *plan, bool *hit)
{
    hit_activations(plan, hit);
    hit_storage(plan, hit);
    const gal_model *m = &plan->model;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        if (s->offload_optimizer_percent == 0) {
            continue;
        }
        hit[(s->offload_optimizer_percent == 100 ? OFFLOAD_ALL : OFFLOAD_PART)] = true;
        hit[OFFLOAD_DP] |= gal_strategy_degree(s, GAL_AXIS_DP) > 1;
        if (s->zero_stage > 0) {
            hit[OFFLOAD_ZERO_1 + s->zero_stage - 1] = true;
        }
        hit[OFFLOAD_GRID] |= s->tp_mode != GAL_TP_1D;
        hit[OFFLOAD_POSITIONS] |= gal_strategy_sequence_degree(s) > 1;
        hit[OFFLOAD_WEIGHTS] |= s->offload_parameters_percent > 0;
        hit[OFFLOAD_WEIGHTS_PART] |= s->offload_parameters_percent > 0 && s->offload_parameters_percent < 100;
        hit[OFFLOAD_WEIGHTS_ZERO_3] |= s->offload_parameters_percent > 0 && s->zero_stage == 3;
        hit[OFFLOAD_WEIGHTS_GRID] |= s->offload_parameters_percent > 0 && s->tp_mode != GAL_TP_1D;
        hit[OFFLOAD_WEIGHTS_RECOMPUTE] |= s->offload_parameters_percent > 0 && s->recompute == GAL_RECOMPUTE_FULL;
        hit[OFFLOAD_SPLIT] |= plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
        hit[OFFLOAD_INTERLEAVED] |= plan->schedule == GAL_SCHEDULE_INTERLEAVED;
        hit[OFFLOAD_MICROBATCHES] |= plan->microbatch_count > 1;
        hit[OFFLOAD_CLIPPED] |= m->optimizer.gradient_clip_norm > 0;
    }
    hit[OFFLOAD_WEIGHTS_TIED] = m->tied_embeddings && plan->stage_count > 1 &&
                                gal_plan_block_strategy(plan, 0)->offload_parameters_percent == 100;
    hit[OFFLOAD_TIED] = m->tied_embeddings && plan->stage_count > 1 &&
                        gal_plan_block_strategy(plan, 0)->offload_optimizer_percent == 100;
}

const gal_coverage_cells gal_cells_of_offload = {CELL_COUNT, names, hit_offload};
