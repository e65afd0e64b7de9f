/* Launching kernels, for the .cu files of this folder. */
#ifndef GAL_RUNTIME_OPS_CUDA_LAUNCH_CUH
#define GAL_RUNTIME_OPS_CUDA_LAUNCH_CUH

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/ops/cuda/types.cuh"

/* Our headers are C11. */
#define _Noreturn __attribute__((noreturn))
extern "C" {
#include "runtime/ops/cuda/kernels.h"
}
#undef _Noreturn

/* The three entries of a kernel, from `template <class T> static gal_code name(call, err)`. */
#define GAL_CUDA_ENTRIES(name)                                                                                         \
    gal_code gal_cuda_##name##_fp32(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        return name<float>(call, err);                                                                                 \
    }                                                                                                                  \
    gal_code gal_cuda_##name##_bf16(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        return name<__nv_bfloat16>(call, err);                                                                         \
    }                                                                                                                  \
    gal_code gal_cuda_##name##_fp16(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        return name<__half>(call, err);                                                                                \
    }

static inline gal_code gal_cuda_code(cudaError_t result, const char *name, gal_error *err)
{
    if (result != cudaSuccess) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: %s", name, cudaGetErrorString(result));
    }
    return GAL_OK;
}

#define GAL_CUDA_TRY(call, name)                                                                                       \
    do {                                                                                                               \
        const gal_code gal_cuda_result = gal_cuda_code((call), (name), err);                                           \
        if (gal_cuda_result != GAL_OK) {                                                                               \
            return gal_cuda_result;                                                                                    \
        }                                                                                                              \
    } while (0)

/* Queues kernel<<<grid, threads>>>(arguments...) on the call's stream; nothing if the grid is empty. */
template <class... P, class... A>
static gal_code gal_launch(const gal_kernel_call *call, gal_error *err, const char *name, void (*kernel)(P...),
                           dim3 grid, uint32_t threads, A... arguments)
{
    if (grid.x == 0 || grid.y == 0) {
        return GAL_OK;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.stream = (cudaStream_t)call->stream;
    return gal_cuda_code(cudaLaunchKernelEx(&config, kernel, P(arguments)...), name, err);
}

static inline uint64_t gal_ceil_divide(uint64_t count, uint64_t each)
{
    return (count + each - 1) / each;
}

static inline bool gal_is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

/* Whether rows of so many T can be accessed by 16 bytes at these addresses (NULL passes). */
template <class T, class... P> static bool gal_rows_are_wide(uint64_t row_elements, const P *...address)
{
    return row_elements % (uint64_t)gal_wide<T> == 0 && (gal_is_aligned(address) && ...);
}

static inline gal_code gal_need_workspace(const gal_kernel_call *call, gal_op op, gal_error *err)
{
    const uint64_t needed = gal_cuda_workspace_bytes(op, call->dims);
    if (call->workspace_bytes < needed) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: %llu bytes of workspace, needs %llu", gal_op_names[op],
                        (unsigned long long)call->workspace_bytes, (unsigned long long)needed);
    }
    return GAL_OK;
}

/* Division by a number that is known at launch, for dividends below 2^31: one multiplication.
 * Source: T. Granlund, P. Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figure 4.1. */
struct gal_divider {
    uint32_t divisor, multiplier, shift;

    __device__ __forceinline__ uint32_t quotient(uint32_t n) const
    {
        return (__umulhi(n, multiplier) + n) >> shift;
    }
    __device__ __forceinline__ uint32_t divide(uint32_t n, uint32_t *rest) const
    {
        const uint32_t q = quotient(n);
        *rest = n - q * divisor;
        return q;
    }
};

static inline gal_divider gal_divider_of(uint64_t divisor)
{
    uint32_t shift = 0;
    while ((1ULL << shift) < divisor) {
        shift++;
    }
    const uint64_t multiplier = divisor == 0 ? 0 : (((1ULL << shift) - divisor) << 32) / divisor + 1;
    return {(uint32_t)divisor, (uint32_t)multiplier, shift};
}

/* ---- element by element ---- */

enum { GAL_MAP_THREADS = 256, GAL_MAP_UNROLL = 4, GAL_MAP_INDEX_MAX = 0x7FFFFFFF };

/* F has a type `loaded`, load(index) and store(index, loaded), which may write what load(index) read but nothing that
 * another index reads. All loads of a thread are in flight before the first store. `rest` does what the wide one does
 * not reach: at most a few elements at the end. */
template <int UNROLL, class F, class R>
__global__ void __launch_bounds__(GAL_MAP_THREADS)
    gal_map_kernel(F wide, uint64_t count, R rest, uint64_t rest_first, uint32_t rest_count)
{
    const uint64_t first = (uint64_t)blockIdx.x * (GAL_MAP_THREADS * UNROLL) + threadIdx.x;
    typename F::loaded in[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const uint64_t index = first + (uint64_t)u * GAL_MAP_THREADS;
        if (index < count) {
            in[u] = wide.load(index);
        }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const uint64_t index = first + (uint64_t)u * GAL_MAP_THREADS;
        if (index < count) {
            wide.store(index, in[u]);
        }
    }
    if (first < rest_count) {
        rest.store(rest_first + first, rest.load(rest_first + first));
    }
}

/* Row by row: count indices, of W elements each. UNROLL 1: store has a loop with loads of its own. */
template <int UNROLL = GAL_MAP_UNROLL, class F>
static gal_code gal_map_rows(const gal_kernel_call *call, gal_error *err, const char *name, F f, uint64_t count)
{
    if (count > GAL_MAP_INDEX_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: %llu accesses, at most %d", name, (unsigned long long)count,
                        (int)GAL_MAP_INDEX_MAX);
    }
    const uint64_t blocks = gal_ceil_divide(count, GAL_MAP_THREADS * UNROLL);
    return gal_launch(call, err, name, gal_map_kernel<UNROLL, F, F>, dim3((uint32_t)blocks), GAL_MAP_THREADS, f, count,
                      f, 0, 0);
}

/* One array of any length: F<T, W> for what fills 16 bytes, F<T, 1> for the rest, or for all where addresses are odd.
 */
template <template <class, int> class F, class T, class... P>
static gal_code gal_map_flat(const gal_kernel_call *call, gal_error *err, const char *name, uint64_t elements,
                             bool is_wide, P... fields)
{
    constexpr int W = gal_wide<T>;
    const F<T, W> wide = {fields...};
    const F<T, 1> narrow = {fields...};
    if (!is_wide) {
        const uint64_t blocks = gal_ceil_divide(elements, GAL_MAP_THREADS * GAL_MAP_UNROLL);
        return gal_launch(call, err, name, gal_map_kernel<GAL_MAP_UNROLL, F<T, 1>, F<T, 1>>, dim3((uint32_t)blocks),
                          GAL_MAP_THREADS, narrow, elements, narrow, 0, 0);
    }
    const uint64_t count = elements / W, rest = elements % W;
    const uint64_t blocks = gal_ceil_divide(count, GAL_MAP_THREADS * GAL_MAP_UNROLL);
    return gal_launch(call, err, name, gal_map_kernel<GAL_MAP_UNROLL, F<T, W>, F<T, 1>>,
                      dim3(blocks == 0 && rest != 0 ? 1 : (uint32_t)blocks), GAL_MAP_THREADS, wide, count, narrow,
                      count * W, (uint32_t)rest);
}

#endif
