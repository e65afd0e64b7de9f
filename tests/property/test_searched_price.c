/* The objective of plans that searches find for models and clusters of the catalogue against their simulation. A search
 * takes what its prices are wrong about: random plans (property/test_price) can be priced well where the best by those
 * prices is not. While sync was priced by the ends within a chain, the simulation of what is found here for one
 * microbatch was up to 33 % above the objective.
 *
 * In fp32 the two agree within worst_bound. In 16 bits links are slow beside kernels, and a block is priced in a chain
 * of blocks of its own kind: there objectives are farther off (make bench-strays), so how far is printed and not
 * judged, while plans must be legal, fit, and hold to the byte the memory that is claimed for them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "planner/search/joint_search.h"
#include "runtime/program/program.h"
#include "schemas/model_choice.h"
#include "schemas/plan_check.h"

static const double worst_bound = 0.10;

typedef struct search_case {
    const char *model, *cluster;
    uint32_t microbatch_count;
} search_case;

/* Of every family, on links that hide what is reduced and on such that do not; each is found in less than a second. */
static const search_case cases[] = {
    {"gpt2-medium", "titan-8", 1}, {"gpt2-medium", "titan-8", 4},  {"gpt2-medium", "colossal-2", 1},
    {"bert-large", "titan-8", 1},  {"bert-large", "a10g-8", 1},    {"bert-large", "colossal-2", 4},
    {"vit-large", "a10g-8", 1},    {"vit-large", "colossal-2", 1}, {"vit-large", "colossal-2", 4},
    {"swin-base", "titan-8", 1},   {"swin-base", "colossal-2", 1}, {"swin-base", "v100-8", 4},
    {"swin-tiny", "a10g-8", 4},    {"t5-base", "colossal-2", 1},   {"t5-base", "a10g-8", 4},
    {"t5-large-48", "v100-8", 4},
};
/* In 16 bits: also on devices of little memory (titan, l4, a10g), on slow links between them (l4, a10g, rtx3090), and
 * where objectives are known to be far from the simulation (the last three). */
static const search_case narrow_cases[] = {
    {"gpt2-medium", "titan-8", 1},  {"gpt2-medium", "colossal-2", 4}, {"gpt2-xl", "a10g-8", 4},
    {"tinyllama-1.1b", "l4-8", 1},  {"qwen2-0.5b", "rtx3090-32", 1},  {"llama2-7b", "h100-8", 4},
    {"llama3-8b", "a100-80g-8", 4}, {"mistral-7b", "rtx3090-32", 4},  {"bert-large", "a10g-8", 1},
    {"vit-large", "colossal-2", 1}, {"swin-base", "v100-8", 4},       {"t5-base", "colossal-2", 1},
    {"llama3-70b", "h100-64", 4},   {"llama2-13b", "a100-64", 4},     {"qwen2-7b", "h100-64", 1},
};
enum { CASES = sizeof cases / sizeof cases[0], NARROW_CASES = sizeof narrow_cases / sizeof narrow_cases[0] };

typedef struct counts {
    uint32_t plans, of_pipelines;
    double worst;
} counts;

/* As `galplan search` asks by itself, but for the batch: a sample for every device, at least 16. */
static void search(const gal_model *model, const gal_durations *durations, uint32_t microbatch_count,
                   gal_search_result *out)
{
    gal_error err = {0};
    const uint32_t devices = gal_durations_cluster(durations)->device_count;
    gal_search_request request = {
        .model = model,
        .durations = durations,
        .profile_hash = "",
        .batches = {.count = 1, .value = {devices > 16 ? devices : 16}},
        .microbatch_counts = {.count = 1, .value = {microbatch_count}},
        .schedule = GAL_SCHEDULE_1F1B,
        .prefetch_depth = 2,
        .label_limit = 20000,
        .gap = 0.005,
    };
    gal_space_all(&request.space);
    assert_int_equal(gal_search(&request, out, &err), GAL_OK);
}

