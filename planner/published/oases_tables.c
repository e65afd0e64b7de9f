#include "planner/published/oases_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct report {
    const gal_oases_fit *fit;
    const char *figure;
    gal_code (*each)(void *context, const gal_oases_row *row);
    void *context;
} report;

/* ---- degrees ---- */

static void degree_text(char *text, size_t bytes, uint32_t attention, uint32_t ffn)
{
    (void)(attention == ffn ? snprintf(text, bytes, "%u", attention) : snprintf(text, bytes, "%u/%u", attention, ffn));
}

static uint32_t degree_at(const gal_plan *plan, uint32_t block)
{
    return gal_strategy_degree(gal_plan_block_strategy(plan, block), GAL_AXIS_TP);
}

/* Layers are pairs of blocks between the first and the last block of the model. */
static void write_degrees(const gal_plan *plan, char out[GAL_OASES_DEGREES_BYTES])
{
    const uint32_t layers = plan->model.layer_count;
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t l = 0, run = 0; l < layers && used < GAL_OASES_DEGREES_BYTES; l += run) {
        const uint32_t attention = degree_at(plan, 1 + 2 * l), ffn = degree_at(plan, 2 + 2 * l);
        char degrees[32];
        for (run = 1; l + run < layers && degree_at(plan, 1 + 2 * (l + run)) == attention &&
                      degree_at(plan, 2 + 2 * (l + run)) == ffn;
             run++) {
        }
        degree_text(degrees, sizeof degrees, attention, ffn);
        used +=
            (size_t)snprintf(out + used, GAL_OASES_DEGREES_BYTES - used, "%s[%s]*%u", l == 0 ? "" : "+", degrees, run);
    }
}

/* ---- one case ---- */

typedef struct outcome {
    gal_oases_seconds seconds;
    char degrees[GAL_OASES_DEGREES_BYTES];
    double planner_seconds;
    char refused[GAL_ERROR_TEXT_BYTES]; /* "": it runs */
} outcome;

/* Owns the plan. */
static gal_code judge(gal_plan *plan, const gal_durations *durations, outcome *out, gal_error *err)
{
    const gal_code code = gal_oases_plan_seconds(plan, durations, &out->seconds, err);
    if (code == GAL_OK) {
        write_degrees(plan, out->degrees);
    }
    gal_plan_free(plan);
    return code;
}

static gal_code run_uniform(const gal_oases_case *of, gal_oases_method method, const gal_durations *durations,
                            outcome *out, gal_error *err)
{
    gal_plan plan;
    gal_error refused = {0};
    const gal_code code = gal_oases_case_plan(of, method, &plan, &refused);
    *out = (outcome){.refused = ""};
    if (code != GAL_OK) {
        memcpy(out->refused, refused.text, sizeof out->refused);
        return code == GAL_NO ? GAL_OK : gal_fail(err, code, "%s", refused.text);
    }
    return judge(&plan, durations, out, err);
}

/* The better one of the proposal and uniform degrees. */
static gal_code run_planner(const gal_oases_case *of, const gal_durations *durations, outcome *out, gal_error *err)
{
    gal_plan plan;
    gal_error refused = {0};
    outcome proposed = {.refused = ""};
    double seconds = 0.0;
    gal_code code = run_uniform(of, GAL_OASES_PLANNER, durations, out, err);
    if (code != GAL_OK || of->pp_degree > 1) { /* it knows no stages (section 4.1) */
        return code;
    }
    code = gal_oases_case_propose(of, durations, &plan, &seconds, &refused);
    if (code != GAL_OK) {
        return code == GAL_NO ? GAL_OK : gal_fail(err, code, "%s", refused.text);
    }
    code = judge(&plan, durations, &proposed, err);
    if (code == GAL_OK && (out->refused[0] != '\0' || proposed.seconds.step < out->seconds.step)) {
        *out = proposed;
    }
    out->planner_seconds = seconds;
    return code;
}

