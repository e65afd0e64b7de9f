#include "runtime/ops/cuda/library_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/ops/cuda/attention_cudnn.h"
#include "runtime/ops/cuda/gemm_plan.h"

uint32_t gal_cuda_product_multiprocessors(uint32_t multiprocessor_count, uint32_t communication_ctas)
{
    const uint32_t half = multiprocessor_count / 2;
    return communication_ctas == 0 ? 0 : multiprocessor_count - (communication_ctas < half ? communication_ctas : half);
}

/* A machine without a cache folder, or with a name that is too long, times its products anew each time. */
static gal_code read_device(gal_cuda_library *library, gal_error *err)
{
    gal_code code = GAL_OK;
    struct cudaDeviceProp properties;
    int device = 0;
    GAL_CUDART_TRY(cudaGetDevice(&device));
    GAL_CUDART_TRY(cudaGetDeviceProperties(&properties, device));
    gal_gemm_cache_begin(&library->cache, properties.name, (uint32_t)properties.major, (uint32_t)properties.minor,
                         cublasLtGetVersion());
    library->product_multiprocessors =
        gal_cuda_product_multiprocessors((uint32_t)properties.multiProcessorCount, library->options.communication_ctas);
    if (library->options.cache_folder != NULL && gal_gemm_cache_path(&library->cache, library->options.cache_folder,
                                                                     library->cache_path, sizeof library->cache_path)) {
        GAL_TRY(gal_gemm_cache_read(&library->cache, library->cache_path, err));
    } else {
        library->cache_path[0] = '\0';
    }
cleanup:
    return code;
}

gal_code gal_cuda_library_create(const gal_cuda_library_options *options, gal_cuda_library **out, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_ASSERT(options->candidate_count >= 1 && options->candidate_count <= GAL_CUDA_CANDIDATES_MAX);
    gal_cuda_library *library = calloc(1, sizeof *library);
    if (library == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %zu bytes", sizeof *library);
    }
    library->options = *options;
    GAL_CUBLAS_TRY(cublasLtCreate(&library->lt));
    GAL_CUBLAS_TRY(cublasLtMatmulPreferenceCreate(&library->preference));
    GAL_CUDART_TRY(cudaEventCreate(&library->start));
    GAL_CUDART_TRY(cudaEventCreate(&library->stop));
    GAL_TRY(read_device(library, err));
    library->options.cache_folder = NULL; /* the caller's */
    *out = library;
    library = NULL;
cleanup:
    gal_cuda_library_free(library);
    return code;
}

gal_code gal_cuda_library_save(gal_cuda_library *library, gal_error *err)
{
    if (library->cache_path[0] == '\0' || !library->cache.changed) {
        return GAL_OK;
    }
    return gal_gemm_cache_write(&library->cache, library->cache_path, err);
}

void gal_cuda_library_free(gal_cuda_library *library)
{
    if (library == NULL) {
        return;
    }
    gal_cudnn_attention_free(library->cudnn);
    gal_gemm_plans_free(library);
    gal_gemm_cache_free(&library->cache);
    if (library->stop != NULL) {
        cudaEventDestroy(library->stop);
    }
    if (library->start != NULL) {
        cudaEventDestroy(library->start);
    }
    if (library->preference != NULL) {
        cublasLtMatmulPreferenceDestroy(library->preference);
    }
    if (library->lt != NULL) {
        cublasLtDestroy(library->lt);
    }
    free(library);
}
