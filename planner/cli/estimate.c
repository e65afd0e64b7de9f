/* galplan estimate: seconds and bytes of many layouts, a row each. */
#include "planner/cli/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/answers/training.h"
#include "planner/cli/assumed.h"
#include "planner/cli/calibrate.h"
#include "planner/cli/next.h"
#include "planner/cli/prices_of.h"
#include "planner/layouts/layout_plan.h"
#include "planner/space/words.h"
#include "schemas/base/options.h"
#include "schemas/limits.h"

enum { MODELS_SAID = 4 };

typedef struct settings {
    gal_model_options arithmetic;
    const char *prices, *cluster, *profile, *constants, *output, *tokens;
} settings;

typedef struct run {
    const settings *settings;
    gal_layout_rows *rows;
    bool described;
    gal_framework framework;
    gal_constants fitted;
    bool has_constants;
    gal_profile profile;
    gal_durations *durations; /* of the cluster of the rows before */
    const gal_cluster *durations_of;
    double tokens;            /* of --tokens; 0: not given */
    uint32_t incredible_rows; /* with an MFU that no published run reaches */
} run;

#define X(enumerator, name, says) "  " name ": " says "\n"
#define Y(meaning, words) GAL_WORDS_HELP_LINE(meaning, words)
#define COLUMNS "\nColumns (in brackets what stands where a column or a field is left out):\n" GAL_LAYOUT_COLUMNS(X)
#define COLUMN_WORDS "Words of other frameworks for columns:\n" GAL_COLUMN_WORDS(Y)
#define VALUE_WORDS "for zero:\n" GAL_ZERO_WORDS(Y) "for recompute:\n" GAL_RECOMPUTE_WORDS(Y)
#define SCHEDULE_WORDS "for schedule:\n" GAL_LAYOUT_SCHEDULE_WORDS(Y)
static const char notes[] =
    "One layout per row: a line of column names, then values; # starts a comment. The rows come back with\n"
    "microbatch_count, estimated_seconds and estimated_bytes (of a step; of the fullest device), the last two with\n"
    "the low and high end of a 90 % interval; fits, yes or no, by the memory of the cluster's device;\n"
    "tokens_per_second_per_device (images of vit and swin), model_flops_per_second_per_device and mfu (model FLOPs:\n"
    "forward and backward without recompute, causal attention half, over the device's peak rate in the dtype); with\n"
    "--tokens training_days and training_device_hours; and refused, why a row has no estimate, while the others have.\n"
    "All blocks have one strategy.\n"
    "--prices galrun lowers and simulates each layout as galrun would run it; framework:NAME takes the formulas of\n"
    "costmodel/framework.h for a framework that a document describes (NAME: a file, or one that ships: pytorch-2022,\n"
    "megatron-2021, megatron-sp-2022, torchtitan-2024, llm-foundry-2023 and others; a wrong name lists them). Those\n"
    "formulas have no cp, ulysses and ring.\n"
    "--constants takes what 'galplan profile --calibrate' fitted.\n" COLUMNS;
static const char appendix[] = COLUMN_WORDS VALUE_WORDS SCHEDULE_WORDS
    "\nExit: 0 a row has an estimate, or there are no rows; 1 every row is refused; 2 usage; 3 a document or the\n"
    "line of column names is wrong; 4 system.\n"
    "\nExample:\n"
    "  galplan estimate layouts.csv --cluster a100-8 --prices framework:megatron-2021\n";
#undef SCHEDULE_WORDS
#undef VALUE_WORDS
#undef COLUMN_WORDS
#undef COLUMNS
#undef Y
#undef X

static void release(run *r)
{
    gal_durations_free(r->durations);
    gal_profile_free(&r->profile);
    gal_layout_rows_free(r->rows);
}

