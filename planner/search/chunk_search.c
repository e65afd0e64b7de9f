#include "planner/search/chunk_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/objective.h"
#include "planner/cell/cell_list.h"
#include "planner/cell/finalist.h"
#include "planner/search/host_limit.h"
#include "planner/space/chunk_size.h"
#include "runtime/program/schedule.h"

/* Shares of the link's rate that messages are to reach: the first one as long as there is memory for its chunks. */
static const double shares[] = {0.95, 0.8, 0.5};
enum { SHARES = sizeof shares / sizeof shares[0], CANDIDATES = 4, LEAST_MESSAGE_ELEMENTS = 1 << 10, REFINEMENTS = 4 };

/* ---- messages ---- */

static double rate_of(const gal_durations *durations, gal_op op, gal_dtype dtype,
                      const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t elements)
{
    const uint64_t bytes = elements * gal_dtype_bytes(dtype);
    return (double)bytes / gal_collective_seconds(durations, op, level_counts, bytes, NULL);
}

uint64_t gal_chunk_message_elements(const gal_durations *durations, gal_op op, gal_dtype dtype,
                                    const uint32_t level_counts[GAL_LINK_LEVELS_MAX], double share)
{
    const double wanted = share * rate_of(durations, op, dtype, level_counts, GAL_CHUNK_ELEMENTS_MOST);
    uint64_t enough = LEAST_MESSAGE_ELEMENTS;
    while (enough < GAL_CHUNK_ELEMENTS_MOST && rate_of(durations, op, dtype, level_counts, enough) < wanted) {
        enough *= 2;
    }
    uint64_t short_of = enough > LEAST_MESSAGE_ELEMENTS ? enough / 2 : 0;
    for (uint32_t i = 0; i < REFINEMENTS; i++) {
        const uint64_t middle = short_of + (enough - short_of) / 2;
        if (middle > 0 && rate_of(durations, op, dtype, level_counts, middle) >= wanted) {
            enough = middle;
        } else {
            short_of = middle;
        }
    }
    return enough;
}

/* What of a chunk's takes most of the time. */
static uint64_t message_elements(const gal_durations *durations, const gal_program *program, const gal_unit *chunk,
                                 double share)
{
    const gal_place_in_cluster place = {&program->atoms, program->device_count, program->stage, program->stage_count};
    const gal_op op = chunk->zero_stage == 3   ? GAL_OP_ALL_GATHER
                      : chunk->zero_stage == 0 ? GAL_OP_ALL_REDUCE
                                               : GAL_OP_REDUCE_SCATTER;
    const gal_dtype dtype = chunk->zero_stage == 3 ? program->dtype : gal_dtype_wide(program->dtype);
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    gal_group_level_counts(gal_durations_cluster(durations), &place,
                           chunk->zero_stage > 0 ? chunk->zero_group : chunk->sync_group, level_counts);
    return gal_chunk_message_elements(durations, op, dtype, level_counts, share);
}

/* ---- the units of a stage ---- */

/* Of the runs of a plan, how they are packed and what that is to reach. */
typedef struct run_units {
    gal_chunk_unit *unit; /* in the order of their first use; owned */
    uint32_t count, last_chunk, last_block;
    uint64_t block_elements, largest_block_elements; /* of the block at hand; of any */
    gal_chunk_rule rule;
} run_units;

static uint32_t run_of_block(const gal_plan *plan, uint32_t block)
{
    uint32_t run = 0;
    for (uint32_t end = plan->run[0].block_count; end <= block; end += plan->run[run].block_count) {
        run++;
    }
    return run;
}

/* The unit of the program that has the first tensor of a unit of another. */
static uint32_t unit_with(const gal_program *program, const gal_program *other, uint32_t unit)
{
    uint32_t tensor = UINT32_MAX;
    for (uint32_t i = 0; i < other->parameter_count && tensor == UINT32_MAX; i++) {
        tensor = other->parameter[i].unit == unit ? other->parameter[i].tensor : tensor;
    }
    for (uint32_t i = 0; i < program->parameter_count; i++) {
        if (program->parameter[i].tensor == tensor) {
            return program->parameter[i].unit;
        }
    }
    return UINT32_MAX;
}

