/* A residual and the norm of its result as one kernel: the sum is written, as the next residual reads it, and the norm
 * goes on with it as it was rounded, so that the bits are those of the two kernels. One pass over memory less. */
#include "runtime/ops/cuda/norm_forward.cuh"
#include "runtime/ops/cuda/residual.cuh"

template <class T> struct norm_sum {
    gal_residual<T> of;
    bool drops;

    template <int W, int THREADS, int V>
    __device__ __forceinline__ void operator()(norm_row<T, W, THREADS, V> &in, uint32_t row) const
    {
        const uint64_t first = (uint64_t)row * in.accesses;
        if constexpr (V == 0) {
            for (uint32_t access = in.thread; access < in.accesses; access += THREADS) { /* the same thread reads it */
                put<W>(row, first, access, gal_load<W>(of.x, first + access), gal_load<W>(of.o, first + access));
            }
        } else {
            gal_raw<T, W> o[V];
#pragma unroll
            for (int v = 0; v < V; v++) {
                const uint32_t access = in.thread + (uint32_t)v * THREADS;
                if (access < in.accesses) {
                    in.raw[v] = gal_load<W>(of.x, first + access);
                    o[v] = gal_load<W>(of.o, first + access);
                }
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                const uint32_t access = in.thread + (uint32_t)v * THREADS;
                if (access < in.accesses) {
                    in.raw[v] = put<W>(row, first, access, in.raw[v], o[v]);
                }
            }
        }
    }

    template <int W>
    __device__ __forceinline__ gal_raw<T, W> put(uint32_t row, uint64_t first, uint32_t access, gal_raw<T, W> x,
                                                 gal_raw<T, W> o) const
    {
        const gal_raw<T, W> sum = of.template sum<W, true>(row, access, x, o, drops);
        gal_store<W>(of.y, first + access, sum);
        return sum;
    }
};

bool gal_cuda_is_residual_norm(const gal_kernel_pair *pair)
{
    const uint32_t *sum = pair->first->dims, *norm = pair->second->dims;
    return pair->first_op == GAL_OP_RESIDUAL &&
           (pair->second_op == GAL_OP_LAYER_NORM || pair->second_op == GAL_OP_RMS_NORM) &&
           pair->second->operand[0] == pair->first->operand[2] && (uint64_t)sum[0] * sum[1] == norm[0] &&
           sum[2] == norm[1];
}

template <class T> static gal_code residual_norm(const gal_kernel_pair *pair, gal_error *err)
{
    const gal_kernel_call *first = pair->first;
    const norm_sum<T> make = {gal_residual_of<T>(first),
                              gal_row_dropout_is_on(first, first->step->model->residual_dropout)};
    return pair->second_op == GAL_OP_LAYER_NORM
               ? norm_forward<T, true>(pair->second, first, err, "residual, layer_norm", make, make.of.x, make.of.o,
                                       make.of.bias)
               : norm_forward<T, false>(pair->second, first, err, "residual, rms_norm", make, make.of.x, make.of.o,
                                        make.of.bias);
}

gal_code gal_cuda_residual_norm_fp32(const gal_kernel_pair *pair, gal_error *err)
{
    return residual_norm<float>(pair, err);
}

gal_code gal_cuda_residual_norm_bf16(const gal_kernel_pair *pair, gal_error *err)
{
    return residual_norm<__nv_bfloat16>(pair, err);
}

gal_code gal_cuda_residual_norm_fp16(const gal_kernel_pair *pair, gal_error *err)
{
    return residual_norm<__half>(pair, err);
}
