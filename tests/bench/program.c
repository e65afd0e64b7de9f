/* Speed of everything that reads programs, on one configuration: 96 layers, hidden 12288, P = 16, 1,024 devices, m =
 * 64, another of 12 strategies on every run of blocks, tied embeddings. Prints milliseconds, the target and their
 * ratio; exits 1 if a target is missed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/objective.h"
#include "costmodel/price.h"
#include "costmodel/simulate.h"
#include "planner/space/strategy_space.h"
#include "runtime/program/verify/verify.h"
#include "schemas/base/clock.h"
#include "schemas/plan_check.h"

enum { LAYERS = 96, STAGES = 16, DEVICES = 1024, MICROBATCHES = 64, MICROBATCH_SAMPLES = 64, STRATEGIES = 12 };

#define TP(n)                                                                                                          \
    {                                                                                                                  \
        GAL_AXIS_TP, n                                                                                                 \
    }
#define DP(n)                                                                                                          \
    {                                                                                                                  \
        GAL_AXIS_DP, n                                                                                                 \
    }
#define SDP(n)                                                                                                         \
    {                                                                                                                  \
        GAL_AXIS_SDP, n                                                                                                \
    }

static const gal_strategy strategies[STRATEGIES] = {
    {.axis_count = 2, .axis = {TP(8), DP(8)}},
    {.axis_count = 2, .axis = {TP(8), DP(8)}, .sequence_parallel = true},
    {.axis_count = 2, .axis = {TP(8), DP(8)}, .sequence_parallel = true, .recompute = GAL_RECOMPUTE_FULL},
    {.axis_count = 2, .axis = {TP(8), SDP(8)}, .zero_stage = 1, .sequence_parallel = true},
    {.axis_count = 2, .axis = {TP(8), SDP(8)}, .zero_stage = 2, .sequence_parallel = true},
    {.axis_count = 2, .axis = {TP(8), SDP(8)}, .zero_stage = 3, .sequence_parallel = true},
    {.axis_count = 2, .axis = {TP(4), SDP(16)}, .zero_stage = 3, .recompute = GAL_RECOMPUTE_FULL},
    {.axis_count = 2, .axis = {TP(4), DP(16)}, .sequence_parallel = true},
    {.axis_count = 3,
     .axis = {TP(4), DP(2), SDP(8)},
     .zero_stage = 1,
     .sequence_parallel = true,
     .recompute = GAL_RECOMPUTE_FULL},
    {.axis_count = 2,
     .axis = {TP(2), SDP(32)},
     .zero_stage = 3,
     .sequence_parallel = true,
     .recompute = GAL_RECOMPUTE_FULL},
    {.axis_count = 1, .axis = {SDP(64)}, .zero_stage = 3, .recompute = GAL_RECOMPUTE_FULL},
    {.axis_count = 1, .axis = {SDP(64)}, .zero_stage = 3},
};

static void describe(gal_plan *plan)
{
    gal_model *model = &plan->model;
    gal_cluster *cluster = &plan->cluster;
    memset(plan, 0, sizeof *plan);
    gal_model_defaults(model);
    (void)snprintf(model->name, sizeof model->name, "bench");
    model->layer_count = LAYERS;
    model->hidden = 12288;
    model->head_count = 96;
    model->ffn_hidden = 4 * 12288;
    model->sequence_length = 2048;
    model->vocabulary = 50257;
    model->vocabulary_multiple = 128;
    model->tied_embeddings = true;
    (void)snprintf(cluster->name, sizeof cluster->name, "bench");
    cluster->device_count = DEVICES;
    cluster->device = (gal_device){.kind = "h100",
                                   .memory_bytes = UINT64_C(80) << 30,
                                   .fp32_flops_per_second = 400e12,
                                   .fp64_flops_per_second = 30e12,
                                   .memory_bytes_per_second = 3.3e12,
                                   .multiprocessor_count = 132,
                                   .launch_seconds = 3e-6};
    cluster->level_count = 2;
    cluster->level[0] =
        (gal_link_level){.name = "nvlink", .span_devices = 8, .latency_seconds = 5e-6, .bytes_per_second = 370e9};
    cluster->level[1] = (gal_link_level){
        .name = "infiniband", .span_devices = DEVICES, .latency_seconds = 1e-5, .bytes_per_second = 45e9};
    plan->global_batch_samples = MICROBATCHES * MICROBATCH_SAMPLES;
    model->global_batch_samples = plan->global_batch_samples;
    plan->microbatch_count = MICROBATCHES;
    plan->pp_degree = STAGES;
    plan->stage_count = STAGES;
    plan->schedule = GAL_SCHEDULE_1F1B;
    plan->prefetch_depth = 2;
}

/* Runs of one block, strategies in turn; the last block as the first: the table is tied. */
static void fill(gal_plan *plan)
{
    const uint32_t blocks = gal_model_block_count(&plan->model);
    plan->stage = calloc(STAGES, sizeof *plan->stage);
    plan->run = calloc(blocks, sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        (void)fprintf(stderr, "bench-program: out of memory\n");
        exit(GAL_ERR_SYSTEM);
    }
    plan->run_count = blocks;
    for (uint32_t i = 0; i < blocks; i++) {
        const uint32_t which = i + 1 == blocks ? 0 : (i + 1) / 2 % STRATEGIES;
        plan->run[i] = (gal_plan_run){1, strategies[which]};
    }
    uint32_t first = 0;
    for (uint32_t s = 0; s < STAGES; s++) {
        const uint32_t end = s + 1 == STAGES ? blocks : 1 + (s + 1) * (2 * LAYERS / STAGES);
        plan->stage[s] = (gal_plan_stage){.first_run = first, .run_count = end - first};
        first = end;
    }
}

