#include "planner/joint_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "planner/uniform.h"
#include "runtime/program/schedule.h"
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
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        plan->stage[p].predicted_bytes = programs[p % plan->stage_count]->arena_bytes + plan->fixed_bytes;
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

/* A new finalist at the end of the result, with all but what its cell's search finds; NULL without memory. */
static gal_finalist *add_finalist(const gal_search_request *request, const gal_cell_spec *spec,
                                  gal_search_result *result)
{
    gal_finalist *grown = realloc(result->finalist, (result->finalist_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return NULL;
    }
    result->finalist = grown;
    gal_finalist *finalist = &grown[result->finalist_count];
    memset(finalist, 0, sizeof *finalist);
    result->finalist_count++;
    gal_plan *plan = &finalist->plan;
    plan->model = *request->model;
    plan->cluster = *gal_durations_cluster(request->durations);
    strncpy(plan->profile_hash, request->profile_hash, sizeof plan->profile_hash - 1);
    plan->global_batch_samples = finalist->global_batch_samples = spec->global_batch_samples;
    plan->microbatch_count = finalist->microbatch_count = spec->microbatch_count;
    plan->pp_degree = finalist->pp_degree = spec->pp_degree;
    plan->schedule = spec->schedule;
    plan->chunk_count = spec->chunk_count;
    plan->prefetch_depth = spec->prefetch_depth;
    plan->fixed_bytes = gal_durations_fixed_bytes(request->durations);
    return finalist;
}

static void drop_finalist(gal_search_result *result)
{
    gal_plan_free(&result->finalist[--result->finalist_count].plan);
}

static gal_code conclude_cell(const gal_search_request *request, gal_finalist *finalist, double seconds, double bound,
                              gal_error *err)
{
    finalist->plan.objective_seconds = finalist->objective_seconds = seconds;
    finalist->bound_seconds = bound;
    return predict(request, finalist, err);
}

/* ---- the outer loops ---- */

/* The numbers of a cell. */
typedef struct numbers {
    uint32_t batch, microbatches, pp_degree;
    double effort;
} numbers;

typedef struct outer {
    const gal_search_request *request;
    gal_search_result *result;
    gal_price_cache *cache;
    uint64_t arena_limit_bytes;
    gal_cell_answer answer;
    double seconds_per_sample; /* simulated, of the best finalist so far */
    numbers *planned;          /* [now.cell_count] in the order of the search */
    gal_search_progress now;
} outer;

static void tell(const outer *o)
{
    if (o->request->tell != NULL) {
        o->request->tell(o->request->tell_context, &o->now);
    }
}

static void tell_work(void *context, uint64_t work, uint64_t work_limit)
{
    outer *o = context;
    o->now.work = work;
    o->now.work_limit = work_limit;
    tell(o);
}

static void begin_cell(outer *o, uint32_t index)
{
    gal_search_progress *now = &o->now;
    now->cells_done = index;
    now->effort_done += now->effort_at_hand;
    now->effort_at_hand = o->planned[index].effort;
    now->effort_after -= now->effort_at_hand;
    tell_work(o, 0, 0);
}

double gal_search_seconds_left(const gal_search_progress *now, double elapsed_seconds, double at_hand_seconds)
{
    if (now->effort_done <= 0.0) {
        return HUGE_VAL;
    }
    const double seconds_per_effort = (elapsed_seconds - at_hand_seconds) / now->effort_done;
    double longest = at_hand_seconds; /* of the cell at hand, from now */
    if (now->work > 0) {
        longest *= fmin(1.0, fmax(0.0, (double)now->work_limit / (double)now->work - 1.0));
    }
    return fmax(seconds_per_effort * now->effort_at_hand - at_hand_seconds, longest) +
           seconds_per_effort * now->effort_after;
}

static gal_cell_spec spec_of(const outer *o, const numbers *n)
{
    const gal_search_request *r = o->request;
    return (gal_cell_spec){.model = r->model,
                           .durations = r->durations,
                           .cache = o->cache,
                           .space = &r->space,
                           .device_count = gal_durations_cluster(r->durations)->device_count,
                           .pp_degree = n->pp_degree,
                           .microbatch_count = n->microbatches,
                           .global_batch_samples = n->batch,
                           .schedule = r->schedule,
                           .chunk_count = r->chunk_count,
                           .prefetch_depth = r->prefetch_depth,
                           .arena_limit_bytes = o->arena_limit_bytes};
}

static void keep_least(outer *o, uint64_t bytes)
{
    if (bytes > 0 && (o->result->least_bytes == 0 || bytes < o->result->least_bytes)) {
        o->result->least_bytes = bytes;
    }
}

static void keep_rate(outer *o)
{
    if (o->result->finalist_count > 0) {
        const gal_finalist *newest = &o->result->finalist[o->result->finalist_count - 1];
        o->seconds_per_sample = fmin(o->seconds_per_sample, newest->simulated_seconds / newest->global_batch_samples);
    }
}

static gal_code search_uniform(outer *o, const numbers *n, gal_error *err)
{
    const gal_cell_spec spec = spec_of(o, n);
    gal_search_result *result = o->result;
    gal_uniform_answer answer;
    gal_error why = {0};
    gal_finalist *finalist = add_finalist(o->request, &spec, result);
    if (finalist == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    gal_code code = gal_uniform_solve(&spec, &finalist->plan, &answer, &why);
    if (code == GAL_NO) {
        memcpy(result->refusal, why.text, sizeof result->refusal);
        drop_finalist(result);
        return GAL_OK;
    }
    if (code != GAL_OK) {
        return gal_fail(err, code, "%s", why.text);
    }
    result->cell_count++;
    keep_least(o, answer.least_bytes);
    if (answer.seconds == HUGE_VAL) {
        drop_finalist(result);
        return GAL_OK;
    }
    code = conclude_cell(o->request, finalist, answer.seconds, answer.seconds, err);
    if (code == GAL_OK) {
        keep_rate(o);
    }
    return code;
}

static gal_code search_chains(outer *o, const numbers *n, gal_error *err)
{
    const gal_search_request *r = o->request;
    const gal_cell_spec spec = spec_of(o, n);
    gal_cell *cell = NULL;
    gal_error refusal = {0};
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
                                         .give_up_seconds = hopeless * n->batch * o->seconds_per_sample,
                                         .tell = tell_work,
                                         .tell_context = o};
    code = gal_cell_solve(cell, &settings, &o->answer, err);
    o->result->label_count += o->answer.label_count;
    o->result->unproven_cell_count += !o->answer.given_up && o->answer.bound < o->answer.seconds;
    keep_least(o, o->answer.least_bytes);
    if (code == GAL_OK && !o->answer.given_up && o->answer.seconds < HUGE_VAL) {
        gal_finalist *finalist = add_finalist(r, &spec, o->result);
        code = finalist != NULL ? write_runs(cell, &o->answer, &finalist->plan) : GAL_ERR_SYSTEM;
        code = code == GAL_OK ? conclude_cell(r, finalist, o->answer.seconds, o->answer.bound, err)
                              : gal_fail(err, code, "not enough memory to search");
    }
    if (code == GAL_OK) {
        keep_rate(o);
    }
    gal_cell_free(cell);
    return code;
}

static gal_code search_cell(outer *o, const numbers *n, gal_error *err)
{
    const gal_schedule schedule = o->request->schedule;
    const bool uniform = schedule == GAL_SCHEDULE_INTERLEAVED || gal_schedule_splits(schedule);
    return uniform ? search_uniform(o, n, err) : search_chains(o, n, err);
}

/* The lists of the request, or what stands for an empty one. */

static gal_u32_list batches_of(const gal_search_request *r)
{
    const gal_u32_list own = {1, {r->model->global_batch_samples}};
    return r->batches.count > 0 ? r->batches : own;
}

static gal_u32_list microbatch_counts_of(const gal_search_request *r, uint32_t batch)
{
    gal_u32_list list = r->microbatch_counts;
    for (uint32_t m = 1; r->microbatch_counts.count == 0 && m <= batch && batch % m == 0; m *= 2) {
        list.value[list.count++] = m;
    }
    return list;
}

static gal_u32_list pp_degrees_of(const gal_search_request *r)
{
    const uint32_t devices = gal_durations_cluster(r->durations)->device_count;
    gal_u32_list list = r->pp_degrees;
    for (uint32_t p = 1; r->pp_degrees.count == 0 && p <= devices && p <= GAL_STAGES_MAX; p++) {
        if (devices % p == 0 && p <= gal_model_block_count(r->model)) {
            list.value[list.count++] = p;
        }
    }
    return list;
}

/* Every cell of the search, in its order: batches, then microbatch counts, then pipeline degrees. */
static gal_code plan_cells(outer *o, gal_error *err)
{
    const gal_u32_list batches = batches_of(o->request);
    const gal_u32_list pp_degrees = pp_degrees_of(o->request);
    o->planned = calloc((size_t)batches.count * GAL_U32_LIST_MAX * GAL_U32_LIST_MAX, sizeof *o->planned);
    if (o->planned == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t b = 0; b < batches.count; b++) {
        const gal_u32_list microbatches = microbatch_counts_of(o->request, batches.value[b]);
        for (uint32_t m = 0; m < microbatches.count; m++) {
            for (uint32_t p = 0; p < pp_degrees.count; p++) {
                numbers *cell = &o->planned[o->now.cell_count++];
                *cell = (numbers){batches.value[b], microbatches.value[m], pp_degrees.value[p], 0.0};
                const gal_cell_spec spec = spec_of(o, cell);
                cell->effort = gal_cell_effort(&spec);
                o->now.effort_after += cell->effort;
            }
        }
    }
    return GAL_OK;
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
    GAL_TRY(plan_cells(&o, err));
    for (uint32_t i = 0; i < o.now.cell_count; i++) {
        begin_cell(&o, i);
        GAL_TRY(search_cell(&o, &o.planned[i], err));
    }
    conclude(&result);
    if (result.least_bytes > 0) {
        result.least_bytes += fixed;
    }
    *out = result;
    memset(&result, 0, sizeof result);
cleanup:
    gal_price_cache_free(o.cache);
    free(o.planned);
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
