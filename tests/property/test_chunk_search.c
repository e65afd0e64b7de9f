/* Searches with chunks in the space: what comes back is legal, within the memory by its own programs, no slower than
 * without chunks and never faster than its bound, whatever size its chunks are given. And two machines: where latencies
 * make chunks better than matrices, and where waiting for a whole chunk makes them worse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/objective.h"
#include "planner/cell/finalist.h"
#include "planner/certificate/claims.h"
#include "planner/search/chunk_search.h"
#include "planner/search/host_limit.h"
#include "tests/support/random_search.h"

enum { SEEDS = 24 };
static const double rounding = 1e-9;

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        fail_msg("%s", err->text);
    }
}

static uint32_t chunk_runs(const gal_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        count += plan->run[r].strategy.shard_unit == GAL_SHARD_CHUNK;
    }
    return count;
}

static void search_chunks(const gal_random_search *search, bool chunks, uint64_t memory, gal_search_result *out)
{
    gal_error err = {0};
    gal_search_request request = search->request;
    request.model = &search->model;
    request.memory_bytes = memory;
    request.ranks_by_simulation = true;
    request.space.chunk = chunks;
    must(gal_chunk_search(&request, out, &err), &err);
}

static double objective_of(const gal_random_search *search, const gal_plan *plan)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    double seconds = 0.0;
    must(gal_price_cache_create(&search->model, search->durations, &cache, &err), &err);
    must(gal_plan_objective(cache, search->durations, plan, &seconds, &err), &err);
    gal_price_cache_free(cache);
    return seconds;
}

/* The bound is one of the plan with chunks of other sizes too, as far as they are of the space. */
static void check_other_sizes(const gal_random_search *search, const gal_plan *plan)
{
    gal_plan other = *plan;
    other.run = malloc(plan->run_count * sizeof *other.run);
    assert_non_null(other.run);
    for (uint32_t halvings = 0; halvings < 3; halvings++) {
        for (uint32_t r = 0; r < plan->run_count; r++) {
            other.run[r] = plan->run[r];
            other.run[r].strategy.chunk_elements >>= halvings;
        }
        assert_true(objective_of(search, &other) >= plan->lower_bound_seconds * (1.0 - rounding));
    }
    free(other.run);
}

static void check_plan(const gal_random_search *search, const gal_plan *plan, uint64_t memory)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    gal_program *programs[GAL_STAGES_MAX];
    must(gal_lower_plan(plan, programs, &err), &err);
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        assert_int_equal(plan->stage[p].predicted_bytes, programs[p]->arena_bytes + plan->fixed_bytes);
        assert_true(plan->stage[p].predicted_bytes <= memory);
        gal_program_free(programs[p]);
    }
    must(gal_price_cache_create(&search->model, search->durations, &cache, &err), &err);
    must(gal_claims_check_plan(cache, search->durations, plan, &err), &err);
    must(gal_claims_check_bound(cache, search->durations, plan, &err), &err);
    gal_price_cache_free(cache);
}

typedef struct counts {
    uint32_t chunks, tight;
} counts;

static double rate(const gal_search_result *result)
{
    return result->finalist[0].global_batch_samples / result->finalist[0].simulated_seconds;
}

static void check_under(const gal_random_search *search, uint64_t memory, gal_search_result *out, uint32_t *chunks)
{
    gal_search_result plain = {0};
    search_chunks(search, false, memory, &plain);
    search_chunks(search, true, memory, out);
    assert_true(out->feasible || !plain.feasible);
    if (out->feasible) {
        const uint64_t most = memory > 0 ? memory : search->profile.cluster.device.memory_bytes;
        assert_true(!plain.feasible || rate(out) >= rate(&plain) * (1.0 - rounding));
        assert_true(out->lower_bound_seconds <= out->finalist[0].objective_seconds * (1.0 + rounding));
        check_plan(search, &out->finalist[0].plan, most);
        *chunks += chunk_runs(&out->finalist[0].plan) > 0;
        check_other_sizes(search, &out->finalist[0].plan);
    }
    gal_search_result_free(&plain);
}

