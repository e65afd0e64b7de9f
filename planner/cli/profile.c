#include "planner/cli/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "costmodel/duration.h"
#include "planner/cli/assumed.h"
#include "planner/cli/calibrate.h"
#include "planner/cli/cluster_input.h"
#include "planner/cli/profile_tables.h"
#include "schemas/base/options.h"
#include "schemas/limits.h"

enum { MODELS_MAX = 16 };

typedef struct settings {
    const char *cluster, *output;
    const char *model[MODELS_MAX];
    uint32_t model_count;
    gal_model_options arithmetic;
    gal_u32_list batches, microbatch_counts;
} settings;

static const char notes[] =
    "Further models may follow. Every entry says \"analytic\": the cluster document's own figures and the formulas of\n"
    "costmodel/analytic_kernel.h and analytic_collective.h; nothing runs. A search with this profile finds the plan "
    "and\n"
    "the seconds that --cluster gives: it is a list to read, to compare with a measured one, and to correct by hand.\n"
    "Without --analytic the machine at hand is measured: see 'galplan profile --help'.\n"
    "\nExamples:\n"
    "  galplan profile --analytic titan-8 --model gpt2-small -o profile.json\n";

static bool parse(int argc, char **argv, settings *s, int *exit_code)
{
    const gal_option options[] = {
        gal_option_required(
            gal_option_string("analytic", "CLUSTER", "cluster document or catalogue name", &s->cluster)),
        gal_option_string("model", "MODEL", "the model document whose plans' kernels are listed; without it none",
                          &s->model[0]),
        gal_option_enum("dtype", GAL_CLI_DTYPE_HELP, &s->arithmetic.dtype, gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT),
        gal_option_u32("sequence", "N", GAL_CLI_SEQUENCE_HELP, &s->arithmetic.sequence_length, 1,
                       GAL_SEQUENCE_LENGTH_MAX),
        gal_option_u32_list("batch", "B,...", "samples per step (default: the model's own)", &s->batches, 1,
                            GAL_BATCH_SAMPLES_MAX),
        gal_option_u32_list("microbatches", "m,...", "microbatches per step (default: powers of two)",
                            &s->microbatch_counts, 1, GAL_BATCH_SAMPLES_MAX),
        gal_option_short('o',
                         gal_option_required(gal_option_string("output", "FILE", "the profile to write", &s->output))),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "profile",
                                 .summary = "Write what the figures of a cluster say, as a profile.",
                                 .positional = "[MODEL...]",
                                 .positional_max = MODELS_MAX - 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    if (!gal_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    s->model_count = s->model[0] != NULL;
    for (uint32_t i = 0; i < arguments.positional_count; i++) {
        s->model[s->model_count++] = arguments.positional[i];
    }
    return true;
}

/* "galplan profile --analytic titan-8", cut where it does not fit. */
static void describe(const settings *s, gal_profile *profile)
{
    size_t used =
        (size_t)snprintf(profile->command, sizeof profile->command, "galplan profile --analytic %s", s->cluster);
    for (uint32_t i = 0; i < s->model_count && used < sizeof profile->command; i++) {
        used += (size_t)snprintf(profile->command + used, sizeof profile->command - used, " %s%s",
                                 i == 0 ? "--model " : "", s->model[i]);
    }
    if (s->arithmetic.dtype < GAL_COMPUTE_DTYPE_COUNT && used < sizeof profile->command) {
        used += (size_t)snprintf(profile->command + used, sizeof profile->command - used, " --dtype %s",
                                 gal_dtype_names[s->arithmetic.dtype]);
    }
    if (s->arithmetic.sequence_length > 0 && used < sizeof profile->command) {
        (void)snprintf(profile->command + used, sizeof profile->command - used, " --sequence %u",
                       s->arithmetic.sequence_length);
    }
    (void)snprintf(profile->processor, sizeof profile->processor, "%s, not measured", profile->cluster.device.kind);
}

static gal_code run(const settings *s, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profile profile = {0};
    gal_cluster cluster;
    gal_model model;
    gal_assumed assumed = {.model = &model, .device = &cluster.device, .batches = s->batches};
    char text[GAL_ASSUMED_TEXT_BYTES];
    GAL_TRY(gal_cli_cluster_read(s->cluster, &cluster, err));
    gal_profile_analytic(&cluster, &profile);
    describe(s, &profile);
    for (uint32_t i = 0; i < s->model_count; i++) {
        GAL_TRY(gal_model_choose(s->model[i], &s->arithmetic, gal_device_dtypes(&cluster.device), &model,
                                 &assumed.origins, err));
        assumed.origins.batch = s->batches.count > 0 ? GAL_ORIGIN_OPTION : assumed.origins.batch;
        gal_assumed_text(&assumed, text);
        (void)fprintf(stderr, "galplan: note: %s\n", text);
        GAL_TRY(gal_profile_tables_add(&profile, &model, &s->batches, &s->microbatch_counts, err));
    }
    GAL_TRY(gal_profile_write(s->output, &profile, err));
cleanup:
    gal_profile_free(&profile);
    return code;
}

/* Whether the command line has this option, which says who reads the rest. */
static bool given(int argc, char *const *argv, const char *option)
{
    const size_t length = strlen(option);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], option, length) == 0 && (argv[i][length] == '\0' || argv[i][length] == '=')) {
            return true;
        }
    }
    return false;
}

static int start_profiler(char **argv)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "-profile");
    if (length <= 0) {
        fprintf(stderr, "galplan: error: cannot find this program's own path: %s\n", strerror(errno));
        return GAL_ERR_SYSTEM;
    }
    memcpy(path + length, "-profile", sizeof "-profile");
    execv(path, argv);
    fprintf(stderr,
            "galplan: error: %s: %s (it is built where MPI, OpenBLAS and hwloc are: see 'make'; 'galplan profile "
            "--analytic CLUSTER' needs none of them)\n",
            path, strerror(errno));
    return GAL_ERR_SYSTEM;
}

int gal_cli_profile(int argc, char **argv)
{
    settings s = {.arithmetic = GAL_MODEL_OPTIONS_NONE};
    gal_error err = {0};
    int exit_code = 0;
    if (given(argc, argv, "--calibrate")) {
        return gal_cli_calibrate(argc, argv);
    }
    if (!given(argc, argv, "--analytic")) {
        return start_profiler(argv);
    }
    if (!parse(argc, argv, &s, &exit_code)) {
        return exit_code;
    }
    const gal_code code = run(&s, &err);
    return gal_options_end("galplan", "profile", code, &err);
}
