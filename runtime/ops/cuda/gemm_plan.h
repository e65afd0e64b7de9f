/* Products on cuBLASLt: which algorithm, and queueing it. */
#ifndef GAL_RUNTIME_OPS_CUDA_GEMM_PLAN_H
#define GAL_RUNTIME_OPS_CUDA_GEMM_PLAN_H

#include "runtime/ops/cuda/library_internal.h"

/* One product D = op(a) op(b) (+ D if add) with an epilogue, in the library's terms. */
typedef struct gal_gemm_run {
    gal_gemm_key key;
    const void *a, *b;
    void *d;
    void *bias;         /* of the epilogue: read, or written by those that give its gradient; NULL: none */
    uint32_t bias_type; /* cudaDataType_t */
    void *aux;          /* likewise: the input of the activation, as D is laid out */
    bool add;
    void *workspace;
    uint64_t workspace_bytes;
    cudaStream_t stream;
} gal_gemm_run;

/* Times the library's candidates on these very buffers, so D is written more than once, and waits; of a run that adds
 * only finds the library's first choice. GAL_NO if the library has nothing for this key; GAL_ERR_DEVICE,
 * GAL_ERR_SYSTEM. */
gal_code gal_gemm_run_prepare(gal_cuda_library *library, const gal_gemm_run *run, gal_error *err);

/* Queues the product; without a preparation by the library's first choice. Likewise. */
gal_code gal_gemm_run_queue(gal_cuda_library *library, const gal_gemm_run *run, gal_error *err);

void gal_gemm_plans_free(gal_cuda_library *library);

#endif
