/* Searches under others' prices: the plan of galvatron's is priced by galvatron as the search says, is the best of what
 * galrun runs, and that of Oases is the same by two solvers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/galvatron/galvatron_files.h"
#include "planner/galvatron/galvatron_prices.h"
#include "planner/galvatron/galvatron_search.h"
#include "tests/support/galvatron_files.h"

#define GIBIBYTE (UINT64_C(1) << 30)

typedef struct trial {
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables;
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_search_request request;
} trial;

static void create(trial *t)
{
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    assert_int_equal(gal_peer_llama(&t->profile, &err), GAL_OK);
    assert_int_equal(gal_galvatron_tables_create(&t->profile, &t->tables, &err), GAL_OK);
    assert_int_equal(gal_model_read("llama2-7b", &t->model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("h100-8", &t->cluster, &err), GAL_OK);
    t->model.sequence_length = 2048;
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    t->request = (gal_search_request){.model = &t->model,
                                      .durations = t->durations,
                                      .profile_hash = "",
                                      .schedule = GAL_SCHEDULE_1F1B,
                                      .prefetch_depth = 2,
                                      .label_limit = 20000,
                                      .finalist_count = 1};
    gal_space_all(&t->request.space);
}

static void destroy(trial *t)
{
    gal_durations_free(t->durations);
    gal_galvatron_tables_free(t->tables);
    gal_galvatron_profile_free(&t->profile);
}

static double price_of(const trial *t, const gal_galvatron_plan *plan, uint64_t limit_bytes)
{
    gal_error err = {0};
    gal_galvatron_price price = {0};
    if (gal_galvatron_price_plan(t->tables, plan, &price, &err) != GAL_OK) {
        return HUGE_VAL;
    }
    double seconds = price.iteration_seconds;
    for (uint32_t i = 0; i < price.stage_count; i++) { /* the search rounds up to mebibytes, a layer each */
        seconds = price.stage_bytes[i] + 40.0 * 1048576.0 > (double)limit_bytes ? HUGE_VAL : seconds;
    }
    gal_galvatron_price_free(&price);
    return seconds;
}

/* Of plans of one strategy for all layers; Ulysses left out. */
static double best_uniform(const trial *t, uint32_t batch, uint64_t limit_bytes)
{
    double best = HUGE_VAL;
    for (uint32_t i = 0; i < 4 * 4 * 7 * 2 * 2 * 2 * 2; i++) {
        const uint32_t pp = 1U << i % 4, degree = 1U << i / 4 % 4, m = 1U << i / 16 % 7;
        uint32_t layer_count[8] = {0};
        gal_galvatron_run run = {32, {degree, false, (i / 112 & 1) != 0, (i / 112 & 2) != 0}};
        gal_galvatron_plan plan = {.device_count = 8,
                                   .pp_degree = pp,
                                   .global_batch_samples = batch,
                                   .microbatch_count = m,
                                   .schedule = GAL_SCHEDULE_1F1B,
                                   .data_parallel = (i / 112 & 4) != 0 ? GAL_GALVATRON_DDP : GAL_GALVATRON_ZERO2,
                                   .outside = {degree, false, (i / 112 & 8) != 0, false},
                                   .stage_layer_count = layer_count,
                                   .run_count = 1,
                                   .run = &run};
        const uint32_t replicas = 8 / pp / degree;
        for (uint32_t p = 0; p < pp; p++) {
            layer_count[p] = 32 / pp;
        }
        if (pp * degree <= 8 && pp <= m && batch % m == 0 && batch / m % replicas == 0 &&
            (replicas > 1 || (!run.strategy.zero3 && !plan.outside.zero3))) {
            best = fmin(best, price_of(t, &plan, limit_bytes));
        }
    }
    return best;
}

