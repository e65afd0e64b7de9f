/* The GPU of a process and its memory, against a double of the CUDA runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "tests/support/cuda_double.h"

static void test_no_device(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_cuda_double_reset(0, false);
    gal_cuda_double_set_devices(-1);
    assert_int_equal(gal_cuda_open(0, &err), GAL_ERR_DEVICE);
    assert_non_null(strstr(err.text, "no CUDA driver (libcuda.so.1)"));
    err = (gal_error){0};
    gal_cuda_double_set_devices(0);
    assert_int_equal(gal_cuda_probe(&err), GAL_ERR_DEVICE);
    assert_string_equal(err.text, "no GPU: the CUDA driver sees none");
}

/* Ranks beyond the GPUs share them. */
static void test_local_rank(void **state)
{
    (void)state;
    gal_error err = {0};
    char text[256];
    gal_cuda_double_reset(0, false);
    gal_cuda_double_set_devices(3);
    assert_int_equal(gal_cuda_probe(&err), GAL_OK);
    assert_int_equal(gal_cuda_open(7, &err), GAL_OK);
    assert_int_equal(gal_cuda_describe(text, sizeof text, &err), GAL_OK);
    assert_non_null(strstr(text, "GPU of tests (GPU 1 of 3), 0.0 GiB, compute capability 9.0, CUDA "));
}

static void test_memory(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_memory memory = {0};
    uint8_t bytes[4] = {1, 2, 3, 4}, back[4];
    gal_cuda_double_reset(0, false);
    assert_int_equal(gal_device_cuda.allocate(512, true, &memory, &err), GAL_OK);
    assert_int_equal(memory.bytes, 512);
    gal_device_cuda.read(&memory, 508, back, sizeof back);
    assert_memory_equal(back, ((uint8_t[]){0xFF, 0xFF, 0xFF, 0xFF}), sizeof back);
    gal_device_cuda.write(&memory, 8, bytes, sizeof bytes);
    gal_device_cuda.zero(&memory, 9, 2);
    gal_device_cuda.read(&memory, 8, back, sizeof back);
    assert_memory_equal(back, ((uint8_t[]){1, 0, 0, 4}), sizeof back);
    assert_int_equal(gal_device_cuda.used_bytes(), 3000);
    gal_device_cuda.release(&memory);
    assert_null(memory.base);
    gal_device_cuda.release(&memory);
    assert_int_equal(gal_cuda_double_counts().allocations, 0);
}

/* The double's GPU has 4000 bytes, 1000 of them free. */
static void test_no_memory(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_memory memory = {0};
    void *pinned = NULL;
    gal_cuda_double_reset(0, false);
    gal_cuda_double_fail_at(1);
    assert_int_equal(gal_device_cuda.allocate(2048, false, &memory, &err), GAL_ERR_SYSTEM);
    assert_string_equal(err.text, "2048 bytes on the GPU: it has 4000, of which 1000 are free");
    assert_null(memory.base);
    err = (gal_error){0};
    gal_cuda_double_fail_at(1);
    assert_int_equal(gal_device_cuda.queue->host_allocate(2048, &pinned, &err), GAL_ERR_SYSTEM);
    assert_string_equal(err.text, "2048 bytes of pinned memory: out of memory");
    gal_cuda_double_reset(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_local_rank),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
