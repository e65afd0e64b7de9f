#include "planner/published/colossal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "planner/least/least.h"
#include "planner/published/colossal_offload.h"
#include "planner/published/colossal_range.h"
#include "planner/published/colossal_release.h"
#include "runtime/program/program.h"
#include "schemas/limits.h"
#include "schemas/plan_check.h"

/* ---- volumes ---- */

static double printed(gal_tp_mode mode, double p, double side, double d, const gal_colossal_linear *l)
{
    switch (mode) {
    case GAL_TP_1D:
        return 2.0 * (p - 1.0) * l->x;
    case GAL_TP_2D:
        return 3.0 * (side - 1.0) * (l->x + l->w);
    case GAL_TP_2P5D:
        return 3.0 * (side - 1.0) * (l->x / d + l->w);
    default:
        return 2.0 * (side - 1.0) / side * (l->x + l->w + l->y);
    }
}

static double corrected(gal_tp_mode mode, double p, double side, double d, const gal_colossal_linear *l)
{
    switch (mode) {
    case GAL_TP_2P5D:
        return 3.0 * (side - 1.0) * (l->x + d * l->w) + 2.0 * (d - 1.0) * l->w;
    case GAL_TP_3D:
        return 2.0 * (side - 1.0) * (l->x + l->w + l->y);
    default:
        return printed(mode, p, side, d, l);
    }
}

/* The side of the grid; 0: there is none. One device is a grid of side 1. */
static uint32_t side_of(gal_tp_mode mode, uint32_t devices, uint32_t depth)
{
    const gal_strategy strategy = {
        .axis_count = 1, .axis = {{GAL_AXIS_TP, devices}}, .tp_mode = mode, .tp_depth = depth};
    const bool flat = mode == GAL_TP_2P5D && depth == 1;
    const gal_strategy square = {.axis_count = 1, .axis = {{GAL_AXIS_TP, devices}}, .tp_mode = GAL_TP_2D};
    return devices == depth ? 1 : gal_strategy_grid_side(flat ? &square : &strategy);
}

double gal_colossal_elements(gal_tp_mode mode, uint32_t devices, uint32_t depth, const gal_colossal_linear *linear,
                             gal_colossal_form form)
{
    const uint32_t side = side_of(mode, devices, depth);
    if (side == 0) {
        return -1.0;
    }
    return form == GAL_COLOSSAL_PRINTED ? printed(mode, devices, side, depth, linear)
                                        : corrected(mode, devices, side, depth, linear);
}

/* ---- configurations ---- */

typedef enum way { WAY_1D, WAY_2D, WAY_2P5D, WAY_3D, WAY_RING, WAY_COUNT } way;
static const char *const way_names[WAY_COUNT] = {"1d", "2d", "2.5d", "3d", "ring"};

typedef struct volume {
    uint32_t devices;
    way way;
    uint32_t depth;
} volume;

/* b = 32, s = 512, h = 1024 (the caption of Figure 9); the widest depth of 2.5D that leaves a square. */
static const gal_colossal_linear figure_9 = {32.0 * 512.0 * 1024.0, 1024.0 * 1024.0, 32.0 * 512.0 * 1024.0};
enum { FIGURE_9_BATCH = 32 };

static const volume table_1[] = {{4, WAY_1D, 1},   {4, WAY_2D, 1},     {8, WAY_1D, 1},    {8, WAY_2P5D, 2},
                                 {8, WAY_3D, 1},   {16, WAY_1D, 1},    {16, WAY_2D, 1},   {16, WAY_2P5D, 4},
                                 {64, WAY_1D, 1},  {64, WAY_2D, 1},    {64, WAY_2P5D, 4}, {64, WAY_3D, 1},
                                 {512, WAY_1D, 1}, {512, WAY_2P5D, 8}, {512, WAY_3D, 1}};

/* What a throughput or a limit is asked of: one model on one system. */
typedef struct trial {
    const char *figure, *cluster, *model;
    uint32_t devices;
    way way;
    uint32_t depth; /* of 2.5D */
    uint32_t stages;
} trial;

#define VIT_3072 "vit-64l-h3072"
#define VIT_4096 "vit-64l-h4096"
#define VIT_2048 "vit-24l-h2048"
#define VIT_32L "vit-32l-h4096"
#define BERT "bert-base"

