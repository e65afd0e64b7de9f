/* Kernels under test on the GPU. What the test allocates has a twin in device memory, between two guards that no kernel
 * may touch; begin copies all twins there and end copies them back. */
#include "tests/support/emulated/machine.h"

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"

enum { TWINS_MAX = 64, GUARD_BYTES = 512, GUARD = 0xA5 };

typedef struct twin {
    char *host; /* NULL: free */
    char *device;
    size_t bytes;
} twin;

static twin twins[TWINS_MAX];

static void must(cudaError_t failure, const char *what)
{
    if (failure != cudaSuccess) {
        fail_msg("%s: %s", what, cudaGetErrorString(failure));
    }
}

static void open_device(void)
{
    static bool opened;
    gal_error err = {.code = GAL_OK};
    if (!opened && gal_cuda_open(0, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    opened = true;
}

void *gal_machine_allocate(size_t bytes)
{
    open_device();
    for (uint32_t i = 0; i < TWINS_MAX; i++) {
        twin *at = &twins[i];
        if (at->host == NULL) {
            void *device = NULL;
            at->host = malloc(bytes + (bytes == 0));
            assert_non_null(at->host);
            must(cudaMalloc(&device, bytes + 2 * GUARD_BYTES), "cudaMalloc");
            at->device = (char *)device + GUARD_BYTES;
            at->bytes = bytes;
            return at->host;
        }
    }
    fail_msg("more than %d allocations", TWINS_MAX);
    return NULL;
}

void gal_machine_free(void *memory)
{
    for (uint32_t i = 0; i < TWINS_MAX && memory != NULL; i++) {
        if (twins[i].host == memory) {
            must(cudaFree(twins[i].device - GUARD_BYTES), "cudaFree");
            free(twins[i].host);
            twins[i] = (twin){.host = NULL};
            return;
        }
    }
}

void *gal_machine_at(const void *memory)
{
    for (uint32_t i = 0; i < TWINS_MAX; i++) {
        const twin *at = &twins[i];
        if (at->host != NULL && (const char *)memory >= at->host && (const char *)memory <= at->host + at->bytes) {
            return at->device + ((const char *)memory - at->host);
        }
    }
    fail_msg("%p was not allocated here", memory);
    return NULL;
}

void gal_machine_begin(bool reverse)
{
    (void)reverse; /* the device's order is its own */
    for (uint32_t i = 0; i < TWINS_MAX; i++) {
        const twin *at = &twins[i];
        if (at->host != NULL) {
            must(cudaMemset(at->device - GUARD_BYTES, GUARD, at->bytes + 2 * GUARD_BYTES), "cudaMemset");
            must(cudaMemcpy(at->device, at->host, at->bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
        }
    }
}

static void check_guard(const char *device, const char *place, size_t bytes)
{
    uint8_t guard[GUARD_BYTES];
    must(cudaMemcpy(guard, device, GUARD_BYTES, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        if (guard[i] != GUARD) {
            fail_msg("a kernel wrote %s %zu bytes: byte %u of the guard", place, bytes, i);
        }
    }
}

void gal_machine_end(void)
{
    must(cudaGetLastError(), "launch");
    must(cudaDeviceSynchronize(), "kernel");
    for (uint32_t i = 0; i < TWINS_MAX; i++) {
        const twin *at = &twins[i];
        if (at->host != NULL) {
            check_guard(at->device - GUARD_BYTES, "before", at->bytes);
            check_guard(at->device + at->bytes, "behind", at->bytes);
            must(cudaMemcpy(at->host, at->device, at->bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
        }
    }
}

uint64_t gal_machine_launches(void)
{
    return 0;
}
