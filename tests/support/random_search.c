#include "tests/support/random_search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/program/verify/verify.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "%s\n", err->text);
    }
    GAL_ASSERT(code == GAL_OK);
}

/* Nodes of 1, 2 or 4 devices, where there is more than one node. */
static void draw_links(uint64_t *random, gal_cluster *cluster)
{
    const uint32_t devices = cluster->device_count;
    const uint32_t node = UINT32_C(2) << gal_random_below(random, 2);
    const bool nodes = devices > node && devices % node == 0;
    cluster->level_count = nodes ? 2 : 1;
    cluster->level[0] = (gal_link_level){.name = "inner",
                                         .span_devices = nodes ? node : devices,
                                         .latency_seconds = 1e-6,
                                         .bytes_per_second = gal_random_between(random, 1e8, 1e11)};
    cluster->level[1] = (gal_link_level){.name = "outer",
                                         .span_devices = devices,
                                         .latency_seconds = 1e-5,
                                         .bytes_per_second = gal_random_between(random, 1e7, 1e10)};
}

static void draw_cluster(uint64_t *random, gal_cluster *cluster)
{
    cluster->device.memory_bytes = UINT64_C(1) << 40;
    cluster->device.fp32_flops_per_second = gal_random_between(random, 1e9, 1e12);
    cluster->device.fp64_flops_per_second = cluster->device.fp32_flops_per_second / 2.0;
    cluster->device.memory_bytes_per_second = gal_random_between(random, 1e8, 1e11);
    draw_links(random, cluster);
}

static void no_slowdowns(gal_profile *profile)
{
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        profile->slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = 1.0;
    }
}

void gal_random_search_create(uint64_t seed, bool slows, gal_random_search *out)
{
    static const uint32_t worlds[] = {1, 2, 2, 2, 3, 4, 4, 4, 6, 8};
    static const char *const spaces[] = {"dp,zero3,tp,sp", "dp,tp,recompute", "dp,zero2,tp", "dp,sdp",
                                         "zero3,tp,sp,recompute,selective"};
    static const char *const sequence_spaces[] = {"dp,tp,ulysses,zero3", "dp,tp,ring,recompute"}; /* of few devices */
    uint64_t random = seed;
    gal_error err = {0};
    gal_plan plan; /* for its model and cluster */
    const uint32_t world = worlds[gal_random_below(&random, 10)];
    memset(out, 0, sizeof *out);
    gal_random_plan(seed, world, &plan);
    out->model = plan.model;
    gal_cluster cluster = plan.cluster;
    gal_plan_free(&plan);
    draw_cluster(&random, &cluster);
    out->model.global_batch_samples = world % 3 == 0 ? 12 : 8;
    gal_profile_analytic(&cluster, &out->profile);
    if (!slows) {
        no_slowdowns(&out->profile);
    }
    gal_random_search_renew(out);
    out->request =
        (gal_search_request){.model = &out->model,
                             .durations = out->durations,
                             .profile_hash = "",
                             .microbatch_counts = {.count = 2, .value = {1 + gal_random_below(&random, 2), 4}},
                             .schedule = gal_random_below(&random, 2) == 0 ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                             .prefetch_depth = 1 + gal_random_below(&random, 2),
                             .label_limit = 20000};
    const char *space = spaces[gal_random_below(&random, 5)];
    space = seed % 8 == 7 && world <= 4 ? sequence_spaces[seed / 8 % 2] : space;
    must(gal_space_parse(space, &out->request.space, &err), &err);
}

void gal_random_search_renew(gal_random_search *search)
{
    gal_error err = {0};
    gal_durations_free(search->durations);
    search->durations = NULL;
    must(gal_durations_create(&search->profile, &search->durations, &err), &err);
    search->request.durations = search->durations;
}

void gal_random_search_free(gal_random_search *search)
{
    gal_durations_free(search->durations);
    search->durations = NULL;
}

void gal_random_search_run(const gal_random_search *search, uint64_t memory_bytes, gal_search_result *out)
{
    gal_error err = {0};
    gal_search_request request = search->request;
    request.memory_bytes = memory_bytes;
    must(gal_search(&request, out, &err), &err);
}

void gal_random_search_check_plan(const gal_plan *plan)
{
    gal_error err = {0};
    gal_program *programs[GAL_STAGES_MAX];
    must(gal_plan_check(plan, NULL, &err), &err);
    must(gal_lower_plan(plan, programs, &err), &err);
    must(gal_verify(programs, plan->stage_count, &err), &err);
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        GAL_ASSERT(plan->stage[p].predicted_bytes == programs[p]->arena_bytes);
        gal_program_free(programs[p]);
    }
}

double gal_random_search_objective(const gal_search_result *result)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        const gal_finalist *f = &result->finalist[i];
        least = fmin(least, f->objective_seconds / f->global_batch_samples);
    }
    return least;
}

double gal_random_search_rate(const gal_search_result *result)
{
    const gal_finalist *f = result->finalist;
    return f == NULL ? 0.0 : gal_finalist_rate(f);
}
