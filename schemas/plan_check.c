#include "schemas/plan_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schemas/limits.h"

static uint32_t smallest_prime_factor(uint32_t value)
{
    for (uint32_t factor = 2; factor <= value / factor; factor++) {
        if (value % factor == 0) {
            return factor;
        }
    }
    return value;
}

/* The product of the axes from the innermost up to each one must be the product of the smallest prime factors of
 * device_count up to some one: then the axis covers whole atoms. Prime factors ascend, so one pass meets them all. */
static bool covers_whole_atoms(const gal_strategy *strategy, uint32_t device_count)
{
    uint64_t atoms = 1;
    uint64_t axes = 1;
    uint32_t rest = device_count;
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        axes *= strategy->axis[i].degree;
        while (atoms < axes && rest > 1) {
            uint32_t factor = smallest_prime_factor(rest);
            atoms *= factor;
            rest /= factor;
        }
        if (atoms != axes) {
            return false;
        }
    }
    return atoms == device_count;
}

/* The axes with that of a grid as the axes of its sides, innermost first (gal_mesh_of). */
static gal_strategy grid_axes(const gal_strategy *strategy)
{
    const uint32_t side = gal_strategy_grid_side(strategy);
    gal_strategy out = {0};
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis *axis = &strategy->axis[i];
        const bool grid = axis->kind == GAL_AXIS_TP && strategy->tp_mode != GAL_TP_1D;
        const uint32_t rest = grid ? axis->degree / side / side : 1; /* a depth, or the third side */
        const uint32_t degrees[3] = {grid ? side : axis->degree, grid ? side : 1, rest};
        for (uint32_t k = 0; k < 3; k++) {
            if (degrees[k] > 1) {
                out.axis[out.axis_count++] = (gal_axis){axis->kind, degrees[k]};
            }
        }
    }
    return out;
}

static const char *mode_rule_broken(const gal_strategy *strategy)
{
    if ((unsigned)strategy->tp_mode >= GAL_TP_MODE_COUNT) {
        return "unknown mode of a tp axis";
    }
    if (strategy->tp_mode == GAL_TP_1D) {
        return strategy->tp_depth == 0 ? NULL : "depth needs a tp axis of mode 2.5d";
    }
    if (gal_strategy_degree(strategy, GAL_AXIS_TP) == 1) {
        return "a mode of tp needs a tp axis";
    }
    if (strategy->tp_mode == GAL_TP_2P5D ? strategy->tp_depth < 2 : strategy->tp_depth != 0) {
        return "depth must be at least 2 in mode 2.5d, and is of no other";
    }
    if (gal_strategy_grid_side(strategy) == 0) {
        return strategy->tp_mode == GAL_TP_2D     ? "in mode 2d the tp degree must be a square"
               : strategy->tp_mode == GAL_TP_2P5D ? "in mode 2.5d the tp degree must be depth times a square"
                                                  : "in mode 3d the tp degree must be a cube";
    }
    if (gal_strategy_sequence_degree(strategy) > 1) {
        return "a ulysses or ring axis needs tp of mode 1d";
    }
    return strategy->sequence_parallel ? "sequence_parallel needs tp of mode 1d" : NULL;
}

static const char *axes_rule_broken(const gal_strategy *strategy, uint32_t device_count)
{
    uint32_t seen = 0;
    uint64_t product = 1;
    if (strategy->axis_count > GAL_AXES_MAX) {
        return "too many axes";
    }
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis *axis = &strategy->axis[i];
        if ((unsigned)axis->kind >= GAL_AXIS_KIND_COUNT) {
            return "unknown axis kind";
        }
        if (axis->degree < 2) {
            return "axis degrees must be at least 2";
        }
        if ((seen & (1u << axis->kind)) != 0) {
            return "no axis kind may come twice";
        }
        seen |= 1u << axis->kind;
        product *= axis->degree;
        if (product > device_count) {
            return "axis degrees must multiply to the devices of a stage";
        }
    }
    if (product != device_count) {
        return "axis degrees must multiply to the devices of a stage";
    }
    const char *rule = mode_rule_broken(strategy);
    if (rule != NULL) {
        return rule;
    }
    const gal_strategy sides = grid_axes(strategy);
    if (!covers_whole_atoms(&sides, device_count)) {
        return "axes must cover whole prime factors of the devices of a stage, ascending from the innermost";
    }
    return NULL;
}

