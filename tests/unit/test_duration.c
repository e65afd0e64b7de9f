/* Kernel durations: work by shape, measured entries, fits, the factor in company. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/analytic_kernel.h"
#include "costmodel/duration.h"
#include "costmodel/fit.h"
#include "costmodel/host_work.h"
#include "costmodel/work.h"

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

static gal_shape gemm(uint32_t m, uint32_t n, uint32_t k)
{
    return (gal_shape){.op = GAL_OP_GEMM, .dtype = GAL_FP32, .dims = {m, n, k, 0}};
}

static void work_of_shapes(void **unused)
{
    (void)unused;
    const gal_shape product = gemm(10, 20, 30);
    assert_near(gal_shape_flops(&product), 12000.0); /* 2 x 10 x 20 x 30 */
    assert_near(gal_shape_bytes(&product), 4.0 * (300 + 600 + 200));
    /* 2 samples, 4 positions, 3 heads of 8: 6 heads x 10 causal pairs x (4 x 8 + 4) */
    const gal_shape attention = {
        .op = GAL_OP_ATTENTION, .dtype = GAL_FP64, .dims = {2, 4, 3, 8, 3, GAL_ATTENTION_CAUSAL}};
    assert_near(gal_shape_flops(&attention), 2160.0);
    assert_near(gal_shape_bytes(&attention), 8.0 * (4 * 192 + 24));
    const gal_shape grouped = {
        .op = GAL_OP_ATTENTION, .dtype = GAL_FP64, .dims = {2, 4, 3, 8, 1, GAL_ATTENTION_CAUSAL}};
    assert_near(gal_shape_bytes(&grouped), 8.0 * (2 * 192 + 2 * 64 + 24)); /* keys and values of one head */
    const gal_shape adam = {.op = GAL_OP_ADAM, .dtype = GAL_FP32, .dims = {1000, 500}};
    assert_near(gal_shape_bytes(&adam), 28016.0); /* 7 x 4000, and the norm */
}

/* Every kernel has a positive duration on any cluster. */
static void no_kernel_is_free(void **unused)
{
    (void)unused;
    const gal_cluster cluster = {
        .device_count = 1,
        .device = {.kind = "d",
                   .memory_bytes = 1,
                   .fp32_flops_per_second = 1e12,
                   .fp64_flops_per_second = 5e11,
                   .memory_bytes_per_second = 1e11},
        .level_count = 1,
        .level = {{.name = "l", .span_devices = 1, .latency_seconds = 1e-6, .bytes_per_second = 1e9}}};
    gal_durations *d = NULL;
    gal_error err = {0};
    assert_int_equal(gal_durations_create_analytic(&cluster, &d, &err), GAL_OK);
    for (uint32_t op = 0; op < GAL_OP_COUNT; op++) {
        gal_shape shape = {.op = (gal_op)op, .dtype = GAL_FP32, .dims = {8, 8, 8, 8, 8, 8}};
        gal_source source;
        if (!gal_op_is_collective[op]) {
            assert_true(gal_kernel_seconds(d, &shape, &source) > 0.0);
            assert_int_equal(source, GAL_SOURCE_ANALYTIC);
            assert_true(gal_shape_bytes(&shape) > 0.0);
        }
    }
    gal_durations_free(d);
}

static void non_negative_fit(void **unused)
{
    (void)unused;
    /* y = 2 + 3 f: the third term is unused */
    const gal_fit_row exact[] = {{{1, 1, 5}, 5}, {{1, 2, 3}, 8}, {{1, 3, 9}, 11}, {{1, 7, 2}, 23}};
    double c[GAL_FIT_TERMS];
    gal_fit_non_negative(exact, 4, c);
    assert_near(c[0], 2.0);
    assert_near(c[1], 3.0);
    assert_true(c[2] < 1e-9);
    /* falling in f: the free optimum has a negative slope; the constant alone is the constrained one, and of relative
     * residuals (c/2 - 1)^2 + (c/1 - 1)^2 it is (1/2 + 1) / (1/4 + 1) = 1.2 */
    const gal_fit_row falling[] = {{{1, 0, 0}, 2}, {{1, 1, 0}, 1}};
    gal_fit_non_negative(falling, 2, c);
    assert_near(c[0], 1.2);
    assert_true(c[1] == 0.0 && c[2] == 0.0);
}

