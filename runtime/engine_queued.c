#include <stdlib.h>
#include <string.h>

#include "runtime/engine_internal.h"
#include "runtime/engine_tape.h"

struct gal_queued {
    const gal_device_queue_ops *ops;
    void *context; /* of the operators */
    gal_tape train, evaluate;
    bool in_list_order; /* of the tapes: communication is queued too */

    void *queue[GAL_STREAM_COUNT]; /* NULL: the stream is not used */
    void **event, **mark;          /* as many as the larger tape needs */
    uint32_t event_count, mark_count;
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

/* ---- what is made once ---- */

static gal_code create_tapes(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = engine->program;
    queued->in_list_order = engine->options.comm == NULL || engine->options.comm->ops->queued;
    GAL_TRY(gal_tape_of(program, program->call, program->call_count, &engine->train, queued->in_list_order,
                        &queued->train, err));
    GAL_TRY(gal_tape_of(program, program->evaluate_call, program->evaluate_call_count, &engine->evaluate,
                        queued->in_list_order, &queued->evaluate, err));
cleanup:
    return code;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t map_count(const gal_program *program, uint32_t layout)
{
    return (uint64_t)program->microbatch_count * gal_layout_local_samples(&program->layout[layout]);
}

static bool is_kernel(const gal_instruction *instruction)
{
    return !gal_op_is_collective[instruction->op] && !gal_op_loads((gal_op)instruction->op);
}

/* A call as the queued kernel gets it. */
static gal_kernel_call queued_call(const gal_engine *engine, uint32_t index, uint32_t microbatch)
{
    const gal_queued *queued = engine->queued;
    const uint32_t layout = engine->program->instruction[index].layout;
    const uint32_t stream = engine->program->instruction[index].stream;
    gal_kernel_call call = gal_engine_kernel_call(engine, index, microbatch);
    char *constant = queued->constant.base;
    if (layout != 0) {
        const uint64_t samples = gal_layout_local_samples(&engine->program->layout[layout]);
        call.sample_map =
            (const uint32_t *)(void *)(constant + queued->sample_offset[layout]) + (size_t)(microbatch * samples);
    }
    call.stream = queued->queue[stream];
    call.context = queued->context;
    call.workspace_bytes = queued->workspace_bytes[stream];
    call.workspace = call.workspace_bytes > 0 ? constant + queued->workspace_offset[stream] : NULL;
    call.device_step = constant;
    return call;
}

/* Kernels of one stream come one after the other and share a workspace. */
static void size_workspaces(const gal_engine *engine, gal_queued *queued)
{
    const gal_ops_queued *ops = engine->options.ops->queued;
    for (uint32_t i = 0; ops->workspace_bytes != NULL && i < engine->program->instruction_count; i++) {
        const gal_instruction *instruction = &engine->program->instruction[i];
        uint64_t *bytes = &queued->workspace_bytes[instruction->stream];
        if (is_kernel(instruction)) {
            const gal_kernel_call call = gal_engine_kernel_call(engine, i, 0);
            *bytes = larger(*bytes, ops->workspace_bytes(queued->context, (gal_op)instruction->op, &call));
        }
    }
}

static gal_code create_constants(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = engine->program;
    const gal_device_ops *device = engine->options.device;
    queued->sample_offset = calloc((size_t)program->layout_count + 1, sizeof *queued->sample_offset);
    if (queued->sample_offset == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    queued->step_bytes = gal_align(engine->options.ops->queued->step_bytes);
    uint64_t bytes = queued->step_bytes;
    GAL_ASSERT(bytes > 0);
    for (uint32_t l = 1; l < program->layout_count; l++) {
        queued->sample_offset[l] = bytes;
        bytes += gal_align(map_count(program, l) * sizeof(uint32_t));
    }
    size_workspaces(engine, queued);
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        queued->workspace_offset[s] = bytes;
        bytes += gal_align(queued->workspace_bytes[s]);
    }
    GAL_TRY(device->allocate(bytes, false, &queued->constant, err));
    for (uint32_t l = 1; l < program->layout_count; l++) {
        device->write(&queued->constant, queued->sample_offset[l], engine->sample_map[l],
                      map_count(program, l) * sizeof(uint32_t));
    }
cleanup:
    return code;
}

static gal_code create_events(gal_queued *queued, uint32_t count, void ***out, uint32_t *out_count, gal_error *err)
{
    gal_code code = GAL_OK;
    *out = calloc((size_t)count + 1, sizeof **out);
    if (*out == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: events");
    }
    for (; *out_count < count; ++*out_count) {
        GAL_TRY(queued->ops->event_create(false, &(*out)[*out_count], err));
    }
cleanup:
    return code;
}

static gal_code create_queues(gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_tape *train = &queued->train, *evaluate = &queued->evaluate;
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (s == GAL_STREAM_COMPUTE || train->queues->count[s] > 0 || evaluate->queues->count[s] > 0) {
            GAL_TRY(queued->ops->create(s != GAL_STREAM_COMPUTE, &queued->queue[s], err));
        }
    }
    GAL_TRY(create_events(queued, (uint32_t)larger(train->event_count, evaluate->event_count), &queued->event,
                          &queued->event_count, err));
    GAL_TRY(create_events(queued, (uint32_t)larger(train->mark_count, evaluate->mark_count), &queued->mark,
                          &queued->mark_count, err));
    GAL_TRY(queued->ops->event_create(false, &queued->settled, err));
    void *staging = NULL;
    GAL_TRY(queued->ops->host_allocate(queued->step_bytes + larger(train->staging_bytes, evaluate->staging_bytes) + 1,
                                       &staging, err));
    queued->staging = staging;
cleanup:
    return code;
}

static gal_code prepare_kernels(const gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_ops *ops = engine->options.ops;
    for (uint32_t i = 0; ops->queued->prepare != NULL && i < engine->program->instruction_count; i++) {
        const gal_instruction *instruction = &engine->program->instruction[i];
        if (is_kernel(instruction)) {
            const gal_kernel_call call = queued_call(engine, i, 0);
            GAL_TRY(ops->queued->prepare((gal_op)instruction->op, &call, err));
        }
    }
cleanup:
    return code;
}

gal_code gal_queued_create(gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = calloc(1, sizeof *queued);
    if (queued == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    engine->queued = queued;
    queued->ops = engine->options.device->queue;
    GAL_TRY(engine->options.ops->queued->open(engine->options.deterministic, &queued->context, err));
    GAL_TRY(create_tapes(engine, queued, err));
    GAL_TRY(create_constants(engine, queued, err));
    GAL_TRY(create_queues(queued, err));
    GAL_TRY(prepare_kernels(engine, err));
cleanup:
    return code; /* what was made is the engine's to free */
}

static void destroy_events(const gal_queued *queued, void **event, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        queued->ops->event_destroy(event[i]);
    }
    free(event);
}

void gal_queued_free(gal_engine *engine)
{
    gal_queued *queued = engine->queued;
    if (queued == NULL) {
        return;
    }
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (queued->queue[s] != NULL) {
            queued->ops->destroy(queued->queue[s]);
        }
    }
    destroy_events(queued, queued->event, queued->event_count);
    destroy_events(queued, queued->mark, queued->mark_count);
    if (queued->settled != NULL) {
        queued->ops->event_destroy(queued->settled);
    }
    if (queued->staging != NULL) {
        queued->ops->host_release(queued->staging);
    }
    engine->options.device->release(&queued->constant);
    engine->options.ops->queued->close(queued->context);
    free(queued->sample_offset);
    gal_tape_free(&queued->evaluate);
    gal_tape_free(&queued->train);
    free(queued);
    engine->queued = NULL;
}