static uint32_t position_axes(const gal_strategy *strategy)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        count += gal_axis_splits_positions(strategy->axis[i].kind);
    }
    return count;
}

static const char *switches_rule_broken(const gal_strategy *strategy)
{
    bool has_sdp = gal_strategy_degree(strategy, GAL_AXIS_SDP) > 1;
    if (has_sdp && (strategy->zero_stage < 1 || strategy->zero_stage > 3)) {
        return "zero_stage must be 1, 2 or 3 with an sdp axis";
    }
    const bool splits_positions = gal_strategy_sequence_degree(strategy) > 1;
    if (strategy->keep_weights && strategy->tp_mode != GAL_TP_3D) {
        return "keep_weights needs tp of mode 3d";
    }
    if (strategy->keep_weights && (strategy->zero_stage < 1 || strategy->zero_stage > 2)) {
        return "keep_weights needs zero_stage 1 or 2";
    }
    if (!has_sdp && !splits_positions && !strategy->keep_weights && strategy->zero_stage != 0) {
        return "zero_stage must be 0 without an sdp axis";
    }
    if (strategy->zero_stage > 3) {
        return "zero_stage must be at most 3";
    }
    if (strategy->sequence_parallel && splits_positions) {
        return "sequence_parallel must not stand beside a ulysses, ring or zigzag axis";
    }
    if (position_axes(strategy) > 1) {
        return "of the ulysses, ring and zigzag axes one must stand alone";
    }
    if (strategy->sequence_parallel && gal_strategy_degree(strategy, GAL_AXIS_TP) == 1) {
        return "sequence_parallel needs a tp axis";
    }
    if ((unsigned)strategy->recompute >= GAL_RECOMPUTE_COUNT) {
        return "unknown recompute";
    }
    if (strategy->keep_panels && strategy->tp_mode == GAL_TP_1D) {
        return "keep_panels needs tp of mode 2d, 2.5d or 3d";
    }
    if (strategy->keep_panels && strategy->recompute >= GAL_RECOMPUTE_FULL) {
        return "keep_panels must not stand beside full recompute";
    }
    if (strategy->stepped && strategy->tp_mode != GAL_TP_2D && strategy->tp_mode != GAL_TP_2P5D) {
        return "stepped needs tp of mode 2d or 2.5d";
    }
    if (strategy->stepped && strategy->keep_panels) {
        return "stepped has no panels to keep";
    }
    if (strategy->offload_parameters && strategy->offload_optimizer_percent != 100) {
        return "offload of parameters needs that of 100 percent of the optimizer";
    }
    if (strategy->offload_parameters && strategy->zero_stage != 0 && strategy->zero_stage != 3) {
        return "offload of parameters needs zero_stage 0 or 3";
    }
    if (strategy->offload_parameters && strategy->zero_stage == 3 && strategy->tp_mode != GAL_TP_1D &&
        !strategy->stepped) {
        return "offload of parameters beside a tp grid needs zero_stage 0, or stepped";
    }
    if (strategy->offload_storage_percent > strategy->offload_optimizer_percent) {
        return "offload to storage is of what is on the host: storage_percent must be at most optimizer_percent";
    }
    if (strategy->offload_activations && strategy->overlap != GAL_OVERLAP_NONE) {
        return "offload of activations must not stand beside overlap";
    }
    return NULL;
}

static const char *shard_unit_rule_broken(const gal_strategy *strategy)
{
    if ((unsigned)strategy->shard_unit >= GAL_SHARD_UNIT_COUNT) {
        return "unknown shard_unit";
    }
    if (strategy->shard_unit != GAL_SHARD_MATRIX && strategy->tp_mode != GAL_TP_1D) {
        return "shard_unit must be matrix beside a tp grid, whose panels are of one";
    }
    const bool chunk = strategy->shard_unit == GAL_SHARD_CHUNK;
    return chunk != (strategy->chunk_elements > 0) ? "chunk_elements must stand with shard_unit chunk alone" : NULL;
}

