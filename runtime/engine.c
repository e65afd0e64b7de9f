#include "runtime/engine.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/queues.h"

struct gal_engine {
    const gal_program *program;
    const gal_model *model;
    const gal_channels *channels;
    gal_engine_options options;
    uint32_t device;
    gal_memory memory;
    uint64_t *operand_offset; /* [operand] of item 0 */
    uint32_t *group_index;    /* [instruction] */
    uint32_t *group_count;    /* [instruction] */
    uint32_t **sample_map;    /* [layout]: [microbatch][local sample] of the global batch; NULL for layout 0 */
    uint32_t *position_part;  /* [layout]: which of its equal parts of the positions lies here */
    gal_queues train, evaluate;

    const gal_queues *running;
    uint32_t completed[GAL_STREAM_COUNT];
    bool in_flight[GAL_STREAM_COUNT];
    uint32_t handle[GAL_STREAM_COUNT];
    double start_seconds[GAL_STREAM_COUNT];
    gal_kernel_step step;
    bool evaluating;
    gal_engine_fault *fault; /* NULL: results are not looked at */
};

/* ---- what is resolved once ---- */

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
        engine->group_count[i] = of_stage ? gal_group_size(&program->atoms, instruction->group) : 1;
        engine->group_index[i] = of_stage ? gal_group_index(&program->atoms, instruction->group, engine->device) : 0;
        const bool served = gal_op_is_collective[instruction->op] || gal_op_loads((gal_op)instruction->op);
        if (!served && engine->options.ops->kernel[instruction->op] == NULL) {
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
    GAL_ASSERT(channels->count == 0 || options->comm != NULL);
    engine->program = program;
    engine->model = model;
    engine->channels = channels;
    engine->options = *options;
    engine->device = device;
    GAL_TRY(resolve_instructions(engine, err));
    GAL_TRY(resolve_layouts(engine, err));
    GAL_TRY(gal_queues_of(program, program->call, program->call_count, options->order, &engine->train, err));
    GAL_TRY(gal_queues_of(program, program->evaluate_call, program->evaluate_call_count, options->order,
                          &engine->evaluate, err));
    GAL_TRY(options->device->allocate(program->arena_bytes, options->poison, &engine->memory, err));
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
    engine->options.device->release(&engine->memory);
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

const gal_queues *gal_engine_queues(const gal_engine *engine)
{
    return &engine->train;
}

/* ---- one instruction ---- */

static void *address(const gal_engine *engine, const gal_instruction *instruction, uint32_t operand,
                     uint32_t microbatch)
{
    const gal_program *program = engine->program;
    const uint32_t index = instruction->first_operand + operand;
    const gal_class_arena *arena = &program->arena[program->buffer[program->operand[index].buffer].arena];
    return (char *)engine->memory.base + engine->operand_offset[index] +
           (uint64_t)(microbatch % arena->count) * arena->item_bytes;
}

static const uint32_t *samples_of(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch)
{
    const uint32_t layout = instruction->layout;
    if (layout == 0) {
        return NULL;
    }
    const uint32_t samples = gal_layout_local_samples(&engine->program->layout[layout]);
    return engine->sample_map[layout] + (size_t)microbatch * samples;
}

static gal_code load_patches(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch,
                             gal_error *err)
{
    const gal_shape *shape = &engine->program->shape[instruction->shape];
    const gal_token_source *source = &engine->options.tokens;
    const gal_patch_request request = {
        .batch = engine->step.step,
        .samples = samples_of(engine, instruction, microbatch),
        .sample_count = shape->dims[0],
        .position_begin = engine->position_part[instruction->layout] * shape->dims[1],
        .position_count = shape->dims[1],
        .features = shape->dims[2],
        .dtype = shape->dtype,
        .evaluation = engine->evaluating,
    };
    return source->fill_patches(source->context, &request, address(engine, instruction, 0, microbatch), err);
}

static gal_code load(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch, gal_error *err)
{
    const gal_shape *shape = &engine->program->shape[instruction->shape];
    const gal_token_request request = {
        .batch = engine->step.step,
        .samples = samples_of(engine, instruction, microbatch),
        .sample_count = shape->dims[0],
        .sequence_length = shape->dims[1],
        .targets = instruction->op == GAL_OP_LOAD_TARGETS,
        .decoder = instruction->op == GAL_OP_LOAD_DECODER_TOKENS,
        .evaluation = engine->evaluating,
    };
    return engine->options.tokens.fill(engine->options.tokens.context, &request,
                                       address(engine, instruction, 0, microbatch), err);
}

static gal_code run_kernel(const gal_engine *engine, uint32_t index, uint32_t microbatch, gal_error *err)
{
    const gal_program *program = engine->program;
    const gal_instruction *instruction = &program->instruction[index];
    if (gal_op_loads((gal_op)instruction->op)) {
        const bool patches = instruction->op == GAL_OP_LOAD_PATCHES;
        return (patches ? load_patches : load)(engine, instruction, microbatch, err);
    }
    gal_kernel_call call = {
        .dims = program->shape[instruction->shape].dims,
        .operand_count = instruction->operand_count,
        .group_index = engine->group_index[index],
        .group_count = engine->group_count[index],
        .sample_map = samples_of(engine, instruction, microbatch),
        .position_begin = engine->position_part[instruction->layout] * program->shape[instruction->shape].dims[1],
        .block = instruction->block,
        .step = &engine->step,
    };
    for (uint32_t o = 0; o < instruction->operand_count; o++) {
        const uint8_t access = program->operand[instruction->first_operand + o].access;
        call.operand[o] = address(engine, instruction, o, microbatch);
        call.add = call.add || access == GAL_UPDATE || (access == GAL_ACCUMULATE && microbatch > 0);
    }
    return engine->options.ops->kernel[instruction->op](&call, err);
}

static void read_norm(const gal_engine *engine, double norm[2])
{
    const gal_program *program = engine->program;
    norm[0] = norm[1] = 0.0;
    if (program->norm_buffer == GAL_NO_BUFFER) {
        return;
    }
    const gal_buffer *buffer = &program->buffer[program->norm_buffer];
    engine->options.device->read(&engine->memory, program->arena[buffer->class].offset + buffer->offset, norm,
                                 2 * sizeof *norm);
}

/* The norm and the loss are the same on all ranks by the time of the updates: so is the decision. */
static bool must_not_update(const gal_engine *engine)
{
    double norm[2];
    read_norm(engine, norm);
    return !isfinite(norm[0]) || !isfinite(norm[1]);
}

static bool all_finite(const void *values, uint64_t bytes, gal_dtype dtype)
{
    const double *wide = values;
    const float *narrow = values;
    bool finite = true;
    for (uint64_t i = 0; i < bytes / gal_dtype_bytes(dtype); i++) {
        finite = finite && isfinite(dtype == GAL_FP64 ? wide[i] : (double)narrow[i]);
    }
    return finite;
}

/* What a kernel writes that has no infinities of its own: the largest logit of padding is -inf. */
static bool is_looked_at(uint8_t op)
{
    return !gal_op_is_collective[op] && !gal_op_loads((gal_op)op) && op != GAL_OP_CROSS_ENTROPY_MAX &&
           op != GAL_OP_ADAM;
}

/* Losses and norms are fp64 in every program. */
static gal_dtype written_dtype(const gal_program *program, uint8_t op)
{
    const bool is_sum = op == GAL_OP_CROSS_ENTROPY_LOSS || op == GAL_OP_NORM_START || op == GAL_OP_SUM_SQUARES;
    return is_sum ? GAL_FP64 : program->dtype;
}

static void look_for_fault(const gal_engine *engine, uint32_t index, uint32_t microbatch)
{
    const gal_program *program = engine->program;
    const gal_instruction *instruction = &program->instruction[index];
    if (engine->fault->found || !is_looked_at(instruction->op)) {
        return;
    }
    for (uint32_t o = 0; o < instruction->operand_count; o++) {
        const gal_operand *operand = &program->operand[instruction->first_operand + o];
        if (operand->access != GAL_READ && operand->view == GAL_GROUP_NONE &&
            !all_finite(address(engine, instruction, o, microbatch), operand->bytes,
                        written_dtype(program, instruction->op))) {
            *engine->fault = (gal_engine_fault){
                .found = true,
                .forward = gal_fragment_kind_of(gal_program_fragment_of(program, index)) == GAL_FRAGMENT_FORWARD,
                .block = instruction->block,
            };
        }
    }
}

/* A group of one: what the collective would have moved is here already, or one copy away. */
static void run_alone(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch)
{
    const gal_shape *shape = &engine->program->shape[instruction->shape];
    GAL_ASSERT(instruction->op != GAL_OP_SEND && instruction->op != GAL_OP_RECEIVE);
    if (instruction->operand_count == 2) {
        memmove(address(engine, instruction, 1, microbatch), address(engine, instruction, 0, microbatch),
                shape->dims[0] * gal_dtype_bytes(shape->dtype));
    }
}

static gal_code start_collective(gal_engine *engine, uint32_t index, uint32_t microbatch, gal_error *err)
{
    const gal_program *program = engine->program;
    const gal_instruction *instruction = &program->instruction[index];
    const gal_shape *shape = &program->shape[instruction->shape];
    const bool in_place =
        (instruction->op == GAL_OP_ALL_GATHER || instruction->op == GAL_OP_REDUCE_SCATTER) && shape->dims[1] != 0;
    void *first = address(engine, instruction, 0, microbatch);
    gal_comm_request request = {
        .op = (gal_op)instruction->op,
        .channel = engine->channels->of_instruction[index],
        .peer = instruction->group == GAL_GROUP_NEXT ? 1 : 0,
        .dtype = shape->dtype,
        .reduce = instruction->op == GAL_OP_ALL_REDUCE ? shape->dims[1] : GAL_REDUCE_SUM,
        .elements = shape->dims[0],
        .in_place = in_place,
    };
    if (instruction->op == GAL_OP_SEND) {
        request.source = first;
    } else if (instruction->operand_count == 2) {
        request.source = first;
        request.target = address(engine, instruction, 1, microbatch);
    } else {
        request.target = first;
    }
    return engine->options.comm->ops->start(engine->options.comm, &request, &engine->handle[instruction->stream], err);
}

/* ---- queues ---- */

static void complete(gal_engine *engine, uint32_t stream)
{
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    engine->in_flight[stream] = false;
    engine->completed[stream]++;
    if (engine->options.trace.done != NULL) {
        engine->options.trace.done(engine->options.trace.context, entry->instruction, entry->microbatch,
                                   engine->start_seconds[stream], gal_now_seconds());
    }
}

/* Moves the head of a stream on by one state: starts it, or finds it complete. Kernels do both. */
static gal_code advance(gal_engine *engine, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    if (engine->completed[stream] == engine->running->count[stream]) {
        return GAL_OK;
    }
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    if (engine->in_flight[stream]) {
        bool done = false;
        GAL_TRY(engine->options.comm->ops->test(engine->options.comm, engine->handle[stream], &done, err));
        if (done) {
            complete(engine, stream);
            *moved = true;
        }
        return GAL_OK;
    }
    if (!gal_queue_ready(engine->running, entry, engine->completed)) {
        return GAL_OK;
    }
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    if (engine->options.trace.done != NULL) {
        engine->start_seconds[stream] = gal_now_seconds();
    }
    *moved = true;
    if (!gal_op_is_collective[instruction->op]) {
        if (instruction->op != GAL_OP_ADAM || !must_not_update(engine)) {
            GAL_TRY(run_kernel(engine, entry->instruction, entry->microbatch, err));
        }
        if (engine->fault != NULL) {
            look_for_fault(engine, entry->instruction, entry->microbatch);
        }
        complete(engine, stream);
    } else if (engine->channels->of_instruction[entry->instruction] == GAL_NO_CHANNEL) {
        run_alone(engine, instruction, entry->microbatch);
        complete(engine, stream);
    } else {
        GAL_TRY(start_collective(engine, entry->instruction, entry->microbatch, err));
        engine->in_flight[stream] = true;
    }
cleanup:
    return code;
}

/* Moves a stream on until its head neither starts nor completes. A collective that follows one that is complete starts
 * now and not a kernel later. */
static gal_code drain(gal_engine *engine, uint32_t stream, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    bool moving = true;
    while (moving) {
        moving = false;
        GAL_TRY(advance(engine, stream, &moving, err));
        *moved = *moved || moving;
    }
cleanup:
    return code;
}

static bool finished(const gal_engine *engine)
{
    return memcmp(engine->completed, engine->running->count, sizeof engine->completed) == 0;
}

/* "; forward of microbatch 1, waits for its peers: tensor all_reduce ..." behind text; columns become one blank. */
static void put_head(const gal_engine *engine, uint32_t stream, char *text, size_t capacity)
{
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    char line[256], name[64];
    gal_instruction_print(engine->program, entry->instruction, line, sizeof line);
    size_t used = strlen(text);
    const int written =
        snprintf(text + used, capacity - used, "; %s of microbatch %u, %s: ",
                 gal_fragment_name(engine->program, gal_program_fragment_of(engine->program, entry->instruction), name),
                 entry->microbatch, engine->in_flight[stream] ? "waits for its peers" : "not started");
    used += written > 0 ? (size_t)written : 0;
    for (const char *at = line; *at != '\0' && used + 1 < capacity; at++) {
        if (*at != ' ' || (at > line && at[-1] != ' ')) {
            text[used++] = *at;
        }
    }
    text[used < capacity ? used : capacity - 1] = '\0';
}

enum { WAITS_MAX = 4, WAIT_BYTES = 256 };

/* What this rank waits for others in, for the roll call, which ends all ranks if it is enabled. */
static void call_roll(const gal_engine *engine)
{
    char text[WAITS_MAX][WAIT_BYTES];
    gal_comm_wait wait[WAITS_MAX];
    uint32_t count = 0;
    gal_comm *comm = engine->options.comm;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT && count < WAITS_MAX; stream++) {
        if (!engine->in_flight[stream]) {
            continue;
        }
        const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
        const gal_channel_spec *spec = &engine->channels->spec[engine->channels->of_instruction[entry->instruction]];
        snprintf(text[count], WAIT_BYTES, "%s %llu", engine->evaluating ? "evaluated batch" : "step",
                 (unsigned long long)engine->step.step + 1);
        put_head(engine, stream, text[count], WAIT_BYTES);
        wait[count] = (gal_comm_wait){.text = text[count], .ranks = spec->ranks, .rank_count = spec->rank_count};
        count++;
    }
    if (count == 0) {
        wait[count++] = (gal_comm_wait){.text = "a step, with nothing in flight"};
    }
    comm->ops->roll_call(comm, wait, count, engine->options.deadline_seconds);
}

