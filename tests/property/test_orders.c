/* Orders of axes that are one (planner/space/orders.h), on random clusters of one to three levels, models of every
 * family, any axes: a strategy and its first order have one price and one legality on every stage. Inputs: one for
 * every ten of PLANS. timeout_seconds: 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/space/block_types.h"
#include "planner/space/orders.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"

enum { PRICES = 40, SAMPLES = 32 };

typedef struct trial {
    uint64_t seed, random;
    gal_random_search search;
    gal_price_cache *cache;
    gal_block_types types;
    uint32_t stage_count, stage, devices;
    uint32_t count;
    gal_strategy *strategy;
    uint32_t *first;
} trial;

static struct {
    uint32_t strategies, orders, prices;
} counted;

static uint32_t trial_count(void)
{
    const char *plans = getenv("PLANS");
    return plans == NULL ? 20 : ((uint32_t)strtoul(plans, NULL, 10) + 9) / 10;
}

/* Nodes in racks, nodes, or one level. */
static void draw_cluster(trial *t)
{
    static const uint32_t spans[][3] = {{16, 0, 0}, {4, 16, 0}, {2, 4, 16}, {8, 16, 0}, {8, 0, 0}, {2, 8, 0}};
    const uint32_t *span = spans[gal_random_below(&t->random, 6)];
    gal_cluster cluster = t->search.profile.cluster;
    for (cluster.level_count = 0; cluster.level_count < 3 && span[cluster.level_count] > 0; cluster.level_count++) {
        cluster.level[cluster.level_count] = (gal_link_level){
            .name = "level",
            .span_devices = span[cluster.level_count],
            .latency_seconds = 1e-6 * (cluster.level_count + 1),
            .bytes_per_second = gal_random_between(&t->random, 1e8, 1e11),
        };
        cluster.device_count = span[cluster.level_count];
    }
    gal_profile_analytic(&cluster, &t->search.profile);
    gal_random_search_renew(&t->search);
}

static void draw_space(uint64_t *random, gal_space *out)
{
    static const char *const words[] = {"sdp", "zero1", "zero3", "sp",      "ulysses", "ring",
                                        "2d",  "2.5d",  "keep",  "stepped", "overlap", "selective"};
    char text[256] = "dp,tp";
    gal_error err = {0};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        if (gal_random_below(random, 2) == 0) {
            (void)strcat(strcat(text, ","), words[w]);
        }
    }
    assert_int_equal(gal_space_parse(text, out, &err), GAL_OK);
}

static bool is_legal(const trial *t, uint32_t type, uint32_t strategy)
{
    return gal_strategy_gathers_rule_broken(&t->strategy[strategy], 2) == NULL &&
           gal_strategy_block_rule_broken(&t->search.model, &t->types.shape[type], &t->strategy[strategy], t->devices,
                                          SAMPLES) == NULL;
}

static void create(uint64_t seed, trial *t)
{
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    gal_random_search_create(seed, seed % 2 == 0, &t->search);
    t->seed = seed;
    t->random = seed ^ UINT64_C(0x5DEECE66D);
    t->search.model.global_batch_samples = SAMPLES;
    draw_cluster(t);
    draw_space(&t->random, &t->search.request.space);
    const uint32_t devices = gal_durations_cluster(t->search.durations)->device_count;
    t->stage_count = 1 + gal_random_below(&t->random, 2);
    t->stage = gal_random_below(&t->random, t->stage_count);
    t->devices = devices / t->stage_count;
    assert_int_equal(gal_price_cache_create(&t->search.model, t->search.durations, &t->cache, &err), GAL_OK);
    assert_int_equal(gal_block_types_create(&t->search.model, t->search.durations, &t->types, &err), GAL_OK);
    const uint32_t room = gal_space_room(&t->search.request.space, t->devices);
    t->strategy = calloc(room, sizeof *t->strategy);
    t->first = calloc(room, sizeof *t->first);
    assert_true(t->strategy != NULL && t->first != NULL);
    t->count = gal_space_strategies(&t->search.request.space, t->devices, t->strategy);
    const gal_cluster *cluster = gal_durations_cluster(t->search.durations);
    assert_int_equal(gal_orders_number(cluster, t->devices, t->strategy, t->count, t->first, &err), GAL_OK);
    for (uint32_t i = 0; i < t->count; i++) {
        counted.orders += t->first[i] != i;
    }
    counted.strategies += t->count;
}

static void destroy(trial *t)
{
    free(t->first);
    free(t->strategy);
    gal_block_types_free(&t->types);
    gal_price_cache_free(t->cache);
    gal_random_search_free(&t->search);
}

static gal_price_query query_of(const trial *t, uint32_t type, const gal_strategy *strategy)
{
    return (gal_price_query){.type = t->types.shape[type].type,
                             .strategy = strategy,
                             .device_count = t->devices,
                             .stage = t->stage,
                             .stage_count = t->stage_count,
                             .microbatch_samples = SAMPLES,
                             .prefetch_depth = 2};
}

static void check_price(trial *t, uint32_t strategy)
{
    const uint32_t first = t->first[strategy];
    assert_int_equal(t->first[first], first);
    for (uint32_t type = 0; type < t->types.type_count; type++) {
        gal_error err = {0};
        const gal_block_price *price[2] = {NULL, NULL};
        const gal_price_query own = query_of(t, type, &t->strategy[strategy]);
        const gal_price_query other = query_of(t, type, &t->strategy[first]);
        assert_int_equal(is_legal(t, type, strategy), is_legal(t, type, first));
        if (is_legal(t, type, strategy)) {
            const gal_code code = gal_price_block(t->cache, &own, &price[0], &err);
            assert_int_equal(gal_price_block(t->cache, &other, &price[1], &err), code);
            if (price[0] != price[1]) {
                char name[2][GAL_STRATEGY_NAME_BYTES];
                fail_msg("seed %llu: %s has another price than %s", (unsigned long long)t->seed,
                         gal_strategy_name(&t->strategy[strategy], name[0]),
                         gal_strategy_name(&t->strategy[first], name[1]));
            }
            counted.prices++;
        }
    }
}

static void test_orders_that_are_one_are_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= trial_count(); seed++) {
        trial t;
        create(seed, &t);
        for (uint32_t i = 0; i < PRICES; i++) {
            check_price(&t, gal_random_below(&t.random, t.count));
        }
        destroy(&t);
    }
    print_message("%u of %u strategies have another first order; %u prices\n", counted.orders, counted.strategies,
                  counted.prices);
    assert_true(counted.orders > counted.strategies / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_that_are_one_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
