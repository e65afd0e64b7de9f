#include "planner/joint_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "schemas/plan_check.h"

/* A cell whose bound is this many times the best simulated plan is left: the objective strays from the simulation by
 * some 10 % at most. */
static const double hopeless = 1.25;

/* ---- from paths to plans ---- */

static gal_code write_runs(const gal_cell *cell, const gal_cell_answer *answer, gal_plan *plan)
{
    uint32_t stages = cell->spec.pp_degree;
    plan->stage = calloc(stages, sizeof *plan->stage);
    plan->run = calloc(cell->block_count, sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        return GAL_ERR_SYSTEM;
    }
    plan->stage_count = stages;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        gal_plan_stage *stage = &plan->stage[answer->stage[i]];
        bool first = i == 0 || answer->stage[i] != answer->stage[i - 1];
        if (first) {
            stage->first_run = plan->run_count;
        }
        if (first || answer->strategy[i] != answer->strategy[i - 1]) {
            plan->run[plan->run_count++] = (gal_plan_run){0, cell->strategy[answer->strategy[i]]};
            stage->run_count++;
        }
        plan->run[plan->run_count - 1].block_count++;
    }
    return GAL_OK;
}

/* Lowers and simulates; fills the predictions of the plan and of the finalist. */
static gal_code predict(const gal_search_request *request, gal_finalist *finalist, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan *plan = &finalist->plan;
    gal_simulation simulation = {0};
    gal_program **programs = calloc(plan->stage_count, sizeof *programs);
    if (programs == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(gal_plan_check(plan, "search: ", err));
    GAL_TRY(gal_lower_plan(plan, programs, err));
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        plan->stage[p].predicted_bytes = programs[p]->arena_bytes + plan->fixed_bytes;
        if (plan->stage[p].predicted_bytes > finalist->peak_bytes) {
            finalist->peak_bytes = plan->stage[p].predicted_bytes;
        }
    }
    GAL_TRY(gal_simulate(programs, plan->stage_count, request->durations, false, &simulation, err));
    finalist->simulated_seconds = plan->simulated_seconds = simulation.iteration_seconds;
cleanup:
    gal_simulation_free(&simulation);
    for (uint32_t p = 0; programs != NULL && p < plan->stage_count; p++) {
        gal_program_free(programs[p]);
    }
    free(programs);
    return code;
}

