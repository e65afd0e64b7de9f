#include "runtime/program/builder.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const gal_stream_names[GAL_STREAM_COUNT] = {
#define X(enumerator, name) name,
    GAL_STREAMS(X)
#undef X
};
const char *const gal_class_names[GAL_CLASS_COUNT] = {
#define X(enumerator, name) name,
    GAL_CLASSES(X)
#undef X
};
const char *const gal_fragment_names[GAL_FRAGMENT_COUNT] = {
#define X(enumerator, name) name,
    GAL_FRAGMENTS(X)
#undef X
};

/* The arrays that an emptied program keeps. */
typedef struct kept_memory {
    gal_instruction *instruction;
    gal_operand *operand;
    gal_wait *wait;
    gal_shape *shape;
    gal_buffer *buffer;
    gal_layout *layout;
    gal_unit *unit;
    gal_parameter *parameter;
    gal_segment *segment;
    gal_life *life;
    gal_program_room room;
} kept_memory;

bool gal_stage_set_has(const gal_stage_set *set, uint32_t stage)
{
    for (uint32_t i = 0; i < set->range_count; i++) {
        if (stage >= set->range[i].first && stage < set->range[i].end) {
            return true;
        }
    }
    return false;
}

uint32_t gal_stage_set_count(const gal_stage_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->range_count; i++) {
        count += set->range[i].end - set->range[i].first;
    }
    return count;
}

void gal_program_free(gal_program *program)
{
    if (program == NULL) {
        return;
    }
    free(program->evaluate_call);
    free(program->life);
    free(program->segment);
    free(program->call);
    free(program->parameter);
    free(program->unit);
    free(program->layout);
    free(program->buffer);
    free(program->shape);
    free(program->wait);
    free(program->operand);
    free(program->instruction);
    free(program);
}

/* What is in use of the long arrays at the end is cleared, not all of them: a price empties programs all the time. */
void gal_program_empty(gal_program *program)
{
    const kept_memory kept = {program->instruction, program->operand, program->wait, program->shape,
                              program->buffer,      program->layout,  program->unit, program->parameter,
                              program->segment,     program->life,    program->room};
    if (program->chunk_count > 0) {
        memset(program->fragment, 0, gal_program_fragments(program) * sizeof program->fragment[0]);
        memset(program->arena, 0, gal_program_arenas(program) * sizeof program->arena[0]);
    }
    free(program->evaluate_call);
    free(program->call);
    memset(program, 0, offsetof(gal_program, fragment));
    program->instruction = kept.instruction;
    program->operand = kept.operand;
    program->wait = kept.wait;
    program->shape = kept.shape;
    program->buffer = kept.buffer;
    program->layout = kept.layout;
    program->unit = kept.unit;
    program->parameter = kept.parameter;
    program->segment = kept.segment;
    program->life = kept.life;
    program->room = kept.room;
}

/* Of an array that may be empty. */
static void *copy_of(const void *array, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    return copy == NULL || bytes == 0 ? copy : memcpy(copy, array, bytes);
}

gal_program *gal_program_copy_lists(const gal_program *program)
{
    const gal_program *p = program;
    const size_t arenas_bytes = gal_program_arenas(p) * sizeof p->arena[0];
    gal_program *copy = malloc(offsetof(gal_program, arena) + arenas_bytes); /* of the last long array what is in use */
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, p, offsetof(gal_program, fragment));
    memcpy(copy->fragment, p->fragment, gal_program_fragments(p) * sizeof p->fragment[0]);
    memcpy(copy->arena, p->arena, arenas_bytes);
    copy->instruction = copy_of(p->instruction, p->instruction_count * sizeof *p->instruction);
    copy->operand = copy_of(p->operand, p->operand_count * sizeof *p->operand);
    copy->shape = copy_of(p->shape, p->shape_count * sizeof *p->shape);
    copy->buffer = copy_of(p->buffer, p->buffer_count * sizeof *p->buffer);
    copy->unit = copy_of(p->unit, p->unit_count * sizeof *p->unit);
    copy->segment = copy_of(p->segment, p->segment_count * sizeof *p->segment);
    copy->life = copy_of(p->life, p->life_count * sizeof *p->life);
    copy->wait = NULL;
    copy->layout = NULL;
    copy->parameter = NULL;
    copy->call = copy->evaluate_call = NULL;
    copy->wait_count = copy->layout_count = copy->parameter_count = 0;
    copy->call_count = copy->evaluate_call_count = 0;
    copy->room = (gal_program_room){0};
    if (copy->instruction == NULL || copy->operand == NULL || copy->shape == NULL || copy->buffer == NULL ||
        copy->unit == NULL || copy->segment == NULL || copy->life == NULL) {
        gal_program_free(copy);
        return NULL;
    }
    return copy;
}