static const char *overlap_rule_broken(const gal_strategy *strategy)
{
    const bool crosses = strategy->overlap == GAL_OVERLAP_CROSS_PASS || strategy->overlap == GAL_OVERLAP_FINE;
    if ((unsigned)strategy->overlap >= GAL_OVERLAP_COUNT) {
        return "unknown overlap";
    }
    if (strategy->overlap == GAL_OVERLAP_NONE) {
        return NULL;
    }
    if (strategy->tp_mode != GAL_TP_1D || gal_strategy_degree(strategy, GAL_AXIS_TP) == 1) {
        return "overlap needs a tp axis of mode 1d";
    }
    if (gal_strategy_sequence_degree(strategy) > 1) {
        return "overlap must not stand beside a ulysses or ring axis";
    }
    if (strategy->overlap == GAL_OVERLAP_INTRA_OP && strategy->sequence_parallel) {
        return "overlap intra_op must not stand beside sequence_parallel";
    }
    if (strategy->recompute == GAL_RECOMPUTE_REPEAT) {
        return "overlap must not stand beside recompute repeat: in_pass and cross_pass with full say what is repeated";
    }
    return crosses && strategy->recompute != GAL_RECOMPUTE_FULL
               ? "overlap cross_pass and fine need recompute full: without it in_pass is all there is"
               : NULL;
}

/* What a split of the positions must divide. */
typedef struct position_rules {
    const char *grid, *target, *source, *side;
} position_rules;

static const char *position_rule_broken(const gal_block_shape *block, uint32_t degree, const position_rules *rules)
{
    if (block->positions % degree != 0) {
        return block->side > 0 ? rules->grid : block->decodes ? rules->target : rules->source;
    }
    if (block->in.positions % degree != 0 || block->carried_in.positions % degree != 0) {
        return rules->source;
    }
    return block->kind == GAL_BLOCK_MERGE && block->side % (2 * degree) != 0 ? rules->side : NULL;
}

/* Rows of weights are cut over two sides of a cube. */
static const char *cube_rule_broken(const gal_model *model, const gal_block_shape *block, uint32_t side)
{
    const uint64_t square = (uint64_t)side * side;
    const bool attends = block->kind == GAL_BLOCK_ATTENTION || block->kind == GAL_BLOCK_CROSS_ATTENTION;
    if (model->hidden % square != 0 || (block->kind == GAL_BLOCK_FFN && block->ffn_hidden % square != 0) ||
        (attends && (uint64_t)block->kv_head_count * block->head_dim % square != 0) ||
        (attends && (uint64_t)block->head_count * block->head_dim % square != 0)) {
        return "in mode 3d the square of the side must divide hidden, ffn_hidden and the features of all heads";
    }
    const bool reads_table =
        block->kind == GAL_BLOCK_EMBEDDING || block->kind == GAL_BLOCK_BRIDGE || block->kind == GAL_BLOCK_HEAD;
    return reads_table && gal_model_padded_vocabulary(model) % square != 0
               ? "in mode 3d the square of the side must divide the padded vocabulary"
               : NULL;
}

/* A grid divides what enters and leaves a block too; features of later levels are multiples of hidden. */
static const char *grid_rule_broken(const gal_model *model, const gal_block_shape *block, const gal_strategy *strategy)
{
    const uint32_t side = gal_strategy_grid_side(strategy);
    if (strategy->tp_mode == GAL_TP_1D) {
        return NULL;
    }
    if (model->hidden % side != 0) {
        return "the side of a tp grid must divide hidden";
    }
    const bool cuts_rows_twice = strategy->tp_mode == GAL_TP_3D && !strategy->keep_weights;
    return cuts_rows_twice ? cube_rule_broken(model, block, side) : NULL;
}

static const char *tp_rule_broken(const gal_model *model, const gal_block_shape *block, const gal_strategy *strategy)
{
    const uint32_t tp_degree = gal_strategy_feature_parts(strategy);
    const bool attends = block->kind == GAL_BLOCK_ATTENTION || block->kind == GAL_BLOCK_CROSS_ATTENTION;
    if (attends && block->head_count % tp_degree != 0) {
        return "tp degree must divide head_count";
    }
    if (attends && block->kv_head_count % tp_degree != 0) {
        return "tp degree must divide kv_head_count";
    }
    if (block->kind == GAL_BLOCK_FFN && block->ffn_hidden % tp_degree != 0) {
        return "tp degree must divide ffn_hidden";
    }
    if ((block->kind == GAL_BLOCK_EMBEDDING || block->kind == GAL_BLOCK_BRIDGE || block->kind == GAL_BLOCK_HEAD) &&
        gal_model_padded_vocabulary(model) % tp_degree != 0) {
        return "tp degree must divide the padded vocabulary";
    }
    const char *rule = grid_rule_broken(model, block, strategy);
    if (rule != NULL) {
        return rule;
    }
    static const position_rules rules = {
        .grid = "tp degree must divide the positions of the grid with sequence_parallel",
        .target = "tp degree must divide decoder_sequence_length with sequence_parallel",
        .source = "tp degree must divide sequence_length with sequence_parallel",
        .side = "twice the tp degree must divide the side of the grid with sequence_parallel"};
    return strategy->sequence_parallel ? position_rule_broken(block, tp_degree, &rules) : NULL;
}

