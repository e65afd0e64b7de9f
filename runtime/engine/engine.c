#include "runtime/engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/engine/engine_internal.h"

/* ---- what is resolved once ---- */

/* Whether somebody carries an instruction out that is neither a collective nor a load. */
static bool has_kernel(const gal_engine *engine, const gal_instruction *instruction)
{
    const gal_ops *host = engine->options.host_ops;
    if (gal_op_stores((gal_op)instruction->op)) {
        return true; /* the engine's own */
    }
    if (engine->options.device->queue != NULL) {
        switch (instruction->op) {
        case GAL_OP_COPY_OUT:
        case GAL_OP_COPY_IN:
            return true; /* the queues' own */
        case GAL_OP_HOST_ADAM:
        case GAL_OP_HOST_ADAM_PART:
            return host != NULL && host->kernel[instruction->op] != NULL;
        default:
            break;
        }
    }
    return gal_engine_ops(engine, instruction)->kernel[instruction->op] != NULL;
}

static gal_code resolve_instructions(gal_engine *engine, gal_error *err)
{
    const gal_program *program = engine->program;
    engine->operand_offset = calloc((size_t)program->operand_count + 1, sizeof *engine->operand_offset);
    engine->group_index = calloc((size_t)program->instruction_count + 1, sizeof *engine->group_index);
    engine->group_count = calloc((size_t)program->instruction_count + 1, sizeof *engine->group_count);
    if (engine->operand_offset == NULL || engine->group_index == NULL || engine->group_count == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    for (uint32_t i = 0; i < program->operand_count; i++) {
        const gal_operand *operand = &program->operand[i];
        engine->operand_offset[i] = gal_operand_offset(program, operand, engine->device, 0);
    }
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *instruction = &program->instruction[i];
        const bool of_stage = (instruction->group & GAL_GROUP_RELATION) == 0;
        const uint32_t shares = gal_group_size(&program->atoms, instruction->within);
        const uint32_t share = gal_group_index(&program->atoms, instruction->within, engine->device);
        engine->group_count[i] = (of_stage ? gal_group_size(&program->atoms, instruction->group) : 1) * shares;
        engine->group_index[i] =
            (of_stage ? gal_group_index(&program->atoms, instruction->group, engine->device) : 0) * shares + share;
        const bool served = gal_op_is_collective[instruction->op] || gal_op_loads((gal_op)instruction->op);
        if (!served && !has_kernel(engine, instruction)) {
            return gal_fail(err, GAL_ERR_DEVICE, "the %s operators have no %s", engine->options.ops->name,
                            gal_op_names[instruction->op]);
        }
    }
    return GAL_OK;
}

static gal_code resolve_layouts(gal_engine *engine, gal_error *err)
{
    const gal_program *program = engine->program;
    engine->sample_map = calloc((size_t)program->layout_count + 1, sizeof *engine->sample_map);
    engine->position_part = calloc((size_t)program->layout_count + 1, sizeof *engine->position_part);
    if (engine->sample_map == NULL || engine->position_part == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    for (uint32_t l = 1; l < program->layout_count; l++) {
        const gal_layout *layout = &program->layout[l];
        const uint32_t samples = gal_layout_local_samples(layout);
        engine->position_part[l] = gal_group_index(&program->atoms, layout->sequence_group, engine->device);
        uint32_t *map = malloc((size_t)program->microbatch_count * samples * sizeof *map);
        engine->sample_map[l] = map;
        if (map == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
        }
        gal_layout_sample_map(layout, &program->atoms, engine->device, map);
        for (uint32_t m = 1; m < program->microbatch_count; m++) {
            for (uint32_t s = 0; s < samples; s++) {
                map[(size_t)m * samples + s] = map[s] + m * program->microbatch_samples;
            }
        }
    }
    return GAL_OK;
}

static gal_code open_storage(gal_engine *engine, gal_error *err)
{
    const char *directory = engine->options.storage_directory;
    if (directory == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "the plan keeps a part of what it has on storage: it needs --storage DIR");
    }
    return gal_storage_open(directory, engine->program->storage_bytes, engine->options.storage_way, &engine->storage,
                            err);
}

/* What the program has in the host's memory; of a device with queues pinned, so that it copies by itself. What goes to
 * the file begins at a block's address: a backend need not say at which its memory begins. */
