/* galplan models, galplan clusters: what ships with the programs, or one of them as a document to start from. */
#include "planner/cli/catalogue.h"

#include <stdio.h>
#include <string.h>

#include "schemas/base/options.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/cluster.h"
#include "schemas/limits.h"
#include "schemas/model_choice.h"

/* A kind of document that ships: one row of its list, as text or as an element of an array. */
typedef struct shelf {
    const char *kind, *command, *summary, *notes;
    gal_code (*list)(const char *name, gal_json_writer *json, gal_error *err); /* json NULL: text on stdout */
    bool has_devices;
    bool has_arithmetic;
} shelf;

/* Of BERT's pretraining, which published sizes count and a masked LM has not: the pooler, and the head that tells
 * whether two sentences follow each other. */
static uint64_t heads_of_pretraining(const gal_model *model)
{
    const uint64_t hidden = model->hidden;
    return model->family == GAL_FAMILY_BERT ? hidden * hidden + hidden + 2 * hidden + 2 : 0;
}

static gal_code list_model(const char *name, gal_json_writer *json, gal_error *err)
{
    gal_model model;
    const gal_code code = gal_model_read(name, &model, err);
    if (code != GAL_OK) {
        return code;
    }
    if (json == NULL) {
        char target[32] = "";
        if (model.decoder_layer_count > 0) {
            (void)snprintf(target, sizeof target, " to %u", model.decoder_sequence_length);
        }
        printf("%-14s %8.1f M parameters: %3u layers, hidden %5u, %3u heads, sequence %u%s, %s\n", name,
               (double)gal_model_parameter_count(&model) * 1e-6, model.layer_count + model.decoder_layer_count,
               model.hidden, model.head_count, model.sequence_length, target, gal_dtype_names[model.compute_dtype]);
        return GAL_OK;
    }
    gal_json_begin_object(json, NULL);
    gal_json_put_string(json, "name", name);
    gal_json_put_u64(json, "layer_count", model.layer_count);
    if (model.decoder_layer_count > 0) {
        gal_json_put_u64(json, "decoder_layer_count", model.decoder_layer_count);
    }
    gal_json_put_u64(json, "hidden", model.hidden);
    const uint64_t parameters = gal_model_parameter_count(&model);
    gal_json_put_u64(json, "parameter_count", parameters);
    gal_json_put_u64(json, "pretraining_parameter_count", parameters + heads_of_pretraining(&model));
    gal_json_end_object(json);
    return GAL_OK;
}

static void print_cluster(const char *name, const gal_cluster *cluster)
{
    const gal_device *device = &cluster->device;
    printf("%-18s %4u x %-14s %3.0f GB, %5.1f TFLOP/s fp32, %4.0f GB/s; ", name, cluster->device_count, device->kind,
           (double)device->memory_bytes * 1e-9, device->fp32_flops_per_second * 1e-12,
           device->memory_bytes_per_second * 1e-9);
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const gal_link_level *level = &cluster->level[i];
        printf("%s%u by %s %.4g GB/s", i == 0 ? "" : ", ", level->span_devices, level->name,
               level->bytes_per_second * 1e-9);
    }
    printf("\n");
}

static gal_code list_cluster(const char *name, gal_json_writer *json, gal_error *err)
{
    gal_cluster cluster;
    const gal_code code = gal_cluster_read(name, &cluster, err);
    if (code != GAL_OK) {
        return code;
    }
    if (json == NULL) {
        print_cluster(name, &cluster);
        return GAL_OK;
    }
    gal_json_begin_object(json, NULL);
    gal_json_put_string(json, "name", name);
    gal_json_put_u64(json, "device_count", cluster.device_count);
    gal_json_put_string(json, "device_kind", cluster.device.kind);
    gal_json_put_u64(json, "memory_bytes", cluster.device.memory_bytes);
    gal_json_put_u64(json, "level_count", cluster.level_count);
    gal_json_end_object(json);
    return GAL_OK;
}

/* ---- kinds of devices ---- */

enum { DEVICE_KINDS_MAX = 64 };

static void print_rate(const char *name, double flops_per_second)
{
    if (flops_per_second > 0.0) {
        printf(" %s %.4g", name, flops_per_second * 1e-12);
    }
}

static void print_device(const gal_device *device)
{
    printf("%-15s %4.0f GB at %5.0f GB/s; TFLOP/s", device->kind, (double)device->memory_bytes * 1e-9,
           device->memory_bytes_per_second * 1e-9);
    print_rate("fp32", device->fp32_flops_per_second);
    print_rate("fp64", device->fp64_flops_per_second);
    print_rate("tf32", device->tf32_flops_per_second);
    print_rate("fp16", device->fp16_flops_per_second);
    print_rate("bf16", device->bf16_flops_per_second);
    if (device->multiprocessor_count > 0) {
        printf("; %u multiprocessors", device->multiprocessor_count);
    }
    printf("\n");
}

/* Of each kind once, as the first cluster that has it. */
static gal_code list_devices(gal_json_writer *json, gal_error *err)
{
    char seen[DEVICE_KINDS_MAX][GAL_NAME_BYTES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        gal_cluster cluster;
        uint32_t known = 0;
        if (strcmp(gal_catalogue_entries[i].kind, "cluster") != 0) {
            continue;
        }
        const gal_code code = gal_cluster_read(gal_catalogue_entries[i].name, &cluster, err);
        if (code != GAL_OK) {
            return code;
        }
        while (known < count && strcmp(seen[known], cluster.device.kind) != 0) {
            known++;
        }
        if (known < count) {
            continue;
        }
        GAL_ASSERT(count < DEVICE_KINDS_MAX);
        memcpy(seen[count++], cluster.device.kind, GAL_NAME_BYTES);
        if (json == NULL) {
            print_device(&cluster.device);
        } else {
            gal_json_begin_object(json, NULL);
            gal_device_write_members(json, &cluster.device);
            gal_json_end_object(json);
        }
    }
    return GAL_OK;
}

