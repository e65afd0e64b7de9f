/* The library of this folder, for the files that stand on it. */
#ifndef GAL_RUNTIME_OPS_CUDA_LIBRARY_INTERNAL_H
#define GAL_RUNTIME_OPS_CUDA_LIBRARY_INTERNAL_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <limits.h>

#include "runtime/ops/cuda/gemm_cache.h"
#include "runtime/ops/cuda/library.h"
#include "runtime/ops/ops.h"

/* A product that can be queued. */
typedef struct gal_gemm_plan {
    gal_gemm_key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    uint64_t workspace_bytes;
    bool settled; /* timed, or nothing is to be timed; else the library's first choice */
    bool refused; /* the library has nothing for it */
} gal_gemm_plan;

struct gal_cuda_library {
    gal_cuda_library_options options;
    uint32_t product_multiprocessors; /* gal_cuda_product_multiprocessors */
    cublasLtHandle_t lt;
    cublasLtMatmulPreference_t preference;
    cudaEvent_t start, stop; /* of timings */
    gal_gemm_plan *gemm;     /* [gemm_count], owned */
    size_t gemm_count, gemm_capacity;
    gal_gemm_cache cache;
    char cache_path[PATH_MAX];         /* "": none */
    struct gal_cudnn_attention *cudnn; /* made at the first attention that asks; attention_cudnn.h */
};

/* Records expression, place and the library's text, and goes to cleanup. */
#define GAL_CUBLAS_TRY(expression)                                                                                     \
    do {                                                                                                               \
        const cublasStatus_t status_ = (expression);                                                                   \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                                        \
            code = gal_fail(err, GAL_ERR_DEVICE, "%s:%d: %s: %s", __FILE__, __LINE__, #expression,                     \
                            cublasLtGetStatusString(status_));                                                         \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#define GAL_CUDART_TRY(expression)                                                                                     \
    do {                                                                                                               \
        const cudaError_t status_ = (expression);                                                                      \
        if (status_ != cudaSuccess) {                                                                                  \
            code = gal_fail(err, GAL_ERR_DEVICE, "%s:%d: %s: %s", __FILE__, __LINE__, #expression,                     \
                            cudaGetErrorString(status_));                                                              \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