static gal_code allocate_host(gal_engine *engine, gal_error *err)
{
    const uint64_t bytes = engine->program->host_bytes;
    const uint64_t aligned_bytes = bytes + (engine->program->storage_bytes > 0 ? GAL_STORAGE_BLOCK_BYTES : 0);
    const gal_device_queue_ops *queue = engine->options.device->queue;
    void *pinned = NULL;
    if (queue == NULL) {
        return gal_device_host.allocate(bytes, engine->options.poison, &engine->host, err);
    }
    const gal_code code = queue->host_allocate(aligned_bytes, &pinned, err);
    if (code == GAL_OK) {
        const uint64_t beyond = (uintptr_t)pinned % GAL_STORAGE_BLOCK_BYTES;
        char *base = (char *)pinned + (aligned_bytes > bytes && beyond > 0 ? GAL_STORAGE_BLOCK_BYTES - beyond : 0);
        memset(base, engine->options.poison ? 0xFF : 0, bytes);
        engine->host = (gal_memory){.base = base, .bytes = bytes, .mapping = pinned, .mapping_bytes = aligned_bytes};
    }
    return code;
}

static void release_host(gal_engine *engine)
{
    const gal_device_queue_ops *queue = engine->options.device->queue;
    if (queue == NULL) {
        gal_device_host.release(&engine->host);
    } else if (engine->host.mapping != NULL) {
        queue->host_release(engine->host.mapping);
    }
}

gal_code gal_engine_create(const gal_program *program, const gal_model *model, uint32_t device,
                           const gal_channels *channels, const gal_engine_options *options, gal_engine **out,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    gal_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: engine");
    }
    GAL_ASSERT(device < program->device_count && options->ops->dtype == program->dtype);
    GAL_ASSERT(gal_dtype_is_narrow(program->dtype) ? options->wide_ops != NULL && options->wide_ops->dtype == GAL_FP32
                                                   : options->wide_ops == NULL);
    GAL_ASSERT(channels->count == 0 || options->comm != NULL);
    GAL_ASSERT(!model->padding || (options->tokens.fill_lengths != NULL && options->tokens.count_targets != NULL));
    GAL_ASSERT((options->device->queue != NULL) == (options->ops->queued != NULL));
    engine->program = program;
    engine->model = model;
    engine->channels = channels;
    engine->options = *options;
    engine->device = device;
    gal_loss_scaling_init(&engine->scaling);
    GAL_TRY(resolve_instructions(engine, err));
    GAL_TRY(resolve_layouts(engine, err));
    GAL_TRY(gal_queues_of(program, program->call, program->call_count, options->order, &engine->train, err));
    GAL_TRY(gal_queues_of(program, program->evaluate_call, program->evaluate_call_count, options->order,
                          &engine->evaluate, err));
    GAL_TRY(options->device->allocate(program->arena_bytes, options->poison, &engine->memory, err));
    if (program->host_bytes > 0) {
        GAL_TRY(allocate_host(engine, err));
        engine->memory.host = &engine->host;
    }
    if (program->storage_bytes > 0) {
        GAL_TRY(open_storage(engine, err));
        engine->memory.storage = engine->storage;
    }
    if (options->device->queue != NULL) {
        GAL_TRY(gal_queued_create(engine, err));
    } else {
        GAL_TRY(gal_polled_create(engine, err));
    }
    *out = engine;
    engine = NULL;
cleanup:
    gal_engine_free(engine);
    return code;
}

void gal_engine_free(gal_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    gal_queued_free(engine);
    gal_polled_free(engine);
    gal_storage_close(engine->storage);
    engine->options.device->release(&engine->memory);
    release_host(engine);
    gal_queues_free(&engine->evaluate);
    gal_queues_free(&engine->train);
    if (engine->sample_map != NULL) {
        for (uint32_t l = 0; l < engine->program->layout_count; l++) {
            free(engine->sample_map[l]);
        }
    }
    free(engine->sample_map);
    free(engine->position_part);
    free(engine->operand_offset);
    free(engine->group_index);
    free(engine->group_count);
    free(engine);
}

const gal_memory *gal_engine_memory(const gal_engine *engine)
{
    return &engine->memory;
}

gal_engine_bytes gal_engine_bytes_of(const gal_engine *engine)
{
    gal_engine_bytes bytes = {.arena_bytes = engine->memory.bytes, .host_bytes = engine->host.bytes};
    if (engine->storage != NULL) {
        bytes.storage_bytes = gal_storage_facts_of(engine->storage).bytes;
    }
    if (engine->queued != NULL) {
        gal_queued_bytes(engine, &bytes.workspace_bytes, &bytes.pinned_bytes);
    }
    return bytes;
}

const gal_queues *gal_engine_queues(const gal_engine *engine)
{
    return &engine->train;
}