/* ---- lists ---- */

static gal_code list_all(const shelf *s, gal_json_writer *json, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < gal_catalogue_entry_count && code == GAL_OK; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, s->kind) == 0) {
            code = s->list(entry->name, json, err);
        }
    }
    return code;
}

static gal_code list_as_json(const shelf *s, bool devices, gal_error *err)
{
    gal_json_writer *json = gal_json_writer_create();
    gal_json_begin_object(json, NULL);
    gal_json_begin_array(json, devices ? "devices" : s->command);
    gal_code code = devices ? list_devices(json, err) : list_all(s, json, err);
    gal_json_end_array(json);
    gal_json_end_object(json);
    if (code == GAL_OK) {
        code = gal_json_writer_save(json, "-", err);
    }
    gal_json_writer_free(json);
    return code;
}

static gal_code print_one(const shelf *s, const char *name, gal_error *err)
{
    const char *text = gal_catalogue_find(s->kind, name);
    char suggestion[GAL_ERROR_TEXT_BYTES / 2];
    if (text == NULL) {
        gal_catalogue_suggest(s->kind, name, suggestion, sizeof suggestion);
        return gal_fail(err, GAL_ERR_USAGE, "no %s '%s' ships with galplan; %s%s'galplan %s' lists them", s->kind, name,
                        suggestion, suggestion[0] == '\0' ? "" : " ", s->command);
    }
    (void)fputs(text, stdout);
    return GAL_OK;
}

/* The document of a model as --dtype and --sequence make it. A dtype that is not asked for stays the document's. */
static gal_code print_changed(const char *name, const gal_model_options *arithmetic, gal_error *err)
{
    const uint32_t every_dtype = (1U << GAL_COMPUTE_DTYPE_COUNT) - 1;
    gal_model model;
    gal_model_origins origins;
    const gal_code code = gal_model_choose(name, arithmetic, every_dtype, &model, &origins, err);
    return code == GAL_OK ? gal_model_write("-", &model, err) : code;
}

static int run(const shelf *s, int argc, char **argv)
{
    bool as_json = false, devices = false;
    gal_model_options arithmetic = GAL_MODEL_OPTIONS_NONE;
    gal_option options[3] = {gal_option_flag("json", "print one JSON object: a document is one", &as_json)};
    uint32_t option_count = 1;
    if (s->has_devices) {
        options[option_count++] =
            gal_option_flag("devices", "list the kinds of devices instead: memory, peak rates by precision", &devices);
    }
    if (s->has_arithmetic) {
        options[option_count++] = gal_option_enum("dtype", "of NAME's document: another compute_dtype",
                                                  &arithmetic.dtype, gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT);
        options[option_count++] =
            gal_option_u32("sequence", "N", "of NAME's document: another sequence_length; t5: of the source",
                           &arithmetic.sequence_length, 1, GAL_SEQUENCE_LENGTH_MAX);
    }
    const gal_command command = {.program = "galplan",
                                 .command = s->command,
                                 .summary = s->summary,
                                 .positional = "[NAME]",
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = option_count,
                                 .notes = s->notes};
    gal_arguments arguments;
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    const bool changed = arithmetic.dtype < GAL_COMPUTE_DTYPE_COUNT || arithmetic.sequence_length > 0;
    gal_code code;
    if (changed && arguments.positional_count == 0) {
        code = gal_fail(&err, GAL_ERR_USAGE,
                        "--dtype and --sequence need the name of a model, whose document they change");
    } else if (changed && gal_catalogue_find(s->kind, arguments.positional[0]) != NULL) {
        code = print_changed(arguments.positional[0], &arithmetic, &err);
    } else if (arguments.positional_count == 1) {
        code = devices ? gal_fail(&err, GAL_ERR_USAGE, "--devices takes no name: it lists the kinds of devices")
                       : print_one(s, arguments.positional[0], &err);
    } else if (as_json) {
        code = list_as_json(s, devices, &err);
    } else {
        code = devices ? list_devices(NULL, &err) : list_all(s, NULL, &err);
    }
    return gal_options_end("galplan", s->command, code, &err);
}

int gal_cli_models(int argc, char **argv)
{
    static const shelf models = {"model",
                                 "models",
                                 "List the models that ship with galplan, or print one as a document.",
                                 "A name that is listed stands for the document wherever a command takes --model.\n"
                                 "\nExamples:\n"
                                 "  galplan models gpt2-medium >model.json\n"
                                 "  galplan models llama3-8b --dtype fp32 --sequence 16384 >long.json\n"
                                 "  galplan search --model gpt2-medium --cluster titan-8 --batch 16 --space dp,sdp\n",
                                 list_model,
                                 false,
                                 true};
    return run(&models, argc, argv);
}

int gal_cli_clusters(int argc, char **argv)
{
    static const shelf clusters = {
        "cluster",
        "clusters",
        "List the clusters that ship with galplan, or print one as a document.",
        "A row: devices, what each is and its peak rates; then how many of them each kind of link joins, and its rate\n"
        "per device and direction. The figures are those of data sheets: a plan for one of these clusters is a plan\n"
        "for ideal devices, 'galplan profile' measures real ones. A name that is listed stands for the document\n"
        "wherever a command takes --cluster.\n"
        "\nExamples:\n"
        "  galplan clusters a100-8 >cluster.json\n"
        "  galplan search --model gpt2-small --cluster a100-8 --devices 4 --batch 32 --microbatches 4\n",
        list_cluster,
        true,
        false};
    return run(&clusters, argc, argv);
}
