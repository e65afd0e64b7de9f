#include "runtime/train/run_log.h"

#include <errno.h>
#include <math.h>
#include <string.h>

typedef struct figure_name {
    const char *key, *tag;
    int digits;
} figure_name;

#define X(enumerator, key, tag, digits) [enumerator] = {key, tag, digits},
static const figure_name figure_names[GAL_RUN_FIGURE_COUNT] = {GAL_RUN_FIGURES(X)};
#undef X

gal_run_event gal_run_event_of(const char *event, uint64_t step)
{
    gal_run_event empty = {.event = event, .step = step};
    for (uint32_t f = 0; f < GAL_RUN_FIGURE_COUNT; f++) {
        empty.figure[f] = NAN;
    }
    return empty;
}

/* ---- start and end ---- */

static bool is_csv(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending != NULL && strcmp(ending, ".csv") == 0;
}

static void put_csv_head(FILE *file)
{
    fputs("event,step", file);
    for (uint32_t f = 0; f < GAL_RUN_FIGURE_COUNT; f++) {
        fprintf(file, ",%s", figure_names[f].key);
    }
    fputc('\n', file);
    (void)fflush(file);
}

gal_code gal_run_log_open(gal_run_log *log, const char *path, const char *tensorboard_folder, bool resumed,
                          uint64_t first_step, gal_error *err)
{
    *log = (gal_run_log){.path = path};
    if (path != NULL) {
        log->csv = is_csv(path);
        log->file = fopen(path, resumed ? "ae" : "we");
        if (log->file == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
        }
        if (log->csv && fseek(log->file, 0, SEEK_END) == 0 && ftell(log->file) == 0) {
            put_csv_head(log->file);
        }
    }
    return tensorboard_folder != NULL ? gal_events_open(&log->events, tensorboard_folder, first_step, NULL, err)
                                      : GAL_OK;
}

gal_code gal_run_log_close(gal_run_log *log, gal_error *err)
{
    gal_code code = GAL_OK;
    if (log->file != NULL) {
        const int failed = ferror(log->file);
        const int not_closed = fclose(log->file);
        log->file = NULL;
        if (failed != 0 || not_closed != 0) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "%s: could not be written whole", log->path);
        }
    }
    const gal_code events_code = gal_events_close(&log->events, code == GAL_OK ? err : NULL);
    return code != GAL_OK ? code : events_code;
}

/* ---- events ---- */

static void put_json(FILE *file, const gal_run_event *event)
{
    fprintf(file, "{\"event\": \"%s\", \"step\": %llu", event->event, (unsigned long long)event->step);
    for (uint32_t f = 0; f < GAL_RUN_FIGURE_COUNT; f++) {
        if (isfinite(event->figure[f])) {
            fprintf(file, ", \"%s\": %.*g", figure_names[f].key, figure_names[f].digits, event->figure[f]);
        }
    }
    fputs("}\n", file);
}

static void put_csv(FILE *file, const gal_run_event *event)
{
    fprintf(file, "%s,%llu", event->event, (unsigned long long)event->step);
    for (uint32_t f = 0; f < GAL_RUN_FIGURE_COUNT; f++) {
        fputc(',', file);
        if (isfinite(event->figure[f])) {
            fprintf(file, "%.*g", figure_names[f].digits, event->figure[f]);
        }
    }
    fputc('\n', file);
}

static void put_scalars(gal_events_file *events, const gal_run_event *event)
{
    gal_events_scalar scalar[GAL_RUN_FIGURE_COUNT];
    uint32_t count = 0;
    for (uint32_t f = 0; f < GAL_RUN_FIGURE_COUNT; f++) {
        if (figure_names[f].tag != NULL && isfinite(event->figure[f])) {
            scalar[count++] = (gal_events_scalar){figure_names[f].tag, event->figure[f]};
        }
    }
    if (count > 0) {
        gal_events_put(events, event->step, scalar, count);
    }
}

void gal_run_log_put(gal_run_log *log, const gal_run_event *event)
{
    if (log->file != NULL) {
        (log->csv ? put_csv : put_json)(log->file, event);
        (void)fflush(log->file);
    }
    if (log->events.file != NULL) {
        put_scalars(&log->events, event);
    }
}

/* ---- the end of a run ---- */

static void put_number(FILE *file, const char *key, double value)
{
    if (isfinite(value)) {
        fprintf(file, "\"%s\": %.9g, ", key, value);
    } else {
        fprintf(file, "\"%s\": null, ", key);
    }
}

static void put_exposure(FILE *file, const gal_exposure *exposure)
{
    const char *separator = "";
    put_number(file, "compute_seconds", exposure->compute_seconds);
    put_number(file, "waiting_seconds", exposure->waiting_seconds);
    put_number(file, "serving_seconds", exposure->serving_seconds);
    fputs("\"streams\": {", file);
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (exposure->in_flight_seconds[s] > 0.0) {
            fprintf(file, "%s\"%s\": {", separator, gal_stream_names[s]);
            put_number(file, "in_flight_seconds", exposure->in_flight_seconds[s]);
            put_number(file, "exposed_seconds", exposure->exposed_seconds[s]);
            fprintf(file, "\"exposed_share\": %.4f}", gal_exposure_share(exposure, (gal_stream)s));
            separator = ", ";
        }
    }
    fputs("}, ", file);
}

void gal_run_log_put_final(gal_run_log *log, const gal_run_final *final)
{
    if (log->file == NULL || log->csv) {
        return;
    }
    fprintf(log->file, "{\"event\": \"final\", \"step\": %llu, ", (unsigned long long) final->step);
    put_number(log->file, "seconds_per_step", final->seconds_per_step);
    put_number(log->file, "predicted_seconds_per_step", final->predicted_seconds_per_step);
    put_number(log->file, "validation_loss", final->validation_loss);
    if (!isnan(final->accuracy)) {
        put_number(log->file, "accuracy", final->accuracy);
    }
    put_number(log->file, "unigram_entropy", final->unigram_entropy);
    put_exposure(log->file, final->exposure);
    fprintf(log->file, "\"communicators\": %u, ", final->communicator_count);
    put_number(log->file, "communicator_seconds", final->communicator_seconds);
    fprintf(log->file, "\"interrupted\": %s}\n", final->interrupted ? "true" : "false");
}
