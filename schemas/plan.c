#include "schemas/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/certificate.h"
#include "schemas/document.h"
#include "schemas/limits.h"
#include "schemas/plan_check.h"
#include "schemas/plan_prices.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_schedule_names[GAL_SCHEDULE_COUNT] = {GAL_SCHEDULES(X)};
#undef X

enum { BLOCKS_MAX = 2 * GAL_LAYERS_MAX + 2 };

/* ---- reading ---- */

static void read_strategy(const gal_json_cursor *at, gal_strategy *out)
{
    gal_json_cursor axes = gal_json_array(at, "axes", 0, GAL_AXES_MAX, &out->axis_count);
    for (uint32_t i = 0; i < out->axis_count; i++) {
        gal_json_cursor axis = gal_json_element(&axes, i);
        out->axis[i].kind = (gal_axis_kind)gal_json_enum(&axis, "kind", gal_axis_kind_names, GAL_AXIS_KIND_COUNT);
        out->axis[i].degree = gal_json_u32(&axis, "degree", 2, GAL_DEVICES_MAX);
        if (out->axis[i].kind == GAL_AXIS_TP && gal_json_has(&axis, "mode")) {
            out->tp_mode = (gal_tp_mode)gal_json_enum(&axis, "mode", gal_tp_mode_names, GAL_TP_MODE_COUNT);
        }
        if (out->axis[i].kind == GAL_AXIS_TP && out->tp_mode == GAL_TP_2P5D) {
            out->tp_depth = gal_json_u32(&axis, "depth", 2, GAL_DEVICES_MAX);
        }
        gal_json_reject_unknown(&axis);
    }
    out->zero_stage = gal_json_u32(at, "zero_stage", 0, 3);
    out->sequence_parallel = gal_json_bool(at, "sequence_parallel");
    out->recompute = (gal_recompute)gal_json_enum(at, "recompute", gal_recompute_names, GAL_RECOMPUTE_COUNT);
    if (gal_json_has(at, "overlap")) {
        out->overlap = (gal_overlap)gal_json_enum(at, "overlap", gal_overlap_names, GAL_OVERLAP_COUNT);
    }
    out->keep_panels = gal_json_has(at, "keep_panels") && gal_json_bool(at, "keep_panels");
    out->keep_weights = gal_json_has(at, "keep_weights") && gal_json_bool(at, "keep_weights");
    out->stepped = gal_json_has(at, "stepped") && gal_json_bool(at, "stepped");
    if (gal_json_has(at, "offload")) {
        const gal_json_cursor offload = gal_json_object(at, "offload");
        if (gal_json_has(&offload, "activations_percent")) {
            out->offload_activations_percent = gal_json_u32(&offload, "activations_percent", 1, 100);
        }
        if (gal_json_has(&offload, "storage_activations_percent")) {
            out->offload_storage_activations_percent = gal_json_u32(&offload, "storage_activations_percent", 1, 100);
        }
        if (out->offload_activations_percent == 0 || gal_json_has(&offload, "optimizer_percent")) {
            out->offload_optimizer_percent = gal_json_u32(&offload, "optimizer_percent", 1, 100);
        }
        if (gal_json_has(&offload, "storage_percent")) {
            out->offload_storage_percent = gal_json_u32(&offload, "storage_percent", 1, 100);
        }
        out->offload_storage_masters =
            gal_json_has(&offload, "storage_masters") && gal_json_bool(&offload, "storage_masters");
        if (gal_json_has(&offload, "parameters_percent")) {
            out->offload_parameters_percent = gal_json_u32(&offload, "parameters_percent", 1, 100);
        }
        if (gal_json_has(&offload, "storage_parameters_percent")) {
            out->offload_storage_parameters_percent = gal_json_u32(&offload, "storage_parameters_percent", 1, 100);
        }
        gal_json_reject_unknown(&offload);
    }
    if (gal_json_has(at, "shard_unit")) {
        out->shard_unit = (gal_shard_unit)gal_json_enum(at, "shard_unit", gal_shard_unit_names, GAL_SHARD_UNIT_COUNT);
    }
    if (out->shard_unit == GAL_SHARD_CHUNK) {
        out->chunk_elements = gal_json_u32(at, "chunk_elements", 1, UINT32_MAX);
    }
    gal_json_reject_unknown(at);
}

