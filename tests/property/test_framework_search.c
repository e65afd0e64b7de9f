/* galplan search --prices framework:NAME: the plan found is the fastest of all layouts, listed here by the strategies
 * of the space; what it claims is proved again, and refused once it is changed. Seeded: the same cases every time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/interval.h"
#include "planner/layouts/layout_plan.h"
#include "planner/published/framework_search.h"
#include "planner/search/risk.h"
#include "planner/space/strategy_space.h"
#include "tests/support/random_plan.h"

enum { CASES = 60 };

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_pricing pricing;
    gal_search_request request;
    double quantile;
} trial;

static const char *pick(uint64_t *state, const char *const *names, uint32_t count)
{
    return names[gal_random_below(state, count)];
}

static void create(uint64_t *state, trial *t)
{
    static const char *const frameworks[] = {"pytorch-2022", "megatron-2021", "megatron-sp-2022", "torchtitan-2024",
                                             "llm-foundry-2023"};
    static const char *const models[] = {"gpt2-medium", "bert-huge-32", "vit-huge-32", "t5-large-32"};
    static const char *const clusters[] = {"titan-8", "h100-8", "titan-16"};
    static const char *const spaces[] = {"dp,tp", "dp,sdp,tp,sp,recompute,selective", "zero3,recompute", "dp"};
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    assert_int_equal(gal_framework_read(pick(state, frameworks, 5), &t->pricing.framework, &err), GAL_OK);
    assert_int_equal(gal_model_read(pick(state, models, 4), &t->model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read(pick(state, clusters, 3), &t->cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    t->quantile = gal_random_below(state, 2) == 0 ? 0.5 : 0.9;
    t->request = (gal_search_request){.model = &t->model,
                                      .durations = t->durations,
                                      .profile_hash = "",
                                      .memory_bytes = (UINT64_C(4) << 30) << gal_random_below(state, 4),
                                      .batches = {.count = 2, .value = {16, 64}},
                                      .schedule = (gal_schedule)gal_random_below(state, 3),
                                      .prefetch_depth = 2};
    t->request.chunk_count = t->request.schedule == GAL_SCHEDULE_INTERLEAVED ? 2 : 0;
    assert_int_equal(gal_space_parse(pick(state, spaces, 4), &t->request.space, &err), GAL_OK);
}

/* [tp,] [dp or sdp]: what a layout can say. */
static bool describable(const gal_strategy *s)
{
    const bool tensor = s->axis_count > 0 && s->axis[0].kind == GAL_AXIS_TP;
    return s->axis_count <= 1u + tensor;
}

/* Seconds per sample of the fastest layout that fits and that galrun has a plan of; infinity: none. */
static double fastest(const trial *t)
{
    static gal_strategy strategy[GAL_SPACE_MAX];
    gal_constants constants;
    double least = HUGE_VAL;
    gal_constants_default(&t->cluster, &t->pricing.framework, &constants);
    const double slower =
        gal_interval_quantile(constants.seconds_low_factor, constants.seconds_high_factor, t->quantile);
    const double wider =
        exp(t->pricing.framework.bytes_spread * gal_normal_quantile(t->quantile) / gal_normal_quantile(0.95));
    for (uint32_t pp = 1; pp <= t->cluster.device_count; pp *= 2) {
        const uint32_t count = gal_space_strategies(&t->request.space, t->cluster.device_count / pp, strategy);
        for (uint32_t i = 0; i < 2 * 7 * count; i++) {
            const gal_strategy *s = &strategy[i % count];
            const uint32_t batch = i / count % 2 == 0 ? 16 : 64, m = 1u << i / count / 2;
            gal_layout_row row = {.model = t->model, .cluster = &t->cluster};
            gal_framework_estimate at;
            gal_plan plan = {0};
            gal_error why = {0};
            const uint32_t tp = gal_strategy_degree(s, GAL_AXIS_TP), dp = t->cluster.device_count / pp / tp;
            if (!describable(s) || batch % (m * dp) != 0) {
                continue;
            }
            row.layout = (gal_uniform_layout){.dp_degree = dp,
                                              .tp_degree = tp,
                                              .pp_degree = pp,
                                              .zero_stage = s->zero_stage,
                                              .sequence_parallel = s->sequence_parallel,
                                              .recompute = s->recompute,
                                              .schedule = t->request.schedule,
                                              .chunk_count = t->request.chunk_count > 1 ? t->request.chunk_count : 1,
                                              .microbatch_samples = batch / m / dp,
                                              .global_batch_samples = batch};
            if (gal_uniform_layout_check(&row.layout, &t->model, &why) != GAL_OK) {
                continue;
            }
            gal_framework_price(&t->pricing.framework, &t->cluster, &constants, &t->model, &row.layout, &at);
            if (at.bytes * wider <= (double)t->request.memory_bytes && gal_layout_plan(&row, &plan, &why) == GAL_OK) {
                least = fmin(least, at.seconds * slower / batch);
            }
            gal_plan_free(&plan);
        }
    }
    return least;
}

static void refuse_plan(const gal_plan *plan)
{
    gal_error err = {0};
    assert_int_equal(gal_framework_check_plan(plan, &err), GAL_NO);
}

static void check_claims(const gal_plan *plan)
{
    gal_error err = {0};
    if (gal_framework_check_plan(plan, &err) != GAL_OK || gal_framework_check_bound(plan, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_plan changed = *plan;
    changed.objective_seconds *= 0.999;
    refuse_plan(&changed);
    changed = *plan;
    changed.pricing.bytes += changed.pricing.bytes / 1000;
    refuse_plan(&changed);
    changed = *plan;
    changed.pricing.framework.step_seconds += 1e-3;
    refuse_plan(&changed);
    changed = *plan;
    changed.certificate.memory_bytes = plan->pricing.bytes / 2;
    refuse_plan(&changed);
    changed = *plan;
    changed.lower_bound_seconds *= 1.001;
    assert_int_equal(gal_framework_check_bound(&changed, &err), GAL_NO);
    changed = *plan;
    changed.certificate.space = (gal_space){0};
    if (plan->run[0].strategy.axis_count > 0) {
        refuse_plan(&changed);
    }
}

static void test_fastest_layout(void **state)
{
    (void)state;
    uint64_t random = 20261122;
    uint32_t found = 0, none = 0;
    for (uint32_t i = 0; i < CASES; i++) {
        trial t;
        gal_error err = {0};
        gal_algorithm_answer answer = {0};
        char refusal[GAL_ERROR_TEXT_BYTES];
        create(&random, &t);
        if (gal_search_by_framework(&t.request, &t.pricing, t.quantile, &answer, refusal, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        const double least = fastest(&t);
        const gal_finalist *f = answer.search.finalist;
        if (!answer.search.feasible) {
            assert_true(least == HUGE_VAL);
            none++;
        } else {
            assert_true(fabs(f->objective_seconds / f->global_batch_samples / least - 1.0) < 1e-12);
            if (t.quantile > 0.5) {
                assert_int_equal(gal_risk_note(&t.request, t.quantile, t.request.memory_bytes, &answer.search, &err),
                                 GAL_OK);
                assert_true(f->plan.risk.memory_chance <= 1.0 - t.quantile + 1e-9);
                assert_int_equal(gal_risk_check(&f->plan, &err), GAL_OK);
            }
            check_claims(&f->plan);
            found++;
        }
        gal_algorithm_answer_free(&answer);
        gal_durations_free(t.durations);
    }
    print_message("%u plans, %u limits\n", found, none);
    assert_true(found > CASES / 2 && none > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fastest_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
