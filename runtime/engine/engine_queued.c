#include "runtime/engine/engine_queued.h"

#include <string.h>

#include "schemas/base/clock.h"

/* ---- one entry ---- */

gal_kernel_call gal_queued_call(const gal_engine *engine, uint32_t index, uint32_t microbatch)
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
    const gal_kernel_call call = gal_queued_call(engine, entry->instruction, entry->microbatch);
    GAL_TRY(gal_engine_ops(engine, instruction)->kernel[instruction->op](&call, err));
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

/* When an issue begins (0) or ends (1), for the trace. */
static gal_code take_time(const gal_queued *queued, const gal_issue *issue, uint32_t which, gal_error *err)
{
    if (queued->timed == NULL || queued->tape != &queued->train) {
        return GAL_OK;
    }
    const size_t number = (size_t)(issue - queued->tape->issue);
    return queued->ops->record(queued->queue[issue->stream], queued->timed[2 * number + which], err);
}

/* What comes behind the entry on its queue. */
static gal_code end_entry(gal_queued *queued, const gal_issue *issue, gal_error *err)
{
    gal_code code = GAL_OK;
    void *queue = queued->queue[issue->stream];
    GAL_TRY(take_time(queued, issue, 1, err));
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

/* With what comes next on the stream. */
static gal_code queue_pair(gal_engine *engine, uint32_t first, uint32_t fusion, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    gal_kernel_call calls[2];
    const gal_issue *issue = &queued->tape->issue[first];
    const gal_kernel_pair pair = gal_queued_pair(engine, queued->tape, first, true, calls);
    GAL_TRY(engine->options.ops->queued->fused(&pair, fusion, err));
    queued->fused = queued->tape->of_entry[issue->stream][issue->entry + 1];
cleanup:
    return code;
}

gal_code gal_queue_work(gal_engine *engine, const gal_issue *issue, gal_error *err)
{
    gal_queued *queued = engine->queued;
    const gal_queue_entry *entry = &queued->tape->queues->entry[issue->stream][issue->entry];
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    const uint32_t number = (uint32_t)(issue - queued->tape->issue);
    if (number == queued->fused) {
        queued->fused = GAL_NO_EVENT;
        return GAL_OK;
    }
    if (gal_op_loads((gal_op)instruction->op)) {
        return queue_load(engine, issue, entry, err);
    }
    if (gal_is_beside(instruction)) {
        return gal_queue_beside(engine, issue, entry, err);
    }
    if (gal_op_stores((gal_op)instruction->op)) {
        return gal_transfer_begin(engine, issue->stream, err);
    }
    if (!gal_is_kernel(instruction)) {
        return queue_collective(engine, issue, entry, &queued->requested[issue->stream], err);
    }
    const uint32_t fusion = queued->fusion != NULL ? queued->fusion[number] : 0;
    return fusion != 0 ? queue_pair(engine, number, fusion, err) : queue_kernel(engine, entry, err);
}

static gal_code begin_entry(gal_engine *engine, const gal_issue *issue, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    for (uint32_t w = issue->first_wait; w < issue->first_wait + issue->wait_count; w++) {
        GAL_TRY(queued->ops->wait(queued->queue[issue->stream], queued->event[queued->tape->wait[w]], err));
    }
    GAL_TRY(take_time(queued, issue, 0, err));
    GAL_TRY(gal_queue_work(engine, issue, err));
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
    queued->fusion = queues == &engine->train ? queued->train_fusion : queued->evaluate_fusion;
    queued->fusion = engine->fault == NULL ? queued->fusion : NULL;
    queued->fused = GAL_NO_EVENT;
    memcpy(queued->next_mark, queued->tape->first_mark, sizeof queued->next_mark);
    engine->options.ops->queued->put_step(&engine->step, queued->staging);
    GAL_TRY(queued->ops->copy(compute, queued->constant.base, queued->staging, engine->options.ops->queued->step_bytes,
                              err));
    if (queued->timed != NULL) {
        queued->origin_seconds = gal_now_seconds();
        GAL_TRY(queued->ops->record(compute, queued->origin, err));
    }
    GAL_TRY(queued->ops->record(compute, queued->settled, err));
    for (uint32_t s = GAL_STREAM_COMPUTE + 1; s < GAL_STREAM_COUNT; s++) {
        if (queued->queue[s] != NULL) {
            GAL_TRY(queued->ops->wait(queued->queue[s], queued->settled, err));
        }
    }
cleanup:
    return code;
}

/* Whether what is with the communicator, or between the host's memory and the file, has ended. */
static gal_code test_request(gal_engine *engine, uint32_t stream, const gal_queue_entry *entry, bool *done,
                             gal_error *err)
{
    gal_comm *comm = engine->options.comm;
    return gal_stream_stores(stream) ? gal_transfer_test(engine, stream, entry, done, err)
                                     : comm->ops->test(comm, engine->handle[stream], done, err);
}

/* Where communication is not queued, its end is seen here and not by the device: every stream goes on as far as what
 * it waits for has been queued. So do transfers of the file, however the others go on. */
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
            GAL_TRY(test_request(engine, stream, entry, &done, err));
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

/* One look at all streams. */
static gal_code pass(gal_engine *engine, gal_engine_idle *idle, gal_error *err)
{
    gal_code code = GAL_OK;
    bool moved = false;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        if (!engine->queued->in_list_order || gal_stream_stores(stream)) {
            GAL_TRY(advance(engine, stream, &moved, err));
        }
        GAL_TRY(look_at_marks(engine, stream, &moved, err));
    }
    if (moved) {
        watch(engine, engine->options.deadline_seconds);
    }
    GAL_TRY(gal_engine_pause(engine, moved, idle, err));
cleanup:
    return code;
}

