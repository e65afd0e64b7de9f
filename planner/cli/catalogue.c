/* galplan models, galplan clusters: what ships with the programs, or one document to start from. */
#include "planner/cli/catalogue.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "planner/cli/catalogue_lists.h"
#include "planner/cli/cluster_input.h"
#include "schemas/base/options.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/cluster_words.h"
#include "schemas/limits.h"
#include "schemas/model_choice.h"

static gal_code list(const char *key, gal_code (*list_all)(gal_json_writer *json, gal_error *err), bool as_json,
                     gal_error *err)
{
    if (!as_json) {
        return list_all(NULL, err);
    }
    gal_json_writer *json = gal_json_writer_create();
    gal_json_begin_object(json, NULL);
    gal_json_begin_array(json, key);
    gal_code code = list_all(json, err);
    gal_json_end_array(json);
    gal_json_end_object(json);
    if (code == GAL_OK) {
        code = gal_json_writer_save(json, "-", err);
    }
    gal_json_writer_free(json);
    return code;
}

/* A name that is no file and no name of the kind is the user's mistake. */
static gal_code check_name(const char *kind, const char *name, gal_error *err)
{
    char suggestion[GAL_ERROR_TEXT_BYTES / 2];
    if (strcmp(name, "-") == 0 || access(name, F_OK) == 0 || gal_catalogue_find(kind, name) != NULL) {
        return GAL_OK;
    }
    gal_catalogue_suggest(kind, name, suggestion, sizeof suggestion);
    return gal_fail(err, GAL_ERR_USAGE, "no %s '%s' ships with galplan; %s%s'galplan %ss' lists them", kind, name,
                    suggestion, suggestion[0] == '\0' ? "" : " ", kind);
}

/* ---- models ---- */

/* As --dtype and --sequence make it; a dtype that is not asked for stays the document's. */
static gal_code print_model(const char *name, const gal_model_options *arithmetic, gal_error *err)
{
    const uint32_t every_dtype = (1U << GAL_COMPUTE_DTYPE_COUNT) - 1;
    gal_model model;
    gal_model_origins origins;
    gal_code code = check_name("model", name, err);
    if (code == GAL_OK) {
        code = gal_model_choose(name, arithmetic, every_dtype, &model, &origins, err);
    }
    return code == GAL_OK ? gal_model_write("-", &model, err) : code;
}

static gal_code run_models(const char *name, const gal_model_options *arithmetic, bool as_json, gal_error *err)
{
    if (name != NULL) {
        return print_model(name, arithmetic, err);
    }
    if (arithmetic->dtype < GAL_COMPUTE_DTYPE_COUNT || arithmetic->sequence_length > 0) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--dtype and --sequence need the name of a model, whose document they change");
    }
    return list("models", gal_list_models, as_json, err);
}

int gal_cli_models(int argc, char **argv)
{
    bool as_json = false;
    gal_model_options arithmetic = GAL_MODEL_OPTIONS_NONE;
    const gal_option options[] = {gal_option_flag("json", "print one JSON object: a document is one", &as_json),
                                  gal_option_enum("dtype", "of NAME's document: another compute_dtype",
                                                  &arithmetic.dtype, gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT),
                                  gal_option_u32("sequence", "N",
                                                 "of NAME's document: another sequence_length; t5: of the source",
                                                 &arithmetic.sequence_length, 1, GAL_SEQUENCE_LENGTH_MAX)};
    const gal_command command = {
        .program = "galplan",
        .command = "models",
        .summary = "List the models that ship with galplan, or print one as a document.",
        .positional = "[NAME|FILE]",
        .positional_max = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "A name that is listed stands for the document wherever a command takes --model. Batch: samples of a\n"
                 "step. A file is a document or a Hugging Face config.json.\n"
                 "\nExamples:\n"
                 "  galplan models gpt2-medium >model.json\n"
                 "  galplan models llama3-8b --dtype fp32 --sequence 16384 >long.json\n"
                 "  galplan search --model gpt2-medium --cluster titan-8 --batch 16 --space dp,sdp\n"};
    gal_arguments arguments;
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    const char *name = arguments.positional_count == 1 ? arguments.positional[0] : NULL;
    return gal_options_end("galplan", "models", run_models(name, &arithmetic, as_json, &err), &err);
}

/* ---- clusters ---- */

/* Writes the document. If it goes to a file, a line on stdout says what it holds; words are noted on stderr else. */
static gal_code write_cluster(const gal_cluster *cluster, const char *words, const char *output, gal_error *err)
{
    char said[GAL_CLUSTER_SAID_BYTES];
    const gal_code code = gal_cluster_write(output, cluster, err);
    if (code == GAL_OK && strcmp(output, "-") != 0) {
        gal_cluster_say(cluster, said);
        printf("%s: %s\n", output, said);
    } else if (code == GAL_OK && words != NULL) {
        gal_cli_cluster_note(words, cluster);
    }
    return code;
}