static gal_code run(const gal_oases_case *of, gal_oases_method method, const gal_durations *durations, outcome *out,
                    gal_error *err)
{
    return method == GAL_OASES_PLANNER ? run_planner(of, durations, out, err)
                                       : run_uniform(of, method, durations, out, err);
}

static double tokens_per_second(const gal_oases_case *of, const outcome *o)
{
    return (double)of->global_batch_samples * of->model.sequence_length / o->seconds.step;
}

/* What a figure asks of a case under a method. */
typedef double value_rule(const gal_oases_case *of, const outcome *o);

/* ---- rows ---- */

typedef struct series {
    const char *cluster, *model; /* as the tables call them */
    gal_oases_case *of;
    value_rule *value;
    bool is_share; /* no speedup, which is of throughputs */
    bool searches; /* the degrees of uniform methods too */
} series;

/* The baselines' best degree, beside the paper's. */
static gal_code search_degree(const series *s, const gal_durations *durations, gal_oases_row *row, gal_error *err)
{
    outcome best = {.refused = ""};
    const gal_code code =
        gal_oases_case_search(s->of, row->method, durations, &row->best_tp_degree, &best.seconds.step, err);
    if (code == GAL_OK && row->best_tp_degree > 0) {
        row->best_value = s->value(s->of, &best);
    }
    return code;
}

static gal_code put_methods(const report *r, const series *s, const gal_durations *durations, gal_error *err)
{
    gal_code code = GAL_OK;
    double megatron = 0.0;
    for (uint32_t method = 0; method < GAL_OASES_METHOD_COUNT; method++) {
        outcome o;
        GAL_TRY(run(s->of, (gal_oases_method)method, durations, &o, err));
        const double value = o.refused[0] == '\0' ? s->value(s->of, &o) : 0.0;
        megatron = method == GAL_OASES_MEGATRON ? value : megatron;
        gal_oases_row row = {.figure = r->figure,
                             .cluster = s->cluster,
                             .model = s->model,
                             .method = (gal_oases_method)method,
                             .devices = s->of->cluster.device_count,
                             .batch = s->of->global_batch_samples,
                             .value = value,
                             .speedup = s->is_share || megatron <= 0.0 ? 0.0 : value / megatron,
                             .planner_seconds = o.planner_seconds,
                             .refused = o.refused};
        memcpy(row.degrees, o.degrees, sizeof row.degrees);
        if (s->searches && method <= GAL_OASES_MERAK) {
            GAL_TRY(search_degree(s, durations, &row, err));
        }
        GAL_TRY(r->each(r->context, &row));
    }
cleanup:
    return code;
}

/* The case on the fitted cluster. */
static gal_code put_case(const report *r, uint32_t cluster, const char *name, gal_oases_case *of, value_rule *value,
                         bool is_share, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *durations = NULL;
    const bool searches = strcmp(r->figure, "tables") == 0;
    const series s = {gal_oases_cluster_names[cluster], name, of, value, is_share, searches};
    gal_oases_fit_apply(r->fit, cluster, &of->cluster);
    GAL_TRY(gal_durations_create_analytic(&of->cluster, &durations, err));
    GAL_TRY(put_methods(r, &s, durations, err));
cleanup:
    gal_durations_free(durations);
    return code;
}

enum { DEVICES = 32, NODE_DEVICES = 4 };

/* A model of Table 4 on so many devices, the batch with them. */
static gal_code put_model(const report *r, uint32_t cluster, uint32_t hidden, uint32_t devices, value_rule *value,
                          bool is_share, gal_error *err)
{
    const gal_oases_model *model = gal_oases_model_of(hidden);
    gal_oases_case of;
    char name[16];
    (void)snprintf(name, sizeof name, "%u", hidden);
    const gal_code code =
        gal_oases_case_read(model->document, gal_oases_cluster_documents[cluster], devices, model->tp_degree, &of, err);
    of.global_batch_samples = of.global_batch_samples / (DEVICES / devices);
    return code == GAL_OK ? put_case(r, cluster, name, &of, value, is_share, err) : code;
}

