#include "runtime/train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data.h"
#include "runtime/train/progress.h"
#include "runtime/train/safetensors.h"
#include "runtime/train/session.h"
#include "runtime/train/trace_file.h"
#include "runtime/train/train_agreement.h"
#include "runtime/train/weights.h"
#include "schemas/base/clock.h"
#include "schemas/base/fnv.h"

enum { TIMED_STEPS_MAX = 1 << 20, DEFAULT_EVALUATE_BATCHES = 20, WHERE_BYTES = 96 };

/* A rank that failed in a step waits so long for the others to fail too; then it ends them. */
static const double failed_deadline_seconds = 2.0;
static const double memory_interval_seconds = 1.0;

typedef struct run {
    const gal_plan *plan;
    const gal_train_options *options;
    gal_world world;
    gal_data *data;
    gal_data_content content; /* of the data's files */
    gal_session *session;
    gal_checkpoint_position position;
    gal_save_folder folder; /* of --save; zeroed without */
    gal_train_progress progress;
    gal_step_record record; /* of the newest step */
    gal_exposure exposure;  /* sum over this rank's steps without the first */
    uint64_t evaluate_batches;
    uint64_t saved_step; /* UINT64_MAX: none by this run */
    uint64_t evaluated_step;
    double *timed_seconds; /* of the first TIMED_STEPS_MAX steps of this run */
    uint64_t timed_count;
    bool stopping;
    double memory_bytes;   /* the most that a rank has taken of its memory, as far as was seen */
    double memory_seconds; /* when this rank looked at its own; 0: never */
    gal_train_summary summary;
} run;

double gal_learning_rate(const gal_optimizer *optimizer, uint64_t step)
{
    const double peak = optimizer->learning_rate, least = optimizer->minimum_learning_rate;
    if (step < optimizer->warmup_steps) {
        return peak * (double)(step + 1) / (double)optimizer->warmup_steps;
    }
    const uint64_t since = step - optimizer->warmup_steps;
    if (optimizer->decay_steps == 0) {
        return peak;
    }
    if (since >= optimizer->decay_steps) {
        return least;
    }
    return least + (peak - least) * 0.5 * (1.0 + cos(acos(-1.0) * (double)since / (double)optimizer->decay_steps));
}

/* ---- start ---- */

static gal_code open_data(run *r, gal_error *err)
{
    const gal_model *model = &r->plan->model;
    const gal_data_options options = {
        .path = r->options->data_path,
        .validation_path = r->options->validation_path,
        .labels_path = r->options->labels_path,
        .validation_labels_path = r->options->validation_labels_path,
        .as_bytes = r->options->data_as_bytes,
        .vocabulary = model->vocabulary,
        .sequence_length = model->sequence_length,
        .target_length = model->decoder_sequence_length,
        .global_batch_samples = r->plan->global_batch_samples,
        .seed = r->position.seed,
        .model = model,
    };
    return gal_data_open(&options, &r->data, err);
}

/* The seed of a resumed run is known only after its checkpoint is read, and the data are opened before: so the engine
 * is given the run, which holds the data of the moment. */
static gal_code fill_tokens(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    const run *r = context;
    return gal_data_fill(r->data, request, out, err);
}

static gal_code fill_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    const run *r = context;
    return gal_data_fill_lengths(r->data, request, out, err);
}

static gal_code count_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err)
{
    const run *r = context;
    return gal_data_count_targets(r->data, batch, evaluation, out, err);
}

static gal_code fill_patches(void *context, const gal_patch_request *request, void *out, gal_error *err)
{
    const run *r = context;
    return gal_data_fill_patches(r->data, request, out, err);
}

/* The record has the queues of the engine, which is given its trace first: so this, too, goes through the run. */
static void note_instruction(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds,
                             double end_seconds)
{
    run *r = context;
    gal_step_record_note(&r->record, instruction, microbatch, start_seconds, end_seconds);
}