/* With all memory, then with less than that plan takes. */
static void random_machines(void **state)
{
    (void)state;
    counts found = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gal_random_search search;
        gal_search_result all = {0}, tight = {0};
        gal_random_search_create(seed, true, &search);
        search.request.gap = 0.0;
        check_under(&search, 0, &all, &found.chunks);
        if (all.feasible) {
            check_under(&search, all.finalist[0].peak_bytes * 3 / 4, &tight, &found.tight);
        }
        gal_search_result_free(&all);
        gal_search_result_free(&tight);
        gal_random_search_free(&search);
    }
    print_message("%u of %u plans have chunks, with less memory %u\n", found.chunks, SEEDS, found.tight);
    assert_true(found.chunks >= SEEDS / 4 && found.tight > 0);
}

/* ZeRO-3 over 4 devices, 6 layers, links as said; nothing slows anything. */
static void create_zero_3(double latency_seconds, double bytes_per_second, gal_random_search *out)
{
    gal_error err = {0};
    memset(out, 0, sizeof *out);
    gal_model_defaults(&out->model);
    out->model.layer_count = 6;
    out->model.hidden = 128;
    out->model.head_count = 4;
    out->model.ffn_hidden = 512;
    out->model.sequence_length = 64;
    out->model.vocabulary = 256;
    out->model.global_batch_samples = 8;
    gal_cluster cluster = {.name = "four",
                           .device_count = 4,
                           .device = {.kind = "d",
                                      .memory_bytes = UINT64_C(1) << 34,
                                      .fp32_flops_per_second = 1e12,
                                      .fp64_flops_per_second = 5e11,
                                      .memory_bytes_per_second = 1e11},
                           .level_count = 1,
                           .level = {{.name = "link",
                                      .span_devices = 4,
                                      .latency_seconds = latency_seconds,
                                      .bytes_per_second = bytes_per_second}}};
    gal_profile_analytic(&cluster, &out->profile);
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        out->profile.slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = 1.0;
    }
    gal_random_search_renew(out);
    out->request = (gal_search_request){.durations = out->durations,
                                        .profile_hash = "",
                                        .microbatch_counts = {1, {1}},
                                        .pp_degrees = {1, {1}},
                                        .schedule = GAL_SCHEDULE_1F1B,
                                        .prefetch_depth = 2,
                                        .label_limit = 20000};
    must(gal_space_parse("zero3", &out->request.space, &err), &err);
}

/* The plan of matrices with all that may be in chunks made so, at the first size: objective and simulated seconds. */
static void in_chunks(const gal_random_search *search, const gal_finalist *matrices, gal_finalist *out)
{
    gal_error err = {0};
    gal_search_request request = search->request;
    request.model = &search->model;
    *out = *matrices;
    out->plan.stage = malloc(out->plan.stage_count * sizeof *out->plan.stage);
    out->plan.run = malloc(out->plan.run_count * sizeof *out->plan.run);
    assert_true(out->plan.stage != NULL && out->plan.run != NULL);
    memcpy(out->plan.stage, matrices->plan.stage, out->plan.stage_count * sizeof *out->plan.stage);
    memcpy(out->plan.run, matrices->plan.run, out->plan.run_count * sizeof *out->plan.run);
    for (uint32_t r = 0; r < out->plan.run_count; r++) {
        out->plan.run[r].strategy.shard_unit = GAL_SHARD_CHUNK;
    }
    must(gal_chunk_settle(search->durations, 0.95, &out->plan, &err), &err);
    must(gal_finalist_predict(&request, out, &err), &err);
    out->objective_seconds = objective_of(search, &out->plan);
}

