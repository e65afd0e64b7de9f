/* What the files of the queued engine share: engine_queued.c a step, engine_queued_create.c what is made once,
 * engine_graphs.c runs that are captured. */
#ifndef GAL_RUNTIME_ENGINE_QUEUED_H
#define GAL_RUNTIME_ENGINE_QUEUED_H

#include "runtime/engine_internal.h"
#include "runtime/engine_runs.h"
#include "runtime/engine_tape.h"

struct gal_queued {
    const gal_device_queue_ops *ops;
    void *context; /* of the operators */
    gal_tape train, evaluate;
    bool in_list_order; /* of the tapes: communication is queued too */

    void *queue[GAL_STREAM_COUNT]; /* NULL: the stream is not used */
    void **event, **mark;          /* as many as the larger tape needs */
    uint32_t event_count, mark_count;
    /* Of a training step. */
    gal_runs runs; /* none unless graphs are asked for */
    void **graph;  /* [run]; NULL before the second step */
    void **timed;  /* [2 issue]: events when it began and ended; NULL: no trace */
    void *origin;  /* an event of the trace: the step has begun */
    double origin_seconds;

    void *settled;       /* an event: one kernel is done, or the record of the step is there */
    char *staging;       /* pinned: the record of the step, then what the step loads */
    uint64_t step_bytes; /* of the record, aligned */
    /* In the device's memory, beside the arena. */
    gal_memory constant;     /* the record of the step, the sample maps, the workspace */
    uint64_t *sample_offset; /* [layout] of its map */
    uint64_t workspace_offset[GAL_STREAM_COUNT], workspace_bytes[GAL_STREAM_COUNT];

    /* Of the step that runs. */
    const gal_tape *tape;
    uint32_t issued[GAL_STREAM_COUNT];    /* entries */
    bool requested[GAL_STREAM_COUNT];     /* the entry after them is with comm */
    uint32_t next_mark[GAL_STREAM_COUNT]; /* not seen yet */
};

static inline bool gal_is_kernel(const gal_instruction *instruction)
{
    return !gal_op_is_collective[instruction->op] && !gal_op_loads((gal_op)instruction->op);
}

/* A call as the queued kernel gets it. */
gal_kernel_call gal_queued_call(const gal_engine *engine, uint32_t index, uint32_t microbatch);

/* Puts a load, a kernel, a copy or a collective on its queue. queued->requested: it is with a communicator that is not
 * queued. */
gal_code gal_queue_work(gal_engine *engine, const gal_issue *issue, gal_error *err);

/* After one step as it is: by then libraries have loaded and connected all that they load and connect at first use. */
gal_code gal_capture_runs(gal_engine *engine, gal_error *err);
/* On the compute queue; the tensor queue comes before and after it as a whole. */
gal_code gal_launch_run(gal_queued *queued, const gal_run *run, void *graph, gal_error *err);

#endif
