/* The calls of the CUDA runtime that this folder makes, and how they fail. Only for this folder. */
#ifndef GAL_RUNTIME_DEVICE_CUDA_API_H
#define GAL_RUNTIME_DEVICE_CUDA_API_H

#include <cuda_runtime_api.h>

#include "runtime/device/device.h"

/* The rest of a device's table, beside how arenas come and go. */
#define GAL_DEVICE_CUDA_COMMON                                                                                         \
    .write = gal_cuda_write, .read = gal_cuda_read, .zero = gal_cuda_zero, .used_bytes = gal_cuda_used_bytes,          \
    .queue = &gal_cuda_queues

extern const gal_device_queue_ops gal_cuda_queues;

void gal_cuda_write(const gal_memory *memory, uint64_t offset, const void *source, uint64_t byte_count);
void gal_cuda_read(const gal_memory *memory, uint64_t offset, void *target, uint64_t byte_count);
void gal_cuda_zero(const gal_memory *memory, uint64_t offset, uint64_t byte_count);
uint64_t gal_cuda_used_bytes(void);

/* Fills new memory as device.h says. */
gal_code gal_cuda_fill(void *base, uint64_t bytes, bool poison, gal_error *err);

/* "cudaMalloc: out of memory (runtime/device/cuda/device.c:40)" */
gal_code gal_cuda_failed(const char *expression, const char *file, int line, cudaError_t failure, gal_error *err);

/* Sets the local `code` and jumps to the local `cleanup` unless the call returns cudaSuccess. */
#define GAL_CUDA_TRY(call)                                                                                             \
    do {                                                                                                               \
        const cudaError_t failure_ = (call);                                                                           \
        if (failure_ != cudaSuccess) {                                                                                 \
            code = gal_cuda_failed(#call, __FILE__, __LINE__, failure_, err);                                          \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
