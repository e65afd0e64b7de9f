/* What a ring attention moves beside its steps: keys and values taken out of the rows that have them behind queries,
 * gradients put back there, and sums of fp32 rounded. */
#include "runtime/ops/cuda/launch.cuh"

/* Index over kv[rows][keys], of qkv[rows][queries + keys]; all in accesses. */
template <class T, int W> struct keys_taken {
    const T *qkv;
    T *kv;
    gal_divider keys;
    uint32_t queries;

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        const uint64_t row = keys.quotient((uint32_t)index);
        return gal_load<W>(qkv, index + (row + 1) * queries);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(kv, index, in);
    }
};

template <class T, int W> static gal_code run_take(const gal_kernel_call *call, gal_error *err)
{
    const uint32_t *d = call->dims, keys = 2 * d[2] * d[3] / W;
    const keys_taken<T, W> f = {(const T *)call->operand[0], (T *)call->operand[1], gal_divider_of(keys),
                                d[1] * d[3] / W};
    return gal_map_rows(call, err, "take_keys", f, (uint64_t)d[0] * keys);
}

/* Heads are rows of head_dim: all widths are multiples of it. */
template <class T> static gal_code take_keys(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[3], call->operand[0], call->operand[1]);
    return (wide ? run_take<T, gal_wide<T>> : run_take<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(take_keys)

/* Index over dqkv[rows][queries + keys], of dq[rows][queries] and dkv[rows][keys]. */
template <class T, int W> struct gradients_joined {
    const float *dq, *dkv;
    T *dqkv;
    gal_divider row;
    uint32_t queries;

    typedef gal_lanes<W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        uint32_t access;
        const uint64_t number = row.divide((uint32_t)index, &access);
        return access < queries ? gal_load_floats<W>(dq, number * queries + access)
                                : gal_load_floats<W>(dkv, number * (row.divisor - queries) + access - queries);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(dqkv, index, gal_pack<T, W>(in));
    }
};

template <class T, int W> static gal_code run_join(const gal_kernel_call *call, gal_error *err)
{
    const uint32_t *d = call->dims, row = (d[1] + 2 * d[2]) * d[3] / W;
    const gradients_joined<T, W> f = {(const float *)call->operand[0], (const float *)call->operand[1],
                                      (T *)call->operand[2], gal_divider_of(row), d[1] * d[3] / W};
    return gal_map_rows(call, err, "join_gradients", f, (uint64_t)d[0] * row);
}

template <class T> static gal_code join_gradients(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[3], call->operand[0], call->operand[1], call->operand[2]);
    return (wide ? run_join<T, gal_wide<T>> : run_join<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(join_gradients)

template <class T, int W> struct narrowed {
    const float *source;
    T *target;

    typedef gal_lanes<W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        return gal_load_floats<W>(source, index);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(target, index, gal_pack<T, W>(in));
    }
};

template <class T> static gal_code narrow(const gal_kernel_call *call, gal_error *err)
{
    const float *source = (const float *)call->operand[0];
    T *target = (T *)call->operand[1];
    return gal_map_flat<narrowed, T>(call, err, "narrow", call->dims[0],
                                     gal_is_aligned(source) && gal_is_aligned(target), source, target);
}
GAL_CUDA_ENTRIES(narrow)