static gal_profile_block block_of(double forward, double backward, double forward_operators, double backward_operators)
{
    return (gal_profile_block){.kind = GAL_BLOCK_FFN,
                               .tp_degree = 1,
                               .samples = 1,
                               .forward_seconds = forward,
                               .backward_seconds = backward,
                               .forward_operator_seconds = forward_operators,
                               .backward_operator_seconds = backward_operators};
}

static void measured_fitted_in_company(void **unused)
{
    (void)unused;
    gal_profile_operator operators[5];
    memset(operators, 0, sizeof operators);
    for (uint32_t i = 0; i < 5; i++) {
        operators[i].shape = gemm(64 * (i + 1), 128, 256);
        operators[i].seconds = 1e-5 + 1e-11 * gal_shape_flops(&operators[i].shape);
        operators[i].source = GAL_SOURCE_MEASURED;
    }
    gal_profile_block blocks[] = {block_of(1.5, 3.0, 1.0, 1.5), block_of(2.6, 4.0, 2.0, 2.0),
                                  block_of(1.4, 2.1, 1.0, 1.0)};
    const gal_profile profile = {
        .cluster = {.device_count = 1,
                    .device = {.kind = "d",
                               .memory_bytes = 1,
                               .fp32_flops_per_second = 1e12,
                               .fp64_flops_per_second = 1e12,
                               .memory_bytes_per_second = 1e11},
                    .level_count = 1,
                    .level = {{.name = "l", .span_devices = 1, .latency_seconds = 1e-6, .bytes_per_second = 1e9}}},
        .instruction_seconds = 1e-6,
        .operator_count = 5,
        .operators = operators,
        .block_count = 3,
        .blocks = blocks};
    gal_durations *d = NULL;
    gal_error err = {0};
    gal_source source;
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    assert_true(gal_kernel_seconds(d, &operators[2].shape, &source) == operators[2].seconds);
    assert_int_equal(source, GAL_SOURCE_MEASURED);
    gal_shape between = gemm(96, 128, 256);
    assert_near(gal_kernel_seconds(d, &between, &source), 1e-5 + 1e-11 * gal_shape_flops(&between));
    assert_int_equal(source, GAL_SOURCE_FITTED);

    /* medians: forward of 1.5, 1.3, 1.4 is 1.4; backward of 2.0, 2.0, 2.1 is 2.0, in its weight part too; none for the
     * update */
    gal_instruction list[4] = {{.op = GAL_OP_GEMM}, {.op = GAL_OP_GEMM}, {.op = GAL_OP_GEMM}, {.op = GAL_OP_GEMM}};
    const gal_program program = {.stage_count = 1,
                                 .chunk_count = 1,
                                 .device_count = 1,
                                 .instruction_count = 4,
                                 .instruction = list,
                                 .shape = &operators[0].shape,
                                 .fragment = {[GAL_FRAGMENT_FORWARD] = {0, 1},
                                              [GAL_FRAGMENT_BACKWARD] = {1, 1},
                                              [GAL_FRAGMENT_UPDATE] = {2, 1},
                                              [GAL_FRAGMENT_WEIGHT] = {3, 1}}};
    gal_cost cost[4];
    gal_instruction_costs(d, &program, 0, 4, cost);
    assert_near(cost[0].seconds, 1.4 * operators[0].seconds + 1e-6);
    assert_near(cost[1].seconds, 2.0 * operators[0].seconds + 1e-6);
    assert_near(cost[2].seconds, operators[0].seconds + 1e-6);
    assert_near(cost[3].seconds, 2.0 * operators[0].seconds + 1e-6);
    gal_durations_free(d);
}

/* Seconds of a program's kernels, all 1 s alone: forward has a; backward runs it again, then one of the same shape, and
 * one of another block by that name. */