static gal_code load(run *r, const char *path, gal_error *err)
{
    const settings *s = r->settings;
    gal_code code = GAL_OK;
    if (s->tokens != NULL) {
        GAL_TRY(gal_training_read_tokens(s->tokens, &r->tokens, err));
    }
    GAL_TRY(gal_cli_prices_of(s->prices, &r->described, &r->framework, err));
    if (r->described && s->profile != NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "--profile goes with --prices galrun"));
    }
    if (!r->described && s->constants != NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "--constants goes with --prices framework:NAME"));
    }
    if (s->constants != NULL) {
        GAL_TRY(gal_constants_read(s->constants, &r->fitted, err));
        r->has_constants = true;
    }
    if (s->profile != NULL) {
        GAL_TRY(gal_profile_read(s->profile, &r->profile, err));
        GAL_TRY(gal_durations_create(&r->profile, &r->durations, err));
    }
    const gal_layout_defaults defaults = {s->cluster, s->arithmetic};
    GAL_TRY(gal_layout_rows_read(path, &defaults, &r->rows, err));
    gal_cli_note_cut(gal_layout_rows_table(r->rows));
cleanup:
    return code;
}

typedef struct answer {
    gal_framework_estimate estimate;
    gal_prediction interval;
    gal_figures figures;
    gal_training training;
    char refused[GAL_ERROR_TEXT_BYTES];
} answer;

static void estimate_described(const run *r, const gal_layout_row *row, answer *out)
{
    gal_constants constants;
    gal_constants_default(row->cluster, &r->framework, &constants);
    if (r->has_constants) {
        gal_constants_apply(&r->fitted, &constants);
    }
    gal_framework_price(&r->framework, row->cluster, &constants, &row->model, &row->layout, &out->estimate);
    const gal_framework_estimate *at = &out->estimate;
    out->interval = (gal_prediction){.low_seconds = at->seconds * constants.seconds_low_factor,
                                     .high_seconds = at->seconds * constants.seconds_high_factor,
                                     .low_bytes = at->bytes * exp(-r->framework.bytes_spread),
                                     .high_bytes = at->bytes * exp(r->framework.bytes_spread)};
}

static gal_code estimate_galrun(run *r, const gal_layout_row *row, answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error refused = {0};
    const bool measured = r->settings->profile != NULL;
    if (!measured && r->durations_of != row->cluster) {
        gal_durations_free(r->durations);
        r->durations = NULL;
        GAL_TRY(gal_durations_create_analytic(row->cluster, &r->durations, err));
        r->durations_of = row->cluster;
    }
    code = gal_layout_simulate(row, r->durations, &out->estimate, &out->interval, &refused);
    if (code == GAL_NO || code == GAL_ERR_DOCUMENT) { /* it breaks a rule; a tensor is too large for a program */
        memcpy(out->refused, refused.text, sizeof out->refused);
        code = GAL_OK;
    } else if (code != GAL_OK) {
        code = gal_fail(err, code, "%s", refused.text);
    }
cleanup:
    return code;
}

