/* Analytic durations: what must hold for any shape and device, and trends of the literature in plans that are priced by
 * them. Seeded: the same cases every time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/analytic_kernel.h"
#include "costmodel/price.h"
#include "costmodel/work.h"
#include "planner/search/joint_search.h"
#include "tests/support/random_plan.h"

static const uint64_t SEED = 20261121;

static double between(uint64_t *state, double low, double high)
{
    return low * pow(high / low, (double)gal_random_below(state, 1000001) * 1e-6);
}

static gal_device random_device(uint64_t *state)
{
    return (gal_device){.kind = "random",
                        .memory_bytes = 1,
                        .fp32_flops_per_second = between(state, 1e11, 1e15),
                        .fp64_flops_per_second = between(state, 1e11, 1e15),
                        .memory_bytes_per_second = between(state, 1e10, 1e13),
                        .multiprocessor_count = gal_random_below(state, 4) == 0 ? 0 : 1 + gal_random_below(state, 200),
                        .launch_seconds = between(state, 1e-7, 1e-5),
                        .gemm_fraction = between(state, 0.3, 1.0),
                        .memory_fraction = between(state, 0.3, 1.0)};
}

static gal_shape random_shape(uint64_t *state, gal_op op)
{
    gal_shape shape = {.op = op, .dtype = gal_random_below(state, 2) == 0 ? GAL_FP32 : GAL_FP64};
    for (uint32_t i = 0; i < gal_op_dim_count[op]; i++) {
        shape.dims[i] = (uint32_t)between(state, 1.0, op == GAL_OP_GEMM ? 20000.0 : 2000.0);
    }
    return shape;
}

static gal_op random_kernel(uint64_t *state)
{
    gal_op op;
    do {
        op = (gal_op)gal_random_below(state, GAL_OP_COUNT);
    } while (gal_op_is_collective[op]);
    return op;
}

static double peak(const gal_device *device, gal_dtype dtype)
{
    return dtype == GAL_FP64 ? device->fp64_flops_per_second : device->fp32_flops_per_second;
}

static void products_grow(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 200000; i++) {
        const gal_device device = random_device(&state);
        const gal_shape shape = random_shape(&state, GAL_OP_GEMM);
        gal_shape larger = shape;
        larger.dims[gal_random_below(&state, 3)] += 1 + gal_random_below(&state, 300);
        const double seconds = gal_kernel_analytic_seconds(&device, &shape);
        const double more = gal_kernel_analytic_seconds(&device, &larger);
        if (more < seconds) {
            fail_msg("%u x %u x %u takes %.17g, %u x %u x %u %.17g", shape.dims[0], shape.dims[1], shape.dims[2],
                     seconds, larger.dims[0], larger.dims[1], larger.dims[2], more);
        }
    }
}

/* No kernel is faster than the data sheet allows. */
static void never_above_the_peaks(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 200000; i++) {
        const gal_device device = random_device(&state);
        const gal_shape shape = random_shape(&state, i % 2 == 0 ? GAL_OP_GEMM : random_kernel(&state));
        const double seconds = gal_kernel_analytic_seconds(&device, &shape);
        assert_true(isfinite(seconds));
        assert_true(seconds > gal_shape_flops(&shape) / peak(&device, shape.dtype));
        assert_true(seconds > gal_shape_bytes(&shape) / device.memory_bytes_per_second);
    }
}

static void faster_devices_are_not_slower(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 200000; i++) {
        const gal_device device = random_device(&state);
        const gal_shape shape = random_shape(&state, random_kernel(&state));
        const double seconds = gal_kernel_analytic_seconds(&device, &shape);
        gal_device compute = device, memory = device;
        compute.fp32_flops_per_second *= 1.5;
        compute.fp64_flops_per_second *= 1.5;
        memory.memory_bytes_per_second *= 1.5;
        assert_true(gal_kernel_analytic_seconds(&compute, &shape) <= seconds);
        assert_true(gal_kernel_analytic_seconds(&memory, &shape) <= seconds);
    }
}

/* ---- collectives ---- */

static const gal_op collectives[] = {GAL_OP_ALL_REDUCE, GAL_OP_ALL_GATHER, GAL_OP_REDUCE_SCATTER, GAL_OP_ALL_TO_ALL};

static gal_cluster random_cluster(uint64_t *state)
{
    gal_cluster cluster = {.device_count = 1, .level_count = 1 + gal_random_below(state, 4)};
    for (uint32_t i = 0; i < cluster.level_count; i++) {
        cluster.device_count *= 2 + gal_random_below(state, 7);
        cluster.level[i] = (gal_link_level){.span_devices = cluster.device_count,
                                            .latency_seconds = between(state, 1e-7, 1e-4),
                                            .bytes_per_second = between(state, 1e8, 1e12),
                                            .achievable_fraction = between(state, 0.3, 1.0),
                                            .shared = gal_random_below(state, 2) == 0};
    }
    return cluster;
}

static void random_group(uint64_t *state, const gal_cluster *cluster, uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        const uint32_t below = i == 0 ? 1 : cluster->level[i - 1].span_devices;
        level_counts[i] =
            i < cluster->level_count ? 1 + gal_random_below(state, cluster->level[i].span_devices / below) : 1;
    }
}

static void collectives_follow_links_and_bytes(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t group[GAL_LINK_LEVELS_MAX];
        const gal_cluster cluster = random_cluster(&state);
        const gal_op op = collectives[i % 4];
        const uint64_t bytes = (uint64_t)between(&state, 1.0, 1e10);
        random_group(&state, &cluster, group);
        const double seconds = gal_collective_analytic_seconds(&cluster, op, group, bytes);
        assert_true(isfinite(seconds) && seconds >= 0.0);
        gal_cluster better = cluster;
        gal_link_level *level = &better.level[gal_random_below(&state, cluster.level_count)];
        level->bytes_per_second *= 2.0;
        assert_true(gal_collective_analytic_seconds(&better, op, group, bytes) <= seconds);
        level->latency_seconds /= 2.0;
        assert_true(gal_collective_analytic_seconds(&better, op, group, bytes) <= seconds);
        assert_true(gal_collective_analytic_seconds(&cluster, op, group, 2 * bytes) >= seconds);
    }
}

/* What leaves the units of a level cannot pass faster than their devices' shares together: of an all_gather, every
 * unit's devices take in, all groups together, what the unit does not hold. */
static void shares_are_kept(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t group[GAL_LINK_LEVELS_MAX];
        const gal_cluster cluster = random_cluster(&state);
        const double bytes = 1e9;
        double members = 1.0, within = 1.0;
        random_group(&state, &cluster, group);
        for (uint32_t l = 0; l < cluster.level_count; l++) {
            members *= group[l];
        }
        const double seconds = gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, group, (uint64_t)bytes);
        for (uint32_t l = 0; l < cluster.level_count && within < members; l++) {
            /* a unit of `span` devices holds span / within groups' parts */
            const double into_unit = bytes * (1.0 - within / members) / within;
            if (group[l] > 1) {
                assert_true(seconds > into_unit / cluster.level[l].bytes_per_second);
            }
            within *= group[l];
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_grow),
        cmocka_unit_test(never_above_the_peaks),
        cmocka_unit_test(faster_devices_are_not_slower),
        cmocka_unit_test(collectives_follow_links_and_bytes),
        cmocka_unit_test(shares_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
