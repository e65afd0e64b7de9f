#include <math.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/engine_internal.h"

static gal_code run_kernel(const gal_engine *engine, uint32_t index, uint32_t microbatch, gal_error *err)
{
    const gal_instruction *instruction = &engine->program->instruction[index];
    if (gal_op_loads((gal_op)instruction->op)) {
        void *target = gal_engine_address(engine, instruction, 0, microbatch);
        return gal_engine_load(engine, instruction, microbatch, target, err);
    }
    const gal_kernel_call call = gal_engine_kernel_call(engine, index, microbatch);
    return gal_engine_ops(engine, instruction)->kernel[instruction->op](&call, err);
}

/* The norm and the loss are the same on all ranks by the time of the updates: so is the decision. */
static bool must_not_update(const gal_engine *engine)
{
    double norm[2];
    gal_engine_read_norm(engine, norm);
    return !isfinite(norm[0]) || !isfinite(norm[1]);
}

/* What a pass over the streams goes by. */
typedef struct polled {
    gal_engine *engine;
    double start_seconds[GAL_STREAM_COUNT]; /* of the heads, for the trace */
} polled;

static void complete(polled *run, uint32_t stream)
{
    gal_engine *engine = run->engine;
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    engine->in_flight[stream] = false;
    engine->completed[stream]++;
    if (engine->options.trace.done != NULL) {
        engine->options.trace.done(engine->options.trace.context, entry->instruction, entry->microbatch,
                                   run->start_seconds[stream], gal_now_seconds());
    }
}

/* Moves the head of a stream on by one state: starts it, or finds it complete. Kernels do both. */
static gal_code advance(polled *run, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine *engine = run->engine;
    if (engine->completed[stream] == engine->running->count[stream]) {
        return GAL_OK;
    }
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    if (engine->in_flight[stream]) {
        bool done = false;
        GAL_TRY(engine->options.comm->ops->test(engine->options.comm, engine->handle[stream], &done, err));
        if (done) {
            complete(run, stream);
            *moved = true;
        }
        return GAL_OK;
    }
    if (!gal_queue_ready(engine->running, entry, engine->completed)) {
        return GAL_OK;
    }
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    if (engine->options.trace.done != NULL) {
        run->start_seconds[stream] = gal_now_seconds();
    }
    *moved = true;
    if (!gal_op_is_collective[instruction->op]) {
        const bool updates = instruction->op == GAL_OP_ADAM || instruction->op == GAL_OP_HOST_ADAM;
        if (!updates || !must_not_update(engine)) {
            GAL_TRY(run_kernel(engine, entry->instruction, entry->microbatch, err));
        }
        if (engine->fault != NULL) {
            GAL_TRY(gal_engine_look_for_fault(engine, entry->instruction, entry->microbatch, err));
        }
        complete(run, stream);
    } else if (engine->channels->of_instruction[entry->instruction] == GAL_NO_CHANNEL) {
        const gal_engine_copy copy = gal_engine_alone(engine, instruction, entry->microbatch);
        if (copy.bytes > 0) {
            memmove(copy.target, copy.source, copy.bytes);
        }
        complete(run, stream);
    } else {
        const gal_comm_request request = gal_engine_request(engine, entry->instruction, entry->microbatch);
        GAL_TRY(engine->options.comm->ops->start(engine->options.comm, &request, &engine->handle[stream], err));
        engine->in_flight[stream] = true;
    }
cleanup:
    return code;
}

/* Moves a stream on until its head neither starts nor completes. A collective that follows one that is complete starts
 * now and not a kernel later. */
static gal_code drain(polled *run, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    bool moving = true;
    while (moving) {
        moving = false;
        GAL_TRY(advance(run, stream, &moving, err));
        *moved = *moved || moving;
    }
cleanup:
    return code;
}

gal_code gal_engine_run_polled(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_idle idle = {0};
    polled run = {.engine = engine};
    gal_engine_begin(engine, queues);
    while (!gal_engine_finished(engine)) {
        bool moved = false;
        /* Communication first: what it frees or brings, compute may use in this very pass. */
        for (uint32_t stream = GAL_STREAM_COMPUTE + 1; stream < GAL_STREAM_COUNT; stream++) {
            GAL_TRY(drain(&run, stream, &moved, err));
        }
        GAL_TRY(advance(&run, GAL_STREAM_COMPUTE, &moved, err));
        GAL_TRY(gal_engine_pause(engine, moved, &idle, err));
    }
cleanup:
    return code;
}
