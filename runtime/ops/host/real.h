/* The element type of a host kernel: every file of this folder is compiled twice, with GAL_REAL_FP64 0 and 1, but for
 * those named *_any.c. Also what the kernels share that must be inlined into their loops.
 *
 * Reductions keep GAL_LANES partial sums and add those in a fixed order: the same input gives the same bits, whatever
 * instructions the compiler picks, and the loop vectorises without leave to reorder. */
#ifndef GAL_RUNTIME_OPS_HOST_REAL_H
#define GAL_RUNTIME_OPS_HOST_REAL_H

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/ops/host/vector.h"

#ifndef GAL_REAL_FP64
#error "compile with -DGAL_REAL_FP64=0 or -DGAL_REAL_FP64=1"
#endif

#if GAL_REAL_FP64
typedef double gal_real;
#define GAL_REAL(name) name##_fp64
#define GAL_REAL_DTYPE GAL_FP64
#define GAL_REAL_MAX DBL_MAX
#define gal_cblas_gemm cblas_dgemm
#define gal_real_sqrt sqrt
#define gal_real_erfc erfc
#define gal_real_fabs fabs
#else
typedef float gal_real;
#define GAL_REAL(name) name##_fp32
#define GAL_REAL_DTYPE GAL_FP32
#define GAL_REAL_MAX FLT_MAX
#define gal_cblas_gemm cblas_sgemm
#define gal_real_sqrt sqrtf
#define gal_real_erfc erfcf
#define gal_real_fabs fabsf
#endif

enum { GAL_LANES = 32 };

/* exp(x) for x <= 0 (softmax and sigmoid need no more), NaN of NaN.
 * fp32: at most 2 units in the last place; 0 below -87.7, where results are no longer normal numbers. x = n ln 2 + r,
 * n ln 2 in two parts of which the first is exact, and a polynomial for exp(r). From n = -127 on the bits of 2^n are
 * those of 0, so one clamp serves range and underflow; a second comparison would put a branch in the loop, and it would
 * not vectorise. Source: coefficients of expf in the Cephes library (S. Moshier). */
#if GAL_REAL_FP64
GAL_INLINE double gal_exp_nonpositive(double x)
{
    return exp(x);
}
#else
GAL_INLINE float gal_exp_nonpositive(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits */
    const float clamped = x < -88.0f ? -88.0f : x;
    union {
        float value;
        uint32_t bits;
    } shifted = {.value = clamped * 1.44269504f + magic}, scale;
    const float n = shifted.value - magic;
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r * r + r) + 1.0f;
    scale.bits = (shifted.bits + 127U) << 23;
    return p * scale.value;
}
#endif

/* Adds the lanes pairwise. */
GAL_INLINE double gal_lane_sum(const double lane[GAL_LANES])
{
    double sum[GAL_LANES / 2];
    for (size_t l = 0; l < GAL_LANES / 2; l++) {
        sum[l] = lane[l] + lane[l + GAL_LANES / 2];
    }
    for (size_t width = GAL_LANES / 4; width > 0; width /= 2) {
        for (size_t l = 0; l < width; l++) {
            sum[l] += sum[l + width];
        }
    }
    return sum[0];
}

/* Largest of count values; -GAL_REAL_MAX if there is none. */
GAL_INLINE gal_real gal_row_max(const gal_real *x, size_t count)
{
    gal_real lane[GAL_LANES];
    for (size_t l = 0; l < GAL_LANES; l++) {
        lane[l] = -GAL_REAL_MAX;
    }
    size_t i = 0;
    for (; i + GAL_LANES <= count; i += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
        }
    }
    for (; i < count; i++) {
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    }
    for (size_t l = 1; l < GAL_LANES; l++) {
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    }
    return lane[0];
}

GAL_INLINE double gal_row_sum(const gal_real *x, size_t count)
{
    double lane[GAL_LANES] = {0};
    size_t i = 0;
    for (; i + GAL_LANES <= count; i += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            lane[l] += (double)x[i + l];
        }
    }
    for (; i < count; i++) {
        lane[0] += (double)x[i];
    }
    return gal_lane_sum(lane);
}

GAL_INLINE double gal_row_dot(const gal_real *x, const gal_real *y, size_t count)
{
    double lane[GAL_LANES] = {0};
    size_t i = 0;
    for (; i + GAL_LANES <= count; i += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            lane[l] += (double)x[i + l] * (double)y[i + l];
        }
    }
    for (; i < count; i++) {
        lane[0] += (double)x[i] * (double)y[i];
    }
    return gal_lane_sum(lane);
}

#endif