static const trial trials[] = {
    {"fig14", "colossal-1", VIT_3072, 4, WAY_1D, 1, 1},    {"fig14", "colossal-1", VIT_3072, 4, WAY_2D, 1, 1},
    {"fig14", "colossal-1", VIT_3072, 4, WAY_2P5D, 1, 1},  {"fig14", "colossal-1", VIT_4096, 8, WAY_1D, 1, 1},
    {"fig14", "colossal-1", VIT_4096, 8, WAY_2P5D, 2, 1},  {"fig14", "colossal-1", VIT_4096, 8, WAY_3D, 1, 1},
    {"fig14", "colossal-2", VIT_3072, 4, WAY_1D, 1, 1},    {"fig14", "colossal-2", VIT_3072, 4, WAY_2D, 1, 1},
    {"fig14", "colossal-2", VIT_3072, 4, WAY_2P5D, 1, 1},  {"fig14", "colossal-2", VIT_4096, 8, WAY_1D, 1, 1},
    {"fig14", "colossal-2", VIT_4096, 8, WAY_2P5D, 2, 1},  {"fig14", "colossal-2", VIT_4096, 8, WAY_3D, 1, 1},
    {"fig15a", "colossal-3", BERT, 4, WAY_1D, 1, 1},       {"fig15a", "colossal-3", BERT, 6, WAY_1D, 1, 1},
    {"fig15a", "colossal-3", BERT, 8, WAY_1D, 1, 1},       {"fig15a", "colossal-3", BERT, 12, WAY_1D, 1, 1},
    {"fig15a", "colossal-3", BERT, 4, WAY_RING, 1, 1},     {"fig15a", "colossal-3", BERT, 8, WAY_RING, 1, 1},
    {"fig15a", "colossal-3", BERT, 12, WAY_RING, 1, 1},    {"fig15b", "colossal-3", BERT, 4, WAY_1D, 1, 1},
    {"fig15b", "colossal-3", BERT, 6, WAY_1D, 1, 1},       {"fig15b", "colossal-3", BERT, 8, WAY_1D, 1, 1},
    {"fig15b", "colossal-3", BERT, 12, WAY_1D, 1, 1},      {"fig15b", "colossal-3", BERT, 4, WAY_RING, 1, 1},
    {"fig15b", "colossal-3", BERT, 8, WAY_RING, 1, 1},     {"fig15b", "colossal-3", BERT, 12, WAY_RING, 1, 1},
    {"fig16a", "colossal-3", BERT, 4, WAY_1D, 1, 1},       {"fig16a", "colossal-3", BERT, 6, WAY_1D, 1, 1},
    {"fig16a", "colossal-3", BERT, 12, WAY_1D, 1, 1},      {"fig16a", "colossal-3", BERT, 4, WAY_RING, 1, 1},
    {"fig16a", "colossal-3", BERT, 8, WAY_RING, 1, 1},     {"fig16a", "colossal-3", BERT, 12, WAY_RING, 1, 1},
    {"fig16b", "colossal-3", BERT, 4, WAY_1D, 1, 1},       {"fig16b", "colossal-3", BERT, 8, WAY_1D, 1, 2},
    {"fig16b", "colossal-3", BERT, 16, WAY_1D, 1, 4},      {"fig16b", "colossal-3", BERT, 4, WAY_RING, 1, 1},
    {"fig16b", "colossal-3", BERT, 8, WAY_RING, 1, 2},     {"fig16b", "colossal-3", BERT, 16, WAY_RING, 1, 4},
    {"table3", "colossal-4", VIT_2048, 4, WAY_1D, 1, 1},   {"table3", "colossal-4", VIT_2048, 4, WAY_2D, 1, 1},
    {"table3", "colossal-4", VIT_2048, 4, WAY_2P5D, 1, 1}, {"table3", "colossal-4", VIT_2048, 8, WAY_1D, 1, 1},
    {"table3", "colossal-4", VIT_2048, 8, WAY_2P5D, 2, 1}, {"table3", "colossal-4", VIT_2048, 8, WAY_3D, 1, 1},
    {"table3", "colossal-4", VIT_32L, 16, WAY_1D, 1, 1},   {"table3", "colossal-4", VIT_32L, 16, WAY_2D, 1, 1},
    {"table3", "colossal-4", VIT_32L, 16, WAY_2P5D, 4, 1}, {"table3", "colossal-4", VIT_32L, 32, WAY_1D, 1, 1},
    {"table3", "colossal-4", VIT_32L, 32, WAY_2P5D, 2, 1}, {"table3", "colossal-4", VIT_32L, 64, WAY_1D, 1, 1},
    {"table3", "colossal-4", VIT_32L, 64, WAY_2D, 1, 1},   {"table3", "colossal-4", VIT_32L, 64, WAY_2P5D, 4, 1},
    {"table3", "colossal-4", VIT_32L, 64, WAY_3D, 1, 1},
};

