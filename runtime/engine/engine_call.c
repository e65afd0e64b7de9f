#include <math.h>
#include <stdlib.h>

#include "runtime/engine/engine_internal.h"

/* In the rank's arena, behind it in the host's memory, or behind that in the file. */
static uint64_t offset_of(const gal_engine *engine, const gal_instruction *instruction, uint32_t operand,
                          uint32_t microbatch)
{
    const gal_program *program = engine->program;
    const uint32_t index = instruction->first_operand + operand;
    const gal_class_arena *arena = &program->arena[program->buffer[program->operand[index].buffer].arena];
    return engine->operand_offset[index] + (uint64_t)(microbatch % arena->count) * arena->item_bytes;
}

void *gal_engine_address(const gal_engine *engine, const gal_instruction *instruction, uint32_t operand,
                         uint32_t microbatch)
{
    const uint64_t offset = offset_of(engine, instruction, operand, microbatch);
    return offset < engine->memory.bytes ? (char *)engine->memory.base + offset
                                         : (char *)engine->host.base + (offset - engine->memory.bytes);
}

/* [samples] of the instruction's layout in the global batch, on the host; NULL without a layout. */
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
                             void *out, gal_error *err)
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
    return source->fill_patches(source->context, &request, out, err);
}

gal_code gal_engine_load(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch, void *out,
                         gal_error *err)
{
    const gal_shape *shape = &engine->program->shape[instruction->shape];
    const gal_token_request request = {
        .batch = engine->step.step,
        .samples = samples_of(engine, instruction, microbatch),
        .sample_count = shape->dims[0],
        .position_begin = engine->position_part[instruction->layout] * shape->dims[1],
        .sequence_length = shape->dims[1],
        .targets = instruction->op == GAL_OP_LOAD_TARGETS,
        .decoder = instruction->op == GAL_OP_LOAD_DECODER_TOKENS,
        .evaluation = engine->evaluating,
    };
    if (instruction->op == GAL_OP_LOAD_PATCHES) {
        return load_patches(engine, instruction, microbatch, out, err);
    }
    const gal_token_source *source = &engine->options.tokens;
    return (instruction->op == GAL_OP_LOAD_LENGTHS ? source->fill_lengths : source->fill)(source->context, &request,
                                                                                          out, err);
}

gal_kernel_call gal_engine_kernel_call(const gal_engine *engine, uint32_t index, uint32_t microbatch)
{
    const gal_program *program = engine->program;
    const gal_instruction *instruction = &program->instruction[index];
    gal_kernel_call call = {
        .dims = program->shape[instruction->shape].dims,
        .operand_count = instruction->operand_count,
        .group_index = engine->group_index[index],
        .group_count = engine->group_count[index],
        .within_index = gal_group_index(&program->atoms, instruction->within, engine->device),
        .within_count = gal_group_size(&program->atoms, instruction->within),
        .sample_map = samples_of(engine, instruction, microbatch),
        .position_begin = engine->position_part[instruction->layout] * program->shape[instruction->shape].dims[1],
        .block = instruction->block,
        .step = &engine->step,
    };
    for (uint32_t o = 0; o < instruction->operand_count; o++) {
        const uint8_t access = program->operand[instruction->first_operand + o].access;
        call.operand[o] = gal_engine_address(engine, instruction, o, microbatch);
        call.add = call.add || access == GAL_UPDATE || (access == GAL_ACCUMULATE && microbatch > 0);
    }
    return call;
}

void gal_engine_read_norm(const gal_engine *engine, double norm[2])
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

/* 16-bit types: infinities and NaNs have all bits of the exponent set. */
static bool is_finite_at(const void *values, size_t i, gal_dtype dtype)
{
    switch (dtype) {
    case GAL_FP64:
        return isfinite(((const double *)values)[i]);
    case GAL_FP32:
        return isfinite(((const float *)values)[i]);
    case GAL_BF16:
        return (((const uint16_t *)values)[i] & 0x7F80u) != 0x7F80u;
    default:
        return (((const uint16_t *)values)[i] & 0x7C00u) != 0x7C00u;
    }
}

enum { LOOK_BYTES = 1 << 16 };

/* Of `bytes` of the arena, read part by part to `room`, of LOOK_BYTES. */
static bool all_finite(const gal_engine *engine, uint64_t offset, uint64_t bytes, gal_dtype dtype, void *room)
{
    bool finite = true;
    for (uint64_t at = 0; finite && at < bytes; at += LOOK_BYTES) {
        const uint64_t part_bytes = bytes - at < LOOK_BYTES ? bytes - at : LOOK_BYTES;
        engine->options.device->read(&engine->memory, offset + at, room, part_bytes);
        for (size_t i = 0; i < part_bytes / gal_dtype_bytes(dtype); i++) {
            finite = finite && is_finite_at(room, i, dtype);
        }
    }
    return finite;
}

