#include "runtime/train/progress.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "schemas/base/clock.h"

static const double terminal_interval_seconds = 0.1, plain_interval_seconds = 10.0;

gal_code gal_train_progress_open(gal_train_progress *progress, const char *path, bool append, gal_error *err)
{
    if (path == NULL) {
        return GAL_OK;
    }
    progress->lines_path = path;
    progress->lines = fopen(path, append ? "ae" : "we");
    return progress->lines != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
}

static void leave_line(gal_train_progress *progress)
{
    if (progress->on_line) {
        fputc('\n', stderr);
        progress->on_line = false;
    }
}

static void show_step(gal_train_progress *progress, const gal_train_progress_step *step)
{
    const double now_seconds = gal_now_seconds();
    const bool last = step->step == progress->step_count;
    const double rate = progress->average_seconds > 0.0 ? progress->tokens_per_step / progress->average_seconds : 0.0;
    const double left_seconds = (double)(progress->step_count - step->step) * progress->average_seconds;
    const double interval_seconds = progress->terminal ? terminal_interval_seconds : plain_interval_seconds;
    if (progress->log == NULL || (!last && now_seconds - progress->shown_seconds < interval_seconds)) {
        return;
    }
    progress->shown_seconds = now_seconds;
    const unsigned long long left = (unsigned long long)(left_seconds + 0.5);
    if (!progress->terminal) {
        gal_log_line(progress->log, GAL_LOG_DETAIL, "step %llu/%llu  loss %.4f  %.0f tokens/s  %llu:%02llu left",
                     (unsigned long long)step->step, (unsigned long long)progress->step_count, step->loss, rate,
                     left / 60, left % 60);
    } else if (progress->log->level >= GAL_LOG_INFO) {
        fprintf(stderr, "\r\033[Kstep %llu/%llu  loss %.4f  %.0f tokens/s  %llu:%02llu left",
                (unsigned long long)step->step, (unsigned long long)progress->step_count, step->loss, rate, left / 60,
                left % 60);
        fflush(stderr);
        progress->on_line = true;
    }
}

void gal_train_progress_put_step(gal_train_progress *progress, const gal_train_progress_step *step)
{
    const double weight = progress->average_seconds > 0.0 ? 0.1 : 1.0;
    progress->average_seconds += weight * (step->seconds - progress->average_seconds);
    if (progress->lines != NULL) {
        fprintf(progress->lines,
                "{\"event\": \"step\", \"step\": %llu, \"loss\": %.17g, \"gradient_norm\": %.17g, "
                "\"learning_rate\": %.17g, \"seconds\": %.9g, \"tokens_per_second\": %.9g}\n",
                (unsigned long long)step->step, step->loss, step->gradient_norm, step->learning_rate, step->seconds,
                step->seconds > 0.0 ? progress->tokens_per_step / step->seconds : 0.0);
        fflush(progress->lines);
    }
    show_step(progress, step);
}

void gal_train_progress_put_skip(gal_train_progress *progress, uint64_t step, uint64_t skipped)
{
    if (progress->lines != NULL) {
        fprintf(progress->lines, "{\"event\": \"skip\", \"step\": %llu, \"skipped\": %llu}\n", (unsigned long long)step,
                (unsigned long long)skipped);
        fflush(progress->lines);
    }
    leave_line(progress);
    gal_log_line(progress->log, GAL_LOG_WARN, "step %llu is skipped: its loss or gradient is not finite (%llu so far)",
                 (unsigned long long)step, (unsigned long long)skipped);
}

void gal_train_progress_put_evaluation(gal_train_progress *progress, uint64_t step, double validation_loss,
                                       double accuracy, uint64_t batches)
{
    if (progress->lines != NULL) {
        fprintf(progress->lines, "{\"event\": \"evaluation\", \"step\": %llu, \"validation_loss\": %.17g, ",
                (unsigned long long)step, validation_loss);
        if (!isnan(accuracy)) {
            fprintf(progress->lines, "\"accuracy\": %.9g, ", accuracy);
        }
        fprintf(progress->lines, "\"batches\": %llu}\n", (unsigned long long)batches);
        fflush(progress->lines);
    }
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
    if (progress->lines != NULL) {
        fprintf(progress->lines, "{\"event\": \"save\", \"step\": %llu}\n", (unsigned long long)step);
        fflush(progress->lines);
    }
    leave_line(progress);
    gal_log_line(progress->log, GAL_LOG_DETAIL, "step %llu: checkpoint saved", (unsigned long long)step);
}

static void put_number(FILE *lines, const char *key, double value)
{
    if (isfinite(value)) {
        fprintf(lines, "\"%s\": %.9g, ", key, value);
    } else {
        fprintf(lines, "\"%s\": null, ", key);
    }
}

static void put_exposure(FILE *lines, const gal_exposure *exposure)
{
    const char *separator = "";
    put_number(lines, "compute_seconds", exposure->compute_seconds);
    put_number(lines, "waiting_seconds", exposure->waiting_seconds);
    put_number(lines, "serving_seconds", exposure->serving_seconds);
    fputs("\"streams\": {", lines);
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (exposure->in_flight_seconds[s] > 0.0) {
            fprintf(lines, "%s\"%s\": {", separator, gal_stream_names[s]);
            put_number(lines, "in_flight_seconds", exposure->in_flight_seconds[s]);
            put_number(lines, "exposed_seconds", exposure->exposed_seconds[s]);
            fprintf(lines, "\"exposed_share\": %.4f}", gal_exposure_share(exposure, (gal_stream)s));
            separator = ", ";
        }
    }
    fputs("}, ", lines);
}

void gal_train_progress_put_final(gal_train_progress *progress, const gal_train_final *final)
{
    leave_line(progress);
    if (progress->lines != NULL) {
        fprintf(progress->lines, "{\"event\": \"final\", \"step\": %llu, ", (unsigned long long) final->step);
        put_number(progress->lines, "seconds_per_step", final->seconds_per_step);
        put_number(progress->lines, "predicted_seconds_per_step", final->predicted_seconds_per_step);
        put_number(progress->lines, "validation_loss", final->validation_loss);
        if (!isnan(final->accuracy)) {
            put_number(progress->lines, "accuracy", final->accuracy);
        }
        put_number(progress->lines, "unigram_entropy", final->unigram_entropy);
        put_exposure(progress->lines, final->exposure);
        fprintf(progress->lines, "\"communicators\": %u, ", final->communicator_count);
        put_number(progress->lines, "communicator_seconds", final->communicator_seconds);
        fprintf(progress->lines, "\"interrupted\": %s}\n", final->interrupted ? "true" : "false");
    }
}

gal_code gal_train_progress_close(gal_train_progress *progress, gal_error *err)
{
    leave_line(progress);
    if (progress->lines == NULL) {
        return GAL_OK;
    }
    const int failed = ferror(progress->lines);
    const int not_closed = fclose(progress->lines);
    progress->lines = NULL;
    if (failed != 0 || not_closed != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: could not be written whole", progress->lines_path);
    }
    return GAL_OK;
}
