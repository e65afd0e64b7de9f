/* Predictions under a described framework: what must hold for any layout, for every framework that ships; one step by
 * hand; intervals; nothing that a description says is without effect. Seeded: the same cases every time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/framework.h"
#include "costmodel/interval.h"
#include "costmodel/prediction.h"
#include "schemas/catalogue/catalogue.h"
#include "tests/support/random_plan.h"

static const uint64_t SEED = 20261121;
enum { CASES = 300 };

typedef struct trial {
    gal_framework framework;
    gal_cluster cluster;
    gal_constants constants;
    gal_model model;
    gal_uniform_layout layout;
} trial;

static uint32_t power(uint64_t *state, uint32_t exponents)
{
    return 1u << gal_random_below(state, exponents);
}

static gal_framework any_framework(uint64_t *state)
{
    static const char *names[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        if (strcmp(gal_catalogue_entries[i].kind, "framework") == 0 && count < 64) {
            names[count++] = gal_catalogue_entries[i].name;
        }
    }
    gal_framework framework;
    gal_error err = {0};
    assert_true(count >= 6);
    assert_int_equal(gal_framework_read(names[gal_random_below(state, count)], &framework, &err), GAL_OK);
    return framework;
}

static trial any_trial(uint64_t *state)
{
    static const char *const models[] = {"gpt2-medium", "llama2-7b",   "bert-huge-32",
                                         "vit-huge-32", "t5-large-32", "swin-huge-32"};
    static const char *const clusters[] = {"a100-64", "titan-16", "h100-64", "rtx3090-nvlink-32"};
    trial t = {.framework = any_framework(state)};
    gal_error err = {0};
    assert_int_equal(gal_model_read(models[gal_random_below(state, 6)], &t.model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read(clusters[gal_random_below(state, 4)], &t.cluster, &err), GAL_OK);
    gal_constants_default(&t.cluster, &t.framework, &t.constants);
    t.layout =
        (gal_uniform_layout){.dp_degree = power(state, 3),
                             .tp_degree = power(state, 3),
                             .pp_degree = power(state, 3),
                             .zero_stage = gal_random_below(state, 4),
                             .recompute = (gal_recompute)gal_random_below(state, GAL_RECOMPUTE_COUNT),
                             .schedule = gal_random_below(state, 2) == 0 ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                             .chunk_count = 1,
                             .microbatch_samples = power(state, 4)};
    t.layout.sequence_parallel = t.layout.tp_degree > 1 && gal_random_below(state, 2) == 0;
    t.layout.global_batch_samples = t.layout.dp_degree * t.layout.microbatch_samples * power(state, 5);
    assert_int_equal(gal_uniform_layout_check(&t.layout, &t.model, &err), GAL_OK);
    return t;
}

static gal_framework_estimate price(const trial *t)
{
    gal_framework_estimate out;
    gal_framework_price(&t->framework, &t->cluster, &t->constants, &t->model, &t->layout, &out);
    assert_true(isfinite(out.seconds) && out.seconds > 0.0 && isfinite(out.bytes) && out.bytes > 0.0);
    return out;
}

static void near(double a, double b, double relative)
{
    if (!(fabs(a - b) <= relative * fabs(b))) {
        fail_msg("%.17g is not %.17g", a, b);
    }
}

/* Rates halved and seconds doubled: every term doubles. 1e-9: sums in another order. */
static void twice_as_slow_takes_twice_as_long(void **state)
{
    uint64_t random = SEED;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        trial t = any_trial(&random);
        const double once = price(&t).seconds;
        for (uint32_t c = 0; c < GAL_CONSTANT_COUNT; c++) {
            if (c != GAL_CONSTANT_GEMM_HALF && c != GAL_CONSTANT_OVERLAP_SLOWDOWN) {
                const bool rate = strstr(gal_constant_names[c], "fraction") != NULL;
                t.constants.value[c] *= rate ? 0.5 : 2.0;
            }
        }
        near(price(&t).seconds, 2.0 * once, 1e-9);
    }
}

