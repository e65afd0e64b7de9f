/* What kernels need of a pair of query and key beside their product. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_PAIR_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_PAIR_CUH

#include "runtime/ops/cuda/flash_warp.cuh"

#include "runtime/ops/cuda/flash.h"

#ifndef __CUDACC__
#define __grid_constant__
#endif

/* Head, window and sample of a kernel's block, thread or item. */
struct gal_flash_where {
    uint32_t sample, head, window;
};

/* The index-th of samples x heads x windows x rows. */
__device__ __forceinline__ gal_flash_where gal_flash_split(const gal_flash &f, uint64_t index, uint32_t heads,
                                                           uint32_t rows, uint32_t *row)
{
    *row = (uint32_t)(index % rows);
    index /= rows;
    const uint32_t window = (uint32_t)(index % f.windows);
    index /= f.windows;
    return {(uint32_t)(index / heads), (uint32_t)(index % heads), window};
}

__device__ __forceinline__ uint64_t gal_flash_thread()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* As the host's gal_cuda_step begins: seed, step, training. */
struct gal_flash_step {
    uint64_t seed;
    uint32_t step, training;
};

/* Philox 4x32-10 (runtime/ops/ops.h): lane index % 4 of quad index / 4. */
__device__ __forceinline__ void gal_flash_philox(const gal_flash_step *step, uint32_t site, uint64_t quad,
                                                 uint32_t lanes[4])
{
    uint32_t c0 = (uint32_t)quad, c1 = (uint32_t)(quad >> 32), c2 = site, c3 = step->step;
    uint32_t key0 = (uint32_t)step->seed, key1 = (uint32_t)(step->seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53U * c0, product1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    lanes[0] = c0;
    lanes[1] = c1;
    lanes[2] = c2;
    lanes[3] = c3;
}

/* 0 or the keep scale of the pairs of quad `quad`. */
__device__ __forceinline__ void gal_flash_factors(const gal_flash &f, uint64_t quad, float out[4])
{
    uint32_t lanes[4];
    gal_flash_philox((const gal_flash_step *)f.step, f.dropout_site, quad, lanes);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[i] = lanes[i] > f.drop_max ? f.keep_scale : 0.0F;
    }
}

/* Of one pair by its number. */
__device__ __forceinline__ float gal_flash_factor_of(const gal_flash &f, uint64_t number)
{
    float out[4];
    gal_flash_factors(f, number / 4, out);
    const float low = number % 2 == 0 ? out[0] : out[1], high = number % 2 == 0 ? out[2] : out[3];
    return number % 4 < 2 ? low : high;
}

/* bucket: of all distances, in the workspace. */
template <class T>
__device__ __forceinline__ float gal_flash_bias_of(const gal_flash &f, const uint32_t *bucket, gal_flash_where at,
                                                   uint32_t query, uint32_t key)
{
    const T *table = (const T *)f.table + f.bias_column + at.head;
    if (f.bias == GAL_FLASH_BUCKETS) {
        return gal_number(table[(uint64_t)bucket[gal_flash_distance(&f, query, key)] * f.bias_stride]);
    }
    const gal_flash_place a = gal_flash_place_of(&f, at.window, query), b = gal_flash_place_of(&f, at.window, key);
    return gal_number(table[(uint64_t)gal_flash_entry(&f, a, b) * f.bias_stride]) -
           (a.region == b.region ? 0.0F : 100.0F);
}

#endif
