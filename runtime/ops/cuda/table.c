/* The tables of the element types. */
#include "runtime/ops/cuda/kernels.h"

static gal_code open_context(bool deterministic, void **context, gal_error *err)
{
    (void)deterministic; /* own kernels always are */
    (void)err;
    *context = NULL;
    return GAL_OK;
}

static void close_context(void *context)
{
    (void)context;
}

static uint64_t workspace_bytes(void *context, gal_op op, const gal_kernel_call *call)
{
    (void)context;
    return gal_cuda_workspace_bytes(op, call->dims);
}

static void put_step(const gal_kernel_step *step, void *record)
{
    *(gal_cuda_step *)record = gal_cuda_step_of(step, 1.0);
}

static const gal_ops_queued queued = {
    .open = open_context,
    .close = close_context,
    .workspace_bytes = workspace_bytes,
    .step_bytes = sizeof(gal_cuda_step),
    .put_step = put_step,
};

#define FP32(enumerator, name) [enumerator] = gal_cuda_##name##_fp32,
#define BF16(enumerator, name) [enumerator] = gal_cuda_##name##_bf16,
#define FP16(enumerator, name) [enumerator] = gal_cuda_##name##_fp16,

const gal_ops gal_ops_cuda_fp32 = {
    .name = "cuda",
    .dtype = GAL_FP32,
    .kernel = {GAL_CUDA_KERNELS(FP32) GAL_CUDA_MATH_KERNELS(FP32)},
    .queued = &queued,
};

const gal_ops gal_ops_cuda_bf16 = {
    .name = "cuda",
    .dtype = GAL_BF16,
    .kernel = {GAL_CUDA_KERNELS(BF16) GAL_CUDA_MATH_KERNELS(BF16)},
    .queued = &queued,
};

const gal_ops gal_ops_cuda_fp16 = {
    .name = "cuda",
    .dtype = GAL_FP16,
    .kernel = {GAL_CUDA_KERNELS(FP16) GAL_CUDA_MATH_KERNELS(FP16)},
    .queued = &queued,
};
