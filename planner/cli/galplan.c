/* galplan: picks the command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "planner/cli/catalogue.h"
#include "planner/cli/check.h"
#include "planner/cli/lower.h"
#include "planner/cli/search.h"
#include "planner/cli/simulate.h"
#include "planner/cli/verify.h"
#include "schemas/base/status.h"

/* `galplan profile` is a program of its own beside this one, so that galplan needs no MPI (as git starts its commands).
 */
static int run_profile(int argc, char **argv)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "-profile");
    (void)argc;
    if (length <= 0) {
        fprintf(stderr, "galplan: error: cannot find this program's own path: %s\n", strerror(errno));
        return GAL_ERR_SYSTEM;
    }
    memcpy(path + length, "-profile", sizeof "-profile");
    execv(path, argv);
    fprintf(stderr, "galplan: error: %s: %s (it is built where MPI, OpenBLAS and hwloc are: see 'make')\n", path,
            strerror(errno));
    return GAL_ERR_SYSTEM;
}

typedef struct command_row {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command_row;

static const command_row commands[] = {
    {"profile", run_profile, "measure this machine -> profile.json"},
    {"search", gal_cli_search, "the fastest plan that fits -> plan.json"},
    {"simulate", gal_cli_simulate, "play a plan against a profile: seconds, bytes, time line"},
    {"lower", gal_cli_lower, "print the program of a stage"},
    {"verify", gal_cli_verify, "prove a plan's programs: no deadlock, no race, right values"},
    {"check", gal_cli_check, "check documents: model, cluster, profile, plan"},
    {"models", gal_cli_models, "list the models that ship with galplan"},
    {"clusters", gal_cli_clusters, "list the clusters that ship with galplan"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fprintf(out,
            "usage: galplan COMMAND [OPTIONS]\n\nFinds the fastest parallel plan to train a Transformer, and proves "
            "it.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(out, "\n'galplan COMMAND --help' says more. galrun trains by a plan.\n"
                 "Exit: 0 done; 1 the answer is no; 2 usage; 3 document; 4 system; 5 device or collective; 6 a bug.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "galplan: error: give a command\ntry 'galplan --help'\n");
        return GAL_ERR_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return GAL_OK;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "galplan: error: unknown command '%s'\ntry 'galplan --help'\n", argv[1]);
    return GAL_ERR_USAGE;
}
