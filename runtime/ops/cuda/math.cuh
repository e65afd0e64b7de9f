/* Functions whose exactness depends on what becomes of the result. In the table of fp32 they are those of IEEE and of
 * the library. A result that is rounded to bf16 or fp16 needs no more than the hardware's own: __expf is off by at most
 * 2 + 1.2 |x| units in the last place of fp32, __fdividef by 2 (CUDA C++ programming guide, "Intrinsic functions"),
 * against half a unit of fp16, which is 4,096 of them; and kernels that move 2 bytes per element have some 27
 * instructions for it (132 multiprocessors of 128 lanes at 1.75 GHz, 4.3 TB/s). */
#ifndef GAL_RUNTIME_OPS_CUDA_MATH_CUH
#define GAL_RUNTIME_OPS_CUDA_MATH_CUH

#include "runtime/ops/cuda/types.cuh"

template <class T> __device__ __forceinline__ float gal_exp(float x)
{
    if constexpr (sizeof(T) == 2) {
        return __expf(x);
    } else {
        return expf(x);
    }
}

/* b within 2^126. */
template <class T> __device__ __forceinline__ float gal_divide(float a, float b)
{
    if constexpr (sizeof(T) == 2) {
        return __fdividef(a, b);
    } else {
        return a / b;
    }
}

#endif
