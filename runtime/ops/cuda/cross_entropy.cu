/* Cross-entropy over a vocabulary that may be split over a group; as runtime/ops/host/cross_entropy.c. A block has a
 * row of logits; exponentials and their sum in fp32 (math.cuh). */
#include "runtime/ops/cuda/launch.cuh"
#include "runtime/ops/cuda/math.cuh"
#include "runtime/ops/cuda/reduce.cuh"

enum { THREADS = 512, LOSS_THREADS = 1024 };

template <class T> struct logit_rows {
    const T *logits;
    uint32_t stride;  /* vocabulary_local */
    uint32_t columns; /* of them real: padding lies at the end */
};

template <class T> static logit_rows<T> rows_of(const gal_kernel_call *call, uint32_t local, uint32_t vocabulary)
{
    const uint64_t first = (uint64_t)call->group_index * local;
    const uint64_t left = vocabulary > first ? vocabulary - first : 0;
    return {(const T *)call->operand[0], local, (uint32_t)(left < local ? left : local)};
}

/* use(first column, lanes, how many of them are real) for this thread's share of a row. */
template <class T, int W, class F>
static __device__ __forceinline__ void each_logit(const T *z, uint32_t columns, F use)
{
    const uint32_t whole = columns / W;
    uint32_t access = threadIdx.x;
    for (; access + 3 * THREADS < whole; access += 4 * THREADS) {
        gal_raw<T, W> raw[4];
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            raw[u] = gal_load<W>(z, access + u * THREADS);
        }
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            use((access + u * THREADS) * W, gal_unpack<T, W>(raw[u]), W);
        }
    }
    for (; access < whole; access += THREADS) {
        use(access * W, gal_unpack<T, W>(gal_load<W>(z, access)), W);
    }
    if (W > 1 && access == whole && columns % W != 0) {
        use(access * W, gal_unpack<T, W>(gal_load<W>(z, access)), (int)(columns % W));
    }
}

/* A part that is all padding gives the least finite number, so that reductions stay finite. */
template <class T, int W> __global__ void __launch_bounds__(THREADS) max_kernel(logit_rows<T> rows, float *maxima)
{
    float most = -3.402823466e38F;
    each_logit<T, W>(rows.logits + (uint64_t)blockIdx.x * rows.stride, rows.columns,
                     [&](uint32_t, gal_lanes<W> z, int real) {
#pragma unroll
                         for (int j = 0; j < W; j++) {
                             most = j < real && z.x[j] > most ? z.x[j] : most;
                         }
                     });
    most = gal_reduce<gal_max, THREADS>(most);
    if (threadIdx.x == 0) {
        maxima[blockIdx.x] = most;
    }
}

template <class T> static gal_code cross_entropy_max(const gal_kernel_call *call, gal_error *err)
{
    const logit_rows<T> rows = rows_of<T>(call, call->dims[1], call->dims[2]);
    const bool wide = gal_rows_are_wide<T>(rows.stride, rows.logits);
    return gal_launch(call, err, "cross_entropy_max", wide ? max_kernel<T, gal_wide<T>> : max_kernel<T, 1>,
                      dim3(call->dims[0]), THREADS, rows, (float *)call->operand[1]);
}
GAL_CUDA_ENTRIES(cross_entropy_max)

/* Where the targets of rows [position][sample] are, and which columns are this rank's. */
struct row_targets {
    const int32_t *ids; /* [samples][sequence]; -1: none */
    uint32_t samples, sequence;
    int64_t first_column;

    __device__ __forceinline__ int32_t id(uint32_t row) const
    {
        return ids[(uint64_t)(row % samples) * sequence + row / samples];
    }
    /* `columns` if it is elsewhere. */
    __device__ __forceinline__ uint32_t column(int32_t id, uint32_t columns) const
    {
        const int64_t column = id - first_column;
        return column >= 0 && column < (int64_t)columns ? (uint32_t)column : columns;
    }
};

static row_targets targets_of(const gal_kernel_call *call, uint32_t operand)
{
    return {(const int32_t *)call->operand[operand], call->dims[0], call->dims[1],
            (int64_t)call->group_index * (int64_t)call->dims[2]};
}

template <class T, int W>
__global__ void __launch_bounds__(THREADS)
    sum_kernel(logit_rows<T> rows, const float *maxima, row_targets targets, float *sums)
{
    const T *z = rows.logits + (uint64_t)blockIdx.x * rows.stride;
    const float max = maxima[blockIdx.x];
    const int32_t id = targets.id(blockIdx.x);
    float sum = 0.0F;
    if (id >= 0) { /* all threads of the block or none */
        each_logit<T, W>(z, rows.columns, [&](uint32_t, gal_lanes<W> x, int real) {
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum += j < real ? gal_exp<T>(x.x[j] - max) : 0.0F;
            }
        });
        sum = gal_reduce<gal_sum, THREADS>(sum);
    }
    if (threadIdx.x == 0) {
        const uint32_t target = targets.column(id, rows.columns);
        sums[blockIdx.x] = sum;
        sums[gridDim.x + blockIdx.x] = target < rows.columns ? gal_to_float(z[target]) - max : 0.0F;
    }
}