static void read_run(const gal_json_cursor *at, gal_plan_run *out)
{
    *out = (gal_plan_run){0};
    out->block_count = gal_json_u32(at, "block_count", 1, BLOCKS_MAX);
    gal_json_cursor strategy = gal_json_object(at, "strategy");
    read_strategy(&strategy, &out->strategy);
    gal_json_reject_unknown(at);
}

static bool grow_runs(gal_plan *plan, uint32_t added)
{
    uint64_t count = (uint64_t)plan->run_count + added; /* at most BLOCKS_MAX for each of BLOCKS_MAX stages */
    gal_plan_run *larger = realloc(plan->run, (size_t)count * sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    plan->run = larger;
    return true;
}

/* False without memory. */
static bool read_stage(const gal_json_cursor *at, gal_plan *plan, gal_plan_stage *out)
{
    uint32_t run_count;
    *out = (gal_plan_stage){.first_run = plan->run_count};
    out->predicted_bytes = gal_json_u64(at, "predicted_bytes", 0, GAL_BYTES_MAX);
    if (gal_json_has(at, "predicted_host_bytes")) {
        out->predicted_host_bytes = gal_json_u64(at, "predicted_host_bytes", 1, GAL_BYTES_MAX);
    }
    if (gal_json_has(at, "predicted_storage_bytes")) {
        out->predicted_storage_bytes = gal_json_u64(at, "predicted_storage_bytes", 1, GAL_BYTES_MAX);
    }
    gal_json_cursor runs = gal_json_array(at, "runs", 1, BLOCKS_MAX, &run_count);
    if (run_count > 0 && !grow_runs(plan, run_count)) {
        return false;
    }
    for (uint32_t i = 0; i < run_count; i++) {
        gal_json_cursor run = gal_json_element(&runs, i);
        read_run(&run, &plan->run[plan->run_count++]);
    }
    out->run_count = run_count;
    gal_json_reject_unknown(at);
    return true;
}

static bool read_stages(const gal_json_cursor *root, gal_plan *plan)
{
    uint32_t stage_count;
    gal_json_cursor stages = gal_json_array(root, "stages", 1, BLOCKS_MAX, &stage_count);
    if (stage_count == 0) {
        return true;
    }
    if (stage_count % gal_plan_chunk_count(plan) != 0) {
        gal_json_member_error(root, "stages", "must be pp_degree times chunk_count %u stages, got %u",
                              plan->pp_degree * plan->chunk_count, stage_count);
        return true;
    }
    plan->stage = calloc(stage_count, sizeof *plan->stage);
    if (plan->stage == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < stage_count; i++) {
        gal_json_cursor stage = gal_json_element(&stages, i);
        if (!read_stage(&stage, plan, &plan->stage[i])) {
            return false;
        }
    }
    plan->stage_count = stage_count / gal_plan_chunk_count(plan);
    return true;
}

static void read_profile_hash(const gal_json_cursor *root, gal_plan *plan)
{
    gal_json_string(root, "profile_hash", plan->profile_hash, sizeof plan->profile_hash);
    size_t length = strlen(plan->profile_hash);
    if (length != 0 && (length != GAL_HASH_BYTES - 1 || strspn(plan->profile_hash, "0123456789abcdef") != length)) {
        gal_json_member_error(root, "profile_hash", "must be empty or 16 hexadecimal digits 0-9a-f");
    }
}

static void read_interval(const gal_json_cursor *root, gal_plan *plan)
{
    const gal_json_cursor at = gal_json_object(root, "simulated_interval");
    plan->simulated_low_seconds = gal_json_f64(&at, "low_seconds", 0.0, GAL_SECONDS_MAX);
    plan->simulated_high_seconds = gal_json_f64(&at, "high_seconds", 0.0, GAL_SECONDS_MAX);
    if (plan->simulated_low_seconds > plan->simulated_seconds) {
        gal_json_member_error(&at, "low_seconds", "must be at most simulated_seconds");
    }
    if (plan->simulated_high_seconds < plan->simulated_seconds) {
        gal_json_member_error(&at, "high_seconds", "must be at least simulated_seconds");
    }
    gal_json_reject_unknown(&at);
}

static bool read_plan(const gal_json_cursor *root, void *out)
{
    gal_plan *plan = out;
    gal_json_expect_document(root, "plan", GAL_PLAN_VERSION);
    gal_json_cursor model = gal_json_object(root, "model");
    gal_model_read_at(&model, &plan->model);
    gal_json_cursor cluster = gal_json_object(root, "cluster");
    gal_cluster_read_at(&cluster, &plan->cluster);
    read_profile_hash(root, plan);
    plan->global_batch_samples = gal_json_u32(root, "global_batch_samples", 1, GAL_BATCH_SAMPLES_MAX);
    plan->microbatch_count = gal_json_u32(root, "microbatch_count", 1, GAL_BATCH_SAMPLES_MAX);
    plan->pp_degree = gal_json_u32(root, "pp_degree", 1, GAL_DEVICES_MAX);
    plan->schedule = (gal_schedule)gal_json_enum(root, "schedule", gal_schedule_names, GAL_SCHEDULE_COUNT);
    if (plan->schedule == GAL_SCHEDULE_INTERLEAVED) {
        plan->chunk_count = gal_json_u32(root, "chunk_count", 2, GAL_PLAN_CHUNKS_MAX);
    }
    plan->prefetch_depth = gal_json_u32(root, "prefetch_depth", 1, 2);
    if (gal_json_has(root, "communication_ctas")) {
        plan->communication_ctas = gal_json_u32(root, "communication_ctas", 1, GAL_COMMUNICATION_CTAS_MAX);
    }
    if (gal_json_has(root, "storage_part_bytes")) {
        plan->storage_part_bytes =
            gal_json_u32(root, "storage_part_bytes", GAL_STORAGE_BLOCK_BYTES, GAL_STORAGE_PART_BYTES_MAX);
    }
    if (gal_json_has(root, "gradient_reuses_parameter")) {
        plan->gradient_reuses_parameter = gal_json_bool(root, "gradient_reuses_parameter");
    }
    plan->fixed_bytes = gal_json_u64(root, "fixed_bytes", 0, GAL_BYTES_MAX);
    plan->objective_seconds = gal_json_f64(root, "objective_seconds", 0.0, GAL_SECONDS_MAX);
    plan->simulated_seconds = gal_json_f64(root, "simulated_seconds", 0.0, GAL_SECONDS_MAX);
    if (gal_json_has(root, "simulated_interval")) {
        read_interval(root, plan);
    }
    plan->lower_bound_seconds = gal_json_f64(root, "lower_bound_seconds", 0.0, GAL_SECONDS_MAX);
    if (gal_json_has(root, "certificate")) {
        const gal_json_cursor certificate = gal_json_object(root, "certificate");
        gal_certificate_read_at(&certificate, &plan->certificate);
    }
    gal_plan_prices_read_at(root, plan);
    bool has_memory = read_stages(root, plan);
    gal_json_reject_unknown(root);
    return has_memory;
}

/* gal_plan_check says "/stages/0/runs/1: rule"; in a document the place has a line and a column too. */
static void record_broken_rule(gal_json_doc *doc, gal_error *broken)
{
    char *separator = strstr(broken->text, ": ");
    GAL_ASSERT(separator != NULL);
    *separator = '\0';
    gal_json_error_at_path(doc, broken->text, separator + 2);
}

static void finish_plan(gal_json_doc *doc, void *plan)
{
    gal_error broken = {0};
    if (gal_plan_check(plan, NULL, &broken) != GAL_OK) {
        record_broken_rule(doc, &broken);
    }
}

/* ---- writing ---- */

static void write_strategy(gal_json_writer *out, const gal_strategy *strategy)
{
    gal_json_begin_object(out, "strategy");
    gal_json_begin_array(out, "axes");
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_string(out, "kind", gal_axis_kind_names[strategy->axis[i].kind]);
        gal_json_put_u64(out, "degree", strategy->axis[i].degree);
        if (strategy->axis[i].kind == GAL_AXIS_TP && strategy->tp_mode != GAL_TP_1D) {
            gal_json_put_string(out, "mode", gal_tp_mode_names[strategy->tp_mode]);
        }
        if (strategy->axis[i].kind == GAL_AXIS_TP && strategy->tp_mode == GAL_TP_2P5D) {
            gal_json_put_u64(out, "depth", strategy->tp_depth);
        }
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_put_u64(out, "zero_stage", strategy->zero_stage);
    gal_json_put_bool(out, "sequence_parallel", strategy->sequence_parallel);
    gal_json_put_string(out, "recompute", gal_recompute_names[strategy->recompute]);
    if (strategy->overlap != GAL_OVERLAP_NONE) {
        gal_json_put_string(out, "overlap", gal_overlap_names[strategy->overlap]);
    }
    if (strategy->keep_panels) {
        gal_json_put_bool(out, "keep_panels", true);
    }
    if (strategy->keep_weights) {
        gal_json_put_bool(out, "keep_weights", true);
    }
    if (strategy->stepped) {
        gal_json_put_bool(out, "stepped", true);
    }
    if (gal_strategy_offloads(strategy)) {
        gal_json_begin_object(out, "offload");
        if (strategy->offload_optimizer_percent > 0) {
            gal_json_put_u64(out, "optimizer_percent", strategy->offload_optimizer_percent);
        }
        if (strategy->offload_storage_percent > 0) {
            gal_json_put_u64(out, "storage_percent", strategy->offload_storage_percent);
        }
        if (strategy->offload_storage_masters) {
            gal_json_put_bool(out, "storage_masters", true);
        }
        if (strategy->offload_parameters_percent > 0) {
            gal_json_put_u64(out, "parameters_percent", strategy->offload_parameters_percent);
        }
        if (strategy->offload_storage_parameters_percent > 0) {
            gal_json_put_u64(out, "storage_parameters_percent", strategy->offload_storage_parameters_percent);
        }
        if (strategy->offload_activations_percent > 0) {
            gal_json_put_u64(out, "activations_percent", strategy->offload_activations_percent);
        }
        if (strategy->offload_storage_activations_percent > 0) {
            gal_json_put_u64(out, "storage_activations_percent", strategy->offload_storage_activations_percent);
        }
        gal_json_end_object(out);
    }
    if (strategy->shard_unit != GAL_SHARD_MATRIX) {
        gal_json_put_string(out, "shard_unit", gal_shard_unit_names[strategy->shard_unit]);
    }
    if (strategy->shard_unit == GAL_SHARD_CHUNK) {
        gal_json_put_u64(out, "chunk_elements", strategy->chunk_elements);
    }
    gal_json_end_object(out);
}

static void write_stage(gal_json_writer *out, const gal_plan *plan, const gal_plan_stage *stage)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_u64(out, "predicted_bytes", stage->predicted_bytes);
    if (stage->predicted_host_bytes > 0) {
        gal_json_put_u64(out, "predicted_host_bytes", stage->predicted_host_bytes);
    }
    if (stage->predicted_storage_bytes > 0) {
        gal_json_put_u64(out, "predicted_storage_bytes", stage->predicted_storage_bytes);
    }
    gal_json_begin_array(out, "runs");
    for (uint32_t i = 0; i < stage->run_count; i++) {
        const gal_plan_run *run = &plan->run[stage->first_run + i];
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "block_count", run->block_count);
        write_strategy(out, &run->strategy);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
}