/* A constant that makes one thing faster makes no step slower: rates up, seconds down. */
static void faster_parts_are_not_slower(void **state)
{
    uint64_t random = SEED + 1;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        trial t = any_trial(&random);
        const double before = price(&t).seconds;
        for (uint32_t c = 0; c < GAL_CONSTANT_COUNT; c++) {
            trial faster = t;
            const bool rate = strstr(gal_constant_names[c], "fraction") != NULL;
            faster.constants.value[c] *= rate ? 1.25 : 0.8;
            if (c != GAL_CONSTANT_OVERLAP_SLOWDOWN) {
                assert_true(price(&faster).seconds <= before * (1.0 + 1e-12));
            }
        }
    }
}

/* One device sends nothing. */
static void one_device_knows_no_links(void **state)
{
    uint64_t random = SEED + 2;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        trial t = any_trial(&random);
        t.layout.dp_degree = t.layout.tp_degree = t.layout.pp_degree = 1;
        t.layout.sequence_parallel = false;
        const gal_framework_estimate before = price(&t);
        for (uint32_t c = GAL_CONSTANT_INNER_FRACTION; c <= GAL_CONSTANT_TRANSFER_SECONDS; c++) {
            t.constants.value[c] *= 0.5;
        }
        near(price(&t).seconds, before.seconds, 0.0);
    }
}

/* More microbatches, larger ones, more recompute: no less work; ZeRO and recompute: no more bytes. */
static void more_work_is_not_faster(void **state)
{
    uint64_t random = SEED + 3;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        trial t = any_trial(&random);
        t.framework.softmax_fused_multiple = 0.0; /* twice the samples may be fused where once was not */
        trial other = t;
        const gal_framework_estimate before = price(&t);
        other.layout.global_batch_samples *= 2;
        assert_true(price(&other).seconds > before.seconds && price(&other).bytes >= before.bytes);
        other = t;
        other.layout.microbatch_samples *= 2;
        other.layout.global_batch_samples *= 2;
        assert_true(price(&other).seconds > before.seconds * (1.0 - 1e-12) && price(&other).bytes > before.bytes);
        other = t;
        other.layout.recompute = GAL_RECOMPUTE_NONE;
        t.layout.recompute = GAL_RECOMPUTE_FULL;
        assert_true(price(&other).seconds <= price(&t).seconds);
        for (uint32_t zero = 1; zero < 3; zero++) {
            other.layout.zero_stage = zero - 1;
            const double bytes = price(&other).bytes;
            other.layout.zero_stage = zero;
            assert_true(price(&other).bytes <= bytes);
        }
    }
}

/* A step is never shorter than the products of its blocks at the full rate: 6 flops per parameter of a layer and token
 * (forward and backward), shared by all devices. */
static void never_above_the_peak(void **state)
{
    uint64_t random = SEED + 4;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        trial t = any_trial(&random);
        gal_error err = {0};
        assert_int_equal(gal_model_read("gpt2-medium", &t.model, &err), GAL_OK);
        t.model.compute_dtype = i % 2 == 0 ? GAL_FP32 : GAL_BF16;
        t.layout.pp_degree = power(&random, 3);
        const double layers = 12.0 * 24 * 1024 * 1024, tokens = 1024.0 * t.layout.global_batch_samples;
        const gal_device *device = &t.cluster.device;
        const double units = i % 2 == 1         ? device->bf16_flops_per_second
                             : t.framework.tf32 ? device->tf32_flops_per_second
                                                : 0.0;
        const double rate = fmax(units, device->fp32_flops_per_second);
        const double devices = (double)t.layout.dp_degree * t.layout.tp_degree * t.layout.pp_degree;
        assert_true(price(&t).seconds > 6.0 * layers * tokens / devices / rate);
    }
}