/* ---- steps ---- */

/* Targets of the global batch that are in the loss. */
static gal_code count_targets(const gal_engine *engine, uint64_t batch, bool evaluation, double *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_token_source *source = &engine->options.tokens;
    uint64_t count = (uint64_t)engine->program->microbatch_samples * engine->program->microbatch_count *
                     gal_model_loss_positions(engine->model);
    if (engine->model->padding) {
        GAL_TRY(source->count_targets(source->context, batch, evaluation, &count, err));
    }
    *out = (double)count;
cleanup:
    return code;
}

static gal_code set_step(gal_engine *engine, uint64_t step, uint64_t seed, double learning_rate, bool training,
                         gal_error *err)
{
    double target_count = 0.0;
    const gal_code code = count_targets(engine, step, !training, &target_count, err);
    if (code != GAL_OK) {
        return code;
    }
    engine->step = (gal_kernel_step){
        .model = engine->model,
        .seed = seed,
        .step = step,
        .learning_rate = learning_rate,
        .loss_scale = 1.0 / target_count,
        .gradient_scale = engine->program->dtype == GAL_FP16 ? engine->scaling.scale : 0.0,
        .training = training,
    };
    engine->evaluating = !training;
    return GAL_OK;
}

static gal_code run(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    return (engine->queued != NULL ? gal_engine_run_queued : gal_engine_run_polled)(engine, queues, err);
}

gal_code gal_engine_step(gal_engine *engine, const gal_step_settings *settings, gal_step_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double norm[2];
    GAL_TRY(set_step(engine, settings->step, settings->seed, settings->learning_rate, true, err));
    GAL_TRY(run(engine, &engine->train, err));
    gal_engine_read_norm(engine, norm);
    out->gradient_norm = sqrt(norm[0]);
    out->loss = norm[1] * engine->step.loss_scale;
    engine->overflowed = engine->step.gradient_scale > 1.0 && isfinite(norm[1]) && !isfinite(norm[0]);
    gal_loss_scaling_update(&engine->scaling, isfinite(norm[0]) && isfinite(norm[1]));
cleanup:
    return code;
}

bool gal_engine_overflowed(const gal_engine *engine)
{
    return engine->overflowed;
}

gal_loss_scaling gal_engine_loss_scaling(const gal_engine *engine)
{
    return engine->scaling;
}

void gal_engine_set_loss_scaling(gal_engine *engine, gal_loss_scaling scaling)
{
    engine->scaling = scaling;
}

gal_code gal_engine_find_fault(gal_engine *engine, const gal_step_settings *settings, gal_engine_fault *out,
                               gal_error *err)
{
    gal_step_result result;
    gal_engine_fault fault = {0};
    const gal_loss_scaling scaling = engine->scaling;
    engine->scaling.scale = engine->step.gradient_scale; /* as it was in that step */
    engine->fault = &fault;
    const gal_code code = gal_engine_step(engine, settings, &result, err);
    engine->fault = NULL;
    engine->scaling = scaling;
    if (code == GAL_OK) {
        *out = fault;
    }
    return code;
}

/* The second number of the loss, which ranks that share a vocabulary all have. */
static double own_right_share(const gal_engine *engine)
{
    const gal_program *program = engine->program;
    double values[2] = {0.0, 0.0};
    double replicas = 1.0;
    if (program->loss_buffer != GAL_NO_BUFFER) {
        const gal_buffer *buffer = &program->buffer[program->loss_buffer];
        engine->options.device->read(&engine->memory, program->arena[buffer->class].offset + buffer->offset, values,
                                     sizeof values);
        const gal_fragment *end = &program->fragment[GAL_FRAGMENT_EVALUATE_END];
        const gal_instruction *start = &program->instruction[end->first];
        GAL_ASSERT(start->op == GAL_OP_NORM_START);
        replicas = program->shape[start->shape].dims[0];
    }
    return values[1] / replicas * engine->step.loss_scale;
}

gal_code gal_engine_evaluate(gal_engine *engine, uint64_t batch, double *loss, double *right_share, gal_error *err)
{
    gal_code code = GAL_OK;
    double norm[2];
    GAL_TRY(set_step(engine, batch, 0, 0.0, false, err));
    GAL_TRY(run(engine, &engine->evaluate, err));
    gal_engine_read_norm(engine, norm);
    *loss = norm[1] * engine->step.loss_scale;
    if (right_share != NULL) {
        *right_share = own_right_share(engine);
    }
cleanup:
    return code;
}