static void again_costs(const gal_profile_block *blocks, uint32_t block_count, double seconds[4])
{
    gal_profile_operator kernel = {.shape = gemm(64, 128, 256), .seconds = 1.0, .source = GAL_SOURCE_MEASURED};
    const gal_profile profile = {
        .cluster = {.device_count = 1, .device = {.kind = "d", .memory_bytes = 1}, .level_count = 1},
        .operator_count = 1,
        .operators = &kernel,
        .block_count = block_count,
        .blocks = (gal_profile_block *)blocks};
    gal_instruction list[] = {{.op = GAL_OP_GEMM, .name = "a"},
                              {.op = GAL_OP_GEMM, .name = "a"},
                              {.op = GAL_OP_GEMM, .name = "d a"},
                              {.op = GAL_OP_GEMM, .name = "a", .block = 1}};
    const gal_program program = {.stage_count = 1,
                                 .chunk_count = 1,
                                 .device_count = 1,
                                 .instruction_count = 4,
                                 .instruction = list,
                                 .shape = &kernel.shape,
                                 .fragment = {[GAL_FRAGMENT_FORWARD] = {0, 1}, [GAL_FRAGMENT_BACKWARD] = {1, 3}}};
    gal_durations *d = NULL;
    gal_error err = {0};
    gal_cost cost[4];
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    gal_instruction_costs(d, &program, 0, 4, cost);
    for (uint32_t i = 0; i < 4; i++) {
        seconds[i] = cost[i].seconds;
    }
    gal_durations_free(d);
}

/* Backward takes 3 s for 2 s of operators. With recompute it takes 4.2 s for 3 s, 3.4 s for 2.5 s and 7 s for 3 s: more
 * by 1.2, 0.8 and 4, of which the median is 1.2. Without a measurement, or by one that takes less than without, as in
 * backward: 1.5. */
static void kernels_that_run_again(void **unused)
{
    (void)unused;
    gal_profile_block blocks[] = {block_of(1.0, 3.0, 1.0, 2.0), block_of(1.0, 3.0, 1.0, 2.0)};
    double seconds[4];
    again_costs(blocks, 2, seconds);
    assert_near(seconds[1], 1.5);
    blocks[0].backward_full = (gal_profile_again){2.9, 3.0};
    again_costs(blocks, 2, seconds);
    assert_near(seconds[1], 1.5);
    blocks[0].backward_full = (gal_profile_again){4.2, 3.0};
    blocks[0].backward_selective = (gal_profile_again){3.4, 2.5};
    blocks[1].backward_full = (gal_profile_again){7.0, 3.0};
    again_costs(blocks, 2, seconds);
    assert_near(seconds[0], 1.0);
    assert_near(seconds[1], 1.2);
    assert_near(seconds[2], 1.5);
    assert_near(seconds[3], 1.5);
}

/* Of 2 and 6 CTAs something is known: at 4 it is half way, at 1 and 8 as at 2 and 6, at 0 as without. A message of 1 MB
 * takes 1 us and a byte's time alone by the library's choice, so by 4 CTAs 1 us and 1.5 of that time. */
static void slowdown_by_ctas(void **state)
{
    (void)state;
    const gal_profile profile = {
        .cluster = {.device_count = 2,
                    .device = {.kind = "d",
                               .memory_bytes = 1,
                               .fp32_flops_per_second = 1e12,
                               .fp64_flops_per_second = 1e12,
                               .memory_bytes_per_second = 1e11},
                    .level_count = 1,
                    .level = {{.name = "l", .span_devices = 2, .latency_seconds = 1e-6, .bytes_per_second = 1e9}}},
        .slowdown = {{2.0, 1.4}, {1.8, 2.0}},
        .has_gpu = true,
        .gpu = {.by_ctas_count = 2, .by_ctas = {{2, 1.1, 1.6, 2.0}, {6, 1.3, 1.2, 1.0}}},
    };
    static const uint32_t pair[GAL_LINK_LEVELS_MAX] = {2, 1, 1, 1};
    static const struct {
        uint32_t ctas;
        double compute, communication, alone;
    } expected[] = {{0, 1.4, 1.8, 1.0}, {1, 1.1, 1.6, 2.0}, {2, 1.1, 1.6, 2.0},
                    {4, 1.2, 1.4, 1.5}, {6, 1.3, 1.2, 1.0}, {8, 1.3, 1.2, 1.0}};
    double byte = 0.0, message = 0.0;
    for (uint32_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        gal_durations *d = NULL;
        gal_error err = {0};
        assert_int_equal(gal_durations_create_at(&profile, expected[i].ctas, &d, &err), GAL_OK);
        assert_near(gal_durations_slowdown(d, GAL_ACTIVITY_COMPUTE, GAL_ACTIVITY_COMMUNICATION), expected[i].compute);
        assert_near(gal_durations_slowdown(d, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMPUTE),
                    expected[i].communication);
        assert_near(gal_durations_slowdown(d, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMMUNICATION), 2.0);
        if (i == 0) {
            byte = gal_collective_seconds(d, GAL_OP_SEND, pair, 1, NULL);
            message = gal_collective_seconds(d, GAL_OP_SEND, pair, 1000000, NULL);
            assert_true(message > 100.0 * byte);
        }
        assert_near(gal_collective_seconds(d, GAL_OP_SEND, pair, 1, NULL), byte);
        assert_near(gal_collective_seconds(d, GAL_OP_SEND, pair, 1000000, NULL),
                    byte + (message - byte) * expected[i].alone);
        gal_durations_free(d);
    }
}

