/* Launching the kernels of attention. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_LAUNCH_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_LAUNCH_CUH

#include "runtime/ops/cuda/flash_scalar.cuh"
#include "runtime/ops/cuda/flash_tile.cuh"

template <class... P, class... A>
static inline int gal_flash_launch(void *stream, void (*kernel)(P...), uint64_t blocks, uint32_t threads,
                                   uint32_t shared, A... arguments)
{
    if (blocks == 0) {
        return cudaSuccess;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((uint32_t)blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
#ifdef __CUDACC__
    if (shared > 48 * 1024) {
        const cudaError_t set =
            cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (set != cudaSuccess) {
            return set;
        }
    }
#endif
    return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

template <class... P, class... A>
static inline int gal_flash_launch_flat(void *stream, void (*kernel)(P...), uint64_t count, A... arguments)
{
    return gal_flash_launch(stream, kernel, (count + GAL_FLASH_SCALAR_THREADS - 1) / GAL_FLASH_SCALAR_THREADS,
                            GAL_FLASH_SCALAR_THREADS, 0, arguments...);
}

#define GAL_FLASH_TRY(call)                                                                                            \
    do {                                                                                                               \
        const int tried = (call);                                                                                      \
        if (tried != cudaSuccess) {                                                                                    \
            return tried;                                                                                              \
        }                                                                                                              \
    } while (0)

/* NULL where there are none. */
static inline const uint32_t *gal_flash_buckets_of(const gal_flash *f, bool backward)
{
    return f->bias == GAL_FLASH_BUCKETS
               ? (const uint32_t *)((char *)f->workspace + gal_flash_layout_of(f, backward).buckets)
               : nullptr;
}

/* Bucket of every distance: the logarithms are taken once, not per pair. */
static __global__ void gal_flash_bucket_kernel(const __grid_constant__ gal_flash f, uint32_t *bucket, uint64_t count)
{
    const uint64_t index = gal_flash_thread();
    if (index < count) {
        const int64_t begin = (int64_t)f.key_begin - (int64_t)f.query_begin - (int64_t)(f.queries - 1);
        bucket[index] = gal_flash_bucket(&f, begin + (int64_t)index);
    }
}

static inline int gal_flash_fill_buckets(const gal_flash *f, bool backward, void *stream)
{
    const uint64_t count = f->bias == GAL_FLASH_BUCKETS ? (uint64_t)f->queries + f->keys - 1 : 0;
    return gal_flash_launch_flat(stream, gal_flash_bucket_kernel, count, *f,
                                 (uint32_t *)gal_flash_buckets_of(f, backward), count);
}

static const int gal_flash_refused = 1; /* cudaErrorInvalidValue */

static inline bool gal_flash_takes(const gal_flash *f, gal_flash_type type, bool backward)
{
    return (type == GAL_FLASH_FP32 || f->dim <= GAL_FLASH_DIM_MAX) &&
           f->workspace_bytes >= gal_flash_layout_of(f, backward).bytes;
}

/* Of an element of ctx, or of dq and dkv, as the kernels write them. */
static inline uint64_t gal_flash_result_bytes(const gal_flash *f, gal_flash_type type)
{
    return f->wide || type == GAL_FLASH_FP32 ? 4 : 2;
}

#endif