/* In fp16. */
static void resume_scale(run *r)
{
    const gal_loss_scaling *kept = &r->position.loss_scaling;
    if (kept->scale > 0.0) {
        gal_engine_set_loss_scaling(r->session->engine, *kept);
    } else if (r->plan->model.compute_dtype == GAL_FP16 && gal_world_rank(&r->world) == 0) {
        gal_log_line(r->options->log, GAL_LOG_WARN,
                     "the checkpoint was made before the scale of the loss was kept: it starts anew, so some steps may "
                     "be left out until it fits");
    }
}

/* Other data may be meant, and is said. */
static void warn_of_other_data(const run *r, const gal_checkpoint_position *saved)
{
    if (gal_world_rank(&r->world) != 0) {
        return;
    }
    if (saved->train_windows != gal_data_train_windows(r->data)) {
        gal_log_line(r->options->log, GAL_LOG_WARN,
                     "the checkpoint was made with other data (%llu training windows, now %llu): their order does not "
                     "continue",
                     (unsigned long long)saved->train_windows, (unsigned long long)gal_data_train_windows(r->data));
    } else if (saved->data_fingerprint != 0 && saved->data_fingerprint != r->content.training) {
        gal_log_line(r->options->log, GAL_LOG_WARN,
                     "the checkpoint was made with other data: as many training windows, other content");
    }
}

static gal_code resume(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_checkpoint_state state = gal_session_state(r->session);
    const uint64_t seed = r->position.seed;
    GAL_TRY(gal_checkpoint_load(r->options->resume_path, &state, &r->position, &r->world, r->options->log, err));
    if (r->options->seed_given && r->position.seed != seed) {
        code = gal_fail(err, GAL_ERR_USAGE, "%s was started with --seed %llu, this run asks for %llu",
                        r->options->resume_path, (unsigned long long)r->position.seed, (unsigned long long)seed);
    } else if (r->position.seed != seed) {
        gal_data_close(r->data);
        r->data = NULL;
        code = open_data(r, err);
    }
    GAL_TRY(gal_world_agree(&r->world, code, err));
    resume_scale(r);
    warn_of_other_data(r, &r->position);
    if (r->position.run[0] != '\0') { /* the same run goes on */
        memcpy(r->folder.run, r->position.run, sizeof r->folder.run);
    }
cleanup:
    return code;
}

/* Whether there is a checkpoint to go on from. The first run of a supervisor that always says --resume latest has
 * none. */
static gal_code find_resume(run *r, bool *resumes, gal_error *err)
{
    gal_code code = GAL_OK;
    *resumes = r->options->resume_path != NULL;
    if (*resumes && r->options->resume_if_any) {
        GAL_TRY(gal_checkpoint_exists(r->options->resume_path, &r->world, resumes, err));
        if (!*resumes) {
            gal_log_line(r->options->log, GAL_LOG_INFO, "%s has no checkpoint yet: the run starts anew",
                         r->options->resume_path);
        }
    }
cleanup:
    return code;
}

/* The identity of a run that starts anew: plan, seed and data decide what it computes. */
static gal_code name_run(run *r, gal_error *err)
{
    char plan[GAL_HASH_BYTES];
    const gal_code code = gal_checkpoint_plan_hash(r->plan, plan, err);
    if (code == GAL_OK) {
        uint64_t hash = gal_fnv(GAL_FNV_START, plan, sizeof plan);
        hash = gal_fnv(hash, &r->position.seed, sizeof r->position.seed);
        hash = gal_fnv(hash, &r->content.training, sizeof r->content.training);
        snprintf(r->position.run, sizeof r->position.run, "%016llx", (unsigned long long)hash);
    }
    return gal_world_agree(&r->world, code, err);
}

static gal_code open_folder(run *r, gal_error *err)
{
    const gal_save_folder_options options = {.directory = r->options->save_directory,
                                             .run = r->position.run,
                                             .may_hold_others =
                                                 r->options->resume_path != NULL || r->options->overwrite,
                                             .stop = r->options->stop,
                                             .log = r->options->log};
    return options.directory != NULL ? gal_save_folder_open(&options, &r->world, &r->folder, err) : GAL_OK;
}

