/* Blocks of types that are taken for one have the same prices and floors, to the bit, under every strategy: those of a
 * cache that takes none for another. Of every model of the catalogue that has such types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/alike.h"
#include "costmodel/price_cache.h"
#include "planner/space/strategy_space.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/plan_check.h"
#include "tests/support/price_equal.h"

enum { STRATEGIES_OF_TYPE = 300 };

static gal_price_cache *cache_of(const gal_model *model, const gal_durations *durations, bool takes_alike)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    assert_int_equal(gal_price_cache_create(model, durations, &cache, &err), GAL_OK);
    for (uint32_t type = 0; type < gal_model_type_count(model) && !takes_alike; type++) {
        cache->like[type] = type;
    }
    return cache;
}

typedef struct bed {
    gal_model model;
    gal_durations *durations;
    gal_price_cache *alike, *apart;
    gal_strategy *strategy;
    uint32_t strategy_count, devices, stages;
} bed;

/* Returns whether the strategy may be had. */
static bool compare(const bed *b, uint32_t type, const gal_strategy *strategy, uint32_t stage, uint32_t samples)
{
    gal_error err = {0};
    gal_block_shape shape;
    const gal_block_price *one = NULL, *other = NULL, *floor = NULL, *other_floor = NULL;
    const gal_price_query query = {.type = type,
                                   .strategy = strategy,
                                   .device_count = b->devices,
                                   .stage = stage,
                                   .stage_count = b->stages,
                                   .microbatch_samples = samples,
                                   .prefetch_depth = 2};
    gal_model_type(&b->model, type, &shape);
    if (gal_strategy_block_rule_broken(&b->model, &shape, strategy, b->devices, samples) != NULL ||
        gal_strategy_gathers_rule_broken(strategy, 2) != NULL) {
        return false;
    }
    const gal_code code = gal_price_block(b->apart, &query, &other, &err);
    assert_int_equal(gal_price_block(b->alike, &query, &one, &err), code);
    assert_int_equal(gal_price_block_floor(b->apart, &query, &other_floor, &err), code);
    assert_int_equal(gal_price_block_floor(b->alike, &query, &floor, &err), code);
    if (code == GAL_OK) {
        assert_true(gal_prices_equal(one, other));
        assert_true(gal_prices_equal(floor, other_floor));
    }
    return true;
}

/* Whether such blocks may stand there. */
static bool is_legal(const bed *b, uint32_t type, const gal_strategy *strategy, uint32_t samples)
{
    gal_block_shape shape;
    gal_model_type(&b->model, type, &shape);
    return gal_strategy_block_rule_broken(&b->model, &shape, strategy, b->devices, samples) == NULL;
}

/* The conversion between two neighbours of a plan, and between those that they are like. */
static void compare_pair(const bed *b, uint32_t block, const gal_strategy *from, const gal_strategy *to, uint32_t stage,
                         uint32_t samples)
{
    gal_error err = {0};
    const uint32_t types[] = {gal_model_block_type(&b->model, block - 1), gal_model_block_type(&b->model, block)};
    const uint32_t like[] = {gal_price_type_like(&b->model, b->durations, types[0]),
                             gal_price_type_like(&b->model, b->durations, types[1])};
    const gal_pair_price *one = NULL, *other = NULL;
    gal_price_query query = {.type = like[0],
                             .strategy = from,
                             .device_count = b->devices,
                             .stage = stage,
                             .stage_count = b->stages,
                             .microbatch_samples = samples,
                             .prefetch_depth = 2};
    const gal_code code = gal_price_pair(b->alike, &query, like[1], to, &one, &err);
    query.type = types[0];
    assert_int_equal(gal_price_pair(b->apart, &query, types[1], to, &other, &err), code);
    if (code == GAL_OK) {
        assert_memory_equal(one, other, sizeof *one);
    }
}

static uint32_t compare_pairs(bed *b, uint64_t *state)
{
    uint32_t compared = 0;
    for (uint32_t block = 1; block < gal_model_block_count(&b->model); block++) {
        const uint32_t from = gal_model_block_type(&b->model, block - 1), to = gal_model_block_type(&b->model, block);
        const bool own = gal_price_type_like(&b->model, b->durations, from) == from &&
                         gal_price_type_like(&b->model, b->durations, to) == to;
        for (uint32_t i = 0; i < 500 && !own; i++) {
            *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
            const uint32_t draw = (uint32_t)(*state >> 33), samples = 1U << (draw >> 28) % 6;
            const gal_strategy *before = &b->strategy[draw % b->strategy_count];
            const gal_strategy *behind = &b->strategy[(draw >> 7) * UINT32_C(2654435761) % b->strategy_count];
            if (is_legal(b, from, before, samples) && is_legal(b, to, behind, samples)) {
                compare_pair(b, block, before, behind, draw >> 5 & (b->stages - 1), samples);
                compared++;
            }
        }
    }
    return compared;
}