static void check_plans(const char *model, const char *cluster, const gal_search_result *result, counts *found)
{
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        const gal_finalist *f = &result->finalist[i];
        const double ratio = f->simulated_seconds / f->objective_seconds;
        if (fabs(ratio - 1.0) > worst_bound) {
            fail_msg("%s on %s, %u stages, %u microbatches: simulated %.6g s, objective %.6g s", model, cluster,
                     f->pp_degree, f->microbatch_count, f->simulated_seconds, f->objective_seconds);
        }
        found->plans++;
        found->of_pipelines += f->pp_degree > 1;
        found->worst = fmax(found->worst, fabs(ratio - 1.0));
    }
}

/* The result of a search; whoever calls frees durations and result. */
static void run_case(const search_case *of, bool narrow, gal_model *model, gal_durations **durations,
                     gal_search_result *result)
{
    gal_error err = {0};
    gal_cluster cluster;
    assert_int_equal(gal_model_read(of->model, model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read(of->cluster, &cluster, &err), GAL_OK);
    const bool has_bf16 = (gal_device_dtypes(&cluster.device) & 1U << GAL_BF16) != 0;
    model->compute_dtype = !narrow ? GAL_FP32 : has_bf16 ? GAL_BF16 : GAL_FP16;
    assert_int_equal(gal_durations_create_analytic(&cluster, durations, &err), GAL_OK);
    search(model, *durations, of->microbatch_count, result);
    assert_true(result->feasible);
}

static void test_plans_found_take_what_they_cost(void **unused)
{
    (void)unused;
    counts found = {0};
    for (uint32_t i = 0; i < CASES; i++) {
        gal_model model;
        gal_durations *durations = NULL;
        gal_search_result result = {0};
        run_case(&cases[i], false, &model, &durations, &result);
        check_plans(model.name, cases[i].cluster, &result, &found);
        gal_search_result_free(&result);
        gal_durations_free(durations);
    }
    printf("  %u plans, %u of pipelines: worst %.2f %%\n", found.plans, found.of_pipelines, 100 * found.worst);
    assert_true(found.plans >= CASES && found.of_pipelines > 0);
}

/* Whether the plan is legal and its programs take on every stage the bytes that it says, within the limit. */
static void check_memory(const gal_plan *plan, uint64_t memory_bytes)
{
    gal_error err = {0};
    gal_program *program[GAL_STAGES_MAX] = {NULL};
    assert_int_equal(gal_plan_check(plan, "", &err), GAL_OK);
    assert_int_equal(gal_lower_plan(plan, program, &err), GAL_OK);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        assert_int_equal(program[s]->arena_bytes + plan->fixed_bytes, plan->stage[s].predicted_bytes);
        assert_true(plan->stage[s].predicted_bytes <= memory_bytes);
        gal_program_free(program[s]);
    }
}

static void test_narrow_plans_are_sound(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < NARROW_CASES; i++) {
        const search_case *of = &narrow_cases[i];
        gal_model model;
        gal_durations *durations = NULL;
        gal_search_result result = {0};
        run_case(of, true, &model, &durations, &result);
        const gal_finalist *best = &result.finalist[0];
        for (uint32_t f = 0; f < result.finalist_count; f++) {
            check_memory(&result.finalist[f].plan, gal_durations_cluster(durations)->device.memory_bytes);
        }
        assert_true(best->objective_seconds >= result.lower_bound_seconds);
        printf("  %s in %s on %s: simulated %+.2f %% beside the objective\n", model.name,
               gal_dtype_names[model.compute_dtype], of->cluster,
               100.0 * (best->simulated_seconds / best->objective_seconds - 1.0));
        gal_search_result_free(&result);
        gal_durations_free(durations);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_found_take_what_they_cost),
                                       cmocka_unit_test(test_narrow_plans_are_sound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