static gal_code start_anew(run *r, gal_error *err)
{
    const gal_session *session = r->session;
    const gal_checkpoint_state state = gal_session_state(session);
    gal_weights_initialize(session->program, &r->plan->model, session->device, r->position.seed,
                           session->backend->device, gal_engine_memory(session->engine));
    const gal_code code = gal_world_agree(&r->world, gal_storage_status(state.memory->storage, err), err);
    return code != GAL_OK || r->options->weights_path == NULL
               ? code
               : gal_safetensors_load(r->options->weights_path, &state, &r->world, r->options->log, err);
}

static void choose_evaluation(run *r)
{
    const uint64_t windows = gal_data_validation_windows(r->data);
    const uint64_t batch = r->plan->global_batch_samples;
    const uint64_t once = windows < batch ? 1 : windows / batch;
    r->evaluate_batches = r->options->evaluate_batches;
    if (r->evaluate_batches == 0) {
        r->evaluate_batches = once < DEFAULT_EVALUATE_BATCHES ? once : DEFAULT_EVALUATE_BATCHES;
    }
}

static gal_code start_progress(run *r, gal_error *err)
{
    if (gal_world_rank(&r->world) != 0) {
        return GAL_OK;
    }
    r->progress = (gal_train_progress){
        .log = r->options->log,
        .rewrites = r->options->rewrites,
        .pace = r->options->pace,
        .step_count = r->options->step_count,
        .work = r->summary.work,
    };
    return gal_run_log_open(&r->progress.files, r->options->log_path, r->options->tensorboard_path,
                            r->options->resume_path != NULL, r->position.step + 1, err);
}

/* A trace of no step shows now whether the file can be written, and not after hours. */
static gal_code start_record(run *r, gal_error *err)
{
    gal_code code = gal_step_record_create(r->session->program, gal_engine_queues(r->session->engine), &r->record, err);
    GAL_TRY(gal_world_agree(&r->world, code, err));
    if (r->options->trace_path != NULL) {
        GAL_TRY(gal_trace_save(r->options->trace_path, r->plan, &r->record, &r->world, err));
    }
cleanup:
    return code;
}

static gal_code start(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    /* A device takes times where it is asked to: it costs. */
    bool resumes = false;
    const bool traced = r->options->backend == NULL || r->options->trace_path != NULL;
    const gal_session_options session = {.backend = r->options->backend,
                                         .tokens = {r, fill_tokens, fill_patches, fill_lengths, count_targets},
                                         .trace = {r, traced ? note_instruction : NULL},
                                         .deadline_seconds = r->options->deadline_seconds,
                                         .order = r->options->order,
                                         .limits = r->options->limits,
                                         .storage_directory = r->options->storage_directory,
                                         .storage_way = r->options->storage_way,
                                         .slow_bytes_per_second = r->options->slow_bytes_per_second,
                                         .deterministic = r->options->deterministic,
                                         .tf32 = r->options->tf32,
                                         .graphs = r->options->graphs,
                                         .tell = r->options->tell};
    const uint64_t timed =
        r->options->step_count < TIMED_STEPS_MAX ? r->options->step_count : (uint64_t)TIMED_STEPS_MAX;
    r->position.seed = r->options->seed;
    r->timed_seconds = malloc((size_t)(timed + 1) * sizeof *r->timed_seconds);
    code = r->timed_seconds != NULL ? open_data(r, err) : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: step times");
    GAL_TRY(gal_world_agree(&r->world, code, err));
    GAL_TRY(gal_train_agree(r->plan, r->options, r->data, &r->world, &r->content, err));
    GAL_TRY(name_run(r, err));
    GAL_TRY(open_folder(r, err));
    GAL_TRY(find_resume(r, &resumes, err));
    GAL_TRY(gal_session_create(r->plan, &r->world, &session, &r->session, err));
    GAL_TRY(start_record(r, err));
    if (r->options->export_path != NULL) {
        GAL_TRY(gal_safetensors_probe(r->options->export_path, &r->world, err));
    }
    GAL_TRY((resumes ? resume : start_anew)(r, err));
    r->position.train_windows = gal_data_train_windows(r->data);
    r->position.data_fingerprint = r->content.training;
    choose_evaluation(r);
    GAL_TRY(gal_world_agree(&r->world, start_progress(r, err), err));
cleanup:
    return code;
}