static void put_field(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

/* The figures of a row that has an estimate. */
static void find_figures(run *r, const gal_layout_row *row, answer *a)
{
    const gal_uniform_layout *layout = &row->layout;
    const gal_step step = {.model = &row->model,
                           .device = &row->cluster->device,
                           .device_count = row->cluster->device_count,
                           .global_batch_samples = layout->global_batch_samples,
                           .tf32 = r->described ? r->framework.tf32 : r->profile.gpu.tf32,
                           .seconds = a->estimate.seconds};
    gal_figures_of(&step, &a->figures);
    gal_training_of(r->tokens, &a->figures, step.device_count, &a->training);
    const bool from_sheets = r->settings->profile == NULL && !r->has_constants;
    r->incredible_rows += from_sheets && a->figures.mfu > GAL_MFU_PUBLISHED_MOST;
}

static void put_head(FILE *out, const gal_csv *csv, bool training)
{
    for (uint32_t c = 0; c < gal_csv_column_count(csv); c++) {
        put_field(out, gal_csv_column_name(csv, c));
        fputc(',', out);
    }
    fprintf(out,
            "microbatch_count,estimated_seconds,low_seconds,high_seconds,estimated_bytes,low_bytes,high_bytes,fits,"
            "tokens_per_second_per_device,model_flops_per_second_per_device,mfu,%srefused\n",
            training ? "training_days,training_device_hours," : "");
}

/* Empty fields from estimated_seconds on, then the reason. */
static void put_refusal(FILE *out, const char *refused, bool training)
{
    fputs(training ? ",,,,,,,,,,,," : ",,,,,,,,,,", out);
    put_field(out, refused);
    fputc('\n', out);
}

static void put_row(FILE *out, const gal_csv *csv, const gal_layout_row *row, const answer *a, bool training)
{
    for (uint32_t c = 0; c < gal_csv_column_count(csv); c++) {
        put_field(out, gal_csv_field(csv, row->row, c));
        fputc(',', out);
    }
    if (row->refused != NULL) {
        fputc(',', out);
        put_refusal(out, a->refused, training);
        return;
    }
    const gal_uniform_layout *layout = &row->layout;
    fprintf(out, "%u,", layout->global_batch_samples / (layout->dp_degree * layout->microbatch_samples));
    if (a->refused[0] != '\0') {
        put_refusal(out, a->refused, training);
        return;
    }
    const gal_prediction *within = &a->interval;
    fprintf(out, "%.6g,%.6g,%.6g,%.0f,%.0f,%.0f,%s,", a->estimate.seconds, within->low_seconds, within->high_seconds,
            a->estimate.bytes, within->low_bytes, within->high_bytes,
            a->estimate.bytes <= (double)row->cluster->device.memory_bytes ? "yes" : "no");
    fprintf(out, "%.6g,%.6g,%.4g,", a->figures.tokens_per_second_per_device,
            a->figures.model_flops_per_second_per_device, a->figures.mfu);
    if (training) {
        fprintf(out, "%.6g,%.6g,", a->training.days, a->training.device_hours);
    }
    fputc('\n', out);
}

/* Whether the line of a row's model is that of an earlier row too. */
static bool was_said(const run *r, uint32_t row)
{
    const gal_layout_row *own = gal_layout_rows_at(r->rows, row);
    for (uint32_t i = 0; i < row; i++) {
        const gal_layout_row *other = gal_layout_rows_at(r->rows, i);
        if (other->refused == NULL && memcmp(&own->origins, &other->origins, sizeof own->origins) == 0 &&
            strcmp(own->model.name, other->model.name) == 0 && own->model.compute_dtype == other->model.compute_dtype &&
            own->model.sequence_length == other->model.sequence_length &&
            gal_model_parameter_count(&own->model) == gal_model_parameter_count(&other->model)) {
            return true;
        }
    }
    return false;
}

/* On stderr, each of the first models once: the table has rows alone. */
static void say_models(const run *r)
{
    char text[GAL_ASSUMED_TEXT_BYTES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gal_layout_rows_count(r->rows); i++) {
        const gal_layout_row *row = gal_layout_rows_at(r->rows, i);
        if (row->refused != NULL) {
            continue;
        }
        const gal_assumed assumed = {
            .model = &row->model, .device = &row->cluster->device, .origins = row->origins, .batches = {.count = 0}};
        if (!was_said(r, i) && count++ < MODELS_SAID) {
            gal_assumed_text(&assumed, text);
            (void)fprintf(stderr, "galplan: note: %s\n", text);
        }
    }
    if (count > MODELS_SAID) {
        (void)fprintf(stderr, "galplan: note: ... and %u models more\n", count - MODELS_SAID);
    }
}

static gal_code estimate_row(run *r, const gal_layout_row *row, answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    if (row->refused != NULL) {
        memcpy(out->refused, row->refused, strnlen(row->refused, sizeof out->refused - 1));
    } else if (!r->described) {
        code = estimate_galrun(r, row, out, err);
    } else if (row->sequence.degree > 1) {
        (void)snprintf(out->refused, sizeof out->refused,
                       "framework:%s has no cp, ulysses and ring: --prices galrun has", r->framework.name);
    } else {
        estimate_described(r, row, out);
    }
    if (code == GAL_OK && out->refused[0] == '\0') {
        find_figures(r, row, out);
    }
    return code;
}

/* Notes refused rows on stderr. GAL_NO if there is no other row. */
static gal_code conclude(uint32_t refused, uint32_t count, gal_error *err)
{
    if (refused > 0 && refused == count) {
        return gal_fail(err, GAL_NO, "every row is refused: the column refused says why");
    }
    if (refused > 0) {
        fprintf(stderr, "galplan: note: %u of %u rows are refused: the column refused says why\n", refused, count);
    }
    return GAL_OK;
}

static gal_code estimate_all(run *r, FILE *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_csv *csv = gal_layout_rows_table(r->rows);
    const uint32_t count = gal_layout_rows_count(r->rows);
    const bool training = r->tokens > 0.0;
    uint32_t refused = 0;
    say_models(r);
    put_head(out, csv, training);
    for (uint32_t i = 0; i < count; i++) {
        const gal_layout_row *row = gal_layout_rows_at(r->rows, i);
        answer a = {0};
        GAL_TRY(estimate_row(r, row, &a, err));
        put_row(out, csv, row, &a, training);
        refused += a.refused[0] != '\0';
    }
    code = conclude(refused, count, err);
cleanup:
    return code;
}

static gal_code estimate_to(run *r, const char *path, gal_error *err)
{
    FILE *out = path == NULL ? stdout : fopen(path, "w");
    if (out == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s", path);
    }
    gal_code code = estimate_all(r, out, err);
    if (path != NULL && fclose(out) != 0 && code == GAL_OK) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s", path);
    }
    return code;
}