/* Where one count's own speed is not known, no count's is taken. */
static void unknown_speeds_are_not_made_up(void **state)
{
    (void)state;
    gal_durations *d[2] = {NULL, NULL};
    gal_error err = {0};
    static const uint32_t pair[GAL_LINK_LEVELS_MAX] = {2, 1, 1, 1};
    gal_profile profile;
    const gal_cluster cluster = {
        .device_count = 2,
        .device = {.kind = "d",
                   .memory_bytes = 1,
                   .fp32_flops_per_second = 1e12,
                   .fp64_flops_per_second = 1e12,
                   .memory_bytes_per_second = 1e11},
        .level_count = 1,
        .level = {{.name = "l", .span_devices = 2, .latency_seconds = 1e-6, .bytes_per_second = 1e9}}};
    gal_profile_analytic(&cluster, &profile);
    profile.has_gpu = true;
    profile.gpu = (gal_profile_gpu){.by_ctas_count = 2, .by_ctas = {{2, 1.1, 1.6, 2.0}, {6, 1.3, 1.2, 0.0}}};
    assert_int_equal(gal_durations_create_at(&profile, 2, &d[0], &err), GAL_OK);
    assert_int_equal(gal_durations_create(&profile, &d[1], &err), GAL_OK);
    assert_true(gal_collective_seconds(d[0], GAL_OP_ALL_REDUCE, pair, 1 << 20, NULL) ==
                gal_collective_seconds(d[1], GAL_OP_ALL_REDUCE, pair, 1 << 20, NULL));
    gal_durations_free(d[0]);
    gal_durations_free(d[1]);
}

static void check_activity(const gal_durations *d, gal_op op, uint32_t activity)
{
    const gal_cost cost = gal_kernel_cost(d, op, 3.0);
    assert_true(cost.activity == activity && cost.seconds == 3.0);
}

/* Copies of 4,000 bytes and Adam of 1,000 elements (28,016 bytes) by a GPU's host: by what the cluster says, by what a
 * profile has measured; by a processor, whose memory it is, as any kernel. */
