/* Memory that NCCL can register: of the driver's virtual memory functions, with handles that other processes map. */
#include <nccl.h>
#include <string.h>

#include "runtime/device/cuda/api.h"
#include "runtime/device/cuda/cuda.h"

static gal_code nccl_allocate(uint64_t bytes, bool poison, gal_memory *out, gal_error *err)
{
    gal_code code = GAL_OK;
    void *base = NULL;
    GAL_ASSERT(bytes > 0);
    const ncclResult_t failure = ncclMemAlloc(&base, bytes);
    if (failure != ncclSuccess) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%llu bytes on the GPU by ncclMemAlloc: %s", (unsigned long long)bytes,
                        ncclGetErrorString(failure));
    }
    GAL_TRY(gal_cuda_fill(base, bytes, poison, err));
    *out = (gal_memory){.base = base, .bytes = bytes, .mapping = base, .mapping_bytes = bytes};
    base = NULL;
cleanup:
    if (base != NULL) {
        (void)ncclMemFree(base);
    }
    return code;
}

static void nccl_release(gal_memory *memory)
{
    if (memory->mapping != NULL) {
        (void)ncclMemFree(memory->mapping);
    }
    memset(memory, 0, sizeof *memory);
}

const gal_device_ops gal_device_cuda_registered = {
    .name = "cuda",
    .allocate = nccl_allocate,
    .release = nccl_release,
    GAL_DEVICE_CUDA_COMMON,
};
