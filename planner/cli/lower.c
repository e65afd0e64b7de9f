/* galplan lower: prints what a stage, or the stage of a rank, does in a step. */
#include "planner/cli/lower.h"

#include <stdio.h>

#include "runtime/program/program.h"
#include "schemas/base/options.h"

typedef struct lower_options {
    const char *path;
    uint32_t rank, stage; /* UINT32_MAX: not given */
} lower_options;

static bool parse(int argc, char **argv, lower_options *o, int *exit_code)
{
    const gal_option options[] = {
        gal_option_u32("stage", "S", "print this stage only", &o->stage, 0, UINT32_MAX - 1),
        gal_option_u32("rank", "R", "print the stage of this rank only", &o->rank, 0, UINT32_MAX - 1),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "lower",
                                 .summary = "Print the programs of a plan's stages; all ranks of a stage share one.",
                                 .positional = "PLAN",
                                 .positional_min = 1,
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0]};
    gal_arguments arguments;
    if (!gal_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    o->path = arguments.positional[0];
    return true;
}

static gal_code choose_stages(const lower_options *o, const gal_plan *plan, uint32_t *first, uint32_t *count,
                              gal_error *err)
{
    *first = 0;
    *count = plan->stage_count;
    if (o->stage != UINT32_MAX && o->rank != UINT32_MAX) {
        return gal_fail(err, GAL_ERR_USAGE, "give either --stage or --rank");
    }
    if (o->rank != UINT32_MAX && o->rank >= plan->cluster.device_count) {
        return gal_fail(err, GAL_ERR_USAGE, "--rank %u: the plan has %u ranks", o->rank, plan->cluster.device_count);
    }
    if (o->stage != UINT32_MAX && o->stage >= plan->stage_count) {
        return gal_fail(err, GAL_ERR_USAGE, "--stage %u: the plan has %u stages", o->stage, plan->stage_count);
    }
    if (o->stage != UINT32_MAX || o->rank != UINT32_MAX) {
        *first = o->stage != UINT32_MAX ? o->stage : o->rank / gal_plan_stage_devices(plan);
        *count = 1;
    }
    return GAL_OK;
}

static gal_code print_stages(const gal_plan *plan, uint32_t first, uint32_t count, gal_error *err)
{
    for (uint32_t s = first; s < first + count; s++) {
        gal_program *program = NULL;
        gal_code code = gal_lower(plan, s, &program, err);
        if (code != GAL_OK) {
            return code;
        }
        if (s > first) {
            putchar('\n');
        }
        gal_program_print(program, stdout);
        gal_program_free(program);
    }
    return GAL_OK;
}

int gal_cli_lower(int argc, char **argv)
{
    lower_options o = {NULL, UINT32_MAX, UINT32_MAX};
    gal_error err = {0};
    gal_plan plan = {0};
    uint32_t first = 0;
    uint32_t count = 0;
    int exit_code = 0;
    if (!parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    gal_code code = gal_plan_read(o.path, &plan, &err);
    code = code == GAL_OK ? choose_stages(&o, &plan, &first, &count, &err) : code;
    code = code == GAL_OK ? print_stages(&plan, first, count, &err) : code;
    gal_plan_free(&plan);
    return gal_options_end("galplan", "lower", code, &err);
}
