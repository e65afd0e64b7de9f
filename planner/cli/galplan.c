/* galplan: the table of its commands. */
#include "planner/cli/catalogue.h"
#include "planner/cli/check.h"
#include "planner/cli/doctor.h"
#include "planner/cli/estimate.h"
#include "planner/cli/export.h"
#include "planner/cli/import.h"
#include "planner/cli/lower.h"
#include "planner/cli/profile.h"
#include "planner/cli/reproduce.h"
#include "planner/cli/search.h"
#include "planner/cli/simulate.h"
#include "planner/cli/solve.h"
#include "planner/cli/terms.h"
#include "planner/cli/verify.h"
#include "schemas/base/large_pages.h"
#include "schemas/base/program.h"
#include "schemas/base/version.h"

static const gal_program_command commands[] = {
    {"profile", gal_cli_profile, "measure this machine -> profile.json"},
    {"search", gal_cli_search, "the fastest plan that fits -> plan.json"},
    {"solve", gal_cli_solve, "a search problem in plain tables, by any algorithm"},
    {"estimate", gal_cli_estimate, "seconds and bytes of layouts, a row of a table each"},
    {"simulate", gal_cli_simulate, "play a plan against a profile: seconds, bytes, time line"},
    {"lower", gal_cli_lower, "print the program of a stage"},
    {"verify", gal_cli_verify, "prove a plan's programs: no deadlock, no race, right values"},
    {"check", gal_cli_check, "check documents of every kind"},
    {"import", gal_cli_import, "make documents of Hetu-Galvatron's profiles and strategies"},
    {"export", gal_cli_export, "write a plan as a strategy file of Hetu-Galvatron"},
    {"reproduce", gal_cli_reproduce, "search as Hetu-Galvatron does; predict Colossal-AI's tables"},
    {"models", gal_cli_models, "list the models that ship with galplan"},
    {"clusters", gal_cli_clusters, "list the clusters that ship with galplan"},
    {"doctor", gal_cli_doctor, "say what is on this machine and what that allows"},
};

static const gal_program_topic topics[] = {
    {"terms", "words of the output, of plans and of strategies", gal_cli_terms},
    {"mfu", "how model FLOPs and MFU are counted", gal_cli_mfu},
};

int main(int argc, char **argv)
{
    static const gal_program program = {
        .name = "galplan",
        .version = "galplan " GAL_VERSION,
        .summary = "Finds the fastest parallel plan to train a Transformer, and proves it.",
        .commands = commands,
        .command_count = sizeof commands / sizeof commands[0],
        .topics = topics,
        .topic_count = sizeof topics / sizeof topics[0],
        .notes = "'galplan COMMAND --help' or 'galplan help COMMAND' says more. galrun trains by a plan.\n",
    };
    gal_large_pages_reserve();
    return gal_program_main(&program, argc, argv);
}
