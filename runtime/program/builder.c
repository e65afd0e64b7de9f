#include "runtime/program/builder.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096, FIRST_LEAST = 4 };

/* Layouts and parameters are large and few: at first a page of any array. */
static uint32_t first_room(size_t element_bytes)
{
    const uint32_t fit = (uint32_t)(FIRST_BYTES / element_bytes);
    return fit < FIRST_LEAST ? FIRST_LEAST : fit;
}

bool gal_grow(void *array, uint32_t *capacity, uint32_t count, size_t element_bytes)
{
    if (count < *capacity) {
        return true;
    }
    const uint32_t wanted = *capacity == 0 ? first_room(element_bytes) : *capacity + (*capacity + 1) / 2;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, wanted * element_bytes);
    if (grown == NULL) {
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

static bool room(gal_builder *b, void *array, uint32_t *capacity, uint32_t count, size_t element_bytes)
{
    if (!gal_grow(array, capacity, count, element_bytes)) {
        b->out_of_memory = true;
    }
    return !b->out_of_memory;
}

uint32_t gal_builder_buffer(gal_builder *b, gal_class class, uint32_t block, const char *name, uint64_t bytes)
{
    gal_program *p = b->program;
    if (!room(b, &p->buffer, &p->room.buffer, p->buffer_count, sizeof *p->buffer)) {
        return 0;
    }
    p->buffer[p->buffer_count] = (gal_buffer){.class = (uint8_t) class,
                                              .arena = (uint16_t)gal_arena_number(class, b->chunk),
                                              .block = block,
                                              .name = name,
                                              .bytes = bytes};
    return p->buffer_count++;
}

void gal_builder_grow_buffer(gal_builder *b, uint32_t buffer, uint64_t bytes)
{
    if (!b->out_of_memory && b->program->buffer[buffer].bytes < bytes) {
        b->program->buffer[buffer].bytes = bytes;
    }
}

uint16_t gal_builder_layout(gal_builder *b, const gal_layout *layout)
{
    gal_program *p = b->program;
    for (uint32_t i = 1; i < p->layout_count; i++) {
        if (gal_layout_equal(&p->layout[i], layout)) {
            return (uint16_t)i;
        }
    }
    p->layout_count += p->layout_count == 0; /* [0] is unused */
    if (!room(b, &p->layout, &p->room.layout, p->layout_count, sizeof *p->layout)) {
        return 0;
    }
    GAL_ASSERT(p->layout_count < UINT16_MAX);
    p->layout[p->layout_count] = *layout;
    return (uint16_t)p->layout_count++;
}

uint32_t gal_builder_unit(gal_builder *b, const gal_unit *unit)
{
    gal_program *p = b->program;
    if (!room(b, &p->unit, &p->room.unit, p->unit_count, sizeof *p->unit)) {
        return 0;
    }
    p->unit[p->unit_count] = *unit;
    return p->unit_count++;
}

void gal_builder_parameter(gal_builder *b, const gal_parameter *parameter)
{
    gal_program *p = b->program;
    if (room(b, &p->parameter, &p->room.parameter, p->parameter_count, sizeof *p->parameter)) {
        p->parameter[p->parameter_count++] = *parameter;
    }
}

uint32_t gal_builder_dim(gal_builder *b, uint64_t count)
{
    b->too_large = b->too_large || count > UINT32_MAX;
    return count > UINT32_MAX ? 0 : (uint32_t)count;
}

static uint32_t shape_hash(const gal_shape *shape)
{
    uint64_t word[sizeof *shape / sizeof(uint64_t)];
    uint64_t h = 0;
    memcpy(word, shape, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        h = (h ^ word[i]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return (uint32_t)(h >> 32);
}

/* The slot that holds the shape, or the free one that shall. */
static uint32_t *find_shape(gal_builder *b, const gal_shape *shape)
{
    uint32_t slot = shape_hash(shape) & (b->shape_slots - 1);
    while (b->shape_slot[slot] != 0 && memcmp(&b->program->shape[b->shape_slot[slot] - 1], shape, sizeof *shape) != 0) {
        slot = (slot + 1) & (b->shape_slots - 1);
    }
    return &b->shape_slot[slot];
}

/* At most half of the slots are taken. */
static bool widen_shape_table(gal_builder *b)
{
    const gal_program *p = b->program;
    const uint32_t slots = b->shape_slots == 0 ? 128 : 4 * b->shape_slots;
    free(b->shape_slot);
    b->shape_slots = slots;
    b->shape_slot = calloc(slots, sizeof *b->shape_slot);
    if (b->shape_slot == NULL) {
        b->out_of_memory = true;
        return false;
    }
    for (uint32_t i = 0; i < p->shape_count; i++) {
        *find_shape(b, &p->shape[i]) = i + 1;
    }
    return true;
}

/* Lists alone are for those who do not ask twice: there every instruction has a shape of its own. */
static uint32_t intern_shape(gal_builder *b, const gal_shape *shape)
{
    gal_program *p = b->program;
    if (b->spec->lowered >= GAL_LOWERED_LISTS) {
        if (room(b, &p->shape, &p->room.shape, p->shape_count, sizeof *p->shape)) {
            p->shape[p->shape_count] = *shape;
            return p->shape_count++;
        }
        return 0;
    }
    if (b->out_of_memory || (2 * p->shape_count >= b->shape_slots && !widen_shape_table(b))) {
        return 0;
    }
    uint32_t *slot = find_shape(b, shape);
    if (*slot == 0) {
        if (!room(b, &p->shape, &p->room.shape, p->shape_count, sizeof *p->shape)) {
            return 0;
        }
        p->shape[p->shape_count++] = *shape;
        *slot = p->shape_count;
    }
    return *slot - 1;
}

gal_instruction *gal_builder_instruction(gal_builder *b, gal_stream stream, const char *name, const gal_shape *shape)
{
    static gal_instruction nowhere;
    gal_program *p = b->program;
    uint32_t interned = intern_shape(b, shape);
    if (!room(b, &p->instruction, &p->room.instruction, p->instruction_count, sizeof *p->instruction)) {
        return &nowhere;
    }
    gal_instruction *out = &p->instruction[p->instruction_count++];
    *out = (gal_instruction){.op = (uint8_t)shape->op,
                             .stream = (uint8_t)stream,
                             .only_last = b->only_last,
                             .sub_batch = b->sub_batch,
                             .repeats = b->repeats,
                             .block = b->spec->block_count > 0 ? b->spec->block[b->block].block : 0,
                             .shape = interned,
                             .first_operand = p->operand_count,
                             .name = name};
    return out;
}

void gal_builder_operand_at(gal_builder *b, const gal_operand *operand)
{
    gal_program *p = b->program;
    if (b->out_of_memory || !room(b, &p->operand, &p->room.operand, p->operand_count, sizeof *p->operand)) {
        return;
    }
    gal_instruction *at = &p->instruction[p->instruction_count - 1];
    GAL_ASSERT(at->operand_count < GAL_INSTRUCTION_OPERANDS_MAX);
    at->operand_count++;
    p->operand[p->operand_count++] = *operand;
}

void gal_builder_operand(gal_builder *b, uint32_t buffer, gal_access access)
{
    if (!b->out_of_memory) {
        gal_operand operand = {.buffer = buffer, .access = (uint8_t)access, .bytes = b->program->buffer[buffer].bytes};
        gal_builder_operand_at(b, &operand);
    }
}

void gal_builder_begin_segment(gal_builder *b, uint32_t fragment)
{
    gal_program *p = b->program;
    if (room(b, &p->segment, &p->room.segment, p->segment_count, sizeof *p->segment)) {
        p->segment[p->segment_count] = (gal_segment){p->instruction_count, 0, fragment, GAL_NO_BUFFER};
    }
}

void gal_builder_end_segment(gal_builder *b)
{
    if (!b->out_of_memory) {
        gal_segment *segment = &b->program->segment[b->program->segment_count++];
        segment->count = b->program->instruction_count - segment->first;
    }
}
