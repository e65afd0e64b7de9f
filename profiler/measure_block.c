/* Whole training steps through the engine: blocks in their program, what a step costs beside it, what a rank takes
 * beside its arena, and the engine's own time per instruction. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/measure.h"
#include "runtime/engine/resident.h"
#include "runtime/train/session.h"
#include "runtime/train/weights.h"
#include "schemas/base/clock.h"
#include "schemas/plan_check.h"

enum { WARM_STEPS = 2, STEPS = 5, SAMPLES = 16, INSTRUCTION_STEPS = 200, TINY_HOST = 8, TINY_DEVICE = 64 };

/* Seconds of kernels by instruction. */
typedef struct trace {
    const gal_program *program;
    bool recording;
    uint32_t *count;            /* [instruction] */
    double (*seconds)[SAMPLES]; /* [instruction]: the first ones */
    double first_seconds, last_seconds, kernel_seconds;
    uint64_t done;
} trace;

static void record(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds, double end_seconds)
{
    trace *t = context;
    (void)microbatch;
    t->first_seconds = t->done == 0 ? start_seconds : fmin(t->first_seconds, start_seconds);
    t->last_seconds = end_seconds;
    t->done++;
    if (!gal_op_is_collective[t->program->instruction[instruction].op]) {
        t->kernel_seconds += end_seconds - start_seconds;
    }
    if (t->recording && t->count[instruction] < SAMPLES) {
        t->seconds[instruction][t->count[instruction]++] = end_seconds - start_seconds;
    }
}

/* One step as the trainer takes it, with its agreement at the end; seconds of it beside the program's. */
static gal_code run_step(const gal_session *session, const gal_world *world, trace *t, uint64_t step,
                         double *beside_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_step_result result;
    double agreed[2] = {0.0, 0.0}; /* as many as the trainer's */
    const gal_step_settings settings = {.step = step, .seed = 1, .learning_rate = 1e-4};
    const double begin_seconds = gal_now_seconds();
    t->done = 0;
    t->kernel_seconds = 0.0;
    GAL_TRY(gal_engine_step(session->engine, &settings, &result, err));
    GAL_TRY(gal_world_maximum(world, agreed, 2, err));
    *beside_seconds = gal_now_seconds() - begin_seconds - (t->last_seconds - t->first_seconds);
cleanup:
    return code;
}

/* ---- the plan ---- */

static gal_code make_plan(const gal_model *model, uint32_t layer_count, uint32_t rank_count, uint32_t tp_degree,
                          gal_recompute recompute, uint32_t microbatch_samples, gal_plan *out, gal_error *err)
{
    gal_plan plan = {.model = *model,
                     .global_batch_samples = 2 * microbatch_samples,
                     .microbatch_count = 2,
                     .pp_degree = 1,
                     .schedule = GAL_SCHEDULE_1F1B,
                     .prefetch_depth = 2,
                     .stage_count = 1,
                     .run_count = 1};
    gal_strategy strategy;
    memset(&strategy, 0, sizeof strategy);
    strategy.recompute = recompute;
    gal_model_keep_layers(&plan.model, layer_count);
    plan.cluster.device_count = rank_count;
    plan.stage = calloc(1, sizeof *plan.stage);
    plan.run = calloc(1, sizeof *plan.run);
    if (plan.stage == NULL || plan.run == NULL) {
        gal_plan_free(&plan);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: plan");
    }
    if (tp_degree > 1) {
        strategy.axis[strategy.axis_count++] = (gal_axis){GAL_AXIS_TP, tp_degree};
    }
    if (rank_count > tp_degree) {
        strategy.axis[strategy.axis_count++] = (gal_axis){GAL_AXIS_DP, rank_count / tp_degree};
    }
    plan.stage[0].run_count = 1;
    plan.run[0] = (gal_plan_run){gal_model_block_count(&plan.model), strategy};
    *out = plan;
    return GAL_OK;
}

static bool fits(const gal_plan *plan, uint64_t memory_bytes)
{
    gal_program *program = NULL;
    bool yes = gal_strategy_fits_all(&plan->model, &plan->run[0].strategy, plan->cluster.device_count,
                                     gal_plan_microbatch_samples(plan));
    yes = yes && gal_lower(plan, 0, &program, NULL) == GAL_OK;
    yes = yes && (memory_bytes == 0 || program->arena_bytes <= memory_bytes);
    gal_program_free(program);
    return yes;
}

/* ---- blocks ---- */

static const gal_profile_operator *entry_of(const gal_profile *profile, const gal_shape *shape)
{
    const gal_profile_operator key = {.shape = *shape};
    return profile->operator_count == 0 ? NULL
                                        : bsearch(&key, profile->operators, profile->operator_count,
                                                  sizeof *profile->operators, gal_operator_compare);
}

/* Per block kind, forward (0) and backward (1): what its kernels took in the program, and what their entries and the
 * engine's time per instruction make; that of a missing entry is NAN. */
