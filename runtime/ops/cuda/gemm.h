/* Products of the CUDA tables: how an instruction becomes one of cuBLASLt's, and which instructions are one kernel.
 *
 * The contract's matrices are row-major, the library's are column-major: c[m][n] = op(a) op(b) is, to the library,
 * c^T = op(b)^T op(a)^T with the same bytes. So its A is our b and its B our a, its D has n rows and m columns, and a
 * bias of n is one number per row, as its epilogues want it. */
#ifndef GAL_RUNTIME_OPS_CUDA_GEMM_H
#define GAL_RUNTIME_OPS_CUDA_GEMM_H

#include "runtime/ops/cuda/gemm_cache.h"
#include "runtime/ops/ops.h"

/* Rows, columns, depth and transpositions of a gemm's dims; the rest of the key is 0. */
gal_gemm_key gal_gemm_key_of_dims(const uint32_t *dims);

/* Pairs that are one kernel:
 *   activation   gemm (bias) -> u, activation gelu_tanh u -> g: both are written
 *   derivative   gemm -> dg, activation_backward gelu_tanh dg, u -> du: dg is not written, so only of lone pairs
 *   bias         gemm -> dw with a transposed, bias_gradient of its b: the sums of the columns that it reads anyway.
 *                The library writes sums; those that are added are written to the workspace, and a kernel adds them
 * So a bias gradient takes no pass over memory of its own: that of a layer with an activation comes, like all, with the
 * product that reads its du. Not with the derivative that writes du (CUBLASLT_EPILOGUE_DGELU_BGRAD): of that epilogue
 * cublasLt.h says "Bias gradient vector elements are the same type as the output elements (Ctype)", and the output, du,
 * is in the type of the products. In bf16 or fp16 the sum over all rows of a microbatch would be rounded to 8 or 11
 * bits, where gradients are sums in fp32. Of the weight product the output is the fp32 that the sums want. */
typedef enum gal_cuda_fusion {
    GAL_CUDA_FUSE_NONE,
    GAL_CUDA_FUSE_ACTIVATION,
    GAL_CUDA_FUSE_DERIVATIVE,
    GAL_CUDA_FUSE_BIAS,
    GAL_CUDA_FUSE_NORM /* of no product: gal_cuda_is_residual_norm */
} gal_cuda_fusion;

/* What a pair is, whether the library has it or not. */
gal_cuda_fusion gal_cuda_fusion_of(const gal_kernel_pair *pair);

/* As gal_ops_queued.fuse and fused, in the table of `dtype`. What the library has no algorithm for stays two kernels;
 * so do bias gradients of deterministic runs, as nothing is said of their order. */
gal_code gal_cuda_fuse(gal_dtype dtype, const gal_kernel_pair *pair, uint32_t *fusion, gal_error *err);
gal_code gal_cuda_fused(gal_dtype dtype, const gal_kernel_pair *pair, uint32_t fusion, gal_error *err);

/* As gal_ops_queued.prepare, of a gemm. */
gal_code gal_cuda_gemm_prepare(gal_dtype dtype, const gal_kernel_call *call, gal_error *err);

#endif
