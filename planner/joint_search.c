#include "planner/joint_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "schemas/plan_check.h"

enum { DUAL_ROUNDS = 120, CLASS_ROUNDS = 30, BEAM_LABELS = 200 };

typedef struct cell_answer {
    double seconds, bound;
    uint32_t *stage, *strategy; /* [block] */
} cell_answer;

/* Every block alike, stages of even length: what a person would write down first, and often a good start. */
static void try_uniform(const gal_cell *cell, uint32_t strategy, cell_answer *best, uint32_t *stage,
                        uint32_t *strategies, uint64_t *least_bytes)
{
    uint32_t blocks = cell->block_count;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t s = strategy;
        stage[i] = (uint32_t)((uint64_t)i * cell->spec.pp_degree / blocks);
        if (s > 0 && (i == 0 || i + 1 == blocks) && cell->strategy[s].recompute == GAL_RECOMPUTE_FULL) {
            s--; /* the same without recompute comes just before (gal_space_strategies) */
        }
        if (gal_cell_price(cell, i, stage[i], s) == NULL) {
            return;
        }
        strategies[i] = s;
    }
    uint64_t bytes = 0;
    double seconds = gal_cell_evaluate(cell, stage, strategies, &bytes);
    *least_bytes = *least_bytes == 0 || bytes < *least_bytes ? bytes : *least_bytes;
    if (seconds < best->seconds) {
        best->seconds = seconds;
        memcpy(best->stage, stage, blocks * sizeof *stage);
        memcpy(best->strategy, strategies, blocks * sizeof *strategies);
    }
}

static void note_bytes(const gal_dual *dual, gal_search_result *result)
{
    uint64_t bytes = 0;
    gal_cell_evaluate(dual->cell, dual->stage, dual->strategy, &bytes);
    if (gal_cell_tied_alike(dual->cell, dual->strategy[0], dual->strategy[dual->cell->block_count - 1])) {
        result->least_bytes = result->least_bytes == 0 || bytes < result->least_bytes ? bytes : result->least_bytes;
    }
}

/* Embeddings that are tied alike: one of each kind, by the bound under the weights that serve all. */
typedef struct embedding_class {
    double bound;
    uint32_t strategy;
} embedding_class;

static int by_class_bound(const void *x, const void *y)
{
    const embedding_class *a = x;
    const embedding_class *b = y;
    if (a->bound != b->bound) {
        return a->bound < b->bound ? -1 : 1;
    }
    return a->strategy < b->strategy ? -1 : 1;
}

static bool first_of_class(const gal_cell *cell, uint32_t strategy)
{
    for (uint32_t s = 0; s < strategy; s++) {
        if (gal_cell_price(cell, 0, 0, s) != NULL && gal_cell_tied_alike(cell, s, strategy)) {
            return false;
        }
    }
    return gal_cell_price(cell, 0, 0, strategy) != NULL;
}

static uint32_t list_classes(gal_dual *dual, embedding_class *class)
{
    const gal_cell *cell = dual->cell;
    uint32_t count = 0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        if (first_of_class(cell, s)) {
            dual->embedding = s;
            gal_dual_solve(dual);
            class[count++] = (embedding_class){dual->bound, s};
        }
    }
    qsort(class, count, sizeof *class, by_class_bound);
    return count;
}