/* ---- one entry ---- */

/* Only for a look at what a kernel has written. */
static gal_code settle(gal_engine *engine, void *queue, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_idle idle = {0};
    bool reached = false;
    const gal_queued *queued = engine->queued;
    GAL_TRY(queued->ops->record(queue, queued->settled, err));
    while (!reached) {
        GAL_TRY(queued->ops->reached(queued->settled, &reached, err));
        GAL_TRY(gal_engine_pause(engine, reached, &idle, err));
    }
cleanup:
    return code;
}

static gal_code queue_load(const gal_engine *engine, const gal_issue *issue, const gal_queue_entry *entry,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_queued *queued = engine->queued;
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    char *staging = queued->staging + queued->step_bytes + issue->staging_offset;
    GAL_TRY(gal_engine_load(engine, instruction, entry->microbatch, staging, err));
    GAL_TRY(queued->ops->copy(queued->queue[issue->stream],
                              gal_engine_address(engine, instruction, 0, entry->microbatch), staging,
                              engine->program->operand[instruction->first_operand].bytes, err));
cleanup:
    return code;
}

static gal_code queue_kernel(gal_engine *engine, const gal_queue_entry *entry, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    const gal_kernel_call call = queued_call(engine, entry->instruction, entry->microbatch);
    GAL_TRY(engine->options.ops->kernel[instruction->op](&call, err));
    if (engine->fault != NULL) {
        GAL_TRY(settle(engine, call.stream, err));
        GAL_TRY(gal_engine_look_for_fault(engine, entry->instruction, entry->microbatch, err));
    }
cleanup:
    return code;
}