/* What a kernel writes that has no infinities of its own: the largest logit of padding is -inf. */
static bool is_looked_at(uint8_t op)
{
    return !gal_op_is_collective[op] && !gal_op_loads((gal_op)op) && op != GAL_OP_CROSS_ENTROPY_MAX &&
           op != GAL_OP_ADAM && op != GAL_OP_ADAM_IN_PLACE && op != GAL_OP_HOST_ADAM && op != GAL_OP_HOST_ADAM_PART &&
           !gal_op_stores((gal_op)op) && op != GAL_OP_COPY_OUT && op != GAL_OP_COPY_IN;
}

gal_code gal_engine_look_for_fault(const gal_engine *engine, uint32_t index, uint32_t microbatch, gal_error *err)
{
    const gal_program *program = engine->program;
    const gal_instruction *instruction = &program->instruction[index];
    if (engine->fault->found || !is_looked_at(instruction->op)) {
        return GAL_OK;
    }
    void *room = malloc(LOOK_BYTES);
    if (room == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a look at the results");
    }
    for (uint32_t o = 0; o < instruction->operand_count; o++) {
        const gal_operand *operand = &program->operand[instruction->first_operand + o];
        const char *begin = gal_engine_address(engine, instruction, o, microbatch);
        if (operand->access != GAL_READ && operand->view == GAL_GROUP_NONE &&
            !all_finite(engine, (uint64_t)(begin - (const char *)engine->memory.base), operand->bytes,
                        gal_operand_dtype(&program->shape[instruction->shape], o), room)) {
            *engine->fault = (gal_engine_fault){
                .found = true,
                .forward = gal_fragment_kind_of(gal_program_fragment_of(program, index)) == GAL_FRAGMENT_FORWARD,
                .block = instruction->block,
            };
        }
    }
    free(room);
    return GAL_OK;
}

static gal_storage_direction direction_of(const gal_instruction *instruction)
{
    return instruction->op == GAL_OP_STORAGE_READ ? GAL_STORAGE_READ : GAL_STORAGE_WRITE;
}

gal_code gal_engine_start_transfer(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch,
                                   gal_error *err)
{
    const gal_storage_direction direction = direction_of(instruction);
    const uint32_t file = direction == GAL_STORAGE_READ ? 0 : 1, memory = 1 - file;
    const uint64_t offset = offset_of(engine, instruction, file, microbatch);
    const uint64_t bytes = engine->program->operand[instruction->first_operand + file].bytes;
    return gal_storage_start(engine->storage, direction, offset - engine->memory.bytes - engine->host.bytes,
                             gal_engine_address(engine, instruction, memory, microbatch),
                             gal_align_in(GAL_CLASS_STORAGE, bytes), err);
}

gal_code gal_engine_test_transfer(const gal_engine *engine, const gal_instruction *instruction, bool *done,
                                  gal_error *err)
{
    return gal_storage_test(engine->storage, direction_of(instruction), done, err);
}

gal_engine_copy gal_engine_alone(const gal_engine *engine, const gal_instruction *instruction, uint32_t microbatch)
{
    const gal_shape *shape = &engine->program->shape[instruction->shape];
    GAL_ASSERT(instruction->op != GAL_OP_SEND && instruction->op != GAL_OP_RECEIVE);
    if (instruction->operand_count != 2) {
        return (gal_engine_copy){.bytes = 0};
    }
    return (gal_engine_copy){.source = gal_engine_address(engine, instruction, 0, microbatch),
                             .target = gal_engine_address(engine, instruction, 1, microbatch),
                             .bytes = shape->dims[0] * gal_dtype_bytes(shape->dtype)};
}

gal_comm_request gal_engine_request(const gal_engine *engine, uint32_t index, uint32_t microbatch)
{
    const gal_program *program = engine->program;
    const gal_instruction *instruction = &program->instruction[index];
    const gal_shape *shape = &program->shape[instruction->shape];
    const bool in_place =
        (instruction->op == GAL_OP_ALL_GATHER || instruction->op == GAL_OP_REDUCE_SCATTER) && shape->dims[1] != 0;
    void *first = gal_engine_address(engine, instruction, 0, microbatch);
    gal_comm_request request = {
        .op = (gal_op)instruction->op,
        .channel = engine->channels->of_instruction[index],
        .peer = instruction->op == GAL_OP_BROADCAST || instruction->op == GAL_OP_REDUCE ? shape->dims[1]
                : instruction->group == GAL_GROUP_NEXT                                  ? 1
                                                                                        : 0,
        .dtype = shape->dtype,
        .reduce = instruction->op == GAL_OP_ALL_REDUCE ? shape->dims[1] : GAL_REDUCE_SUM,
        .elements = shape->dims[0],
        .in_place = in_place,
    };
    if (instruction->op == GAL_OP_SEND) {
        request.source = first;
    } else if (instruction->operand_count == 2) {
        request.source = first;
        request.target = gal_engine_address(engine, instruction, 1, microbatch);
    } else {
        request.target = first;
    }
    return request;
}
