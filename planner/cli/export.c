/* galplan export: a plan as a strategy file of Hetu-Galvatron. */
#include "planner/cli/export.h"

#include <string.h>

#include "planner/cli/galvatron.h"
#include "planner/galvatron/galvatron_files.h"
#include "schemas/base/options.h"

typedef struct export_options {
    const char *path, *output;
} export_options;

static const char notes[] =
    "PLAN is a plan or a galvatron_plan (\"-\" is stdin). The file has embed_sdp, which Hetu-Galvatron's search "
    "writes,\n"
    "and vocab_sdp, which its runtime reads. What it cannot say is refused: schedules other than gpipe and 1f1b, a\n"
    "layer whose attention and FFN differ, ZeRO 1, selective recompute, tensor parallel without sequence parallel.\n"
    "Exit: 0 written; 2 usage; 3 the document is wrong, or cannot be said; 4 system.\n"
    "\nExamples:\n"
    "  galplan export plan.json -o galvatron_config.json\n";

static bool parse(int argc, char **argv, export_options *o, int *exit_code)
{
    const gal_option options[] = {
        gal_option_short('o',
                         gal_option_required(gal_option_string("output", "FILE", "where to write it", &o->output))),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "export",
                                 .summary = "Write a plan as a strategy file of Hetu-Galvatron.",
                                 .positional = "PLAN",
                                 .positional_min = 1,
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    if (!gal_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    o->path = arguments.positional[0];
    return true;
}

int gal_cli_export(int argc, char **argv)
{
    export_options o = {0};
    gal_error err = {0};
    gal_galvatron_plan plan = {0};
    int exit_code = 0;
    gal_code code = GAL_OK;
    if (!parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    GAL_TRY(gal_cli_read_any_plan(o.path, &plan, &err));
    GAL_TRY(gal_galvatron_export_plan(o.output, &plan, &err));
cleanup:
    gal_galvatron_plan_free(&plan);
    return gal_options_end("galplan", "export", code, &err);
}
