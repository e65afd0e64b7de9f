/* bias_gradient in the CUDA tables. */
#include "runtime/ops/cuda/gemm_bias.h"
#include "runtime/ops/cuda/gemm_bias_launch.h"
#include "runtime/ops/cuda/kernels.h"

static gal_code bias_gradient(gal_flash_type type, const gal_kernel_call *call, gal_error *err)
{
    const uint64_t needed = gal_bias_gradient_workspace_bytes(call->dims[0], call->dims[1]);
    if (call->workspace_bytes < needed) {
        return gal_fail(err, GAL_ERR_DEVICE, "bias_gradient: %llu bytes of workspace, needs %llu",
                        (unsigned long long)call->workspace_bytes, (unsigned long long)needed);
    }
    const int result = gal_bias_gradient(type, call->operand[0], call->dims[0], call->dims[1], call->add,
                                         call->operand[1], call->workspace, call->stream);
    return result == 0 ? GAL_OK : gal_fail(err, GAL_ERR_DEVICE, "bias_gradient: CUDA error %d", result);
}

gal_code gal_cuda_bias_gradient_fp32(const gal_kernel_call *call, gal_error *err)
{
    return bias_gradient(GAL_FLASH_FP32, call, err);
}

gal_code gal_cuda_bias_gradient_bf16(const gal_kernel_call *call, gal_error *err)
{
    return bias_gradient(GAL_FLASH_BF16, call, err);
}

gal_code gal_cuda_bias_gradient_fp16(const gal_kernel_call *call, gal_error *err)
{
    return bias_gradient(GAL_FLASH_FP16, call, err);
}
