/* galplan profile --calibrate: constants of a cluster from iterations that were measured. */
#include "planner/cli/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/calibrate.h"
#include "planner/cli/prices_of.h"
#include "planner/layouts/layout_rows.h"
#include "schemas/base/options.h"

typedef struct settings {
    const char *table, *prices, *cluster, *fit, *start, *output;
} settings;

static const char notes[] =
    "The table has layouts and their measured seconds, a row each: 'galplan estimate --help' says its columns. Rows "
    "that\n"
    "name no seconds are left out. Constants: gemm_fraction, gemm_half, memory_fraction, kernel_seconds, "
    "host_seconds,\n"
    "inner_fraction, inner_seconds, outer_fraction, outer_seconds, transfer_seconds, step_seconds, overlap_slowdown\n"
    "(schemas/constants.h says what each is). What is not fitted, and what the rows do not tell, keeps what cluster "
    "and\n"
    "framework say. Each comes with its uncertainty; the error is that of rows not fitted, by cross-validation in 5 "
    "folds\n"
    "over groups.\n"
    "\nExample:\n"
    "  galplan profile --calibrate measured.csv --cluster a100-8 --prices framework:megatron-2021 -o constants.json\n"
    "  galplan estimate layouts.csv --cluster a100-8 --prices framework:megatron-2021 --constants constants.json\n";

static bool parse(int argc, char **argv, settings *s, int *exit_code)
{
    const gal_option options[] = {
        gal_option_required(gal_option_string("calibrate", "FILE.csv", "layouts with measured seconds", &s->table)),
        gal_option_required(gal_option_string("prices", "WHOSE", "framework:NAME that was measured", &s->prices)),
        gal_option_string("cluster", "CLUSTER", "document or catalogue name for rows that name none", &s->cluster),
        gal_option_string("fit", "NAME,...",
                          "constants (gemm_fraction,memory_fraction,kernel_seconds,host_seconds,inner_fraction,"
                          "inner_seconds,transfer_seconds,step_seconds)",
                          &s->fit),
        gal_option_string("constants", "FILE", "of a cluster like this one: where to start from", &s->start),
        gal_option_short('o', gal_option_string("output", "FILE", "write the constants", &s->output)),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "profile",
                                 .summary = "Fit constants of a cluster to measured iterations.",
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    return gal_options_run(&command, argc, argv, &arguments, exit_code);
}

void gal_cli_note_cut(const gal_csv *csv)
{
    const uint32_t rows = gal_csv_row_count(csv);
    if (!gal_csv_is_whole(csv) && rows > 0) {
        (void)fprintf(stderr, "galplan: note: %s:%u: the last line has no end: the file may be cut short\n",
                      gal_csv_path(csv), gal_csv_line(csv, rows - 1));
    }
}

static gal_code parse_names(const char *text, bool chosen[GAL_CONSTANT_COUNT], gal_error *err)
{
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        uint32_t i = 0;
        while (i < GAL_CONSTANT_COUNT &&
               (strlen(gal_constant_names[i]) != length || strncmp(gal_constant_names[i], at, length) != 0)) {
            i++;
        }
        if (i == GAL_CONSTANT_COUNT) {
            return gal_fail(err, GAL_ERR_USAGE, "--fit: unknown constant \"%.*s\"", (int)length, at);
        }
        chosen[i] = true;
        at += length + (at[length] == ',');
    }
    return GAL_OK;
}

/* Equal names are one group; without any every row is its own. Numbered as they come. */
static uint32_t number_groups(const gal_layout_rows *rows, gal_calibrate_row *out, const uint32_t *from, uint32_t count)
{
    uint32_t groups = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = gal_layout_rows_at(rows, from[i])->group;
        uint32_t same = 0;
        while (same < i && (name[0] == '\0' || strcmp(gal_layout_rows_at(rows, from[same])->group, name) != 0)) {
            same++;
        }
        out[i].group = same < i ? out[same].group : groups++;
    }
    return groups;
}

static const double hardly_told = 0.9; /* of log deviation; 1 is what is assumed where no row tells */