static bool add_unit(run_units *to, const gal_unit *unit, uint32_t chunk)
{
    gal_chunk_unit *grown = realloc(to->unit, (to->count + 1) * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    to->unit = grown;
    to->unit[to->count] = (gal_chunk_unit){unit->used_elements, to->count == 0 || chunk != to->last_chunk};
    to->block_elements =
        (to->count > 0 && unit->model_block == to->last_block ? to->block_elements : 0) + unit->used_elements;
    to->largest_block_elements =
        to->block_elements > to->largest_block_elements ? to->block_elements : to->largest_block_elements;
    to->last_chunk = chunk;
    to->last_block = unit->model_block;
    to->count++;
    return true;
}

/* chunks: the stage in the largest chunks; matrices: in a unit each. What joins others there joins them here, up to a
 * size. */
static bool list_units(const gal_durations *durations, const gal_plan *plan, const gal_program *chunks,
                       const gal_program *matrices, double share, run_units *of)
{
    bool ok = true;
    for (uint32_t u = 0; u < matrices->unit_count && ok; u++) {
        const gal_unit *unit = &matrices->unit[u];
        const uint32_t in = unit_with(chunks, matrices, u);
        if (in == UINT32_MAX || strcmp(chunks->unit[in].name, gal_shard_unit_names[GAL_SHARD_CHUNK]) != 0) {
            continue;
        }
        const gal_unit *chunk = &chunks->unit[in];
        run_units *to = &of[run_of_block(plan, unit->model_block)];
        const uint64_t message = message_elements(durations, chunks, chunk, share);
        to->rule.shard_count = (uint32_t)(chunk->elements / chunk->shard_elements);
        to->rule.least_elements = message > to->rule.least_elements ? message : to->rule.least_elements;
        ok = add_unit(to, unit, in);
    }
    return ok;
}

static gal_code list_stages(const gal_durations *durations, const gal_plan *plan, double share, run_units *of,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *chunks = NULL, *matrices = NULL;
    gal_plan apart = *plan;
    apart.run = malloc(plan->run_count * sizeof *apart.run);
    if (apart.run == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunk sizes");
    }
    for (uint32_t r = 0; r < plan->run_count; r++) {
        apart.run[r] = plan->run[r];
        apart.run[r].strategy.shard_unit = GAL_SHARD_MATRIX;
        apart.run[r].strategy.chunk_elements = 0;
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        GAL_TRY(gal_lower(plan, s, &chunks, err));
        GAL_TRY(gal_lower(&apart, s, &matrices, err));
        if (!list_units(durations, plan, chunks, matrices, share, of)) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunk sizes"));
        }
        gal_program_free(chunks);
        gal_program_free(matrices);
        chunks = matrices = NULL;
    }
cleanup:
    gal_program_free(chunks);
    gal_program_free(matrices);
    free(apart.run);
    return code;
}

static gal_code size_run(run_units *units, gal_strategy *strategy, gal_error *err)
{
    uint64_t elements = 0;
    gal_chunk_rule *rule = &units->rule;
    rule->most_elements = GAL_CHUNK_ELEMENTS_MOST;
    if (units->largest_block_elements > rule->least_elements) {
        rule->least_elements = units->largest_block_elements;
    }
    gal_code code = units->count > 0 ? gal_chunk_size(units->unit, units->count, rule, &elements, err) : GAL_OK;
    if (elements == 0) {
        strategy->shard_unit = GAL_SHARD_MATRIX;
    }
    strategy->chunk_elements = (uint32_t)elements;
    return code;
}

gal_code gal_chunk_settle(const gal_durations *durations, double share, gal_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    run_units *of = calloc(plan->run_count, sizeof *of);
    if (of == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunk sizes");
    }
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy *strategy = &plan->run[r].strategy;
        strategy->chunk_elements = strategy->shard_unit == GAL_SHARD_CHUNK ? GAL_CHUNK_ELEMENTS_MOST : 0;
    }
    GAL_TRY(list_stages(durations, plan, share, of, err));
    for (uint32_t r = 0; r < plan->run_count; r++) {
        if (plan->run[r].strategy.shard_unit == GAL_SHARD_CHUNK) {
            GAL_TRY(size_run(&of[r], &plan->run[r].strategy, err));
        }
    }
