#include "planner/search/host_limit.h"

#include <stdlib.h>

#include "costmodel/objective.h"
#include "planner/cell/cell_list.h"
#include "planner/cell/finalist.h"
#include "planner/search/host_joint.h"
#include "planner/search/storage_fit.h"

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

/* What a request sets; of the host UINT64_MAX: none. */
static gal_host_limits limits_of(const gal_search_request *request)
{
    const gal_device *own = &gal_durations_cluster(request->durations)->device;
    const uint64_t host = request->host_memory_bytes > 0 ? request->host_memory_bytes : own->host_memory_bytes;
    const uint64_t storage = request->storage_bytes > 0 ? request->storage_bytes : own->storage_bytes;
    return (gal_host_limits){.host_bytes = host > 0 ? host : UINT64_MAX,
                             .storage_bytes = storage,
                             .masters = request->storage_masters && gal_dtype_is_narrow(request->model->compute_dtype),
                             .weights = request->storage_parameters};
}

static bool fits(const gal_plan *plan, const gal_host_limits *most)
{
    return gal_plan_host_bytes(plan) <= most->host_bytes && gal_plan_storage_bytes(plan) <= most->storage_bytes;
}

bool gal_host_limit_allows(const gal_search_request *request, const gal_plan *plan)
{
    const gal_host_limits most = limits_of(request);
    return fits(plan, &most);
}

static bool is_within(const gal_search_result *result, const gal_host_limits *most)
{
    return !result->feasible || fits(&result->finalist[0].plan, most);
}

/* Other finalists than the first. */
static void drop_beyond(gal_search_result *result, const gal_host_limits *most)
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

