/* Norms of rows whose features are split over devices, and what else treats such rows; formulas:
 * runtime/ops/host/norm_parts.c. A warp has a row of up to 128 accesses, a block of 256 threads a longer one; what is
 * read twice comes from the cache the second time. */
#include "runtime/ops/cuda/norm.cuh"

enum { PART_SHORT = 128, PART_THREADS = 256 };

/* The row that this thread has a share of: at.rows or beyond if there is none, for all threads of a warp alike. */
template <int THREADS> static __device__ __forceinline__ uint32_t row_here()
{
    return THREADS == 32 ? blockIdx.x * (PART_THREADS / 32) + threadIdx.x / 32 : blockIdx.x;
}

template <class T, int W, int THREADS>
static __device__ __forceinline__ norm_row<T, W, THREADS, 0> row_of(const T *x, uint32_t row, uint32_t features)
{
    norm_row<T, W, THREADS, 0> in;
    in.x = x + (uint64_t)row * features;
    in.accesses = features / W;
    in.thread = threadIdx.x % THREADS;
    return in;
}

/* Queues a kernel over rows, W elements at a time: its form for a warp or for a block. */
template <class... P>
static gal_code launch_rows(const gal_kernel_call *call, gal_error *err, const char *name, void (*warps)(P...),
                            void (*blocks)(P...), uint32_t accesses, P... arguments)
{
    const uint32_t rows = call->dims[0];
    return accesses <= PART_SHORT
               ? gal_launch(call, err, name, warps, dim3((uint32_t)gal_ceil_divide(rows, PART_THREADS / 32)),
                            PART_THREADS, arguments...)
               : gal_launch(call, err, name, blocks, dim3(rows), PART_THREADS, arguments...);
}

/* ---- forward ---- */

template <class T, int W, int THREADS>
__global__ void __launch_bounds__(PART_THREADS)
    moments_kernel(const T *x, float *moments, uint32_t rows, uint32_t features)
{
    const uint32_t row = row_here<THREADS>();
    if (row >= rows) {
        return;
    }
    const norm_row<T, W, THREADS, 0> in = row_of<T, W, THREADS>(x, row, features);
    float sum = 0.0F, squares = 0.0F;
    in.each([&](uint32_t, gal_lanes<W> lanes) {
        for (int j = 0; j < W; j++) {
            sum += lanes.x[j];
        }
    });
    const float mean = gal_reduce<gal_sum, THREADS>(sum) / (float)features;
    in.each([&](uint32_t, gal_lanes<W> lanes) {
        for (int j = 0; j < W; j++) {
            squares += (lanes.x[j] - mean) * (lanes.x[j] - mean);
        }
    });
    squares = gal_reduce<gal_sum, THREADS>(squares);
    if (in.thread == 0) {
        moments[row] = mean;
        moments[rows + row] = squares;
    }
}

template <class T, int W> static gal_code run_moments(const gal_kernel_call *call, gal_error *err)
{
    return launch_rows(call, err, "norm_sums", moments_kernel<T, W, 32>, moments_kernel<T, W, PART_THREADS>,
                       call->dims[1] / W, (const T *)call->operand[0], (float *)call->operand[1], call->dims[0],
                       call->dims[1]);
}

