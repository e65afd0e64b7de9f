/* Predicted against measured seconds of plans: the parts of host.sh that need the library.
 *
 *   host plans SEED RANKS DIR [GROUPS]   writes DIR/model<g>.json and DIR/plan<g>-<i>.json, and prints "g name" each
 *   host predict PROFILE PLAN            prints the simulated seconds of a step
 *   host report TITLE [BOUNDS]           reads "group name predicted measured" from stdin, prints the errors; with
 * BOUNDS exits 1 unless the median rank correlation is >= 0.85 and the median error <= 15 % */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/fit.h"
#include "costmodel/simulate.h"
#include "profiler/strategies.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

enum {
    GROUPS = 4,
    PLANS = 10,
    LONGEST = 8 /* blocks of any stage but the last */,
    TRIES = 100000,
    LINES_MAX = 1000,
    PATH_BYTES = 4096
};

static const double correlation_wanted = 0.85, error_wanted = 0.15;

static const struct size {
    uint32_t hidden, head_count, ffn_hidden, sequence_length, batch;
    bool tied;
} sizes[GROUPS] = {{256, 4, 1024, 128, 8, true},
                   {128, 4, 512, 128, 16, true},
                   {192, 4, 768, 64, 16, false},
                   {256, 8, 512, 64, 16, false}};

static int fail(const gal_error *err)
{
    (void)fprintf(stderr, "host: %s\n", err->text);
    return 1;
}

/* ---- plans ---- */

static gal_model model_of(uint32_t group)
{
    const struct size *size = &sizes[group];
    gal_model model;
    gal_model_defaults(&model);
    (void)snprintf(model.name, sizeof model.name, "accuracy-%u", group);
    model.family = GAL_FAMILY_DECODER;
    model.layer_count = 4;
    model.hidden = size->hidden;
    model.head_count = size->head_count;
    model.ffn_hidden = size->ffn_hidden;
    model.sequence_length = size->sequence_length;
    model.vocabulary = 256;
    model.vocabulary_multiple = 128;
    model.tied_embeddings = size->tied;
    model.residual_dropout = 0.1;
    model.compute_dtype = GAL_FP32;
    model.global_batch_samples = size->batch;
    return model;
}

/* Random cuts and strategies over a random pipeline; legal or not. False if there is no memory. */
static bool draw(uint64_t *random, const gal_model *model, uint32_t ranks, gal_plan *plan)
{
    static gal_strategy strategy[GAL_STRATEGIES_MAX];
    uint32_t stages = 1u << gal_random_below(random, 4);
    while (ranks % stages != 0) {
        stages /= 2;
    }
    const uint32_t count = gal_strategies_list(ranks / stages, strategy), blocks = gal_model_block_count(model);
    *plan = (gal_plan){.model = *model,
                       .global_batch_samples = model->global_batch_samples,
                       .microbatch_count = 1u << gal_random_below(random, 4),
                       .pp_degree = stages,
                       .schedule = (gal_schedule)gal_random_below(random, GAL_SCHEDULE_COUNT),
                       .prefetch_depth = 1 + gal_random_below(random, 2),
                       .stage_count = stages};
    plan->cluster = (gal_cluster){.name = "host", .device_count = ranks, .level_count = 1};
    plan->cluster.device = (gal_device){.kind = "cpu",
                                        .memory_bytes = UINT64_C(1) << 34,
                                        .fp32_flops_per_second = 1e11,
                                        .fp64_flops_per_second = 5e10,
                                        .memory_bytes_per_second = 1e10};
    plan->cluster.level[0] = (gal_link_level){
        .name = "shared memory", .span_devices = ranks, .latency_seconds = 1e-5, .bytes_per_second = 1e9};
    plan->stage = calloc(stages, sizeof *plan->stage);
    plan->run = calloc(blocks, sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        return false;
    }
    gal_strategy now = strategy[gal_random_below(random, count)];
    const gal_strategy ends = now;
    uint32_t block = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t left = stages - 1 - s,
                       most = blocks - block - left; /* of this stage; one at least for each left */
        const uint32_t end = left == 0 ? blocks : block + 1 + gal_random_below(random, most < LONGEST ? most : LONGEST);
        plan->stage[s].first_run = plan->run_count;
        for (; block < end; block++) {
            if (gal_random_below(random, 4) == 0) {
                now = strategy[gal_random_below(random, count)];
            }
            now = block + 1 == blocks && model->tied_embeddings ? ends : now;
            plan->run[plan->run_count++] = (gal_plan_run){1, now};
        }
        plan->stage[s].run_count = plan->run_count - plan->stage[s].first_run;
    }
    return true;
}

static gal_code draw_legal(uint64_t *random, const gal_model *model, uint32_t ranks, gal_plan *plan, gal_error *err)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        gal_error why = {0};
        if (draw(random, model, ranks, plan) && gal_plan_check(plan, NULL, &why) == GAL_OK) {
            return GAL_OK;
        }
        gal_plan_free(plan);
    }
    return gal_fail(err, GAL_ERR_USAGE, "no legal plan in %d tries", TRIES);
}

