#include "planner/search/host_limit.h"

#include <string.h>

uint64_t gal_plan_host_bytes(const gal_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        const uint64_t bytes = plan->stage[p].predicted_host_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t gal_plan_storage_bytes(const gal_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        const uint64_t bytes = plan->stage[p].predicted_storage_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

typedef struct limits {
    uint64_t host_bytes, storage_bytes;
} limits;

/* What a request sets; of the host UINT64_MAX: none. */
static limits limits_of(const gal_search_request *request)
{
    const gal_device *own = &gal_durations_cluster(request->durations)->device;
    const uint64_t host = request->host_memory_bytes > 0 ? request->host_memory_bytes : own->host_memory_bytes;
    const uint64_t storage = request->storage_bytes > 0 ? request->storage_bytes : own->storage_bytes;
    return (limits){.host_bytes = host > 0 ? host : UINT64_MAX, .storage_bytes = storage};
}

static bool fits(const gal_plan *plan, const limits *most)
{
    return gal_plan_host_bytes(plan) <= most->host_bytes && gal_plan_storage_bytes(plan) <= most->storage_bytes;
}

static bool is_within(const gal_search_result *result, const limits *most)
{
    return !result->feasible || fits(&result->finalist[0].plan, most);
}

/* Other finalists than the first. */
static void drop_beyond(gal_search_result *result, const limits *most)
{
    uint32_t kept = result->feasible ? 1 : 0;
    for (uint32_t i = kept; i < result->finalist_count; i++) {
        if (fits(&result->finalist[i].plan, most)) {
            result->finalist[kept++] = result->finalist[i];
        } else {
            gal_plan_free(&result->finalist[i].plan);
        }
    }
    result->finalist_count = kept;
}

/* The bound of the whole space, of the batch of the plan that was found. whole: what a search in it gave. */
static gal_code take_bound(const gal_search_request *request, gal_search_result *whole, gal_search_result *found,
                           gal_error *err)
{
    gal_finalist *winner = &found->finalist[0];
    if (winner->global_batch_samples != whole->finalist[0].global_batch_samples) {
        gal_search_request of_batch = *request;
        of_batch.batches = (gal_u32_list){1, {winner->global_batch_samples}};
        gal_search_result_free(whole);
        const gal_code code = gal_search(&of_batch, whole, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    GAL_ASSERT(whole->feasible); /* it has the plan that was found */
    winner->plan.certificate = whole->finalist[0].plan.certificate;
    winner->plan.lower_bound_seconds = whole->finalist[0].plan.lower_bound_seconds;
    winner->bound_seconds = whole->finalist[0].bound_seconds;
    found->lower_bound_seconds = whole->lower_bound_seconds;
    found->unproven_cell_count += winner->objective_seconds > whole->lower_bound_seconds * (1.0 + request->gap);
    return GAL_OK;
}

/* *best becomes the faster one within the limits; the other is freed. */
static void keep_faster(gal_search_result *best, gal_search_result *other, const limits *most)
{
    const bool legal = other->feasible && fits(&other->finalist[0].plan, most);
    const bool faster =
        legal && (!best->feasible || gal_finalist_rate(&other->finalist[0]) > gal_finalist_rate(&best->finalist[0]));
    if (faster) {
        const gal_search_result slower = *best;
        *best = *other;
        *other = slower;
    }
    gal_search_result_free(other);
    *other = (gal_search_result){0};
}

/* With less to be offloaded, one way after the other left out, until the first plan within the limits. */
static gal_code leave_out(const gal_search_request *request, const limits *most, gal_search_result *found,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_request less = *request;
    do {
        less.space.offload_left_out++;
        less.space.offload = less.space.offload_left_out < GAL_SPACE_OFFLOADS;
        gal_search_result_free(found);
        *found = (gal_search_result){0};
        GAL_TRY(gal_search(&less, found, err));
    } while (less.space.offload && !is_within(found, most));
cleanup:
    return code;
}

/* With moments on storage, half of them and all. */
static gal_code try_storage(const gal_search_request *request, const limits *most, gal_search_result *best,
                            gal_error *err)
{
    static const uint32_t percents[] = {50, 100};
    gal_code code = GAL_OK;
    gal_search_result found = {0};
    gal_search_request stored = *request;
    for (size_t i = 0; most->storage_bytes > 0 && i < sizeof percents / sizeof percents[0]; i++) {
        stored.space.storage_percent = percents[i];
        GAL_TRY(gal_search(&stored, &found, err));
        keep_faster(best, &found, most);
    }
cleanup:
    gal_search_result_free(&found);
    return code;
}

gal_code gal_host_limited_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const limits most = limits_of(request);
    gal_search_result whole = {0}, found = {0}, ladder = {0};
    GAL_TRY(gal_search(request, &found, err));
    if (!request->space.offload || is_within(&found, &most)) {
        drop_beyond(&found, &most);
        goto cleanup;
    }
    whole = found;
    found = (gal_search_result){0};
    GAL_TRY(leave_out(request, &most, &ladder, err));
    GAL_TRY(try_storage(request, &most, &found, err));
    keep_faster(&ladder, &found, &most);
    found = ladder;
    ladder = (gal_search_result){0};
    if (found.feasible) {
        GAL_TRY(take_bound(request, &whole, &found, err));
        drop_beyond(&found, &most);
    }
cleanup:
    if (code == GAL_OK) {
        *out = found;
        found = (gal_search_result){0};
    }
    gal_search_result_free(&ladder);
    gal_search_result_free(&found);
    gal_search_result_free(&whole);
    return code;
}
