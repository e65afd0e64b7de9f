#include "costmodel/prediction.h"

#include <math.h>
#include <stdlib.h>

#include "costmodel/framework.h"
#include "costmodel/interval.h"
#include "costmodel/simulate.h"

static const double low_quantile = 0.05, high_quantile = 0.95;

static gal_code seconds_at(gal_program *const *program, uint32_t stage_count, const gal_durations *durations,
                           double quantile, double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *at = NULL;
    gal_simulation simulation = {0};
    GAL_TRY(gal_durations_create_quantile(durations, quantile, &at, err));
    GAL_TRY(gal_simulate(program, stage_count, at, false, &simulation, err));
    *seconds = simulation.iteration_seconds;
cleanup:
    gal_simulation_free(&simulation);
    gal_durations_free(at);
    return code;
}

static void seconds_of_data_sheets(double seconds, gal_prediction *out)
{
    out->low_seconds = seconds * exp(-GAL_INTERVAL_ANALYTIC);
    out->high_seconds = seconds * exp(GAL_INTERVAL_ANALYTIC);
}

static void add_stage_bytes(uint64_t arena_bytes, uint64_t fixed_bytes, gal_prediction *out)
{
    const double arena = (double)arena_bytes, fixed = (double)fixed_bytes;
    out->low_bytes = fmax(out->low_bytes, arena + fixed * exp(-GAL_INTERVAL_MEASURED));
    out->high_bytes = fmax(out->high_bytes, arena + fixed * exp(GAL_INTERVAL_MEASURED));
}

gal_code gal_programs_interval(gal_program *const *program, uint32_t stage_count, const gal_durations *durations,
                               double simulated_seconds, uint64_t fixed_bytes, gal_prediction *out, gal_error *err)
{
    gal_code code = GAL_OK;
    *out = (gal_prediction){0};
    for (uint32_t s = 0; s < stage_count; s++) {
        add_stage_bytes(program[s]->arena_bytes, fixed_bytes, out);
    }
    if (!gal_durations_have_measurements(durations)) {
        seconds_of_data_sheets(simulated_seconds, out);
        return GAL_OK;
    }
    GAL_TRY(seconds_at(program, stage_count, durations, low_quantile, &out->low_seconds, err));
    GAL_TRY(seconds_at(program, stage_count, durations, high_quantile, &out->high_seconds, err));
cleanup:
    return code;
}

gal_code gal_plan_interval(const gal_plan *plan, const gal_durations *durations, gal_prediction *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program **program = NULL;
    if (!gal_durations_have_measurements(durations)) {
        *out = (gal_prediction){0};
        for (uint32_t s = 0; s < plan->stage_count; s++) {
            add_stage_bytes(plan->stage[s].predicted_bytes - plan->fixed_bytes, plan->fixed_bytes, out);
        }
        seconds_of_data_sheets(plan->simulated_seconds, out);
        return GAL_OK;
    }
    program = calloc(plan->stage_count, sizeof *program);
    if (program == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: programs of %u stages", plan->stage_count));
    }
    GAL_TRY(gal_lower_plan(plan, program, err));
    GAL_TRY(gal_programs_interval(program, plan->stage_count, durations, plan->simulated_seconds, plan->fixed_bytes,
                                  out, err));
cleanup:
    for (uint32_t s = 0; program != NULL && s < plan->stage_count; s++) {
        gal_program_free(program[s]);
    }
    free(program);
    return code;
}

void gal_pricing_interval(const gal_plan *plan, gal_prediction *out)
{
    const gal_pricing *pricing = &plan->pricing;
    const double spread = pricing->framework.bytes_spread, bytes = (double)pricing->bytes;
    gal_constants constants;
    gal_constants_default(&plan->cluster, &pricing->framework, &constants);
    if (pricing->constants.row_count > 0) {
        gal_constants_apply(&pricing->constants, &constants);
    }
    const double low = constants.seconds_low_factor, high = constants.seconds_high_factor;
    const double seconds =
        plan->objective_seconds / gal_interval_quantile(low, high, plan->risk.present ? plan->risk.quantile : 0.5);
    *out = (gal_prediction){.low_seconds = seconds * low,
                            .high_seconds = seconds * high,
                            .low_bytes = bytes * exp(-spread),
                            .high_bytes = bytes * exp(spread)};
}