static int write_plans(uint64_t seed, uint32_t ranks, const char *folder, uint32_t groups)
{
    gal_error err = {0};
    char path[PATH_BYTES];
    uint64_t random = seed;
    for (uint32_t g = 0; g < groups; g++) {
        const gal_model model = model_of(g);
        (void)snprintf(path, sizeof path, "%s/model%u.json", folder, g);
        if (gal_model_write(path, &model, &err) != GAL_OK) {
            return fail(&err);
        }
        for (uint32_t i = 0; i < PLANS; i++) {
            gal_plan plan = {0};
            (void)snprintf(path, sizeof path, "%s/plan%u-%u.json", folder, g, i);
            const bool done = draw_legal(&random, &model, ranks, &plan, &err) == GAL_OK &&
                              gal_plan_write(path, &plan, &err) == GAL_OK;
            gal_plan_free(&plan);
            if (!done) {
                return fail(&err);
            }
            (void)printf("%u plan%u-%u\n", g, g, i);
        }
    }
    return 0;
}

/* ---- prediction ---- */

static int predict(const char *profile_path, const char *plan_path)
{
    gal_error err = {0};
    gal_profile profile = {0};
    gal_plan plan = {0};
    gal_durations *durations = NULL;
    gal_program *program[64] = {0};
    gal_simulation simulation = {0};
    gal_code code = GAL_OK;
    GAL_TRY(gal_profile_read(profile_path, &profile, &err));
    GAL_TRY(gal_plan_read(plan_path, &plan, &err));
    GAL_TRY(gal_durations_create(&profile, &durations, &err));
    GAL_TRY(gal_lower_plan(&plan, program, &err));
    GAL_TRY(gal_simulate(program, plan.stage_count, durations, false, &simulation, &err));
    (void)printf("%.6f\n", simulation.iteration_seconds);
cleanup:
    gal_simulation_free(&simulation);
    for (uint32_t i = 0; i < 64; i++) {
        gal_program_free(program[i]);
    }
    gal_durations_free(durations);
    gal_plan_free(&plan);
    gal_profile_free(&profile);
    return code == GAL_OK ? 0 : fail(&err);
}

/* ---- report ---- */

typedef struct line {
    uint32_t group;
    char name[64];
    double predicted_seconds, measured_seconds;
} line;

/* Mean rank of value[i] among count values: ties share theirs. */
static double rank_of(const double *value, uint32_t count, uint32_t i)
{
    double rank = 0.0;
    for (uint32_t j = 0; j < count; j++) {
        rank += value[j] < value[i] ? 1.0 : value[j] == value[i] ? 0.5 : 0.0;
    }
    return rank;
}

/* Spearman's: the correlation of ranks. */
static double rank_correlation(const double *x, const double *y, uint32_t count)
{
    double xx = 0.0, xy = 0.0, yy = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const double a = rank_of(x, count, i) - 0.5 * count, b = rank_of(y, count, i) - 0.5 * count;
        xx += a * a;
        xy += a * b;
        yy += b * b;
    }
    return xx > 0.0 && yy > 0.0 ? xy / sqrt(xx * yy) : 0.0;
}

static int report(const char *title, bool bounds)
{
    static line all[LINES_MAX];
    double error[LINES_MAX], sign[LINES_MAX], correlation[GROUPS], x[LINES_MAX], y[LINES_MAX];
    uint32_t count = 0, groups = 0;
    while (count < LINES_MAX && scanf("%u %63s %lf %lf", &all[count].group, all[count].name,
                                      &all[count].predicted_seconds, &all[count].measured_seconds) == 4) {
        count++;
    }
    (void)printf("%s\n  plan          predicted s  measured s   error\n", title);
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint32_t members = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (all[i].group == g) {
                x[members] = all[i].predicted_seconds;
                y[members++] = all[i].measured_seconds;
                sign[i] = all[i].predicted_seconds / all[i].measured_seconds - 1.0;
                error[i] = fabs(sign[i]);
                (void)printf("  %-12s  %11.4f %11.4f  %+5.1f %%\n", all[i].name, all[i].predicted_seconds,
                             all[i].measured_seconds, 100.0 * sign[i]);
            }
        }
        if (members > 1) {
            correlation[groups++] = rank_correlation(x, y, members);
            (void)printf("  group %u: rank correlation %.3f\n", g, correlation[groups - 1]);
        }
    }
    if (count == 0 || groups == 0) {
        (void)printf("no plan was measured\n");
        return 1;
    }
    const double middle = gal_median(correlation, groups), off = gal_median(error, count);
    (void)printf("%s: %u plans, median rank correlation %.3f (wanted %.2f), median error %.1f %% (wanted %.0f %%), "
                 "median signed error %+.1f %%\n",
                 title, count, middle, correlation_wanted, 100.0 * off, 100.0 * error_wanted,
                 100.0 * gal_median(sign, count));
    return bounds && (middle < correlation_wanted || off > error_wanted);
}

int main(int argc, char **argv)
{
    if (argc >= 5 && strcmp(argv[1], "plans") == 0) {
        return write_plans(strtoull(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10), argv[4],
                           argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : GROUPS);
    }
    if (argc == 4 && strcmp(argv[1], "predict") == 0) {
        return predict(argv[2], argv[3]);
    }
    if (argc >= 3 && strcmp(argv[1], "report") == 0) {
        return report(argv[2], argc > 3);
    }
    (void)fprintf(stderr, "usage: host plans|predict|report ...\n");
    return 2;
}