static uint32_t compare_model(bed *b, uint64_t *state)
{
    uint32_t compared = 0;
    for (uint32_t type = 0; type < gal_model_type_count(&b->model); type++) {
        const bool own = gal_price_type_like(&b->model, b->durations, type) == type;
        uint32_t of_type = 0;
        for (uint32_t i = 0; i < 20 * STRATEGIES_OF_TYPE && of_type < STRATEGIES_OF_TYPE && !own; i++) {
            *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
            const uint32_t draw = (uint32_t)(*state >> 33);
            of_type += compare(b, type, &b->strategy[draw % b->strategy_count], draw >> 8 & (b->stages - 1),
                               1U << (draw >> 12) % 6);
        }
        assert_true(own || of_type > STRATEGIES_OF_TYPE / 4);
        compared += of_type;
    }
    return compared;
}

static void make_bed(const char *model, gal_dtype dtype, const char *cluster, uint32_t stages, bed *b)
{
    gal_error err = {0};
    gal_cluster c;
    gal_space space = {0};
    *b = (bed){.stages = stages};
    assert_int_equal(gal_model_read(model, &b->model, &err), GAL_OK);
    b->model.compute_dtype = dtype;
    assert_int_equal(gal_cluster_read(cluster, &c, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&c, &b->durations, &err), GAL_OK);
    assert_int_equal(gal_space_parse("dp,sdp,zero1,zero2,zero3,tp,sp,recompute,selective,ulysses,ring,zigzag,2d,2.5d,"
                                     "3d,keep,stepped,overlap,bucket,offload",
                                     &space, &err),
                     GAL_OK);
    b->devices = c.device_count / stages;
    b->strategy = malloc(gal_space_room(&space, b->devices) * sizeof *b->strategy);
    b->strategy_count = gal_space_strategies(&space, b->devices, b->strategy);
    b->alike = cache_of(&b->model, b->durations, true);
    b->apart = cache_of(&b->model, b->durations, false);
}

static void free_bed(bed *b)
{
    gal_price_cache_free(b->apart);
    gal_price_cache_free(b->alike);
    gal_durations_free(b->durations);
    free(b->strategy);
}

static bool has_alike(const bed *b)
{
    bool has = false;
    for (uint32_t type = 0; type < gal_model_type_count(&b->model); type++) {
        has = has || gal_price_type_like(&b->model, b->durations, type) != type;
    }
    return has;
}

static void test_equal(void **state)
{
    (void)state;
    static const char *const clusters[] = {"h100-8", "titan-16"};
    uint64_t random = 20261123;
    uint32_t models = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        bed b;
        if (strcmp(entry->kind, "model") != 0) {
            continue;
        }
        make_bed(entry->name, models % 2 == 0 ? GAL_BF16 : GAL_FP32, clusters[i % 2], 1U << i % 2, &b);
        if (has_alike(&b)) {
            printf("%s: %u prices\n", entry->name, compare_model(&b, &random));
            printf("%s: %u pairs\n", entry->name, compare_pairs(&b, &random));
            models++;
        }
        free_bed(&b);
    }
    assert_true(models >= 10);
}

/* A profile that has a kernel of windows has one of each shift. */
static void test_measured_windows(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_model model;
    gal_cluster cluster;
    gal_profile profile;
    gal_durations *durations = NULL;
    gal_profile_operator window = {
        .shape = {.op = GAL_OP_WINDOW_ATTENTION, .dtype = GAL_FP32, .dims = {1, 3136, 3, 32, 56, 7, 0}},
        .seconds = 1e-3};
    assert_int_equal(gal_model_read("swin-tiny", &model, &err), GAL_OK);
    model.compute_dtype = GAL_FP32; /* as the kernel's */
    assert_int_equal(gal_cluster_read("h100-8", &cluster, &err), GAL_OK);
    gal_profile_analytic(&cluster, &profile);
    for (uint32_t measured = 0; measured < 2; measured++) {
        uint32_t alike = 0;
        profile.operators = &window;
        profile.operator_count = measured;
        assert_int_equal(gal_durations_create(&profile, &durations, &err), GAL_OK);
        for (uint32_t type = 0; type < gal_model_type_count(&model); type++) {
            alike += gal_price_type_like(&model, durations, type) != type;
        }
        gal_durations_free(durations);
        assert_int_equal(alike > 0, measured == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_measured_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
