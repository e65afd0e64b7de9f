#include "schemas/plan_check.h"

#include <stdarg.h>
#include <stdio.h>

#include "schemas/limits.h"

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
    if (plan->communication_ctas > GAL_COMMUNICATION_CTAS_MAX) {
        return refuse(prefix, err, "/communication_ctas: must be at most %u, got %u", GAL_COMMUNICATION_CTAS_MAX,
                      plan->communication_ctas);
    }
    return GAL_OK;
}

static bool stores_narrow_weights(const gal_plan *plan)
{
    bool stores = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        stores = stores || plan->run[r].strategy.offload_storage_parameters_percent > 0;
    }
    return stores && gal_dtype_is_narrow(plan->model.compute_dtype);
}

/* Of every kind that is on storage a part is whole blocks. */
static gal_code check_parts(const gal_plan *plan, const char *prefix, gal_error *err)
{
    const uint32_t bytes = plan->storage_part_bytes;
    if (bytes > GAL_STORAGE_PART_BYTES_MAX || bytes % GAL_STORAGE_BLOCK_BYTES != 0) {
        return refuse(prefix, err, "/storage_part_bytes: must be a multiple of %u and at most %u, got %u",
                      GAL_STORAGE_BLOCK_BYTES, GAL_STORAGE_PART_BYTES_MAX, bytes);
    }
    if (bytes == GAL_STORAGE_BLOCK_BYTES && stores_narrow_weights(plan)) {
        return refuse(prefix, err,
                      "/storage_part_bytes: must be at least %u with weights of 16 bits on storage, got %u",
                      2 * GAL_STORAGE_BLOCK_BYTES, bytes);
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
        if (plan->run[r].strategy.offload_activations_percent > 0) {
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
    GAL_TRY(check_parts(plan, prefix, err));
    GAL_TRY(check_cover(plan, prefix, err));
    GAL_TRY(check_strategies(plan, prefix, err));
    GAL_TRY(check_gathers(plan, prefix, err));
    GAL_TRY(check_overlap(plan, prefix, err));
    GAL_TRY(check_tied(plan, prefix, err));
cleanup:
    return code;
}