typedef struct block_sums {
    double seconds[GAL_BLOCK_KIND_COUNT][2], operator_seconds[GAL_BLOCK_KIND_COUNT][2];
} block_sums;

/* The median; where ranks share cores the mean, for there most kernels run undisturbed and some wait for a core long.
 * Entries are of all ranks computing at once; in a program ranks that wait leave their core to the others, so with TP
 * these blocks take less than their entries there. */
static double typical(double *seconds, uint32_t count, bool shared_cores)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += seconds[i];
    }
    return shared_cores ? sum / count : gal_quartile(seconds, count, 2);
}

static void count_kinds(const gal_model *model, double blocks[GAL_BLOCK_KIND_COUNT])
{
    for (uint32_t i = 0; i < gal_model_block_count(model); i++) {
        blocks[gal_model_block_kind(model, i)] += 1.0;
    }
}

/* The kernels of all blocks of a kind, divided by their number. */
static void sum_blocks(const trace *t, const gal_model *model, const gal_profile *profile, bool shared_cores,
                       block_sums *out)
{
    const gal_program *p = t->program;
    double blocks[GAL_BLOCK_KIND_COUNT] = {0.0};
    memset(out, 0, sizeof *out);
    count_kinds(model, blocks);
    for (int backward = 0; backward < 2; backward++) {
        const gal_fragment *fragment = &p->fragment[backward ? GAL_FRAGMENT_BACKWARD : GAL_FRAGMENT_FORWARD];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &p->instruction[i];
            const gal_block_kind kind = gal_model_block_kind(model, in->block);
            if (gal_op_is_collective[in->op] || t->count[i] == 0 || gal_op_loads((gal_op)in->op)) {
                continue;
            }
            const gal_profile_operator *entry = entry_of(profile, &p->shape[in->shape]);
            out->seconds[kind][backward] += typical(t->seconds[i], t->count[i], shared_cores) / blocks[kind];
            out->operator_seconds[kind][backward] += entry != NULL ? entry->seconds / blocks[kind] : (double)NAN;
        }
    }
}

static gal_code report_blocks(const gal_bench *bench, const block_sums *sums, const gal_session_settings *settings,
                              gal_session_report *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double slowest[2 * GAL_BLOCK_KIND_COUNT];
    const uint32_t replicas = gal_world_size(&bench->world) / settings->tp_degree;
    memcpy(slowest, sums->seconds, sizeof slowest);
    GAL_TRY(gal_world_maximum(&bench->world, slowest, 2 * GAL_BLOCK_KIND_COUNT, err));
    for (uint32_t kind = 0; kind < GAL_BLOCK_KIND_COUNT; kind++) {
        const double *operators = sums->operator_seconds[kind];
        const bool known = operators[0] > 0.0 && operators[1] > 0.0; /* false for NAN too */
        out->block[kind] = (gal_profile_block){.kind = (gal_block_kind)kind,
                                               .tp_degree = settings->tp_degree,
                                               .samples = settings->microbatch_samples / replicas,
                                               .forward_seconds = slowest[2 * kind],
                                               .backward_seconds = slowest[2 * kind + 1],
                                               .forward_operator_seconds = known ? operators[0] : 0.0,
                                               .backward_operator_seconds = known ? operators[1] : 0.0};
    }
cleanup:
    return code;
}

/* Of the memory that the arena is in: all that this rank has taken. */
static uint64_t resident_bytes(const gal_bench *bench)
{
    const gal_device_ops *device = bench->backend->device;
    return device->used_bytes != NULL ? device->used_bytes() / bench->sharing_count : gal_peak_resident_bytes();
}

static gal_code run_steps(gal_bench *bench, const gal_session *session, const gal_session_settings *settings, trace *t,
                          gal_session_report *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double beside[STEPS], fixed[2];
    block_sums sums;
    uint32_t recorded = 0;
    GAL_TRY(gal_bench_tick(bench, err));
    const double until_seconds = bench->elapsed_seconds + settings->budget_seconds;
    for (uint64_t step = 0; recorded < STEPS && (recorded == 0 || bench->elapsed_seconds < until_seconds); step++) {
        double seconds = 0.0;
        t->recording = step >= WARM_STEPS || bench->elapsed_seconds >= until_seconds;
        GAL_TRY(run_step(session, &bench->world, t, step, &seconds, err));
        if (t->recording) {
            beside[recorded++] = seconds;
        }
        GAL_TRY(gal_bench_tick(bench, err));
    }
    const uint64_t resident = resident_bytes(bench), arena = session->program->arena_bytes;
    fixed[0] = -gal_quartile(beside, recorded, 2); /* the last rank to end its program waits for nobody */
    fixed[1] = resident > arena ? (double)(resident - arena) : 0.0;
    GAL_TRY(gal_world_maximum(&bench->world, fixed, 2, err));
    sum_blocks(t, &session->plan->model, settings->profile, bench->shared_cores, &sums);
    GAL_TRY(report_blocks(bench, &sums, settings, out, err));
    out->fixed_step_seconds = fmax(-fixed[0], 0.0); /* a GPU's clock is not the host's */
    out->fixed_bytes = (uint64_t)fixed[1];
    out->communicator_count = session->comm != NULL ? session->comm->communicator_count : 0;
cleanup:
    return code;
}