/* Samples that Figure 15b is at, microbatches of Figure 16b, and a multiple of both vocabularies that every degree here
 * divides. */
enum { FIGURE_15B_SAMPLES = 64, STAGE_MICROBATCHES = 4, VOCABULARY_MULTIPLE = 384, IMAGE_CLASS_MULTIPLE = 64 };

/* ---- one trial ---- */

typedef struct asked {
    const trial *trial;
    const char *figure; /* the row's */
    bool released;      /* as the release of Colossal-AI, else as galrun */
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_strategy strategy;
    uint32_t step; /* samples, or positions, are a multiple of this */
    char refused[GAL_ERROR_TEXT_BYTES];
} asked;

/* Of 6 devices 3 of each of two nodes are taken (section V-C). */
static void take_devices(gal_cluster *cluster, uint32_t devices)
{
    const bool halves = cluster->level_count > 1 && devices > cluster->level[0].span_devices &&
                        devices % cluster->level[0].span_devices != 0;
    cluster->level[0].span_devices = halves ? devices / 2 : cluster->level[0].span_devices;
    gal_cluster_resize(cluster, devices);
}

static void set_strategy(asked *a)
{
    static const gal_tp_mode modes[WAY_COUNT] = {
        [WAY_1D] = GAL_TP_1D, [WAY_2D] = GAL_TP_2D, [WAY_2P5D] = GAL_TP_2P5D, [WAY_3D] = GAL_TP_3D};
    const trial *t = a->trial;
    const uint32_t degree = t->devices / t->stages;
    const bool flat = t->way == WAY_2P5D && t->depth == 1; /* a grid of depth 1 is one of 2D */
    a->strategy = (gal_strategy){.axis_count = 1, .axis = {{GAL_AXIS_TP, degree}}};
    if (t->way == WAY_RING) {
        a->strategy.axis[0].kind = GAL_AXIS_RING;
        return;
    }
    a->strategy.tp_mode = flat ? GAL_TP_2D : modes[t->way];
    a->strategy.tp_depth = t->way == WAY_2P5D && !flat ? t->depth : 0;
    a->strategy.stepped = a->released && (t->way == WAY_2D || t->way == WAY_2P5D);
}

static gal_code ask(const trial *t, asked *a, gal_error *err)
{
    gal_code code = GAL_OK;
    a->trial = t;
    GAL_TRY(gal_model_read(t->model, &a->model, err));
    GAL_TRY(gal_cluster_read(t->cluster, &a->cluster, err));
    take_devices(&a->cluster, t->devices);
    a->model.compute_dtype = GAL_FP16;
    if (t->way == WAY_RING) { /* of 12 chunks 516 positions, not 512 */
        a->model.sequence_length = (a->model.sequence_length + t->devices / t->stages - 1) / (t->devices / t->stages) *
                                   (t->devices / t->stages);
    }
    a->model.vocabulary_multiple = a->model.family == GAL_FAMILY_VIT ? IMAGE_CLASS_MULTIPLE : VOCABULARY_MULTIPLE;
    set_strategy(a);
    a->step = gal_strategy_sample_parts(&a->strategy) * (t->stages > 1 ? STAGE_MICROBATCHES : 1);
    GAL_TRY(gal_durations_create_analytic(&a->cluster, &a->durations, err));
cleanup:
    return code;
}

