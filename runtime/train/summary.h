/* The result of a run, and how rank 0 gathers it from all ranks. */
#ifndef GAL_RUNTIME_TRAIN_SUMMARY_H
#define GAL_RUNTIME_TRAIN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/engine/engine.h"
#include "runtime/train/exposure.h"
#include "runtime/train/session.h"
#include "schemas/figures.h"

typedef struct gal_stage_bytes {
    uint64_t predicted_bytes; /* of the plan: arena and fixed; 0: not known */
    uint64_t arena_bytes;     /* allocated */
    uint64_t host_bytes;      /* of a rank, in the host's memory: allocated, as planned */
    uint64_t storage_bytes;   /* likewise in its file */
    uint64_t resident_bytes;  /* the most of a rank of the stage: its whole process at its peak; on a device all that
                               * is taken of its memory */
} gal_stage_bytes;

typedef struct gal_train_summary {
    uint64_t first_step, step; /* done when the run began, and when it ended */
    uint64_t skipped_steps;    /* of this run, not finite */
    bool interrupted, saved;
    double first_loss, loss; /* of the first and the last step of this run; NAN without a step */
    double validation_loss;  /* NAN: not evaluated */
    double accuracy;         /* share of the validated targets that have the largest logit, on rank 0; NAN: the model
                              * says what follows, or not evaluated */
    uint64_t validation_batches;
    double unigram_entropy;      /* of the data, nats */
    gal_step work;               /* of the plan; its seconds: the median without the first step; NAN without a step */
    uint64_t memory_bytes;       /* the most that a rank was seen to take of its memory; 0: not known */
    gal_exposure exposure;       /* mean of the ranks' steps without each one's first; on rank 0 */
    uint32_t communicator_count; /* the most that a rank made for its plan, once; 0 for one rank */
    double communicator_seconds; /* that took the slowest */
    gal_engine_bytes held;       /* of rank 0 */
    uint64_t device_bytes;       /* taken of its device's memory, by all; 0: the host */
    uint32_t stage_count;
    gal_stage_bytes *stage; /* [stage_count]; owned; on rank 0 */
} gal_train_summary;

void gal_train_summary_free(gal_train_summary *summary);

/* Gather what the ranks measured. Collective over the session's world; all ranks get the same code: GAL_ERR_SYSTEM
 * without memory, or as world.h says. */

/* held, device_bytes of this rank; stages on rank 0. */
gal_code gal_summary_gather_bytes(const gal_session *session, gal_train_summary *out, gal_error *err);
/* Exposure: the mean of the ranks' own, each a sum over its steps; on rank 0. */
gal_code gal_summary_gather_exposure(const gal_session *session, const gal_exposure *own, gal_train_summary *out,
                                     gal_error *err);
/* Communicators: the most, and the slowest. */
gal_code gal_summary_gather_communicators(const gal_session *session, gal_train_summary *out, gal_error *err);

#endif
