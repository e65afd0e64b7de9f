#include "planner/least/least.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/dual.h"
#include "planner/bound/screen.h"
#include "planner/cell/finalist.h"
#include "planner/cell/uniform.h"
#include "planner/least/least_cell.h"

#define ANY_BYTES ((uint64_t)1 << 60)

/* A cell whose numbers divide. */
typedef struct floored {
    gal_cell_numbers numbers;
    double least_bytes; /* no plan has less */
} floored;

typedef struct hunt {
    gal_search_request request;
    uint32_t device_count; /* the cluster of the durations may have more: bytes are the same */
    gal_price_cache *cache;
    gal_block_types types;
    gal_screens *screens;
    floored *cell; /* the lowest floor first */
    uint32_t cell_count;
} hunt;

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* ---- the cells ---- */

static int lowest_first(const void *x, const void *y)
{
    const floored *a = x;
    const floored *b = y;
    if (a->least_bytes != b->least_bytes) {
        return a->least_bytes < b->least_bytes ? -1 : 1;
    }
    if (a->numbers.global_batch_samples != b->numbers.global_batch_samples) {
        return a->numbers.global_batch_samples < b->numbers.global_batch_samples ? -1 : 1;
    }
    if (a->numbers.pp_degree != b->numbers.pp_degree) {
        return a->numbers.pp_degree < b->numbers.pp_degree ? -1 : 1;
    }
    return a->numbers.microbatch_count < b->numbers.microbatch_count ? -1 : 1;
}

static gal_cell_spec spec_of(const hunt *h, const gal_cell_numbers *numbers)
{
    gal_cell_spec spec = gal_search_cell_spec(&h->request, numbers, h->cache);
    spec.device_count = h->device_count;
    return spec;
}

static gal_code floor_cells(hunt *h, const gal_cell_numbers *numbers, uint32_t count, gal_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        floored *cell = &h->cell[h->cell_count];
        gal_error refusal = {0};
        double seconds = 0.0;
        *cell = (floored){.numbers = numbers[i]};
        const gal_cell_spec spec = spec_of(h, &numbers[i]);
        if (gal_cell_refused(&spec, &refusal) != GAL_OK ||
            (gal_search_is_uniform(&h->request) && gal_uniform_refused(&spec, &refusal) != GAL_OK)) {
            continue;
        }
        const gal_code code = gal_screen_floor(h->screens, &spec, &seconds, &cell->least_bytes, err);
        if (code != GAL_OK) {
            return code;
        }
        h->cell_count += cell->least_bytes < HUGE_VAL;
    }
    return GAL_OK;
}

static gal_code hunt_create(hunt *h, const gal_search_request *request, gal_error *err)
{
    gal_code code = GAL_OK;
    *h = (hunt){.request = *request, .device_count = gal_durations_cluster(request->durations)->device_count};
    GAL_TRY(gal_block_types_create(request->model, request->durations, &h->types, err));
    GAL_TRY(gal_screens_create(request->model, request->durations, &h->types, &h->request.space, &h->screens, err));
    GAL_TRY(gal_price_cache_create(request->model, request->durations, &h->cache, err));
cleanup:
    return code;
}

