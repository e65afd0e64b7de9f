/* Launch of bias_gradient's kernels. */
#ifndef GAL_RUNTIME_OPS_CUDA_GEMM_BIAS_LAUNCH_H
#define GAL_RUNTIME_OPS_CUDA_GEMM_BIAS_LAUNCH_H

#include "runtime/ops/cuda/flash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dy[rows][features] of `type`, dbias fp32[features]; workspace gal_bias_gradient_workspace_bytes. Returns a
 * cudaError_t. */
int gal_bias_gradient(gal_flash_type type, const void *dy, uint32_t rows, uint32_t features, bool add, float *dbias,
                      void *workspace, void *stream);

#ifdef __cplusplus
}
#endif

#endif