template <class T> static gal_code norm_sums(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[1], call->operand[0]);
    return (wide ? run_moments<T, gal_wide<T>> : run_moments<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(norm_sums)

template <class T> struct part_rows {
    const T *x, *gain, *bias; /* bias: of centred ones */
    const float *moments;     /* [parts][2][rows] */
    T *y;
    float *stats;
    uint32_t rows, features, parts;
    float epsilon;
};

/* Mean and reciprocal deviation of a row, from the moments of all its parts. */
template <class T, bool CENTRED>
static __device__ __forceinline__ float2 statistics_of(const part_rows<T> &at, uint32_t row)
{
    float mean = 0.0F, squares = 0.0F;
    for (uint32_t p = 0; CENTRED && p < at.parts; p++) {
        mean += at.moments[(uint64_t)2 * p * at.rows + row];
    }
    mean /= (float)at.parts;
    for (uint32_t p = 0; p < at.parts; p++) {
        const float off = at.moments[(uint64_t)2 * p * at.rows + row] - mean;
        squares += at.moments[((uint64_t)2 * p + 1) * at.rows + row] + (float)at.features * off * off;
    }
    return {mean, 1.0F / sqrtf(squares / ((float)at.features * (float)at.parts) + at.epsilon)};
}

template <class T, int W, int THREADS, bool CENTRED>
__global__ void __launch_bounds__(PART_THREADS) by_moments_kernel(part_rows<T> at)
{
    const uint32_t row = row_here<THREADS>();
    if (row >= at.rows) {
        return;
    }
    const norm_row<T, W, THREADS, 0> in = row_of<T, W, THREADS>(at.x, row, at.features);
    const float2 statistics = statistics_of<T, CENTRED>(at, row);
    in.each([&](uint32_t access, gal_lanes<W> x) {
        const gal_lanes<W> gain = gal_unpack<T, W>(gal_load<W>(at.gain, access));
        gal_lanes<W> bias = {};
        if (CENTRED) {
            bias = gal_unpack<T, W>(gal_load<W>(at.bias, access));
        }
        for (int j = 0; j < W; j++) {
            x.x[j] = (x.x[j] - statistics.x) * statistics.y * gain.x[j] + bias.x[j];
        }
        gal_store<W>(at.y + (uint64_t)row * at.features, access, gal_pack<T, W>(x));
    });
    if (in.thread == 0) {
        at.stats[CENTRED ? at.rows + row : row] = statistics.y;
        if (CENTRED) {
            at.stats[row] = statistics.x;
        }
    }
}

template <class T, int W, bool CENTRED>
static gal_code run_by_moments(const gal_kernel_call *call, gal_error *err, const part_rows<T> &at)
{
    return launch_rows(call, err, "norm_by_sums", by_moments_kernel<T, W, 32, CENTRED>,
                       by_moments_kernel<T, W, PART_THREADS, CENTRED>, at.features / W, at);
}

template <class T> static gal_code norm_by_sums(const gal_kernel_call *call, gal_error *err)
{
    constexpr int W = gal_wide<T>;
    const bool centred = call->dims[3] != 0;
    const part_rows<T> at = {(const T *)call->operand[0],
                             (const T *)call->operand[1],
                             centred ? (const T *)call->operand[5] : nullptr,
                             (const float *)call->operand[2],
                             (T *)call->operand[3],
                             (float *)call->operand[4],
                             call->dims[0],
                             call->dims[1],
                             call->dims[2],
                             (float)call->step->model->norm_epsilon};
    const bool wide = gal_rows_are_wide<T>(at.features, at.x, at.gain, at.bias, at.y);
    return centred ? (wide ? run_by_moments<T, W, true> : run_by_moments<T, 1, true>)(call, err, at)
                   : (wide ? run_by_moments<T, W, false> : run_by_moments<T, 1, false>)(call, err, at);
}
GAL_CUDA_ENTRIES(norm_by_sums)

/* ---- backward ---- */

/* Sums over the features here of d = dy gain and of d xhat. */
template <class T, int W, int THREADS, bool CENTRED>
__global__ void __launch_bounds__(PART_THREADS) slope_sums_kernel(norm_slopes<T> at, float *sums_out)
{
    const uint32_t row = row_here<THREADS>();
    if (row >= at.rows) {
        return;
    }
    const norm_row<T, W, THREADS, 0> in = row_of<T, W, THREADS>(at.x, row, at.hidden);
    const float mean = CENTRED ? at.means[row] : 0.0F, reciprocal = at.reciprocals[row];
    float2 sums = {0.0F, 0.0F};
    in.each([&](uint32_t access, gal_lanes<W> x) {
        const T *dy = at.dy + (uint64_t)row * at.hidden;
        sums = slope_sums<W>(sums, gal_unpack<T, W>(gal_load<W>(dy, access)), x,
                             gal_unpack<T, W>(gal_load<W>(at.gain, access)), mean, reciprocal);
    });
    sums = gal_reduce_pair<THREADS>(sums);
    if (in.thread == 0) {
        sums_out[row] = sums.x;
        sums_out[at.rows + row] = sums.y;
    }
}

template <class T, int W, bool CENTRED>
static gal_code run_slope_sums(const gal_kernel_call *call, gal_error *err, norm_slopes<T> at, uint32_t parts)
{
    const gal_code code = gal_launch(call, err, "norm_sums_backward", norm_columns_kernel<T, W, CENTRED>,
                                     dim3((uint32_t)gal_ceil_divide(at.hidden / W, 128), parts), 128, at);
    return code != GAL_OK ? code
                          : launch_rows(call, err, "norm_sums_backward", slope_sums_kernel<T, W, 32, CENTRED>,
                                        slope_sums_kernel<T, W, PART_THREADS, CENTRED>, at.hidden / W, at,
                                        (float *)call->operand[4]);
}

/* What both halves of the backward read. */
template <class T> static norm_slopes<T> slopes_of(const gal_kernel_call *call, bool centred)
{
    const float *stats = (const float *)call->operand[3];
    norm_slopes<T> at = {};
    at.dy = (const T *)call->operand[0];
    at.x = (const T *)call->operand[1];
    at.gain = (const T *)call->operand[2];
    at.means = stats;
    at.reciprocals = centred ? stats + call->dims[0] : stats;
    at.rows = call->dims[0];
    at.hidden = call->dims[1];
    return at;
}

template <class T> static gal_code norm_sums_backward(const gal_kernel_call *call, gal_error *err)
{
    constexpr int W = gal_wide<T>;
    const bool centred = call->dims[2] != 0;
    const uint32_t parts = gal_cuda_norm_parts(call->dims[0], call->dims[1]);
    norm_slopes<T> at = slopes_of<T>(call, centred);
    at.parts = (float *)call->workspace;
    const bool wide = gal_rows_are_wide<T>(at.hidden, at.dy, at.x, at.gain, at.parts);
    gal_code code = gal_need_workspace(call, GAL_OP_NORM_SUMS_BACKWARD, err);
    if (code == GAL_OK) {
        code = centred ? (wide ? run_slope_sums<T, W, true> : run_slope_sums<T, 1, true>)(call, err, at, parts)
                       : (wide ? run_slope_sums<T, W, false> : run_slope_sums<T, 1, false>)(call, err, at, parts);
    }
    return code != GAL_OK ? code
                          : gal_column_sums(call, err, "norm_sums_backward", at.parts, parts, at.hidden,
                                            (float *)call->operand[5], centred ? (float *)call->operand[6] : nullptr);
}
GAL_CUDA_ENTRIES(norm_sums_backward)

template <class T, int W, int THREADS, bool CENTRED>
__global__ void __launch_bounds__(PART_THREADS) slope_kernel(norm_slopes<T> at, const float *sums, float all)
{
    const uint32_t row = row_here<THREADS>();
    if (row >= at.rows) {
        return;
    }
    const norm_row<T, W, THREADS, 0> in = row_of<T, W, THREADS>(at.x, row, at.hidden);
    const float mean = CENTRED ? at.means[row] : 0.0F, reciprocal = at.reciprocals[row];
    const float2 means = {sums[row] / all, sums[at.rows + row] / all};
    const uint64_t first = (uint64_t)row * at.hidden;
    in.each([&](uint32_t access, gal_lanes<W> x) {
        store_slope<T, W, CENTRED>(at, first, access, gal_unpack<T, W>(gal_load<W>(at.dy + first, access)), x,
                                   gal_unpack<T, W>(gal_load<W>(at.gain, access)), mean, reciprocal, means);
    });
}

template <class T, int W, bool CENTRED>
static gal_code run_slopes(const gal_kernel_call *call, gal_error *err, norm_slopes<T> at)
{
    return launch_rows(call, err, "norm_by_sums_backward", slope_kernel<T, W, 32, CENTRED>,
                       slope_kernel<T, W, PART_THREADS, CENTRED>, at.hidden / W, at, (const float *)call->operand[4],
                       (float)at.hidden * (float)call->dims[2]);
}

template <class T> static gal_code norm_by_sums_backward(const gal_kernel_call *call, gal_error *err)
{
    constexpr int W = gal_wide<T>;
    const bool centred = call->dims[3] != 0;
    norm_slopes<T> at = slopes_of<T>(call, centred);
    at.dx = (T *)call->operand[5];
    at.addend = call->dims[4] != 0 ? (const T *)call->operand[6] : nullptr;
    const bool wide = gal_rows_are_wide<T>(at.hidden, at.dy, at.x, at.gain, at.addend, at.dx);
    return centred ? (wide ? run_slopes<T, W, true> : run_slopes<T, 1, true>)(call, err, at)
                   : (wide ? run_slopes<T, W, false> : run_slopes<T, 1, false>)(call, err, at);
}
GAL_CUDA_ENTRIES(norm_by_sums_backward)
