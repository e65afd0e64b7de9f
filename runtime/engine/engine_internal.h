/* What the files of the engine share, and nobody else sees.
 *
 *   engine.c         what callers see; what is resolved once
 *   engine_call.c    one instruction: addresses, kernel calls, requests, where numbers leave the finite
 *   engine_wait.c    a step in which nothing moves
 *   engine_polled.c  carries out a step where kernels are done when they return
 *   engine_queued.c  carries out a step on the queues of a device, with engine_queued_create.c, engine_graphs.c and
 *                    engine_fuse.c; engine_beside.c: what the host does beside the device; engine_transfer.c: what
 *                    the host moves to and from a file meanwhile; engine_tape.c: what it issues, in which order;
 *                    engine_runs.c: what of that can be captured */
#ifndef GAL_RUNTIME_ENGINE_ENGINE_INTERNAL_H
#define GAL_RUNTIME_ENGINE_ENGINE_INTERNAL_H

#include "runtime/engine/engine.h"
#include "runtime/engine/loss_scaling.h"

/* What moves between the host's memory and a file. */
static inline bool gal_op_stores(gal_op op)
{
    return op == GAL_OP_STORAGE_READ || op == GAL_OP_STORAGE_WRITE;
}

typedef struct gal_queued gal_queued;
typedef struct gal_polled gal_polled;

struct gal_engine {
    const gal_program *program;
    const gal_model *model;
    const gal_channels *channels;
    gal_engine_options options;
    uint32_t device;
    gal_memory memory, host;  /* host: what memory has in the host's */
    gal_storage *storage;     /* and in a file; NULL: nothing */
    uint64_t *operand_offset; /* [operand] of item 0 */
    uint32_t *group_index;    /* [instruction] */
    uint32_t *group_count;    /* [instruction] */
    uint32_t **sample_map;    /* [layout]: [microbatch][local sample] of the global batch; NULL for layout 0 */
    uint32_t *position_part;  /* [layout]: which of its equal parts of the positions lies here */
    gal_queues train, evaluate;
    gal_queued *queued; /* NULL: the device has no queues ... */
    gal_polled *polled; /* ... and then this is there */

    gal_kernel_step step;
    gal_loss_scaling scaling; /* of programs of fp16 */
    bool overflowed;          /* the last step, of its gradients alone */
    bool evaluating;
    gal_engine_fault *fault; /* NULL: results are not looked at */

    /* Of the step that runs. */
    const gal_queues *running;
    uint32_t completed[GAL_STREAM_COUNT]; /* entries of which that is known */
    bool in_flight[GAL_STREAM_COUNT];     /* the entry after them has been started */
    uint32_t handle[GAL_STREAM_COUNT];    /* of comm: the request in flight */
                                          /* All three belong to who has the turn (courier.h). */
};

/* The table that serves a kernel. */
static inline const gal_ops *gal_engine_ops(const gal_engine *engine, const gal_instruction *instruction)
{
    const gal_ops *wide = engine->options.wide_ops;
    return wide != NULL && engine->program->shape[instruction->shape].dtype == wide->dtype ? wide : engine->options.ops;
}

/* ---- engine_call.c ---- */

void *gal_engine_address(const gal_engine *engine, const gal_instruction *instruction, uint32_t operand,
                         uint32_t microbatch);
/* What a load instruction brings, to out: memory of the host, operand[0].bytes. */
gal_code gal_engine_load(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch, void *out,
                         gal_error *err);
/* All of a kernel's call that is the same on every device. */
gal_kernel_call gal_engine_kernel_call(const gal_engine *engine, uint32_t index, uint32_t microbatch);
gal_comm_request gal_engine_request(const gal_engine *engine, uint32_t index, uint32_t microbatch);

/* A collective of a group of one: what it would have moved is here already, or one copy away; then of so many bytes. */
typedef struct gal_engine_copy {
    const void *source;
    void *target;
    uint64_t bytes; /* 0: nothing to do */
} gal_engine_copy;
/* A transfer to or from the file: started, and whether it is done. */
gal_code gal_engine_start_transfer(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch,
                                   gal_error *err);
gal_code gal_engine_test_transfer(const gal_engine *engine, const gal_instruction *instruction, bool *done,
                                  gal_error *err);
gal_engine_copy gal_engine_alone(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch);

/* The sum of squares of the gradients, and the sum of the losses; the kernels before are done. */
void gal_engine_read_norm(const gal_engine *engine, double norm[2]);
/* Notes in engine->fault what the kernel has written, if it is the first that is not finite. The kernel is done. */
gal_code gal_engine_look_for_fault(const gal_engine *engine, uint32_t index, uint32_t microbatch, gal_error *err);

/* ---- engine_wait.c ---- */

/* How long nothing has moved; begins as zeros with a step. */
typedef struct gal_engine_idle {
    double since_seconds;  /* 0: something has just moved */
    double listen_seconds; /* when to look next whether another rank calls the roll */
} gal_engine_idle;

/* At the end of a pass over the streams. If nothing moved: GAL_ERR_DEVICE with the heads of all streams after the
 * deadline, or the end of all ranks; else gives way to other threads. */
gal_code gal_engine_pause(const gal_engine *engine, bool moved, gal_engine_idle *idle, gal_error *err);
/* All entries of the running queues are complete. */
bool gal_engine_finished(const gal_engine *engine);
/* Before a step: nothing is complete. */
void gal_engine_begin(gal_engine *engine, const gal_queues *queues);

/* ---- the two ways ---- */

gal_code gal_polled_create(gal_engine *engine, gal_error *err);
void gal_polled_free(gal_engine *engine);
gal_code gal_engine_run_polled(gal_engine *engine, const gal_queues *queues, gal_error *err);

gal_code gal_queued_create(gal_engine *engine, gal_error *err);
void gal_queued_free(gal_engine *engine);
/* Beside the arena: in the device's memory, and pinned on the host. */
void gal_queued_bytes(const gal_engine *engine, uint64_t *workspace_bytes, uint64_t *pinned_bytes);
gal_code gal_engine_run_queued(gal_engine *engine, const gal_queues *queues, gal_error *err);

#endif
