#include <string.h>

#include "profiler/measure.h"

enum { PEAK_DIMENSION_HOST = 512, PEAK_DIMENSION_DEVICE = 8192 };
static const uint64_t copied_bytes_host = UINT64_C(32) << 20, copied_bytes_device = UINT64_C(1) << 30;

typedef enum source { FROM_NORMAL, FROM_POSITIVE, FROM_TOKENS } source;

/* What the operand of a kind must hold so that the kernel does what it does in training: deviations, sums and second
 * moments are positive, token numbers are tokens; the norm and the loss are fp64. */
static source source_of(gal_op op, uint32_t operand)
{
    switch (op) {
    case GAL_OP_EMBED:
    case GAL_OP_EMBED_BACKWARD:
        return operand == 0 ? FROM_TOKENS : FROM_NORMAL;
    case GAL_OP_LAYER_NORM_BACKWARD:
    case GAL_OP_RMS_NORM_BACKWARD:
        return operand == 3 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_NORM_BY_SUMS: /* squared deviations */
        return operand == 2 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_NORM_SUMS_BACKWARD:
    case GAL_OP_NORM_BY_SUMS_BACKWARD:
        return operand == 3 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_ATTENTION_BACKWARD:
    case GAL_OP_RELATIVE_ATTENTION_BACKWARD:
    case GAL_OP_WINDOW_ATTENTION_BACKWARD:
        return operand == 3 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_CROSS_ATTENTION_BACKWARD:
        return operand == 4 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_CROSS_ENTROPY_SUM:
        return operand == 2 ? FROM_TOKENS : operand == 1 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_CROSS_ENTROPY_BACKWARD:
        return operand == 3 ? FROM_TOKENS : operand == 1 || operand == 2 ? FROM_POSITIVE : FROM_NORMAL;
    case GAL_OP_CROSS_ENTROPY_LOSS:
        return FROM_POSITIVE;
    case GAL_OP_ADAM:
        return operand == 3 || operand == 4 ? FROM_POSITIVE : FROM_NORMAL;
    default:
        return FROM_NORMAL;
    }
}

static uint32_t copies_of(const gal_candidate_operator *candidate, uint32_t operand, uint64_t cold_bytes)
{
    const uint64_t bytes = gal_align(candidate->operand_bytes[operand]);
    if (!candidate->cold[operand] || bytes == 0) {
        return bytes > cold_bytes ? 1 : GAL_WARM_COPIES;
    }
    const uint64_t copies = cold_bytes / bytes;
    return copies > GAL_COLD_COPIES_MAX ? GAL_COLD_COPIES_MAX : copies < 1 ? 1 : (uint32_t)copies;
}

static bool is_written(const gal_candidate_operator *candidate, uint32_t operand)
{
    return candidate->access[operand] != GAL_READ;
}

uint64_t gal_operator_bytes(const gal_candidate_operator *candidate, uint64_t cold_bytes)
{
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < candidate->operand_count; i++) {
        const uint64_t bytes = gal_align(candidate->operand_bytes[i]) * copies_of(candidate, i, cold_bytes);
        *(is_written(candidate, i) ? &written : &read) += bytes;
    }
    return read > written ? read : written;
}

/* ---- operands ---- */

/* The norm is two doubles: a square sum of 1, and a loss. */
static gal_code fill_written(const gal_candidate_operator *candidate, const gal_operator_run *run, uint32_t operand,
                             gal_error *err)
{
    const gal_pools *pools = run->pools;
    const gal_bench *bench = pools->bench;
    const bool positive = source_of(candidate->shape.op, operand) == FROM_POSITIVE;
    const uint64_t offset = (uint64_t)(run->base[operand] - (char *)pools->written.base);
    const uint64_t bytes = run->stride[operand] * run->copies[operand];
    const char *from = (const char *)(positive ? pools->positive : pools->normal).base + offset;
    if (candidate->access[operand] == GAL_WRITE || !is_written(candidate, operand) || bytes == 0) {
        return GAL_OK;
    }
    if (bench->backend->device->queue == NULL) {
        memcpy(run->base[operand], from, bytes);
        return GAL_OK;
    }
    return bench->backend->device->queue->copy(bench->queue[GAL_LANE_COMPUTE], run->base[operand], from, bytes, err);
}

static void lay_out(const gal_candidate_operator *candidate, const gal_pools *pools, gal_operator_run *out)
{
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < candidate->operand_count; i++) {
        const source from = source_of(candidate->shape.op, i);
        out->stride[i] = gal_align(candidate->operand_bytes[i]);
        out->copies[i] = copies_of(candidate, i, pools->settings.cold_bytes);
        const uint64_t bytes = out->stride[i] * out->copies[i];
        if (is_written(candidate, i)) {
            out->base[i] = (char *)pools->written.base + written;
            written += bytes;
        } else if (from == FROM_TOKENS) {
            out->base[i] = pools->tokens.base;
            out->copies[i] = 1;
        } else {
            out->base[i] = (char *)(from == FROM_POSITIVE ? pools->positive : pools->normal).base + read;
            read += bytes;
        }
        out->call.add = out->call.add || candidate->access[i] == GAL_UPDATE || candidate->access[i] == GAL_ACCUMULATE;
    }
}

