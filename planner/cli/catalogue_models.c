/* galplan models: the list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cli/catalogue_lists.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/model.h"

typedef struct row {
    const gal_catalogue_entry *entry;
    gal_model model;
    char stem[GAL_NAME_BYTES]; /* the name without its size: "llama3.1" of "llama3.1-8b" */
    uint64_t parameter_count;
} row;

const char *gal_list_group(const char *group)
{
    return group[0] == '\0' ? "train" : group;
}

/* Parameters of BERT's pretraining that published sizes count and a masked LM has not: the pooler, and the head that
 * tells whether two sentences follow each other. */
static uint64_t heads_of_pretraining(const gal_model *model)
{
    const uint64_t hidden = model->hidden;
    return model->family == GAL_FAMILY_BERT ? hidden * hidden + hidden + 2 * hidden + 2 : 0;
}

static bool is_decoder(const gal_model *model)
{
    return model->family == GAL_FAMILY_LLAMA || model->family == GAL_FAMILY_DECODER;
}

/* Decoders before others, kin together, the smallest first. */
static int compare_rows(const void *left, const void *right)
{
    const row *a = left, *b = right;
    const int groups = strcmp(a->entry->group, b->entry->group);
    const int families = is_decoder(&b->model) - is_decoder(&a->model);
    const int stems = strcmp(a->stem, b->stem);
    const int counts = (a->parameter_count > b->parameter_count) - (a->parameter_count < b->parameter_count);
    const int names = strcmp(a->entry->name, b->entry->name);
    return groups != 0 ? groups : families != 0 ? families : stems != 0 ? stems : counts != 0 ? counts : names;
}

static gal_code read_rows(row *rows, uint32_t *count, gal_error *err)
{
    *count = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, "model") != 0) {
            continue;
        }
        row *r = &rows[(*count)++];
        const gal_code code = gal_model_read(entry->name, &r->model, err);
        if (code != GAL_OK) {
            return code;
        }
        const char *dash = strrchr(entry->name, '-');
        const int length = (int)(dash == NULL ? strlen(entry->name) : (size_t)(dash - entry->name));
        (void)snprintf(r->stem, sizeof r->stem, "%.*s", length, entry->name);
        r->entry = entry;
        r->parameter_count = gal_model_parameter_count(&r->model);
    }
    qsort(rows, *count, sizeof *rows, compare_rows);
    return GAL_OK;
}

static void print_heading(const char *group)
{
    printf(group[0] == '\0' ? "Models that people train:\n" : "\nSamples of %s, in their sizes:\n", group);
    printf("%-18s %10s  %6s  %6s  %5s  %10s  %10s  %5s  %s\n", "", "parameters", "layers", "hidden", "heads",
           "sequence", "vocabulary", "batch", "dtype");
}

static void print_row(const row *r)
{
    const gal_model *model = &r->model;
    const double count = (double)r->parameter_count;
    char parameters[32], sequence[32];
    (void)snprintf(parameters, sizeof parameters, count < 1e9 ? "%.1f M" : "%.2f B",
                   count * (count < 1e9 ? 1e-6 : 1e-9));
    (void)snprintf(sequence, sizeof sequence, model->decoder_layer_count > 0 ? "%u to %u" : "%u",
                   model->sequence_length, model->decoder_sequence_length);
    printf("%-18s %10s  %6u  %6u  %5u  %10s  %10u  %5u  %s\n", r->entry->name, parameters,
           model->layer_count + model->decoder_layer_count, model->hidden, model->head_count, sequence,
           model->vocabulary, model->global_batch_samples, gal_dtype_names[model->compute_dtype]);
}

static void write_row(gal_json_writer *json, const row *r)
{
    const gal_model *model = &r->model;
    gal_json_begin_object(json, NULL);
    gal_json_put_string(json, "name", r->entry->name);
    gal_json_put_string(json, "group", gal_list_group(r->entry->group));
    gal_json_put_u64(json, "layer_count", model->layer_count);
    if (model->decoder_layer_count > 0) {
        gal_json_put_u64(json, "decoder_layer_count", model->decoder_layer_count);
    }
    gal_json_put_u64(json, "hidden", model->hidden);
    gal_json_put_u64(json, "sequence_length", model->sequence_length);
    gal_json_put_u64(json, "vocabulary", model->vocabulary);
    gal_json_put_u64(json, "global_batch_samples", model->global_batch_samples);
    gal_json_put_string(json, "compute_dtype", gal_dtype_names[model->compute_dtype]);
    gal_json_put_u64(json, "parameter_count", r->parameter_count);
    gal_json_put_u64(json, "pretraining_parameter_count", r->parameter_count + heads_of_pretraining(model));
    gal_json_end_object(json);
}

gal_code gal_list_models(gal_json_writer *json, gal_error *err)
{
    uint32_t count = 0;
    row *rows = calloc(gal_catalogue_entry_count, sizeof *rows);
    gal_code code = rows == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory") : read_rows(rows, &count, err);
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        if (json != NULL) {
            write_row(json, &rows[i]);
            continue;
        }
        if (i == 0 || strcmp(rows[i].entry->group, rows[i - 1].entry->group) != 0) {
            print_heading(rows[i].entry->group);
        }
        print_row(&rows[i]);
    }
    free(rows);
    return code;
}