/* ---- figures ---- */

static gal_code put_tables(const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        for (uint32_t i = 0; i < GAL_OASES_MODELS; i++) {
            GAL_TRY(put_model(r, c, gal_oases_models[i].hidden, DEVICES, tokens_per_second, false, err));
        }
    }
cleanup:
    return code;
}

static double computing_share(const gal_oases_case *of, const outcome *o)
{
    (void)of;
    return o->seconds.compute / o->seconds.step;
}

static double exposed_share(const gal_oases_case *of, const outcome *o)
{
    return 1.0 - computing_share(of, o);
}

static gal_code put_table_2(const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        for (uint32_t i = 0; i < GAL_OASES_MODELS; i++) {
            GAL_TRY(put_model(r, c, gal_oases_models[i].hidden, DEVICES, computing_share, true, err));
        }
    }
cleanup:
    return code;
}

static const uint32_t shown_hidden[] = {2048, 4096}; /* of Figures 2 and 7 */
enum { SHOWN = sizeof shown_hidden / sizeof shown_hidden[0] };

static gal_code put_figure_2(const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        for (uint32_t i = 0; i < SHOWN; i++) {
            GAL_TRY(put_model(r, c, shown_hidden[i], NODE_DEVICES, exposed_share, true, err));
        }
    }
cleanup:
    return code;
}

static gal_code put_figure_7(const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        for (uint32_t i = 0; i < SHOWN; i++) {
            for (uint32_t devices = NODE_DEVICES; devices <= DEVICES; devices *= 2) {
                GAL_TRY(put_model(r, c, shown_hidden[i], devices, tokens_per_second, false, err));
            }
        }
    }
cleanup:
    return code;
}

/* Oases, Table 5. */
static const struct {
    const char *document;
    uint32_t pp_degree, tp_degree, dp_degree;
} pipelined[] = {{"gpt-18.4b", 4, 4, 2}, {"gpt-39.1b", 4, 8, 1}};
enum { PIPELINED = sizeof pipelined / sizeof pipelined[0], MICROBATCH_SAMPLES = 2 };

static const uint32_t pipelined_batches[] = {16, 32, 64, 128};
enum { BATCHES = sizeof pipelined_batches / sizeof pipelined_batches[0] };

static gal_code put_figure_5(const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t n = 0; n < GAL_OASES_CLUSTERS * PIPELINED * BATCHES; n++) {
        const uint32_t cluster = n / BATCHES / PIPELINED, i = n / BATCHES % PIPELINED;
        gal_oases_case of;
        GAL_TRY(gal_oases_case_read(pipelined[i].document, gal_oases_cluster_documents[cluster], DEVICES,
                                    pipelined[i].tp_degree, &of, err));
        of.pp_degree = pipelined[i].pp_degree;
        of.global_batch_samples = pipelined_batches[n % BATCHES];
        of.microbatch_count = of.global_batch_samples / pipelined[i].dp_degree / MICROBATCH_SAMPLES;
        GAL_TRY(put_case(r, cluster, pipelined[i].document, &of, tokens_per_second, false, err));
    }
cleanup:
    return code;
}

gal_code gal_oases_reproduce(const gal_oases_fit *fit, const char *figure,
                             gal_code (*each)(void *context, const gal_oases_row *row), void *context, gal_error *err)
{
    static const struct {
        const char *name;
        gal_code (*put)(const report *r, gal_error *err);
    } figures[] = {{"tables", put_tables},
                   {"fig2", put_figure_2},
                   {"table2", put_table_2},
                   {"fig5", put_figure_5},
                   {"fig7", put_figure_7}};
    const report r = {fit, figure, each, context};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (strcmp(figure, figures[i].name) == 0) {
            return figures[i].put(&r, err);
        }
    }
    return gal_fail(err, GAL_ERR_USAGE, "unknown figure '%s' (known: tables, fig2, table2, fig3, fig5, fig7)", figure);
}
