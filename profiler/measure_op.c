#include <string.h>

#include "profiler/measure.h"

enum { PEAK_DIMENSION = 512 };
static const uint64_t copied_bytes = UINT64_C(32) << 20;

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

static uint32_t copies_of(const gal_candidate_operator *candidate, uint32_t operand)
{
    const uint64_t bytes = gal_align(candidate->operand_bytes[operand]);
    if (!candidate->cold[operand] || bytes == 0) {
        return bytes > GAL_COLD_BYTES ? 1 : GAL_WARM_COPIES;
    }
    const uint64_t copies = GAL_COLD_BYTES / bytes;
    return copies > GAL_COLD_COPIES_MAX ? GAL_COLD_COPIES_MAX : copies < 1 ? 1 : (uint32_t)copies;
}

static bool is_written(const gal_candidate_operator *candidate, uint32_t operand)
{
    return candidate->access[operand] != GAL_READ;
}

uint64_t gal_operator_bytes(const gal_candidate_operator *candidate)
{
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < candidate->operand_count; i++) {
        const uint64_t bytes = gal_align(candidate->operand_bytes[i]) * copies_of(candidate, i);
        *(is_written(candidate, i) ? &written : &read) += bytes;
    }
    return read > written ? read : written;
}

/* The norm is two doubles: a square sum of 1, and a loss. */
static void fill_written(const gal_candidate_operator *candidate, const gal_pools *pools, uint32_t operand,
                         uint64_t offset, uint64_t bytes)
{
    const bool positive = source_of(candidate->shape.op, operand) == FROM_POSITIVE;
    const void *from = positive ? pools->positive : pools->normal;
    if (candidate->access[operand] != GAL_WRITE) {
        memcpy((char *)pools->written + offset, (const char *)from + offset, bytes);
    }
}

void gal_operator_prepare(const gal_candidate_operator *candidate, const gal_pools *pools, const uint32_t *sample_map,
                          gal_operator_run *out)
{
    uint64_t read = 0, written = 0;
    const gal_ops *ops =
        candidate->shape.dtype == GAL_FP64 || pools->dtype == GAL_FP64 ? &gal_ops_host_fp64 : &gal_ops_host_fp32;
    memset(out, 0, sizeof *out);
    out->op = candidate->shape.op;
    out->dtype = candidate->shape.dtype;
    out->kernel = ops->kernel[candidate->shape.op];
    out->step = (gal_kernel_step){.model = candidate->model,
                                  .seed = 1,
                                  .step = 1,
                                  .learning_rate = 1e-4,
                                  .loss_scale = 1.0 / gal_model_loss_positions(candidate->model),
                                  .training = true};
    out->call = (gal_kernel_call){.dims = candidate->shape.dims,
                                  .operand_count = candidate->operand_count,
                                  .group_count = candidate->group_count,
                                  .sample_map = sample_map,
                                  .block = candidate->block};
    for (uint32_t i = 0; i < candidate->operand_count; i++) {
        const source from = source_of(candidate->shape.op, i);
        out->stride[i] = gal_align(candidate->operand_bytes[i]);
        out->copies[i] = copies_of(candidate, i);
        const uint64_t bytes = out->stride[i] * out->copies[i];
        if (is_written(candidate, i)) {
            out->base[i] = (char *)pools->written + written;
            fill_written(candidate, pools, i, written, bytes);
            written += bytes;
        } else if (from == FROM_TOKENS) {
            out->base[i] = (char *)pools->tokens;
            out->copies[i] = 1;
        } else {
            out->base[i] = (char *)(from == FROM_POSITIVE ? pools->positive : pools->normal) + read;
            read += bytes;
        }
        out->call.add = out->call.add || candidate->access[i] == GAL_UPDATE || candidate->access[i] == GAL_ACCUMULATE;
    }
    out->tokens = (gal_token_request){
        .samples = sample_map, .sample_count = candidate->shape.dims[0], .sequence_length = candidate->shape.dims[1]};
}

gal_code gal_operator_repeat(void *operator_run, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_operator_run *run = operator_run;
    run->call.step = &run->step;
    for (uint32_t n = 0; n < count; n++, run->next++) {
        for (uint32_t i = 0; i < run->call.operand_count; i++) {
            run->call.operand[i] = run->base[i] + run->next % run->copies[i] * run->stride[i];
        }
        if (gal_op_loads(run->op)) {
            uint32_t vocabulary = run->step.model->vocabulary;
            GAL_TRY(gal_random_tokens(&vocabulary, &run->tokens, run->call.operand[0], err));
        } else if (run->op == GAL_OP_LOAD_PATCHES) {
            const gal_patch_request request = {.sample_count = run->call.dims[0],
                                               .position_count = run->call.dims[1],
                                               .features = run->call.dims[2],
                                               .dtype = run->dtype};
            GAL_TRY(gal_random_patches(NULL, &request, run->call.operand[0], err));
        } else {
            GAL_TRY(run->kernel(&run->call, err));
        }
    }
cleanup:
    return code;
}

/* ---- peak rates ---- */

static gal_code measure_gemm(gal_bench *bench, gal_dtype dtype, double *flops_per_second, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pools pools = {0};
    gal_operator_run run;
    gal_timing timing;
    gal_model model;
    const uint64_t bytes = (uint64_t)PEAK_DIMENSION * PEAK_DIMENSION * gal_dtype_bytes(dtype);
    gal_model_defaults(&model);
    model.sequence_length = 1;
    const gal_candidate_operator gemm = {
        .shape = {.op = GAL_OP_GEMM, .dtype = dtype, .dims = {PEAK_DIMENSION, PEAK_DIMENSION, PEAK_DIMENSION, 0}},
        .model = &model,
        .group_count = 1,
        .operand_count = 3,
        .operand_bytes = {bytes, bytes, bytes},
        .access = {GAL_READ, GAL_READ, GAL_WRITE}};
    code = gal_pools_create(dtype, gal_operator_bytes(&gemm), GAL_ALIGNMENT_BYTES, 1, &pools, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    gal_operator_prepare(&gemm, &pools, NULL, &run);
    GAL_TRY(gal_bench_time(bench, gal_operator_repeat, &run, &timing, err));
    *flops_per_second = 2.0 * PEAK_DIMENSION * PEAK_DIMENSION * PEAK_DIMENSION / timing.seconds;
cleanup:
    gal_pools_free(&pools);
    return code;
}

static gal_code copy(void *pools, uint32_t count, gal_error *err)
{
    const gal_pools *p = pools;
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(p->written, p->normal, p->bytes);
    }
    return GAL_OK;
}

gal_code gal_measure_peaks(gal_bench *bench, gal_device *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pools pools = {0};
    gal_timing timing;
    GAL_TRY(measure_gemm(bench, GAL_FP32, &out->fp32_flops_per_second, err));
    GAL_TRY(measure_gemm(bench, GAL_FP64, &out->fp64_flops_per_second, err));
    code = gal_pools_create(GAL_FP32, copied_bytes, GAL_ALIGNMENT_BYTES, 1, &pools, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(gal_bench_time(bench, copy, &pools, &timing, err));
    out->memory_bytes_per_second = 2.0 * (double)copied_bytes / timing.seconds;
cleanup:
    gal_pools_free(&pools);
    return code;
}
