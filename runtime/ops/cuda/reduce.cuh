/* Sums and maxima over the threads of a warp or a block, in an order that is the same each time: halves of the warp,
 * then warps one after another. Every thread gets the result. */
#ifndef GAL_RUNTIME_OPS_CUDA_REDUCE_CUH
#define GAL_RUNTIME_OPS_CUDA_REDUCE_CUH

#include "runtime/ops/cuda/types.cuh"

struct gal_sum {
    template <class V> static __device__ __forceinline__ V of(V a, V b)
    {
        return a + b;
    }
};
/* Of NaN and a number, a if b is NaN: as the host's. */
struct gal_max {
    template <class V> static __device__ __forceinline__ V of(V a, V b)
    {
        return b > a ? b : a;
    }
};

template <class R, class V> __device__ __forceinline__ V gal_reduce_warp(V value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = R::of(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    return value;
}

/* THREADS is that of the block, or 32 for each of its warps by itself; all must come here. */
template <class R, int THREADS, class V> __device__ __forceinline__ V gal_reduce(V value)
{
    value = gal_reduce_warp<R>(value);
    if constexpr (THREADS > 32) {
        __shared__ V warp[THREADS / 32];
        __syncthreads(); /* those who still read the last call's */
        if (threadIdx.x % 32 == 0) {
            warp[threadIdx.x / 32] = value;
        }
        __syncthreads();
        value = warp[0];
#pragma unroll
        for (int w = 1; w < THREADS / 32; w++) {
            value = R::of(value, warp[w]);
        }
    }
    return value;
}

/* Two sums at once. */
template <int THREADS> __device__ __forceinline__ float2 gal_reduce_pair(float2 value)
{
    value.x = gal_reduce_warp<gal_sum>(value.x);
    value.y = gal_reduce_warp<gal_sum>(value.y);
    if constexpr (THREADS > 32) {
        __shared__ float2 warp[THREADS / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) {
            warp[threadIdx.x / 32] = value;
        }
        __syncthreads();
        value = warp[0];
#pragma unroll
        for (int w = 1; w < THREADS / 32; w++) {
            value.x += warp[w].x;
            value.y += warp[w].y;
        }
    }
    return value;
}

#endif
