/* galplan import: files of Hetu-Galvatron become documents. */
#include "planner/cli/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cli/cluster_input.h"
#include "planner/galvatron/galvatron_files.h"
#include "schemas/base/options.h"
#include "schemas/limits.h"

enum { FILES_MAX = 64 };

typedef struct import_options {
    char *const *path;
    uint32_t path_count;
    const char *model, *cluster, *name, *output;
    gal_u32_list layers, hidden, sequence;
    uint32_t devices, dtype, time_mode, memory_mode;
    bool synchronous_reduce;
} import_options;

static const char notes[] =
    "FILE... (\"-\" is stdin) are one strategy file, or the profiles: all-reduce and p2p bandwidths, overlap\n"
    "coefficient, times of collectives (\"sp_time\"), computation, memory; their keys say which is which. Profiles\n"
    "become a galvatron_profile, for the model of --model or of --layers, --hidden and --sequence (lists, where there\n"
    "are several layer types). A strategy becomes a galvatron_plan; with --model and --cluster the plan that galrun\n"
    "runs.\n"
    "Exit: 0 written; 2 usage; 3 a file is wrong, or the plan is none for galrun; 4 system.\n"
    "\nExamples:\n"
    "  galplan import hardware_configs/*_1nodes_8gpus_per_node.json hardware_configs/overlap_coefficient.json \\\n"
    "      configs/*_profiling_bf16_llama2-7b_all.json --model llama2-7b --sequence 2048 -o llama.json\n"
    "  galplan import galvatron_config_llama2-7b.json --devices 8 -o strategy.json\n";

static bool parse(int argc, char **argv, import_options *o, int *exit_code)
{
    const gal_option options[] = {
        gal_option_string("model", "M", "model document, Hugging Face config.json or catalogue name", &o->model),
        gal_option_string("cluster", "C", "strategy: the cluster of the plan to write", &o->cluster),
        gal_option_u32("devices", "N", "strategy: of a file without world_size", &o->devices, 1, GAL_DEVICES_MAX),
        gal_option_u32_list("layers", "N,...", "profiles: layers of each type, in place of the model's", &o->layers, 1,
                            GAL_LAYERS_MAX),
        gal_option_u32_list("hidden", "N,...", "profiles: their widths", &o->hidden, 1, GAL_HIDDEN_MAX),
        gal_option_u32_list("sequence", "N,...", "profiles: their sequence lengths", &o->sequence, 1,
                            GAL_SEQUENCE_LENGTH_MAX),
        gal_option_enum("dtype", "profiles: what was computed in (bf16)", &o->dtype, gal_galvatron_dtype_names,
                        GAL_GALVATRON_DTYPE_COUNT),
        gal_option_enum("time-mode", "profiles: which times count (static)", &o->time_mode,
                        gal_galvatron_time_mode_names, GAL_GALVATRON_TIME_MODE_COUNT),
        gal_option_enum("memory-mode", "profiles: which bytes count (static)", &o->memory_mode,
                        gal_galvatron_memory_mode_names, GAL_GALVATRON_MEMORY_MODE_COUNT),
        gal_option_flag("synchronous-reduce", "profiles: gradients are reduced at the end of a step",
                        &o->synchronous_reduce),
        gal_option_string("name", "TEXT", "name in the document", &o->name),
        gal_option_short('o',
                         gal_option_required(gal_option_string("output", "FILE", "where to write it", &o->output))),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "import",
                                 .summary = "Make documents of Hetu-Galvatron's profiles and strategies.",
                                 .positional = "FILE...",
                                 .positional_min = 1,
                                 .positional_max = FILES_MAX,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    if (!gal_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    o->path = arguments.positional;
    o->path_count = arguments.positional_count;
    return true;
}

static gal_code set_name(const import_options *o, char *name, gal_error *err)
{
    if (o->name == NULL) {
        return GAL_OK;
    }
    if (strlen(o->name) >= GAL_NAME_BYTES) {
        return gal_fail(err, GAL_ERR_USAGE, "--name: must have at most %d bytes", GAL_NAME_BYTES - 1);
    }
    (void)snprintf(name, GAL_NAME_BYTES, "%s", o->name);
    return GAL_OK;
}

/* Only options of the other kind of file are refused; what each means is said by its help. */
static gal_code refuse_options(bool given, const char *names, const char *where, gal_error *err)
{
    return given ? gal_fail(err, GAL_ERR_USAGE, "%s: not with a %s", names, where) : GAL_OK;
}

/* ---- profiles ---- */

/* Lists given, the model's numbers where they are not; all lists of one length. */
static gal_code set_layer_types(const import_options *o, gal_galvatron_profile *profile, gal_error *err)
{
    gal_model model = {0};
    gal_u32_list layers = o->layers;
    gal_u32_list hidden = o->hidden;
    gal_u32_list sequence = o->sequence;
    if (o->model != NULL) {
        const gal_code code = gal_model_read(o->model, &model, err);
        if (code != GAL_OK) {
            return code;
        }
        (void)snprintf(profile->name, sizeof profile->name, "%s", model.name);
        layers = layers.count == 0 ? (gal_u32_list){1, {model.layer_count}} : layers;
        hidden = hidden.count == 0 ? (gal_u32_list){1, {model.hidden}} : hidden;
        sequence = sequence.count == 0 ? (gal_u32_list){1, {model.sequence_length}} : sequence;
    }
    if (layers.count == 0 || layers.count != hidden.count || layers.count != sequence.count) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "give --model, or --layers, --hidden and --sequence with a number for each layer type");
    }
    profile->layer_type = calloc(layers.count, sizeof *profile->layer_type);
    if (profile->layer_type == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t t = 0; t < layers.count; t++) {
        profile->layer_type[t] = (gal_galvatron_layer_type){layers.value[t], hidden.value[t], sequence.value[t]};
    }
    profile->layer_type_count = layers.count;
    return gal_galvatron_layer_count(profile) > GAL_LAYERS_MAX
               ? gal_fail(err, GAL_ERR_USAGE, "--layers: must be at most %d in all", GAL_LAYERS_MAX)
               : GAL_OK;
}

