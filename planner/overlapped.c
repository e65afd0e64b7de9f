#include "planner/overlapped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/objective.h"
#include "planner/cell_list.h"
#include "planner/finalist.h"
#include "planner/strategy_space.h"
#include "planner/uniform.h"
#include "schemas/plan_check.h"

typedef struct pass {
    const gal_search_request *request;
    gal_price_cache *cache;
    uint64_t memory_bytes;
    gal_finalist best;   /* its plan is owned; stage_count 0: none yet */
    double best_seconds; /* simulated, per sample; of the search's plan where that is less */
} pass;

static double seconds_per_sample(const gal_finalist *f)
{
    return f->simulated_seconds / f->global_batch_samples;
}

static bool overlaps(const gal_plan *plan)
{
    bool any = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        any = any || plan->run[r].strategy.overlap != GAL_OVERLAP_NONE;
    }
    return any;
}

/* Lowers and simulates; the better one of this and the best stays, the other is freed. */
static gal_code compete(pass *s, gal_finalist *f, gal_error *err)
{
    gal_error reason = {0};
    gal_code code = gal_finalist_predict(s->request, f, &reason);
    if (code == GAL_OK) {
        code = gal_plan_objective(s->cache, s->request->durations, &f->plan, &f->objective_seconds, &reason);
    }
    const bool wins = code == GAL_OK && f->peak_bytes <= s->memory_bytes && seconds_per_sample(f) < s->best_seconds;
    if (wins) {
        gal_plan_free(&s->best.plan);
        f->plan.objective_seconds = f->objective_seconds;
        s->best = *f;
        s->best_seconds = seconds_per_sample(f);
    } else {
        gal_plan_free(&f->plan);
    }
    return code == GAL_ERR_SYSTEM ? gal_fail(err, code, "%s", reason.text) : GAL_OK; /* else not to be had */
}

static gal_code try_cell(pass *s, const gal_cell_numbers *numbers, gal_error *err)
{
    gal_error refusal = {0};
    gal_uniform_answer answer;
    gal_finalist f;
    const gal_cell_spec spec = gal_search_cell_spec(s->request, numbers, s->cache);
    if (gal_cell_refused(&spec, &refusal) != GAL_OK || gal_uniform_refused(&spec, &refusal) != GAL_OK) {
        return GAL_OK;
    }
    gal_finalist_begin(s->request, &spec, &f);
    const gal_code code = gal_uniform_solve(&spec, &f.plan, &answer, &refusal);
    if (code == GAL_OK && isfinite(answer.seconds) && overlaps(&f.plan)) {
        return compete(s, &f, err);
    }
    gal_plan_free(&f.plan);
    return code == GAL_ERR_SYSTEM ? gal_fail(err, code, "%s", refusal.text) : GAL_OK;
}

static gal_code try_cells(pass *s, gal_error *err)
{
    gal_cell_numbers *numbers = NULL;
    uint32_t count = 0;
    gal_code code = gal_search_cells(s->request, &numbers, &count, err);
    for (uint32_t i = 0; code == GAL_OK && i < count; i++) {
        code = try_cell(s, &numbers[i], err);
    }
    free(numbers);
    return code;
}

/* ---- the plan of the search ---- */

static bool run_can(const gal_plan *plan, uint32_t run, uint32_t first_block, const gal_strategy *strategy)
{
    bool can = false;
    for (uint32_t i = 0; i < plan->run[run].block_count; i++) {
        gal_block_shape shape;
        gal_model_block(&plan->model, first_block + i, &shape);
        if (gal_strategy_block_rule_broken(&plan->model, &shape, strategy, gal_plan_stage_devices(plan),
                                           gal_plan_microbatch_samples(plan)) != NULL) {
            return false;
        }
        can = can || gal_strategy_halves(strategy, shape.kind);
    }
    return can;
}

static void set_runs(gal_plan *plan)
{
    uint32_t block = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy with = plan->run[r].strategy;
        with.overlap = gal_space_overlap_of(&with);
        if (run_can(plan, r, block, &with)) {
            plan->run[r].strategy = with;
        }
        block += plan->run[r].block_count;
    }
}

/* A copy of a finalist whose plan is to change. */
static gal_code copy_of(const gal_finalist *from, gal_finalist *out, gal_error *err)
{
    *out = *from;
    out->bound_seconds = 0.0;
    out->peak_bytes = 0;
    const gal_code code = gal_plan_copy(&from->plan, &out->plan, err);
    out->plan.certificate = (gal_certificate){0};
    out->plan.lower_bound_seconds = 0.0;
    return code;
}

static gal_code try_runs(pass *s, const gal_finalist *found, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist f;
    GAL_TRY(copy_of(found, &f, err));
    set_runs(&f.plan);
    if (!overlaps(&f.plan)) {
        gal_plan_free(&f.plan);
        return GAL_OK;
    }
    GAL_TRY(compete(s, &f, err));
    for (uint32_t r = 0; s->best.plan.stage_count > 0 && r < s->best.plan.run_count; r++) {
        GAL_TRY(copy_of(&s->best, &f, err));
        f.plan.run[r].strategy.overlap = GAL_OVERLAP_NONE;
        GAL_TRY(compete(s, &f, err));
    }
cleanup:
    return code;
}

/* ---- all of it ---- */

static gal_code take_best(pass *s, gal_search_result *result, gal_error *err)
{
    if (s->best.plan.stage_count == 0 || !overlaps(&s->best.plan)) {
        return GAL_OK;
    }
    gal_finalist *grown = realloc(result->finalist, (result->finalist_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    memmove(grown + 1, grown, result->finalist_count * sizeof *grown);
    grown[0] = s->best;
    s->best = (gal_finalist){0};
    result->finalist = grown;
    result->finalist_count++;
    result->feasible = true;
    result->lower_bound_seconds = 0.0;
    return GAL_OK;
}

gal_code gal_overlapped_search(const gal_search_request *request, gal_search_result *result, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    pass s = {.request = request, .best_seconds = HUGE_VAL};
    s.memory_bytes = request->memory_bytes == 0 ? cluster->device.memory_bytes : request->memory_bytes;
    GAL_TRY(gal_price_cache_create(request->model, request->durations, &s.cache, err));
    if (result->finalist_count > 0) {
        s.best_seconds = seconds_per_sample(&result->finalist[0]);
        GAL_TRY(try_runs(&s, &result->finalist[0], err));
    }
    GAL_TRY(try_cells(&s, err));
    GAL_TRY(take_best(&s, result, err));
cleanup:
    gal_plan_free(&s.best.plan);
    gal_price_cache_free(s.cache);
    return code;
}