gal_code gal_search_take_bound(const gal_search_request *request, gal_search_result *whole, gal_search_result *found,
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

/* *best becomes the faster one within the limits, or what is said where nothing fits; the other is freed. */
static void keep_faster(gal_search_result *best, gal_search_result *other, const gal_host_limits *most)
{
    const bool legal = other->feasible && fits(&other->finalist[0].plan, most);
    const bool first = !best->feasible && (legal || !other->feasible);
    if (first || (legal && gal_finalist_rate(&other->finalist[0]) > gal_finalist_rate(&best->finalist[0]))) {
        const gal_search_result slower = *best;
        *best = *other;
        *other = slower;
    }
    gal_search_result_free(other);
    *other = (gal_search_result){0};
}

/* The winner alone, with as many of its moments on storage as the limits ask for. Not feasible: that cannot be. */
static gal_code store(const gal_search_request *request, const gal_host_limits *most, const gal_search_result *from,
                      gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    bool found = false;
    gal_search_result result = *from;
    gal_finalist *winner = malloc(sizeof *winner);
    *out = (gal_search_result){0};
    result.finalist = NULL;
    if (winner == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    *winner = from->finalist[0];
    GAL_TRY(gal_plan_copy(&from->finalist[0].plan, &winner->plan, err));
    result.finalist = winner;
    result.finalist_count = 1;
    GAL_TRY(gal_storage_fit(request->cache, most, &winner->plan, &found, err));
    if (found) {
        GAL_TRY(gal_plan_objective(request->cache, request->durations, &winner->plan, &winner->objective_seconds, err));
        winner->plan.objective_seconds = winner->objective_seconds;
        GAL_TRY(gal_finalist_predict(request, winner, err));
        *out = result;
        winner = NULL;
    }
cleanup:
    if (winner != NULL && result.finalist != NULL) {
        gal_plan_free(&winner->plan);
    }
    free(winner);
    return code;
}

/* *best becomes what of `from` is within the limits, if it is faster: as it is, or else with as many moments on storage
 * as it needs there, be it none. `from` is freed unless it is taken. */
static gal_code consider(const gal_search_request *request, const gal_host_limits *most, gal_search_result *from,
                         gal_search_result *best, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result stored = {0};
    if (from->feasible) {
        GAL_TRY(store(request, most, from, &stored, err));
        keep_faster(best, &stored, most);
    }
    keep_faster(best, from, most);
cleanup:
    return code;
}

/* With less to be offloaded, one way after the other left out, until the first plan within the limits. */
static gal_code leave_out(const gal_search_request *request, const gal_host_limits *most, gal_search_result *best,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    bool within = false;
    gal_search_result found = {0};
    gal_search_request less = *request;
    less.is_short = true;
    while (less.space.offload && !within) {
        less.space.offload_left_out++;
        less.space.offload = less.space.offload_left_out < GAL_SPACE_OFFLOADS;
        GAL_TRY(gal_search(&less, &found, err));
        within = is_within(&found, most);
        GAL_TRY(consider(request, most, &found, best, err));
    }
cleanup:
    gal_search_result_free(&found);
    return code;
}

/* Uniform plans are tried one by one, so those beyond the limits are left out on the way; of moments half and all may
 * be on storage, and then as many as are needed. */
static gal_code search_uniform(const gal_search_request *request, const gal_host_limits *most,
                               const gal_search_result *whole, gal_search_result *best, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result found = {0};
    gal_search_request within = *request;
    within.host_memory_bytes = most->host_bytes;
    within.storage_bytes = most->storage_bytes;
    within.space.store_moments = most->storage_bytes > 0;
    within.space = gal_host_stored_space(&within, most);
    GAL_TRY(store(request, most, whole, &found, err));
    keep_faster(best, &found, most);
    GAL_TRY(gal_search(&within, &found, err));
    GAL_TRY(consider(request, most, &found, best, err));
cleanup:
    gal_search_result_free(&found);
    return code;
}

/* The fastest of all batches, each searched by itself: a charge of the host's memory is of one step. whole: of all of
 * them. known: as search_tightly has it. */
static gal_code search_jointly(const gal_search_request *request, const gal_host_limits *most,
                               const gal_search_result *whole, const gal_search_result *known, gal_search_result *best,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result own_whole = {0}, found = {0};
    const gal_u32_list own = {1, {request->model->global_batch_samples}};
    const gal_u32_list *batches = request->batches.count > 0 ? &request->batches : &own;
    for (uint32_t i = 0; i < batches->count; i++) {
        gal_search_request of_batch = *request;
        const gal_search_result *all = batches->count == 1 ? whole : &own_whole;
        const bool has_known = known->feasible && known->finalist[0].global_batch_samples == batches->value[i];
        of_batch.batches = (gal_u32_list){1, {batches->value[i]}};
        if (all == &own_whole) {
            GAL_TRY(gal_search(&of_batch, &own_whole, err));
        }
        if (!is_within(all, most)) {
            GAL_TRY(gal_host_joint(&of_batch, most, all, has_known ? &known->finalist[0] : NULL, &found, err));
            keep_faster(best, &found, most);
        } else if (own_whole.feasible) {
            keep_faster(best, &own_whole, most);
        }
        gal_search_result_free(&own_whole);
        own_whole = (gal_search_result){0};
    }
cleanup:
    gal_search_result_free(&found);
    gal_search_result_free(&own_whole);
    return code;
}

/* whole: what gal_search gives for the request, beyond the limits; it may become that of one batch. known: its plan, if
 * it has one, is within the limits, and *out will have none that is slower. *out: zeroed. */
static gal_code search_tightly(const gal_search_request *request, const gal_host_limits *most, gal_search_result *whole,
                               const gal_search_result *known, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool uniform = gal_search_is_uniform(request);
    GAL_TRY(uniform ? search_uniform(request, most, whole, out, err)
                    : search_jointly(request, most, whole, known, out, err));
    const bool claims = out->feasible && !uniform; /* a bound of its own */
    if (!out->feasible && !uniform) {
        GAL_TRY(leave_out(request, most, out, err));
    }
    if (out->feasible && !claims) {
        GAL_TRY(gal_search_take_bound(request, whole, out, err));
        drop_beyond(out, most);
    }
cleanup:
    return code;
}

/* request: without limits, which gal_search reads of uniform plans. With storage there are more plans than a search can
 * always try, so the best one without it is looked for first: uniform plans are all tried. */
static gal_code search_within(const gal_search_request *request, const gal_host_limits *most, gal_search_result *out,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_host_limits without = {.host_bytes = most->host_bytes};
    const gal_search_result none = {0};
    gal_search_result whole = {0}, known = {0}, best = {0};
    GAL_TRY(gal_search(request, &whole, err));
    if (!request->space.offload || is_within(&whole, most)) {
        drop_beyond(&whole, most);
        *out = whole;
        whole = (gal_search_result){0};
        goto cleanup;
    }
    if (most->storage_bytes > 0 && !gal_search_is_uniform(request)) {
        GAL_TRY(search_tightly(request, &without, &whole, &none, &known, err));
    }
    GAL_TRY(search_tightly(request, most, &whole, &known, &best, err));
    if (!best.feasible) {
        best.beyond_host_bytes = gal_plan_host_bytes(&whole.finalist[0].plan);
    }
    *out = best;
    best = (gal_search_result){0};
cleanup:
    gal_search_result_free(&best);
    gal_search_result_free(&known);
    gal_search_result_free(&whole);
    return code;
}

gal_code gal_host_limited_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_host_limits most = limits_of(request);
    gal_price_cache *own = NULL;
    gal_search_request with_cache = *request;
    with_cache.host_memory_bytes = 0;
    if (request->cache == NULL) {
        GAL_TRY(gal_search_cache_create(request, &own, err));
        with_cache.cache = own;
    }
    GAL_TRY(search_within(&with_cache, &most, out, err));
cleanup:
    gal_price_cache_free(own);
    return code;
}
