#include <stdlib.h>
#include <string.h>

#include "runtime/engine/engine_queued.h"

static gal_code create_tapes(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = engine->program;
    queued->in_list_order = engine->options.comm == NULL || engine->options.comm->ops->queued;
    /* Transfers of a file are where they are in the list as little as its end is. */
    const bool events_anew = queued->in_list_order && program->storage_bytes == 0;
    GAL_TRY(gal_tape_of(program, program->call, program->call_count, &engine->train, events_anew, &queued->train, err));
    GAL_TRY(gal_tape_of(program, program->evaluate_call, program->evaluate_call_count, &engine->evaluate, events_anew,
                        &queued->evaluate, err));
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

/* Kernels of one stream come one after the other and share a workspace. */
static void size_workspaces(const gal_engine *engine, gal_queued *queued)
{
    for (uint32_t i = 0; i < engine->program->instruction_count; i++) {
        const gal_instruction *instruction = &engine->program->instruction[i];
        const gal_ops_queued *ops = gal_engine_ops(engine, instruction)->queued;
        uint64_t *bytes = &queued->workspace_bytes[instruction->stream];
        if (gal_is_kernel(instruction) && ops->workspace_bytes != NULL) {
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
    queued->staging_bytes = queued->step_bytes + larger(train->staging_bytes, evaluate->staging_bytes);
    GAL_TRY(queued->ops->host_allocate(queued->staging_bytes, &staging, err));
    queued->staging = staging;
cleanup:
    return code;
}

/* Two per issue, and the origin. */
static gal_code create_trace(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t count = 2 * queued->train.issue_count;
    if (engine->options.trace.done == NULL) {
        return GAL_OK;
    }
    GAL_ASSERT(!engine->options.graphs);
    queued->timed = calloc((size_t)count + 1, sizeof *queued->timed);
    if (queued->timed == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: events");
    }
    GAL_TRY(queued->ops->event_create(true, &queued->origin, err));
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(queued->ops->event_create(true, &queued->timed[i], err));
    }
cleanup:
    return code;
}

static gal_code create_runs(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    if (!engine->options.graphs) {
        return GAL_OK;
    }
    GAL_ASSERT(queued->in_list_order && queued->ops->capture_begin != NULL);
    GAL_TRY(gal_runs_of(engine->program, &queued->train, &queued->runs, err));
cleanup:
    return code;
}

static gal_code prepare_kernels(const gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < engine->program->instruction_count; i++) {
        const gal_instruction *instruction = &engine->program->instruction[i];
        const gal_ops_queued *ops = gal_engine_ops(engine, instruction)->queued;
        if (gal_is_kernel(instruction) && ops->prepare != NULL) {
            const gal_kernel_call call = gal_queued_call(engine, i, 0);
            GAL_TRY(ops->prepare((gal_op)instruction->op, &call, err));
        }
    }
cleanup:
    return code;
}

void gal_queued_bytes(const gal_engine *engine, uint64_t *workspace_bytes, uint64_t *pinned_bytes)
{
    *workspace_bytes = engine->queued->constant.bytes;
    *pinned_bytes = engine->queued->staging_bytes;
}

/* For what is sent on the tensor stream the next kernel waits, and at the end of a step there are no products. */
static bool communicates_beside_products(const gal_engine *engine)
{
    const gal_program *program = engine->program;
    bool beside = false;
    for (uint32_t i = 0; i < program->instruction_count && !beside; i++) {
        const gal_instruction *instruction = &program->instruction[i];
        const gal_fragment_kind kind = gal_fragment_kind_of(gal_program_fragment_of(program, i));
        beside = gal_op_is_collective[instruction->op] && instruction->stream != GAL_STREAM_TENSOR &&
                 kind != GAL_FRAGMENT_UPDATE && kind != GAL_FRAGMENT_EVALUATE_END;
    }
    return beside && engine->options.comm != NULL && engine->options.comm->ops->queued;
}

gal_code gal_queued_create(gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_kernel_choice choice = engine->options.choice;
    gal_queued *queued = calloc(1, sizeof *queued);
    if (queued == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    const gal_runs no_runs = {.count = 0};
    engine->queued = queued;
    queued->ops = engine->options.device->queue;
    choice.communication_ctas = communicates_beside_products(engine) ? choice.communication_ctas : 0;
    GAL_TRY(engine->options.ops->queued->open(&choice, &queued->context, err));
    GAL_TRY(create_tapes(engine, queued, err));
    GAL_TRY(create_constants(engine, queued, err));
    GAL_TRY(create_queues(queued, err));
    GAL_TRY(gal_host_calls_create(engine, queued, err));
    GAL_TRY(gal_transfers_create(engine, queued, err));
    GAL_TRY(create_trace(engine, queued, err));
    GAL_TRY(create_runs(engine, queued, err));
    GAL_TRY(prepare_kernels(engine, err));
    GAL_TRY(gal_find_fusions(engine, &queued->train, &queued->runs, &queued->train_fusion, err));
    GAL_TRY(gal_find_fusions(engine, &queued->evaluate, &no_runs, &queued->evaluate_fusion, err));
cleanup:
    return code; /* what was made is the engine's to free */
}

static void destroy_events(const gal_queued *queued, void **event, uint32_t count)
{
    for (uint32_t i = 0; event != NULL && i < count; i++) {
        if (event[i] != NULL) {
            queued->ops->event_destroy(event[i]);
        }
    }
    free(event);
}

static void destroy_runs(gal_queued *queued)
{
    for (uint32_t r = 0; queued->graph != NULL && r < queued->runs.count; r++) {
        if (queued->graph[r] != NULL) {
            queued->ops->graph_destroy(queued->graph[r]);
        }
    }
    free(queued->graph);
    gal_runs_free(&queued->runs);
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
    gal_host_calls_free(queued);
    destroy_events(queued, queued->event, queued->event_count);
    destroy_events(queued, queued->mark, queued->mark_count);
    destroy_events(queued, queued->timed, 2 * queued->train.issue_count);
    if (queued->origin != NULL) {
        queued->ops->event_destroy(queued->origin);
    }
    if (queued->settled != NULL) {
        queued->ops->event_destroy(queued->settled);
    }
    gal_transfers_free(queued);
    destroy_runs(queued);
    if (queued->staging != NULL) {
        queued->ops->host_release(queued->staging);
    }
    engine->options.device->release(&queued->constant);
    engine->options.ops->queued->close(queued->context);
    free(queued->sample_offset);
    free(queued->train_fusion);
    free(queued->evaluate_fusion);
    gal_tape_free(&queued->evaluate);
    gal_tape_free(&queued->train);
    free(queued);
    engine->queued = NULL;
}
