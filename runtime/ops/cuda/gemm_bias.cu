/* bias_gradient: a block sums 64 columns of a part of the rows, a warp every fourth row, a lane two neighbouring
 * columns; then the parts of a column are added in order. */
#include "runtime/ops/cuda/flash_warp.cuh"

#include "runtime/ops/cuda/gemm_bias.h"
#include "runtime/ops/cuda/gemm_bias_launch.h"

enum { COLUMNS = 64, WARPS = 4, THREADS = 32 * WARPS };

template <class T>
static __global__ void __launch_bounds__(THREADS)
    gal_bias_parts_kernel(const T *dy, uint32_t rows, uint32_t features, uint32_t parts, float *sums)
{
    __shared__ float shared[WARPS][COLUMNS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * COLUMNS + 2 * lane;
    const uint32_t begin = (uint32_t)((uint64_t)rows * blockIdx.y / parts);
    const uint32_t end = (uint32_t)((uint64_t)rows * (blockIdx.y + 1) / parts);
    float low = 0.0F, high = 0.0F;
    const bool both = column + 1 < features;
#pragma unroll 8
    for (uint32_t row = begin + warp; row < end; row += WARPS) {
        const T *from = dy + (uint64_t)row * features + column;
        low += column < features ? gal_number(from[0]) : 0.0F;
        high += both ? gal_number(from[1]) : 0.0F;
    }
    shared[warp][2 * lane] = low;
    shared[warp][2 * lane + 1] = high;
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < COLUMNS && blockIdx.x * COLUMNS + j < features; j += THREADS) {
        float sum = 0.0F;
        for (uint32_t w = 0; w < WARPS; w++) {
            sum += shared[w][j];
        }
        sums[(uint64_t)blockIdx.y * features + blockIdx.x * COLUMNS + j] = sum;
    }
}

static __global__ void gal_bias_sum_kernel(const float *sums, uint32_t features, uint32_t parts, bool add, float *dbias)
{
    const uint32_t column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= features) {
        return;
    }
    float sum = 0.0F;
    for (uint32_t part = 0; part < parts; part++) {
        sum += sums[(uint64_t)part * features + column];
    }
    dbias[column] = add ? dbias[column] + sum : sum;
}

template <class T>
static int launch(const void *dy, uint32_t rows, uint32_t features, bool add, float *dbias, float *sums, void *stream)
{
    const uint32_t parts = gal_bias_gradient_parts(rows, features);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((features + COLUMNS - 1) / COLUMNS, parts);
    config.blockDim = dim3(THREADS);
    config.stream = (cudaStream_t)stream;
    const cudaError_t result =
        cudaLaunchKernelEx(&config, gal_bias_parts_kernel<T>, (const T *)dy, rows, features, parts, sums);
    if (result != cudaSuccess) {
        return result;
    }
    config.gridDim = dim3((features + THREADS - 1) / THREADS);
    return cudaLaunchKernelEx(&config, gal_bias_sum_kernel, (const float *)sums, features, parts, add, dbias);
}

int gal_bias_gradient(gal_flash_type type, const void *dy, uint32_t rows, uint32_t features, bool add, float *dbias,
                      void *workspace, void *stream)
{
    float *sums = (float *)workspace;
    return type == GAL_FLASH_BF16   ? launch<__nv_bfloat16>(dy, rows, features, add, dbias, sums, stream)
           : type == GAL_FLASH_FP16 ? launch<__half>(dy, rows, features, add, dbias, sums, stream)
                                    : launch<float>(dy, rows, features, add, dbias, sums, stream);
}
