/* Analytic kernels: small cases worked by hand. Collectives: test_collective.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/analytic_kernel.h"

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) {
        fail_msg("got %.12g, expected %.12g", a, b);
    }
}

/* 4 multiprocessors of 1 Tflop/s, memory that costs next to nothing, 1 us to launch. */
static gal_device four(void)
{
    return (gal_device){.kind = "four",
                        .memory_bytes = 1,
                        .fp32_flops_per_second = 4e12,
                        .fp64_flops_per_second = 2e12,
                        .memory_bytes_per_second = 1e20,
                        .multiprocessor_count = 4,
                        .launch_seconds = 1e-6,
                        .gemm_fraction = 1.0,
                        .memory_fraction = 1.0};
}

static double gemm(const gal_device *device, uint32_t m, uint32_t n, uint32_t k)
{
    const gal_shape shape = {.op = GAL_OP_GEMM, .dtype = GAL_FP32, .dims = {m, n, k, 0}};
    return gal_kernel_analytic_seconds(device, &shape);
}

static void tiles_and_waves(void **unused)
{
    (void)unused;
    const gal_device device = four();
    /* 4 tiles of 256 x 128, one each: (1024 + 64) x 2 x 256 x 128 flops */
    assert_near(gemm(&device, 512, 256, 1024), 1e-6 + 1088.0 * 65536.0 / 1e12);
    assert_near(gemm(&device, 256, 512, 1024), 1e-6 + 1088.0 * 65536.0 / 1e12);
    /* one column more is 6 of them, in two waves; least are 36 tiles of 64 x 64 in nine waves, at 0.875 of the rate */
    assert_near(gemm(&device, 513, 256, 1024), 1e-6 + 9 * 1088.0 * 8192.0 / 0.875 / 1e12);
    /* half the rate in fp64, and twice the bytes */
    const gal_shape wide = {.op = GAL_OP_GEMM, .dtype = GAL_FP64, .dims = {512, 256, 1024, 0}};
    assert_near(gal_kernel_analytic_seconds(&device, &wide), 1e-6 + 1088.0 * 65536.0 / 5e11);
}

/* Products at the rate of 16 bits, where the device says one; all other arithmetic is fp32. */
static void types_of_16_bits(void **unused)
{
    (void)unused;
    gal_device device = four();
    const gal_shape product = {.op = GAL_OP_GEMM, .dtype = GAL_BF16, .dims = {512, 256, 1024, 0}};
    const gal_shape wide = {.op = GAL_OP_GEMM, .dtype = GAL_BF16, .dims = {512, 256, 1024, GAL_GEMM_FP32_C}};
    const gal_shape norm = {.op = GAL_OP_LAYER_NORM, .dtype = GAL_BF16, .dims = {1000, 500}};
    assert_near(gal_kernel_analytic_seconds(&device, &product), 1e-6 + 1088.0 * 65536.0 / 1e12);
    device.bf16_flops_per_second = 32e12;
    assert_near(gal_kernel_analytic_seconds(&device, &product), 1e-6 + 1088.0 * 65536.0 / 8e12);
    assert_near(gal_kernel_analytic_seconds(&device, &norm), 1e-6 + 8.0 * 1000 * 500 / 1e12);
    /* a, b and c of two bytes, or c of four, at 1 MB/s */
    device.memory_bytes_per_second = 1e6;
    const double operands = 512.0 * 1024 + 1024.0 * 256, result = 512.0 * 256;
    assert_near(gal_kernel_analytic_seconds(&device, &product), 1e-6 + 2 * (operands + result) / 1e6);
    assert_near(gal_kernel_analytic_seconds(&device, &wide), 1e-6 + (2 * operands + 4 * result) / 1e6);
    /* x and y, gain and bias of two bytes; two statistics of four for each row */
    assert_near(gal_kernel_analytic_seconds(&device, &norm),
                1e-6 + (2 * (2 * 1000.0 * 500 + 2 * 500) + 4 * 2 * 1000.0) / 1e6);
}

static void depth(void **unused)
{
    (void)unused;
    gal_device device = four();
    /* one tile of 128 x 128: k in four parts, a multiprocessor each, at 0.972 of the rate */
    assert_near(gemm(&device, 128, 128, 8192), 1e-6 + (2048 + 64) * 32768.0 / 0.972 / 1e12);
    /* what the parts add up, 4 x 2 x 128 x 128 x 4 bytes, at 1 GB/s and 1 Gflop/s each; the operands alone take less */
    device.memory_bytes_per_second = 1e9;
    device.fp32_flops_per_second = 4e9;
    assert_near(gemm(&device, 128, 128, 8192), 1e-6 + (2048 + 64) * 32768.0 / 0.972 / 1e9 + 4 * 131072.0 / 1e9);
    /* at 1000 Gflop/s each the operands take longer: 2 x 8192 x 128 + 128 x 128 elements */
    device.fp32_flops_per_second = 4e12;
    assert_near(gemm(&device, 128, 128, 8192), 1e-6 + 4.0 * (2 * 8192 * 128 + 128 * 128) / 1e9);
}

