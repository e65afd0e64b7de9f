/* Prices of blocks asked for by several threads are those of one, to the bit, and so are conversions between blocks of
 * two parts, asked for by one thread and by tasks of any part at once; every strategy is of one part, whatever the kind
 * of block; an error comes through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/price.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"
#include "tests/support/price_equal.h"

enum { PARTS = 3, TASKS = 5, DEVICES = 8, PAIRS = 400 };

typedef struct bed {
    gal_model model;
    gal_durations *durations;
    gal_price_cache *alone, *parted;
    uint32_t strategy_count, type_count;
    gal_strategy *strategy;
    const gal_block_price **price; /* [type][strategy] by parts; NULL: not legal */
    uint32_t of_part[PARTS];
} bed;

static gal_price_query query_of(const bed *b, uint32_t type, uint32_t strategy)
{
    return (gal_price_query){.type = type,
                             .strategy = &b->strategy[strategy],
                             .device_count = DEVICES,
                             .stage_count = 1,
                             .microbatch_samples = 16,
                             .prefetch_depth = 2};
}

static gal_code price_part(void *context, uint32_t part, gal_error *err)
{
    bed *b = context;
    for (uint32_t i = 0; i < b->strategy_count * b->type_count; i++) {
        const uint32_t type = i / b->strategy_count, strategy = i % b->strategy_count;
        gal_block_shape shape;
        gal_model_type(&b->model, type, &shape);
        if (gal_price_part_of(b->parted, &b->strategy[strategy]) != part ||
            gal_strategy_block_rule_broken(&b->model, &shape, &b->strategy[strategy], DEVICES, 16) != NULL ||
            gal_strategy_gathers_rule_broken(&b->strategy[strategy], 2) != NULL) {
            continue;
        }
        const gal_price_query query = query_of(b, type, strategy);
        const gal_code code = gal_price_block(b->parted, &query, &b->price[i], err);
        b->of_part[part]++;
        if (code != GAL_OK) {
            return code;
        }
    }
    return GAL_OK;
}

static void make_bed(const char *model, gal_dtype dtype, bed *b)
{
    gal_error err = {0};
    gal_cluster cluster;
    gal_space space = {0};
    *b = (bed){0};
    assert_int_equal(gal_model_read(model, &b->model, &err), GAL_OK);
    b->model.compute_dtype = dtype;
    assert_int_equal(gal_cluster_read("h100-8", &cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&cluster, &b->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&b->model, b->durations, &b->alone, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create_parts(&b->model, b->durations, PARTS, &b->parted, &err), GAL_OK);
    assert_int_equal(gal_space_parse("dp,sdp,tp,sp,recompute,selective,ulysses,ring,zigzag,2d,2.5d,3d,keep,stepped,"
                                     "overlap,bucket",
                                     &space, &err),
                     GAL_OK);
    b->strategy = malloc(gal_space_room(&space, DEVICES) * sizeof *b->strategy);
    b->strategy_count = gal_space_strategies(&space, DEVICES, b->strategy);
    b->type_count = gal_model_type_count(&b->model);
    b->price = calloc((size_t)b->strategy_count * b->type_count, sizeof *b->price);
}

static void free_bed(bed *b)
{
    free(b->price);
    free(b->strategy);
    gal_price_cache_free(b->parted);
    gal_price_cache_free(b->alone);
    gal_durations_free(b->durations);
}

/* Types backwards, so that what a block is priced beside is met in another order. */
static uint32_t compare_blocks(bed *b)
{
    uint32_t compared = 0;
    for (uint32_t i = b->strategy_count * b->type_count; i-- > 0;) {
        gal_error err = {0};
        const gal_block_price *price = NULL;
        const gal_price_query query = query_of(b, i / b->strategy_count, i % b->strategy_count);
        if (b->price[i] != NULL) {
            assert_int_equal(gal_price_block(b->alone, &query, &price, &err), GAL_OK);
            assert_true(gal_prices_equal(price, b->price[i]));
            compared++;
        }
    }
    return compared;
}

/* A conversion drawn by a number; false: of blocks that have no price. */
static bool draw_pair(const bed *b, uint32_t number, gal_price_query *from, uint32_t *to_type, uint32_t *to)
{
    const uint32_t first = number * 1664525U + 1013904223U, second = first * 1664525U + 1013904223U;
    const uint32_t strategy = (first >> 8) % b->strategy_count, block = number % (gal_model_block_count(&b->model) - 1);
    const uint32_t type = gal_model_block_type(&b->model, block);
    *to = (second >> 8) % b->strategy_count;
    *to_type = gal_model_block_type(&b->model, block + 1);
    *from = query_of(b, type, strategy);
    return b->price[type * b->strategy_count + strategy] != NULL &&
           b->price[*to_type * b->strategy_count + *to] != NULL;
}

static uint32_t compare_pairs(bed *b)
{
    uint32_t compared = 0;
    for (uint32_t i = 0; i < PAIRS; i++) {
        gal_error err = {0};
        const gal_pair_price *one = NULL, *other = NULL;
        gal_price_query query;
        uint32_t type, to;
        if (draw_pair(b, i, &query, &type, &to)) {
            assert_int_equal(gal_price_pair(b->alone, &query, type, &b->strategy[to], &one, &err), GAL_OK);
            assert_int_equal(gal_price_pair(b->parted, &query, type, &b->strategy[to], &other, &err), GAL_OK);
            assert_memory_equal(one, other, sizeof *one);
            compared++;
        }
    }
    return compared;
}

static void test_equal(void **state)
{
    static const struct {
        const char *model;
        gal_dtype dtype;
    } cases[] = {{"gpt2-small", GAL_FP32}, {"llama2-7b", GAL_BF16}, {"t5-small", GAL_BF16}, {"swin-tiny", GAL_FP32}};
    (void)state;
    for (uint32_t m = 0; m < sizeof cases / sizeof cases[0]; m++) {
        gal_error err = {0};
        bed b;
        make_bed(cases[m].model, cases[m].dtype, &b);
        assert_int_equal(gal_price_in_parts(b.parted, price_part, &b, &err), GAL_OK);
        const uint32_t blocks = compare_blocks(&b), pairs = compare_pairs(&b);
        printf("%s: %u blocks (by part %u, %u, %u), %u pairs\n", cases[m].model, blocks, b.of_part[0], b.of_part[1],
               b.of_part[2], pairs);
        assert_true(blocks > 1000 && pairs > 20);
        assert_true(b.of_part[0] > blocks / 5 && b.of_part[1] > blocks / 5 && b.of_part[2] > blocks / 5);
        free_bed(&b);
    }
}

/* What tasks ask of a cache in which nothing is priced yet. */
typedef struct asked {
    bed *b;
    gal_price_cache *cache;
    const gal_pair_price *pair[TASKS][PAIRS]; /* NULL: none */
    uint32_t equal[TASKS];                    /* blocks priced as in parts */
} asked;

static gal_code ask_pairs(asked *all, uint32_t task, gal_error *err)
{
    bed *b = all->b;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < PAIRS && code == GAL_OK; i++) {
        const uint32_t number = (i + task * (PAIRS / TASKS)) % PAIRS;
        gal_price_query query;
        uint32_t type, to;
        if (draw_pair(b, number, &query, &type, &to)) {
            code = gal_price_pair(all->cache, &query, type, &b->strategy[to], &all->pair[task][number], err);
        }
    }
    return code;
}

