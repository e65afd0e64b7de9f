/* Element types of device kernels. Memory holds T (float, __nv_bfloat16, __half), arithmetic is in float. W elements
 * are read and written at a time: as many as fill 16 bytes, or one where rows or addresses are odd. A gal_raw is what a
 * load gives: kept so, it takes half the registers of its numbers. */
#ifndef GAL_RUNTIME_OPS_CUDA_TYPES_CUH
#define GAL_RUNTIME_OPS_CUDA_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

template <class T> constexpr int gal_wide = 16 / (int)sizeof(T);

template <class T, int W> struct gal_raw {
    static_assert(W == gal_wide<T>, "16 bytes or one element");
    uint4 bits;
};
template <class T> struct gal_raw<T, 1> {
    T bits;
};

template <int W> struct gal_lanes {
    float x[W];
};

/* Of the W elements from index * W on; base + index * W is a multiple of 16 bytes unless W is 1. */
template <int W, class T> __device__ __forceinline__ gal_raw<T, W> gal_load(const T *base, uint64_t index)
{
    if constexpr (W == 1) {
        return {base[index]};
    } else {
        return {reinterpret_cast<const uint4 *>(base)[index]};
    }
}

template <int W, class T> __device__ __forceinline__ void gal_store(T *base, uint64_t index, gal_raw<T, W> raw)
{
    if constexpr (W == 1) {
        base[index] = raw.bits;
    } else {
        reinterpret_cast<uint4 *>(base)[index] = raw.bits;
    }
}

__device__ __forceinline__ float gal_to_float(float x)
{
    return x;
}
__device__ __forceinline__ float gal_to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ __forceinline__ float gal_to_float(__half x)
{
    return __half2float(x);
}

__device__ __forceinline__ void gal_from_float(float x, float *out)
{
    *out = x;
}
__device__ __forceinline__ void gal_from_float(float x, __nv_bfloat16 *out)
{
    *out = __float2bfloat16_rn(x);
}
__device__ __forceinline__ void gal_from_float(float x, __half *out)
{
    *out = __float2half_rn(x);
}

/* The numbers in 4 bytes, and back. */
__device__ __forceinline__ void gal_unpack_word(uint32_t word, float *x, const float *)
{
    x[0] = __uint_as_float(word);
}
__device__ __forceinline__ void gal_unpack_word(uint32_t word, float *x, const __nv_bfloat16 *)
{
    x[0] = __uint_as_float(word << 16);
    x[1] = __uint_as_float(word & 0xFFFF0000U);
}
__device__ __forceinline__ void gal_unpack_word(uint32_t word, float *x, const __half *)
{
    x[0] = __half2float(__ushort_as_half((uint16_t)word));
    x[1] = __half2float(__ushort_as_half((uint16_t)(word >> 16)));
}

__device__ __forceinline__ uint32_t gal_pack_word(const float *x, const float *)
{
    return __float_as_uint(x[0]);
}
__device__ __forceinline__ uint32_t gal_pack_word(const float *x, const __nv_bfloat16 *)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(x[0], x[1]);
    return *reinterpret_cast<const uint32_t *>(&both);
}
__device__ __forceinline__ uint32_t gal_pack_word(const float *x, const __half *)
{
    const __half2 both = __floats2half2_rn(x[0], x[1]);
    return *reinterpret_cast<const uint32_t *>(&both);
}

template <class T, int W> __device__ __forceinline__ gal_lanes<W> gal_unpack(gal_raw<T, W> raw)
{
    gal_lanes<W> lanes;
    if constexpr (W == 1) {
        lanes.x[0] = gal_to_float(raw.bits);
    } else {
        constexpr int each = W / 4;
        gal_unpack_word(raw.bits.x, lanes.x, (const T *)nullptr);
        gal_unpack_word(raw.bits.y, lanes.x + each, (const T *)nullptr);
        gal_unpack_word(raw.bits.z, lanes.x + 2 * each, (const T *)nullptr);
        gal_unpack_word(raw.bits.w, lanes.x + 3 * each, (const T *)nullptr);
    }
    return lanes;
}

template <class T, int W> __device__ __forceinline__ gal_raw<T, W> gal_pack(gal_lanes<W> lanes)
{
    gal_raw<T, W> raw;
    if constexpr (W == 1) {
        gal_from_float(lanes.x[0], &raw.bits);
    } else {
        constexpr int each = W / 4;
        raw.bits.x = gal_pack_word(lanes.x, (const T *)nullptr);
        raw.bits.y = gal_pack_word(lanes.x + each, (const T *)nullptr);
        raw.bits.z = gal_pack_word(lanes.x + 2 * each, (const T *)nullptr);
        raw.bits.w = gal_pack_word(lanes.x + 3 * each, (const T *)nullptr);
    }
    return raw;
}

/* Loads of gal_load's W, of fp32 numbers beside W elements of a narrower type: two accesses for 8 of them. */
template <int W> __device__ __forceinline__ gal_lanes<W> gal_load_floats(const float *base, uint64_t index)
{
    gal_lanes<W> lanes;
    if constexpr (W == 1) {
        lanes.x[0] = base[index];
    } else {
#pragma unroll
        for (int part = 0; part < W / 4; part++) {
            const float4 four = reinterpret_cast<const float4 *>(base)[index * (W / 4) + part];
            lanes.x[4 * part] = four.x;
            lanes.x[4 * part + 1] = four.y;
            lanes.x[4 * part + 2] = four.z;
            lanes.x[4 * part + 3] = four.w;
        }
    }
    return lanes;
}

template <int W> __device__ __forceinline__ void gal_store_floats(float *base, uint64_t index, gal_lanes<W> lanes)
{
    if constexpr (W == 1) {
        base[index] = lanes.x[0];
    } else {
#pragma unroll
        for (int part = 0; part < W / 4; part++) {
            reinterpret_cast<float4 *>(base)[index * (W / 4) + part] =
                make_float4(lanes.x[4 * part], lanes.x[4 * part + 1], lanes.x[4 * part + 2], lanes.x[4 * part + 3]);
        }
    }
}

#endif