/* A row is as long as reading the weights, and so are a few. */
static void small_m(void **unused)
{
    (void)unused;
    gal_device device = four();
    device.memory_bytes_per_second = 1e11;
    device.memory_fraction = 0.5;
    const double weights = 4.0 * 4096 * 4096 / 5e10;
    assert_near(gemm(&device, 1, 4096, 4096), 1e-6 + weights + 4.0 * 2 * 4096 / 5e10);
    assert_near(gemm(&device, 8, 4096, 4096), 1e-6 + weights + 4.0 * 8 * 2 * 4096 / 5e10);
    assert_true(gemm(&device, 4096, 4096, 4096) > 20 * weights);
}

static void attention(void **unused)
{
    (void)unused;
    const gal_device device = four();
    /* 2 heads of 2 tiles of 128 queries. Of 256 positions 32896 pairs a head; 65792 + half a block for 512 queries =
     * 98560 pairs are met, 4 x 64 + 4 operations each, at 0.85 of the rate. Every tile has a multiprocessor: the second
     * tile of a head, with 4/3 of the mean, is the longest */
    gal_shape shape = {.op = GAL_OP_ATTENTION, .dtype = GAL_FP32, .dims = {1, 256, 2, 64, 2, GAL_ATTENTION_CAUSAL}};
    assert_near(gal_kernel_analytic_seconds(&device, &shape), 1e-6 + 98560.0 * 260 * 4 / 3 / (4e12 * 0.85));
    /* a head of 48 takes as long as one of 64 would, with 4 x 48 + 4 operations a pair */
    shape.dims[3] = 48;
    assert_near(gal_kernel_analytic_seconds(&device, &shape),
                1e-6 + 98560.0 * 196 * (64.0 / 48) * 4 / 3 / (4e12 * 0.85));
    /* 16 samples fill the multiprocessors: no tile is waited for */
    shape.dims[0] = 16;
    assert_near(gal_kernel_analytic_seconds(&device, &shape), 1e-6 + 16 * 98560.0 * 196 * (64.0 / 48) / (4e12 * 0.85));
    shape.op = GAL_OP_ATTENTION_BACKWARD; /* 10 x 48 + 7 operations a pair */
    assert_near(gal_kernel_analytic_seconds(&device, &shape), 1e-6 + 16 * 98560.0 * 487 * (64.0 / 48) / (4e12 * 0.73));
}

static void bytes_and_launch(void **unused)
{
    (void)unused;
    gal_device device = four();
    device.memory_bytes_per_second = 1e12;
    device.memory_fraction = 0.0; /* not said: 0.8 */
    gal_shape shape = {.op = GAL_OP_ADD, .dtype = GAL_FP32, .dims = {1000000}};
    assert_near(gal_kernel_analytic_seconds(&device, &shape), 1e-6 + 12e6 / 0.8e12); /* three operands of 4 MB */
    shape.op = GAL_OP_ADAM;
    shape.dims[1] = 0; /* reads four, writes three, and two doubles */
    assert_near(gal_kernel_analytic_seconds(&device, &shape), 1e-6 + (28e6 + 16) / 0.8e12);
    shape.op = GAL_OP_FILL;
    shape.dims[0] = 1; /* small: the launch */
    assert_near(gal_kernel_analytic_seconds(&device, &shape), 1e-6 + 4 / 0.8e12);
}

/* Without multiprocessors nothing jumps: 0.7 of the peak times n / (n + 64) in every dimension. */
static void processors(void **unused)
{
    (void)unused;
    gal_device device = four();
    device.multiprocessor_count = 0;
    device.launch_seconds = 0.0;
    device.gemm_fraction = 0.0;
    assert_near(gemm(&device, 64, 192, 448), 2e-6 + 2.0 * 64 * 192 * 448 / (4e12 * 0.7 * 0.5 * 0.75 * 0.875));
}

/* A block that is priced as a neighbour may have nothing to do on a device. */
static void nothing_to_do(void **unused)
{
    (void)unused;
    gal_device device = four();
    for (uint32_t op = 0; op < GAL_OP_COUNT; op++) {
        for (uint32_t zero = 0; zero < gal_op_dim_count[op] && !gal_op_is_collective[op]; zero++) {
            gal_shape shape = {.op = (gal_op)op, .dtype = GAL_FP32};
            for (uint32_t i = 0; i < gal_op_dim_count[op]; i++) {
                shape.dims[i] = i == zero ? 0 : 8;
            }
            device.multiprocessor_count = 4;
            const double tiled = gal_kernel_analytic_seconds(&device, &shape);
            device.multiprocessor_count = 0;
            const double smooth = gal_kernel_analytic_seconds(&device, &shape);
            assert_true(isfinite(tiled) && tiled > 0.0 && isfinite(smooth) && smooth > 0.0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_and_waves), cmocka_unit_test(types_of_16_bits), cmocka_unit_test(depth),
        cmocka_unit_test(small_m),         cmocka_unit_test(attention),        cmocka_unit_test(bytes_and_launch),
        cmocka_unit_test(processors),      cmocka_unit_test(nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