/* Blocks of layers are dealt evenly; embedding and head are with the first and the last. */
static void fill_plan(const asked *a, uint32_t samples, gal_plan_stage *stage, gal_plan_run *run, gal_plan *out)
{
    const uint32_t stages = a->trial->stages, blocks = gal_model_block_count(&a->model);
    const uint32_t layers = (blocks - 2) / 2;
    *out = (gal_plan){.model = a->model,
                      .cluster = a->cluster,
                      .global_batch_samples = samples,
                      .microbatch_count = stages > 1 ? STAGE_MICROBATCHES : 1,
                      .pp_degree = stages,
                      .schedule = GAL_SCHEDULE_1F1B,
                      .prefetch_depth = a->released ? 1 : 2,
                      .stage_count = stages,
                      .stage = stage,
                      .run_count = stages,
                      .run = run};
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t own = layers * (s + 1) / stages - layers * s / stages;
        stage[s] = (gal_plan_stage){.first_run = s, .run_count = 1};
        run[s] = (gal_plan_run){2 * own + (s == 0) + (s + 1 == stages), a->strategy};
    }
}

enum { STAGES_MAX = 4 };

typedef struct measured {
    bool legal; /* else refused says why not */
    bool fits;
    double seconds; /* 0: not asked for */
} measured;

/* GAL_NO: not legal. */
static gal_code lower(asked *a, uint32_t samples, gal_program **programs, gal_error *err)
{
    gal_plan_stage stage[STAGES_MAX];
    gal_plan_run run[STAGES_MAX];
    gal_plan plan;
    gal_error broken = {0};
    fill_plan(a, samples, stage, run, &plan);
    if (gal_plan_check(&plan, NULL, &broken) != GAL_OK) {
        (void)snprintf(a->refused, sizeof a->refused, "%s", broken.text);
        return GAL_NO;
    }
    return gal_lower_plan(&plan, programs, err);
}

/* Bytes, and seconds if they fit and are asked for. What has more elements than an instruction takes does not fit. */
static gal_code measure(asked *a, uint32_t samples, bool timed, measured *out, gal_error *err)
{
    gal_program *programs[STAGES_MAX] = {NULL};
    gal_simulation simulation = {0};
    gal_error refused = {0};
    *out = (measured){0};
    gal_code code = lower(a, samples, programs, &refused);
    out->legal = code != GAL_NO;
    out->fits = code == GAL_OK;
    if (code != GAL_OK) {
        code = code == GAL_ERR_SYSTEM ? gal_fail(err, code, "%s", refused.text) : GAL_OK;
        goto cleanup;
    }
    for (uint32_t s = 0; s < a->trial->stages; s++) {
        const uint64_t bytes = programs[s]->arena_bytes + gal_durations_fixed_bytes(a->durations);
        out->fits = out->fits && bytes <= a->cluster.device.memory_bytes;
    }
    if (out->fits && timed && a->released) {
        GAL_TRY(gal_colossal_release_seconds(programs[0], a->durations, &out->seconds, err));
    } else if (out->fits && timed) {
        GAL_TRY(gal_simulate(programs, a->trial->stages, a->durations, false, &simulation, err));
        out->seconds = simulation.iteration_seconds;
    }
cleanup:
    gal_simulation_free(&simulation);
    for (uint32_t s = 0; s < a->trial->stages; s++) {
        gal_program_free(programs[s]);
    }
    return code;
}

/* Whether so many steps, of samples or of positions, fit; *legal is left alone where they do. */
typedef gal_code fits_rule(asked *a, uint32_t steps, measured *out, gal_error *err);

static gal_code fits_samples(asked *a, uint32_t steps, measured *out, gal_error *err)
{
    return measure(a, steps * a->step, false, out, err);
}

static gal_code fits_positions(asked *a, uint32_t steps, measured *out, gal_error *err)
{
    a->model.sequence_length = steps * a->step;
    return measure(a, FIGURE_15B_SAMPLES, false, out, err);
}

/* The most steps that fit, bytes rising with them; 0: one does not, or is not legal (then a->refused). */
static gal_code most_steps(asked *a, uint32_t limit, fits_rule *fits, uint32_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    measured m = {.legal = true, .fits = true};
    uint32_t low = 0, high = 1;
    while (m.fits && high <= limit) {
        GAL_TRY(fits(a, high, &m, err));
        low = m.fits ? high : low;
        high *= m.fits ? 2 : 1;
    }
    high = high > limit ? limit + 1 : high;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        GAL_TRY(fits(a, middle, &m, err));
        *(m.fits ? &low : &high) = middle;
    }
    *out = low;
cleanup:
    return code;
}

typedef struct report {
    gal_code (*each)(void *context, const gal_colossal_row *row);
    void *context;
} report;

