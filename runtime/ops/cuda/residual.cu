/* Residual and dropout of rows, and a bias alone. */
#include "runtime/ops/cuda/residual.cuh"

template <class T, int W, bool DROPS, bool ADDS> struct residual_rows {
    gal_residual<T> of;
    gal_divider row_accesses;

    struct loaded {
        gal_raw<T, W> x, o;
    };

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        loaded in;
        in.o = gal_load<W>(of.o, index);
        in.x = ADDS ? gal_load<W>(of.x, index) : in.o;
        return in;
    }

    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        uint32_t access;
        const uint32_t row = row_accesses.divide((uint32_t)index, &access);
        gal_store<W>(of.y, index, of.template sum<W, ADDS>(row, access, in.x, in.o, DROPS));
    }
};

template <class T, int W, bool DROPS, bool ADDS>
static gal_code run_rows(const gal_kernel_call *call, gal_error *err, const char *name, const gal_residual<T> &of)
{
    const uint64_t row_accesses = call->dims[2] / W;
    const residual_rows<T, W, DROPS, ADDS> rows = {of, gal_divider_of(row_accesses)};
    return gal_map_rows(call, err, name, rows, (uint64_t)call->dims[0] * call->dims[1] * row_accesses);
}

template <class T, bool ADDS>
static gal_code run_residual(const gal_kernel_call *call, gal_error *err, const char *name, const gal_residual<T> &of)
{
    constexpr int W = gal_wide<T>;
    const bool wide = gal_rows_are_wide<T>(call->dims[2], of.x, of.o, of.bias, of.y);
    if (gal_row_dropout_is_on(call, call->step->model->residual_dropout)) {
        return (wide ? run_rows<T, W, true, ADDS> : run_rows<T, 1, true, ADDS>)(call, err, name, of);
    }
    return (wide ? run_rows<T, W, false, ADDS> : run_rows<T, 1, false, ADDS>)(call, err, name, of);
}

template <class T> static gal_code residual(const gal_kernel_call *call, gal_error *err)
{
    return run_residual<T, true>(call, err, "residual", gal_residual_of<T>(call));
}
GAL_CUDA_ENTRIES(residual)

template <class T> static gal_code dropout(const gal_kernel_call *call, gal_error *err)
{
    gal_residual<T> of = {};
    of.o = (const T *)call->operand[0];
    of.y = (T *)call->operand[1];
    of.samples = gal_divider_of(call->dims[0]);
    of.dropout = gal_row_dropout_of(call, call->step->model->residual_dropout, call->dims[2]);
    return run_residual<T, false>(call, err, "dropout", of);
}
GAL_CUDA_ENTRIES(dropout)

/* y is o. */
template <class T, int W> static gal_code run_bias(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row_accesses = call->dims[1] / W;
    residual_rows<T, W, false, false> rows = {};
    rows.of.y = (T *)call->operand[0];
    rows.of.o = rows.of.y;
    rows.of.bias = (const T *)call->operand[1];
    rows.row_accesses = gal_divider_of(row_accesses);
    return gal_map_rows(call, err, "add_bias", rows, call->dims[0] * row_accesses);
}

template <class T> static gal_code add_bias(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[1], call->operand[0], call->operand[1]);
    return (wide ? run_bias<T, gal_wide<T>> : run_bias<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(add_bias)
