#include "planner/cell/finalist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "schemas/plan_check.h"

void gal_finalist_begin(const gal_search_request *request, const gal_cell_spec *spec, gal_finalist *finalist)
{
    memset(finalist, 0, sizeof *finalist);
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
}

gal_finalist *gal_finalist_add(const gal_search_request *request, const gal_cell_spec *spec, gal_search_result *result)
{
    gal_finalist *grown = realloc(result->finalist, (result->finalist_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return NULL;
    }
    result->finalist = grown;
    gal_finalist_begin(request, spec, &grown[result->finalist_count]);
    return &grown[result->finalist_count++];
}

void gal_finalist_drop(gal_search_result *result)
{
    gal_plan_free(&result->finalist[--result->finalist_count].plan);
}

gal_code gal_finalist_write_path(const gal_strategy *numbered, const uint32_t *stage, const uint32_t *strategy,
                                 gal_plan *plan, gal_error *err)
{
    const uint32_t blocks = gal_model_block_count(&plan->model);
    plan->stage = calloc(plan->pp_degree, sizeof *plan->stage);
    plan->run = calloc(blocks, sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    plan->stage_count = plan->pp_degree;
    for (uint32_t i = 0; i < blocks; i++) {
        gal_plan_stage *here = &plan->stage[stage[i]];
        const bool first = i == 0 || stage[i] != stage[i - 1];
        if (first) {
            here->first_run = plan->run_count;
        }
        if (first || strategy[i] != strategy[i - 1]) {
            plan->run[plan->run_count++] = (gal_plan_run){0, numbered[strategy[i]]};
            here->run_count++;
        }
        plan->run[plan->run_count - 1].block_count++;
    }
    return GAL_OK;
}

gal_code gal_finalist_predict(const gal_search_request *request, gal_finalist *finalist, gal_error *err)
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
        plan->stage[p].predicted_host_bytes = programs[p % plan->stage_count]->host_bytes;
        plan->stage[p].predicted_storage_bytes = programs[p % plan->stage_count]->storage_bytes;
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

gal_code gal_finalist_interval(const gal_durations *durations, gal_finalist *finalist, gal_error *err)
{
    const gal_code code = gal_plan_interval(&finalist->plan, durations, &finalist->interval, err);
    finalist->plan.simulated_low_seconds = finalist->interval.low_seconds;
    finalist->plan.simulated_high_seconds = finalist->interval.high_seconds;
    return code;
}

gal_code gal_finalists_interval(const gal_durations *durations, gal_search_result *result, uint32_t count,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < count && i < result->finalist_count && code == GAL_OK; i++) {
        code = gal_finalist_interval(durations, &result->finalist[i], err);
    }
    return code;
}

double gal_finalist_per_sample(const gal_finalist *finalist)
{
    return finalist->objective_seconds / finalist->global_batch_samples;
}

double gal_finalists_wanted(const gal_search_result *result, uint32_t wanted)
{
    const uint32_t least_wanted = wanted < 1 ? 1 : wanted;
    double worst = -HUGE_VAL; /* of those wanted: the least value with `wanted` at or below */
    for (uint32_t rank = 0; rank < least_wanted; rank++) {
        double next = HUGE_VAL;
        uint32_t at_or_below = 0;
        for (uint32_t i = 0; i < result->finalist_count; i++) {
            const double own = gal_finalist_per_sample(&result->finalist[i]);
            at_or_below += own <= worst;
            next = own > worst ? fmin(next, own) : next;
        }
        if (at_or_below >= least_wanted) {
            break;
        }
        if (next == HUGE_VAL) { /* fewer are known: any cell may be wanted */
            return HUGE_VAL;
        }
        worst = next;
    }
    return worst;
}

/* Of equals: cells in the order of their numbers. */
static int lesser_numbers_first(const gal_finalist *a, const gal_finalist *b)
{
    if (a->pp_degree != b->pp_degree) {
        return a->pp_degree < b->pp_degree ? -1 : 1;
    }
    if (a->microbatch_count != b->microbatch_count) {
        return a->microbatch_count < b->microbatch_count ? -1 : 1;
    }
    return a->global_batch_samples < b->global_batch_samples ? -1 : a->global_batch_samples > b->global_batch_samples;
}

int gal_finalist_faster_first(const void *x, const void *y)
{
    const gal_finalist *a = x;
    const gal_finalist *b = y;
    const double rate_a = a->global_batch_samples / a->simulated_seconds;
    const double rate_b = b->global_batch_samples / b->simulated_seconds;
    return rate_a != rate_b ? (rate_a > rate_b ? -1 : 1) : lesser_numbers_first(a, b);
}

int gal_finalist_less_objective_first(const void *x, const void *y)
{
    const double a = gal_finalist_per_sample(x);
    const double b = gal_finalist_per_sample(y);
    return a != b ? (a < b ? -1 : 1) : lesser_numbers_first(x, y);
}