static const char *ulysses_rule_broken(const gal_block_shape *block, const gal_strategy *strategy)
{
    static const position_rules rules = {.grid = "ulysses degree must divide the positions of the grid",
                                         .target = "ulysses degree must divide decoder_sequence_length",
                                         .source = "ulysses degree must divide sequence_length",
                                         .side = "twice the ulysses degree must divide the side of the grid"};
    const uint32_t degree = gal_strategy_degree(strategy, GAL_AXIS_ULYSSES);
    const uint32_t heads_cut = degree * gal_strategy_degree(strategy, GAL_AXIS_TP);
    const bool attends = block->kind == GAL_BLOCK_ATTENTION || block->kind == GAL_BLOCK_CROSS_ATTENTION;
    if (degree > 1 && attends && block->head_count % heads_cut != 0) {
        return "tp degree times ulysses degree must divide head_count";
    }
    if (degree > 1 && attends && block->kv_head_count % heads_cut != 0) {
        return "tp degree times ulysses degree must divide kv_head_count";
    }
    return position_rule_broken(block, degree, &rules);
}

static const char *ring_rule_broken(const gal_model *model, const gal_block_shape *block, const gal_strategy *strategy)
{
    static const char sequence[] = "ring degree must divide sequence_length";
    static const position_rules rules = {.grid = sequence, .target = sequence, .source = sequence, .side = sequence};
    const uint32_t degree = gal_strategy_ring_degree(strategy), zigzag = gal_strategy_degree(strategy, GAL_AXIS_ZIGZAG);
    if (degree > GAL_RING_DEGREE_MAX) {
        return "ring degree must be at most 64";
    }
    if (degree > 1 && (model->family == GAL_FAMILY_T5 || model->family == GAL_FAMILY_SWIN)) {
        return "attention with a table of positions has no ring";
    }
    if (degree > 1 && model->padding && model->family == GAL_FAMILY_BERT) {
        return "attention to all positions of padded samples has no ring";
    }
    if (zigzag > 1 && (model->family == GAL_FAMILY_BERT || model->family == GAL_FAMILY_VIT)) {
        return "attention to all positions has no zigzag: a ring is balanced";
    }
    if (zigzag > 1 && block->positions % (2 * zigzag) != 0) {
        return "twice the zigzag degree must divide sequence_length";
    }
    return position_rule_broken(block, degree, &rules);
}

const char *gal_strategy_block_rule_broken(const gal_model *model, const gal_block_shape *block,
                                           const gal_strategy *strategy, uint32_t device_count,
                                           uint32_t microbatch_samples)
{
    const char *rule = axes_rule_broken(strategy, device_count);
    if (rule == NULL) {
        rule = switches_rule_broken(strategy);
    }
    if (rule == NULL) {
        rule = overlap_rule_broken(strategy);
    }
    if (rule == NULL) {
        rule = shard_unit_rule_broken(strategy);
    }
    if (rule != NULL) {
        return rule;
    }
    if (microbatch_samples % gal_strategy_sample_parts(strategy) != 0) {
        return strategy->tp_mode == GAL_TP_1D
                   ? "dp degree times sdp degree must divide the samples of a microbatch"
                   : "dp degree times sdp degree times what a tp grid divides samples into must divide the samples "
                     "of a microbatch";
    }
    if (gal_strategy_halves(strategy, block->kind) &&
        microbatch_samples % (2 * gal_strategy_sample_parts(strategy)) != 0) {
        return "overlap must find two sub-batches: twice dp degree times sdp degree must divide the samples of a "
               "microbatch";
    }
    if (gal_strategy_overlap_of(strategy, block->kind) == GAL_OVERLAP_INTRA_OP && block->positions % 2 != 0) {
        return "overlap intra_op must find two halves: the positions of a block must be even";
    }
    rule = tp_rule_broken(model, block, strategy);
    rule = rule == NULL ? ulysses_rule_broken(block, strategy) : rule;
    return rule == NULL ? ring_rule_broken(model, block, strategy) : rule;
}