static void write_plan(gal_json_writer *out, const void *document)
{
    const gal_plan *plan = document;
    gal_json_put_string(out, "document", "plan");
    gal_json_put_u64(out, "version", GAL_PLAN_VERSION);
    gal_json_begin_object(out, "model");
    gal_model_write_at(out, &plan->model);
    gal_json_end_object(out);
    gal_json_begin_object(out, "cluster");
    gal_cluster_write_at(out, &plan->cluster);
    gal_json_end_object(out);
    gal_json_put_string(out, "profile_hash", plan->profile_hash);
    gal_json_put_u64(out, "global_batch_samples", plan->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", plan->microbatch_count);
    gal_json_put_u64(out, "pp_degree", plan->pp_degree);
    gal_json_put_string(out, "schedule", gal_schedule_names[plan->schedule]);
    if (plan->schedule == GAL_SCHEDULE_INTERLEAVED) {
        gal_json_put_u64(out, "chunk_count", plan->chunk_count);
    }
    gal_json_put_u64(out, "prefetch_depth", plan->prefetch_depth);
    if (plan->communication_ctas > 0) {
        gal_json_put_u64(out, "communication_ctas", plan->communication_ctas);
    }
    if (plan->storage_part_bytes > 0) {
        gal_json_put_u64(out, "storage_part_bytes", plan->storage_part_bytes);
    }
    if (plan->gradient_reuses_parameter) {
        gal_json_put_bool(out, "gradient_reuses_parameter", true);
    }
    gal_json_put_u64(out, "fixed_bytes", plan->fixed_bytes);
    gal_json_put_f64(out, "objective_seconds", plan->objective_seconds);
    gal_json_put_f64(out, "simulated_seconds", plan->simulated_seconds);
    if (plan->simulated_high_seconds > 0.0) {
        gal_json_begin_object(out, "simulated_interval");
        gal_json_put_f64(out, "low_seconds", plan->simulated_low_seconds);
        gal_json_put_f64(out, "high_seconds", plan->simulated_high_seconds);
        gal_json_end_object(out);
    }
    gal_json_put_f64(out, "lower_bound_seconds", plan->lower_bound_seconds);
    if (plan->certificate.present) {
        gal_json_begin_object(out, "certificate");
        gal_certificate_write_at(out, &plan->certificate);
        gal_json_end_object(out);
    }
    gal_plan_prices_write_at(out, plan);
    gal_json_begin_array(out, "stages");
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
        write_stage(out, plan, &plan->stage[s]);
    }
    gal_json_end_array(out);
}

