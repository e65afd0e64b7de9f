#include "planner/finalist.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "schemas/plan_check.h"

void gal_finalist_begin(const gal_cell_spec *spec, const char *profile_hash, gal_finalist *out)
{
    memset(out, 0, sizeof *out);
    gal_plan *plan = &out->plan;
    plan->model = *spec->model;
    plan->cluster = *gal_durations_cluster(spec->durations);
    strncpy(plan->profile_hash, profile_hash, sizeof plan->profile_hash - 1);
    plan->global_batch_samples = out->global_batch_samples = spec->global_batch_samples;
    plan->microbatch_count = out->microbatch_count = spec->microbatch_count;
    plan->pp_degree = out->pp_degree = spec->pp_degree;
    plan->schedule = spec->schedule;
    plan->chunk_count = spec->chunk_count;
    plan->prefetch_depth = spec->prefetch_depth;
    plan->fixed_bytes = gal_durations_fixed_bytes(spec->durations);
}

gal_code gal_finalist_take_path(gal_finalist *finalist, const gal_cell_answer *answer, const gal_screened *screened,
                                gal_error *err)
{
    gal_plan *plan = &finalist->plan;
    const uint32_t blocks = gal_model_block_count(&plan->model);
    plan->stage = calloc(plan->pp_degree, sizeof *plan->stage);
    plan->run = calloc(blocks, sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    plan->stage_count = plan->pp_degree;
    for (uint32_t i = 0; i < blocks; i++) {
        gal_plan_stage *stage = &plan->stage[answer->stage[i]];
        const bool first = i == 0 || answer->stage[i] != answer->stage[i - 1];
        if (first) {
            stage->first_run = plan->run_count;
        }
        if (first || answer->strategy[i] != answer->strategy[i - 1]) {
            plan->run[plan->run_count++] = (gal_plan_run){0, screened->strategy[answer->strategy[i]]};
            stage->run_count++;
        }
        plan->run[plan->run_count - 1].block_count++;
    }
    return GAL_OK;
}

gal_code gal_finalist_predict(gal_finalist *finalist, const gal_durations *durations, gal_error *err)
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
    GAL_TRY(gal_simulate(programs, plan->stage_count, durations, false, &simulation, err));
    finalist->simulated_seconds = plan->simulated_seconds = simulation.iteration_seconds;
cleanup:
    gal_simulation_free(&simulation);
    for (uint32_t p = 0; programs != NULL && p < plan->stage_count; p++) {
        gal_program_free(programs[p]);
    }
    free(programs);
    return code;
}