const char *gal_strategy_gathers_rule_broken(const gal_strategy *strategy, uint32_t prefetch_depth)
{
    const bool grid = strategy->tp_mode != GAL_TP_1D, sharded = strategy->zero_stage == 3;
    if (prefetch_depth < 2 && strategy->offload_parameters && (grid || sharded)) {
        return "must be 2 with offload of parameters beside zero_stage 3 or a tp grid";
    }
    return prefetch_depth < 2 && grid && sharded ? "must be 2 with zero_stage 3 beside a tp grid" : NULL;
}

const char *gal_strategy_rule_broken(const gal_model *model, gal_block_kind kind, const gal_strategy *strategy,
                                     uint32_t device_count, uint32_t microbatch_samples)
{
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        gal_block_shape block;
        gal_model_type(model, type, &block);
        if (block.kind == kind) {
            return gal_strategy_block_rule_broken(model, &block, strategy, device_count, microbatch_samples);
        }
    }
    return "the model has no block of this kind";
}

bool gal_strategy_fits_all(const gal_model *model, const gal_strategy *strategy, uint32_t device_count,
                           uint32_t microbatch_samples)
{
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        gal_block_shape block;
        gal_model_type(model, type, &block);
        if (gal_strategy_block_rule_broken(model, &block, strategy, device_count, microbatch_samples) != NULL) {
            return false;
        }
    }
    return true;
}

/* ---- the whole plan ---- */

