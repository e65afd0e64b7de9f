/* Sums of the columns of parts in fp32, in the order of the parts: the second half of a sum over rows. */
#ifndef GAL_RUNTIME_OPS_CUDA_COLUMNS_CUH
#define GAL_RUNTIME_OPS_CUDA_COLUMNS_CUH

#include "runtime/ops/cuda/launch.cuh"

enum { GAL_COLUMN_THREADS = 32, GAL_COLUMN_LINES = 8 };

/* Of 32 columns a block: line l adds parts l, l + 8, ..., then the lines are added. Column j of `width` goes to
 * first[j], or second[j - count] from `count` on. */
static __global__ void __launch_bounds__(GAL_COLUMN_THREADS *GAL_COLUMN_LINES)
    gal_column_kernel(const float *parts, uint32_t part_count, uint32_t width, uint32_t count, bool adds, float *first,
                      float *second)
{
    __shared__ float line_sum[GAL_COLUMN_LINES][GAL_COLUMN_THREADS];
    const uint32_t lane = threadIdx.x % GAL_COLUMN_THREADS, line = threadIdx.x / GAL_COLUMN_THREADS;
    const uint32_t column = blockIdx.x * GAL_COLUMN_THREADS + lane;
    float sum = 0.0F;
    if (column < width) {
#pragma unroll 8
        for (uint32_t part = line; part < part_count; part += GAL_COLUMN_LINES) {
            sum += parts[(uint64_t)part * width + column];
        }
    }
    line_sum[line][lane] = sum;
    __syncthreads();
    if (line == 0 && column < width) {
        for (uint32_t l = 1; l < GAL_COLUMN_LINES; l++) {
            sum += line_sum[l][lane];
        }
        float *out = column < count ? first + column : second + (column - count);
        *out = adds ? *out + sum : sum;
    }
}

/* parts[part_count][second == NULL ? 1 : 2][count] -> first[count], second[count]: written, or added if call->add. */
static inline gal_code gal_column_sums(const gal_kernel_call *call, gal_error *err, const char *name,
                                       const float *parts, uint32_t part_count, uint32_t count, float *first,
                                       float *second)
{
    const uint32_t width = second == nullptr ? count : 2 * count;
    return gal_launch(call, err, name, gal_column_kernel, dim3((uint32_t)gal_ceil_divide(width, GAL_COLUMN_THREADS)),
                      GAL_COLUMN_THREADS * GAL_COLUMN_LINES, parts, part_count, width, count, call->add, first, second);
}

#endif