static gal_code import_profile(const import_options *o, gal_json_doc *const *docs, gal_error *err)
{
    gal_code code = GAL_OK;
    bool outside_missing = false;
    gal_galvatron_profile profile = {
        .name = "profile",
        .dtype = (gal_galvatron_dtype)o->dtype,
        .synchronous_reduce = o->synchronous_reduce,
        .time_mode = (gal_galvatron_time_mode)o->time_mode,
        .memory_mode = (gal_galvatron_memory_mode)o->memory_mode,
    };
    GAL_TRY(refuse_options(o->cluster != NULL || o->devices != 0, "--cluster, --devices", "profile", err));
    GAL_TRY(set_layer_types(o, &profile, err));
    GAL_TRY(set_name(o, profile.name, err));
    GAL_TRY(gal_galvatron_import_profile_open(docs, o->path_count, &profile, &outside_missing, err));
    if (outside_missing) {
        (void)fprintf(stderr, "galplan: note: no file has the time of embedding and head; it is taken to be 0\n");
    }
    GAL_TRY(gal_galvatron_profile_write(o->output, &profile, err));
cleanup:
    gal_galvatron_profile_free(&profile);
    return code;
}

/* ---- strategies ---- */

static gal_code import_plan(const import_options *o, gal_json_doc *doc, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_plan theirs = {0};
    gal_plan ours = {0};
    gal_model model;
    gal_cluster cluster;
    const bool for_profiles = o->layers.count + o->hidden.count + o->sequence.count > 0 || o->synchronous_reduce;
    GAL_TRY(refuse_options(for_profiles, "--layers, --hidden, --sequence, --synchronous-reduce", "strategy", err));
    if ((o->model == NULL) != (o->cluster == NULL)) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "a plan for galrun needs --model and --cluster, both"));
    }
    GAL_TRY(gal_galvatron_import_plan_open(doc, o->path[0], o->devices, &theirs, err));
    GAL_TRY(set_name(o, theirs.name, err));
    if (o->model == NULL) {
        GAL_TRY(gal_galvatron_plan_write(o->output, &theirs, err));
    } else {
        GAL_TRY(gal_model_read(o->model, &model, err));
        GAL_TRY(gal_cli_cluster_read(o->cluster, &cluster, err));
        GAL_TRY(gal_galvatron_plan_to(&theirs, &model, &cluster, &ours, err));
        GAL_TRY(gal_plan_write(o->output, &ours, err));
    }
cleanup:
    gal_plan_free(&ours);
    gal_galvatron_plan_free(&theirs);
    return code;
}

static gal_code run(const import_options *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_doc *docs[FILES_MAX] = {NULL};
    for (uint32_t i = 0; i < o->path_count; i++) {
        GAL_TRY(gal_json_open(o->path[i], &docs[i], err));
    }
    if (o->path_count == 1 && gal_galvatron_is_strategy(docs[0])) {
        GAL_TRY(import_plan(o, docs[0], err));
    } else {
        GAL_TRY(import_profile(o, docs, err));
    }
cleanup:
    for (uint32_t i = 0; i < o->path_count; i++) {
        gal_json_close(docs[i]);
    }
    return code;
}

int gal_cli_import(int argc, char **argv)
{
    import_options o = {.dtype = GAL_GALVATRON_BF16};
    gal_error err = {0};
    int exit_code = 0;
    if (!parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    const gal_code code = run(&o, &err);
    return gal_options_end("galplan", "import", code, &err);
}
