/* The GPU of this process, as CUDA tells it. cuda/gpu.c, or gpu_without_cuda.c. */
#ifndef GAL_PROFILER_GPU_H
#define GAL_PROFILER_GPU_H

#include "schemas/profile.h"

enum { GAL_BUS_ID_BYTES = 16 };

typedef struct gal_gpu {
    char name[GAL_NAME_BYTES];
    char bus_id[GAL_BUS_ID_BYTES]; /* of PCI, "0000:1b:00.0", in small letters */
    char version[GAL_NAME_BYTES];  /* "CUDA 13.0, NCCL 2.28.9" */
    uint64_t memory_bytes;
    uint64_t cache_bytes; /* of the last level */
    uint32_t multiprocessor_count;
    double fp64_ratio; /* rate in fp64 over that in fp32 */
} gal_gpu;

/* After gal_backend_cuda_open, for its GPU. */
gal_code gal_gpu_read(gal_gpu *out, gal_error *err);

/* What communication does to a GPU where there is nobody to communicate with: target = a + b by so many blocks (CTAs)
 * alone, each as NCCL's: 512 threads, 16 bytes at a time. Queues and returns.
 * target, a, b  (elements) fp32, device, 16-byte aligned; elements a multiple of 4
 * GAL_ERR_DEVICE if the launch is refused. */
gal_code gal_standin_queue(void *queue, uint32_t ctas, float *target, const float *a, const float *b, uint64_t elements,
                           gal_error *err);

#endif
