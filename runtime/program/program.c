#include "runtime/program/program.h"

#include <stdlib.h>

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