static gal_code check(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "bench-program: %s\n", err->text);
        exit((int)code);
    }
    return code;
}

static int missed;

static void report(const char *what, double seconds, double target_seconds, const char *unit, double unit_seconds)
{
    const double ratio = seconds / target_seconds;
    printf("%-28s %10.3f %-2s   target %8.3f %-2s   ratio %6.2f%s\n", what, seconds / unit_seconds, unit,
           target_seconds / unit_seconds, unit, ratio, ratio > 1.0 ? "  MISSED" : "");
    missed += ratio > 1.0;
}

static void free_all(gal_program **programs)
{
    for (uint32_t s = 0; s < STAGES; s++) {
        gal_program_free(programs[s]);
    }
}

static void bench_whole(const gal_plan *plan, const gal_durations *durations)
{
    gal_error err = {0};
    gal_program *programs[STAGES];
    double best_lower = 1e9;
    double best_verify = 1e9;
    double best_simulate = 1e9;
    for (int i = 0; i < 60; i++) {
        const double start = gal_now_seconds();
        check(gal_lower_plan(plan, programs, &err), &err);
        const double took = gal_now_seconds() - start;
        best_lower = took < best_lower ? took : best_lower;
        if (i < 59) {
            free_all(programs);
        }
    }
    uint64_t instructions = 0;
    for (uint32_t s = 0; s < STAGES; s++) {
        instructions += programs[s]->instruction_count;
    }
    gal_simulation simulation = {0};
    bool refused = false;
    for (int i = 0; i < 5; i++) {
        double start = gal_now_seconds();
        refused = gal_verify(programs, STAGES, &err) != GAL_OK;
        const double verified = gal_now_seconds() - start;
        best_verify = verified < best_verify ? verified : best_verify;
        gal_simulation_free(&simulation);
        gal_error failed = {0};
        start = gal_now_seconds();
        check(gal_simulate(programs, STAGES, durations, false, &simulation, &failed), &failed);
        const double simulated = gal_now_seconds() - start;
        best_simulate = simulated < best_simulate ? simulated : best_simulate;
    }
    printf("%llu instructions, %llu events, iteration %.3f s\n", (unsigned long long)instructions,
           (unsigned long long)simulation.event_count, simulation.iteration_seconds);
    report("lower, waits, place", best_lower, 2e-3, "ms", 1e-3);
    report("verify", best_verify, 60e-3, "ms", 1e-3);
    if (refused) {
        printf("verify REFUSED: %s\n", err.text);
        missed++;
    }
    report("simulate", best_simulate, 60e-3, "ms", 1e-3);
    gal_simulation_free(&simulation);
    free_all(programs);
}

