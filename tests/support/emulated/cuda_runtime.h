/* What the kernels of runtime/ops/cuda use of CUDA C++, on tests/support/emulated/device.h. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_CUDA_RUNTIME_H
#define GAL_TESTS_SUPPORT_EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/emulated/device.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static /* blocks run one after another */
#define threadIdx gal_emulated_thread
#define blockIdx gal_emulated_block
#define blockDim gal_emulated_thread_count
#define gridDim gal_emulated_block_count

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth)
    {
    }
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

static inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

#define __expf(x) expf(x) /* the C library has one of its own */
static inline float __fdividef(float a, float b)
{
    return a / b;
}

static inline void __syncthreads()
{
    gal_emulated_barrier();
}
template <class V> V __shfl_xor_sync(unsigned, V value, int distance)
{
    uint64_t given = 0;
    static_assert(sizeof value <= sizeof given, "one word");
    memcpy(&given, &value, sizeof value);
    const uint32_t lane = threadIdx.x + threadIdx.y * blockDim.x;
    given = gal_emulated_exchange(given, (lane ^ (uint32_t)distance) % 32);
    memcpy(&value, &given, sizeof value);
    return value;
}

/* ---- the runtime ---- */

typedef struct CUstream_st *cudaStream_t;
enum cudaError_t { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice = 3 };
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

static inline const char *cudaGetErrorString(cudaError_t)
{
    return "none";
}
static inline cudaError_t cudaMemsetAsync(void *target, int value, size_t byte_count, cudaStream_t)
{
    memset(target, value, byte_count);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t byte_count, cudaMemcpyKind,
                                          cudaStream_t)
{
    memmove(target, source, byte_count);
    return cudaSuccess;
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...arguments)
{
    const auto one = [&] { kernel(arguments...); };
    gal_emulated_run(
        {config->gridDim.x, config->gridDim.y, config->gridDim.z},
        {config->blockDim.x, config->blockDim.y, config->blockDim.z},
        [](void *context) { (*static_cast<decltype(one) *>(context))(); }, (void *)&one);
    return cudaSuccess;
}

#endif
