/* Training by a plan: the loop over steps, evaluations and checkpoints. */
#ifndef GAL_RUNTIME_TRAIN_TRAIN_H
#define GAL_RUNTIME_TRAIN_TRAIN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/backend.h"
#include "runtime/engine/engine.h"
#include "runtime/train/pace.h"
#include "runtime/train/session.h"
#include "runtime/train/summary.h"
#include "runtime/train/world.h"
#include "schemas/base/log.h"
#include "schemas/plan.h"

typedef struct gal_train_options {
    const char *data_path;
    const char *validation_path; /* NULL: the last tenth of the data */
    const char *labels_path;     /* of images; NULL for tokens */
    const char *validation_labels_path;
    uint64_t step_count;          /* the run ends when so many steps are done, those before a resume included */
    uint64_t evaluate_every;      /* steps; 0: at the end only */
    uint64_t evaluate_batches;    /* 0: the validation split once, at most 20 batches */
    uint64_t seed;                /* of initial weights, order of the data, dropout */
    bool seed_given;              /* then a resumed run must have had the same */
    const char *save_directory;   /* NULL: no checkpoints */
    uint64_t save_every;          /* steps; 0: at the end only */
    uint32_t keep;                /* checkpoints; 0: all */
    bool skip_not_finite;         /* a step whose loss or gradient is not finite is left out, and counted */
    bool overwrite;               /* save_directory may hold checkpoints of earlier runs, which stay or are replaced */
    const char *resume_path;      /* NULL: start anew */
    bool resume_if_any;           /* a resume_path without a checkpoint: start anew, and say so */
    const char *weights_path;     /* initial weights (safetensors.h); NULL: drawn; not with resume_path */
    const char *export_path;      /* the weights at the end (safetensors.h); NULL: none */
    const char *log_path;         /* JSON lines or CSV (run_log.h); NULL: none */
    const char *tensorboard_path; /* folder of event files (run_log.h); NULL: none */
    const char *trace_path;       /* the last step as a Chrome trace (trace_file.h); NULL: none */
    gal_queue_order order;        /* of the step's instructions */
    gal_session_limits limits;
    const char *storage_directory; /* gal_engine_options; NULL: none */
    gal_storage_way storage_way;
    double slow_bytes_per_second;     /* gal_connection.slow_bytes_per_second */
    const gal_backend *backend;       /* NULL: the host */
    bool deterministic, tf32, graphs; /* of a device: gal_session_options */
    void (*tell)(const char *text);   /* as gal_connection.tell */
    double deadline_seconds;          /* without progress, then the run fails */
    bool rewrites;                    /* rank 0 rewrites one line, as on a terminal; else it prints lines at the pace */
    gal_pace pace;
    const gal_log *log;                /* of this rank */
    const volatile sig_atomic_t *stop; /* not 0: end after this step, saving; may be set on any rank */
} gal_train_options;

/* Trains. Collective over the world; all ranks return the same code and text. A rank that fails alone within a step
 * cannot tell the others, who wait for it: it is named by a roll call, which ends all ranks with its code (without one
 * it writes its error to the log and ends them itself). GAL_ERR_DEVICE: a loss or a gradient norm that is not finite
 * (unless skip_not_finite; the message names the block), or no progress within the deadline. GAL_ERR_USAGE: a resumed
 * run had another seed. Else as data.h and checkpoint.h say. The summary is released by gal_train_summary_free. */
gal_code gal_train(const gal_plan *plan, const gal_world *world, const gal_train_options *options,
                   gal_train_summary *out, gal_error *err);

/* The learning rate of a 0-based step: learning_rate * (step + 1) / warmup_steps while warming up, then
 * minimum + (learning_rate - minimum) (1 + cos(pi t / decay_steps)) / 2 with t steps since, then the minimum. */
double gal_learning_rate(const gal_optimizer *optimizer, uint64_t step);

#endif