static gal_price_query query_of(uint32_t i, uint32_t samples)
{
    return (gal_price_query){.type = i % 2 == 0 ? GAL_BLOCK_ATTENTION : GAL_BLOCK_FFN,
                             .strategy = &strategies[i / 2],
                             .device_count = DEVICES / STAGES,
                             .stage = 1,
                             .stage_count = STAGES,
                             .microbatch_samples = samples,
                             .prefetch_depth = 2};
}

/* Seconds per price over both kinds and all strategies. */
static double price_all(gal_price_cache *cache, uint32_t samples, uint32_t repeats)
{
    gal_error err = {0};
    const gal_block_price *price = NULL;
    const double start = gal_now_seconds();
    for (uint32_t r = 0; r < repeats; r++) {
        for (uint32_t i = 0; i < 2 * STRATEGIES; i++) {
            const gal_price_query query = query_of(i, samples);
            check(gal_price_block(cache, &query, &price, &err), &err);
        }
    }
    return (gal_now_seconds() - start) / (repeats * 2 * STRATEGIES);
}

/* Seconds per price over the search's whole space of a stage of 64 devices, from an empty cache. */
static double price_space(const gal_plan *plan, const gal_durations *durations, uint32_t *count)
{
    static gal_strategy strategy[GAL_SPACE_MAX];
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    gal_space space;
    const gal_block_price *price = NULL;
    gal_space_all(&space);
    const uint32_t strategy_count = gal_space_strategies(&space, DEVICES / STAGES, strategy);
    static gal_price_query query[2 * GAL_SPACE_MAX];
    *count = 0;
    for (uint32_t i = 0; i < 2 * strategy_count; i++) {
        gal_price_query *next = &query[*count];
        *next = query_of(i % 2, MICROBATCH_SAMPLES);
        next->strategy = &strategy[i / 2];
        *count += gal_strategy_rule_broken(&plan->model, (gal_block_kind)next->type, next->strategy, next->device_count,
                                           next->microbatch_samples) == NULL;
    }
    const double start = gal_now_seconds();
    check(gal_price_cache_create(&plan->model, durations, &cache, &err), &err);
    for (uint32_t i = 0; i < *count; i++) {
        check(gal_price_block(cache, &query[i], &price, &err), &err);
    }
    const double seconds = (gal_now_seconds() - start) / *count;
    gal_price_cache_free(cache);
    return seconds;
}

static void bench_prices(const gal_plan *plan, const gal_durations *durations)
{
    gal_error err = {0};
    double best_new = 1e9;
    double best_first = 1e9;
    uint32_t space_count = 0;
    double best_kept = 1e9;
    double best_cached = 1e9;
    for (int i = 0; i < 60; i++) {
        gal_price_cache *cache = NULL;
        check(gal_price_cache_create(&plan->model, durations, &cache, &err), &err);
        const double first = price_all(cache, 64, 1);
        double kept = 0.0;
        for (uint32_t size = 2; size <= 9; size++) {
            kept += price_all(cache, 64 * size, 1) / 8;
        }
        const double cached = price_all(cache, 128, 1000);
        best_first = first < best_first ? first : best_first;
        best_kept = kept < best_kept ? kept : best_kept;
        best_cached = cached < best_cached ? cached : best_cached;
        gal_price_cache_free(cache);
        const double fresh = price_space(plan, durations, &space_count);
        best_new = fresh < best_new ? fresh : best_new;
    }
    printf("price, first of structure    %10.3f us   mean of %u, of 22 structures\n", best_first * 1e6, 2 * STRATEGIES);
    printf("                             the next: mean of the %u prices of a stage's whole space, from nothing\n",
           space_count);
    report("price, new", best_new, 10e-6, "us", 1e-6);
    report("price, structure kept", best_kept, 5e-6, "us", 1e-6);
    report("price, cached", best_cached, 0.1e-6, "us", 1e-6);
}

int main(void)
{
    gal_error err = {0};
    gal_plan plan;
    gal_durations *durations = NULL;
    describe(&plan);
    fill(&plan);
    check(gal_plan_check(&plan, "", &err), &err);
    check(gal_durations_create_analytic(&plan.cluster, &durations, &err), &err);
    bench_whole(&plan, durations);
    bench_prices(&plan, durations);
    gal_durations_free(durations);
    gal_plan_free(&plan);
    return missed > 0 ? GAL_NO : GAL_OK;
}
