#include "planner/uniform.h"

#include <math.h>
#include <stdlib.h>

#include "schemas/plan_check.h"

/* Pieces of equal numbers of layer blocks; false if one would be empty. */
static bool cut(gal_plan *plan)
{
    const uint32_t pieces = gal_plan_piece_count(plan);
    const uint32_t inner = gal_model_block_count(&plan->model) - 2;
    plan->run_count = pieces;
    for (uint32_t i = 0; i < pieces; i++) {
        const uint64_t begin = (uint64_t)inner * i / pieces, end = (uint64_t)inner * (i + 1) / pieces;
        plan->stage[i] = (gal_plan_stage){.first_run = i, .run_count = 1};
        plan->run[i].block_count = (uint32_t)(end - begin) + (i == 0) + (i + 1 == pieces);
        if (plan->run[i].block_count == 0) {
            return false;
        }
    }
    return true;
}

static gal_code refuse(const gal_cell_spec *spec, gal_error *err)
{
    if (spec->pp_degree < 2) {
        return gal_fail(err, GAL_NO, "interleaved needs pp_degree of at least 2");
    }
    if (spec->device_count % spec->pp_degree != 0) {
        return gal_fail(err, GAL_NO, "pp_degree %u does not divide %u devices", spec->pp_degree, spec->device_count);
    }
    if (spec->global_batch_samples % spec->microbatch_count != 0) {
        return gal_fail(err, GAL_NO, "%u microbatches do not divide a batch of %u samples", spec->microbatch_count,
                        spec->global_batch_samples);
    }
    return GAL_OK;
}

static void set_strategy(gal_plan *plan, const gal_strategy *strategy)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        plan->run[r].strategy = *strategy;
    }
}

static gal_code largest_stage(const gal_cell_spec *spec, const gal_plan *plan, uint64_t *most, gal_error *err)
{
    gal_code code = GAL_OK;
    *most = 0;
    for (uint32_t stage = 0; code == GAL_OK && stage < plan->stage_count; stage++) {
        uint64_t bytes = 0;
        code = gal_plan_stage_bytes(spec->cache, plan, stage, &bytes, err);
        *most = bytes > *most ? bytes : *most;
    }
    return code;
}

static gal_code try_strategies(const gal_cell_spec *spec, gal_plan *plan, gal_uniform_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy strategy[GAL_SPACE_MAX];
    gal_strategy best = {0};
    const uint32_t count = gal_space_strategies(spec->space, gal_plan_stage_devices(plan), strategy);
    for (uint32_t s = 0; s < count; s++) {
        gal_error illegal;
        double seconds = 0.0;
        uint64_t bytes = 0;
        set_strategy(plan, &strategy[s]);
        if (gal_plan_check(plan, NULL, &illegal) != GAL_OK) {
            continue;
        }
        GAL_TRY(largest_stage(spec, plan, &bytes, err));
        out->least_bytes = out->least_bytes == 0 || bytes < out->least_bytes ? bytes : out->least_bytes;
        if (bytes > spec->arena_limit_bytes) {
            continue;
        }
        GAL_TRY(gal_plan_objective(spec->cache, spec->durations, plan, &seconds, err));
        if (seconds < out->seconds) {
            out->seconds = seconds;
            best = strategy[s];
        }
    }
    set_strategy(plan, &best);
cleanup:
    return code;
}

gal_code gal_uniform_solve(const gal_cell_spec *spec, gal_plan *plan, gal_uniform_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    *out = (gal_uniform_answer){.seconds = HUGE_VAL};
    GAL_TRY(refuse(spec, err));
    plan->stage_count = plan->pp_degree;
    plan->stage = calloc(gal_plan_piece_count(plan), sizeof *plan->stage);
    plan->run = calloc(gal_plan_piece_count(plan), sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    if (!cut(plan)) {
        GAL_TRY(gal_fail(err, GAL_NO, "pp_degree %u times %u chunks is more than the %u blocks of the model",
                         plan->pp_degree, gal_plan_chunk_count(plan), gal_model_block_count(&plan->model)));
    }
    GAL_TRY(try_strategies(spec, plan, out, err));
cleanup:
    return code;
}
