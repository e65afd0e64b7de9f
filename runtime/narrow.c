/* 16-bit floating-point numbers on the host. */
#include <math.h>
#include <string.h>

#include "runtime/narrow.h"

enum { FP16_FRACTION_BITS = 10, FP16_LEAST_EXPONENT = -14, FP16_BIAS = 15 };

static uint16_t narrow_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

/* rint rounds to even. A carry into the exponent is right as it is, also into infinity. */
static uint16_t narrow_fp16(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000u : 0u;
    const double size = fabs((double)value);
    int exponent = 0;
    if (isnan(value)) {
        return (uint16_t)(sign | 0x7E00u);
    }
    if (size >= 65520.0) { /* half way from the largest number to the next power of two */
        return (uint16_t)(sign | 0x7C00u);
    }
    (void)frexp(size, &exponent);
    exponent = size == 0.0 || exponent <= FP16_LEAST_EXPONENT ? FP16_LEAST_EXPONENT : exponent - 1;
    const uint32_t units = (uint32_t)rint(ldexp(size, FP16_FRACTION_BITS - exponent));
    /* units has the leading bit if the number is normal: it adds one to the exponent field. */
    return (uint16_t)(sign + ((uint32_t)(exponent + FP16_BIAS - 1) << FP16_FRACTION_BITS) + units);
}

uint16_t gal_narrow(float value, gal_dtype dtype)
{
    return dtype == GAL_BF16 ? narrow_bf16(value) : narrow_fp16(value);
}

static float widen_fp16(uint16_t bits)
{
    const int exponent = bits >> FP16_FRACTION_BITS & 0x1F;
    const int fraction = bits & 0x3FF;
    double size;
    if (exponent == 0x1F) {
        size = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
        size = ldexp(fraction, FP16_LEAST_EXPONENT - FP16_FRACTION_BITS);
    } else {
        size = ldexp(fraction + (1 << FP16_FRACTION_BITS), exponent - FP16_BIAS - FP16_FRACTION_BITS);
    }
    return (float)copysign(size, (bits & 0x8000u) != 0 ? -1.0 : 1.0);
}

float gal_widen(uint16_t bits, gal_dtype dtype)
{
    const uint32_t high = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &high, sizeof value);
    return dtype == GAL_BF16 ? value : widen_fp16(bits);
}

void gal_put_real(gal_dtype dtype, void *out, uint64_t index, double value)
{
    switch (dtype) {
    case GAL_FP64:
        ((double *)out)[index] = value;
        break;
    case GAL_FP32:
        ((float *)out)[index] = (float)value;
        break;
    default:
        GAL_ASSERT(gal_dtype_is_narrow(dtype));
        ((uint16_t *)out)[index] = gal_narrow((float)value, dtype);
    }
}

double gal_get_real(gal_dtype dtype, const void *from, uint64_t index)
{
    switch (dtype) {
    case GAL_FP64:
        return ((const double *)from)[index];
    case GAL_FP32:
        return (double)((const float *)from)[index];
    default:
        GAL_ASSERT(gal_dtype_is_narrow(dtype));
        return (double)gal_widen(((const uint16_t *)from)[index], dtype);
    }
}