static void test_galvatron_prices_its_plan_as_the_search_says(void **state)
{
    (void)state;
    static const uint32_t limits[] = {20, 36, 80};
    static const uint32_t batches[] = {8, 16, 64};
    trial t;
    create(&t);
    for (uint32_t i = 0; i < 9; i++) {
        char left_out[GAL_ERROR_TEXT_BYTES];
        gal_error err = {0};
        gal_algorithm_answer answer = {0};
        const uint32_t batch = batches[i % 3];
        t.request.memory_bytes = limits[i / 3] * GIBIBYTE;
        t.request.batches = (gal_u32_list){1, {batch}};
        if (gal_search_by_galvatron(&t.request, &t.profile, &answer, left_out, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        assert_true(answer.search.feasible || answer.misfit_cell_count == 1);
        const double own = answer.search.feasible ? answer.opinion.seconds : answer.misfit.own_seconds;
        assert_true(own <= best_uniform(&t, batch, t.request.memory_bytes) * (1.0 + 1e-12));
        if (answer.search.feasible) {
            gal_galvatron_plan theirs = {0};
            assert_true(answer.opinion.bound_seconds <= own && answer.search.finalist[0].peak_bytes > 0);
            assert_int_equal(gal_galvatron_plan_of(&answer.search.finalist[0].plan, &theirs, &err), GAL_OK);
            assert_true(fabs(price_of(&t, &theirs, UINT64_MAX) - own) <= 1e-9 * own);
            gal_galvatron_plan_free(&theirs);
        }
        gal_algorithm_answer_free(&answer);
    }
    destroy(&t);
}

/* With Ulysses it is never slower, and the same where that is not used. */
static void test_without_ulysses_is_a_part_of_the_space(void **state)
{
    (void)state;
    trial t;
    uint32_t same = 0, apart = 0;
    create(&t);
    for (uint32_t limit_gb = 16; limit_gb <= 80; limit_gb += 8) {
        gal_error err = {0};
        gal_galvatron_found all = {0}, ours = {0};
        gal_galvatron_request request = {.tables = t.tables,
                                         .device_count = 8,
                                         .limit_bytes = limit_gb * GIBIBYTE,
                                         .batches = {1, {16}},
                                         .degree_max = 8,
                                         .schedule = GAL_SCHEDULE_1F1B,
                                         .data_parallel = GAL_GALVATRON_ZERO2,
                                         .rules = GAL_GALVATRON_RULES_EVEN};
        assert_int_equal(gal_galvatron_search_plans(&request, &all, &err), GAL_OK);
        request.tensors_alone = true;
        assert_int_equal(gal_galvatron_search_plans(&request, &ours, &err), GAL_OK);
        assert_true(all.feasible && ours.feasible);
        bool ulysses = all.plan.outside.ulysses, has = ours.plan.outside.ulysses;
        for (uint32_t i = 0; i < all.plan.run_count; i++) {
            ulysses = ulysses || all.plan.run[i].strategy.ulysses;
        }
        for (uint32_t i = 0; i < ours.plan.run_count; i++) {
            has = has || ours.plan.run[i].strategy.ulysses;
        }
        assert_false(has);
        assert_true(ours.iteration_seconds >= all.iteration_seconds);
        assert_true(ulysses || ours.iteration_seconds == all.iteration_seconds);
        same += !ulysses;
        apart += ulysses;
        gal_galvatron_found_free(&all);
        gal_galvatron_found_free(&ours);
    }
    assert_true(apart > 0);
    printf("%u limits with Ulysses, %u without\n", apart, same);
    destroy(&t);
}

static void test_other_layers_and_schedules_are_refused(void **state)
{
    (void)state;
    trial t;
    char left_out[GAL_ERROR_TEXT_BYTES];
    gal_error err = {0};
    gal_algorithm_answer answer = {0};
    create(&t);
    t.request.schedule = GAL_SCHEDULE_ZERO_BUBBLE;
    assert_int_equal(gal_search_by_galvatron(&t.request, &t.profile, &answer, left_out, &err), GAL_ERR_USAGE);
    t.request.schedule = GAL_SCHEDULE_1F1B;
    t.model.sequence_length = 4096;
    assert_int_equal(gal_search_by_galvatron(&t.request, &t.profile, &answer, left_out, &err), GAL_ERR_DOCUMENT);
    destroy(&t);
}

static void test_oases_by_two_solvers(void **state)
{
    (void)state;
    trial t;
    const gal_solver_limits limits = {.label_limit = 4000000, .time_limit_seconds = 60.0};
    create(&t);
    t.model.layer_count = 4;
    t.request.batches = (gal_u32_list){1, {16}};
    for (uint32_t i = 0; i < 3; i++) {
        gal_error err = {0};
        gal_algorithm_answer exact = {0}, ilp = {0};
        t.request.memory_bytes = (20 - 5 * i) * GIBIBYTE;
        assert_int_equal(gal_algorithm_oases(&t.request, &limits, &exact, &err), GAL_OK);
        assert_int_equal(gal_algorithm_oases_ilp(&t.request, &limits, &ilp, &err), GAL_OK);
        assert_int_equal(exact.search.feasible, ilp.search.feasible);
        assert_true(exact.search.feasible || i > 0);
        assert_true(!exact.search.feasible ||
                    fabs(exact.opinion.seconds - ilp.opinion.seconds) <= 1e-5 * exact.opinion.seconds);
        gal_algorithm_answer_free(&ilp);
        gal_algorithm_answer_free(&exact);
    }
    destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_galvatron_prices_its_plan_as_the_search_says),
        cmocka_unit_test(test_without_ulysses_is_a_part_of_the_space),
        cmocka_unit_test(test_other_layers_and_schedules_are_refused),
        cmocka_unit_test(test_oases_by_two_solvers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
