#include "profiler/gpu.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "runtime/comm/nccl.h"
#include "runtime/device/cuda/api.h"

gal_code gal_gpu_read(gal_gpu *out, gal_error *err)
{
    gal_code code = GAL_OK;
    struct cudaDeviceProp properties;
    char nccl[GAL_NAME_BYTES / 2];
    int device = 0, ratio = 0;
    GAL_CUDA_TRY(cudaGetDevice(&device));
    GAL_CUDA_TRY(cudaGetDeviceProperties(&properties, device));
    GAL_CUDA_TRY(cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, device));
    memset(out, 0, sizeof *out);
    gal_nccl_version(nccl, sizeof nccl);
    (void)snprintf(out->name, sizeof out->name, "%.63s", properties.name);
    (void)snprintf(out->bus_id, sizeof out->bus_id, "%04x:%02x:%02x.0", (unsigned)properties.pciDomainID & 0xFFFFu,
                   (unsigned)properties.pciBusID & 0xFFu, (unsigned)properties.pciDeviceID & 0xFFu);
    (void)snprintf(out->version, sizeof out->version, "CUDA %d.%d, %.31s", CUDART_VERSION / 1000,
                   CUDART_VERSION % 1000 / 10, nccl);
    out->memory_bytes = properties.totalGlobalMem;
    out->cache_bytes = properties.l2CacheSize > 0 ? (uint64_t)properties.l2CacheSize : 0;
    out->multiprocessor_count = (uint32_t)properties.multiProcessorCount;
    out->fp64_ratio = ratio > 0 ? 1.0 / ratio : 1.0;
cleanup:
    return code;
}
