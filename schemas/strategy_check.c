#include "schemas/limits.h"
#include "schemas/plan_check.h"

static uint32_t smallest_prime_factor(uint32_t value)
{
    if (value % 2 == 0) { /* nearly always, and without a division */
        return 2;
    }
    for (uint32_t factor = 3; factor <= value / factor; factor++) {
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
            const uint32_t factor = smallest_prime_factor(rest);
            atoms *= factor;
            rest = factor == 2 ? rest / 2 : rest / factor;
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
    bool covers = false;
    if (strategy->tp_mode == GAL_TP_1D) {
        covers = covers_whole_atoms(strategy, device_count);
    } else {
        const gal_strategy sides = grid_axes(strategy);
        covers = covers_whole_atoms(&sides, device_count);
    }
    return covers ? NULL
                  : "axes must cover whole prime factors of the devices of a stage, ascending from the innermost";
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
    if (strategy->offload_parameters_percent > strategy->offload_optimizer_percent) {
        return "offload of parameters is of what is updated on the host: parameters_percent must be at most "
               "optimizer_percent";
    }
    if (strategy->offload_parameters_percent > 0 && strategy->zero_stage != 0 && strategy->zero_stage != 3) {
        return "offload of parameters needs zero_stage 0 or 3";
    }
    if (strategy->offload_parameters_percent > 0 && strategy->zero_stage == 3 && strategy->tp_mode != GAL_TP_1D &&
        !strategy->stepped) {
        return "offload of parameters beside a tp grid needs zero_stage 0, or stepped";
    }
    if (strategy->offload_storage_percent > strategy->offload_optimizer_percent) {
        return "offload to storage is of what is on the host: storage_percent must be at most optimizer_percent";
    }
    if (strategy->offload_storage_masters && strategy->offload_storage_percent == 0) {
        return "storage_masters needs a storage_percent, whose masters they are";
    }
    if (strategy->offload_storage_parameters_percent > strategy->offload_storage_percent ||
        strategy->offload_storage_parameters_percent > strategy->offload_parameters_percent) {
        return "weights on storage are of those on the host alone, with their moments: storage_parameters_percent must "
               "be at most parameters_percent and storage_percent";
    }
    if (strategy->offload_activations_percent > 0 && strategy->overlap != GAL_OVERLAP_NONE) {
        return "offload of activations must not stand beside overlap";
    }
    if (strategy->offload_storage_activations_percent > strategy->offload_activations_percent) {
        return "offload to storage is of what goes to the host: storage_activations_percent must be at most "
               "activations_percent";
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

const char *gal_strategy_all_blocks_rule_broken(const gal_model *model, const gal_strategy *strategy,
                                                uint32_t device_count, uint32_t microbatch_samples)
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
    if (rule == NULL && strategy->offload_storage_masters && !gal_dtype_is_narrow(model->compute_dtype)) {
        rule = "storage_masters needs a model of 16 bits: others have no masters";
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
    return NULL;
}

const char *gal_strategy_one_block_rule_broken(const gal_model *model, const gal_block_shape *block,
                                               const gal_strategy *strategy, uint32_t microbatch_samples)
{
    if (gal_strategy_halves(strategy, block->kind) &&
        microbatch_samples % (2 * gal_strategy_sample_parts(strategy)) != 0) {
        return "overlap must find two sub-batches: twice dp degree times sdp degree must divide the samples of a "
               "microbatch";
    }
    if (gal_strategy_overlap_of(strategy, block->kind) == GAL_OVERLAP_INTRA_OP && block->positions % 2 != 0) {
        return "overlap intra_op must find two halves: the positions of a block must be even";
    }
    const char *rule = tp_rule_broken(model, block, strategy);
    rule = rule == NULL ? ulysses_rule_broken(block, strategy) : rule;
    return rule == NULL ? ring_rule_broken(model, block, strategy) : rule;
}

const char *gal_strategy_block_rule_broken(const gal_model *model, const gal_block_shape *block,
                                           const gal_strategy *strategy, uint32_t device_count,
                                           uint32_t microbatch_samples)
{
    const char *rule = gal_strategy_all_blocks_rule_broken(model, strategy, device_count, microbatch_samples);
    return rule == NULL ? gal_strategy_one_block_rule_broken(model, block, strategy, microbatch_samples) : rule;
}

const char *gal_strategy_gathers_rule_broken(const gal_strategy *strategy, uint32_t prefetch_depth)
{
    const bool grid = strategy->tp_mode != GAL_TP_1D, sharded = strategy->zero_stage == 3;
    if (prefetch_depth < 2 && strategy->offload_parameters_percent > 0 && (grid || sharded)) {
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
