#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/engine/courier.h"
#include "runtime/engine/engine_internal.h"
#include "schemas/base/clock.h"

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

/* What a pass over the streams goes by. Seen by two threads, one at a time (courier.h). */
struct gal_polled {
    gal_engine *engine;
    gal_courier *courier;                   /* NULL: nothing moves while a kernel runs */
    double start_seconds[GAL_STREAM_COUNT]; /* of the heads, for the trace */
    bool looking;                           /* the second thread has the turn */
    gal_code code;                          /* what the second thread met ... */
    gal_error err;                          /* ... and said; of no use while code is GAL_OK */
};

typedef gal_polled polled;

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

static bool any_in_flight(const gal_engine *engine)
{
    bool any = false;
    for (uint32_t stream = GAL_STREAM_COMPUTE + 1; stream < GAL_STREAM_COUNT; stream++) {
        any = any || engine->in_flight[stream];
    }
    return any;
}

/* A kernel, while the second thread moves the other streams on. */
static gal_code run_beside(polled *run, uint32_t index, uint32_t microbatch, gal_error *err)
{
    gal_courier_leave(run->courier, any_in_flight(run->engine));
    gal_code code = run_kernel(run->engine, index, microbatch, err);
    gal_courier_return(run->courier);
    if (code == GAL_OK && run->code != GAL_OK) {
        code = run->code;
        if (err != NULL) {
            *err = run->err;
        }
    }
    return code;
}

/* Moves the head of a stream on by one state: starts it, or finds it complete. Kernels do both; only the first thread
 * has them. */
static gal_code advance(polled *run, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine *engine = run->engine;
    if (engine->completed[stream] == engine->running->count[stream]) {
        return GAL_OK;
    }
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    const bool stores = gal_op_stores((gal_op)instruction->op), collective = gal_op_is_collective[instruction->op];
    if (engine->in_flight[stream]) {
        bool done = false;
        GAL_TRY(stores ? gal_engine_test_transfer(engine, instruction, &done, err)
                       : engine->options.comm->ops->test(engine->options.comm, engine->handle[stream], &done, err));
        if (done) {
            complete(run, stream);
            *moved = true;
        }
        return GAL_OK;
    }
    if (!gal_queue_ready(engine->running, entry, engine->completed)) {
        return GAL_OK;
    }
    if (run->looking && !collective && !stores) {
        return GAL_OK;
    }
    if (engine->options.trace.done != NULL) {
        run->start_seconds[stream] = gal_now_seconds();
    }
    *moved = true;
    if (stores) {
        GAL_TRY(gal_engine_start_transfer(engine, instruction, entry->microbatch, err));
        engine->in_flight[stream] = true;
    } else if (!collective) {
        const bool updates = instruction->op == GAL_OP_ADAM || instruction->op == GAL_OP_HOST_ADAM ||
                             instruction->op == GAL_OP_HOST_ADAM_PART;
        if (!updates || !must_not_update(engine)) {
            GAL_TRY(run_beside(run, entry->instruction, entry->microbatch, err));
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

/* Communication first: what it frees or brings, compute may use in this very pass. */
static gal_code drain_communication(polled *run, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t stream = GAL_STREAM_COMPUTE + 1; stream < GAL_STREAM_COUNT; stream++) {
        GAL_TRY(drain(run, stream, moved, err));
    }
cleanup:
    return code;
}

/* The second thread's turn. */
static gal_courier_found look(void *context, double *due_seconds)
{
    polled *run = context;
    gal_comm *comm = run->engine->options.comm;
    bool moved = false;
    run->looking = true;
    if (run->code == GAL_OK) {
        run->code = drain_communication(run, &moved, &run->err);
    }
    run->looking = false;
    if (run->code != GAL_OK || !any_in_flight(run->engine)) {
        return GAL_COURIER_NOTHING;
    }
    *due_seconds = comm->ops->due != NULL ? comm->ops->due(comm) : 0.0;
    return moved ? GAL_COURIER_MOVED : GAL_COURIER_WAITS;
}

gal_code gal_polled_create(gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_polled *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    run->engine = engine;
    engine->polled = run;
    if (engine->options.comm != NULL && engine->options.order == GAL_ORDER_STREAMS) {
        GAL_TRY(gal_courier_create(look, run, &run->courier, err));
    }
cleanup:
    return code;
}

void gal_polled_free(gal_engine *engine)
{
    if (engine->polled != NULL) {
        gal_courier_free(engine->polled->courier);
        free(engine->polled);
    }
}

gal_code gal_engine_run_polled(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_idle idle = {0};
    polled *run = engine->polled;
    gal_engine_begin(engine, queues);
    while (!gal_engine_finished(engine)) {
        bool moved = false;
        GAL_TRY(drain_communication(run, &moved, err));
        GAL_TRY(advance(run, GAL_STREAM_COMPUTE, &moved, err));
        GAL_TRY(gal_engine_pause(engine, moved, &idle, err));
    }
cleanup:
    gal_courier_rest(run->courier);
    return code;
}