static void print(const gal_constants *c, uint32_t groups)
{
    printf("rows %u in %u groups, cluster %s, framework %s\n\n", c->row_count, groups, c->cluster, c->framework);
    printf("%-18s %12s   %s\n", "constant", "value", "uncertainty (1 deviation)");
    for (uint32_t i = 0; i < GAL_CONSTANT_COUNT; i++) {
        if (c->fitted[i]) {
            printf("%-18s %12.5g   x/ %.3f%s\n", gal_constant_names[i], c->value[i], exp(c->log_deviation[i]),
                   c->log_deviation[i] > hardly_told ? "   the rows hardly tell" : "");
        }
    }
    if (groups > 1) {
        printf("\nerror on rows not fitted: median %.1f %%; 90 %% of measured / predicted in %.3f .. %.3f "
               "(cross-validated)\n",
               100.0 * c->median_error, c->seconds_low_factor, c->seconds_high_factor);
    } else {
        printf("\nerror on the rows fitted: median %.1f %%; one group alone, so nothing is cross-validated: the 90 %% "
               "interval stays %.3f .. %.3f\n",
               100.0 * c->median_error, c->seconds_low_factor, c->seconds_high_factor);
    }
}

static gal_code calibrate(const settings *s, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_framework framework;
    gal_constants constants, start;
    bool described = false, chosen[GAL_CONSTANT_COUNT] = {false};
    gal_layout_rows *rows = NULL;
    gal_calibrate_row *measured = NULL;
    uint32_t *from = NULL, count = 0;
    const gal_layout_defaults defaults = {s->cluster, GAL_MODEL_OPTIONS_NONE};
    GAL_TRY(parse_names(s->fit, chosen, err));
    GAL_TRY(gal_cli_prices_of(s->prices, &described, &framework, err));
    if (!described) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE,
                         "--calibrate fits constants of --prices framework:NAME; galrun's are "
                         "measured: see 'galplan profile --help'"));
    }
    if (s->start != NULL) {
        GAL_TRY(gal_constants_read(s->start, &start, err));
    }
    GAL_TRY(gal_layout_rows_read(s->table, &defaults, &rows, err));
    GAL_TRY(gal_layout_rows_check(rows, err));
    gal_cli_note_cut(gal_layout_rows_table(rows));
    measured = calloc((size_t)gal_layout_rows_count(rows) + 1, sizeof *measured);
    from = calloc((size_t)gal_layout_rows_count(rows) + 1, sizeof *from);
    if (measured == NULL || from == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: calibration"));
    }
    for (uint32_t i = 0; i < gal_layout_rows_count(rows); i++) {
        const gal_layout_row *row = gal_layout_rows_at(rows, i);
        if (row->seconds > 0.0) {
            from[count] = i;
            measured[count++] = (gal_calibrate_row){&row->model, row->cluster, &row->layout, row->seconds, 0};
        }
    }
    if (count < 2) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: column seconds: must be given in at least 2 rows, got %u",
                         s->table, count));
    }
    const uint32_t groups = number_groups(rows, measured, from, count);
    gal_error why = {0};
    code =
        gal_calibrate(&framework, measured, count, groups, s->start == NULL ? NULL : &start, chosen, &constants, &why);
    GAL_TRY(code == GAL_OK ? GAL_OK : gal_fail(err, code, "%s: %s", s->table, why.text));
    (void)snprintf(constants.name, sizeof constants.name, "%.31s %.31s", constants.cluster, constants.framework);
    print(&constants, groups);
    if (s->output != NULL) {
        GAL_TRY(gal_constants_write(s->output, &constants, err));
    }
cleanup:
    free(from);
    free(measured);
    gal_layout_rows_free(rows);
    return code;
}

int gal_cli_calibrate(int argc, char **argv)
{
    settings s = {.fit = "gemm_fraction,memory_fraction,kernel_seconds,host_seconds,inner_fraction,inner_seconds,"
                         "transfer_seconds,step_seconds"};
    gal_error err = {0};
    int exit_code = 0;
    if (!parse(argc, argv, &s, &exit_code)) {
        return exit_code;
    }
    const gal_code code = calibrate(&s, &err);
    return gal_options_end("galplan", "profile", code, &err);
}
