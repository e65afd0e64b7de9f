/* Layer and root-mean-square normalisation, forward and backward; formulas: schemas/operator.h and runtime/ops/host.
 * Statistics in fp32 and in two passes over a row that is kept in registers: the variance of values far from zero would
 * vanish in E[x^2] - E[x]^2.
 *
 * Backward in one pass over dy and x: a block takes rows in turn, keeps its share of the sums over rows of dgain and
 * dbias in registers, and writes them as one of so many parts; a second kernel adds the parts in their order. */
#include "runtime/ops/cuda/norm_forward.cuh"

template <class T> static gal_code layer_norm(const gal_kernel_call *call, gal_error *err)
{
    return norm_forward<T, true>(call, call, err, "layer_norm", norm_read{});
}
GAL_CUDA_ENTRIES(layer_norm)

template <class T> static gal_code rms_norm(const gal_kernel_call *call, gal_error *err)
{
    return norm_forward<T, false>(call, call, err, "rms_norm", norm_read{});
}
GAL_CUDA_ENTRIES(rms_norm)

/* ---- backward ---- */

/* Rows blockIdx, blockIdx + gridDim, ...: the next row's loads are under way while this one's sums are made. */
template <class T, int W, int THREADS, int V, bool CENTRED>
__global__ void __launch_bounds__(THREADS) norm_backward_kernel(norm_slopes<T> at)
{
    const uint32_t accesses = at.hidden / W;
    gal_lanes<W> dgain[V], dbias[V];
    gal_raw<T, W> next_dy[V], next_x[V], gain[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        const uint32_t access = threadIdx.x + (uint32_t)v * THREADS;
        dgain[v] = {};
        dbias[v] = {};
        if (access < accesses) {
            const uint64_t first = (uint64_t)blockIdx.x * at.hidden;
            gain[v] = gal_load<W>(at.gain, access);
            next_dy[v] = gal_load<W>(at.dy + first, access);
            next_x[v] = gal_load<W>(at.x + first, access);
        }
    }
    for (uint32_t row = blockIdx.x; row < at.rows; row += gridDim.x) {
        const uint64_t first = (uint64_t)row * at.hidden, next = first + (uint64_t)gridDim.x * at.hidden;
        const float mean = CENTRED ? at.means[row] : 0.0F, reciprocal = at.reciprocals[row];
        gal_raw<T, W> raw_dy[V], raw_x[V];
        float2 sums = {0.0F, 0.0F};
#pragma unroll
        for (int v = 0; v < V; v++) {
            const uint32_t access = threadIdx.x + (uint32_t)v * THREADS;
            raw_dy[v] = next_dy[v];
            raw_x[v] = next_x[v];
            if (access < accesses && row + gridDim.x < at.rows) {
                next_dy[v] = gal_load<W>(at.dy + next, access);
                next_x[v] = gal_load<W>(at.x + next, access);
            }
            if (access < accesses) {
                sums = slope_sums<W>(sums, gal_unpack<T, W>(raw_dy[v]), gal_unpack<T, W>(raw_x[v]),
                                     gal_unpack<T, W>(gain[v]), mean, reciprocal);
            }
        }
        sums = gal_reduce_pair<THREADS>(sums);
        sums.x /= (float)at.hidden;
        sums.y /= (float)at.hidden;
#pragma unroll
        for (int v = 0; v < V; v++) {
            const uint32_t access = threadIdx.x + (uint32_t)v * THREADS;
            if (access < accesses) {
                const gal_lanes<W> dy = gal_unpack<T, W>(raw_dy[v]), x = gal_unpack<T, W>(raw_x[v]);
                store_slope<T, W, CENTRED>(at, first, access, dy, x, gal_unpack<T, W>(gain[v]), mean, reciprocal, sums);
#pragma unroll
                for (int j = 0; j < W; j++) {
                    dgain[v].x[j] += dy.x[j] * ((x.x[j] - mean) * reciprocal);
                    dbias[v].x[j] += dy.x[j];
                }
            }
        }
    }
    float *part = at.parts + (uint64_t)blockIdx.x * (CENTRED ? 2 : 1) * at.hidden;
#pragma unroll
    for (int v = 0; v < V; v++) {
        const uint32_t access = threadIdx.x + (uint32_t)v * THREADS;
        if (access < accesses) {
            gal_store_floats<W>(part, access, dgain[v]);
            if (CENTRED) {
                gal_store_floats<W>(part + at.hidden, access, dbias[v]);
            }
        }
    }
}