static void warn(const run *r)
{
    if (r->incredible_rows > 0) {
        (void)fprintf(stderr,
                      "galplan: note: %u row%s above what published runs reach (MFU %.0f %%): durations come from data "
                      "sheets\n",
                      r->incredible_rows, r->incredible_rows == 1 ? " is" : "s are", 100.0 * GAL_MFU_PUBLISHED_MOST);
    }
}

int gal_cli_estimate(int argc, char **argv)
{
    settings s = {.prices = "galrun", .arithmetic = GAL_MODEL_OPTIONS_NONE};
    const gal_option options[] = {
        gal_option_string("prices", "WHOSE", "galrun, or framework:NAME (galrun)", &s.prices),
        gal_option_string("cluster", "CLUSTER", "document or catalogue name for rows that name none", &s.cluster),
        gal_option_enum("dtype", "of rows that name none: " GAL_CLI_DTYPE_HELP, &s.arithmetic.dtype, gal_dtype_names,
                        GAL_COMPUTE_DTYPE_COUNT),
        gal_option_u32("sequence", "N", "of rows that name none: " GAL_CLI_SEQUENCE_HELP, &s.arithmetic.sequence_length,
                       1, GAL_SEQUENCE_LENGTH_MAX),
        gal_option_string("profile", "FILE", "of galrun: measured durations in place of analytic ones", &s.profile),
        gal_option_string("constants", "FILE", "of a framework: what was fitted", &s.constants),
        gal_option_string("tokens", "N", "length of a training, as 300B or 1T: adds its days and device hours",
                          &s.tokens),
        gal_option_short('o', gal_option_string("output", "FILE", "in place of stdout", &s.output)),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "estimate",
                                 .summary = "Predict seconds and bytes of layouts, a row each.",
                                 .positional = "FILE.csv",
                                 .positional_min = 1,
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes,
                                 .appendix = appendix};
    gal_arguments arguments;
    int exit_code = GAL_OK;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    gal_error err = {0};
    run r = {.settings = &s};
    gal_code code = load(&r, arguments.positional[0], &err);
    if (code == GAL_OK) {
        code = estimate_to(&r, s.output, &err);
        warn(&r);
        gal_next_of_estimate(stderr, s.cluster);
    }
    release(&r);
    return gal_options_end("galplan", "estimate", code, &err);
}
