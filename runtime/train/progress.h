/* What a run says while it trains: one line that is rewritten on a terminal; elsewhere a line for the first step, the
 * last, and every so often between; and the files of run_log.h. Rank 0 alone has one. */
#ifndef GAL_RUNTIME_TRAIN_PROGRESS_H
#define GAL_RUNTIME_TRAIN_PROGRESS_H

#include "runtime/train/pace.h"
#include "runtime/train/run_log.h"
#include "schemas/base/log.h"
#include "schemas/figures.h"

typedef struct gal_train_progress {
    const gal_log *log; /* NULL: prints nothing */
    bool rewrites;      /* the line of a terminal; else lines at the pace */
    gal_pace pace;
    uint64_t step_count; /* where the run ends */
    gal_step work;       /* what its rates go by; the seconds are set for each line */
    gal_run_log files;
    double shown_seconds;   /* when the last line was printed; 0: none */
    double average_seconds; /* of a step, recent ones weigh more: what a terminal shows */
    double since_seconds;   /* of the steps since the last line */
    uint64_t since_steps;
    bool on_line; /* the cursor is on the rewritten line */
} gal_train_progress;

typedef struct gal_train_progress_step {
    uint64_t step; /* number done, this one included */
    double loss, gradient_norm, learning_rate, seconds;
    double memory_bytes; /* the most that a rank has taken so far; 0: not known */
    bool last;           /* of the run */
} gal_train_progress_step;

void gal_train_progress_put_step(gal_train_progress *progress, const gal_train_progress_step *step);
/* A step that was left out, the skipped-th of this run. */
void gal_train_progress_put_skip(gal_train_progress *progress, uint64_t step, uint64_t skipped);
/* accuracy NAN: none. */
void gal_train_progress_put_evaluation(gal_train_progress *progress, uint64_t step, double validation_loss,
                                       double accuracy, uint64_t batches);
void gal_train_progress_put_save(gal_train_progress *progress, uint64_t step);
void gal_train_progress_put_final(gal_train_progress *progress, const gal_run_final *final);
/* Leaves the rewritten line, closes the files. GAL_ERR_SYSTEM if something could not be written. */
gal_code gal_train_progress_close(gal_train_progress *progress, gal_error *err);

#endif