static gal_code say(const report *r, const asked *a, uint32_t batch, double value)
{
    const trial *t = a->trial;
    const char *why = a->refused[0] != '\0' ? a->refused : "no batch fits";
    const gal_colossal_row row = {.figure = a->figure,
                                  .system = t->cluster,
                                  .devices = t->devices,
                                  .mode = way_names[t->way],
                                  .depth = t->stages > 1 ? t->stages : t->depth,
                                  .batch = batch,
                                  .value = value,
                                  .refused = value > 0.0 ? "" : why};
    return r->each(r->context, &row);
}

static uint32_t most_samples(const asked *a)
{
    return GAL_BATCH_TOKENS_MAX / a->model.sequence_length / a->step;
}

/* The best of the batches that fit: doubled from the smallest, and the largest. */
static gal_code best_throughput(asked *a, const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t most = 0, best = 0;
    double rate = 0.0;
    GAL_TRY(most_steps(a, most_samples(a), fits_samples, &most, err));
    for (uint32_t steps = 1; steps <= most; steps = steps < most && 2 * steps > most ? most : 2 * steps) {
        measured m;
        GAL_TRY(measure(a, steps * a->step, true, &m, err));
        if (steps * a->step / m.seconds > rate) {
            rate = steps * a->step / m.seconds;
            best = steps * a->step;
        }
    }
    GAL_TRY(say(r, a, best, rate));
cleanup:
    return code;
}

static gal_code largest_batch(asked *a, const report *r, gal_error *err)
{
    uint32_t most = 0;
    const gal_code code = most_steps(a, most_samples(a), fits_samples, &most, err);
    return code == GAL_OK ? say(r, a, most * a->step, most * a->step) : code;
}

static gal_code longest_sequence(asked *a, const report *r, gal_error *err)
{
    uint32_t most = 0;
    a->step = gal_strategy_sequence_degree(&a->strategy) > 1 ? gal_strategy_sequence_degree(&a->strategy) : 4;
    const uint32_t limit = GAL_BATCH_TOKENS_MAX / FIGURE_15B_SAMPLES / a->step;
    const gal_code code = most_steps(a, limit, fits_positions, &most, err);
    return code == GAL_OK ? say(r, a, FIGURE_15B_SAMPLES, most * a->step) : code;
}

static gal_code tokens_at_largest(asked *a, const report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t most = 0;
    measured m = {0};
    GAL_TRY(most_steps(a, most_samples(a), fits_samples, &most, err));
    if (most > 0) {
        GAL_TRY(measure(a, most * a->step, true, &m, err));
    }
    const double tokens = (double)most * a->step * a->model.sequence_length;
    GAL_TRY(say(r, a, most * a->step, most > 0 ? tokens / m.seconds : 0.0));
cleanup:
    return code;
}

/* ---- figures ---- */

static gal_code put_volume(const report *r, const char *figure, const volume *v, gal_colossal_form form)
{
    static const gal_tp_mode modes[] = {GAL_TP_1D, GAL_TP_2D, GAL_TP_2P5D, GAL_TP_3D};
    const gal_colossal_row row = {.figure = figure,
                                  .system = "",
                                  .devices = v->devices,
                                  .mode = way_names[v->way],
                                  .depth = v->depth,
                                  .batch = FIGURE_9_BATCH,
                                  .value = gal_colossal_elements(modes[v->way], v->devices, v->depth, &figure_9, form),
                                  .refused = ""};
    return r->each(r->context, &row);
}

static gal_code put_table_1(const char *figure, const report *r, gal_error *err)
{
    (void)err;
    const gal_colossal_form form = strcmp(figure, "table1") == 0 ? GAL_COLOSSAL_PRINTED : GAL_COLOSSAL_CORRECTED;
    gal_code code = GAL_OK;
    for (size_t i = 0; code == GAL_OK && i < sizeof table_1 / sizeof table_1[0]; i++) {
        code = put_volume(r, figure, &table_1[i], form);
    }
    return code;
}

/* The largest depth of 2.5D that is at most the side. */
static uint32_t depth_for(uint32_t devices)
{
    uint32_t depth = 0;
    for (uint32_t d = 1; d * d * d <= devices; d++) {
        depth = side_of(GAL_TP_2P5D, devices, d) >= d ? d : depth;
    }
    return depth;
}

