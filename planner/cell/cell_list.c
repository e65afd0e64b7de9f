#include "planner/cell/cell_list.h"

#include <stdlib.h>

#include "schemas/base/workers.h"

/* Fewer than MANY are priced before another thread has begun. Of fewer than MOST the steps of cells are short beside
 * what cells taken at the same time do not spare each other. */
enum { MANY_STRATEGIES = 1000, MOST_STRATEGIES = 10000 };

static gal_u32_list batches_of(const gal_search_request *request)
{
    const gal_u32_list own = {1, {request->model->global_batch_samples}};
    return request->batches.count > 0 ? request->batches : own;
}

static gal_u32_list microbatch_counts_of(const gal_search_request *request, uint32_t batch)
{
    gal_u32_list list = request->microbatch_counts;
    for (uint32_t m = 1; request->microbatch_counts.count == 0 && m <= batch && batch % m == 0; m *= 2) {
        list.value[list.count++] = m;
    }
    return list;
}

static gal_u32_list pp_degrees_of(const gal_search_request *request)
{
    const uint32_t devices = gal_durations_cluster(request->durations)->device_count;
    gal_u32_list list = request->pp_degrees;
    for (uint32_t p = 1; request->pp_degrees.count == 0 && p <= devices && p <= GAL_STAGES_MAX; p++) {
        if (devices % p == 0 && p <= gal_model_block_count(request->model)) {
            list.value[list.count++] = p;
        }
    }
    return list;
}

gal_code gal_search_cells(const gal_search_request *request, gal_cell_numbers **out, uint32_t *count, gal_error *err)
{
    const gal_u32_list batches = batches_of(request);
    const gal_u32_list pp_degrees = pp_degrees_of(request);
    *count = 0;
    *out = calloc((size_t)batches.count * GAL_U32_LIST_MAX * GAL_U32_LIST_MAX, sizeof **out);
    if (*out == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t b = 0; b < batches.count; b++) {
        const gal_u32_list microbatches = microbatch_counts_of(request, batches.value[b]);
        for (uint32_t m = 0; m < microbatches.count; m++) {
            for (uint32_t p = 0; p < pp_degrees.count; p++) {
                (*out)[(*count)++] = (gal_cell_numbers){batches.value[b], microbatches.value[m], pp_degrees.value[p]};
            }
        }
    }
    return GAL_OK;
}

gal_cell_spec gal_search_cell_spec(const gal_search_request *request, const gal_cell_numbers *numbers,
                                   gal_price_cache *cache)
{
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const uint64_t memory = request->memory_bytes == 0 ? cluster->device.memory_bytes : request->memory_bytes;
    const uint64_t fixed = gal_durations_fixed_bytes(request->durations);
    return (gal_cell_spec){.model = request->model,
                           .durations = request->durations,
                           .cache = cache,
                           .space = &request->space,
                           .moving = request->moving,
                           .device_count = cluster->device_count,
                           .pp_degree = numbers->pp_degree,
                           .microbatch_count = numbers->microbatch_count,
                           .global_batch_samples = numbers->global_batch_samples,
                           .schedule = request->schedule,
                           .chunk_count = request->chunk_count,
                           .prefetch_depth = request->prefetch_depth,
                           .arena_limit_bytes = memory > fixed ? memory - fixed : 0,
                           .host_limit_bytes = request->host_memory_bytes,
                           .storage_limit_bytes = request->storage_bytes};
}

static size_t room_of(const gal_search_request *request)
{
    return gal_space_room(&request->space, gal_durations_cluster(request->durations)->device_count);
}

uint32_t gal_search_cells_at_once(const gal_search_request *request)
{
    return room_of(request) >= MOST_STRATEGIES ? GAL_CELLS_AT_ONCE : 1;
}

static uint32_t thread_count_of(const gal_search_request *request)
{
    const uint32_t wanted = request->thread_count > 0 ? request->thread_count : gal_workers_cores();
    const uint32_t most = wanted < GAL_SEARCH_THREADS_MAX ? wanted : GAL_SEARCH_THREADS_MAX;
    return room_of(request) >= MANY_STRATEGIES ? most : 1;
}

gal_code gal_search_cache_create(const gal_search_request *request, gal_price_cache **out, gal_error *err)
{
    return gal_price_cache_create_parts(request->model, request->durations, thread_count_of(request), out, err);
}
