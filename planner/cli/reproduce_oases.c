/* galplan reproduce oases: what our programs, prices and simulation say of the tables and figures of Oases. */
#include "planner/cli/reproduce_oases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/cli/reproduce_file.h"
#include "planner/published/oases_lines.h"
#include "planner/published/oases_tables.h"

static const char notes[] =
    "Constants of both clusters are fitted, at every run, to what the paper measured of Megatron-LM (six figures of\n"
    "Table 3) and to nothing else; stderr says them, each baseline's fastest degree by our prices, and the paper's\n"
    "stated ranges beside ours.\n"
    "  tables   the seven models of Table 4 on 32 GPUs: cluster,hidden,method,ktokens_per_s,speedup,degrees,\n"
    "           planner_ms; speedup over Megatron-LM, degrees of TP by layer, planner_ms of the processor\n"
    "  fig2     share of a step in which nothing computes, 4 GPUs (hidden 2048 and 4096)\n"
    "  table2   device efficiency: share of a step in which a kernel computes\n"
    "  fig3     time lines of the backward of one attention and FFN under each schedule (hidden 2048)\n"
    "  fig5     ktokens/s on four pipeline stages, by global batch: GPT-18.4B and 39.1B\n"
    "  fig7     weak scaling, ktokens/s of 4 to 32 GPUs (hidden 2048 and 4096)\n"
    "All but tables and fig3: figure,cluster,model,method,gpus,batch,value,speedup. What does not run is said on\n"
    "stderr.\n"
    "Exit: 0 done; 2 usage; 4 system.\n"
    "\nExamples:\n"
    "  galplan reproduce oases -o tables.csv\n"
    "  galplan reproduce oases table2\n";

/* ---- the paper's ranges, and ours ---- */

typedef struct range {
    double least, most;
} range;

static void extend(range *r, double value)
{
    r->least = r->least == 0.0 ? value : fmin(r->least, value);
    r->most = fmax(r->most, value);
}

/* Of one cluster: Oases over the best baseline, and over Megatron-LM; and over these at their own best degrees. */
typedef struct speedups {
    range baseline, megatron, searched_baseline, searched_megatron;
} speedups;

/* Oases, section 5.2. */
static const speedups stated[GAL_OASES_CLUSTERS] = {{.baseline = {1.01, 1.31}, .megatron = {0.0, 1.63}},
                                                    {.baseline = {1.20, 1.48}, .megatron = {0.0, 1.95}}};

typedef struct output {
    FILE *file;
    bool tables;
    gal_oases_row megatron; /* of the model at hand */
    double best_baseline, best_searched;
    speedups reached[GAL_OASES_CLUSTERS];
} output;

static void note(output *o, const gal_oases_row *row)
{
    const uint32_t cluster = strcmp(row->cluster, gal_oases_cluster_names[0]) == 0 ? 0 : 1;
    speedups *reached = &o->reached[cluster];
    if (row->method == GAL_OASES_MEGATRON) {
        o->megatron = *row;
        o->best_baseline = row->value;
        o->best_searched = row->best_value;
    } else if (row->method == GAL_OASES_MERAK) {
        o->best_baseline = fmax(o->best_baseline, row->value);
        o->best_searched = fmax(o->best_searched, row->best_value);
    } else if (row->method == GAL_OASES_PLANNER && o->best_baseline > 0.0) {
        extend(&reached->baseline, row->value / o->best_baseline);
        extend(&reached->megatron, row->speedup);
        if (o->megatron.best_tp_degree > 0) {
            extend(&reached->searched_baseline, row->value / o->best_searched);
            extend(&reached->searched_megatron, row->value / o->megatron.best_value);
        }
    }
}

/* What a grid search for a baseline gives. */
static void print_searched(const gal_oases_row *row)
{
    if (row->best_tp_degree > 0) {
        (void)fprintf(stderr, "# %s, hidden %s: %s is fastest with degree %u, %.2f ktokens/s\n", row->cluster,
                      row->model, gal_oases_method_names[row->method], row->best_tp_degree, row->best_value / 1e3);
    }
}