/* ---- kernels ---- */

static gal_code load(gal_operator_run *run, void *target, gal_error *err)
{
    if (run->op == GAL_OP_LOAD_LENGTHS) {
        return gal_whole_lengths(NULL, &run->tokens, target, err);
    }
    if (run->op != GAL_OP_LOAD_PATCHES) {
        uint32_t vocabulary = run->step.model->vocabulary;
        return gal_random_tokens(&vocabulary, &run->tokens, target, err);
    }
    const gal_patch_request request = {.sample_count = run->call.dims[0],
                                       .position_count = run->call.dims[1],
                                       .features = run->call.dims[2],
                                       .dtype = run->dtype};
    return gal_random_patches(NULL, &request, target, err);
}

static void set_call(gal_operator_run *run)
{
    const gal_pools *pools = run->pools;
    run->call.step = &run->step;
    for (uint32_t i = 0; i < run->call.operand_count; i++) {
        run->call.operand[i] = run->base[i] + run->next % run->copies[i] * run->stride[i];
    }
    if (pools->ops->queued != NULL) {
        run->call.stream = pools->bench->queue[run->lane];
        run->call.context = pools->context;
        run->call.workspace = pools->workspace_bytes > 0 ? pools->workspace[run->lane].base : NULL;
        run->call.workspace_bytes = pools->workspace_bytes;
        run->call.device_step = pools->step.base;
    }
}

/* Both lanes' workspaces become as large as this kernel wants; nothing runs. */
static gal_code grow_workspace(gal_operator_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pools *pools = run->pools;
    const gal_device_ops *device = pools->bench->backend->device;
    const uint64_t bytes = pools->ops->queued->workspace_bytes != NULL
                               ? pools->ops->queued->workspace_bytes(pools->context, run->op, &run->call)
                               : 0;
    if (bytes <= pools->workspace_bytes) {
        return GAL_OK;
    }
    pools->workspace_bytes = 0;
    for (uint32_t lane = 0; lane < GAL_LANE_COUNT; lane++) {
        device->release(&pools->workspace[lane]);
        GAL_TRY(device->allocate(gal_align(bytes), false, &pools->workspace[lane], err));
    }
    pools->workspace_bytes = bytes;
cleanup:
    return code;
}

/* Everything that allocates or looks for algorithms; a load is made once, and only its copy repeated. */
static gal_code prepare_queued(gal_operator_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_ops_queued *queued = run->pools->ops->queued;
    const gal_device_ops *device = run->pools->bench->backend->device;
    char record[1024];
    if (gal_op_loads(run->op)) {
        GAL_ASSERT(run->load_bytes <= run->pools->settings.staging_bytes);
        return load(run, run->pools->staging, err);
    }
    GAL_ASSERT(queued->step_bytes <= sizeof record);
    queued->put_step(&run->step, record);
    device->write(&run->pools->step, 0, record, queued->step_bytes);
    run->call.context = run->pools->context;
    GAL_TRY(grow_workspace(run, err));
    if (queued->prepare != NULL) {
        set_call(run);
        GAL_TRY(queued->prepare(run->op, &run->call, err));
    }
cleanup:
    return code;
}

gal_code gal_operator_prepare(const gal_candidate_operator *candidate, gal_pools *pools, gal_operator_run *out,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    memset(out, 0, sizeof *out);
    out->op = candidate->shape.op;
    out->dtype = candidate->shape.dtype;
    out->pools = pools;
    out->kernel = pools->ops->kernel[candidate->shape.op];
    out->load_bytes = candidate->operand_bytes[0];
    out->step = (gal_kernel_step){.model = candidate->model,
                                  .seed = 1,
                                  .step = 1,
                                  .learning_rate = 1e-4,
                                  .loss_scale = 1.0 / gal_model_loss_positions(candidate->model),
                                  .training = true};
    out->call = (gal_kernel_call){.dims = candidate->shape.dims,
                                  .operand_count = candidate->operand_count,
                                  .group_count = candidate->group_count,
                                  .sample_map = pools->samples.base,
                                  .block = candidate->block};
    out->tokens = (gal_token_request){.samples = pools->host_samples,
                                      .sample_count = candidate->shape.dims[0],
                                      .sequence_length = candidate->shape.dims[1]};
    lay_out(candidate, pools, out);
    if (pools->ops->queued != NULL) {
        GAL_TRY(prepare_queued(out, err));
    }
    for (uint32_t i = 0; i < candidate->operand_count; i++) {
        GAL_TRY(fill_written(candidate, out, i, err));
    }
cleanup:
    return code;
}