__attribute__((format(printf, 3, 4))) static gal_code refuse(const char *prefix, gal_error *err, const char *format,
                                                             ...)
{
    char text[GAL_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gal_fail(err, GAL_ERR_DOCUMENT, "%s%s", prefix == NULL ? "" : prefix, text);
}

static bool shares_weights(const gal_model *model)
{
    return model->tied_embeddings || model->family == GAL_FAMILY_T5;
}

static gal_code check_counts(const gal_plan *plan, const char *prefix, gal_error *err)
{
    const uint32_t positions = gal_model_longest_sequence(&plan->model);
    if (plan->pp_degree == 0 || plan->cluster.device_count % plan->pp_degree != 0) {
        return refuse(prefix, err, "/pp_degree: must divide device_count %u, got %u", plan->cluster.device_count,
                      plan->pp_degree);
    }
    if (plan->stage_count != plan->pp_degree && plan->schedule == GAL_SCHEDULE_INTERLEAVED) {
        return refuse(prefix, err, "/stages: must be pp_degree times chunk_count %u stages, got %u",
                      plan->pp_degree * gal_plan_chunk_count(plan), gal_plan_piece_count(plan));
    }
    if (plan->stage_count != plan->pp_degree) {
        return refuse(prefix, err, "/stages: must be pp_degree %u stages, got %u", plan->pp_degree, plan->stage_count);
    }
    if (plan->global_batch_samples == 0 || (uint64_t)plan->global_batch_samples * positions > GAL_BATCH_TOKENS_MAX) {
        return refuse(prefix, err, "/global_batch_samples: must be 1 to %u with sequence_length %u, got %u",
                      GAL_BATCH_TOKENS_MAX / positions, positions, plan->global_batch_samples);
    }
    if (plan->microbatch_count == 0 || plan->global_batch_samples % plan->microbatch_count != 0) {
        return refuse(prefix, err, "/microbatch_count: must divide global_batch_samples %u, got %u",
                      plan->global_batch_samples, plan->microbatch_count);
    }
    if ((unsigned)plan->schedule >= GAL_SCHEDULE_COUNT) {
        return refuse(prefix, err, "/schedule: unknown schedule");
    }
    if (plan->schedule == GAL_SCHEDULE_INTERLEAVED) {
        if (plan->pp_degree < 2) {
            return refuse(prefix, err, "/schedule: interleaved needs pp_degree of at least 2, got %u", plan->pp_degree);
        }
        if (plan->chunk_count < 2 || plan->chunk_count > GAL_PLAN_CHUNKS_MAX) {
            return refuse(prefix, err, "/chunk_count: must be 2 to %u, got %u", GAL_PLAN_CHUNKS_MAX, plan->chunk_count);
        }
    } else if (plan->chunk_count > 1) {
        return refuse(prefix, err, "/chunk_count: only with the interleaved schedule, got %u", plan->chunk_count);
    }
    if ((uint64_t)plan->pp_degree * gal_plan_chunk_count(plan) * plan->microbatch_count > GAL_STAGE_MICROBATCHES_MAX) {
        return refuse(prefix, err, "/microbatch_count: must be at most %u with pp_degree %u, got %u",
                      GAL_STAGE_MICROBATCHES_MAX / (plan->pp_degree * gal_plan_chunk_count(plan)), plan->pp_degree,
                      plan->microbatch_count);
    }
    if (plan->prefetch_depth < 1 || plan->prefetch_depth > 2) {
        return refuse(prefix, err, "/prefetch_depth: must be 1 or 2, got %u", plan->prefetch_depth);
    }
    if (plan->gradient_reuses_parameter && plan->microbatch_count != 1) {
        return refuse(prefix, err,
                      "/gradient_reuses_parameter: needs one backward per step, microbatch_count 1, got %u",
                      plan->microbatch_count);
    }
    if (plan->gradient_reuses_parameter && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE) {
        return refuse(prefix, err, "/gradient_reuses_parameter: not with zero_bubble, whose backward has two parts");
    }
    if (plan->gradient_reuses_parameter && shares_weights(&plan->model)) {
        return refuse(prefix, err, "/gradient_reuses_parameter: needs weights that no two blocks share");
    }
    if (plan->storage_part_bytes > GAL_STORAGE_PART_BYTES_MAX ||
        plan->storage_part_bytes % GAL_STORAGE_BLOCK_BYTES != 0) {
        return refuse(prefix, err, "/storage_part_bytes: must be a multiple of %u and at most %u, got %u",
                      GAL_STORAGE_BLOCK_BYTES, GAL_STORAGE_PART_BYTES_MAX, plan->storage_part_bytes);
    }
    if (plan->communication_ctas > GAL_COMMUNICATION_CTAS_MAX) {
        return refuse(prefix, err, "/communication_ctas: must be at most %u, got %u", GAL_COMMUNICATION_CTAS_MAX,
                      plan->communication_ctas);
    }
    return GAL_OK;
}

/* Runs lie in the order of the stages, none is empty, and together they have the model's blocks. */
static gal_code check_cover(const gal_plan *plan, const char *prefix, gal_error *err)
{
    uint32_t block_count = gal_model_block_count(&plan->model);
    uint64_t covered = 0;
    uint32_t next_run = 0;
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
        const gal_plan_stage *stage = &plan->stage[s];
        if (stage->run_count == 0) {
            return refuse(prefix, err, "/stages/%u: must have at least one block", s);
        }
        if (stage->first_run != next_run || stage->run_count > plan->run_count - next_run) {
            return refuse(prefix, err, "/stages/%u: runs must follow those of the stage before", s);
        }
        for (uint32_t r = 0; r < stage->run_count; r++) {
            uint32_t run_blocks = plan->run[next_run + r].block_count;
            if (run_blocks == 0) {
                return refuse(prefix, err, "/stages/%u/runs/%u/block_count: must be >= 1, got 0", s, r);
            }
            covered += run_blocks;
        }
        next_run += stage->run_count;
    }
    if (covered != block_count || next_run != plan->run_count) {
        return refuse(prefix, err, "/stages: must cover the model's %u blocks once, got %llu", block_count,
                      (unsigned long long)covered);
    }
    return GAL_OK;
}

/* One block of each type that the run has. */
static gal_code check_run(const gal_plan *plan, uint32_t first_block, const gal_plan_run *run, const char *place,
                          const char *prefix, gal_error *err)
{
    uint32_t types_left = (1U << gal_model_type_count(&plan->model)) - 1;
    for (uint32_t i = 0; i < run->block_count && types_left != 0; i++) {
        gal_block_shape block;
        gal_model_block(&plan->model, first_block + i, &block);
        if ((types_left >> block.type & 1U) == 0) {
            continue;
        }
        types_left &= ~(1U << block.type);
        const char *rule = gal_strategy_block_rule_broken(
            &plan->model, &block, &run->strategy, gal_plan_stage_devices(plan), gal_plan_microbatch_samples(plan));
        if (rule != NULL) {
            return refuse(prefix, err, "%s/strategy: %s (%s block)", place, rule, gal_block_kind_names[block.kind]);
        }
    }
    return GAL_OK;
}