/* The paths that the dual allows, under its present weights and better ones. */
static gal_code solve_class(gal_dual *dual, uint32_t rounds, uint32_t label_limit, cell_answer *best,
                            gal_search_result *result, gal_error *err)
{
    gal_label_result labels = {0};
    const gal_label_settings beam = {.label_limit = BEAM_LABELS < label_limit ? BEAM_LABELS : label_limit};
    const gal_label_settings all = {.label_limit = label_limit};
    gal_dual_raise(dual, rounds, &best->seconds, best->stage, best->strategy);
    double proven = dual->bound;
    if (!gal_dual_is_infeasible(dual) && dual->bound < best->seconds * (1.0 - 1e-12)) {
        gal_code code = gal_label_search(dual, &beam, &best->seconds, best->stage, best->strategy, &labels, err);
        if (code == GAL_OK && labels.dropped_bound < best->seconds) { /* a better path known, fewer labels live */
            code = gal_label_search(dual, &all, &best->seconds, best->stage, best->strategy, &labels, err);
        }
        if (code != GAL_OK) {
            return code;
        }
        result->label_count += labels.label_count;
        if(getenv("DBG")) fprintf(stderr,"P %u m %u class %d: bound %.6f best %.6f labels %lu dropped %.6f\n",dual->cell->spec.pp_degree,dual->cell->spec.microbatch_count,(int)dual->embedding,dual->bound,best->seconds,(unsigned long)labels.label_count,labels.dropped_bound);
        proven = fmax(dual->bound, labels.dropped_bound);
    }
    best->bound = fmin(best->bound, proven);
    return GAL_OK;
}

/* One dual serves all classes; a class whose bound reaches the best path needs no search of its own. */
static gal_code solve_tied(gal_dual *dual, uint32_t label_limit, cell_answer *best, gal_search_result *result,
                           gal_error *err)
{
    const gal_cell *cell = dual->cell;
    gal_code code = GAL_OK;
    gal_weights *weights = malloc(sizeof *weights);
    embedding_class *class = calloc(cell->strategy_count + 1, sizeof *class);
    if (weights == NULL || class == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    gal_dual_raise(dual, DUAL_ROUNDS, &best->seconds, best->stage, best->strategy);
    if (gal_dual_is_infeasible(dual)) {
        goto cleanup;
    }
    *weights = dual->weights;
    const uint32_t count = list_classes(dual, class);
    for (uint32_t i = 0; i < count; i++) {
        if (class[i].bound >= best->seconds * (1.0 - 1e-12)) {
            best->bound = fmin(best->bound, class[i].bound);
        } else {
            dual->embedding = class[i].strategy;
            dual->weights = *weights;
            gal_dual_weigh(dual);
            GAL_TRY(solve_class(dual, CLASS_ROUNDS, label_limit, best, result, err));
            note_bytes(dual, result);
        }
    }
cleanup:
    free(class);
    free(weights);
    return code;
}

static gal_code solve_cell(const gal_cell *cell, uint32_t label_limit, cell_answer *best, gal_search_result *result,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    gal_dual *dual = NULL;
    uint32_t *stage = calloc(cell->block_count, sizeof *stage);
    uint32_t *strategy = calloc(cell->block_count, sizeof *strategy);
    best->seconds = HUGE_VAL;
    best->bound = HUGE_VAL;
    if (stage == NULL || strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        try_uniform(cell, s, best, stage, strategy, &result->least_bytes);
    }
    GAL_TRY(gal_dual_create(cell, &dual, err));
    gal_dual_solve(dual);
    if (dual->bound < HUGE_VAL) {
        GAL_TRY(cell->spec.model->tied_embeddings ? solve_tied(dual, label_limit, best, result, err)
                                                  : solve_class(dual, DUAL_ROUNDS, label_limit, best, result, err));
        note_bytes(dual, result);
    }
    best->bound = fmin(best->bound, best->seconds);
cleanup:
    gal_dual_free(dual);
    free(strategy);
    free(stage);
    return code;
}

/* ---- from paths to plans ---- */

static gal_code write_runs(const gal_cell *cell, const cell_answer *answer, gal_plan *plan)
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

static gal_code add_finalist(const gal_search_request *request, const gal_cell *cell, const cell_answer *answer,
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
    cell_answer answer;
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
    code = solve_cell(cell, r->label_limit, &o->answer, o->result, err);
    if (code == GAL_OK && o->answer.seconds < HUGE_VAL) {
        code = add_finalist(r, cell, &o->answer, o->result, err);
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
    outer o = {.request = request, .result = &result};
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
