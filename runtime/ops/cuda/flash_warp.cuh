/* What a warp does at once: products of 16 x 16 by 16 x 8 on the tensor cores, and what moves their fragments. A thread
 * is lane t of its warp; with r = t / 4 and c = 2 (t % 4) it holds of
 *   a 16 x 16 (rows x depth)   {r, c..c+1}, {r + 8, c..c+1}, {r, c + 8..c + 9}, {r + 8, c + 8..c + 9}
 *   b 16 x 8 (depth x columns) {c..c+1, r}, {c + 8..c + 9, r}
 *   d 16 x 8 (rows x columns)  {r, c}, {r, c + 1}, {r + 8, c}, {r + 8, c + 1}
 * so two neighbouring d are an a. Source: PTX ISA, "Matrix fragments for mma.m16n8k16" and "ldmatrix".
 * Where the kernels run on the host, gal_emulated_warp.h has the same functions. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_WARP_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_WARP_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__

#define GAL_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

__device__ __forceinline__ uint32_t gal_shared_address(const void *address)
{
    return (uint32_t)__cvta_generic_to_shared(address);
}

/* Four 8 x 8 matrices of 16 bits; lane t gives the address of row t % 8 of matrix t / 8. */
__device__ __forceinline__ void gal_load_matrices(uint32_t out[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(gal_shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void gal_load_matrices_turned(uint32_t out[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(gal_shared_address(row))
                 : "memory");
}

/* d += a b */
__device__ __forceinline__ void gal_multiply(float d[4], const uint32_t a[4], const uint32_t b[2], __nv_bfloat16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void gal_multiply(float d[4], const uint32_t a[4], const uint32_t b[2], __half)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* 16 bytes to shared memory, behind the thread's back; zeros unless valid. Source is an address of the device then too.
 */
__device__ __forceinline__ void gal_copy_begin(void *to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(gal_shared_address(to)), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}

/* Ends a group of copies; wait until at most `left` groups of this thread are under way. */
__device__ __forceinline__ void gal_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int left> __device__ __forceinline__ void gal_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

#else
#include <gal_emulated_warp.h>
#endif

__device__ __forceinline__ uint32_t gal_pack_two(float low, float high, __nv_bfloat16)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&both);
}

__device__ __forceinline__ uint32_t gal_pack_two(float low, float high, __half)
{
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&both);
}

__device__ __forceinline__ float gal_number(float x)
{
    return x;
}
__device__ __forceinline__ float gal_number(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ __forceinline__ float gal_number(__half x)
{
    return __half2float(x);
}

template <class T> __device__ __forceinline__ T gal_element(float x);
template <> __device__ __forceinline__ float gal_element<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ __nv_bfloat16 gal_element<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __half gal_element<__half>(float x)
{
    return __float2half_rn(x);
}

/* Over the four lanes that share rows r and r + 8. */
__device__ __forceinline__ float gal_quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 2));
}
__device__ __forceinline__ float gal_quad_sum(float x)
{
    x += __shfl_xor_sync(0xFFFFFFFFU, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFU, x, 2);
}

#endif
