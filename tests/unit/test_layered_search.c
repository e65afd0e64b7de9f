/* The search on layers: the answer fits and is its own simulation, and no part of the space has a faster plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "planner/cell/finalist.h"
#include "planner/layered/layered_search.h"
#include "planner/space/strategy_space.h"

enum { RESTRICTIONS = 24 };
static const double same_share = 1e-3;

static uint64_t seed = 20261128;

static uint32_t below(uint32_t count)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % count;
}

typedef struct setting {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_search_request request;
} setting;

static void set_up(setting *s, const char *model, const char *cluster, uint32_t layers, uint32_t batch,
                   uint64_t memory_bytes)
{
    gal_error err = {0};
    memset(s, 0, sizeof *s);
    assert_int_equal(gal_model_read(model, &s->model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read(cluster, &s->cluster, &err), GAL_OK);
    s->model.compute_dtype = GAL_BF16;
    gal_model_keep_layers(&s->model, layers);
    assert_int_equal(gal_durations_create_analytic(&s->cluster, &s->durations, &err), GAL_OK);
    s->request = (gal_search_request){.model = &s->model,
                                      .durations = s->durations,
                                      .profile_hash = "",
                                      .memory_bytes = memory_bytes,
                                      .batches = {1, {batch}},
                                      .schedule = GAL_SCHEDULE_1F1B,
                                      .prefetch_depth = 2};
    gal_space_all(&s->request.space);
}

/* Seconds of the answer; 0: nothing fits. */
static double search(const setting *s, const gal_search_request *request)
{
    gal_search_result result = {0};
    gal_error err = {0};
    assert_int_equal(gal_layered_search(request, &result, &err), GAL_OK);
    double seconds = 0.0;
    if (result.feasible) {
        gal_finalist *best = &result.finalist[0];
        const double simulated = best->simulated_seconds;
        const uint64_t limit = request->memory_bytes > 0 ? request->memory_bytes : s->cluster.device.memory_bytes;
        assert_int_equal(gal_finalist_predict(request, best, &err), GAL_OK);
        assert_true(best->simulated_seconds == simulated);
        assert_true(best->peak_bytes <= limit);
        assert_true(result.lower_bound_seconds > 0.0 && result.lower_bound_seconds <= simulated);
        seconds = simulated;
    }
    gal_search_result_free(&result);
    return seconds;
}

/* Some of the space, of the microbatch counts and of the pipeline degrees. */
static gal_search_request restricted(const setting *s)
{
    gal_search_request request = s->request;
    bool *const flags[] = {&request.space.axis[GAL_AXIS_DP], &request.space.axis[GAL_AXIS_TP],
                           &request.space.zero_stage[1],     &request.space.zero_stage[2],
                           &request.space.zero_stage[3],     &request.space.sequence_parallel,
                           &request.space.recompute,         &request.space.selective};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        *flags[i] = below(3) > 0;
    }
    request.pp_degrees = below(2) == 0 ? request.pp_degrees : (gal_u32_list){1, {1U << below(3)}};
    request.microbatch_counts = below(2) == 0 ? request.microbatch_counts : (gal_u32_list){1, {1U << below(4)}};
    return request;
}

static void no_restriction_helps(const char *model, const char *cluster, uint32_t layers, uint32_t batch,
                                 uint64_t memory_bytes)
{
    setting s;
    uint32_t fitting = 0;
    set_up(&s, model, cluster, layers, batch, memory_bytes);
    const double whole = search(&s, &s.request);
    assert_true(whole > 0.0);
    for (uint32_t i = 0; i < RESTRICTIONS; i++) {
        const gal_search_request request = restricted(&s);
        const double part = search(&s, &request);
        if (part > 0.0) {
            fitting++;
            if (part < whole * (1.0 - same_share)) {
                print_message("%s on %s, restriction %u: %.6g s, of the whole space %.6g s\n", model, cluster, i, part,
                              whole);
            }
            assert_true(part >= whole * (1.0 - same_share));
        }
    }
    assert_in_range(fitting, RESTRICTIONS / 4, RESTRICTIONS);
    gal_durations_free(s.durations);
}

static void test_no_restriction_helps(void **state)
{
    (void)state;
    no_restriction_helps("llama3-8b", "h100-8", 8, 16, UINT64_C(20) << 30);
    no_restriction_helps("gpt2-xl", "a100-8", 12, 32, UINT64_C(6) << 30);
}

/* Twelve layers on eight stages: whole ones make the slowest stage two, half layers one and a half. */
static void test_cuts_move_by_half_layers(void **state)
{
    (void)state;
    setting s;
    gal_search_result result = {0};
    gal_error err = {0};
    set_up(&s, "llama3-8b", "h100-8", 12, 64, 0);
    s.request.pp_degrees = (gal_u32_list){1, {8}};
    s.request.microbatch_counts = (gal_u32_list){1, {64}};
    assert_int_equal(gal_layered_search(&s.request, &result, &err), GAL_OK);
    assert_true(result.feasible);
    const gal_plan *plan = &result.finalist[0].plan;
    uint32_t halves = 0;
    for (uint32_t stage = 1; stage < plan->stage_count; stage++) {
        gal_block_shape shape;
        gal_model_block(&s.model, gal_plan_stage_first_block(plan, stage), &shape);
        halves += shape.kind == GAL_BLOCK_FFN;
    }
    assert_in_range(halves, 1, 7);
    gal_search_result_free(&result);
    gal_durations_free(s.durations);
}

static void test_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    setting s;
    gal_search_result result = {0};
    gal_error err = {0};
    set_up(&s, "gpt2-small", "h100-8", 2, 8, 0);
    s.request.schedule = GAL_SCHEDULE_ZERO_BUBBLE;
    assert_int_equal(gal_layered_search(&s.request, &result, &err), GAL_ERR_USAGE);
    gal_durations_free(s.durations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_restriction_helps),
        cmocka_unit_test(test_cuts_move_by_half_layers),
        cmocka_unit_test(test_refuses_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