/* Messages of 256 to 1,024 KiB, of which a millisecond of latency is most: chunks save nearly all of them. */
static void latencies_ask_for_chunks(void **state)
{
    (void)state;
    gal_random_search search;
    gal_search_result plain = {0}, chunks = {0};
    create_zero_3(1e-3, 1e11, &search);
    search_chunks(&search, false, 0, &plain);
    search_chunks(&search, true, 0, &chunks);
    assert_true(plain.feasible && chunks.feasible && chunk_runs(&chunks.finalist[0].plan) > 0);
    print_message("latencies: matrices %.4g s, chunks %.4g s\n", plain.finalist[0].simulated_seconds,
                  chunks.finalist[0].simulated_seconds);
    assert_true(chunks.finalist[0].simulated_seconds < 0.7 * plain.finalist[0].simulated_seconds);
    assert_true(chunks.finalist[0].objective_seconds < 0.7 * plain.finalist[0].objective_seconds);
    gal_search_result_free(&plain);
    gal_search_result_free(&chunks);
    gal_random_search_free(&search);
}

/* No latency, links that take about as long as compute: the first product of a chunk waits for all of it, and nothing
 * is saved. By price and by simulation. */
static void waiting_asks_for_matrices(void **state)
{
    (void)state;
    gal_random_search search;
    gal_search_result plain = {0}, chunks = {0};
    gal_finalist forced;
    create_zero_3(0.0, 1e9, &search);
    search_chunks(&search, false, 0, &plain);
    search_chunks(&search, true, 0, &chunks);
    assert_true(plain.feasible && chunks.feasible);
    assert_int_equal(chunk_runs(&chunks.finalist[0].plan), 0);
    in_chunks(&search, &plain.finalist[0], &forced);
    assert_true(chunk_runs(&forced.plan) > 0);
    print_message("waiting: matrices %.4g s (price %.4g), chunks %.4g s (price %.4g)\n",
                  plain.finalist[0].simulated_seconds, plain.finalist[0].objective_seconds, forced.simulated_seconds,
                  forced.objective_seconds);
    assert_true(forced.objective_seconds > plain.finalist[0].objective_seconds);
    assert_true(forced.simulated_seconds > plain.finalist[0].simulated_seconds);
    assert_true(forced.peak_bytes > plain.finalist[0].peak_bytes);
    gal_plan_free(&forced.plan);
    gal_search_result_free(&plain);
    gal_search_result_free(&chunks);
    gal_random_search_free(&search);
}

/* A ring of 4 sends 3 times a quarter of m bytes, in 3 (1 ms + m / 4 / 1 GB/s): of bytes alone 0.75 m ns. 95 % of the
 * rate of messages without end are at 19 ms of these: 25.3 MB; that of the largest message, 1 GiB, is 99.6 % of it. */
static void messages_reach_a_share(void **state)
{
    (void)state;
    gal_random_search search;
    const uint32_t level_counts[GAL_LINK_LEVELS_MAX] = {4, 1, 1, 1};
    create_zero_3(1e-3, 1e9, &search);
    const double share = 0.95;
    const uint64_t elements =
        gal_chunk_message_elements(search.durations, GAL_OP_ALL_GATHER, GAL_FP32, level_counts, share);
    const uint64_t most = (uint64_t)GAL_CHUNK_ELEMENTS_MOST * 4;
    const double all = gal_collective_seconds(search.durations, GAL_OP_ALL_GATHER, level_counts, most, NULL);
    const double one = gal_collective_seconds(search.durations, GAL_OP_ALL_GATHER, level_counts, 4 * elements, NULL);
    const double less =
        gal_collective_seconds(search.durations, GAL_OP_ALL_GATHER, level_counts, 4 * (elements - elements / 12), NULL);
    assert_true(4.0 * (double)elements / one >= share * (double)most / all);
    assert_true(4.0 * (double)(elements - elements / 12) / less < share * (double)most / all);
    gal_random_search_free(&search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_reach_a_share),
                                       cmocka_unit_test(latencies_ask_for_chunks),
                                       cmocka_unit_test(waiting_asks_for_matrices), cmocka_unit_test(random_machines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