/* Names the heads of the streams: first those that wait for other ranks, which are the cause. */
static gal_code stuck(const gal_engine *engine, gal_error *err)
{
    char heads[GAL_ERROR_TEXT_BYTES] = "";
    for (int in_flight = 1; in_flight >= 0; in_flight--) {
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            if (engine->completed[stream] < engine->running->count[stream] &&
                engine->in_flight[stream] == (in_flight != 0)) {
                put_head(engine, stream, heads, sizeof heads);
            }
        }
    }
    return gal_fail(err, GAL_ERR_DEVICE, "no progress for %.0f s in %s %llu (stage %u, device %u)%s",
                    engine->options.deadline_seconds, engine->evaluating ? "evaluated batch" : "step",
                    (unsigned long long)engine->step.step, engine->program->stage, engine->device, heads);
}

/* Nothing has moved since idle_since_seconds: an error, or the end of all ranks, if that is too long ago or another
 * rank says so. */
static gal_code wait_on(const gal_engine *engine, double idle_since_seconds, double now_seconds, double *listen_seconds,
                        gal_error *err)
{
    const double idle_seconds = now_seconds - idle_since_seconds;
    const double deadline_seconds = engine->options.deadline_seconds;
    const gal_comm *comm = engine->options.comm;
    if (comm != NULL && comm->ops->roll_call != NULL) {
        bool called = idle_seconds > deadline_seconds - gal_roll_call_seconds(deadline_seconds);
        if (!called && now_seconds > *listen_seconds) {
            called = comm->ops->called(engine->options.comm);
            *listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS;
        }
        if (called) {
            call_roll(engine);
        }
    }
    return idle_seconds > deadline_seconds ? stuck(engine, err) : GAL_OK;
}