static gal_code make_cluster(const char *words, const char *output, gal_error *err)
{
    gal_cluster cluster;
    const gal_code code = gal_cluster_from_words(words, NULL, &cluster, err);
    return code == GAL_OK ? write_cluster(&cluster, words, output, err) : code;
}

static gal_code print_cluster(const char *name, const char *output, gal_error *err)
{
    gal_cluster cluster;
    if (gal_cluster_is_words(name) && access(name, F_OK) != 0) {
        return make_cluster(name, output, err);
    }
    gal_code code = check_name("cluster", name, err);
    if (code == GAL_OK) {
        code = gal_cluster_read(name, &cluster, err);
    }
    return code == GAL_OK ? write_cluster(&cluster, NULL, output, err) : code;
}

typedef struct cluster_options {
    bool json, devices;
    const char *words, *output;
} cluster_options;

static gal_code run_clusters(const cluster_options *o, const gal_arguments *arguments, gal_error *err)
{
    const char *name = arguments->positional_count == 1 ? arguments->positional[0] : NULL;
    const char *output = o->output == NULL ? "-" : o->output;
    if ((name != NULL) + o->devices + (o->words != NULL) > 1) {
        return gal_fail(err, GAL_ERR_USAGE, "NAME, --devices and --make are three requests: give one");
    }
    if (o->output != NULL && name == NULL && o->words == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--output is for one document: give NAME or --make");
    }
    if (name != NULL) {
        return print_cluster(name, output, err);
    }
    if (o->words != NULL) {
        return make_cluster(o->words, output, err);
    }
    return o->devices ? list("devices", gal_list_devices, o->json, err)
                      : list("clusters", gal_list_clusters, o->json, err);
}

int gal_cli_clusters(int argc, char **argv)
{
    cluster_options o = {0};
    const gal_option options[] = {
        gal_option_string("make", "WORDS", "build the cluster that words say: \"2x4 rtx3090, ethernet 10Gbit\"",
                          &o.words),
        gal_option_short('o',
                         gal_option_string("output", "FILE", "where the one document goes (-: stdout)", &o.output)),
        gal_option_flag("json", "print one JSON object: a document is one", &o.json),
        gal_option_flag("devices", "list the kinds of devices instead: memory, peak rates by precision", &o.devices)};
    const gal_command command = {
        .program = "galplan",
        .command = "clusters",
        .summary = "List the clusters that ship with galplan, or print one as a document.",
        .positional = "[NAME|WORDS|FILE]",
        .positional_max = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "A row: devices, what each is and its peak rates per second; then how many of them each kind of link "
                 "joins, and\n"
                 "its rate per device and direction. The figures are those of data sheets: a plan for one of these "
                 "clusters is a\n"
                 "plan for ideal devices, 'galplan profile' measures real ones.\n"
                 "\n"
                 "A name that is listed stands for the document wherever a command takes --cluster. So do words:\n"
                 "\n"
                 "  [NODES x] DEVICES x DEVICE [, MEMORY] [, LINK [RATE]] [, NETWORK [RATE]]\n"
                 "\n"
                 "  DEVICE   a kind of --devices or a word for it: h100, a100-80g, 4090. Without NODES: as many usual "
                 "nodes of\n"
                 "           it as DEVICES fill\n"
                 "  MEMORY   what may be used of a device's, as 40GB\n"
                 "  LINK     in a node: nvlink, pcie-3, pcie-4, pcie-5, infinity-fabric; else as usual for the device. "
                 "RATE is\n"
                 "           per device and direction, as 200GB/s\n"
                 "  NETWORK  between nodes: infiniband or ethernet. RATE is of a node, as 10Gbit (or 1.25GB/s, or "
                 "8x400Gbit); its\n"
                 "           devices share it, so each gets its part. 400Gbit/gpu is of a device. Devices of large "
                 "servers have\n"
                 "           a usual network\n"
                 "\nExamples:\n"
                 "  galplan clusters a100-8 >cluster.json\n"
                 "  galplan clusters --make \"2x4 rtx3090, pcie-4, ethernet 10Gbit\" -o cluster.json\n"
                 "  galplan search --model gpt2-small --cluster 8xh100 --batch 32\n"
                 "  galplan search --model gpt2-small --cluster a100-8 --devices 4 --batch 32 --microbatches 4\n"};
    gal_arguments arguments;
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    return gal_options_end("galplan", "clusters", run_clusters(&o, &arguments, &err), &err);
}