cleanup:
    for (uint32_t r = 0; r < plan->run_count; r++) {
        free(of[r].unit);
    }
    free(of);
    return code;
}

/* ---- candidates ---- */

typedef struct chunking {
    const gal_search_request *request;
    gal_price_cache *cache;
    uint64_t memory_bytes;
    gal_search_result *found;
} chunking;

static double rate(const gal_search_request *request, const gal_finalist *f)
{
    return request->ranks_by_simulation ? f->global_batch_samples / f->simulated_seconds : gal_finalist_rate(f);
}

static bool copy_plan(const gal_plan *from, gal_plan *out)
{
    *out = *from;
    out->stage = malloc(from->stage_count * sizeof *out->stage);
    out->run = malloc(from->run_count * sizeof *out->run);
    if (out->stage == NULL || out->run == NULL) {
        free(out->stage);
        free(out->run);
        return false;
    }
    memcpy(out->stage, from->stage, from->stage_count * sizeof *out->stage);
    memcpy(out->run, from->run, from->run_count * sizeof *out->run);
    return true;
}

static bool may_be_chunk(const gal_strategy *s)
{
    return s->tp_mode == GAL_TP_1D && gal_strategy_degree(s, GAL_AXIS_DP) * gal_strategy_degree(s, GAL_AXIS_SDP) *
                                              gal_strategy_sequence_degree(s) >
                                          1;
}

/* Runs of other units become chunks too, if `all`. False: it has none. */
static bool mark_chunks(gal_plan *plan, bool all)
{
    bool any = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy *strategy = &plan->run[r].strategy;
        if (all && may_be_chunk(strategy)) {
            strategy->shard_unit = GAL_SHARD_CHUNK;
        }
        any = any || strategy->shard_unit == GAL_SHARD_CHUNK;
    }
    return any;
}

/* Takes a finalist's place in its cell if it is faster; else one of its own. Else it is freed. */
static gal_code take(chunking *c, gal_finalist *candidate, gal_error *err)
{
    gal_search_result *found = c->found;
    for (uint32_t i = 0; i < found->finalist_count; i++) {
        gal_finalist *at = &found->finalist[i];
        if (at->pp_degree == candidate->pp_degree && at->microbatch_count == candidate->microbatch_count &&
            at->global_batch_samples == candidate->global_batch_samples) {
            const bool faster = rate(c->request, candidate) > rate(c->request, at);
            gal_finalist slower = faster ? *at : *candidate;
            if (faster) {
                *at = *candidate;
            }
            gal_plan_free(&slower.plan);
            return GAL_OK;
        }
    }
    gal_finalist *grown = realloc(found->finalist, (found->finalist_count + 1) * sizeof *grown);
    if (grown == NULL) {
        gal_plan_free(&candidate->plan);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunks");
    }
    found->finalist = grown;
    found->finalist[found->finalist_count++] = *candidate;
    return GAL_OK;
}

static gal_code try_share(chunking *c, const gal_finalist *from, bool all, double share, bool *fits, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist candidate = *from;
    *fits = true;
    if (!copy_plan(&from->plan, &candidate.plan)) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunks");
    }
    candidate.peak_bytes = 0;
    candidate.plan.certificate = (gal_certificate){0};
    if (!mark_chunks(&candidate.plan, all)) {
        goto cleanup;
    }
    GAL_TRY(gal_chunk_settle(c->request->durations, share, &candidate.plan, err));
    GAL_TRY(gal_finalist_predict(c->request, &candidate, err));
    *fits = candidate.peak_bytes <= c->memory_bytes && gal_host_limit_allows(c->request, &candidate.plan);
    if (*fits) {
        GAL_TRY(
            gal_plan_objective(c->cache, c->request->durations, &candidate.plan, &candidate.objective_seconds, err));
        candidate.plan.objective_seconds = candidate.bound_seconds = candidate.objective_seconds;
        code = take(c, &candidate, err);
        candidate.plan = (gal_plan){0};
    }