static void work_of_the_host(void **unused)
{
    (void)unused;
    const gal_shape out = {.op = GAL_OP_COPY_OUT, .dtype = GAL_FP32, .dims = {1000, 4}};
    const gal_shape in = {.op = GAL_OP_COPY_IN, .dtype = GAL_FP32, .dims = {1000, 4}};
    const gal_shape adam = {.op = GAL_OP_HOST_ADAM, .dtype = GAL_FP32, .dims = {1000, 500}};
    const gal_shape part = {.op = GAL_OP_HOST_ADAM_PART, .dtype = GAL_FP32, .dims = {1000, 500, 9000, 3000}};
    const gal_shape read = {.op = GAL_OP_STORAGE_READ, .dtype = GAL_FP32, .dims = {1000, 4}};
    const gal_shape write = {.op = GAL_OP_STORAGE_WRITE, .dtype = GAL_FP32, .dims = {1000, 4}};
    gal_cluster cluster = {
        .device_count = 1,
        .device = {.kind = "d",
                   .memory_bytes = 1,
                   .fp32_flops_per_second = 1e12,
                   .fp64_flops_per_second = 1e12,
                   .memory_bytes_per_second = 1e11,
                   .multiprocessor_count = 10,
                   .host_memory_bytes_per_second = 2.8016e9,
                   .host_copy_bytes_per_second = 4e9,
                   .storage_read_bytes_per_second = 2e9,
                   .storage_write_bytes_per_second = 1e9,
                   .storage_write_latency_seconds = 30e-6},
        .level_count = 1,
        .level = {{.name = "l", .span_devices = 1, .latency_seconds = 1e-6, .bytes_per_second = 1e9}}};
    gal_profile profile;
    gal_durations *d = NULL;
    gal_error err = {0};
    gal_profile_analytic(&cluster, &profile);
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    assert_near(gal_kernel_seconds(d, &out, NULL), 10e-6 + 1e-6);
    assert_near(gal_kernel_seconds(d, &in, NULL), 10e-6 + 1e-6);
    assert_near(gal_kernel_seconds(d, &adam, NULL), 10e-6);
    assert_near(gal_kernel_seconds(d, &part, NULL), 10e-6);
    assert_near(gal_kernel_seconds(d, &read, NULL), 100e-6 + 2e-6);
    assert_near(gal_kernel_seconds(d, &write, NULL), 30e-6 + 4e-6);
    check_activity(d, GAL_OP_STORAGE_WRITE, GAL_ACTIVITY_STORAGE);
    check_activity(d, GAL_OP_COPY_OUT, GAL_ACTIVITY_COPY);
    check_activity(d, GAL_OP_HOST_ADAM, GAL_ACTIVITY_BESIDE);
    check_activity(d, GAL_OP_ADAM, GAL_ACTIVITY_COMPUTE);
    gal_durations_free(d);
    profile.has_gpu = true;
    profile.has_host = true; /* two nodes: the slower of each number; between 1 and 4 threads two thirds of the way */
    profile.host = (gal_profile_host){.threads_per_rank = 3,
                                      .adam_count = 2,
                                      .adam = {{1, 0.4e6}, {4, 1.3e6}},
                                      .node_count = 2,
                                      .node = {{0, {3e-6, 3e9}, {1e-6, 2e9}}, {1, {2e-6, 1e9}, {2e-6, 4e9}}}};
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    assert_near(gal_kernel_seconds(d, &out, NULL), 2e-6 + 2e-6);
    assert_near(gal_kernel_seconds(d, &in, NULL), 3e-6 + 4e-6);
    assert_near(gal_kernel_seconds(d, &adam, NULL), 1e-3);
    gal_durations_free(d);
    assert_near(gal_host_adam_rate(&profile.host, 1), 0.4e6);
    assert_near(gal_host_adam_rate(&profile.host, 16), 1.3e6);
    profile.has_gpu = false; /* processors: kernels of theirs, by the same rates */
    profile.cluster.device.multiprocessor_count = 0;
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    assert_near(gal_kernel_seconds(d, &in, NULL), 3e-6 + 4e-6);
    assert_near(gal_kernel_seconds(d, &part, NULL), 1e-3);
    check_activity(d, GAL_OP_COPY_IN, GAL_ACTIVITY_COPY);
    gal_durations_free(d);
    cluster.device.multiprocessor_count = 0;
    gal_profile_analytic(&cluster, &profile);
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    assert_near(gal_kernel_seconds(d, &out, NULL), gal_kernel_analytic_seconds(&cluster.device, &out));
    check_activity(d, GAL_OP_COPY_OUT, GAL_ACTIVITY_COPY); /* with the factors of a kernel */
    assert_near(gal_durations_slowdown(d, GAL_ACTIVITY_COPY, GAL_ACTIVITY_COMMUNICATION), 1.1);
    assert_near(gal_durations_slowdown(d, GAL_ACTIVITY_COPY, GAL_ACTIVITY_COPY), 2.0);
    assert_near(gal_kernel_seconds(d, &read, NULL), 100e-6 + 2e-6);
    check_activity(d, GAL_OP_STORAGE_READ, GAL_ACTIVITY_STORAGE);
    gal_durations_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_of_shapes),
                                       cmocka_unit_test(no_kernel_is_free),
                                       cmocka_unit_test(non_negative_fit),
                                       cmocka_unit_test(measured_fitted_in_company),
                                       cmocka_unit_test(kernels_that_run_again),
                                       cmocka_unit_test(slowdown_by_ctas),
                                       cmocka_unit_test(unknown_speeds_are_not_made_up),
                                       cmocka_unit_test(work_of_the_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
