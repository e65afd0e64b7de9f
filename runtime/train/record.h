/* When the instructions of the newest step ran on this rank. */
#ifndef GAL_RUNTIME_TRAIN_RECORD_H
#define GAL_RUNTIME_TRAIN_RECORD_H

#include "runtime/engine/engine.h"

typedef struct gal_span {
    double start_seconds, end_seconds; /* of gal_now_seconds; of a collective until it was found complete */
} gal_span;

/* What it has room for is allocated once: a step allocates nothing. */
typedef struct gal_step_record {
    const gal_program *program; /* borrowed, as is queues */
    const gal_queues *queues;   /* of a step */
    double begin_seconds;
    gal_span *span[GAL_STREAM_COUNT]; /* [queues->count[stream]]: entry by entry */
    uint32_t count[GAL_STREAM_COUNT]; /* entries that are complete */
    bool open;                        /* between begin and end */
} gal_step_record;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_step_record_create(const gal_program *program, const gal_queues *queues, gal_step_record *out,
                                gal_error *err);
void gal_step_record_free(gal_step_record *record); /* the arrays; accepts a zeroed one */

/* Forgets the step before and listens until gal_step_record_end. */
void gal_step_record_begin(gal_step_record *record);
void gal_step_record_end(gal_step_record *record);
/* gal_trace.done of a gal_step_record. What completes outside a recorded step is not noted. */
void gal_step_record_note(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds,
                          double end_seconds);
bool gal_step_record_is_whole(const gal_step_record *record);

#endif
