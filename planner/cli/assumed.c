#include "planner/cli/assumed.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---- text ---- */

typedef struct line {
    char *text;
    size_t used;
} line;

static void add(line *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(line *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(out->text + out->used, GAL_ASSUMED_TEXT_BYTES - out->used, format, arguments);
    va_end(arguments);
    out->used += bytes > 0 ? (size_t)bytes : 0;
    out->used = out->used < GAL_ASSUMED_TEXT_BYTES ? out->used : GAL_ASSUMED_TEXT_BYTES - 1;
}

static void add_count(line *out, uint64_t count)
{
    const double billions = (double)count * 1e-9;
    if (billions >= 1.0) {
        add(out, billions >= 100.0 ? "%.1f B" : "%.2f B", billions);
    } else if (count >= 100000) {
        add(out, "%.1f M", billions * 1e3);
    } else {
        add(out, "%" PRIu64, count);
    }
}

/* Where a fact is from: the option's name, or the origin's. */
static const char *origin_text(gal_origin origin, const char *option)
{
    return origin == GAL_ORIGIN_OPTION ? option : gal_origin_names[origin];
}

static bool has_rate(const gal_assumed *a)
{
    return (gal_device_dtypes(a->device) >> a->model->compute_dtype & 1) != 0;
}

static void add_dtype(line *out, const gal_assumed *a)
{
    add(out, ", %s (%s", gal_dtype_names[a->model->compute_dtype], origin_text(a->origins.dtype, "--dtype"));
    if (a->model->compute_dtype != a->origins.preferred_dtype) {
        add(out, ": %s has no %s", a->device->kind, gal_dtype_names[a->origins.preferred_dtype]);
    } else if (!has_rate(a)) {
        add(out, ": %s has no rate for it, so that of fp32 counts", a->device->kind);
    }
    add(out, ")");
}

/* Parameters that are learned for each position. */
static uint64_t position_parameters(const gal_model *model)
{
    const bool learned = model->family == GAL_FAMILY_DECODER || model->family == GAL_FAMILY_BERT;
    return learned ? (uint64_t)model->sequence_length * model->hidden : 0;
}

static void add_positions(line *out, const gal_assumed *a)
{
    const gal_model *model = a->model;
    const gal_origin origin = a->origins.sequence;
    add(out, ", %u", model->sequence_length);
    if (model->decoder_layer_count > 0) {
        add(out, " to %u", model->decoder_sequence_length);
    }
    add(out, " positions (%s", origin_text(origin, "--sequence"));
    if (origin == GAL_ORIGIN_DEFAULT && model->reading.configured_positions > 0) {
        add(out, ": the file allows %u", model->reading.configured_positions);
    } else if ((origin == GAL_ORIGIN_OPTION || origin == GAL_ORIGIN_COLUMN) && position_parameters(model) > 0) {
        add(out, ": ");
        add_count(out, position_parameters(model));
        add(out, " of the parameters are learned for them");
    }
    add(out, ")");
}

static void add_batch(line *out, const gal_assumed *a)
{
    const gal_u32_list *list = &a->batches;
    const uint32_t shown = 4;
    add(out, ", batch ");
    if (a->origins.batch == GAL_ORIGIN_COLUMN) {
        add(out, "of each row");
        return;
    }
    if (list->count == 0) {
        add(out, "%u", a->model->global_batch_samples);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const bool skipped = list->count > shown && i >= shown - 1 && i + 1 < list->count;
        if (!skipped) {
            add(out, "%s%u", i == 0 ? "" : list->count > shown && i >= shown ? " ... " : ", ", list->value[i]);
        }
    }
    add(out, " (%s)", origin_text(a->origins.batch, "--batch"));
}

void gal_assumed_text(const gal_assumed *assumed, char text[GAL_ASSUMED_TEXT_BYTES])
{
    const gal_model *model = assumed->model;
    line out = {text, 0};
    text[0] = '\0';
    add(&out, "%s: ", model->name);
    add_count(&out, gal_model_parameter_count(model));
    add(&out, " parameters");
    add_dtype(&out, assumed);
    add_positions(&out, assumed);
    add_batch(&out, assumed);
    add(&out, ", %s, %s states (%s)", gal_optimizer_names[model->optimizer.kind],
        gal_dtype_names[gal_dtype_wide(model->compute_dtype)], gal_origin_names[assumed->origins.optimizer]);
}

void gal_assumed_print(FILE *out, const gal_assumed *assumed)
{
    char text[GAL_ASSUMED_TEXT_BYTES];
    gal_assumed_text(assumed, text);
    (void)fprintf(out, "%s\n", text);
}

/* ---- JSON ---- */

static void put_u32(gal_json_writer *out, const char *key, uint32_t value, gal_origin origin)
{
    gal_json_begin_object(out, key);
    gal_json_put_u64(out, "value", value);
    gal_json_put_string(out, "origin", gal_origin_names[origin]);
    gal_json_end_object(out);
}

static void put_dtype(gal_json_writer *out, const gal_assumed *a)
{
    gal_json_begin_object(out, "dtype");
    gal_json_put_string(out, "value", gal_dtype_names[a->model->compute_dtype]);
    gal_json_put_string(out, "origin", gal_origin_names[a->origins.dtype]);
    if (a->model->compute_dtype != a->origins.preferred_dtype) {
        gal_json_put_string(out, "preferred", gal_dtype_names[a->origins.preferred_dtype]);
    }
    gal_json_end_object(out);
}

static void put_batches(gal_json_writer *out, const gal_assumed *a)
{
    gal_json_begin_object(out, "global_batch_samples");
    gal_json_begin_array(out, "values");
    if (a->batches.count == 0) {
        gal_json_put_u64(out, NULL, a->model->global_batch_samples);
    }
    for (uint32_t i = 0; i < a->batches.count; i++) {
        gal_json_put_u64(out, NULL, a->batches.value[i]);
    }
    gal_json_end_array(out);
    gal_json_put_string(out, "origin", gal_origin_names[a->origins.batch]);
    gal_json_end_object(out);
}

void gal_assumed_put(gal_json_writer *out, const gal_assumed *assumed)
{
    const gal_model *model = assumed->model;
    gal_json_begin_object(out, "assumed");
    gal_json_put_string(out, "model", model->name);
    gal_json_put_u64(out, "parameter_count", gal_model_parameter_count(model));
    put_dtype(out, assumed);
    put_u32(out, "sequence_length", model->sequence_length, assumed->origins.sequence);
    if (model->decoder_layer_count > 0) {
        put_u32(out, "decoder_sequence_length", model->decoder_sequence_length, assumed->origins.sequence);
    }
    put_batches(out, assumed);
    gal_json_begin_object(out, "optimizer");
    gal_json_put_string(out, "value", gal_optimizer_names[model->optimizer.kind]);
    gal_json_put_string(out, "state_dtype", gal_dtype_names[gal_dtype_wide(model->compute_dtype)]);
    gal_json_put_string(out, "origin", gal_origin_names[assumed->origins.optimizer]);
    gal_json_end_object(out);
    gal_json_end_object(out);
}