/* *requested: it is with a communicator that is not queued. */
static gal_code queue_collective(gal_engine *engine, const gal_issue *issue, const gal_queue_entry *entry,
                                 bool *requested, gal_error *err)
{
    const gal_queued *queued = engine->queued;
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    void *queue = queued->queue[issue->stream];
    if (engine->channels->of_instruction[entry->instruction] == GAL_NO_CHANNEL) {
        const gal_engine_copy copy = gal_engine_alone(engine, instruction, entry->microbatch);
        return copy.bytes == 0 ? GAL_OK : queued->ops->copy(queue, copy.target, copy.source, copy.bytes, err);
    }
    gal_comm *comm = engine->options.comm;
    gal_comm_request request = gal_engine_request(engine, entry->instruction, entry->microbatch);
    request.queue = queue;
    *requested = !comm->ops->queued;
    return comm->ops->start(comm, &request, &engine->handle[issue->stream], err);
}

/* What comes behind the entry on its queue. */
static gal_code end_entry(gal_queued *queued, const gal_issue *issue, gal_error *err)
{
    gal_code code = GAL_OK;
    void *queue = queued->queue[issue->stream];
    queued->requested[issue->stream] = false;
    queued->issued[issue->stream]++;
    if (issue->event != GAL_NO_EVENT) {
        GAL_TRY(queued->ops->record(queue, queued->event[issue->event], err));
    }
    if (issue->mark != GAL_NO_EVENT) {
        GAL_TRY(queued->ops->record(queue, queued->mark[issue->mark], err));
    }
cleanup:
    return code;
}

static gal_code begin_entry(gal_engine *engine, const gal_issue *issue, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    const gal_queue_entry *entry = &engine->running->entry[issue->stream][issue->entry];
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    for (uint32_t w = 0; w < issue->wait_count; w++) {
        const uint32_t event = queued->tape->wait[issue->first_wait + w];
        GAL_TRY(queued->ops->wait(queued->queue[issue->stream], queued->event[event], err));
    }
    if (gal_op_loads((gal_op)instruction->op)) {
        GAL_TRY(queue_load(engine, issue, entry, err));
    } else if (is_kernel(instruction)) {
        GAL_TRY(queue_kernel(engine, entry, err));
    } else {
        GAL_TRY(queue_collective(engine, issue, entry, &queued->requested[issue->stream], err));
    }
    if (!queued->requested[issue->stream]) {
        GAL_TRY(end_entry(queued, issue, err));
    }
cleanup:
    return code;
}

/* ---- a step ---- */

