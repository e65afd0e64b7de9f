/* What normalisation of whole rows (norm.cu) and of rows whose features are split (norm_parts.cu) share. */
#ifndef GAL_RUNTIME_OPS_CUDA_NORM_CUH
#define GAL_RUNTIME_OPS_CUDA_NORM_CUH

#include "runtime/ops/cuda/columns.cuh"
#include "runtime/ops/cuda/reduce.cuh"
#include "runtime/ops/cuda/workspace.h"

/* Accesses threadIdx, threadIdx + THREADS, ... of a row; V of them kept, V 0: a row of any length, read anew each time.
 */
template <class T, int W, int THREADS, int V> struct norm_row {
    static constexpr int kept = V > 0 ? V : 1;
    const T *x;
    uint32_t accesses, thread;
    gal_raw<T, W> raw[kept];

    __device__ __forceinline__ void load()
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (thread + (uint32_t)v * THREADS < accesses) {
                raw[v] = gal_load<W>(x, thread + (uint32_t)v * THREADS);
            }
        }
    }

    /* use(access, lanes) for each */
    template <class F> __device__ __forceinline__ void each(F use) const
    {
        if constexpr (V == 0) {
            for (uint32_t access = thread; access < accesses; access += THREADS) {
                use(access, gal_unpack<T, W>(gal_load<W>(x, access)));
            }
        } else {
#pragma unroll
            for (int v = 0; v < V; v++) {
                const uint32_t access = thread + (uint32_t)v * THREADS;
                if (access < accesses) {
                    use(access, gal_unpack<T, W>(raw[v]));
                }
            }
        }
    }
};

/* ---- backward ---- */

template <class T> struct norm_slopes {
    const T *dy, *x, *gain, *addend; /* addend NULL: none */
    const float *means, *reciprocals;
    T *dx;
    float *parts; /* [parts][CENTRED ? 2 : 1][hidden]: of dgain, of dbias */
    uint32_t rows, hidden;
};

/* Sums over W lanes of d and d xhat with d = dy gain, xhat = (x - mean) reciprocal. */
template <int W>
static __device__ __forceinline__ float2 slope_sums(float2 sums, const gal_lanes<W> &dy, const gal_lanes<W> &x,
                                                    const gal_lanes<W> &gain, float mean, float reciprocal)
{
#pragma unroll
    for (int j = 0; j < W; j++) {
        const float d = dy.x[j] * gain.x[j];
        sums.x += d;
        sums.y += d * ((x.x[j] - mean) * reciprocal);
    }
    return sums;
}

/* dx = addend + reciprocal (d - mean(d) - xhat mean(d xhat)); mean(d) is left out of root-mean-square. */
template <class T, int W, bool CENTRED>
static __device__ __forceinline__ void store_slope(const norm_slopes<T> &at, uint64_t first, uint32_t access,
                                                   const gal_lanes<W> &dy, const gal_lanes<W> &x,
                                                   const gal_lanes<W> &gain, float mean, float reciprocal, float2 means)
{
    gal_lanes<W> dx;
#pragma unroll
    for (int j = 0; j < W; j++) {
        const float unit = (x.x[j] - mean) * reciprocal;
        const float centred = CENTRED ? dy.x[j] * gain.x[j] - means.x : dy.x[j] * gain.x[j];
        dx.x[j] = reciprocal * (centred - unit * means.y);
    }
    if (at.addend != nullptr) {
        const gal_lanes<W> addend = gal_unpack<T, W>(gal_load<W>(at.addend + first, access));
#pragma unroll
        for (int j = 0; j < W; j++) {
            dx.x[j] += addend.x[j];
        }
    }
    gal_store<W>(at.dx + first, access, gal_pack<T, W>(dx));
}

/* Parts of dgain and dbias alone: a thread has W columns and rows blockIdx.y, blockIdx.y + gridDim.y, ... */
template <class T, int W, bool CENTRED> __global__ void __launch_bounds__(128) norm_columns_kernel(norm_slopes<T> at)
{
    const uint32_t access = blockIdx.x * 128 + threadIdx.x;
    if (access >= at.hidden / W) {
        return;
    }
    gal_lanes<W> dgain = {}, dbias = {};
#pragma unroll 4
    for (uint32_t row = blockIdx.y; row < at.rows; row += gridDim.y) {
        const uint64_t first = (uint64_t)row * at.hidden;
        const float mean = CENTRED ? at.means[row] : 0.0F, reciprocal = at.reciprocals[row];
        const gal_lanes<W> dy = gal_unpack<T, W>(gal_load<W>(at.dy + first, access));
        const gal_lanes<W> x = gal_unpack<T, W>(gal_load<W>(at.x + first, access));
#pragma unroll
        for (int j = 0; j < W; j++) {
            dgain.x[j] += dy.x[j] * ((x.x[j] - mean) * reciprocal);
            dbias.x[j] += dy.x[j];
        }
    }
    float *part = at.parts + (uint64_t)blockIdx.y * (CENTRED ? 2 : 1) * at.hidden;
    gal_store_floats<W>(part, access, dgain);
    if (CENTRED) {
        gal_store_floats<W>(part + at.hidden, access, dbias);
    }
}

#endif
