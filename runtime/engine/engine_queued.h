/* What the files of the queued engine share: engine_queued.c a step, engine_queued_create.c what is made once,
 * engine_graphs.c runs that are captured. */
#ifndef GAL_RUNTIME_ENGINE_ENGINE_QUEUED_H
#define GAL_RUNTIME_ENGINE_ENGINE_QUEUED_H

#include "runtime/engine/engine_internal.h"
#include "runtime/engine/engine_runs.h"
#include "runtime/engine/engine_tape.h"

typedef struct gal_host_call gal_host_call; /* engine_beside.c */

struct gal_queued {
    const gal_device_queue_ops *ops;
    void *context; /* of the operators */
    gal_tape train, evaluate;
    bool in_list_order; /* of the tapes: communication is queued too */

    void *queue[GAL_STREAM_COUNT]; /* NULL: the stream is not used */
    void **event, **mark;          /* as many as the larger tape needs */
    uint32_t event_count, mark_count;
    uint32_t *train_fusion, *evaluate_fusion; /* [issue] of the tapes: with what is next on its stream; 0: by itself */
    /* Of a training step. */
    gal_runs runs; /* none unless graphs are asked for */
    void **graph;  /* [run]; NULL before the second step */
    void **timed;  /* [2 issue]: events when it began and ended; NULL: no trace */
    void *origin;  /* an event of the trace: the step has begun */
    double origin_seconds;

    gal_host_call *host_call;               /* [issue] of a training step; NULL: no update is the host's */
    void *may_move[GAL_STORAGE_DIRECTIONS]; /* events: what a transfer waits for is done; NULL: there is no file */

    void *settled; /* an event: one kernel is done, or the record of the step is there */
    uint64_t staging_bytes;
    char *staging;       /* pinned: the record of the step, then what the step loads */
    uint64_t step_bytes; /* of the record, aligned */
    /* In the device's memory, beside the arena. */
    gal_memory constant;     /* the record of the step, the sample maps, the workspace */
    uint64_t *sample_offset; /* [layout] of its map */
    uint64_t workspace_offset[GAL_STREAM_COUNT], workspace_bytes[GAL_STREAM_COUNT];

    /* Of the step that runs. */
    const gal_tape *tape;
    const uint32_t *fusion; /* of the tape; NULL: what kernels write is looked at, one by one */
    uint32_t fused;         /* the issue that has been carried out with the one before it; GAL_NO_EVENT: none */
    uint32_t issued[GAL_STREAM_COUNT];    /* entries */
    bool requested[GAL_STREAM_COUNT];     /* the entry after them is with comm, or a transfer of the file */
    bool moving[GAL_STORAGE_DIRECTIONS];  /* that transfer has been started */
    uint32_t next_mark[GAL_STREAM_COUNT]; /* not seen yet */
};

/* What the host does beside the device, and copies between their memories. */
static inline bool gal_is_beside(const gal_instruction *instruction)
{
    return instruction->op == GAL_OP_HOST_ADAM || instruction->op == GAL_OP_HOST_ADAM_PART ||
           instruction->op == GAL_OP_COPY_OUT || instruction->op == GAL_OP_COPY_IN;
}

/* Whether a stream is of transfers between the host's memory and a file. */
static inline bool gal_stream_stores(uint32_t stream)
{
    return stream == GAL_STREAM_STORAGE_IN || stream == GAL_STREAM_STORAGE_OUT;
}

static inline bool gal_is_kernel(const gal_instruction *instruction)
{
    return !gal_op_is_collective[instruction->op] && !gal_op_loads((gal_op)instruction->op) &&
           !gal_op_stores((gal_op)instruction->op) && !gal_is_beside(instruction);
}

/* A call as the queued kernel gets it. */
gal_kernel_call gal_queued_call(const gal_engine *engine, uint32_t index, uint32_t microbatch);

/* Finds pairs of kernels that the operators have as one. GAL_ERR_SYSTEM without memory. */
gal_code gal_find_fusions(gal_engine *engine, const gal_tape *tape, const gal_runs *runs, uint32_t **out,
                          gal_error *err);
/* The pair that begins with an issue; calls is where they are. */
gal_kernel_pair gal_queued_pair(const gal_engine *engine, const gal_tape *tape, uint32_t first, bool lone,
                                gal_kernel_call calls[2]);

/* Puts a load, a kernel, a copy or a collective on its queue. queued->requested: it is with a communicator that is not
 * queued, or a transfer of the file. */
gal_code gal_queue_work(gal_engine *engine, const gal_issue *issue, gal_error *err);

/* Memory for the calls to the host of a training step. GAL_ERR_SYSTEM without memory. */
gal_code gal_host_calls_create(const gal_engine *engine, gal_queued *queued, gal_error *err);
/* After queues are gone: what they have not come to is never done. */
void gal_host_calls_free(gal_queued *queued);
/* Puts what gal_is_beside names on its queue. */
gal_code gal_queue_beside(gal_engine *engine, const gal_issue *issue, const gal_queue_entry *entry, gal_error *err);
/* After a step: the first of its calls that failed. */
gal_code gal_host_calls_result(const gal_queued *queued, gal_error *err);

/* engine_transfer.c: the events of transfers, if the program has a file. */
gal_code gal_transfers_create(const gal_engine *engine, gal_queued *queued, gal_error *err);
void gal_transfers_free(const gal_queued *queued);
/* A transfer is the next of its stream: it may start when the queue, which has been given its waits, is done with
 * them. */
gal_code gal_transfer_begin(gal_engine *engine, uint32_t stream, gal_error *err);
/* Starts it if it may start by now; *done: it has ended. Never blocks. */
gal_code gal_transfer_test(gal_engine *engine, uint32_t stream, const gal_queue_entry *entry, bool *done,
                           gal_error *err);

/* After one step as it is: by then libraries have loaded and connected all that they load and connect at first use. */
gal_code gal_capture_runs(gal_engine *engine, gal_error *err);
/* On the compute queue; the tensor queue comes before and after it as a whole. */
gal_code gal_launch_run(gal_queued *queued, const gal_run *run, void *graph, gal_error *err);

#endif
