/* galplan reproduce galvatron --figure: Figures 4 (with Eq. 7), 5 and 6. */
#include <stdio.h>
#include <string.h>

#include "planner/cli/plan_table.h"
#include "planner/cli/reproduce_paper.h"
#include "planner/least/least.h"
#include "planner/published/paper.h"
#include "schemas/base/clock.h"

static const double gibibyte = 1073741824.0;

/* A catalogue model, in fp32, on the first devices of a catalogue cluster. */
typedef struct stand {
    gal_model model;
    gal_durations *durations; /* owned */
    gal_search_request request;
} stand;

static gal_code set_up(const char *model, const char *cluster_name, uint32_t devices, double memory_gib, uint32_t batch,
                       stand *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster cluster;
    *out = (stand){.durations = NULL};
    GAL_TRY(gal_model_read(model, &out->model, err));
    out->model.compute_dtype = GAL_FP32; /* as the paper trains */
    GAL_TRY(gal_cluster_read(cluster_name, &cluster, err));
    if (devices > 0) {
        gal_cluster_resize(&cluster, devices);
    }
    GAL_TRY(gal_durations_create_analytic(&cluster, &out->durations, err));
    out->request = (gal_search_request){.model = &out->model,
                                        .durations = out->durations,
                                        .profile_hash = "",
                                        .memory_bytes = (uint64_t)(memory_gib * gibibyte),
                                        .batches = {.count = 1, .value = {batch}},
                                        .prefetch_depth = 2};
cleanup:
    return code;
}

/* ---- Figure 4, Eq. 7 ---- */

typedef struct balance {
    bool known;
    double of_seconds, of_bytes;
} balance;

/* interval: of a feasible answer's plan. */
static balance print_partition(const char *name, const gal_paper_answer *a, const gal_prediction *interval)
{
    uint64_t most = 0;
    if (!a->feasible) {
        printf("  %-16s does not fit\n", name);
        return (balance){0};
    }
    printf("  %-16s ", name);
    for (uint32_t s = 0; s < a->plan.stage_count; s++) {
        printf("%s%u", s == 0 ? "" : ";", gal_plan_stage_block_count(&a->plan, s));
        most = a->plan.stage[s].predicted_bytes > most ? a->plan.stage[s].predicted_bytes : most;
    }
    printf("  alpha_t %.4f  alpha_m %.4f  %.2f GiB  %.2f samples/s (90 %%: %.2f to %.2f)\n",
           a->opinion.seconds_balance_degree, a->opinion.bytes_balance_degree, (double)most / gibibyte,
           a->samples_per_second, a->plan.global_batch_samples / interval->high_seconds,
           a->plan.global_batch_samples / interval->low_seconds);
    return (balance){true, a->opinion.seconds_balance_degree, a->opinion.bytes_balance_degree};
}

/* alpha_t(p_m) <= alpha_t(p*) <= alpha_t(p_t), alpha_m(p_t) <= alpha_m(p*) <= alpha_m(p_m). */
static void print_equation_7(const balance *of_memory, const balance *best, const balance *of_time)
{
    const double rounding = 1e-9;
    if (!of_memory->known || !best->known || !of_time->known) {
        printf("  Eq. 7: a partition is missing\n");
        return;
    }
    const bool seconds =
        of_memory->of_seconds <= best->of_seconds + rounding && best->of_seconds <= of_time->of_seconds + rounding;
    const bool bytes =
        of_time->of_bytes <= best->of_bytes + rounding && best->of_bytes <= of_memory->of_bytes + rounding;
    printf("  Eq. 7: alpha_t %s, alpha_m %s; perfect balance is 0.75\n", seconds ? "holds" : "does not hold",
           bytes ? "holds" : "does not hold");
}

static gal_code figure_4_of(const char *model, uint32_t batch, double memory_gib, gal_error *err)
{
    static const struct {
        const char *name;
        gal_paper_algorithm algorithm;
        bool limited; /* to the memory that the best partition is searched in */
    } rows[] = {{"memory-balanced", GAL_PAPER_MEMORY, false},
                {"galvatron-bmw", GAL_PAPER_BMW, true},
                {"time-balanced", GAL_PAPER_TIME, false}};
    gal_code code = GAL_OK;
    stand s;
    balance found[3];
    GAL_TRY(set_up(model, "a100-8", 4, memory_gib, batch, &s, err));
    printf("%s, 4 A100, 4 stages of one, 1f1b, batch %u in 8 microbatches; galvatron-bmw within %g GiB\n"
           "  partition        blocks of stages, balance degrees, largest stage\n",
           model, batch, memory_gib);
    for (uint32_t i = 0; i < 3; i++) {
        const gal_paper_strategy strategy = {.algorithm = rows[i].algorithm,
                                             .schedule = GAL_SCHEDULE_1F1B,
                                             .microbatch_counts = {.count = 1, .value = {8}},
                                             .pp_degrees = {.count = 1, .value = {4}},
                                             .space = {.axis = {[GAL_AXIS_DP] = true}}};
        gal_paper_answer answer;
        gal_search_request request = s.request;
        request.memory_bytes = rows[i].limited ? request.memory_bytes : UINT64_C(1) << 50;
        GAL_TRY(gal_paper_answer_of(&request, &strategy, &answer, err));
        gal_prediction interval = {0};
        if (answer.feasible) {
            code = gal_plan_interval(&answer.plan, s.durations, &interval, err);
        }
        found[i] = print_partition(rows[i].name, &answer, &interval);
        gal_plan_free(&answer.plan);
        GAL_TRY(code);
    }
    print_equation_7(&found[0], &found[1], &found[2]);
cleanup:
    gal_durations_free(s.durations);
    return code;
}