/* ---- steps ---- */

/* Look at this rank's memory, at most once a second: it costs some microseconds, and grows in the first steps only. */
static void look_at_memory(run *r)
{
    const double now_seconds = gal_now_seconds();
    if (r->memory_seconds == 0.0 || now_seconds - r->memory_seconds >= memory_interval_seconds) {
        r->memory_bytes = fmax(r->memory_bytes, (double)gal_session_memory_bytes(r->session));
        r->memory_seconds = now_seconds;
    }
}

/* Ends what all ranks did together: an error of any of them is an error of all, a wish to stop too. The memory that the
 * fullest rank takes becomes known to all. */
static gal_code settle(run *r, gal_code mine, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error unheard = {0};
    double values[3] = {(double)mine, r->options->stop != NULL && *r->options->stop != 0 ? 1.0 : 0.0, r->memory_bytes};
    gal_world world = r->world;
    if (mine != GAL_OK && world.comm != NULL) {
        world.comm->ops->blame(world.comm, err);
        world.deadline_seconds = fmin(world.deadline_seconds, failed_deadline_seconds);
    }
    code = gal_world_maximum(&world, values, 3, &unheard);
    if (code != GAL_OK) { /* without a roll call */
        const gal_error *cause = mine != GAL_OK && err != NULL ? err : &unheard;
        gal_log_line(r->options->log, GAL_LOG_ERROR, "%s", cause->text);
        r->world.comm->ops->abort(r->world.comm, mine != GAL_OK ? mine : code);
    }
    if (values[0] > 0.0) {
        return gal_world_agree(&r->world, mine, err);
    }
    r->stopping = values[1] > 0.0;
    r->memory_bytes = values[2];
    return GAL_OK;
}

/* The lowest block of all ranks whose forward output is not finite, else the highest whose gradient is not. */
static gal_code not_finite(run *r, const gal_step_settings *settings, const gal_step_result *result, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_fault fault = {0};
    char where[WHERE_BYTES] = "the loss itself";
    GAL_TRY(gal_engine_find_fault(r->session->engine, settings, &fault, err));
    const double block_count = (double)gal_model_block_count(&r->plan->model);
    double worst = !fault.found ? 0.0 : 1.0 + (double)fault.block;
    if (fault.found && fault.forward) {
        worst = 2.0 * block_count - (double)fault.block;
    }
    GAL_TRY(gal_world_maximum(&r->world, &worst, 1, err));
    if (worst > 0.0) {
        const bool forward = worst > block_count;
        const uint32_t block = (uint32_t)(forward ? 2.0 * block_count - worst : worst - 1.0);
        snprintf(where, sizeof where, "block %u (%s), %s", block,
                 gal_block_kind_names[gal_model_block_kind(&r->plan->model, block)], forward ? "forward" : "backward");
    }
    code = gal_fail(err, GAL_ERR_DEVICE,
                    "step %llu: the loss is %g and the gradient norm %g: training has diverged, first in the output of "
                    "%s; --on-nan skip goes on",
                    (unsigned long long)r->position.step + 1, result->loss, result->gradient_norm, where);
cleanup:
    return code;
}

static void note_step(run *r, const gal_train_progress_step *done)
{
    r->summary.loss = done->loss;
    if (isnan(r->summary.first_loss)) {
        r->summary.first_loss = done->loss;
    }
    if (gal_world_rank(&r->world) == 0) {
        gal_train_progress_put_step(&r->progress, done);
    }
}

static void note_skip(run *r)
{
    r->summary.skipped_steps++;
    if (gal_world_rank(&r->world) == 0) {
        gal_train_progress_put_skip(&r->progress, r->position.step, r->summary.skipped_steps);
    }
}

