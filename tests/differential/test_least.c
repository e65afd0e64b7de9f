/* The least memory and the least number of devices against brute force: every chain of small cells, whole searches on
 * every cluster up to the answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/cell/path.h"
#include "planner/least/least.h"
#include "planner/least/least_cell.h"
#include "planner/search/joint_search.h"
#include "runtime/program/schedule.h"
#include "tests/support/random_plan.h"

enum { CELLS = 250, SEARCHES = 12, BLOCKS_MAX = 8, LAYOUTS_MAX = 6, PATHS_MAX = 150000 };

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_space space;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_block_types types;
    gal_cell_spec spec;
} trial;

static void draw_model(uint64_t *state, gal_model *model)
{
    gal_model_defaults(model);
    (void)snprintf(model->name, sizeof model->name, "small");
    model->layer_count = 1 + gal_random_below(state, 2);
    model->hidden = 64;
    model->head_count = 4;
    model->ffn_hidden = UINT32_C(128) << gal_random_below(state, 3);
    model->sequence_length = 32;
    model->vocabulary = UINT32_C(64) << gal_random_below(state, 5);
    model->vocabulary_multiple = 8;
    model->tied_embeddings = gal_random_below(state, 2) == 0;
    if (gal_random_below(state, 3) == 0) {
        model->family = GAL_FAMILY_T5;
        model->layer_count = model->decoder_layer_count = 1;
        model->decoder_sequence_length = UINT32_C(16) << gal_random_below(state, 3);
        model->head_dim = 8;
        model->relative_bucket_count = 8;
        model->relative_max_distance = 16;
        model->activation = GAL_ACTIVATION_RELU;
    }
}

static void draw_cluster(gal_cluster *cluster, uint32_t node, uint32_t devices)
{
    memset(cluster, 0, sizeof *cluster);
    (void)snprintf(cluster->name, sizeof cluster->name, "small");
    cluster->device_count = devices;
    cluster->device = (gal_device){.kind = "device",
                                   .memory_bytes = UINT64_C(1) << 40,
                                   .fp32_flops_per_second = 1e11,
                                   .fp64_flops_per_second = 1e9,
                                   .memory_bytes_per_second = 1e10};
    cluster->level_count = devices > node ? 2 : 1;
    const gal_link_level link = {.name = "link", .latency_seconds = 1e-6, .bytes_per_second = 1e9};
    cluster->level[0] = cluster->level[1] = link;
    cluster->level[0].span_devices = devices > node ? node : devices;
    cluster->level[1].span_devices = devices;
}

static void draw_space(uint64_t *state, gal_space *space)
{
    memset(space, 0, sizeof *space);
    space->axis[GAL_AXIS_DP] = true;
    space->axis[GAL_AXIS_TP] = gal_random_below(state, 3) > 0;
    space->axis[GAL_AXIS_SDP] = gal_random_below(state, 2) == 0;
    space->zero_stage[1 + gal_random_below(state, 3)] = space->axis[GAL_AXIS_SDP];
    space->sequence_parallel = space->axis[GAL_AXIS_TP] && gal_random_below(state, 2) == 0;
    space->recompute = gal_random_below(state, 2) == 0;
    uint64_t apart = *state;
    space->tp_grid[GAL_TP_2D] = gal_random_below(&apart, 2) == 0;
    space->tp_grid[GAL_TP_2P5D] = gal_random_below(&apart, 4) == 0;
    space->tp_grid[GAL_TP_3D] = gal_random_below(&apart, 3) == 0;
    space->keep_panels = gal_random_below(&apart, 3) == 0;
    space->offload = !space->axis[GAL_AXIS_TP] && gal_random_below(&apart, 2) == 0;
    space->stepped = gal_random_below(&apart, 3) == 0;
}

static void create(uint64_t seed, trial *t)
{
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    draw_model(&state, &t->model);
    const uint32_t pp_degree = 1 + gal_random_below(&state, 3);
    const uint32_t devices = pp_degree << gal_random_below(&state, pp_degree == 3 ? 2 : 3);
    draw_cluster(&t->cluster, 2, devices);
    draw_space(&state, &t->space);
    const uint32_t microbatches = UINT32_C(1) << gal_random_below(&state, 4);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&t->model, t->durations, &t->cache, &err), GAL_OK);
    assert_int_equal(gal_block_types_create(&t->model, t->durations, &t->types, &err), GAL_OK);
    t->spec = (gal_cell_spec){.model = &t->model,
                              .durations = t->durations,
                              .cache = t->cache,
                              .space = &t->space,
                              .device_count = devices,
                              .pp_degree = pp_degree,
                              .microbatch_count = microbatches,
                              .global_batch_samples = microbatches * (UINT32_C(1) << gal_random_below(&state, 4)),
                              .schedule = (gal_schedule)gal_random_below(&state, 2),
                              .prefetch_depth = 1 + gal_random_below(&state, 2),
                              .arena_limit_bytes = UINT64_C(1) << 40};
}

static void destroy(trial *t)
{
    gal_block_types_free(&t->types);
    gal_price_cache_free(t->cache);
    gal_durations_free(t->durations);
}

/* ---- every chain of a cell ---- */