/* Also for one rank by itself: world without a communicator. */
static gal_code open_session(const gal_bench *bench, const gal_plan *plan, const gal_world *world, uint32_t *vocabulary,
                             trace *t, gal_session **out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_session_options options = {
        .backend = bench->backend,
        .tell = bench->tell,
        .tf32 = bench->tf32,
        .tokens = {vocabulary, gal_random_tokens, gal_random_patches, gal_whole_lengths, gal_many_targets},
        .trace = {t, record},
        .deadline_seconds = world->deadline_seconds};
    gal_session *session = NULL;
    GAL_TRY(gal_session_create(plan, world, &options, &session, err));
    t->program = session->program;
    t->count = calloc(session->program->instruction_count, sizeof *t->count);
    t->seconds = calloc(session->program->instruction_count, sizeof *t->seconds);
    code = t->count != NULL && t->seconds != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: trace");
    GAL_TRY(gal_world_agree(world, code, err));
    gal_weights_initialize(session->program, &plan->model, session->device, 1, session->backend->device,
                           gal_engine_memory(session->engine));
    *out = session;
    session = NULL;
cleanup:
    gal_session_free(session);
    return code;
}

static void trace_free(trace *t)
{
    free(t->count);
    free(t->seconds);
}

gal_code gal_measure_session(gal_bench *bench, const gal_session_settings *settings, bool *fits_memory,
                             gal_session_report *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan plan = {0};
    gal_session *session = NULL;
    trace t = {.done = 0};
    uint32_t vocabulary = settings->model->vocabulary;
    code = make_plan(settings->model, settings->layer_count, gal_world_size(&bench->world), settings->tp_degree,
                     settings->recompute, settings->microbatch_samples, &plan, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    *fits_memory = fits(&plan, settings->memory_bytes);
    if (*fits_memory) {
        GAL_TRY(open_session(bench, &plan, &bench->world, &vocabulary, &t, &session, err));
        GAL_TRY(run_steps(bench, session, settings, &t, out, err));
    }
cleanup:
    trace_free(&t);
    gal_session_free(session);
    gal_plan_free(&plan);
    return code;
}

/* ---- the engine's own time ---- */

/* size: what the device's kernels have at least. */
static gal_model tiny_model(const gal_model *model, uint32_t size)
{
    gal_model tiny = *model;
    tiny.layer_count = 4;
    tiny.hidden = size;
    tiny.head_count = tiny.kv_head_count = 1;
    tiny.head_dim = size;
    tiny.ffn_hidden = size;
    tiny.sequence_length = 2;
    tiny.decoder_sequence_length = tiny.decoder_sequence_length > 0 ? 2 : 0;
    tiny.vocabulary = tiny.vocabulary_multiple = size;
    if (tiny.level_count > 0) { /* one level: a grid of 2 by 2 */
        tiny.level_count = tiny.level_head_count[0] = 1;
        tiny.level_layer_count[0] = tiny.layer_count;
        tiny.image_size = 2 * tiny.patch_size;
        tiny.sequence_length = 4;
    }
    return tiny;
}

gal_code gal_measure_instruction(gal_bench *bench, const gal_model *model, double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_world alone = {.deadline_seconds = bench->world.deadline_seconds};
    const gal_model tiny = tiny_model(model, bench->backend->device->queue != NULL ? TINY_DEVICE : TINY_HOST);
    gal_plan plan = {0};
    gal_session *session = NULL;
    trace t = {.done = 0};
    uint32_t vocabulary = tiny.vocabulary;
    double each[INSTRUCTION_STEPS], beside = 0.0, slowest = 0.0;
    code = make_plan(&tiny, tiny.layer_count, 1, 1, GAL_RECOMPUTE_NONE, 1, &plan, err);
    if (code == GAL_OK) {
        code = open_session(bench, &plan, &alone, &vocabulary, &t, &session, err);
    }
    for (uint64_t step = 0; step < INSTRUCTION_STEPS && code == GAL_OK; step++) {
        code = run_step(session, &alone, &t, step, &beside, err);
        each[step] = (t.last_seconds - t.first_seconds - t.kernel_seconds) / (double)t.done;
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    slowest = fmax(gal_quartile(each, INSTRUCTION_STEPS, 2), 0.0);
    GAL_TRY(gal_world_maximum(&bench->world, &slowest, 1, err));
    *seconds = slowest;
cleanup:
    trace_free(&t);
    gal_session_free(session);
    gal_plan_free(&plan);
    return code;
}