static gal_code check_gathers(const gal_plan *plan, const char *prefix, gal_error *err)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const char *rule = gal_strategy_gathers_rule_broken(&plan->run[r].strategy, plan->prefetch_depth);
        if (rule != NULL) {
            return refuse(prefix, err, "/prefetch_depth: %s, got %u", rule, plan->prefetch_depth);
        }
        if (plan->gradient_reuses_parameter && plan->run[r].strategy.offload_optimizer_percent > 0) {
            return refuse(prefix, err, "/gradient_reuses_parameter: not beside offload");
        }
    }
    return GAL_OK;
}

/* The two parts of a split backward are of whole microbatches. */
static gal_code check_overlap(const gal_plan *plan, const char *prefix, gal_error *err)
{
    for (uint32_t r = 0; r < plan->run_count && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE; r++) {
        if (plan->run[r].strategy.offload_activations) {
            return refuse(prefix, err, "/schedule: zero_bubble must not stand beside offload of activations");
        }
    }
    for (uint32_t r = 0; r < plan->run_count && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE; r++) {
        if (plan->run[r].strategy.overlap != GAL_OVERLAP_NONE) {
            return refuse(prefix, err, "/schedule: zero_bubble must not stand beside overlap %s",
                          gal_overlap_names[plan->run[r].strategy.overlap]);
        }
    }
    return GAL_OK;
}

static gal_code check_strategies(const gal_plan *plan, const char *prefix, gal_error *err)
{
    uint32_t block = 0;
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
        const gal_plan_stage *stage = &plan->stage[s];
        for (uint32_t r = 0; r < stage->run_count; r++) {
            const gal_plan_run *run = &plan->run[stage->first_run + r];
            char place[64];
            (void)snprintf(place, sizeof place, "/stages/%u/runs/%u", s, r);
            gal_code code = check_run(plan, block, run, place, prefix, err);
            if (code != GAL_OK) {
                return code;
            }
            block += run->block_count;
        }
    }
    return GAL_OK;
}

/* Whether a run has a block that holds the token table. */
static bool holds_table(const gal_plan *plan, uint32_t first_block, const gal_plan_run *run)
{
    for (uint32_t i = 0; i < run->block_count; i++) {
        gal_block_shape block;
        gal_model_block(&plan->model, first_block + i, &block);
        if ((block.shared >> GAL_SHARED_TABLE & 1U) != 0) {
            return true;
        }
    }
    return false;
}

/* All holders of the token table keep and shard it alike; the first block is one if there are several. */
static gal_code check_tied(const gal_plan *plan, const char *prefix, gal_error *err)
{
    const bool bridge = plan->model.family == GAL_FAMILY_T5;
    uint32_t block = 0;
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
        const gal_plan_stage *stage = &plan->stage[s];
        for (uint32_t r = 0; r < stage->run_count; r++) {
            const gal_plan_run *run = &plan->run[stage->first_run + r];
            const uint32_t first = block;
            block += run->block_count;
            if (gal_strategy_same_shards(&plan->run[0].strategy, &run->strategy) || !holds_table(plan, first, run)) {
                continue;
            }
            return refuse(prefix, err,
                          "/stages/%u/runs/%u/strategy: %s must have equal axes, zero_stage and places of parameters "
                          "and optimizer",
                          s, r,
                          bridge ? "the blocks that hold the token table (embedding, bridge, head if tied)"
                                 : "with tied embeddings the first and the last block");
        }
    }
    return GAL_OK;
}

gal_code gal_plan_check(const gal_plan *plan, const char *prefix, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(check_counts(plan, prefix, err));
    GAL_TRY(check_cover(plan, prefix, err));
    GAL_TRY(check_strategies(plan, prefix, err));
    GAL_TRY(check_gathers(plan, prefix, err));
    GAL_TRY(check_overlap(plan, prefix, err));
    GAL_TRY(check_tied(plan, prefix, err));
cleanup:
    return code;
}