/* A transfer alone: of two stages with nothing but what they send. A device of infinite rates but for the link. */
static void transfers_by_hand(void **state)
{
    (void)state;
    trial t;
    memset(&t, 0, sizeof t);
    gal_error err = {0};
    assert_int_equal(gal_model_read("gpt2-medium", &t.model, &err), GAL_OK);
    t.model.compute_dtype = GAL_FP32;
    assert_int_equal(gal_cluster_read("a100-8", &t.cluster, &err), GAL_OK);
    t.framework.allocator_factor = t.framework.flash_forward_share = t.framework.flash_backward_share = 1.0;
    t.framework.flash_attention = true;
    t.framework.weight_bytes = 4.0;
    t.cluster.device.fp32_flops_per_second = t.cluster.device.memory_bytes_per_second = 1e30;
    t.constants = (gal_constants){.value = {[GAL_CONSTANT_GEMM_FRACTION] = 1.0,
                                            [GAL_CONSTANT_MEMORY_FRACTION] = 1.0,
                                            [GAL_CONSTANT_INNER_FRACTION] = 0.5,
                                            [GAL_CONSTANT_INNER_SECONDS] = 1e-4,
                                            [GAL_CONSTANT_OUTER_FRACTION] = 1.0,
                                            [GAL_CONSTANT_TRANSFER_SECONDS] = 2e-3,
                                            [GAL_CONSTANT_STEP_SECONDS] = 0.25,
                                            [GAL_CONSTANT_OVERLAP_SLOWDOWN] = 1.0}};
    t.layout = (gal_uniform_layout){.dp_degree = 1,
                                    .tp_degree = 1,
                                    .pp_degree = 2,
                                    .schedule = GAL_SCHEDULE_1F1B,
                                    .chunk_count = 1,
                                    .microbatch_samples = 4,
                                    .global_batch_samples = 32};
    /* rows: 4 samples x 1024 positions x 1024 features x 4 bytes = 16 MiB, at half of 300 GB/s */
    const double each = 2e-3 + 1e-4 + 16777216.0 / (0.5 * 300e9);
    /* 8 microbatches over 2 stages: forward and backward, m + p - 2 = 8 times */
    near(price(&t).seconds, 0.25 + 2.0 * 8.0 * each, 1e-6);
}

/* Of 19 ratios ceil(0.9 x 20) = 18 are inside: all but the one far off, at whichever end it lies. Of 9 all are. */
static void intervals_by_hand(void **state)
{
    double ratio[19], low, high;
    (void)state;
    for (uint32_t end = 0; end < 2; end++) {
        for (uint32_t i = 0; i < 18; i++) {
            ratio[i] = 0.91 + 0.01 * (17 - i);
        }
        ratio[18] = end == 0 ? 0.5 : 2.0;
        gal_interval_factors(ratio, 19, &low, &high);
        near(low, 0.91, 1e-12);
        near(high, 1.08, 1e-12);
    }
    for (uint32_t i = 0; i < 9; i++) {
        ratio[i] = 1.5 - 0.1 * i;
    }
    gal_interval_factors(ratio, 9, &low, &high);
    near(low, 0.7, 1e-12);
    near(high, 1.5, 1e-12);
    ratio[0] = 1.5;
    gal_interval_factors(ratio, 1, &low, &high);
    near(low, 1.0, 0.0);
    near(high, 1.5, 0.0);
}