typedef struct brute {
    const gal_cell *cell;
    uint32_t stage[BLOCKS_MAX], strategy[BLOCKS_MAX];
    uint64_t least_bytes;
    uint32_t path_count;
} brute;

static void try_from(brute *b, uint32_t block)
{
    const gal_cell *cell = b->cell;
    if (block > 0 && (block == BLOCKS_MAX || block == cell->block_count)) {
        uint64_t bytes = 0;
        if (b->stage[block - 1] + 1 == cell->spec.pp_degree && gal_cell_tables_alike(cell, b->strategy)) {
            (void)gal_cell_evaluate(cell, b->stage, b->strategy, &bytes);
            b->least_bytes = bytes < b->least_bytes ? bytes : b->least_bytes;
        }
        b->path_count++;
        return;
    }
    const uint32_t first = block == 0 ? 0 : b->stage[block - 1];
    const uint32_t last = block == 0 ? 0 : first + 1;
    for (uint32_t p = first; p <= last && p < cell->spec.pp_degree && b->path_count < PATHS_MAX; p++) {
        for (uint32_t s = 0; s < cell->strategy_count; s++) {
            b->stage[block] = p;
            b->strategy[block] = s;
            if (gal_cell_price(cell, block, p, s) != NULL &&
                (block == 0 || cell->edge[gal_cell_pair_index(cell, block, p, b->strategy[block - 1], s)].legal)) {
                try_from(b, block + 1);
            }
        }
    }
}

/* In a cell of the layouts of a chain alone its conversions are charged at least: so all sets of layouts are tried.
 * False: too many. */
static bool brute_least(const trial *t, uint64_t *least, uint32_t *layout_count)
{
    static gal_strategy strategy[GAL_SPACE_MAX];
    static uint32_t layout[GAL_SPACE_MAX], first[GAL_SPACE_MAX];
    const uint32_t devices = t->spec.device_count / t->spec.pp_degree;
    const uint32_t count = gal_space_strategies(&t->space, devices, strategy);
    bool few = t->types.block_count <= BLOCKS_MAX;
    uint32_t layouts = 0;
    *least = UINT64_MAX;
    for (uint32_t s = 0; s < count; s++) {
        layout[s] = 0;
        while (layout[s] < layouts && !gal_price_rows_alike(&strategy[first[layout[s]]], &strategy[s], devices)) {
            layout[s]++;
        }
        if (layout[s] == layouts) {
            first[layouts++] = s;
        }
    }
    few = few && layouts <= LAYOUTS_MAX;
    bool *allowed = calloc((size_t)t->types.type_count * count + 1, sizeof *allowed);
    assert_non_null(allowed);
    for (uint32_t set = 1; few && set < UINT32_C(1) << layouts; set++) {
        gal_error err = {0};
        gal_cell *cell = NULL;
        gal_cell_spec spec = t->spec;
        for (uint32_t i = 0; i < t->types.type_count * count; i++) {
            const uint32_t s = i % count;
            allowed[i] = (set >> layout[s] & 1U) != 0 && gal_cell_is_legal(&spec, &t->types, i / count, &strategy[s]);
        }
        spec.allowed = allowed;
        assert_int_equal(gal_cell_create(&spec, &cell, &err), GAL_OK);
        brute b = {.cell = cell, .least_bytes = UINT64_MAX};
        try_from(&b, 0);
        few = b.path_count < PATHS_MAX;
        *least = b.least_bytes < *least ? b.least_bytes : *least;
        gal_cell_free(cell);
    }
    free(allowed);
    *layout_count = layouts;
    return few;
}