static gal_code train_step(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_step_result result = {0};
    const gal_step_settings settings = {
        .step = r->position.step,
        .seed = r->position.seed,
        .learning_rate = gal_learning_rate(&r->plan->model.optimizer, r->position.step),
    };
    const double begin_seconds = gal_now_seconds();
    gal_step_record_begin(&r->record);
    code = gal_engine_step(r->session->engine, &settings, &result, err);
    gal_step_record_end(&r->record);
    const bool finite = isfinite(result.loss) && isfinite(result.gradient_norm);
    if (code == GAL_OK && !finite && !r->options->skip_not_finite && !gal_engine_overflowed(r->session->engine)) {
        code = not_finite(r, &settings, &result, err);
    }
    look_at_memory(r);
    GAL_TRY(settle(r, code, err));
    const double seconds = gal_now_seconds() - begin_seconds;
    r->position.step++;
    if (r->timed_count > 0 && gal_step_record_is_whole(&r->record)) { /* the first touches every page */
        gal_exposure_add_step(&r->record, &r->exposure);
    }
    if (r->timed_count < TIMED_STEPS_MAX) {
        r->timed_seconds[r->timed_count++] = seconds;
    }
    const gal_train_progress_step done = {.step = r->position.step,
                                          .loss = result.loss,
                                          .gradient_norm = result.gradient_norm,
                                          .learning_rate = settings.learning_rate,
                                          .seconds = seconds,
                                          .memory_bytes = r->memory_bytes,
                                          .last = r->stopping || r->position.step == r->options->step_count};
    if (finite) {
        note_step(r, &done);
    } else {
        note_skip(r);
    }
cleanup:
    return code;
}

/* Of the shares that the ranks found in all batches: their mean over the batches, on rank 0. */
static gal_code gather_accuracy(run *r, double share, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_model *model = &r->plan->model;
    const bool first = gal_world_rank(&r->world) == 0;
    double *all = first ? calloc(gal_world_size(&r->world), sizeof *all) : NULL;
    code = !first || all != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: accuracy");
    GAL_TRY(gal_world_agree(&r->world, code, err));
    GAL_TRY(gal_world_gather(&r->world, &share, sizeof share, all, err));
    if (first && (model->family == GAL_FAMILY_BERT || gal_model_sees_images(model))) {
        r->summary.accuracy = 0.0;
        for (uint32_t i = 0; i < gal_world_size(&r->world); i++) {
            r->summary.accuracy += all[i] / (double)r->evaluate_batches;
        }
    }
cleanup:
    free(all);
    return code;
}

static gal_code evaluate(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    double sum = 0.0, right = 0.0;
    for (uint64_t b = 0; b < r->evaluate_batches; b++) {
        double loss = 0.0, share = 0.0;
        code = gal_engine_evaluate(r->session->engine, b, &loss, &share, err);
        GAL_TRY(settle(r, code, err));
        sum += loss;
        right += share;
    }
    GAL_TRY(gather_accuracy(r, right, err));
    r->summary.validation_loss = sum / (double)r->evaluate_batches;
    r->summary.validation_batches = r->evaluate_batches;
    r->evaluated_step = r->position.step;
    if (gal_world_rank(&r->world) == 0) {
        gal_train_progress_put_evaluation(&r->progress, r->position.step, r->summary.validation_loss,
                                          r->summary.accuracy, r->evaluate_batches);
    }
cleanup:
    return code;
}

static gal_code save(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_checkpoint_state state = gal_session_state(r->session);
    if (r->options->save_directory == NULL || r->saved_step == r->position.step) {
        return GAL_OK;
    }
    r->position.loss_scaling = gal_engine_loss_scaling(r->session->engine);
    GAL_TRY(gal_checkpoint_save(&r->folder, &state, &r->position, r->options->keep, &r->world, err));
    r->saved_step = r->position.step;
    r->summary.saved = true;
    if (gal_world_rank(&r->world) == 0) {
        gal_train_progress_put_save(&r->progress, r->position.step);
    }
cleanup:
    return code;
}