static void print_ranges(const output *o)
{
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        const speedups *here = &o->reached[c];
        (void)fprintf(stderr,
                      "# %s: %.2f to %.2f times the best baseline (the paper: %.2f to %.2f), up to %.2f times "
                      "Megatron-LM (%.2f); with baselines at their fastest degrees that fit "
                      "%.2f to %.2f, up to %.2f\n",
                      gal_oases_cluster_names[c], here->baseline.least, here->baseline.most, stated[c].baseline.least,
                      stated[c].baseline.most, here->megatron.most, stated[c].megatron.most,
                      here->searched_baseline.least, here->searched_baseline.most, here->searched_megatron.most);
    }
}

static void print_fit(const gal_oases_fit *fit)
{
    for (uint32_t k = 0; k < GAL_OASES_CONSTANT_COUNT; k++) {
        (void)fprintf(stderr, "# %s %.3f\n", gal_oases_constant_names[k], fit->value[k]);
    }
    for (uint32_t i = 0; i < GAL_OASES_MEASURED; i++) {
        const gal_oases_measured *row = &gal_oases_measurement[i];
        (void)fprintf(stderr, "# %s, hidden %u: Megatron-LM %.2f ktokens/s, measured %.2f\n",
                      gal_oases_cluster_names[row->cluster], row->hidden, fit->tokens_per_second[i] / 1e3,
                      row->tokens_per_second / 1e3);
    }
}

/* ---- rows ---- */

static gal_code put(void *context, const gal_oases_row *row)
{
    output *o = context;
    const char *method = gal_oases_method_names[row->method];
    if (row->refused[0] != '\0') {
        (void)fprintf(stderr, "# %s,%s,%s,%s: %s\n", row->figure, row->cluster, row->model, method, row->refused);
        return GAL_OK;
    }
    if (o->tables) {
        note(o, row);
        print_searched(row);
        (void)fprintf(o->file, "%s,%s,%s,%.2f,%.3f,%s,", row->cluster, row->model, method, row->value / 1e3,
                      row->speedup, row->degrees);
        (void)(row->method == GAL_OASES_PLANNER ? fprintf(o->file, "%.1f\n", row->planner_seconds * 1e3)
                                                : fprintf(o->file, "\n"));
        return GAL_OK;
    }
    const double value = row->speedup > 0.0 ? row->value / 1e3 : row->value;
    (void)fprintf(o->file, "%s,%s,%s,%s,%u,%u,%.4g,", row->figure, row->cluster, row->model, method, row->devices,
                  row->batch, value);
    (void)(row->speedup > 0.0 ? fprintf(o->file, "%.3f\n", row->speedup) : fprintf(o->file, "\n"));
    return GAL_OK;
}

static gal_code put_lines(const gal_oases_fit *fit, FILE *file, gal_error *err)
{
    gal_oases_line line[GAL_OASES_SCHEDULES];
    const gal_code code = gal_oases_lines(fit, line, err);
    for (uint32_t i = 0; code == GAL_OK && i < GAL_OASES_SCHEDULES; i++) {
        (void)fprintf(file, "%s: %.2f ms\n", gal_oases_method_names[i], line[i].seconds * 1e3);
        for (uint32_t l = 0; l < GAL_OASES_LINES; l++) {
            (void)fprintf(file, "  %-10s  |%s|\n", gal_oases_line_names[l], line[i].text[l]);
        }
    }
    return code;
}

static gal_code put_figure(const char *asked, FILE *file, gal_error *err)
{
    const char *figure = asked == NULL ? "tables" : asked;
    gal_code code = GAL_OK;
    gal_oases_fit fit;
    output o = {.file = file, .tables = strcmp(figure, "tables") == 0};
    GAL_TRY(gal_oases_fit_clusters(&fit, err));
    if (strcmp(figure, "fig3") == 0) {
        GAL_TRY(put_lines(&fit, file, err));
        goto cleanup;
    }
    (void)fputs(o.tables ? "cluster,hidden,method,ktokens_per_s,speedup,degrees,planner_ms\n"
                         : "figure,cluster,model,method,gpus,batch,value,speedup\n",
                file);
    GAL_TRY(gal_oases_reproduce(&fit, figure, put, &o, err));
    if (o.tables) {
        print_fit(&fit);
        print_ranges(&o);
    }
cleanup:
    return code;
}

int gal_cli_reproduce_oases(int argc, char **argv)
{
    const gal_reproduce_command command = {.name = "reproduce oases",
                                           .summary = "Predict the tables and figures of the Oases paper.",
                                           .notes = notes,
                                           .write = put_figure};
    return gal_cli_reproduce_file(&command, argc, argv);
}