static gal_code add_finalist(const gal_search_request *request, const gal_cell *cell, const gal_cell_answer *answer,
                             gal_search_result *result, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist *grown = realloc(result->finalist, (result->finalist_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    result->finalist = grown;
    gal_finalist *finalist = &grown[result->finalist_count];
    memset(finalist, 0, sizeof *finalist);
    result->finalist_count++;
    gal_plan *plan = &finalist->plan;
    plan->model = *request->model;
    plan->cluster = *gal_durations_cluster(request->durations);
    strncpy(plan->profile_hash, request->profile_hash, sizeof plan->profile_hash - 1);
    plan->global_batch_samples = finalist->global_batch_samples = cell->spec.global_batch_samples;
    plan->microbatch_count = finalist->microbatch_count = cell->spec.microbatch_count;
    plan->pp_degree = finalist->pp_degree = cell->spec.pp_degree;
    plan->schedule = cell->spec.schedule;
    plan->prefetch_depth = cell->spec.prefetch_depth;
    plan->fixed_bytes = gal_durations_fixed_bytes(request->durations);
    plan->objective_seconds = finalist->objective_seconds = answer->seconds;
    finalist->bound_seconds = answer->bound;
    code = write_runs(cell, answer, plan);
    return code == GAL_OK ? predict(request, finalist, err) : gal_fail(err, code, "not enough memory to search");
}

/* ---- the outer loops ---- */

typedef struct outer {
    const gal_search_request *request;
    gal_search_result *result;
    gal_price_cache *cache;
    uint64_t arena_limit_bytes;
    gal_cell_answer answer;
    double seconds_per_sample; /* simulated, of the best finalist so far */
} outer;

static gal_code search_cell(outer *o, uint32_t batch, uint32_t microbatches, uint32_t pp_degree, gal_error *err)
{
    const gal_search_request *r = o->request;
    gal_cell *cell = NULL;
    gal_error refusal = {0};
    gal_cell_spec spec = {.model = r->model,
                          .durations = r->durations,
                          .cache = o->cache,
                          .space = &r->space,
                          .device_count = gal_durations_cluster(r->durations)->device_count,
                          .pp_degree = pp_degree,
                          .microbatch_count = microbatches,
                          .global_batch_samples = batch,
                          .schedule = r->schedule,
                          .prefetch_depth = r->prefetch_depth,
                          .arena_limit_bytes = o->arena_limit_bytes};
    gal_code code = gal_cell_create(&spec, &cell, &refusal);
    if (code == GAL_NO) {
        memcpy(o->result->refusal, refusal.text, sizeof o->result->refusal);
        return GAL_OK;
    }
    if (code != GAL_OK) {
        return gal_fail(err, code, "%s", refusal.text);
    }
    o->result->cell_count++;
    const gal_solve_settings settings = {.label_limit = r->label_limit,
                                         .few_labels = GAL_FEW_LABELS,
                                         .give_up_seconds = hopeless * batch * o->seconds_per_sample};
    code = gal_cell_solve(cell, &settings, &o->answer, err);
    o->result->label_count += o->answer.label_count;
    o->result->unproven_cell_count += !o->answer.given_up && o->answer.bound < o->answer.seconds;
    if (o->answer.least_bytes > 0 && (o->result->least_bytes == 0 || o->answer.least_bytes < o->result->least_bytes)) {
        o->result->least_bytes = o->answer.least_bytes;
    }
    if (code == GAL_OK && !o->answer.given_up && o->answer.seconds < HUGE_VAL) {
        code = add_finalist(r, cell, &o->answer, o->result, err);
    }
    if (code == GAL_OK && o->result->finalist_count > 0) {
        const gal_finalist *newest = &o->result->finalist[o->result->finalist_count - 1];
        o->seconds_per_sample = fmin(o->seconds_per_sample, newest->simulated_seconds / newest->global_batch_samples);
    }
    gal_cell_free(cell);
    return code;
}

static gal_code search_batch(outer *o, uint32_t batch, gal_error *err)
{
    const gal_search_request *r = o->request;
    uint32_t devices = gal_durations_cluster(r->durations)->device_count;
    gal_u32_list microbatches = r->microbatch_counts;
    for (uint32_t m = 1; r->microbatch_counts.count == 0 && m <= batch && batch % m == 0; m *= 2) {
        microbatches.value[microbatches.count++] = m;
    }
    gal_code code = GAL_OK;
    for (uint32_t i = 0; code == GAL_OK && i < microbatches.count; i++) {
        for (uint32_t p = 1; code == GAL_OK && r->pp_degrees.count == 0 && p <= devices; p++) {
            bool divides = devices % p == 0 && p <= gal_model_block_count(r->model) && p <= GAL_STAGES_MAX;
            code = divides ? search_cell(o, batch, microbatches.value[i], p, err) : GAL_OK;
        }
        for (uint32_t j = 0; code == GAL_OK && j < r->pp_degrees.count; j++) {
            code = search_cell(o, batch, microbatches.value[i], r->pp_degrees.value[j], err);
        }
    }
    return code;
}

static int faster_first(const void *x, const void *y)
{
    const gal_finalist *a = x;
    const gal_finalist *b = y;
    double rate_a = a->global_batch_samples / a->simulated_seconds;
    double rate_b = b->global_batch_samples / b->simulated_seconds;
    if (rate_a != rate_b) {
        return rate_a > rate_b ? -1 : 1;
    }
    if (a->pp_degree != b->pp_degree) {
        return a->pp_degree < b->pp_degree ? -1 : 1;
    }
    return a->microbatch_count < b->microbatch_count ? -1 : a->microbatch_count > b->microbatch_count;
}

static void conclude(gal_search_result *result)
{
    result->feasible = result->finalist_count > 0;
    if (!result->feasible) {
        return;
    }
    qsort(result->finalist, result->finalist_count, sizeof result->finalist[0], faster_first);
    gal_finalist *winner = &result->finalist[0];
    double bound = HUGE_VAL;
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        if (result->finalist[i].global_batch_samples == winner->global_batch_samples) {
            bound = fmin(bound, result->finalist[i].bound_seconds);
        }
    }
    result->lower_bound_seconds = bound;
    winner->plan.lower_bound_seconds = bound;
}

gal_code gal_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result result = {0};
    outer o = {.request = request, .result = &result, .seconds_per_sample = HUGE_VAL};
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    uint64_t memory = request->memory_bytes == 0 ? cluster->device.memory_bytes : request->memory_bytes;
    uint64_t fixed = gal_durations_fixed_bytes(request->durations);
    uint32_t blocks = gal_model_block_count(request->model);
    o.arena_limit_bytes = memory > fixed ? memory - fixed : 0;
    o.answer.stage = calloc(blocks, sizeof *o.answer.stage);
    o.answer.strategy = calloc(blocks, sizeof *o.answer.strategy);
    if (o.answer.stage == NULL || o.answer.strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(gal_price_cache_create(request->model, request->durations, &o.cache, err));
    if (request->batches.count == 0) {
        GAL_TRY(search_batch(&o, request->model->global_batch_samples, err));
    }
    for (uint32_t i = 0; i < request->batches.count; i++) {
        GAL_TRY(search_batch(&o, request->batches.value[i], err));
    }
    conclude(&result);
    if (result.least_bytes > 0) {
        result.least_bytes += fixed;
    }
    *out = result;
    memset(&result, 0, sizeof result);
cleanup:
    gal_price_cache_free(o.cache);
    free(o.answer.strategy);
    free(o.answer.stage);
    gal_search_result_free(&result);
    return code;
}

void gal_search_result_free(gal_search_result *result)
{
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        gal_plan_free(&result->finalist[i].plan);
    }
    free(result->finalist);
    *result = (gal_search_result){0};
}
