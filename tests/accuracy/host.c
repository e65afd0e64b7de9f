/* Predicted against measured seconds of plans: the parts of host.sh that need the library.
 *
 *   host plans SEED RANKS DIR FIRST COUNT   writes DIR/model<g>.json and DIR/plan<g>-<i>.json of the groups from FIRST
 *                                           on, and prints "g name" each
 *   host predict PROFILE PLAN               prints the simulated seconds of a step, and those without slowdowns
 *   host report TITLE [BOUNDS]              reads "group name predicted without measured wrong" from stdin, wrong the
 *                                           stages whose arena is not the predicted one; prints the errors. With BOUNDS
 * exits 1 unless the median rank correlation is >= 0.9, the median error <= 8 % and no arena is wrong */
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
    GROUPS_MAX = 100,
    SIZES = 7,
    PLANS = 10,
    LONGEST = 8 /* blocks of any stage but the last */,
    TRIES = 100000,
    LINES_MAX = 1000,
    STAGES_MAX = 64,
    PATH_BYTES = 4096
};

static const double correlation_wanted = 0.9, error_wanted = 0.08;

static const struct size {
    uint32_t hidden, head_count, ffn_hidden, sequence_length, batch;
    bool tied;
} sizes[SIZES] = {{256, 4, 1024, 128, 8, true}, {128, 4, 512, 128, 16, true}, {192, 4, 768, 64, 16, false},
                  {256, 8, 512, 64, 16, false}, {320, 4, 1280, 64, 8, true},  {128, 8, 1024, 128, 8, false},
                  {192, 6, 384, 128, 16, false}};

static int fail(const gal_error *err)
{
    (void)fprintf(stderr, "host: %s\n", err->text);
    return 1;
}

/* ---- plans ---- */

static gal_model model_of(uint32_t group)
{
    const struct size *size = &sizes[group % SIZES];
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

/* What galrun will print beside what it took. */
static gal_code predict_bytes(gal_plan *plan, gal_error *err)
{
    gal_program *program[STAGES_MAX] = {0};
    const gal_code code = gal_lower_plan(plan, program, err);
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        for (uint32_t piece = p; code == GAL_OK && piece < gal_plan_piece_count(plan); piece += plan->stage_count) {
            plan->stage[piece].predicted_bytes = program[p]->arena_bytes;
        }
        gal_program_free(program[p]);
    }
    return code;
}

static int write_plans(uint64_t seed, uint32_t ranks, const char *folder, uint32_t first, uint32_t count)
{
    gal_error err = {0};
    char path[PATH_BYTES];
    uint64_t random = seed + first;
    for (uint32_t g = first; g < first + count && g < GROUPS_MAX; g++) {
        const gal_model model = model_of(g);
        (void)snprintf(path, sizeof path, "%s/model%u.json", folder, g);
        if (gal_model_write(path, &model, &err) != GAL_OK) {
            return fail(&err);
        }
        for (uint32_t i = 0; i < PLANS; i++) {
            gal_plan plan = {0};
            (void)snprintf(path, sizeof path, "%s/plan%u-%u.json", folder, g, i);
            const bool done = draw_legal(&random, &model, ranks, &plan, &err) == GAL_OK &&
                              predict_bytes(&plan, &err) == GAL_OK && gal_plan_write(path, &plan, &err) == GAL_OK;
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

static gal_code simulate(const gal_profile *profile, gal_program *const *program, uint32_t stage_count, double *seconds,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *durations = NULL;
    gal_simulation simulation = {0};
    GAL_TRY(gal_durations_create(profile, &durations, err));
    GAL_TRY(gal_simulate(program, stage_count, durations, false, &simulation, err));
    *seconds = simulation.iteration_seconds;
cleanup:
    gal_simulation_free(&simulation);
    gal_durations_free(durations);
    return code;
}

static int predict(const char *profile_path, const char *plan_path)
{
    gal_error err = {0};
    gal_profile profile = {0};
    gal_plan plan = {0};
    gal_program *program[STAGES_MAX] = {0};
    double with = 0.0, without = 0.0;
    gal_code code = GAL_OK;
    GAL_TRY(gal_profile_read(profile_path, &profile, &err));
    GAL_TRY(gal_plan_read(plan_path, &plan, &err));
    GAL_TRY(gal_lower_plan(&plan, program, &err));
    GAL_TRY(simulate(&profile, program, plan.stage_count, &with, &err));
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        profile.slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = 1.0;
    }
    GAL_TRY(simulate(&profile, program, plan.stage_count, &without, &err));
    (void)printf("%.6f %.6f\n", with, without);
cleanup:
    for (uint32_t i = 0; i < STAGES_MAX; i++) {
        gal_program_free(program[i]);
    }
    gal_plan_free(&plan);
    gal_profile_free(&profile);
    return code == GAL_OK ? 0 : fail(&err);
}

/* ---- report ---- */

typedef struct line {
    uint32_t group;
    char name[64];
    double predicted_seconds, without_seconds, measured_seconds;
    char wrong[16]; /* a count, or "none" for no arena that was said */
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
    double error[LINES_MAX], sign[LINES_MAX], correlation[GROUPS_MAX], x[LINES_MAX], y[LINES_MAX];
    uint32_t count = 0, groups = 0, wrong = 0;
    while (count < LINES_MAX &&
           scanf("%u %63s %lf %lf %lf %15s", &all[count].group, all[count].name, &all[count].predicted_seconds,
                 &all[count].without_seconds, &all[count].measured_seconds, all[count].wrong) == 6) {
        wrong += strcmp(all[count].wrong, "0") != 0;
        count++;
    }
    (void)printf("%s\n  plan          predicted s  measured s   error\n", title);
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
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
    for (uint32_t i = 0; i < count; i++) {
        sign[i] = all[i].without_seconds / all[i].measured_seconds - 1.0;
        error[i] = fabs(sign[i]);
    }
    (void)printf(
        "%s: without slowdowns (Galvatron-BMW, Figure 7) median error %.1f %%, signed %+.1f %%; plans whose arena "
        "is not the predicted one: %u\n",
        title, 100.0 * gal_median(error, count), 100.0 * gal_median(sign, count), wrong);
    return bounds && (middle < correlation_wanted || off > error_wanted || wrong > 0);
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "plans") == 0) {
        return write_plans(strtoull(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10), argv[4],
                           (uint32_t)strtoul(argv[5], NULL, 10), (uint32_t)strtoul(argv[6], NULL, 10));
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
