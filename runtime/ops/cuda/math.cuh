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

/* erfc to 1.2e-7 of its value, which is 2 units in the last place of fp32, in half the instructions of erfcf: t
 * exp(P(t)
 * - z^2), t = 1 / (1 + z/2), z >= 0. Source: W. Press et al., "Numerical recipes in C", second edition, section 6.2,
 * erfcc. */
__device__ __forceinline__ float gal_short_erfc(float x)
{
    const float z = fabsf(x);
    const float t = __fdividef(1.0F, 1.0F + 0.5F * z);
    float p = 0.17087277F;
    p = p * t - 0.82215223F;
    p = p * t + 1.48851587F;
    p = p * t - 1.13520398F;
    p = p * t + 0.27886807F;
    p = p * t - 0.18628806F;
    p = p * t + 0.09678418F;
    p = p * t + 0.37409196F;
    p = p * t + 1.00002368F;
    p = p * t - 1.26551223F;
    const float tail = t * __expf(p - z * z);
    return x < 0.0F ? 2.0F - tail : tail;
}

template <class T> __device__ __forceinline__ float gal_erfc(float x)
{
    if constexpr (sizeof(T) == 2) {
        return gal_short_erfc(x);
    } else {
        return erfcf(x);
    }
}

#endif
