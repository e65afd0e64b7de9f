/* Attention instructions as calls of our own kernels. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_CALL_H
#define GAL_RUNTIME_OPS_CUDA_FLASH_CALL_H

#include "runtime/ops/cuda/flash.h"
#include "runtime/ops/ops.h"

/* What a kernel of attention, forward or backward, of any kind, is asked to do. Without operands if there are none. */
gal_flash gal_flash_of_call(gal_op op, const gal_kernel_call *call);

bool gal_flash_is_backward(gal_op op);

/* Workspace of a call; operands are not looked at. */
uint64_t gal_flash_workspace_bytes(gal_op op, const gal_kernel_call *call);

/* Queues it. GAL_ERR_DEVICE, also for heads wider than GAL_FLASH_DIM_MAX in 16 bits. */
gal_code gal_flash_run(gal_op op, gal_dtype dtype, const gal_kernel_call *call, gal_error *err);

#endif
