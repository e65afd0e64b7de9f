/* Products and attention in the CUDA tables: what gal_ops_queued needs of them. Contexts are gal_cuda_library. */
#ifndef GAL_RUNTIME_OPS_CUDA_ATTENTION_H
#define GAL_RUNTIME_OPS_CUDA_ATTENTION_H

#include "runtime/ops/cuda/library.h"
#include "runtime/ops/ops.h"

/* Workspace of a gemm, a bias_gradient or an attention; 0 of others. Makes cuDNN's plans of the shape, which takes
 * seconds once. */
uint64_t gal_cuda_math_workspace_bytes(gal_cuda_library *library, gal_dtype dtype, gal_op op,
                                       const gal_kernel_call *call);

/* As gal_ops_queued.prepare; nothing for other kinds. */
gal_code gal_cuda_math_prepare(gal_dtype dtype, gal_op op, const gal_kernel_call *call, gal_error *err);

#endif
