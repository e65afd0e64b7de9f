#include <stdio.h>

#include "schemas/plan.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_axis_kind_names[GAL_AXIS_KIND_COUNT] = {GAL_AXIS_KINDS(X)};
const char *const gal_tp_mode_names[GAL_TP_MODE_COUNT] = {GAL_TP_MODES(X)};
const char *const gal_recompute_names[GAL_RECOMPUTE_COUNT] = {GAL_RECOMPUTES(X)};
const char *const gal_overlap_names[GAL_OVERLAP_COUNT] = {GAL_OVERLAPS(X)};
const char *const gal_shard_unit_names[GAL_SHARD_UNIT_COUNT] = {GAL_SHARD_UNITS(X)};
#undef X

uint32_t gal_strategy_degree(const gal_strategy *strategy, gal_axis_kind kind)
{
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        if (strategy->axis[i].kind == kind) {
            return strategy->axis[i].degree;
        }
    }
    return 1;
}

uint32_t gal_strategy_sequence_degree(const gal_strategy *strategy)
{
    return gal_strategy_degree(strategy, GAL_AXIS_ULYSSES) * gal_strategy_ring_degree(strategy);
}

gal_axis_kind gal_strategy_sequence_axis(const gal_strategy *strategy)
{
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        if (gal_axis_splits_positions(strategy->axis[i].kind)) {
            return strategy->axis[i].kind;
        }
    }
    return GAL_AXIS_ULYSSES;
}

uint32_t gal_strategy_ring_degree(const gal_strategy *strategy)
{
    return gal_strategy_degree(strategy, GAL_AXIS_RING) * gal_strategy_degree(strategy, GAL_AXIS_ZIGZAG);
}

uint32_t gal_strategy_shards(const gal_strategy *strategy)
{
    return strategy->zero_stage == 0
               ? 1
               : gal_strategy_degree(strategy, GAL_AXIS_SDP) * gal_strategy_sequence_degree(strategy) *
                     (strategy->keep_weights ? gal_strategy_grid_side(strategy) : 1);
}

uint32_t gal_strategy_grid_side(const gal_strategy *strategy)
{
    const uint32_t degree = gal_strategy_degree(strategy, GAL_AXIS_TP);
    const bool cube = strategy->tp_mode == GAL_TP_3D;
    const uint64_t depth = strategy->tp_mode == GAL_TP_2P5D ? strategy->tp_depth : 1;
    if (strategy->tp_mode == GAL_TP_1D) {
        return 1;
    }
    for (uint64_t side = 2; depth * side * side * (cube ? side : 1) <= degree; side++) {
        if (depth * side * side * (cube ? side : 1) == degree) {
            return (uint32_t)side;
        }
    }
    return 0;
}

uint32_t gal_strategy_feature_parts(const gal_strategy *strategy)
{
    return strategy->tp_mode == GAL_TP_1D ? gal_strategy_degree(strategy, GAL_AXIS_TP)
                                          : gal_strategy_grid_side(strategy);
}

uint32_t gal_strategy_sample_parts(const gal_strategy *strategy)
{
    return gal_strategy_degree(strategy, GAL_AXIS_DP) * gal_strategy_degree(strategy, GAL_AXIS_SDP) *
           (gal_strategy_degree(strategy, GAL_AXIS_TP) / gal_strategy_feature_parts(strategy));
}

bool gal_strategy_same_shards(const gal_strategy *a, const gal_strategy *b)
{
    bool are_same = a->axis_count == b->axis_count && a->zero_stage == b->zero_stage && a->tp_mode == b->tp_mode &&
                    a->tp_depth == b->tp_depth && a->keep_weights == b->keep_weights &&
                    a->offload_parameters_percent == b->offload_parameters_percent &&
                    a->offload_optimizer_percent == b->offload_optimizer_percent &&
                    a->offload_storage_percent == b->offload_storage_percent &&
                    a->offload_storage_parameters_percent == b->offload_storage_parameters_percent &&
                    a->offload_storage_masters == b->offload_storage_masters;
    for (uint32_t i = 0; are_same && i < a->axis_count; i++) {
        are_same = a->axis[i].kind == b->axis[i].kind && a->axis[i].degree == b->axis[i].degree;
    }
    return are_same;
}

bool gal_strategy_equal(const gal_strategy *a, const gal_strategy *b)
{
    return gal_strategy_same_shards(a, b) && a->sequence_parallel == b->sequence_parallel &&
           a->recompute == b->recompute && a->overlap == b->overlap && a->keep_panels == b->keep_panels &&
           a->stepped == b->stepped && a->offload_activations_percent == b->offload_activations_percent &&
           a->offload_storage_activations_percent == b->offload_storage_activations_percent &&
           a->shard_unit == b->shard_unit && a->chunk_elements == b->chunk_elements;
}