static gal_code list_cells(hunt *h, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cell_numbers *numbers = NULL;
    uint32_t count = 0;
    GAL_TRY(gal_search_cells(&h->request, &numbers, &count, err));
    free(h->cell);
    h->cell = calloc((size_t)count + 1, sizeof *h->cell);
    h->cell_count = 0;
    if (h->cell == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    GAL_TRY(floor_cells(h, numbers, count, err));
    qsort(h->cell, h->cell_count, sizeof *h->cell, lowest_first);
cleanup:
    free(numbers);
    return code;
}

static void hunt_free(hunt *h)
{
    free(h->cell);
    gal_price_cache_free(h->cache);
    gal_screens_free(h->screens);
    gal_block_types_free(&h->types);
    *h = (hunt){0};
}

/* Of uniform plans the smallest is met on the way to the best. */
static gal_code solve_uniform(const gal_search_request *request, const gal_cell_spec *spec, gal_least_answer *out,
                              gal_error *err)
{
    gal_uniform_answer answer = {0};
    gal_search_result scratch = {0};
    gal_error why = {0};
    const uint64_t limit = spec->arena_limit_bytes;
    gal_cell_spec none = *spec;
    none.arena_limit_bytes = 0; /* none is to be priced */
    gal_finalist *finalist = gal_finalist_add(request, &none, &scratch);
    if (finalist == NULL) {
        return out_of_memory(err);
    }
    const gal_code code = gal_uniform_solve(&none, &finalist->plan, &answer, &why);
    gal_search_result_free(&scratch);
    if (code != GAL_OK && code != GAL_NO) {
        return gal_fail(err, code, "%s", why.text);
    }
    out->found = code == GAL_OK && answer.least_bytes > 0 && answer.least_bytes <= limit;
    out->bytes = answer.least_bytes;
    out->bound_bytes = out->found ? answer.least_bytes : UINT64_MAX;
    return GAL_OK;
}

static gal_code solve(const hunt *h, const floored *cell, uint64_t limit_bytes, gal_least_goal goal,
                      gal_least_answer *out, gal_error *err)
{
    gal_cell_spec spec = spec_of(h, &cell->numbers);
    spec.arena_limit_bytes = limit_bytes;
    return gal_search_is_uniform(&h->request) ? solve_uniform(&h->request, &spec, out, err)
                                              : gal_least_cell(&spec, &h->types, goal, out, err);
}

/* ---- memory ---- */

static gal_code find_memory(const hunt *h, gal_least_memory *out, gal_error *err)
{
    gal_code code = GAL_OK;
    uint64_t known = ANY_BYTES;
    out->bound_bytes = UINT64_MAX;
    for (uint32_t i = 0; i < h->cell_count && h->cell[i].least_bytes < (double)known; i++) {
        gal_least_answer answer = {.stage = out->stage, .strategy = out->strategy};
        GAL_TRY(solve(h, &h->cell[i], known - 1, GAL_LEAST_SMALLEST, &answer, err));
        if (answer.found) {
            out->exists = true;
            out->bytes = known = answer.bytes;
            out->numbers = h->cell[i].numbers;
        }
        out->bound_bytes = answer.bound_bytes < out->bound_bytes ? answer.bound_bytes : out->bound_bytes;
    }
    if (out->exists) {
        const uint64_t fixed = gal_durations_fixed_bytes(h->request.durations);
        out->bound_bytes = (out->bound_bytes < out->bytes ? out->bound_bytes : out->bytes) + fixed;
        out->bytes += fixed;
    }
cleanup:
    return code;
}

gal_code gal_least_memory_find(const gal_search_request *request, gal_least_memory *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(request->model);
    hunt h = {0};
    gal_least_memory least = {0};
    GAL_TRY(hunt_create(&h, request, err));
    GAL_TRY(list_cells(&h, err));
    if (!gal_search_is_uniform(request)) {
        least.stage = calloc(blocks, sizeof *least.stage);
        least.strategy = calloc(blocks, sizeof *least.strategy);
        if (least.stage == NULL || least.strategy == NULL) {
            GAL_TRY(out_of_memory(err));
        }
    }
    GAL_TRY(find_memory(&h, &least, err));
    *out = least;
    least = (gal_least_memory){0};
cleanup:
    gal_least_memory_free(&least);
    hunt_free(&h);
    return code;
}

void gal_least_memory_free(gal_least_memory *least)
{
    free(least->strategy);
    free(least->stage);
    *least = (gal_least_memory){0};
}

/* ---- devices ---- */

uint32_t gal_node_devices(const gal_cluster *cluster)
{
    return cluster->level_count > 1 ? cluster->level[cluster->level_count - 2].span_devices : cluster->device_count;
}

/* Levels span multiples of those below. */
static bool can_have(const gal_cluster *cluster, uint32_t devices)
{
    uint32_t below = 1;
    for (uint32_t i = 0; i < cluster->level_count && cluster->level[i].span_devices < devices; i++) {
        below = cluster->level[i].span_devices;
    }
    return devices % below == 0;
}

uint32_t gal_device_counts_next(const gal_device_counts *counts, uint32_t devices)
{
    const uint32_t node = gal_node_devices(counts->cluster);
    uint32_t next = devices + 1;
    while (next < node && (node % next != 0 || !can_have(counts->cluster, next))) {
        next++;
    }
    if (next > node) {
        next = devices - devices % node + node;
    }
    return next <= counts->most && next > devices ? next : 0;
}

void gal_cluster_resize(gal_cluster *cluster, uint32_t devices)
{
    cluster->device_count = devices;
    while (cluster->level_count > 1 && cluster->level[cluster->level_count - 2].span_devices >= devices) {
        cluster->level_count--;
    }
    cluster->level[cluster->level_count - 1].span_devices = devices;
}

/* Whether a plan fits on the devices of the hunt. */
static gal_code try_devices(hunt *h, uint64_t limit_bytes, gal_least_devices *out, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(list_cells(h, err));
    for (uint32_t i = 0; i < h->cell_count && !out->exists && h->cell[i].least_bytes <= (double)limit_bytes; i++) {
        gal_least_answer answer = {0};
        GAL_TRY(solve(h, &h->cell[i], limit_bytes, GAL_LEAST_ANY, &answer, err));
        out->exists = answer.found;
        out->device_count = h->device_count;
        out->numbers = h->cell[i].numbers;
        out->proven = out->proven && (answer.found || answer.bound_bytes > limit_bytes);
    }
cleanup:
    return code;
}

/* Of chains bytes alone are asked for: one cluster, the largest, has them all. Uniform plans name their cluster. */
static gal_code hunt_on(hunt *h, gal_durations **durations, const gal_search_request *request,
                        const gal_device_counts *counts, const gal_cluster *cluster, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster largest = *counts->cluster;
    gal_search_request own = *request;
    gal_cluster_resize(&largest, counts->most);
    if (*durations == NULL || gal_search_is_uniform(request)) {
        hunt_free(h);
        gal_durations_free(*durations);
        *durations = NULL;
        GAL_TRY(gal_durations_create_analytic(gal_search_is_uniform(request) ? cluster : &largest, durations, err));
        own.durations = *durations;
        GAL_TRY(hunt_create(h, &own, err));
    }
    h->device_count = cluster->device_count;
cleanup:
    return code;
}

gal_code gal_least_devices_find(const gal_search_request *request, const gal_u32_list *pp_degrees,
                                const gal_device_counts *counts, gal_least_devices *out, gal_error *err)
{
    gal_code code = GAL_OK;
    hunt h = {0};
    gal_durations *durations = NULL;
    const uint32_t blocks = gal_model_block_count(request->model);
    const uint64_t fixed = gal_durations_fixed_bytes(request->durations);
    const uint64_t memory = request->memory_bytes != 0 ? request->memory_bytes : counts->cluster->device.memory_bytes;
    gal_least_devices least = {.proven = true};
    for (uint32_t devices = gal_device_counts_next(counts, 0); devices != 0 && !least.exists && memory > fixed;
         devices = gal_device_counts_next(counts, devices)) {
        gal_cluster cluster = *counts->cluster;
        gal_cluster_resize(&cluster, devices);
        const gal_u32_list degrees = gal_space_pp_degrees(&request->space, &cluster, pp_degrees,
                                                          blocks < GAL_STAGES_MAX ? blocks : GAL_STAGES_MAX);
        if (degrees.count > 0) {
            GAL_TRY(hunt_on(&h, &durations, request, counts, &cluster, err));
            h.request.pp_degrees = degrees;
            GAL_TRY(try_devices(&h, memory - fixed, &least, err));
        }
    }
    *out = least;
cleanup:
    hunt_free(&h);
    gal_durations_free(durations);
    return code;
}
