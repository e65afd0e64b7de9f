/* The tables of the element types. */
#include "runtime/ops/cuda/kernels.h"

#include <limits.h>
#include <stddef.h>

#include "runtime/ops/cuda/attention.h"
#include "runtime/ops/cuda/gemm.h"
#include "runtime/ops/cuda/library.h"

enum { CANDIDATES = 16 }; /* algorithms timed per product */

/* The context is what the kernels on libraries share; the others need none. */
static gal_code open_context(const gal_kernel_choice *choice, void **context, gal_error *err)
{
    char folder[PATH_MAX];
    gal_cuda_library *library = NULL;
    const gal_cuda_library_options options = {
        .cache_folder = gal_cuda_cache_folder(folder, sizeof folder) ? folder : NULL,
        .candidate_count = CANDIDATES,
        .communication_ctas = choice->communication_ctas,
        .deterministic = choice->deterministic,
        .tf32 = choice->tf32,
    };
    const gal_code code = gal_cuda_library_create(&options, &library, err);
    if (code == GAL_OK) {
        *context = library;
    }
    return code;
}

static void close_context(void *context)
{
    gal_error ignored = {.code = GAL_OK};
    if (context != NULL) {
        gal_cuda_library_save(context, &ignored); /* what is not kept is timed again */
        gal_cuda_library_free(context);
    }
}

static uint64_t workspace_bytes(void *context, gal_dtype dtype, gal_op op, const gal_kernel_call *call)
{
    const uint64_t own = gal_cuda_workspace_bytes(op, call->dims);
    const uint64_t math = gal_cuda_math_workspace_bytes(context, dtype, op, call);
    return own > math ? own : math;
}

static void put_step(const gal_kernel_step *step, void *record)
{
    *(gal_cuda_step *)record = gal_cuda_step_of(step, step->gradient_scale > 0.0 ? step->gradient_scale : 1.0);
}

static gal_code fuse(gal_dtype dtype, const gal_kernel_pair *pair, uint32_t *fusion, gal_error *err)
{
    if (gal_cuda_is_residual_norm(pair)) {
        *fusion = GAL_CUDA_FUSE_NORM;
        return GAL_OK;
    }
    return gal_cuda_fuse(dtype, pair, fusion, err);
}

#define QUEUED(suffix, type)                                                                                           \
    static uint64_t workspace_bytes_##suffix(void *context, gal_op op, const gal_kernel_call *call)                    \
    {                                                                                                                  \
        return workspace_bytes(context, type, op, call);                                                               \
    }                                                                                                                  \
    static gal_code prepare_##suffix(gal_op op, const gal_kernel_call *call, gal_error *err)                           \
    {                                                                                                                  \
        return gal_cuda_math_prepare(type, op, call, err);                                                             \
    }                                                                                                                  \
    static gal_code fuse_##suffix(const gal_kernel_pair *pair, uint32_t *fusion, gal_error *err)                       \
    {                                                                                                                  \
        return fuse(type, pair, fusion, err);                                                                          \
    }                                                                                                                  \
    static gal_code fused_##suffix(const gal_kernel_pair *pair, uint32_t fusion, gal_error *err)                       \
    {                                                                                                                  \
        return fusion == GAL_CUDA_FUSE_NORM ? gal_cuda_residual_norm_##suffix(pair, err)                               \
                                            : gal_cuda_fused(type, pair, fusion, err);                                 \
    }                                                                                                                  \
    static const gal_ops_queued queued_##suffix = {                                                                    \
        .open = open_context,                                                                                          \
        .close = close_context,                                                                                        \
        .workspace_bytes = workspace_bytes_##suffix,                                                                   \
        .prepare = prepare_##suffix,                                                                                   \
        .fuse = fuse_##suffix,                                                                                         \
        .fused = fused_##suffix,                                                                                       \
        .step_bytes = sizeof(gal_cuda_step),                                                                           \
        .put_step = put_step,                                                                                          \
    };

QUEUED(fp32, GAL_FP32)
QUEUED(bf16, GAL_BF16)
QUEUED(fp16, GAL_FP16)

#define FP32(enumerator, name) [enumerator] = gal_cuda_##name##_fp32,
#define BF16(enumerator, name) [enumerator] = gal_cuda_##name##_bf16,
#define FP16(enumerator, name) [enumerator] = gal_cuda_##name##_fp16,

const gal_ops gal_ops_cuda_fp32 = {
    .name = "cuda",
    .dtype = GAL_FP32,
    .kernel = {GAL_CUDA_KERNELS(FP32) GAL_CUDA_MATH_KERNELS(FP32)},
    .queued = &queued_fp32,
};

const gal_ops gal_ops_cuda_bf16 = {
    .name = "cuda",
    .dtype = GAL_BF16,
    .kernel = {GAL_CUDA_KERNELS(BF16) GAL_CUDA_MATH_KERNELS(BF16)},
    .queued = &queued_bf16,
};

const gal_ops gal_ops_cuda_fp16 = {
    .name = "cuda",
    .dtype = GAL_FP16,
    .kernel = {GAL_CUDA_KERNELS(FP16) GAL_CUDA_MATH_KERNELS(FP16)},
    .queued = &queued_fp16,
};