gal_code gal_operator_repeat(void *operator_run, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_operator_run *run = operator_run;
    const gal_pools *pools = run->pools;
    for (uint32_t n = 0; n < count; n++, run->next++) {
        set_call(run);
        if (!gal_op_loads(run->op)) {
            GAL_TRY(run->kernel(&run->call, err));
        } else if (pools->ops->queued != NULL) {
            GAL_TRY(pools->bench->backend->device->queue->copy(run->call.stream, run->call.operand[0], pools->staging,
                                                               run->load_bytes, err));
        } else {
            GAL_TRY(load(run, run->call.operand[0], err));
        }
    }
cleanup:
    return code;
}

/* ---- peak rates ---- */

/* Large enough to reach the rate; of a device's memory a small part. */
static uint32_t peak_dimension(const gal_bench *bench, gal_dtype dtype, uint64_t memory_bytes)
{
    uint32_t n = bench->backend->device->queue != NULL ? PEAK_DIMENSION_DEVICE : PEAK_DIMENSION_HOST;
    while (n > PEAK_DIMENSION_HOST && (uint64_t)n * n * gal_dtype_bytes(dtype) > memory_bytes / 64) {
        n /= 2;
    }
    return n;
}

static gal_code measure_gemm(gal_bench *bench, gal_dtype dtype, uint64_t memory_bytes, double *flops_per_second,
                             gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pools pools = {0};
    gal_operator_run run;
    gal_timing timing;
    gal_model model;
    const uint32_t n = peak_dimension(bench, dtype, memory_bytes);
    const uint64_t bytes = (uint64_t)n * n * gal_dtype_bytes(dtype);
    if (bench->backend->ops(dtype) == NULL) {
        return GAL_OK;
    }
    gal_model_defaults(&model);
    model.sequence_length = 1;
    const gal_candidate_operator gemm = {.shape = {.op = GAL_OP_GEMM, .dtype = dtype, .dims = {n, n, n, 0}},
                                         .model = &model,
                                         .group_count = 1,
                                         .operand_count = 3,
                                         .operand_bytes = {bytes, bytes, bytes},
                                         .access = {GAL_READ, GAL_READ, GAL_WRITE}};
    const gal_pool_settings settings = {.dtype = dtype,
                                        .bytes = gal_operator_bytes(&gemm, GAL_COLD_BYTES_HOST),
                                        .token_bytes = GAL_ALIGNMENT_BYTES,
                                        .vocabulary = 1,
                                        .cold_bytes = GAL_COLD_BYTES_HOST};
    code = gal_pools_create(bench, &settings, &pools, err);
    if (code == GAL_OK) {
        code = gal_operator_prepare(&gemm, &pools, &run, err);
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(gal_bench_time(bench, gal_operator_repeat, &run, &timing, err));
    *flops_per_second = 2.0 * n * n * n / timing.seconds;
cleanup:
    gal_pools_free(&pools);
    return code;
}

static gal_code copy(void *pools, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_pools *p = pools;
    const gal_device_queue_ops *queue = p->bench->backend->device->queue;
    for (uint32_t i = 0; i < count; i++) {
        if (queue == NULL) {
            memcpy(p->written.base, p->normal.base, p->written.bytes);
        } else {
            GAL_TRY(
                queue->copy(p->bench->queue[GAL_LANE_COMPUTE], p->written.base, p->normal.base, p->written.bytes, err));
        }
    }
cleanup:
    return code;
}

static uint64_t copied_bytes(const gal_bench *bench, uint64_t memory_bytes)
{
    uint64_t bytes = bench->backend->device->queue != NULL ? copied_bytes_device : copied_bytes_host;
    while (bytes > copied_bytes_host && bytes > memory_bytes / 16) {
        bytes /= 2;
    }
    return bytes;
}

gal_code gal_measure_peaks(gal_bench *bench, gal_dtype dtype, gal_device *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pools pools = {0};
    gal_timing timing;
    const gal_pool_settings settings = {.dtype = dtype,
                                        .bytes = copied_bytes(bench, out->memory_bytes),
                                        .token_bytes = GAL_ALIGNMENT_BYTES,
                                        .vocabulary = 1};
    GAL_TRY(measure_gemm(bench, GAL_FP32, out->memory_bytes, &out->fp32_flops_per_second, err));
    GAL_TRY(measure_gemm(bench, GAL_FP64, out->memory_bytes, &out->fp64_flops_per_second, err));
    GAL_TRY(measure_gemm(bench, GAL_BF16, out->memory_bytes, &out->bf16_flops_per_second, err));
    GAL_TRY(measure_gemm(bench, GAL_FP16, out->memory_bytes, &out->fp16_flops_per_second, err));
    code = gal_pools_create(bench, &settings, &pools, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(gal_bench_time(bench, copy, &pools, &timing, err));
    out->memory_bytes_per_second = 2.0 * (double)settings.bytes / timing.seconds;
    if (bench->backend->device->queue != NULL) {
        gal_copy_run least = {
            .bench = bench, .target = pools.written.base, .source = pools.normal.base, .bytes = GAL_ALIGNMENT_BYTES};
        GAL_TRY(gal_bench_time(bench, gal_copy_repeat, &least, &timing, err));
        out->launch_seconds = timing.seconds;
    }
cleanup:
    gal_pools_free(&pools);
    return code;
}