/* The communicator's own deadline, for when this thread is stuck in a call of the device's. */
static void watch(const gal_engine *engine, double deadline_seconds)
{
    gal_comm *comm = engine->options.comm;
    if (comm != NULL && comm->ops->watch != NULL) {
        comm->ops->watch(comm, deadline_seconds);
    }
}

/* No kernel of any queue starts before the record of the step is there. */
static gal_code begin_step(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    void *compute = queued->queue[GAL_STREAM_COMPUTE];
    queued->tape = queues == &engine->train ? &queued->train : &queued->evaluate;
    memset(queued->issued, 0, sizeof queued->issued);
    memset(queued->requested, 0, sizeof queued->requested);
    memcpy(queued->next_mark, queued->tape->first_mark, sizeof queued->next_mark);
    engine->options.ops->queued->put_step(&engine->step, queued->staging);
    GAL_TRY(queued->ops->copy(compute, queued->constant.base, queued->staging, engine->options.ops->queued->step_bytes,
                              err));
    GAL_TRY(queued->ops->record(compute, queued->settled, err));
    for (uint32_t s = GAL_STREAM_COMPUTE + 1; s < GAL_STREAM_COUNT; s++) {
        if (queued->queue[s] != NULL) {
            GAL_TRY(queued->ops->wait(queued->queue[s], queued->settled, err));
        }
    }
cleanup:
    return code;
}

/* Where communication is not queued, its end is seen here and not by the device: every stream goes on as far as what
 * it waits for has been queued. */
static gal_code advance(gal_engine *engine, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    const gal_tape *tape = queued->tape;
    while (queued->issued[stream] < tape->queues->count[stream]) {
        const gal_issue *issue = &tape->issue[tape->of_entry[stream][queued->issued[stream]]];
        const gal_queue_entry *entry = &tape->queues->entry[stream][issue->entry];
        if (queued->requested[stream]) {
            bool done = false;
            GAL_TRY(engine->options.comm->ops->test(engine->options.comm, engine->handle[stream], &done, err));
            if (!done) {
                break;
            }
            GAL_TRY(end_entry(queued, issue, err));
        } else if (gal_queue_ready(tape->queues, entry, queued->issued)) {
            GAL_TRY(begin_entry(engine, issue, err));
        } else {
            break;
        }
        *moved = true;
    }
cleanup:
    return code;
}

static gal_code look_at_marks(gal_engine *engine, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    while (queued->next_mark[stream] != GAL_NO_EVENT) {
        const gal_mark *mark = &queued->tape->mark[queued->next_mark[stream]];
        bool reached = false;
        if (queued->issued[stream] < mark->completed) {
            break; /* not recorded in this step */
        }
        GAL_TRY(queued->ops->reached(queued->mark[queued->next_mark[stream]], &reached, err));
        if (!reached) {
            break;
        }
        engine->completed[stream] = mark->completed;
        queued->next_mark[stream] = mark->next;
        *moved = true;
    }
    engine->in_flight[stream] = queued->requested[stream] || queued->issued[stream] > engine->completed[stream];
cleanup:
    return code;
}

gal_code gal_engine_run_queued(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_idle idle = {0};
    gal_queued *queued = engine->queued;
    gal_engine_begin(engine, queues);
    watch(engine, engine->options.deadline_seconds);
    GAL_TRY(begin_step(engine, queues, err));
    for (uint32_t i = 0; queued->in_list_order && i < queued->tape->issue_count; i++) {
        GAL_TRY(begin_entry(engine, &queued->tape->issue[i], err));
    }
    while (!gal_engine_finished(engine)) {
        bool moved = false;
        for (uint32_t stream = GAL_STREAM_COUNT; !queued->in_list_order && stream-- > 0;) {
            GAL_TRY(advance(engine, stream, &moved, err));
        }
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            GAL_TRY(look_at_marks(engine, stream, &moved, err));
        }
        if (moved) {
            watch(engine, engine->options.deadline_seconds);
        }
        GAL_TRY(gal_engine_pause(engine, moved, &idle, err));
    }
cleanup:
    watch(engine, 0.0);
    return code;
}