template <class T> static gal_code cross_entropy_sum(const gal_kernel_call *call, gal_error *err)
{
    const logit_rows<T> rows = rows_of<T>(call, call->dims[2], call->dims[3]);
    const bool wide = gal_rows_are_wide<T>(rows.stride, rows.logits);
    return gal_launch(call, err, "cross_entropy_sum", wide ? sum_kernel<T, gal_wide<T>> : sum_kernel<T, 1>,
                      dim3(call->dims[0] * call->dims[1]), THREADS, rows, (const float *)call->operand[1],
                      targets_of(call, 2), (float *)call->operand[3]);
}
GAL_CUDA_ENTRIES(cross_entropy_sum)

static __global__ void __launch_bounds__(LOSS_THREADS)
    loss_kernel(const float *sums, uint32_t rows, bool adds, double *loss)
{
    double total = 0.0, right = 0.0;
    for (uint32_t i = threadIdx.x; i < rows; i += LOSS_THREADS) {
        const float sum = sums[i], target = sums[rows + i];
        if (sum != 0.0F) {
            total += log((double)sum) - (double)target;
            right += target >= 0.0F ? 1.0 : 0.0;
        }
    }
    total = gal_reduce<gal_sum, LOSS_THREADS>(total);
    right = gal_reduce<gal_sum, LOSS_THREADS>(right);
    if (threadIdx.x == 0) {
        loss[0] = adds ? loss[0] + total : total;
        loss[1] = adds ? loss[1] + right : right;
    }
}

template <class T> static gal_code cross_entropy_loss(const gal_kernel_call *call, gal_error *err)
{
    return gal_launch(call, err, "cross_entropy_loss", loss_kernel, dim3(1), LOSS_THREADS,
                      (const float *)call->operand[0], call->dims[0], call->add, (double *)call->operand[1]);
}
GAL_CUDA_ENTRIES(cross_entropy_loss)

/* One access of a row becomes its gradient. */
template <class T, int W> struct logit_slope {
    uint32_t columns, target; /* target: columns if it is none of them */
    float max, factor, scale;
    bool counts; /* the row has a target */

    __device__ __forceinline__ gal_lanes<W> of(uint32_t first, gal_lanes<W> x) const
    {
#pragma unroll
        for (int j = 0; j < W; j++) {
            const uint32_t column = first + (uint32_t)j;
            const float p = gal_exp<T>(x.x[j] - max) * factor;
            x.x[j] = counts && column < columns ? (column == target ? p - scale : p) : 0.0F;
        }
        return x;
    }
};

/* gradient_scale is 1 but for fp16. */
template <class T, int W>
__global__ void __launch_bounds__(THREADS)
    slope_kernel(logit_rows<T> rows, T *logits, const float *maxima, const float *sums, row_targets targets,
                 const gal_cuda_step *step)
{
    const uint32_t accesses = rows.stride / W;
    const int32_t id = targets.id(blockIdx.x);
    const double scale = step->loss_scale * step->gradient_scale;
    T *z = logits + (uint64_t)blockIdx.x * rows.stride;
    const logit_slope<T, W> slope = {rows.columns,       targets.column(id, rows.columns),
                                     maxima[blockIdx.x], (float)(scale / (double)sums[blockIdx.x]),
                                     (float)scale,       id >= 0};
    uint32_t access = threadIdx.x;
    for (; access + 3 * THREADS < accesses; access += 4 * THREADS) {
        gal_raw<T, W> raw[4];
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            raw[u] = gal_load<W>((const T *)z, access + u * THREADS);
        }
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            const uint32_t at = access + u * THREADS;
            gal_store<W>(z, at, gal_pack<T, W>(slope.of(at * W, gal_unpack<T, W>(raw[u]))));
        }
    }
    for (; access < accesses; access += THREADS) {
        gal_store<W>(z, access,
                     gal_pack<T, W>(slope.of(access * W, gal_unpack<T, W>(gal_load<W>((const T *)z, access)))));
    }
}

template <class T> static gal_code cross_entropy_backward(const gal_kernel_call *call, gal_error *err)
{
    const logit_rows<T> rows = rows_of<T>(call, call->dims[2], call->dims[3]);
    const bool wide = gal_rows_are_wide<T>(rows.stride, rows.logits);
    return gal_launch(call, err, "cross_entropy_backward", wide ? slope_kernel<T, gal_wide<T>> : slope_kernel<T, 1>,
                      dim3(call->dims[0] * call->dims[1]), THREADS, rows, (T *)call->operand[0],
                      (const float *)call->operand[1], (const float *)call->operand[2], targets_of(call, 3),
                      (const gal_cuda_step *)call->device_step);
}
GAL_CUDA_ENTRIES(cross_entropy_backward)
