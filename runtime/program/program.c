#include "runtime/program/builder.h"

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

void gal_program_free(gal_program *program)
{
    if (program == NULL) {
        return;
    }
    free(program->evaluate_call);
    free(program->life);
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

void gal_program_empty(gal_program *program)
{
    free(program->evaluate_call);
    free(program->call);
    *program = (gal_program){.instruction = program->instruction,
                             .operand = program->operand,
                             .wait = program->wait,
                             .shape = program->shape,
                             .buffer = program->buffer,
                             .layout = program->layout,
                             .unit = program->unit,
                             .parameter = program->parameter,
                             .life = program->life,
                             .room = program->room};
}

static bool instructions_equal(const gal_program *p, const gal_program *q, uint32_t index)
{
    const gal_instruction *a = &p->instruction[index];
    const gal_instruction *b = &q->instruction[index];
    bool equal = a->op == b->op && a->stream == b->stream && a->only_last == b->only_last &&
                 a->operand_count == b->operand_count;
    for (uint32_t o = 0; equal && o < a->operand_count; o++) {
        const gal_operand *x = &p->operand[a->first_operand + o];
        const gal_operand *y = &q->operand[b->first_operand + o];
        equal = x->buffer == y->buffer && x->access == y->access;
    }
    return equal;
}

uint64_t gal_program_lists_hash(const gal_program *program)
{
    uint64_t hash = (uint64_t)program->instruction_count << 32 | program->buffer_count;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        hash = (hash ^ ((uint64_t)in->op << 32 | (uint64_t)in->stream << 16 | in->operand_count)) *
               UINT64_C(0x9E3779B97F4A7C15);
    }
    for (uint32_t o = 0; o < program->operand_count; o++) {
        hash = (hash ^ program->operand[o].buffer) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return hash;
}

bool gal_program_lists_equal(const gal_program *a, const gal_program *b)
{
    bool equal = a->instruction_count == b->instruction_count && a->operand_count == b->operand_count &&
                 a->buffer_count == b->buffer_count && memcmp(a->fragment, b->fragment, sizeof a->fragment) == 0;
    for (uint32_t i = 0; equal && i < a->buffer_count; i++) {
        equal = a->buffer[i].class == b->buffer[i].class;
    }
    for (uint32_t i = 0; equal && i < a->instruction_count; i++) {
        equal = instructions_equal(a, b, i);
    }
    return equal;
}

uint64_t gal_operand_offset(const gal_program *program, const gal_operand *operand, uint32_t device,
                            uint32_t microbatch)
{
    const gal_buffer *buffer = &program->buffer[operand->buffer];
    const gal_class_arena *arena = &program->arena[buffer->class];
    uint64_t item = microbatch % arena->count;
    uint64_t view = operand->view == GAL_GROUP_NONE
                        ? 0
                        : gal_group_index(&program->atoms, operand->view, device) * operand->view_stride_bytes;
    return arena->offset + item * arena->item_bytes + buffer->offset + operand->offset_bytes + view;
}
