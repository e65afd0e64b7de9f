/* The front of throughput against memory over random small models: it falls strictly, each point is what a search of
 * its own gives under that limit, and nothing fits behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/search/pareto.h"
#include "tests/support/random_plan.h"

enum { SEEDS = 10 };

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_search_request request;
} trial;

static void create(uint64_t seed, trial *t)
{
    static const char *const spaces[] = {"dp,zero3,tp", "dp,tp,sp", "dp,zero2,recompute", "tp,recompute"};
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    gal_model_defaults(&t->model);
    (void)snprintf(t->model.name, sizeof t->model.name, "small");
    t->model.layer_count = 1 + gal_random_below(&state, 2);
    t->model.hidden = 64;
    t->model.head_count = 4;
    t->model.ffn_hidden = 256;
    t->model.sequence_length = 32;
    t->model.vocabulary = 256;
    t->model.vocabulary_multiple = 8;
    t->model.global_batch_samples = 8;
    t->model.tied_embeddings = gal_random_below(&state, 2) == 0;
    (void)snprintf(t->cluster.name, sizeof t->cluster.name, "two");
    t->cluster.device_count = 2;
    t->cluster.device = (gal_device){.kind = "device",
                                     .memory_bytes = UINT64_C(1) << 34,
                                     .fp32_flops_per_second = 1e9 * (double)(1 + gal_random_below(&state, 100)),
                                     .fp64_flops_per_second = 1e9,
                                     .memory_bytes_per_second = 1e10};
    t->cluster.level_count = 1;
    t->cluster.level[0] = (gal_link_level){.name = "link",
                                           .span_devices = 2,
                                           .latency_seconds = 1e-6,
                                           .bytes_per_second = 1e8 * (double)(1 + gal_random_below(&state, 100))};
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    t->request = (gal_search_request){.model = &t->model,
                                      .durations = t->durations,
                                      .profile_hash = "",
                                      .microbatch_counts = {.count = 2, .value = {1, 4}},
                                      .schedule = GAL_SCHEDULE_1F1B,
                                      .prefetch_depth = 2,
                                      .label_limit = 20000};
    assert_int_equal(gal_space_parse(spaces[gal_random_below(&state, 4)], &t->request.space, &err), GAL_OK);
}

static void find(const trial *t, uint32_t most, uint64_t step_bytes, gal_pareto *out)
{
    gal_error err = {0};
    if (gal_pareto_find(&t->request, most, step_bytes, out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void check_alone(const trial *t, const gal_pareto_point *point)
{
    gal_error err = {0};
    gal_search_result alone = {0};
    gal_search_request request = t->request;
    request.memory_bytes = point->limit_bytes;
    assert_int_equal(gal_search(&request, &alone, &err), GAL_OK);
    assert_true(alone.feasible);
    assert_true(alone.finalist[0].peak_bytes == point->finalist.peak_bytes);
    assert_true(alone.finalist[0].simulated_seconds == point->finalist.simulated_seconds);
    assert_true(alone.finalist[0].objective_seconds == point->finalist.objective_seconds);
    assert_true(alone.lower_bound_seconds == point->lower_bound_seconds);
    assert_true((alone.unproven_cell_count == 0) == point->proven);
    gal_search_result_free(&alone);
}

static void check_falls(const gal_pareto *front)
{
    for (uint32_t i = 0; i < front->point_count; i++) {
        const gal_pareto_point *point = &front->point[i];
        assert_true(point->finalist.peak_bytes <= point->limit_bytes);
        if (i > 0) {
            assert_true(point->limit_bytes < front->point[i - 1].finalist.peak_bytes);
            assert_true(gal_finalist_rate(&point->finalist) < gal_finalist_rate(&front->point[i - 1].finalist));
        }
    }
}

static void test_the_front_falls_and_each_point_is_a_search(void **state)
{
    (void)state;
    uint32_t points = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        gal_pareto front = {0};
        create(seed, &t);
        find(&t, 0, 1, &front);
        assert_true(front.complete && front.point_count > 0);
        check_falls(&front);
        for (uint32_t i = 0; i < front.point_count; i++) {
            check_alone(&t, &front.point[i]);
        }
        assert_true(front.none.least_bytes <= front.point[front.point_count - 1].limit_bytes);
        points += front.point_count;
        gal_pareto_free(&front);
        gal_durations_free(t.durations);
    }
    assert_true(points > 3 * SEEDS);
}

static void test_the_first_points_are_those_of_the_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        gal_pareto front = {0}, first = {0};
        create(seed, &t);
        find(&t, 0, 1, &front);
        find(&t, 3, 1, &first);
        assert_int_equal(first.point_count, front.point_count < 3 ? front.point_count : 3);
        for (uint32_t i = 0; i < first.point_count; i++) {
            assert_true(first.point[i].finalist.peak_bytes == front.point[i].finalist.peak_bytes);
            assert_true(first.point[i].limit_bytes == front.point[i].limit_bytes);
        }
        gal_pareto_free(&first);
        gal_pareto_free(&front);
        gal_durations_free(t.durations);
    }
}

static void test_limits_are_a_step_apart(void **state)
{
    (void)state;
    const uint64_t step_bytes = 65536;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        gal_pareto front = {0};
        create(seed, &t);
        find(&t, 0, step_bytes, &front);
        assert_true(front.complete);
        check_falls(&front);
        for (uint32_t i = 1; i < front.point_count; i++) {
            assert_true(front.point[i].limit_bytes + step_bytes <= front.point[i - 1].finalist.peak_bytes);
        }
        gal_pareto_free(&front);
        gal_durations_free(t.durations);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_front_falls_and_each_point_is_a_search),
        cmocka_unit_test(test_the_first_points_are_those_of_the_whole),
        cmocka_unit_test(test_limits_are_a_step_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