static gal_code put_figure_9(const char *figure, const report *r, gal_error *err)
{
    (void)err;
    const gal_colossal_form form = strcmp(figure, "fig9") == 0 ? GAL_COLOSSAL_PRINTED : GAL_COLOSSAL_CORRECTED;
    gal_code code = GAL_OK;
    for (uint32_t devices = 1; code == GAL_OK && devices <= 512; devices *= 2) {
        const volume all[] = {
            {devices, WAY_1D, 1}, {devices, WAY_2D, 1}, {devices, WAY_2P5D, depth_for(devices)}, {devices, WAY_3D, 1}};
        for (size_t i = 0; code == GAL_OK && i < sizeof all / sizeof all[0]; i++) {
            static const gal_tp_mode modes[] = {GAL_TP_1D, GAL_TP_2D, GAL_TP_2P5D, GAL_TP_3D};
            const bool exists =
                all[i].depth > 0 && (all[i].way == WAY_1D || side_of(modes[i], devices, all[i].depth) > 0);
            code = exists ? put_volume(r, figure, &all[i], form) : GAL_OK;
        }
    }
    return code;
}

static gal_code put_trials(const char *figure, const report *r, gal_error *err)
{
    static const struct {
        const char *figure, *trials;
        bool released;
        gal_code (*answer)(asked *a, const report *r, gal_error *err);
    } answers[] = {{"fig14", "fig14", true, best_throughput},      {"fig14-galrun", "fig14", false, best_throughput},
                   {"fig15a", "fig15a", false, largest_batch},     {"fig15b", "fig15b", false, longest_sequence},
                   {"fig16a", "fig16a", false, tokens_at_largest}, {"fig16b", "fig16b", false, tokens_at_largest},
                   {"table3", "table3", true, best_throughput},    {"table3-galrun", "table3", false, best_throughput}};
    size_t which = 0;
    while (strcmp(answers[which].figure, figure) != 0) {
        which++;
    }
    gal_code code = GAL_OK;
    for (size_t i = 0; code == GAL_OK && i < sizeof trials / sizeof trials[0]; i++) {
        if (strcmp(trials[i].figure, answers[which].trials) != 0) {
            continue;
        }
        asked *a = calloc(1, sizeof *a);
        if (a == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a figure");
        }
        a->figure = figure;
        a->released = answers[which].released;
        code = ask(&trials[i], a, err);
        code = code == GAL_OK ? answers[which].answer(a, r, err) : code;
        gal_durations_free(a->durations);
        free(a);
    }
    return code;
}

static gal_code put_figure_12(const char *figure, const report *r, gal_error *err)
{
    (void)figure;
    return gal_colossal_range(r->each, r->context, err);
}

static gal_code put_figure_17(const char *figure, const report *r, gal_error *err)
{
    (void)figure;
    return gal_colossal_offload(r->each, r->context, err);
}

gal_code gal_colossal_reproduce(const char *figure, gal_code (*each)(void *context, const gal_colossal_row *row),
                                void *context, gal_error *err)
{
    static const struct {
        const char *name;
        gal_code (*put)(const char *figure, const report *r, gal_error *err);
    } figures[] = {{"table1", put_table_1},       {"table1-corrected", put_table_1},
                   {"fig9", put_figure_9},        {"fig9-corrected", put_figure_9},
                   {"fig12", put_figure_12},      {"fig14", put_trials},
                   {"fig14-galrun", put_trials},  {"fig15a", put_trials},
                   {"fig15b", put_trials},        {"fig16a", put_trials},
                   {"fig16b", put_trials},        {"table3", put_trials},
                   {"table3-galrun", put_trials}, {"fig17", put_figure_17}};
    const report r = {each, context};
    bool known = false;
    gal_code code = GAL_OK;
    for (size_t i = 0; code == GAL_OK && i < sizeof figures / sizeof figures[0]; i++) {
        if (figure == NULL || strcmp(figure, figures[i].name) == 0) {
            known = true;
            code = figures[i].put(figures[i].name, &r, err);
        }
    }
    return known ? code
                 : gal_fail(err, GAL_ERR_USAGE,
                            "unknown figure '%s' (known: table1, table1-corrected, fig9, fig9-corrected, fig12, fig14, "
                            "fig14-galrun, fig15a, fig15b, fig16a, fig16b, table3, table3-galrun, fig17)",
                            figure);
}