static bool is_due(uint64_t step, uint64_t every)
{
    return every > 0 && step % every == 0;
}

static gal_code loop(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    while (r->position.step < r->options->step_count && !r->stopping) {
        GAL_TRY(train_step(r, err));
        if (!r->stopping && is_due(r->position.step, r->options->evaluate_every)) {
            GAL_TRY(evaluate(r, err));
        }
        if (is_due(r->position.step, r->options->save_every)) {
            GAL_TRY(save(r, err));
        }
    }
    GAL_TRY(save(r, err));
    if (r->options->export_path != NULL) {
        const gal_checkpoint_state state = gal_session_state(r->session);
        GAL_TRY(gal_safetensors_save(r->options->export_path, &state, &r->world, err));
    }
    if (!r->stopping && r->evaluated_step != r->position.step) {
        GAL_TRY(evaluate(r, err));
    }
    r->summary.interrupted = r->stopping;
cleanup:
    return code;
}

/* ---- end ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_seconds(run *r)
{
    const uint64_t skipped = r->timed_count > 1 ? 1 : 0; /* the first touches every page */
    const uint64_t count = r->timed_count - skipped;
    double *seconds = r->timed_seconds + skipped;
    if (count == 0) {
        return NAN;
    }
    qsort(seconds, count, sizeof *seconds, ascending);
    return count % 2 == 1 ? seconds[count / 2] : 0.5 * (seconds[count / 2 - 1] + seconds[count / 2]);
}

static gal_code finish(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_train_summary *s = &r->summary;
    s->step = r->position.step;
    s->work.seconds = median_seconds(r);
    s->memory_bytes = (uint64_t)r->memory_bytes;
    GAL_TRY(gal_summary_gather_bytes(r->session, s, err));
    GAL_TRY(gal_summary_gather_exposure(r->session, &r->exposure, s, err));
    GAL_TRY(gal_summary_gather_communicators(r->session, s, err));
    if (r->options->trace_path != NULL) {
        GAL_TRY(gal_trace_save(r->options->trace_path, r->plan, &r->record, &r->world, err));
    }
    if (gal_world_rank(&r->world) == 0) {
        s->unigram_entropy = gal_data_unigram_entropy(r->data);
        const gal_run_final final = {.step = s->step,
                                     .seconds_per_step = s->work.seconds,
                                     .predicted_seconds_per_step = r->plan->simulated_seconds,
                                     .validation_loss = s->validation_loss,
                                     .accuracy = s->accuracy,
                                     .unigram_entropy = s->unigram_entropy,
                                     .exposure = &s->exposure,
                                     .communicator_count = s->communicator_count,
                                     .communicator_seconds = s->communicator_seconds,
                                     .interrupted = s->interrupted};
        gal_train_progress_put_final(&r->progress, &final);
        code = gal_train_progress_close(&r->progress, err);
    }
    GAL_TRY(gal_world_agree(&r->world, code, err));
cleanup:
    return code;
}

gal_code gal_train(const gal_plan *plan, const gal_world *world, const gal_train_options *options,
                   gal_train_summary *out, gal_error *err)
{
    gal_code code = GAL_OK;
    run r = {.plan = plan, .options = options, .world = *world, .saved_step = UINT64_MAX, .evaluated_step = UINT64_MAX};
    r.summary.first_loss = r.summary.loss = r.summary.validation_loss = r.summary.unigram_entropy = NAN;
    r.summary.accuracy = NAN;
    r.summary.work = gal_plan_step(plan, options->tf32);
    GAL_TRY(start(&r, err));
    r.summary.first_step = r.position.step;
    GAL_TRY(loop(&r, err));
    GAL_TRY(finish(&r, err));
    *out = r.summary;
    r.summary.stage = NULL;
cleanup:
    (void)gal_train_progress_close(&r.progress, NULL);
    gal_save_folder_close(&r.folder);
    gal_train_summary_free(&r.summary);
    gal_step_record_free(&r.record);
    gal_session_free(r.session);
    gal_data_close(r.data);
    free(r.timed_seconds);
    return code;
}
