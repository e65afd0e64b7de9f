/* Forward of layer_norm and rms_norm, of rows that lie in memory (norm.cu) or that the same kernel sums
 * (norm_residual.cu).
 */
#ifndef GAL_RUNTIME_OPS_CUDA_NORM_FORWARD_CUH
#define GAL_RUNTIME_OPS_CUDA_NORM_FORWARD_CUH

#include "runtime/ops/cuda/norm.cuh"

template <class T> struct norm_arrays {
    const T *x, *gain, *bias; /* bias: of layer_norm */
    T *y;
    float *means, *reciprocals; /* means: of layer_norm */
    uint32_t rows, hidden;
    float epsilon;
};

/* Rows as they lie in memory. */
struct norm_read {
    template <class ROW> __device__ __forceinline__ void operator()(ROW &in, uint32_t) const
    {
        in.load();
    }
};

/* A row for each THREADS of the block, which has 128 at least. MAKE: how it comes to be in `in`. */
template <class T, int W, int THREADS, int V, bool CENTRED, class MAKE>
__global__ void __launch_bounds__(THREADS > 128 ? THREADS : 128) norm_kernel(norm_arrays<T> at, MAKE make)
{
    const uint32_t each = THREADS < 128 ? 128 / THREADS : 1;
    const uint32_t row = blockIdx.x * each + threadIdx.x / THREADS;
    if (row >= at.rows) {
        return; /* a whole warp: blocks of more have one row */
    }
    norm_row<T, W, THREADS, V> in;
    in.x = at.x + (uint64_t)row * at.hidden;
    in.accesses = at.hidden / W;
    in.thread = threadIdx.x % THREADS;
    make(in, row);
    float mean = 0.0F;
    if (CENTRED) {
        float sum = 0.0F;
        in.each([&](uint32_t, gal_lanes<W> x) {
            for (int j = 0; j < W; j++) {
                sum += x.x[j];
            }
        });
        mean = gal_reduce<gal_sum, THREADS>(sum) / (float)at.hidden;
    }
    float squares = 0.0F;
    in.each([&](uint32_t, gal_lanes<W> x) {
        for (int j = 0; j < W; j++) {
            squares += (x.x[j] - mean) * (x.x[j] - mean);
        }
    });
    const float variance = gal_reduce<gal_sum, THREADS>(squares) / (float)at.hidden;
    const float reciprocal = 1.0F / sqrtf(variance + at.epsilon);
    in.each([&](uint32_t access, gal_lanes<W> x) {
        const gal_lanes<W> gain = gal_unpack<T, W>(gal_load<W>(at.gain, access));
        gal_lanes<W> bias;
        if (CENTRED) {
            bias = gal_unpack<T, W>(gal_load<W>(at.bias, access));
        }
        for (int j = 0; j < W; j++) {
            x.x[j] = (x.x[j] - mean) * reciprocal * gain.x[j];
            x.x[j] = CENTRED ? x.x[j] + bias.x[j] : x.x[j];
        }
        gal_store<W>(at.y + (uint64_t)row * at.hidden, access, gal_pack<T, W>(x));
    });
    if (in.thread == 0) {
        at.reciprocals[row] = reciprocal;
        if (CENTRED) {
            at.means[row] = mean;
        }
    }
}

template <class T, int W, int THREADS, int V, bool CENTRED, class MAKE>
static gal_code norm_run(const gal_kernel_call *queue, gal_error *err, const char *name, const norm_arrays<T> &at,
                         const MAKE &make)
{
    const uint32_t each = THREADS < 128 ? 128 / THREADS : 1;
    return gal_launch(queue, err, name, norm_kernel<T, W, THREADS, V, CENTRED, MAKE>,
                      dim3((uint32_t)gal_ceil_divide(at.rows, each)), THREADS > 128 ? THREADS : 128, at, make);
}

/* A call of layer_norm or, not CENTRED, of rms_norm, on the stream of `queue`. Rows of up to 128 accesses go to a warp
 * each. more: what else is accessed in rows. */
template <class T, bool CENTRED, class MAKE, class... P>
static gal_code norm_forward(const gal_kernel_call *call, const gal_kernel_call *queue, gal_error *err,
                             const char *name, const MAKE &make, const P *...more)
{
    constexpr int W = gal_wide<T>;
    const uint32_t rows = call->dims[0], hidden = call->dims[1], accesses = hidden / W;
    float *stats = (float *)call->operand[CENTRED ? 4 : 3];
    const norm_arrays<T> at = {(const T *)call->operand[0],
                               (const T *)call->operand[1],
                               CENTRED ? (const T *)call->operand[2] : nullptr,
                               (T *)call->operand[CENTRED ? 3 : 2],
                               CENTRED ? stats : nullptr,
                               CENTRED ? stats + rows : stats,
                               rows,
                               hidden,
                               (float)call->step->model->norm_epsilon};
    if (!gal_rows_are_wide<T>(hidden, at.x, at.gain, at.bias, at.y, more...)) {
        return norm_run<T, 1, 256, 0, CENTRED>(queue, err, name, at, make);
    }
    if (accesses <= 128) {
        return norm_run<T, W, 32, 4, CENTRED>(queue, err, name, at, make);
    }
    if (accesses <= 512) {
        return norm_run<T, W, 128, 4, CENTRED>(queue, err, name, at, make);
    }
    if (accesses <= 2048) {
        return norm_run<T, W, 512, 4, CENTRED>(queue, err, name, at, make);
    }
    return norm_run<T, W, 256, 0, CENTRED>(queue, err, name, at, make);
}

#endif
