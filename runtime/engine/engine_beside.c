/* What the host does beside a device: copies between their memories are the device's own, on the stream's queue; an
 * update is a call to the host, for which the queue waits. Both take their turn by events, as kernels do. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/engine/engine_queued.h"

enum { NORM_OPERAND = 4 }; /* of host_adam and its part */

/* IDLE: not queued, or done. ABANDONED: whoever comes to it does nothing. */
enum { IDLE, QUEUED, RUNNING, ABANDONED };

struct gal_host_call {
    _Atomic uint32_t state;
    gal_kernel kernel;
    gal_kernel_call call;
    gal_code code;
    gal_error err;
};

static bool is_update(gal_op op)
{
    return op == GAL_OP_HOST_ADAM || op == GAL_OP_HOST_ADAM_PART;
}

gal_code gal_host_calls_create(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    const gal_tape *tape = &queued->train;
    bool any = false;
    for (uint32_t i = 0; i < engine->program->instruction_count; i++) {
        any = any || is_update((gal_op)engine->program->instruction[i].op);
    }
    queued->host_call = any ? calloc((size_t)tape->issue_count + 1, sizeof *queued->host_call) : NULL;
    return any && queued->host_call == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory: calls to the host")
                                            : GAL_OK;
}

/* A thread of the device's library. The norm is the same on all ranks: so is what it decides. */
static void carry_out(void *payload)
{
    gal_host_call *at = payload;
    uint32_t expected = QUEUED;
    if (!atomic_compare_exchange_strong(&at->state, &expected, RUNNING)) {
        return;
    }
    const double *norm = at->call.operand[NORM_OPERAND];
    if (isfinite(norm[0]) && isfinite(norm[1])) {
        at->code = at->kernel(&at->call, &at->err);
    }
    atomic_store(&at->state, IDLE);
}

gal_code gal_queue_beside(gal_engine *engine, const gal_issue *issue, const gal_queue_entry *entry, gal_error *err)
{
    const gal_queued *queued = engine->queued;
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    void *queue = queued->queue[issue->stream];
    if (!is_update((gal_op)instruction->op)) {
        const uint32_t *dims = engine->program->shape[instruction->shape].dims;
        const void *source = gal_engine_address(engine, instruction, 0, entry->microbatch);
        void *target = gal_engine_address(engine, instruction, 1, entry->microbatch);
        return queued->ops->copy(queue, target, source, (uint64_t)dims[0] * dims[1], err);
    }
    gal_host_call *at = &queued->host_call[issue - queued->tape->issue];
    GAL_ASSERT(queued->tape == &queued->train && atomic_load(&at->state) == IDLE);
    at->kernel = engine->options.host_ops->kernel[instruction->op];
    at->call = gal_engine_kernel_call(engine, entry->instruction, entry->microbatch);
    atomic_store(&at->state, QUEUED);
    return queued->ops->call_host(queue, carry_out, at, err);
}

gal_code gal_host_calls_result(const gal_queued *queued, gal_error *err)
{
    for (uint32_t i = 0; queued->host_call != NULL && i < queued->train.issue_count; i++) {
        if (queued->host_call[i].code != GAL_OK) {
            *err = queued->host_call[i].err;
            return queued->host_call[i].code;
        }
    }
    return GAL_OK;
}

void gal_host_calls_free(gal_queued *queued)
{
    bool abandoned = false;
    for (uint32_t i = 0; queued->host_call != NULL && i < queued->train.issue_count; i++) {
        gal_host_call *at = &queued->host_call[i];
        uint32_t expected = QUEUED;
        abandoned = atomic_compare_exchange_strong(&at->state, &expected, ABANDONED) || abandoned;
        while (atomic_load(&at->state) == RUNNING) { /* it ends by itself */
        }
    }
    if (!abandoned) { /* else a queue that failed still comes to it; the process ends */
        free(queued->host_call);
    }
    queued->host_call = NULL;
}