/* Transfers of the file are not issued in the list: they go on by themselves, from here on as far as they can. What
 * waits for one waits here, before all that is behind it in the list, which has one order on all ranks. */
static gal_code await_transfers(gal_engine *engine, const gal_issue *issue, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_idle idle = {0};
    bool moved = false;
    const gal_queued *queued = engine->queued;
    const gal_queue_entry *entry = &queued->tape->queues->entry[issue->stream][issue->entry];
    if (engine->storage == NULL) {
        return GAL_OK;
    }
    GAL_TRY(advance(engine, GAL_STREAM_STORAGE_IN, &moved, err));
    GAL_TRY(advance(engine, GAL_STREAM_STORAGE_OUT, &moved, err));
    while (!gal_queue_ready(queued->tape->queues, entry, queued->issued)) {
        GAL_TRY(pass(engine, &idle, err));
    }
cleanup:
    return code;
}

/* The whole step, in the order of the list; of a training step that is not looked at, in runs from the second one on.
 */
static gal_code issue_list(gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    const gal_runs *runs = &queued->runs;
    const bool in_runs = queued->graph != NULL && queued->tape == &queued->train && engine->fault == NULL;
    uint32_t next = 0;
    for (uint32_t i = 0; i < queued->tape->issue_count;) {
        const gal_issue *issue = &queued->tape->issue[i];
        if (gal_stream_stores(issue->stream)) {
            i++;
            continue;
        }
        GAL_TRY(await_transfers(engine, issue, err));
        if (in_runs && next < runs->count && runs->run[next].first == i) {
            GAL_TRY(gal_launch_run(queued, &runs->run[next], queued->graph[next], err));
            i = runs->run[next++].end;
        } else {
            GAL_TRY(begin_entry(engine, issue, err));
            i++;
        }
    }
cleanup:
    return code;
}

static void tell_times(const gal_engine *engine)
{
    const gal_queued *queued = engine->queued;
    const gal_tape *tape = queued->tape;
    for (uint32_t i = 0; queued->timed != NULL && tape == &queued->train && i < tape->issue_count; i++) {
        const gal_queue_entry *entry = &tape->queues->entry[tape->issue[i].stream][tape->issue[i].entry];
        const double begin = queued->ops->seconds_between(queued->origin, queued->timed[2 * (size_t)i]);
        const double end = queued->ops->seconds_between(queued->origin, queued->timed[2 * (size_t)i + 1]);
        engine->options.trace.done(engine->options.trace.context, entry->instruction, entry->microbatch,
                                   queued->origin_seconds + begin, queued->origin_seconds + end);
    }
}

gal_code gal_engine_run_queued(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine_idle idle = {0};
    gal_queued *queued = engine->queued;
    gal_engine_begin(engine, queues);
    watch(engine, engine->options.deadline_seconds);
    GAL_TRY(begin_step(engine, queues, err));
    if (queued->in_list_order) {
        GAL_TRY(issue_list(engine, err));
    }
    while (!gal_engine_finished(engine)) {
        GAL_TRY(pass(engine, &idle, err));
    }
    GAL_TRY(gal_host_calls_result(queued, err));
    tell_times(engine);
    if (engine->options.graphs && queued->graph == NULL && queued->tape == &queued->train && engine->fault == NULL) {
        GAL_TRY(gal_capture_runs(engine, err));
    }
cleanup:
    watch(engine, 0.0);
    return code;
}