static trial medium_on_a100(void)
{
    trial t = {0};
    gal_error err = {0};
    assert_int_equal(gal_framework_read("megatron-2021", &t.framework, &err), GAL_OK);
    assert_int_equal(gal_model_read("gpt2-medium", &t.model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("a100-8", &t.cluster, &err), GAL_OK);
    return t;
}

/* What a recompute that stops early saves is the FFN's second product of every layer and microbatch: 24 layers, 8
 * microbatches of 4 x 1024 rows, 1024 x 4096, at the whole peak. */
static void last_product_by_hand(void **state)
{
    trial t = medium_on_a100();
    (void)state;
    t.constants = (gal_constants){.value = {[GAL_CONSTANT_GEMM_FRACTION] = 1.0,
                                            [GAL_CONSTANT_MEMORY_FRACTION] = 1.0,
                                            [GAL_CONSTANT_INNER_FRACTION] = 1.0,
                                            [GAL_CONSTANT_OUTER_FRACTION] = 1.0,
                                            [GAL_CONSTANT_OVERLAP_SLOWDOWN] = 1.0}};
    t.layout = (gal_uniform_layout){.dp_degree = 1,
                                    .tp_degree = 1,
                                    .pp_degree = 1,
                                    .recompute = GAL_RECOMPUTE_FULL,
                                    .schedule = GAL_SCHEDULE_1F1B,
                                    .chunk_count = 1,
                                    .microbatch_samples = 4,
                                    .global_batch_samples = 32};
    t.model.compute_dtype = GAL_FP16;
    const double whole = price(&t).seconds;
    t.framework.recompute_stops_early = true;
    const double product = 2.0 * 4096.0 * 1024.0 * 4096.0 / t.cluster.device.fp16_flops_per_second;
    near(whole - price(&t).seconds, 24.0 * 8.0 * product, 1e-9);
    t.layout.recompute = GAL_RECOMPUTE_NONE; /* nothing is made again: the flag says nothing */
    const double none = price(&t).seconds;
    t.framework.recompute_stops_early = false;
    near(price(&t).seconds, none, 0.0);
}

/* A host that is far too slow: under TP 24 layers launch two collectives in forward, twice again in a full recompute's
 * backward, and each counts as two of its 10 ms. */
static void collectives_are_launched(void **state)
{
    trial t = medium_on_a100();
    (void)state;
    gal_constants_default(&t.cluster, &t.framework, &t.constants);
    t.constants.value[GAL_CONSTANT_HOST_SECONDS] = 1e-2;
    t.layout = (gal_uniform_layout){.dp_degree = 1,
                                    .tp_degree = 1,
                                    .pp_degree = 1,
                                    .recompute = GAL_RECOMPUTE_FULL,
                                    .schedule = GAL_SCHEDULE_1F1B,
                                    .chunk_count = 1,
                                    .microbatch_samples = 4,
                                    .global_batch_samples = 4};
    const double alone = price(&t).seconds;
    t.layout.tp_degree = 2;
    near(price(&t).seconds - alone, 24.0 * 2.0 * 3.0 * 2.0 * 1e-2,
         1e-2); /* the update of half the weights is shorter */
}

/* ---- every member acts ---- */

typedef struct member {
    const char *name;
    double least, most; /* of numbers; flags: 0, 0 */
    size_t offset;
} member;

#define X(name, least, most) {#name, least, most, offsetof(gal_framework, name)},
static const member numbers[] = {GAL_FRAMEWORK_NUMBERS(X)};
#undef X
#define X(name) {#name, 0.0, 0.0, offsetof(gal_framework, name)},
static const member flags[] = {GAL_FRAMEWORK_FLAGS(X)};
#undef X

static void change(gal_framework *framework, const member *which)
{
    char *at = (char *)framework + which->offset;
    double value;
    if (which->most == 0.0) {
        bool flag;
        memcpy(&flag, at, sizeof flag);
        flag = !flag;
        memcpy(at, &flag, sizeof flag);
        return;
    }
    memcpy(&value, at, sizeof value);
    value = value < which->most ? fmin(which->most, 1.5 * value + fmin(2.0, 0.25 * which->most)) : 0.5 * which->most;
    memcpy(at, &value, sizeof value);
}

/* Whether some prediction, or its interval, is another one under the changed description. */
static bool acts(const member *which)
{
    uint64_t random = SEED;
    for (uint32_t i = 0; i < CASES; i++) {
        trial plain = any_trial(&random);
        trial changed = plain;
        gal_prediction in, in_changed;
        gal_plan plan = {.objective_seconds = 1.0,
                         .cluster = plain.cluster,
                         .pricing = {.present = true, .framework = plain.framework, .bytes = UINT64_C(1) << 30}};
        change(&changed.framework, which);
        gal_constants_default(&changed.cluster, &changed.framework, &changed.constants);
        const gal_framework_estimate a = price(&plain), b = price(&changed);
        gal_pricing_interval(&plan, &in);
        plan.pricing.framework = changed.framework;
        gal_pricing_interval(&plan, &in_changed);
        if (a.seconds != b.seconds || a.bytes != b.bytes || memcmp(&in, &in_changed, sizeof in) != 0) {
            return true;
        }
    }
    return false;
}

static void every_member_acts(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!acts(&numbers[i])) {
            fail_msg("no prediction depends on %s", numbers[i].name);
        }
    }
    for (uint32_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!acts(&flags[i])) {
            fail_msg("no prediction depends on %s", flags[i].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_as_slow_takes_twice_as_long),
        cmocka_unit_test(faster_parts_are_not_slower),
        cmocka_unit_test(one_device_knows_no_links),
        cmocka_unit_test(more_work_is_not_faster),
        cmocka_unit_test(never_above_the_peak),
        cmocka_unit_test(transfers_by_hand),
        cmocka_unit_test(intervals_by_hand),
        cmocka_unit_test(last_product_by_hand),
        cmocka_unit_test(every_member_acts),
        cmocka_unit_test(collectives_are_launched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