static void solve(const trial *t, uint64_t limit_bytes, gal_least_goal goal, gal_least_answer *out)
{
    gal_error err = {0};
    gal_cell_spec spec = t->spec;
    spec.arena_limit_bytes = limit_bytes;
    if (gal_least_cell(&spec, &t->types, goal, out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

/* Exact; the chain is one of so many bytes; nothing below, something at and above. */
static void test_least_of_a_cell_is_that_of_all_chains(void **state)
{
    (void)state;
    uint32_t compared = 0, with_layouts = 0, none = 0;
    for (uint64_t seed = 1; seed <= CELLS; seed++) {
        trial t;
        uint64_t least = 0;
        uint32_t layouts = 0;
        create(seed, &t);
        if (brute_least(&t, &least, &layouts)) {
            gal_least_answer answer = {0};
            compared++;
            with_layouts += layouts > 2;
            solve(&t, UINT64_C(1) << 40, GAL_LEAST_SMALLEST, &answer);
            none += !answer.found;
            if (answer.found != (least != UINT64_MAX) || (answer.found && answer.bytes != least)) {
                fail_msg("seed %llu: %llu bytes, brute force %llu", (unsigned long long)seed,
                         (unsigned long long)answer.bytes, (unsigned long long)least);
            }
            assert_true(answer.bound_bytes == least); /* proven */
            if (answer.found) {
                solve(&t, least - 1, GAL_LEAST_SMALLEST, &answer);
                assert_false(answer.found);
                assert_true(answer.bound_bytes == UINT64_MAX);
                solve(&t, least, GAL_LEAST_ANY, &answer);
                assert_true(answer.found && answer.bytes == least);
                solve(&t, 2 * least, GAL_LEAST_ANY, &answer);
                assert_true(answer.found && answer.bytes >= least && answer.bytes <= 2 * least);
            }
        }
        destroy(&t);
    }
    printf("%u cells compared, %u of several layouts, %u without any chain\n", compared, with_layouts, none);
    assert_true(compared >= 100 && with_layouts >= 30);
}

/* ---- whole searches ---- */

static void ask(uint64_t seed, trial *t, gal_search_request *request)
{
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    draw_model(&state, &t->model);
    t->model.head_count = 6;
    t->model.hidden = 96;
    t->model.global_batch_samples = 12;
    draw_cluster(&t->cluster, 2, 4);
    draw_space(&state, &t->space);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    *request = (gal_search_request){.model = &t->model,
                                    .durations = t->durations,
                                    .profile_hash = "",
                                    .microbatch_counts = {.count = 2, .value = {2, 4}},
                                    .space = t->space,
                                    .schedule = GAL_SCHEDULE_1F1B,
                                    .prefetch_depth = 2,
                                    .label_limit = 20000};
    if (seed % 4 == 0) {
        request->schedule = GAL_SCHEDULE_ZERO_BUBBLE;
    }
}

static bool fits(const gal_search_request *request, const gal_cluster *cluster, uint64_t memory_bytes)
{
    gal_error err = {0};
    gal_search_request own = *request;
    gal_search_result result = {0};
    gal_durations *durations = NULL;
    assert_int_equal(gal_durations_create_analytic(cluster, &durations, &err), GAL_OK);
    own.durations = durations;
    own.memory_bytes = memory_bytes;
    assert_int_equal(gal_search(&own, &result, &err), GAL_OK);
    const bool feasible = result.feasible;
    assert_true(!feasible || result.finalist[0].peak_bytes <= memory_bytes);
    gal_search_result_free(&result);
    gal_durations_free(durations);
    return feasible;
}

static void test_the_search_fits_from_the_least_memory_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEARCHES; seed++) {
        trial t;
        gal_search_request request;
        gal_least_memory least = {0};
        gal_error err = {0};
        ask(seed, &t, &request);
        assert_int_equal(gal_least_memory_find(&request, &least, &err), GAL_OK);
        assert_true(least.exists);
        assert_true(least.bound_bytes == least.bytes);
        assert_false(fits(&request, &t.cluster, least.bytes - 1));
        assert_true(fits(&request, &t.cluster, least.bytes));
        assert_true(fits(&request, &t.cluster, least.bytes + 12345));
        gal_least_memory_free(&least);
        gal_durations_free(t.durations);
    }
}

/* 1, 2, 4, 6 ... devices; more memory never needs more of them. */
static void test_least_devices_are_the_first_that_fit(void **state)
{
    (void)state;
    uint32_t grown = 0;
    for (uint64_t seed = 1; seed <= SEARCHES; seed++) {
        trial t;
        gal_search_request request;
        gal_least_memory least = {0};
        gal_error err = {0};
        const gal_u32_list any = {0};
        uint32_t before = UINT32_MAX;
        ask(seed, &t, &request);
        const gal_device_counts counts = {&t.cluster, 12};
        assert_int_equal(gal_least_memory_find(&request, &least, &err), GAL_OK);
        for (uint32_t i = 0; i < 4; i++) {
            gal_least_devices devices = {0};
            request.memory_bytes = least.bytes / 4 + i * (least.bytes / 3);
            assert_int_equal(gal_least_devices_find(&request, &any, &counts, &devices, &err), GAL_OK);
            assert_true(devices.proven);
            uint32_t expected = 0;
            for (uint32_t n = gal_device_counts_next(&counts, 0); n != 0; n = gal_device_counts_next(&counts, n)) {
                gal_cluster cluster = t.cluster;
                gal_cluster_resize(&cluster, n);
                if (fits(&request, &cluster, request.memory_bytes)) {
                    expected = n;
                    break;
                }
            }
            assert_int_equal(devices.exists ? devices.device_count : 0, expected);
            assert_true(!devices.exists || devices.device_count <= before);
            before = devices.exists ? devices.device_count : before;
            grown += expected > 4;
        }
        gal_least_memory_free(&least);
        gal_durations_free(t.durations);
    }
    assert_true(grown > 0);
}

/* ---- counts ---- */

static void test_counts_are_divisors_of_a_node_then_nodes(void **state)
{
    static const uint32_t expected[] = {1, 2, 3, 6, 12, 18, 24, 0};
    (void)state;
    gal_cluster cluster;
    draw_cluster(&cluster, 6, 12);
    const gal_device_counts counts = {&cluster, 29};
    uint32_t devices = 0;
    for (uint32_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        devices = gal_device_counts_next(&counts, devices);
        assert_int_equal(devices, expected[i]);
    }
}

/* Pairs of devices in nodes of 6: 3 devices would be one pair and a half. */
static void test_counts_keep_pairs_whole(void **state)
{
    static const uint32_t expected[] = {1, 2, 6, 12, 0};
    (void)state;
    gal_cluster cluster;
    draw_cluster(&cluster, 2, 12);
    cluster.level[2] = cluster.level[1];
    cluster.level[1].span_devices = 6;
    cluster.level_count = 3;
    const gal_device_counts counts = {&cluster, 12};
    uint32_t devices = 0;
    for (uint32_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        devices = gal_device_counts_next(&counts, devices);
        assert_int_equal(devices, expected[i]);
    }
}

static void test_in_flight_is_what_the_schedule_walks(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * 6 * 6 * 9; i++) {
        const uint32_t stages = 1 + i / 2 % 6;
        const uint32_t stage = i / 12 % 6;
        const uint32_t m = 1 + i / 72;
        if (stage < stages) {
            const gal_schedule schedule = i % 2 == 0 ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B;
            const gal_schedule_place place = {schedule, stage, stages, 1, m};
            uint32_t chunk[GAL_CHUNKS_MAX];
            assert_int_equal(gal_in_flight(schedule, stage, stages, m), gal_schedule_in_flight(&place, chunk));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_of_a_cell_is_that_of_all_chains),
        cmocka_unit_test(test_the_search_fits_from_the_least_memory_on),
        cmocka_unit_test(test_least_devices_are_the_first_that_fit),
        cmocka_unit_test(test_counts_are_divisors_of_a_node_then_nodes),
        cmocka_unit_test(test_counts_keep_pairs_whole),
        cmocka_unit_test(test_in_flight_is_what_the_schedule_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
