/* The GPU of this process, and its memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/api.h"
#include "runtime/device/cuda/cuda.h"
#include "runtime/device/storage.h"

gal_code gal_cuda_failed(const char *expression, const char *file, int line, cudaError_t failure, gal_error *err)
{
    const int name_length = (int)strcspn(expression, "(");
    return gal_fail(err, GAL_ERR_DEVICE, "%.*s: %s (%s:%d)", name_length, expression, cudaGetErrorString(failure), file,
                    line);
}

/* ---- which one ---- */

/* There is a driver, and it is older than the runtime; or there is none. */
static gal_code no_driver(gal_error *err)
{
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    if (driver == 0) {
        return gal_fail(err, GAL_ERR_DEVICE, "no CUDA driver (libcuda.so.1): is this a machine with NVIDIA GPUs?");
    }
    return gal_fail(err, GAL_ERR_DEVICE, "the CUDA driver is too old: it is for CUDA %d.%d, and this program for %d.%d",
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

static gal_code count_devices(int *count, gal_error *err)
{
    const cudaError_t failure = cudaGetDeviceCount(count);
    if (failure == cudaErrorInsufficientDriver) {
        return no_driver(err);
    }
    if (failure == cudaErrorNoDevice || (failure == cudaSuccess && *count == 0)) {
        return gal_fail(err, GAL_ERR_DEVICE, "no GPU: the CUDA driver sees none");
    }
    return failure == cudaSuccess ? GAL_OK : gal_fail(err, GAL_ERR_DEVICE, "CUDA: %s", cudaGetErrorString(failure));
}

gal_code gal_cuda_probe(gal_error *err)
{
    int count = 0;
    return count_devices(&count, err);
}

gal_code gal_cuda_open(uint32_t local_rank, gal_error *err)
{
    gal_code code = GAL_OK;
    int count = 0;
    GAL_TRY(count_devices(&count, err));
    GAL_CUDA_TRY(cudaSetDevice((int)(local_rank % (uint32_t)count)));
cleanup:
    return code;
}

gal_code gal_cuda_describe(char *text, size_t capacity, gal_error *err)
{
    gal_code code = GAL_OK;
    struct cudaDeviceProp properties;
    int device = 0, count = 0, driver = 0;
    GAL_CUDA_TRY(cudaGetDevice(&device));
    GAL_CUDA_TRY(cudaGetDeviceCount(&count));
    GAL_CUDA_TRY(cudaDriverGetVersion(&driver));
    GAL_CUDA_TRY(cudaGetDeviceProperties(&properties, device));
    (void)snprintf(text, capacity, "%s (GPU %d of %d), %.1f GiB, compute capability %d.%d, CUDA %d.%d, driver %d.%d",
                   properties.name, device, count, (double)properties.totalGlobalMem / 0x1p30, properties.major,
                   properties.minor, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000,
                   driver % 1000 / 10);
cleanup:
    return code;
}

/* ---- memory ---- */

gal_code gal_cuda_fill(void *base, uint64_t bytes, bool poison, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaMemset(base, poison ? 0xFF : 0, bytes));
    GAL_CUDA_TRY(cudaDeviceSynchronize()); /* a memset returns before it is done, and queues do not wait for it */
cleanup:
    return code;
}

static gal_code cuda_allocate(uint64_t bytes, bool poison, gal_memory *out, gal_error *err)
{
    gal_code code = GAL_OK;
    void *base = NULL;
    GAL_ASSERT(bytes > 0);
    const cudaError_t failure = cudaMalloc(&base, bytes);
    if (failure == cudaErrorMemoryAllocation) {
        size_t free_bytes = 0, total_bytes = 0;
        (void)cudaGetLastError(); /* it is no failure of the device: who asked may ask for less */
        (void)cudaMemGetInfo(&free_bytes, &total_bytes);
        return gal_fail(err, GAL_ERR_SYSTEM, "%llu bytes on the GPU: it has %llu, of which %llu are free",
                        (unsigned long long)bytes, (unsigned long long)total_bytes, (unsigned long long)free_bytes);
    }
    GAL_CUDA_TRY(failure);
    GAL_TRY(gal_cuda_fill(base, bytes, poison, err));
    *out = (gal_memory){.base = base, .bytes = bytes, .mapping = base, .mapping_bytes = bytes};
    base = NULL;
cleanup:
    if (base != NULL) {
        (void)cudaFree(base);
    }
    return code;
}

static void cuda_release(gal_memory *memory)
{
    if (memory->mapping != NULL) {
        (void)cudaFree(memory->mapping);
    }
    memset(memory, 0, sizeof *memory);
}

static void must(const char *what, cudaError_t failure)
{
    if (failure != cudaSuccess) {
        fprintf(stderr, "error: the GPU failed at %s: %s\n", what, cudaGetErrorString(failure));
        exit(GAL_ERR_DEVICE);
    }
}

static char *inside(const gal_memory *memory, uint64_t offset, uint64_t byte_count)
{
    GAL_ASSERT(offset <= memory->bytes && byte_count <= memory->bytes - offset);
    return (char *)memory->base + offset;
}

/* What the memory has in the host's. NULL: the offset is on the device. */
static char *on_host(const gal_memory *memory, uint64_t offset, uint64_t byte_count)
{
    const bool there = memory->host != NULL && offset >= memory->bytes;
    return there ? inside(memory->host, offset - memory->bytes, byte_count) : NULL;
}

void gal_cuda_write(const gal_memory *memory, uint64_t offset, const void *source, uint64_t byte_count)
{
    uint64_t in_file;
    if (gal_memory_stores(memory, offset, &in_file)) {
        gal_storage_put(memory->storage, in_file, source, byte_count);
        return;
    }
    char *host = on_host(memory, offset, byte_count);
    if (host != NULL) {
        memcpy(host, source, byte_count);
        return;
    }
    must("a copy to it", cudaMemcpy(inside(memory, offset, byte_count), source, byte_count, cudaMemcpyHostToDevice));
}

void gal_cuda_read(const gal_memory *memory, uint64_t offset, void *target, uint64_t byte_count)
{
    uint64_t in_file;
    if (gal_memory_stores(memory, offset, &in_file)) {
        gal_storage_get(memory->storage, in_file, target, byte_count);
        return;
    }
    const char *host = on_host(memory, offset, byte_count);
    if (host != NULL) {
        memcpy(target, host, byte_count);
        return;
    }
    must("a copy from it", cudaMemcpy(target, inside(memory, offset, byte_count), byte_count, cudaMemcpyDeviceToHost));
}

void gal_cuda_zero(const gal_memory *memory, uint64_t offset, uint64_t byte_count)
{
    uint64_t in_file;
    if (gal_memory_stores(memory, offset, &in_file)) {
        gal_storage_zero(memory->storage, in_file, byte_count);
        return;
    }
    char *host = on_host(memory, offset, byte_count);
    if (host != NULL) {
        memset(host, 0, byte_count);
        return;
    }
    must("filling memory", cudaMemset(inside(memory, offset, byte_count), 0, byte_count));
    must("filling memory", cudaDeviceSynchronize());
}

uint64_t gal_cuda_used_bytes(void)
{
    size_t free_bytes = 0, total_bytes = 0;
    must("asking for its memory", cudaMemGetInfo(&free_bytes, &total_bytes));
    return total_bytes - free_bytes;
}

const gal_device_ops gal_device_cuda = {
    .name = "cuda",
    .allocate = cuda_allocate,
    .release = cuda_release,
    GAL_DEVICE_CUDA_COMMON,
};
