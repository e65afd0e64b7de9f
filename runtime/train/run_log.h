/* The files in which a run writes down its figures: JSON lines or CSV, and TensorBoard events. Rank 0 alone has them.
 *
 * JSON lines, one object each: "event", "step" (number done) and, as far as they are known, the figures of the event:
 *   "step"        loss (before the update), gradient_norm, learning_rate, seconds, tokens_per_second,
 *                 tokens_per_second_per_device, model_flops_per_second_per_device, mfu, memory_bytes
 *   "evaluation"  validation_loss, batches; of masked tokens and labels also accuracy
 *   "save"        none
 *   "skip"        skipped (steps left out so far in this run, their loss or gradient was not finite)
 *   "final"       seconds_per_step (median without the first), predicted_seconds_per_step, validation_loss, accuracy
 * (as above), unigram_entropy (null: not known), where the seconds of a rank's step went (exposure.h: compute_seconds,
 * waiting_seconds, serving_seconds, and per stream that was in flight in_flight_seconds, exposed_seconds,
 * exposed_share), communicators, communicator_seconds, interrupted CSV has a row for each event but "final", the keys
 * as columns, and nothing where the event has no such figure. TensorBoard has the figures of steps and evaluations as
 * scalars, by the tags of GAL_RUN_FIGURES.
 *
 * A run that is resumed appends to its file. If it was ended behind its newest checkpoint, steps are in the file twice:
 * the later lines count. TensorBoard drops the older ones itself. */
#ifndef GAL_RUNTIME_TRAIN_RUN_LOG_H
#define GAL_RUNTIME_TRAIN_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/train/events_file.h"
#include "runtime/train/exposure.h"
#include "schemas/base/status.h"

/* X(enumerator, key, tag of TensorBoard or NULL, digits) */
#define GAL_RUN_FIGURES(X)                                                                                             \
    X(GAL_RUN_LOSS, "loss", "train/loss", 17)                                                                          \
    X(GAL_RUN_GRADIENT_NORM, "gradient_norm", "train/gradient_norm", 17)                                               \
    X(GAL_RUN_LEARNING_RATE, "learning_rate", "train/learning_rate", 17)                                               \
    X(GAL_RUN_SECONDS, "seconds", "train/seconds_per_step", 9)                                                         \
    X(GAL_RUN_TOKENS_PER_SECOND, "tokens_per_second", "train/tokens_per_second", 9)                                    \
    X(GAL_RUN_TOKENS_PER_SECOND_PER_DEVICE, "tokens_per_second_per_device", "train/tokens_per_second_per_device", 9)   \
    X(GAL_RUN_MODEL_FLOPS_PER_SECOND_PER_DEVICE, "model_flops_per_second_per_device",                                  \
      "train/model_flops_per_second_per_device", 9)                                                                    \
    X(GAL_RUN_MFU, "mfu", "train/mfu", 9)                                                                              \
    X(GAL_RUN_MEMORY_BYTES, "memory_bytes", "train/memory_bytes", 17)                                                  \
    X(GAL_RUN_VALIDATION_LOSS, "validation_loss", "validation/loss", 17)                                               \
    X(GAL_RUN_ACCURACY, "accuracy", "validation/accuracy", 9)                                                          \
    X(GAL_RUN_BATCHES, "batches", NULL, 17)                                                                            \
    X(GAL_RUN_SKIPPED, "skipped", NULL, 17)

typedef enum gal_run_figure {
#define X(enumerator, key, tag, digits) enumerator,
    GAL_RUN_FIGURES(X)
#undef X
        GAL_RUN_FIGURE_COUNT
} gal_run_figure;

typedef struct gal_run_event {
    const char *event; /* "step" */
    uint64_t step;
    double figure[GAL_RUN_FIGURE_COUNT]; /* NAN, or not finite: unknown, or none of this event's */
} gal_run_event;

/* An event without figures. */
gal_run_event gal_run_event_of(const char *event, uint64_t step);

/* The end of a run. NAN: not known, written as null. */
typedef struct gal_run_final {
    uint64_t step;
    double seconds_per_step, predicted_seconds_per_step;
    double validation_loss, unigram_entropy; /* nats per token */
    double accuracy;                         /* share of targets that have the largest logit */
    const gal_exposure *exposure;            /* of a rank's step, mean */
    uint32_t communicator_count;
    double communicator_seconds;
    bool interrupted;
} gal_run_final;

typedef struct gal_run_log {
    FILE *file; /* NULL: none */
    const char *path;
    bool csv;
    gal_events_file events;
} gal_run_log;

/* path                JSON lines; CSV if its name ends in .csv; NULL: none
 * tensorboard_folder  events_file.h; NULL: none
 * resumed             the file is appended to; first_step is the step that the run does first
 * On failure the log is still to be closed. GAL_ERR_SYSTEM. */
gal_code gal_run_log_open(gal_run_log *log, const char *path, const char *tensorboard_folder, bool resumed,
                          uint64_t first_step, gal_error *err);
/* On disk when they return. Errors show at the close. */
void gal_run_log_put(gal_run_log *log, const gal_run_event *event);
void gal_run_log_put_final(gal_run_log *log, const gal_run_final *final);
/* GAL_ERR_SYSTEM if something could not be written. Accepts one that is not open. */
gal_code gal_run_log_close(gal_run_log *log, gal_error *err);

#endif