static gal_code run(gal_engine *engine, const gal_queues *queues, gal_error *err)
{
    gal_code code = GAL_OK;
    double idle_since_seconds = 0.0, listen_seconds = 0.0;
    engine->running = queues;
    memset(engine->completed, 0, sizeof engine->completed);
    memset(engine->in_flight, 0, sizeof engine->in_flight);
    while (!finished(engine)) {
        bool moved = false;
        /* Communication first: what it frees or brings, compute may use in this very pass. */
        for (uint32_t stream = GAL_STREAM_COMPUTE + 1; stream < GAL_STREAM_COUNT; stream++) {
            GAL_TRY(drain(engine, stream, &moved, err));
        }
        GAL_TRY(advance(engine, GAL_STREAM_COMPUTE, &moved, err));
        if (moved) {
            idle_since_seconds = 0.0;
            continue;
        }
        const double now_seconds = gal_now_seconds();
        if (idle_since_seconds <= 0.0) {
            idle_since_seconds = now_seconds;
            listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS;
        }
        GAL_TRY(wait_on(engine, idle_since_seconds, now_seconds, &listen_seconds, err));
        sched_yield(); /* the peer that this rank waits for may need the core */
    }
cleanup:
    return code;
}

/* ---- steps ---- */

static void set_step(gal_engine *engine, uint64_t step, uint64_t seed, double learning_rate, bool training)
{
    const double global_batch_samples =
        (double)engine->program->microbatch_samples * (double)engine->program->microbatch_count;
    engine->step = (gal_kernel_step){
        .model = engine->model,
        .seed = seed,
        .step = step,
        .learning_rate = learning_rate,
        .loss_scale = 1.0 / (global_batch_samples * (double)gal_model_loss_positions(engine->model)),
        .training = training,
    };
    engine->evaluating = !training;
}

gal_code gal_engine_step(gal_engine *engine, const gal_step_settings *settings, gal_step_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double norm[2];
    set_step(engine, settings->step, settings->seed, settings->learning_rate, true);
    GAL_TRY(run(engine, &engine->train, err));
    read_norm(engine, norm);
    out->gradient_norm = sqrt(norm[0]);
    out->loss = norm[1] * engine->step.loss_scale;
cleanup:
    return code;
}

gal_code gal_engine_find_fault(gal_engine *engine, const gal_step_settings *settings, gal_engine_fault *out,
                               gal_error *err)
{
    gal_step_result result;
    gal_engine_fault fault = {0};
    engine->fault = &fault;
    const gal_code code = gal_engine_step(engine, settings, &result, err);
    engine->fault = NULL;
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
    set_step(engine, batch, 0, 0.0, false);
    GAL_TRY(run(engine, &engine->evaluate, err));
    read_norm(engine, norm);
    *loss = norm[1] * engine->step.loss_scale;
    if (right_share != NULL) {
        *right_share = own_right_share(engine);
    }
cleanup:
    return code;
}
