/* What a transfer between stages takes, by hand: 10 MB over a link of 10 GB/s, beside nothing, kernels, collectives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/price.h"

enum { INNER, OUTER };

/* Two machines of 4 devices. */
static const gal_cluster cluster = {
    .name = "two",
    .device_count = 8,
    .device = {.kind = "device",
               .memory_bytes = UINT64_C(1) << 30,
               .fp32_flops_per_second = 1e12,
               .fp64_flops_per_second = 1e12,
               .memory_bytes_per_second = 1e12},
    .level_count = 2,
    .level = {{.name = "inner", .span_devices = 4, .bytes_per_second = 100e9},
              {.name = "outer", .span_devices = 8, .bytes_per_second = 10e9}},
};

static void check(uint32_t device_count, uint32_t stage_count, uint32_t level, double alone_seconds)
{
    static const double shares[] = {0.0, 0.5, 1.0};
    gal_error err = {0};
    gal_durations *durations = NULL;
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    const gal_price_transfer transfer = gal_price_transfer_of(durations, device_count, 0, stage_count, 10000000);
    const double beside_kernels = (1.0 + 1.3) / 2.0 * alone_seconds; /* half of it, 1.3 times as long there */
    assert_int_equal(transfer.level, level);
    assert_true(fabs(transfer.seconds - beside_kernels) <= 1e-12 * beside_kernels);
    for (uint32_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        double link_share[GAL_LINK_LEVELS_MAX] = {0.0};
        link_share[level] = shares[i]; /* of half of it; twice as long there */
        const double expected = (1.0 + 0.5 * shares[i]) * beside_kernels;
        const double seconds = gal_price_transfer_behind(durations, &transfer, link_share);
        assert_true(fabs(seconds - expected) <= 1e-12 * expected);
        link_share[1 - level] = 1.0; /* another link */
        assert_true(gal_price_transfer_behind(durations, &transfer, link_share) == seconds);
    }
    gal_durations_free(durations);
}

static void between_machines(void **unused)
{
    (void)unused;
    check(4, 2, OUTER, 1e-3);
}

static void inside_a_machine(void **unused)
{
    (void)unused;
    check(2, 4, INNER, 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_machines),
        cmocka_unit_test(inside_a_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
