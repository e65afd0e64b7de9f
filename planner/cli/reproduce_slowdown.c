/* galplan reproduce galvatron --figure 7: how far predictions of measured steps are off, with the slowdowns of a
 * profile and without. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "costmodel/fit.h"
#include "costmodel/prediction.h"
#include "costmodel/simulate.h"
#include "planner/cli/reproduce_paper.h"
#include "planner/layouts/csv.h"
#include "schemas/limits.h"

enum { WITH, WITHOUT, KINDS };

static const double step_seconds_max = 1e6;

static gal_code simulate(const gal_profile *profile, const gal_plan *plan, gal_program *const *program, double *seconds,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *durations = NULL;
    gal_simulation simulation = {0};
    GAL_TRY(gal_durations_create_at(profile, plan->communication_ctas, &durations, err));
    GAL_TRY(gal_simulate(program, plan->stage_count, durations, false, &simulation, err));
    *seconds = simulation.iteration_seconds;
cleanup:
    gal_simulation_free(&simulation);
    gal_durations_free(durations);
    return code;
}

/* seconds[KINDS] of the plan's step, and the interval with slowdowns. */
static gal_code predict(const char *profile_path, const char *plan_path, double *seconds, gal_prediction *interval,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profile profile = {0};
    gal_plan plan = {0};
    gal_durations *durations = NULL;
    gal_program **program = NULL;
    GAL_TRY(gal_profile_read(profile_path, &profile, err));
    GAL_TRY(gal_plan_read(plan_path, &plan, err));
    const uint32_t devices = plan.pp_degree * gal_plan_stage_devices(&plan);
    if (profile.cluster.device_count < devices) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: /cluster/device_count: must be >= the %u devices of %s, got %u",
                         profile_path, devices, plan_path, profile.cluster.device_count));
    }
    program = calloc(plan.stage_count, sizeof *program);
    if (program == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: programs of %s", plan_path));
    }
    GAL_TRY(gal_lower_plan(&plan, program, err));
    GAL_TRY(simulate(&profile, &plan, program, &seconds[WITH], err));
    GAL_TRY(gal_durations_create_at(&profile, plan.communication_ctas, &durations, err));
    GAL_TRY(
        gal_programs_interval(program, plan.stage_count, durations, seconds[WITH], profile.fixed_bytes, interval, err));
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        profile.slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = 1.0;
    }
    GAL_TRY(simulate(&profile, &plan, program, &seconds[WITHOUT], err));
cleanup:
    for (uint32_t s = 0; program != NULL && s < plan.stage_count; s++) {
        gal_program_free(program[s]);
    }
    free(program);
    gal_durations_free(durations);
    gal_plan_free(&plan);
    gal_profile_free(&profile);
    return code;
}

static gal_code put_row(const gal_csv *csv, uint32_t row, double *errors[KINDS], uint32_t *inside, gal_error *err)
{
    gal_code code = GAL_OK;
    const char *plan = gal_csv_field(csv, row, gal_csv_column(csv, "plan"));
    const char *profile = gal_csv_field(csv, row, gal_csv_column(csv, "profile"));
    double measured = 0.0, seconds[KINDS];
    gal_prediction interval;
    GAL_TRY(gal_csv_f64(csv, row, gal_csv_column(csv, "seconds"), 1e-9, step_seconds_max, &measured, err));
    if (plan[0] == '\0' || profile[0] == '\0' || !(measured > 0.0)) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: a row needs plan, profile and seconds", gal_csv_path(csv),
                         gal_csv_line(csv, row)));
    }
    GAL_TRY(predict(profile, plan, seconds, &interval, err));
    const bool within = interval.low_seconds <= measured && measured <= interval.high_seconds;
    printf("%11.6f  %+6.1f %%  %+6.1f %%  %11.6f .. %.6f%s  %s\n", measured, 100.0 * (seconds[WITH] / measured - 1.0),
           100.0 * (seconds[WITHOUT] / measured - 1.0), interval.low_seconds, interval.high_seconds, within ? " " : "*",
           plan);
    *inside += within;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        errors[kind][row] = fabs(seconds[kind] / measured - 1.0);
    }
cleanup:
    return code;
}

gal_code gal_cli_reproduce_slowdown(const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_csv *csv = NULL;
    double *errors[KINDS] = {NULL, NULL};
    uint32_t inside = 0;
    GAL_TRY(gal_csv_read(path, &csv, err));
    const uint32_t count = gal_csv_row_count(csv);
    if (count == 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: no row was measured", path));
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        errors[kind] = malloc(count * sizeof *errors[kind]);
        if (errors[kind] == NULL) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %s", path));
        }
    }
    printf(" measured s      with   without  slowdowns; 90 %% interval with them (*: measured outside)\n");
    for (uint32_t row = 0; row < count; row++) {
        GAL_TRY(gal_csv_check_row(csv, row, err));
        GAL_TRY(put_row(csv, row, errors, &inside, err));
    }
    printf("%u steps: median error %.1f %% with slowdowns, %.1f %% without; %u in their 90 %% interval\n", count,
           100.0 * gal_median(errors[WITH], count), 100.0 * gal_median(errors[WITHOUT], count), inside);
cleanup:
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        free(errors[kind]);
    }
    gal_csv_free(csv);
    return code;
}