/* dx alone, rows of any length. */
template <class T, int W, bool CENTRED> __global__ void __launch_bounds__(256) norm_input_kernel(norm_slopes<T> at)
{
    const uint32_t accesses = at.hidden / W, row = blockIdx.x;
    const uint64_t first = (uint64_t)row * at.hidden;
    const float mean = CENTRED ? at.means[row] : 0.0F, reciprocal = at.reciprocals[row];
    float2 sums = {0.0F, 0.0F};
    for (uint32_t access = threadIdx.x; access < accesses; access += 256) {
        sums = slope_sums<W>(sums, gal_unpack<T, W>(gal_load<W>(at.dy + first, access)),
                             gal_unpack<T, W>(gal_load<W>(at.x + first, access)),
                             gal_unpack<T, W>(gal_load<W>(at.gain, access)), mean, reciprocal);
    }
    sums = gal_reduce_pair<256>(sums);
    sums.x /= (float)at.hidden;
    sums.y /= (float)at.hidden;
    for (uint32_t access = threadIdx.x; access < accesses; access += 256) {
        store_slope<T, W, CENTRED>(at, first, access, gal_unpack<T, W>(gal_load<W>(at.dy + first, access)),
                                   gal_unpack<T, W>(gal_load<W>(at.x + first, access)),
                                   gal_unpack<T, W>(gal_load<W>(at.gain, access)), mean, reciprocal, sums);
    }
}

template <class T, int W, bool CENTRED>
static gal_code run_long_rows(const gal_kernel_call *call, gal_error *err, const char *name, norm_slopes<T> at,
                              uint32_t parts)
{
    const gal_code code = gal_launch(call, err, name, norm_columns_kernel<T, W, CENTRED>,
                                     dim3((uint32_t)gal_ceil_divide(at.hidden / W, 128), parts), 128, at);
    return code != GAL_OK ? code
                          : gal_launch(call, err, name, norm_input_kernel<T, W, CENTRED>, dim3(at.rows), 256, at);
}

template <class T, bool CENTRED>
static gal_code run_slopes(const gal_kernel_call *call, gal_error *err, const char *name, norm_slopes<T> at,
                           uint32_t parts)
{
    constexpr int W = gal_wide<T>;
    const uint32_t accesses = at.hidden / W;
    if (!gal_rows_are_wide<T>(at.hidden, at.dy, at.x, at.gain, at.addend, at.dx, at.parts)) {
        return run_long_rows<T, 1, CENTRED>(call, err, name, at, parts);
    }
    if (accesses <= 256) {
        return gal_launch(call, err, name, norm_backward_kernel<T, W, 128, 2, CENTRED>, dim3(parts), 128, at);
    }
    if (accesses <= 512) {
        return gal_launch(call, err, name, norm_backward_kernel<T, W, 256, 2, CENTRED>, dim3(parts), 256, at);
    }
    if (accesses <= 1024) {
        return gal_launch(call, err, name, norm_backward_kernel<T, W, 512, 2, CENTRED>, dim3(parts), 512, at);
    }
    return run_long_rows<T, W, CENTRED>(call, err, name, at, parts);
}

template <class T, bool CENTRED>
static gal_code backward(const gal_kernel_call *call, gal_error *err, const char *name, gal_op op)
{
    const uint32_t rows = call->dims[0], hidden = call->dims[1], addend = CENTRED ? 7 : 6;
    const uint32_t parts = gal_cuda_norm_parts(rows, hidden);
    const float *stats = (const float *)call->operand[3];
    const norm_slopes<T> at = {(const T *)call->operand[0],
                               (const T *)call->operand[1],
                               (const T *)call->operand[2],
                               call->dims[2] != 0 ? (const T *)call->operand[addend] : nullptr,
                               stats,
                               CENTRED ? stats + rows : stats,
                               (T *)call->operand[4],
                               (float *)call->workspace,
                               rows,
                               hidden};
    gal_code code = gal_need_workspace(call, op, err);
    if (code == GAL_OK) {
        code = run_slopes<T, CENTRED>(call, err, name, at, parts);
    }
    if (code == GAL_OK) {
        code = gal_column_sums(call, err, name, at.parts, parts, hidden, (float *)call->operand[5],
                               CENTRED ? (float *)call->operand[6] : nullptr);
    }
    return code;
}

template <class T> static gal_code layer_norm_backward(const gal_kernel_call *call, gal_error *err)
{
    return backward<T, true>(call, err, "layer_norm_backward", GAL_OP_LAYER_NORM_BACKWARD);
}
GAL_CUDA_ENTRIES(layer_norm_backward)

template <class T> static gal_code rms_norm_backward(const gal_kernel_call *call, gal_error *err)
{
    return backward<T, false>(call, err, "rms_norm_backward", GAL_OP_RMS_NORM_BACKWARD);
}
GAL_CUDA_ENTRIES(rms_norm_backward)
