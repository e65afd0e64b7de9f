/* What a run says while it trains: one line that is rewritten on a terminal, plain lines elsewhere for those who ask
 * (-v), and a file of JSON lines for machines. Rank 0 alone has one.
 *
 * JSON lines, one object each; "event" is
 *   "step"        step (number done), loss (before the update), gradient_norm, learning_rate, seconds,
 *                 tokens_per_second
 *   "evaluation"  step, validation_loss, batches; of masked tokens and labels also accuracy
 *   "save"        step
 *   "skip"        step (left out: loss or gradient not finite), skipped (so far in this run)
 *   "final"       step, seconds_per_step (median without the first), predicted_seconds_per_step,
 *                 validation_loss, accuracy (as above), unigram_entropy (null: not known), where the seconds of a
 * rank's step went (exposure.h: compute_seconds, waiting_seconds, serving_seconds, and per stream that was in flight
 *                 in_flight_seconds, exposed_seconds, exposed_share), communicators, communicator_seconds,
 *                 interrupted */
#ifndef GAL_RUNTIME_TRAIN_PROGRESS_H
#define GAL_RUNTIME_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/train/exposure.h"
#include "schemas/base/log.h"
#include "schemas/base/status.h"

typedef struct gal_train_progress {
    const gal_log *log; /* NULL: says nothing */
    bool terminal;
    uint64_t step_count; /* where the run ends */
    double tokens_per_step;
    FILE *lines; /* NULL: no --log */
    const char *lines_path;
    double shown_seconds;   /* when the last line was printed; 0: none */
    double average_seconds; /* of a step, recent ones weigh more */
    bool on_line;           /* the cursor is on the rewritten line */
} gal_train_progress;

typedef struct gal_train_progress_step {
    uint64_t step; /* number done, this one included */
    double loss, gradient_norm, learning_rate, seconds;
} gal_train_progress_step;

/* Opens the file of JSON lines (path NULL: none), to append when a run is resumed. GAL_ERR_SYSTEM. */
gal_code gal_train_progress_open(gal_train_progress *progress, const char *path, bool append, gal_error *err);
void gal_train_progress_put_step(gal_train_progress *progress, const gal_train_progress_step *step);
/* A step that was left out, the skipped-th of this run. */
void gal_train_progress_put_skip(gal_train_progress *progress, uint64_t step, uint64_t skipped);
void gal_train_progress_put_evaluation(gal_train_progress *progress, uint64_t step, double validation_loss,
                                       double accuracy, uint64_t batches);
void gal_train_progress_put_save(gal_train_progress *progress, uint64_t step);
/* NAN: not known, written as null. */
typedef struct gal_train_final {
    uint64_t step;
    double seconds_per_step, predicted_seconds_per_step;
    double validation_loss, unigram_entropy; /* nats per token */
    double accuracy;                         /* share of targets that have the largest logit */
    const gal_exposure *exposure;            /* of a rank's step, mean */
    uint32_t communicator_count;
    double communicator_seconds;
    bool interrupted;
} gal_train_final;
void gal_train_progress_put_final(gal_train_progress *progress, const gal_train_final *final);
/* Leaves the rewritten line, closes the file. GAL_ERR_SYSTEM if something could not be written. */
gal_code gal_train_progress_close(gal_train_progress *progress, gal_error *err);

#endif
