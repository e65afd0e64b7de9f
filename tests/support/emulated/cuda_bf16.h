/* bf16 as CUDA names it: the upper half of a float, rounded to nearest, ties to even. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_CUDA_BF16_H
#define GAL_TESTS_SUPPORT_EMULATED_CUDA_BF16_H

#include <cuda_runtime.h>

struct __nv_bfloat16 {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    const uint32_t bits = __float_as_uint(x);
    if (x != x) {
        return {0x7FFF};
    }
    return {(uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#endif