gal_strategy gal_strategy_on_device(const gal_strategy *strategy)
{
    gal_strategy out = *strategy;
    out.offload_optimizer_percent = out.offload_storage_percent = 0;
    out.offload_parameters_percent = out.offload_storage_parameters_percent = 0;
    out.offload_activations_percent = out.offload_storage_activations_percent = 0;
    out.offload_storage_masters = false;
    return out;
}

gal_overlap gal_strategy_overlap_of(const gal_strategy *strategy, gal_block_kind kind)
{
    return kind == GAL_BLOCK_ATTENTION || kind == GAL_BLOCK_FFN ? strategy->overlap : GAL_OVERLAP_NONE;
}

bool gal_strategy_halves(const gal_strategy *strategy, gal_block_kind kind)
{
    return gal_strategy_overlap_of(strategy, kind) >= GAL_OVERLAP_IN_PASS;
}

static bool names_zero_stage(const gal_strategy *strategy, gal_axis_kind kind)
{
    const bool sharded = gal_strategy_degree(strategy, GAL_AXIS_SDP) > 1;
    const bool along = gal_axis_splits_positions(kind) || (kind == GAL_AXIS_TP && strategy->keep_weights);
    return kind == GAL_AXIS_SDP || (along && !sharded && strategy->zero_stage > 0);
}

const char *gal_strategy_name(const gal_strategy *strategy, char *buffer)
{
    enum { BUFFER_BYTES = GAL_STRATEGY_NAME_BYTES };
    size_t used = 0;
    for (uint32_t i = 0; i < strategy->axis_count && used < BUFFER_BYTES; i++) {
        const gal_axis *axis = &strategy->axis[i];
        used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, "%s%s%u", i == 0 ? "" : "-",
                                 gal_axis_kind_names[axis->kind], axis->degree);
        if (axis->kind == GAL_AXIS_TP && strategy->tp_mode != GAL_TP_1D && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".%s", gal_tp_mode_names[strategy->tp_mode]);
        }
        if (axis->kind == GAL_AXIS_TP && strategy->tp_mode == GAL_TP_2P5D && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".d%u", strategy->tp_depth);
        }
        if (axis->kind == GAL_AXIS_TP && strategy->keep_panels && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".keep");
        }
        if (axis->kind == GAL_AXIS_TP && strategy->keep_weights && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".keepw");
        }
        if (axis->kind == GAL_AXIS_TP && strategy->stepped && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".step");
        }
        if (axis->kind == GAL_AXIS_TP && strategy->sequence_parallel && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".sp");
        } else if (names_zero_stage(strategy, axis->kind) && used < BUFFER_BYTES) {
            used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, ".z%u", strategy->zero_stage);
        }
    }
    if (strategy->axis_count == 0) {
        used = (size_t)snprintf(buffer, BUFFER_BYTES, "serial");
    }
    if (strategy->recompute != GAL_RECOMPUTE_NONE && used < BUFFER_BYTES) {
        static const char *const suffix[] = {"", "-sel", "-ckpt", "-repeat"};
        used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, "%s", suffix[strategy->recompute]);
    }
    if (strategy->overlap != GAL_OVERLAP_NONE && used < BUFFER_BYTES) {
        static const char *const suffix[] = {"", "-intraop", "-inpass", "-crosspass", "-fine"};
        used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, "%s", suffix[strategy->overlap]);
    }
    if (gal_strategy_offloads(strategy) && used < BUFFER_BYTES) {
        char percent[12] = "", stored[16] = "", weights[16] = "", stored_weights[16] = "", activations[16] = "";
        if (strategy->offload_optimizer_percent > 0) {
            (void)snprintf(percent, sizeof percent, "%u", strategy->offload_optimizer_percent);
        }
        if (strategy->offload_storage_percent > 0) {
            (void)snprintf(stored, sizeof stored, "s%u%s", strategy->offload_storage_percent,
                           strategy->offload_storage_masters ? "m" : "");
        }
        if (strategy->offload_parameters_percent > 0) {
            (void)snprintf(weights, sizeof weights, "w%u", strategy->offload_parameters_percent);
        }
        if (strategy->offload_storage_parameters_percent > 0) {
            (void)snprintf(stored_weights, sizeof stored_weights, "s%u", strategy->offload_storage_parameters_percent);
        }
        if (strategy->offload_activations_percent > 0) {
            int length = snprintf(activations, sizeof activations, "a%u", strategy->offload_activations_percent);
            if (strategy->offload_storage_activations_percent > 0) {
                (void)snprintf(activations + length, sizeof activations - (size_t)length, "s%u",
                               strategy->offload_storage_activations_percent);
            }
        }
        used += (size_t)snprintf(buffer + used, BUFFER_BYTES - used, "-off%s%s%s%s%s", percent, stored, weights,
                                 stored_weights, activations);
    }
    if (strategy->shard_unit != GAL_SHARD_MATRIX && used < BUFFER_BYTES) {
        (void)snprintf(buffer + used, BUFFER_BYTES - used, "-%s", gal_shard_unit_names[strategy->shard_unit]);
    }
    return buffer;
}
