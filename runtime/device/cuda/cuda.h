/* GPUs, by the CUDA runtime. A process uses one of them, from one thread.
 *
 * The functions of the tables that cannot fail (write, read, zero) end the process with GAL_ERR_DEVICE and one line
 * when the device has failed: what they would go on with is not what is in its memory. */
#ifndef GAL_RUNTIME_DEVICE_CUDA_CUDA_H
#define GAL_RUNTIME_DEVICE_CUDA_CUDA_H

#include <stddef.h>

#include "runtime/device/device.h"

extern const gal_device_ops gal_device_cuda; /* arenas by cudaMalloc */
/* The same, but arenas by ncclMemAlloc: what can be registered with NCCL, for collectives without copies. */
extern const gal_device_ops gal_device_cuda_registered;

/* GAL_ERR_DEVICE: there is no driver, it is too old, or there is no GPU; the message names what is missing. Makes no
 * context. */
gal_code gal_cuda_probe(gal_error *err);

/* Chooses GPU (local_rank modulo their number) for the calling thread and makes its context. Errors as
 * gal_cuda_probe. */
gal_code gal_cuda_open(uint32_t local_rank, gal_error *err);

/* "NVIDIA H200 (GPU 0 of 8), 139.8 GiB, compute capability 9.0, CUDA 13.0, driver 13.0", after gal_cuda_open. */
gal_code gal_cuda_describe(char *text, size_t capacity, gal_error *err);

#endif