uint32_t gal_program_lists_key(const gal_program *program, uint16_t *key)
{
    uint32_t count = gal_program_fragments(program) + program->buffer_count + 2 * program->instruction_count +
                     program->operand_count;
    if (key == NULL) {
        return count;
    }
    GAL_ASSERT(program->buffer_count < 1u << 14 && program->instruction_count < UINT16_MAX);
    for (uint32_t f = 0; f < gal_program_fragments(program); f++) {
        *key++ = (uint16_t)program->fragment[f].count;
    }
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        *key++ = program->buffer[i].arena;
    }
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        *key++ = (uint16_t)(in->op << 8 | in->stream);
        *key++ = (uint16_t)(in->sub_batch << 9 | in->only_last << 8 | in->operand_count);
    }
    for (uint32_t o = 0; o < program->operand_count; o++) {
        *key++ = (uint16_t)(program->operand[o].buffer << 2 | program->operand[o].access);
    }
    return count;
}

uint32_t gal_unit_kept(const gal_unit *unit, uint32_t buffers[GAL_UNIT_KEPT_MAX])
{
    buffers[0] = unit->weight;
    buffers[1] = unit->first_moment;
    buffers[2] = unit->second_moment;
    uint32_t count = 3;
    if (unit->master != GAL_NO_BUFFER) {
        buffers[count++] = unit->master;
    }
    if (unit->host_weight != GAL_NO_BUFFER && !gal_unit_is_fetched(unit)) {
        buffers[count++] = unit->host_weight;
    }
    return count;
}

void gal_unit_in_file(const gal_program *program, const gal_unit *unit, uint32_t buffers[GAL_STORED_KINDS])
{
    const uint32_t kept[GAL_STORED_KINDS] = {unit->first_moment, unit->second_moment, unit->master, unit->weight};
    for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
        const bool in_file = kept[k] != GAL_NO_BUFFER && program->buffer[kept[k]].class == GAL_CLASS_STORAGE;
        buffers[k] = in_file ? kept[k] : GAL_NO_BUFFER;
    }
}

uint32_t gal_parameter_public_shape(const gal_parameter *parameter, uint64_t dims[GAL_PUBLIC_DIMS_MAX])
{
    const uint64_t elements = parameter->outer * parameter->split_used * parameter->inner;
    const uint64_t window = parameter->window, columns = parameter->columns != 0 ? parameter->columns : elements;
    uint32_t count = 0;
    while (count < parameter->leading_ones) {
        dims[count++] = 1;
    }
    if (parameter->columns != 0) {
        dims[count++] = elements / columns;
    }
    dims[count++] = window != 0 ? columns / (window * window) : columns;
    for (uint32_t i = 0; window != 0 && i < 2; i++) {
        dims[count++] = window;
    }
    return count;
}

uint64_t gal_operand_offset(const gal_program *program, const gal_operand *operand, uint32_t device,
                            uint32_t microbatch)
{
    const gal_buffer *buffer = &program->buffer[operand->buffer];
    const gal_class_arena *arena = &program->arena[buffer->arena];
    uint64_t item = microbatch % arena->count;
    uint64_t view = operand->view == GAL_GROUP_NONE
                        ? 0
                        : gal_group_index(&program->atoms, operand->view, device) * operand->view_stride_bytes;
    return arena->offset + item * arena->item_bytes + buffer->offset + operand->offset_bytes + view;
}

uint32_t gal_program_fragment_of(const gal_program *program, uint32_t instruction)
{
    uint32_t f = 0;
    while (f < gal_program_fragments(program) - 1 &&
           (instruction < program->fragment[f].first ||
            instruction - program->fragment[f].first >= program->fragment[f].count)) {
        f++;
    }
    return f;
}

const char *gal_fragment_name(const gal_program *program, uint32_t fragment, char *buffer)
{
    const char *kind = gal_fragment_names[gal_fragment_kind_of(fragment)];
    const uint32_t chunk = gal_fragment_chunk(fragment);
    enum { BUFFER_BYTES = 64 };
    if (program->chunk_count > 1) {
        (void)snprintf(buffer, BUFFER_BYTES, "%s of chunk %u", kind, chunk);
    } else {
        (void)snprintf(buffer, BUFFER_BYTES, "%s", kind);
    }
    return buffer;
}