/* Every task the same, each from a place of its own: conversions on the even ones first. */
static gal_code ask_all(void *context, uint32_t task, gal_error *err)
{
    asked *all = context;
    bed *b = all->b;
    const uint32_t count = b->strategy_count * b->type_count;
    gal_code code = task % 2 == 0 ? ask_pairs(all, task, err) : GAL_OK;
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        const uint32_t at = (i + task * (count / TASKS)) % count;
        const gal_block_price *price = NULL;
        if (b->price[at] != NULL) {
            const gal_price_query query = query_of(b, at / b->strategy_count, at % b->strategy_count);
            code = gal_price_block(all->cache, &query, &price, err);
            all->equal[task] += code == GAL_OK && gal_prices_equal(price, b->price[at]);
        }
    }
    return code == GAL_OK && task % 2 == 1 ? ask_pairs(all, task, err) : code;
}

static void test_at_once(void **state)
{
    (void)state;
    gal_error err = {0};
    bed b;
    make_bed("t5-small", GAL_BF16, &b);
    assert_int_equal(gal_price_in_parts(b.parted, price_part, &b, &err), GAL_OK);
    const uint32_t blocks = compare_blocks(&b);
    asked *all = calloc(1, sizeof *all);
    all->b = &b;
    assert_int_equal(gal_price_cache_create_parts(&b.model, b.durations, PARTS, &all->cache, &err), GAL_OK);
    assert_int_equal(gal_price_at_once(all->cache, TASKS, ask_all, all, &err), GAL_OK);
    for (uint32_t task = 0; task < TASKS; task++) {
        assert_int_equal(all->equal[task], blocks);
    }
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < PAIRS; i++) {
        gal_price_query query;
        uint32_t type, to;
        const gal_pair_price *one = NULL;
        if (draw_pair(&b, i, &query, &type, &to)) {
            assert_int_equal(gal_price_pair(b.alone, &query, type, &b.strategy[to], &one, &err), GAL_OK);
            for (uint32_t task = 0; task < TASKS; task++) {
                assert_memory_equal(one, all->pair[task][i], sizeof *one);
            }
            pairs++;
        }
    }
    printf("%u tasks: %u blocks, %u pairs\n", TASKS, blocks, pairs);
    assert_true(pairs > 20);
    gal_price_cache_free(all->cache);
    free(all);
    free_bed(&b);
}

static gal_code fail_from_one(void *context, uint32_t part, gal_error *err)
{
    (void)context;
    return part == 0 ? GAL_OK : gal_fail(err, GAL_ERR_DOCUMENT, "of part %u", part);
}

static void test_error(void **state)
{
    (void)state;
    gal_error err = {0};
    bed b;
    make_bed("gpt2-small", GAL_FP32, &b);
    assert_int_equal(gal_price_in_parts(b.parted, fail_from_one, &b, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "of part 1");
    assert_int_equal(gal_price_at_once(b.parted, TASKS, fail_from_one, &b, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "of part 1");
    assert_int_equal(gal_price_in_parts(b.alone, fail_from_one, &b, &err), GAL_OK);
    free_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
