#include "runtime/train/progress.h"

#include <math.h>

#include "runtime/train/step_line.h"
#include "schemas/base/clock.h"

enum { LINE_BYTES = 512 };

static const double terminal_interval_seconds = 0.1;

static void leave_line(gal_train_progress *progress)
{
    if (progress->on_line) {
        fputc('\n', stderr);
        progress->on_line = false;
    }
}

/* ---- steps ---- */

/* The figures of a step, at a rate of so many seconds per step. */
static gal_run_event event_of_step(const gal_train_progress *progress, const gal_train_progress_step *step,
                                   double seconds)
{
    gal_run_event event = gal_run_event_of("step", step->step);
    gal_step work = progress->work;
    gal_figures figures;
    double *figure = event.figure;
    work.seconds = seconds;
    gal_figures_of(&work, &figures);
    figure[GAL_RUN_LOSS] = step->loss;
    figure[GAL_RUN_GRADIENT_NORM] = step->gradient_norm;
    figure[GAL_RUN_LEARNING_RATE] = step->learning_rate;
    figure[GAL_RUN_SECONDS] = seconds;
    figure[GAL_RUN_TOKENS_PER_SECOND] = figures.tokens_per_second;
    figure[GAL_RUN_TOKENS_PER_SECOND_PER_DEVICE] = figures.tokens_per_second_per_device;
    figure[GAL_RUN_MODEL_FLOPS_PER_SECOND_PER_DEVICE] = figures.model_flops_per_second_per_device;
    figure[GAL_RUN_MFU] = figures.mfu;
    figure[GAL_RUN_MEMORY_BYTES] = step->memory_bytes > 0.0 ? step->memory_bytes : NAN;
    return event;
}

static double seconds_left(const gal_train_progress *progress, uint64_t step, double seconds_per_step)
{
    return (double)(progress->step_count - step) * seconds_per_step;
}

static void rewrite_line(gal_train_progress *progress, const gal_train_progress_step *step)
{
    char left[GAL_DURATION_BYTES];
    const double now_seconds = gal_now_seconds();
    if (progress->log->level < GAL_LOG_INFO ||
        (!step->last && now_seconds - progress->shown_seconds < terminal_interval_seconds)) {
        return;
    }
    const gal_run_event event = event_of_step(progress, step, progress->average_seconds);
    progress->shown_seconds = now_seconds;
    fprintf(stderr, "\r\033[Kstep %llu/%llu  loss %.4f  %.0f %s/s  %s left", (unsigned long long)step->step,
            (unsigned long long)progress->step_count, step->loss, event.figure[GAL_RUN_TOKENS_PER_SECOND],
            gal_model_token_noun(progress->work.model),
            gal_duration_text(seconds_left(progress, step->step, progress->average_seconds), left));
    fflush(stderr);
    progress->on_line = true;
}

/* The rates are those of all steps since the line before. */
static void print_line(gal_train_progress *progress, const gal_train_progress_step *step)
{
    char line[LINE_BYTES];
    const double now_seconds = gal_now_seconds();
    const bool first = progress->shown_seconds == 0.0;
    progress->since_seconds += step->seconds;
    progress->since_steps++;
    if (!first && !step->last && !gal_pace_is_due(&progress->pace, step->step, now_seconds - progress->shown_seconds)) {
        return;
    }
    const double seconds_per_step = progress->since_seconds / (double)progress->since_steps;
    const gal_run_event event = event_of_step(progress, step, seconds_per_step);
    gal_step_line(line, sizeof line, &event, &progress->work, progress->step_count,
                  seconds_left(progress, step->step, seconds_per_step));
    gal_log_line(progress->log, GAL_LOG_INFO, "%s", line);
    progress->shown_seconds = now_seconds;
    progress->since_seconds = 0.0;
    progress->since_steps = 0;
}

void gal_train_progress_put_step(gal_train_progress *progress, const gal_train_progress_step *step)
{
    const double weight = progress->average_seconds > 0.0 ? 0.1 : 1.0;
    const gal_run_event event = event_of_step(progress, step, step->seconds);
    progress->average_seconds += weight * (step->seconds - progress->average_seconds);
    gal_run_log_put(&progress->files, &event);
    if (progress->log != NULL) {
        (progress->rewrites ? rewrite_line : print_line)(progress, step);
    }
}

void gal_train_progress_put_skip(gal_train_progress *progress, uint64_t step, uint64_t skipped)
{
    gal_run_event event = gal_run_event_of("skip", step);
    event.figure[GAL_RUN_SKIPPED] = (double)skipped;
    gal_run_log_put(&progress->files, &event);
    leave_line(progress);
    gal_log_line(progress->log, GAL_LOG_WARN, "step %llu is skipped: its loss or gradient is not finite (%llu so far)",
                 (unsigned long long)step, (unsigned long long)skipped);
}

/* ---- the rest ---- */

void gal_train_progress_put_evaluation(gal_train_progress *progress, uint64_t step, double validation_loss,
                                       double accuracy, uint64_t batches)
{
    gal_run_event event = gal_run_event_of("evaluation", step);
    event.figure[GAL_RUN_VALIDATION_LOSS] = validation_loss;
    event.figure[GAL_RUN_ACCURACY] = accuracy;
    event.figure[GAL_RUN_BATCHES] = (double)batches;
    gal_run_log_put(&progress->files, &event);
    leave_line(progress);
    if (isnan(accuracy)) {
        gal_log_line(progress->log, GAL_LOG_INFO, "step %llu: validation loss %.4f", (unsigned long long)step,
                     validation_loss);
    } else {
        gal_log_line(progress->log, GAL_LOG_INFO, "step %llu: validation loss %.4f, accuracy %.2f %%",
                     (unsigned long long)step, validation_loss, 100.0 * accuracy);
    }
}

void gal_train_progress_put_save(gal_train_progress *progress, uint64_t step)
{
    const gal_run_event event = gal_run_event_of("save", step);
    gal_run_log_put(&progress->files, &event);
    leave_line(progress);
    gal_log_line(progress->log, GAL_LOG_DETAIL, "step %llu: checkpoint saved", (unsigned long long)step);
}

void gal_train_progress_put_final(gal_train_progress *progress, const gal_run_final *final)
{
    leave_line(progress);
    gal_run_log_put_final(&progress->files, final);
}

gal_code gal_train_progress_close(gal_train_progress *progress, gal_error *err)
{
    leave_line(progress);
    return gal_run_log_close(&progress->files, err);
}
