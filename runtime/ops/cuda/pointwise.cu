/* Operators that treat elements one by one: scale, add, fill, the rows of one position. */
#include "runtime/ops/cuda/launch.cuh"

template <class T, int W> struct scaled {
    T *a;
    float factor;

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        return gal_load<W>(a, index);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_lanes<W> x = gal_unpack<T, W>(in);
#pragma unroll
        for (int j = 0; j < W; j++) {
            x.x[j] *= factor;
        }
        gal_store<W>(a, index, gal_pack<T, W>(x));
    }
};

template <class T> static gal_code scale(const gal_kernel_call *call, gal_error *err)
{
    T *a = (T *)call->operand[0];
    return gal_map_flat<scaled, T>(call, err, "scale", call->dims[0], gal_is_aligned(a), a,
                                   (float)(1.0 / sqrt((double)call->dims[1])));
}
GAL_CUDA_ENTRIES(scale)

template <class T, int W> struct added {
    const T *source;
    T *target;

    struct loaded {
        gal_raw<T, W> source, target;
    };

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        return {gal_load<W>(source, index), gal_load<W>((const T *)target, index)};
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        const gal_lanes<W> a = gal_unpack<T, W>(in.source);
        gal_lanes<W> b = gal_unpack<T, W>(in.target);
#pragma unroll
        for (int j = 0; j < W; j++) {
            b.x[j] += a.x[j];
        }
        gal_store<W>(target, index, gal_pack<T, W>(b));
    }
};

static gal_code copy_bytes(const gal_kernel_call *call, gal_error *err, const char *name, void *target,
                           const void *source, uint64_t byte_count)
{
    return gal_cuda_code(
        cudaMemcpyAsync(target, source, byte_count, cudaMemcpyDeviceToDevice, (cudaStream_t)call->stream), name, err);
}

static gal_code clear_bytes(const gal_kernel_call *call, gal_error *err, const char *name, void *target,
                            uint64_t byte_count)
{
    return gal_cuda_code(cudaMemsetAsync(target, 0, byte_count, (cudaStream_t)call->stream), name, err);
}

template <class T> static gal_code add(const gal_kernel_call *call, gal_error *err)
{
    const T *source = (const T *)call->operand[0];
    T *target = (T *)call->operand[1];
    if (!call->add) {
        return copy_bytes(call, err, "add", target, source, call->dims[0] * sizeof(T));
    }
    return gal_map_flat<added, T>(call, err, "add", call->dims[0], gal_is_aligned(source) && gal_is_aligned(target),
                                  source, target);
}
GAL_CUDA_ENTRIES(add)

template <class T> static gal_code fill(const gal_kernel_call *call, gal_error *err)
{
    return clear_bytes(call, err, "fill", call->operand[0], call->dims[0] * sizeof(T));
}
GAL_CUDA_ENTRIES(fill)

template <class T> static gal_code first_position(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t bytes = (uint64_t)call->dims[0] * call->dims[2] * sizeof(T);
    if (call->position_begin == 0) {
        return copy_bytes(call, err, "first_position", call->operand[1], call->operand[0], bytes);
    }
    return clear_bytes(call, err, "first_position", call->operand[1], bytes);
}
GAL_CUDA_ENTRIES(first_position)

template <class T> static gal_code first_position_backward(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t bytes = (uint64_t)call->dims[0] * call->dims[2] * sizeof(T);
    const uint64_t copied = call->position_begin == 0 ? bytes : 0;
    char *dx = (char *)call->operand[1];
    GAL_CUDA_TRY(cudaMemsetAsync(dx + copied, 0, call->dims[1] * bytes - copied, (cudaStream_t)call->stream),
                 "first_position_backward");
    return copied == 0 ? GAL_OK : copy_bytes(call, err, "first_position_backward", dx, call->operand[0], bytes);
}
GAL_CUDA_ENTRIES(first_position_backward)
