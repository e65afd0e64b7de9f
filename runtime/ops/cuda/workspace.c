/* Workspace by operator. */
#include "runtime/ops/cuda/workspace.h"

#include "runtime/ops/cuda/kernels.h"

uint64_t gal_cuda_workspace_bytes(gal_op op, const uint32_t *dims)
{
    switch (op) {
    case GAL_OP_NORM_SUMS_BACKWARD:
        return (uint64_t)gal_cuda_norm_parts(dims[0], dims[1]) * (dims[2] != 0 ? 2 : 1) * dims[1] * sizeof(float);
    case GAL_OP_LAYER_NORM_BACKWARD:
        return (uint64_t)gal_cuda_norm_parts(dims[0], dims[1]) * 2 * dims[1] * sizeof(float);
    case GAL_OP_RMS_NORM_BACKWARD:
        return (uint64_t)gal_cuda_norm_parts(dims[0], dims[1]) * dims[1] * sizeof(float);
    case GAL_OP_EMBED_BACKWARD: {
        const uint64_t tokens = (uint64_t)dims[0] * dims[1];
        return gal_cuda_order_bytes(tokens) + 2 * gal_cuda_pieces(tokens) * dims[2] * sizeof(float);
    }
    case GAL_OP_POSITION_BACKWARD: /* a type's gradient: the sums of every position first */
        return dims[4] == 0 ? 0 : (uint64_t)dims[1] * dims[2] * sizeof(float);
    case GAL_OP_SUM_SQUARES:
        return gal_cuda_square_parts(dims[0]) * sizeof(double);
    default:
        return 0;
    }
}
