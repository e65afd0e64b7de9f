/* Residual and dropout of rows [position][sample], and a bias alone. */
#include "runtime/ops/cuda/dropout.cuh"

/* y = x + dropout(o + bias); x NULL: y = dropout(o). */
template <class T, int W, bool DROPS, bool ADDS> struct residual_rows {
    const T *x, *o, *bias; /* bias NULL: none */
    T *y;
    gal_divider row_accesses, samples;
    gal_row_dropout dropout;

    struct loaded {
        gal_raw<T, W> x, o;
    };

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        loaded in;
        in.o = gal_load<W>(o, index);
        in.x = ADDS ? gal_load<W>(x, index) : in.o;
        return in;
    }

    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_lanes<W> sum = gal_unpack<T, W>(in.o);
        uint32_t access, sample;
        const uint32_t row = row_accesses.divide((uint32_t)index, &access);
        if (bias != nullptr) {
            const gal_lanes<W> b = gal_unpack<T, W>(gal_load<W>(bias, access));
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += b.x[j];
            }
        }
        if (DROPS) {
            const uint32_t position = samples.divide(row, &sample);
            const gal_lanes<W> factor = dropout.factors<W>(position, sample, access * W);
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] *= factor.x[j];
            }
        }
        if (ADDS) {
            const gal_lanes<W> skipped = gal_unpack<T, W>(in.x);
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += skipped.x[j];
            }
        }
        gal_store<W>(y, index, gal_pack<T, W>(sum));
    }
};

template <class T, int W, bool DROPS, bool ADDS>
static gal_code run_rows(const gal_kernel_call *call, gal_error *err, const char *name, const T *x, const T *o,
                         const T *bias, T *y)
{
    const uint32_t samples = call->dims[0], hidden = call->dims[2];
    const uint64_t row_accesses = hidden / W, count = (uint64_t)samples * call->dims[1] * row_accesses;
    const residual_rows<T, W, DROPS, ADDS> rows = {
        x,
        o,
        bias,
        y,
        gal_divider_of(row_accesses),
        gal_divider_of(samples),
        gal_row_dropout_of(call, call->step->model->residual_dropout, hidden)};
    return gal_map_rows(call, err, name, rows, count);
}

template <class T, bool ADDS>
static gal_code run_residual(const gal_kernel_call *call, gal_error *err, const char *name, const T *x, const T *o,
                             const T *bias, T *y)
{
    constexpr int W = gal_wide<T>;
    const bool wide = gal_rows_are_wide<T>(call->dims[2], x, o, bias, y);
    if (gal_row_dropout_is_on(call, call->step->model->residual_dropout)) {
        return (wide ? run_rows<T, W, true, ADDS> : run_rows<T, 1, true, ADDS>)(call, err, name, x, o, bias, y);
    }
    return (wide ? run_rows<T, W, false, ADDS> : run_rows<T, 1, false, ADDS>)(call, err, name, x, o, bias, y);
}

template <class T> static gal_code residual(const gal_kernel_call *call, gal_error *err)
{
    return run_residual<T, true>(call, err, "residual", (const T *)call->operand[0], (const T *)call->operand[1],
                                 call->dims[3] != 0 ? (const T *)call->operand[3] : nullptr, (T *)call->operand[2]);
}
GAL_CUDA_ENTRIES(residual)

template <class T> static gal_code dropout(const gal_kernel_call *call, gal_error *err)
{
    return run_residual<T, false>(call, err, "dropout", (const T *)nullptr, (const T *)call->operand[0],
                                  (const T *)nullptr, (T *)call->operand[1]);
}
GAL_CUDA_ENTRIES(dropout)

/* y is o. */
template <class T, int W> static gal_code run_bias(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row_accesses = call->dims[1] / W;
    residual_rows<T, W, false, false> rows = {};
    rows.y = (T *)call->operand[0];
    rows.o = rows.y;
    rows.bias = (const T *)call->operand[1];
    rows.row_accesses = gal_divider_of(row_accesses);
    return gal_map_rows(call, err, "add_bias", rows, call->dims[0] * row_accesses);
}

template <class T> static gal_code add_bias(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[1], call->operand[0], call->operand[1]);
    return (wide ? run_bias<T, gal_wide<T>> : run_bias<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(add_bias)
