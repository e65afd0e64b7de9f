/* fp16 as CUDA names it: IEEE 754 binary16, rounded to nearest, ties to even. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_CUDA_FP16_H
#define GAL_TESTS_SUPPORT_EMULATED_CUDA_FP16_H

#include <cuda_runtime.h>

struct __half {
    uint16_t bits;
};
struct alignas(4) __half2 {
    __half x, y;
};

static inline float __half2float(__half x)
{
    const uint32_t exponent = x.bits >> 10 & 31U, fraction = x.bits & 1023U;
    const float sign = (x.bits & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == 31U) {
        return fraction != 0 ? NAN : sign * INFINITY;
    }
    /* of fp32 the exponent is 112 more, and the fraction has 13 bits more */
    return sign *
           (exponent == 0 ? 0x1p-24F * (float)fraction : __uint_as_float((exponent + 112U) << 23 | fraction << 13));
}
/* The unit of the last place is 2^-24 below 2^-14, and 2^-10 of the power of two under x above; rintf rounds to it. */
static inline __half __float2half_rn(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000U : 0U;
    const float size = fabsf(x);
    if (x != x) {
        return {0x7FFF};
    }
    if (size >= 65520.0F) {
        return {(uint16_t)(sign | 0x7C00U)};
    }
    int exponent = size < 0x1p-14F ? -14 : ilogbf(size);
    const uint32_t units = (uint32_t)rintf(ldexpf(size, 10 - exponent)); /* 0 .. 2048 */
    return {(uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + units))};
}
static inline __half __ushort_as_half(uint16_t bits)
{
    return {bits};
}
static inline __half2 __floats2half2_rn(float x, float y)
{
    return {__float2half_rn(x), __float2half_rn(y)};
}

#endif
