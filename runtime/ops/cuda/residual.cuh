/* Residual and dropout of rows [position][sample], element by element. */
#ifndef GAL_RUNTIME_OPS_CUDA_RESIDUAL_CUH
#define GAL_RUNTIME_OPS_CUDA_RESIDUAL_CUH

#include "runtime/ops/cuda/dropout.cuh"

/* y = x + dropout(o + bias). */
template <class T> struct gal_residual {
    const T *x, *o, *bias; /* bias NULL: none */
    T *y;
    gal_divider samples;
    gal_row_dropout dropout;

    /* W elements of y, from those of x and o: access `access` of row `row`. ADDS false: without x. */
    template <int W, bool ADDS>
    __device__ __forceinline__ gal_raw<T, W> sum(uint32_t row, uint32_t access, gal_raw<T, W> x_in, gal_raw<T, W> o_in,
                                                 bool drops) const
    {
        gal_lanes<W> sum = gal_unpack<T, W>(o_in);
        if (bias != nullptr) {
            const gal_lanes<W> b = gal_unpack<T, W>(gal_load<W>(bias, access));
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += b.x[j];
            }
        }
        gal_lanes<W> skipped = {};
        if (ADDS) {
            skipped = gal_unpack<T, W>(x_in);
        }
        if (drops) {
            uint32_t sample;
            const uint32_t position = samples.divide(row, &sample);
            const gal_lanes<W> factor = dropout.factors<W>(position, sample, access * W);
#pragma unroll
            for (int j = 0; j < W; j++) { /* one rounding, said so: all kernels that come here have the same bits */
                sum.x[j] = fmaf(sum.x[j], factor.x[j], skipped.x[j]);
            }
        } else if (ADDS) {
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += skipped.x[j];
            }
        }
        return gal_pack<T, W>(sum);
    }
};

/* Of a call of residual. */
template <class T> static gal_residual<T> gal_residual_of(const gal_kernel_call *call)
{
    gal_residual<T> r = {};
    r.x = (const T *)call->operand[0];
    r.o = (const T *)call->operand[1];
    r.bias = call->dims[3] != 0 ? (const T *)call->operand[3] : nullptr;
    r.y = (T *)call->operand[2];
    r.samples = gal_divider_of(call->dims[0]);
    r.dropout = gal_row_dropout_of(call, call->step->model->residual_dropout, call->dims[2]);
    return r;
}

#endif