static gal_code figure_4(const gal_paper *paper, const gal_paper_options *o, gal_error *err)
{
    (void)paper;
    const double gib = o->memory_bytes != 0 ? (double)o->memory_bytes / gibibyte : 16.0;
    const gal_code code = figure_4_of("bert-huge-48", 32, gib, err);
    return code == GAL_OK ? figure_4_of("t5-512-4-48", 64, gib, err) : code;
}

/* ---- Figure 5 ---- */

static gal_code time_search(stand *s, uint32_t layers, const gal_paper_strategy *strategy, gal_error *err)
{
    gal_paper_answer answer;
    s->model.layer_count = layers;
    const double begin = gal_now_seconds();
    const gal_code code = gal_paper_answer_of(&s->request, strategy, &answer, err);
    if (code == GAL_OK) {
        printf("  %8.3f", gal_now_seconds() - begin);
        (void)fflush(stdout);
        gal_plan_free(&answer.plan);
    }
    return code;
}

/* Seconds of searches as measured here; the paper's are of its own implementation. */
static gal_code figure_5(const gal_paper *paper, const gal_paper_options *o, gal_error *err)
{
    static const uint32_t layers[] = {16, 32, 48, 64, 80, 96, 128};
    static const char *const strategies[] = {"DP+TP", "DP+PP", "Galvatron", "Galvatron-BMW"};
    static const double budgets[] = {8.0, 12.0, 16.0, 20.0};
    const uint32_t count = sizeof layers / sizeof layers[0];
    gal_code code = GAL_OK;
    stand s;
    (void)o;
    GAL_TRY(set_up("bert-huge-32", "titan-8", 0, 8.0, 32, &s, err));
    printf("seconds of a search (measured), BERT of so many layers, 8 RTX TITAN, batch 32\n  %-22s", "layers");
    for (uint32_t i = 0; i < count; i++) {
        printf("  %8u", layers[i]);
    }
    for (uint32_t m = 0; m < 4; m++) {
        printf("\n  (a) Galvatron-BMW %2.0f GiB", budgets[m]);
        s.request.memory_bytes = (uint64_t)(budgets[m] * gibibyte);
        for (uint32_t i = 0; i < count; i++) {
            GAL_TRY(time_search(&s, layers[i], gal_paper_find(paper, "Galvatron-BMW"), err));
        }
    }
    s.request.memory_bytes = (uint64_t)(16.0 * gibibyte);
    for (uint32_t k = 0; k < 4; k++) {
        printf("\n  (b) %-18s", strategies[k]);
        for (uint32_t i = 0; i < count; i++) {
            GAL_TRY(time_search(&s, layers[i], gal_paper_find(paper, strategies[k]), err));
        }
    }
    printf("\n");
cleanup:
    gal_durations_free(s.durations);
    return code;
}

/* ---- Figure 6 ---- */

static gal_code figure_6(const gal_paper *paper, const gal_paper_options *o, gal_error *err)
{
    static const struct {
        const char *name, *model, *cluster;
    } cases[] = {{"A", "bert-huge-32", "titan-8"},
                 {"B", "swin-huge-32", "titan-8"},
                 {"C-1", "t5-512-4-32", "titan-16"},
                 {"C-2", "t5-512-4-32", "a100-16"}};
    gal_code code = GAL_OK;
    const double gib = o->memory_bytes != 0 ? (double)o->memory_bytes / gibibyte : 8.0;
    stand s = {.durations = NULL};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gal_paper_answer answer;
        GAL_TRY(set_up(cases[i].model, cases[i].cluster, 0, gib, 8, &s, err));
        s.request.batches = paper->batches;
        GAL_TRY(gal_paper_answer_of(&s.request, gal_paper_find(paper, "Galvatron-BMW"), &answer, err));
        printf("%scase %s: %s on %s, %g GiB\n", i == 0 ? "" : "\n", cases[i].name, cases[i].model, cases[i].cluster,
               gib);
        if (answer.feasible) {
            code = gal_plan_table_print(stdout, &answer.plan, err);
        } else {
            printf("  no plan fits\n");
        }
        gal_plan_free(&answer.plan);
        GAL_TRY(code);
        gal_durations_free(s.durations);
        s.durations = NULL;
    }
cleanup:
    gal_durations_free(s.durations);
    return code;
}

gal_code gal_cli_reproduce_figure(const gal_paper_options *options, gal_error *err)
{
    gal_paper paper;
    if (options->figure == 7) {
        return gal_cli_reproduce_slowdown(options->measured, err);
    }
    const gal_code code = gal_paper_read(&paper, err);
    if (code != GAL_OK) {
        return code;
    }
    switch (options->figure) {
    case 4:
        return figure_4(&paper, options, err);
    case 5:
        return figure_5(&paper, options, err);
    case 6:
        return figure_6(&paper, options, err);
    default:
        return gal_fail(err, GAL_ERR_USAGE, "--figure: there are 4, 5, 6 and 7");
    }
}