static void release_plan(void *plan)
{
    gal_plan_free(plan);
}

const gal_document_form gal_plan_form = {sizeof(gal_plan), read_plan, finish_plan, write_plan, release_plan};

gal_code gal_plan_read(const char *path, gal_plan *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_PLAN, path, out, err);
}

gal_code gal_plan_write(const char *path, const gal_plan *plan, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_PLAN, path, plan, err);
}

/* ---- the struct ---- */

void gal_plan_free(gal_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    free(plan->stage);
    free(plan->run);
    *plan = (gal_plan){0};
}

gal_code gal_plan_copy(const gal_plan *from, gal_plan *out, gal_error *err)
{
    gal_plan copy = *from;
    copy.stage = malloc(gal_plan_piece_count(from) * sizeof *copy.stage + 1);
    copy.run = malloc(from->run_count * sizeof *copy.run + 1);
    if (copy.stage == NULL || copy.run == NULL) {
        gal_plan_free(&copy);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    if (from->stage_count > 0) {
        memcpy(copy.stage, from->stage, gal_plan_piece_count(from) * sizeof *copy.stage);
    }
    if (from->run_count > 0) {
        memcpy(copy.run, from->run, from->run_count * sizeof *copy.run);
    }
    *out = copy;
    return GAL_OK;
}

uint32_t gal_plan_stage_devices(const gal_plan *plan)
{
    return plan->cluster.device_count / plan->pp_degree;
}

uint32_t gal_plan_microbatch_samples(const gal_plan *plan)
{
    return plan->global_batch_samples / plan->microbatch_count;
}

uint32_t gal_plan_chunk_count(const gal_plan *plan)
{
    return plan->chunk_count > 1 ? plan->chunk_count : 1;
}

uint32_t gal_plan_piece_count(const gal_plan *plan)
{
    return plan->stage_count * gal_plan_chunk_count(plan);
}

uint32_t gal_plan_stage_block_count(const gal_plan *plan, uint32_t piece)
{
    GAL_ASSERT(piece < gal_plan_piece_count(plan));
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->stage[piece].run_count; i++) {
        count += plan->run[plan->stage[piece].first_run + i].block_count;
    }
    return count;
}

uint32_t gal_plan_stage_first_block(const gal_plan *plan, uint32_t piece)
{
    GAL_ASSERT(piece < gal_plan_piece_count(plan));
    uint32_t block = 0;
    for (uint32_t i = 0; i < plan->stage[piece].first_run; i++) {
        block += plan->run[i].block_count;
    }
    return block;
}

const gal_strategy *gal_plan_block_strategy(const gal_plan *plan, uint32_t block)
{
    uint32_t run = 0;
    while (block >= plan->run[run].block_count) {
        block -= plan->run[run].block_count;
        run++;
        GAL_ASSERT(run < plan->run_count);
    }
    return &plan->run[run].strategy;
}

bool gal_plan_stores_activations(const gal_plan *plan)
{
    bool stores = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        stores = stores || plan->run[r].strategy.offload_storage_activations_percent > 0;
    }
    return stores;
}

bool gal_plan_stores(const gal_plan *plan)
{
    bool stores = gal_plan_stores_activations(plan);
    for (uint32_t r = 0; r < plan->run_count; r++) {
        stores = stores || plan->run[r].strategy.offload_storage_percent > 0;
    }
    return stores;
}