cleanup:
    gal_plan_free(&candidate.plan);
    return code;
}

static gal_code try_all(chunking *c, const gal_search_result *from, bool all, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < from->finalist_count && i < CANDIDATES; i++) {
        bool fits = false;
        for (uint32_t s = 0; s < SHARES && !fits; s++) {
            GAL_TRY(try_share(c, &from->finalist[i], all, shares[s], &fits, err));
        }
    }
cleanup:
    return code;
}

/* The fastest first; the others as they came. */
static void put_first(const gal_search_request *request, gal_search_result *found)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < found->finalist_count; i++) {
        best = rate(request, &found->finalist[i]) > rate(request, &found->finalist[best]) ? i : best;
    }
    if (best > 0) {
        const gal_finalist first = found->finalist[best];
        memmove(&found->finalist[1], &found->finalist[0], best * sizeof first);
        found->finalist[0] = first;
    }
    found->feasible = found->finalist_count > 0;
}

/* ---- the whole ---- */

static gal_code search_with(const gal_search_request *request, gal_price_cache *cache, gal_search_result *found,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result whole = {0}, plain = {0};
    gal_search_request without = *request, relaxed = *request;
    const gal_device *device = &gal_durations_cluster(request->durations)->device;
    chunking c = {.request = request,
                  .cache = cache,
                  .memory_bytes = request->memory_bytes > 0 ? request->memory_bytes : device->memory_bytes,
                  .found = found};
    without.space.chunk = false;
    without.cache = relaxed.cache = cache;
    relaxed.finalist_count = request->finalist_count > CANDIDATES ? request->finalist_count : CANDIDATES;
    GAL_TRY(gal_host_limited_search(&without, found, err));
    GAL_TRY(gal_search(&relaxed, &whole, err));
    GAL_TRY(try_all(&c, &whole, false, err));
    plain.finalist_count = found->finalist_count;
    plain.finalist = malloc((found->finalist_count + 1) * sizeof *plain.finalist);
    if (plain.finalist == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunks"));
    }
    if (found->finalist_count > 0) { /* else it is NULL, which memcpy does not take */
        memcpy(plain.finalist, found->finalist, found->finalist_count * sizeof *plain.finalist);
    }
    GAL_TRY(try_all(&c, &plain, true, err));
    put_first(request, found);
    if (found->feasible) {
        gal_finalist *winner = &found->finalist[0];
        GAL_TRY(gal_search_take_bound(&relaxed, &whole, found, err));
        /* Prices of a pipeline in company need not fall with each message: what was found is a bound then. */
        const double seconds = winner->objective_seconds;
        gal_certificate *certificate = &winner->plan.certificate;
        winner->plan.lower_bound_seconds = fmin(winner->plan.lower_bound_seconds, seconds);
        winner->bound_seconds = fmin(winner->bound_seconds, seconds);
        found->lower_bound_seconds = fmin(found->lower_bound_seconds, seconds);
        certificate->searched_bound_seconds =
            certificate->searched_bound_seconds > seconds ? 0.0 : certificate->searched_bound_seconds;
    }
cleanup:
    free(plain.finalist);
    gal_search_result_free(&whole);
    return code;
}

gal_code gal_chunk_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_cache *own = NULL;
    gal_search_result found = {0};
    if (!request->space.chunk) {
        return gal_host_limited_search(request, out, err);
    }
    if (request->schedule == GAL_SCHEDULE_INTERLEAVED || gal_schedule_splits(request->schedule)) {
        return gal_fail(err, GAL_ERR_USAGE, "--space ...,chunk: not with --schedule %s, whose plans have one strategy",
                        gal_schedule_names[request->schedule]);
    }
    if (request->cache == NULL) {
        GAL_TRY(gal_search_cache_create(request, &own, err));
    }
    GAL_TRY(search_with(request, request->cache != NULL ? request->cache : own, &found, err));
    *out = found;
    found = (gal_search_result){0};
cleanup:
    gal_search_result_free(&found);
    gal_price_cache_free(own);
    return code;
}
