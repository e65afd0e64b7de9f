#include "planner/host_limit.h"

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

/* The limit that a request sets; UINT64_MAX: none. */
static uint64_t limit_of(const gal_search_request *request)
{
    const uint64_t own = gal_durations_cluster(request->durations)->device.host_memory_bytes;
    const uint64_t limit = request->host_memory_bytes > 0 ? request->host_memory_bytes : own;
    return limit > 0 ? limit : UINT64_MAX;
}

static bool is_within(const gal_search_result *result, uint64_t limit_bytes)
{
    return !result->feasible || gal_plan_host_bytes(&result->finalist[0].plan) <= limit_bytes;
}

/* Other finalists than the first. */
static void drop_beyond(gal_search_result *result, uint64_t limit_bytes)
{
    uint32_t kept = result->feasible ? 1 : 0;
    for (uint32_t i = kept; i < result->finalist_count; i++) {
        if (gal_plan_host_bytes(&result->finalist[i].plan) <= limit_bytes) {
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

gal_code gal_host_limited_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint64_t limit = limit_of(request);
    gal_search_result whole = {0}, found = {0};
    gal_search_request less = *request;
    GAL_TRY(gal_search(request, &found, err));
    if (!request->space.offload || is_within(&found, limit)) {
        drop_beyond(&found, limit);
        goto cleanup;
    }
    whole = found;
    found = (gal_search_result){0};
    do {
        less.space.offload_left_out++;
        less.space.offload = less.space.offload_left_out < GAL_SPACE_OFFLOADS;
        gal_search_result_free(&found);
        GAL_TRY(gal_search(&less, &found, err));
    } while (less.space.offload && !is_within(&found, limit));
    if (found.feasible) {
        GAL_TRY(take_bound(request, &whole, &found, err));
        drop_beyond(&found, limit);
    }
cleanup:
    if (code == GAL_OK) {
        *out = found;
        found = (gal_search_result){0};
    }
    gal_search_result_free(&found);
    gal_search_result_free(&whole);
    return code;
}
