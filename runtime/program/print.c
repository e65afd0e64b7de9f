/* Programs as text, for golden tests, teaching and messages. `>` write, `~` update, `+` accumulate; reads are plain. */
#include <stdarg.h>
#include <string.h>

#include "runtime/program/program.h"

typedef struct line_writer {
    char *text;
    size_t capacity, used;
} line_writer;

__attribute__((format(printf, 2, 3))) static void put(line_writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(w->text + w->used, w->capacity - w->used, format, arguments);
    va_end(arguments);
    if (n > 0) {
        size_t more = (size_t)n;
        w->used = w->used + more < w->capacity ? w->used + more : w->capacity - 1;
    }
}

static void put_group(line_writer *w, const gal_program *p, gal_group group)
{
    static const char *const relations[] = {"", "stage+1", "stage-1", "tied", "world", "encoder_bias", "decoder_bias"};
    if ((group & GAL_GROUP_RELATION) != 0) {
        put(w, " over %s", relations[group & ~GAL_GROUP_RELATION]);
        return;
    }
    if (group == GAL_GROUP_NONE) {
        return;
    }
    put(w, " over atoms{");
    const char *comma = "";
    for (uint32_t a = 0; a < p->atoms.count; a++) {
        if (gal_group_has(group, a)) {
            put(w, "%s%u", comma, a);
            comma = ",";
        }
    }
    put(w, "}");
}

/* Of kernels: the part that `over` names is cut again. */
static void put_within(line_writer *w, const gal_program *p, gal_group within)
{
    if (within != GAL_GROUP_NONE) {
        put(w, ", within");
        put_group(w, p, within);
    }
}

static void put_operand(line_writer *w, const gal_program *p, const gal_operand *operand)
{
    static const char marks[] = {[GAL_READ] = 0, [GAL_WRITE] = '>', [GAL_UPDATE] = '~', [GAL_ACCUMULATE] = '+'};
    const gal_buffer *buffer = &p->buffer[operand->buffer];
    char mark[2] = {marks[operand->access], 0};
    put(w, " %s%s.%u", mark, buffer->name, operand->buffer);
    if (operand->offset_bytes > 0) {
        put(w, "@%llu", (unsigned long long)operand->offset_bytes);
    }
    if (operand->view != GAL_GROUP_NONE) {
        put(w, "[%llu each]", (unsigned long long)operand->view_stride_bytes);
    }
}

/* Of a program of 16 bits with the type, which is not everywhere the same. */
static void put_shape(line_writer *w, const gal_program *p, const gal_shape *shape)
{
    const char *separator = " (";
    if (gal_dtype_is_narrow(p->dtype)) {
        put(w, " %s", gal_dtype_names[shape->dtype]);
    }
    for (uint32_t i = 0; i < gal_op_dim_count[shape->op]; i++) {
        put(w, "%s%u", separator, shape->dims[i]);
        separator = ",";
    }
    put(w, ")");
}

static void put_waits(line_writer *w, const gal_program *p, const gal_instruction *at)
{
    for (uint32_t i = 0; i < at->wait_count; i++) {
        const gal_wait *wait = &p->wait[at->first_wait + i];
        const char *stream = gal_stream_names[wait->stream];
        if (wait->kind == GAL_WAIT_INSTRUCTION) {
            put(w, " after %u", wait->target);
        } else if (wait->kind == GAL_WAIT_BUFFER) {
            put(w, " after(%s.%u on %s)", p->buffer[wait->target].name, wait->target, stream);
        } else {
            put(w, " after(calls on %s)", stream);
        }
    }
}

void gal_instruction_print(const gal_program *program, uint32_t instruction, char *line, size_t capacity)
{
    const gal_instruction *at = &program->instruction[instruction];
    line_writer w = {line, capacity, 0};
    line[0] = '\0';
    static const char *const sub_batches[] = {"", ".0", ".1"};
    put(&w, "%-7s %-20s %-14s b%u%s%s", gal_stream_names[at->stream], gal_op_names[at->op], at->name, at->block,
        sub_batches[at->sub_batch], at->only_last ? " [last]" : "");
    for (uint32_t i = 0; i < at->operand_count; i++) {
        put_operand(&w, program, &program->operand[at->first_operand + i]);
    }
    put_shape(&w, program, &program->shape[at->shape]);
    put_group(&w, program, at->group);
    put_within(&w, program, at->within);
    if (at->bytes > 0) {
        put(&w, " %llu B", (unsigned long long)at->bytes);
    }
    put_waits(&w, program, at);
}

static void print_arenas(const gal_program *p, FILE *out)
{
    fprintf(out, "arena %llu B:", (unsigned long long)p->arena_bytes);
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        if (p->arena[a].item_bytes > 0 && gal_class_medium(gal_arena_class(a)) == GAL_MEDIUM_DEVICE) {
            fprintf(out, " %s", gal_class_names[gal_arena_class(a)]);
            if (gal_arena_chunk(a) > 0) {
                fprintf(out, " of chunk %u", gal_arena_chunk(a));
            }
            fprintf(out, " %llu B x %u", (unsigned long long)p->arena[a].item_bytes, p->arena[a].count);
        }
    }
    if (p->host_bytes > 0) {
        fprintf(out, "; in the host's memory %llu B", (unsigned long long)p->host_bytes);
    }
    if (p->storage_bytes > 0) {
        fprintf(out, "; on storage %llu B", (unsigned long long)p->storage_bytes);
    }
    fputc('\n', out);
}

static void print_schedule(const gal_program *p, FILE *out)
{
    static const char *const marks[GAL_FRAGMENT_COUNT] = {"F", "B", "B!", "U", "E", "R", "W", "W!"};
    fprintf(out, "schedule");
    for (uint32_t i = 0; i < p->call_count; i++) {
        const gal_call *call = &p->call[i];
        fprintf(out, " %s", marks[gal_fragment_kind_of(call->fragment)]);
        if (call->fragment == GAL_FRAGMENT_UPDATE) {
            continue;
        }
        if (p->chunk_count > 1) {
            fprintf(out, "%u.", gal_fragment_chunk(call->fragment));
        }
        fprintf(out, "%u", call->microbatch);
    }
    fputc('\n', out);
}

void gal_program_print(const gal_program *program, FILE *out)
{
    char line[1024], name[64];
    fprintf(out, "stage %u of %u: %u devices, ", program->stage, program->stage_count, program->device_count);
    if (program->chunk_count > 1) {
        fprintf(out, "%u blocks in %u chunks", program->block_count, program->chunk_count);
    } else {
        fprintf(out, "blocks %u to %u", program->first_block, program->first_block + program->block_count - 1);
    }
    fprintf(out, ", microbatch of %u samples x %u, %u in flight\n", program->microbatch_samples,
            program->microbatch_count, program->in_flight);
    print_arenas(program, out);
    for (uint32_t f = 0; f < gal_program_fragments(program); f++) {
        if (program->fragment[f].count == 0 &&
            (gal_fragment_chunk(f) > 0 || gal_fragment_kind_of(f) >= GAL_FRAGMENT_WEIGHT)) {
            continue; /* of the stage: with chunk 0; or of backward in parts */
        }
        fprintf(out, "%s\n", gal_fragment_name(program, f, name));
        for (uint32_t i = 0; i < program->fragment[f].count; i++) {
            gal_instruction_print(program, program->fragment[f].first + i, line, sizeof line);
            fprintf(out, "%4u %s\n", i, line);
        }
    }
    print_schedule(program, out);
}
