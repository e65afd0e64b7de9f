/* Gradients of a product's bias: column sums of dy[rows][features], in two steps of a fixed order. */
#ifndef GAL_RUNTIME_OPS_CUDA_GEMM_BIAS_H
#define GAL_RUNTIME_OPS_CUDA_GEMM_BIAS_H

#include <stdint.h>

/* Parts of the rows that are summed by themselves: enough blocks of 64 columns for four on each of 132 multiprocessors,
 * of at least 32 rows. By shape alone: the same bits on every device. */
static inline uint32_t gal_bias_gradient_parts(uint32_t rows, uint32_t features)
{
    const uint32_t columns = features / 64 + 1, wanted = 528 / columns + 1, most = rows / 32 + 1;
    return wanted < most ? wanted : most;
}

/* Sums of the parts, fp32[parts][features]. */
static inline uint64_t gal_bias_gradient_workspace_bytes(uint32_t rows, uint32_t features)
{
    return (uint64_t)gal_bias_gradient_parts(rows, features) * features * sizeof(float);
}

#endif
