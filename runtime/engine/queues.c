#include "runtime/engine/queues.h"

#include <stdlib.h>
#include <string.h>

/* What the expansion remembers of the calls before. */
typedef struct history {
    gal_queue_order order;
    uint32_t *number;   /* [number in the fragment]: entries of its stream with it, this call */
    size_t *first_item; /* [buffer]: row of its item 0 in access */
    uint32_t (
        *access)[GAL_STREAM_COUNT];    /* [item rows]: entries of the stream up to its latest access, earlier calls */
    uint32_t before[GAL_STREAM_COUNT]; /* entries of earlier calls */
} history;

static void history_free(history *past)
{
    free(past->number);
    free(past->first_item);
    free(past->access);
}

static gal_code history_create(const gal_program *program, history *past, gal_error *err)
{
    size_t rows = 0;
    past->number = calloc((size_t)program->instruction_count + 1, sizeof *past->number);
    past->first_item = calloc((size_t)program->buffer_count + 1, sizeof *past->first_item);
    if (past->number != NULL && past->first_item != NULL) {
        for (uint32_t i = 0; i < program->buffer_count; i++) {
            past->first_item[i] = rows;
            rows += program->arena[program->buffer[i].arena].count;
        }
        past->access = calloc(rows + 1, sizeof *past->access);
    }
    return past->access != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: queues");
}

static uint32_t *access_of(const gal_program *program, const history *past, uint32_t buffer, uint32_t microbatch)
{
    const uint32_t count = program->arena[program->buffer[buffer].arena].count;
    return past->access[past->first_item[buffer] + microbatch % count];
}

/* Streams that take turns in the order of the list. */
static bool takes_turns(uint32_t stream)
{
    return stream < GAL_STREAM_SEND_FORWARD;
}

static void add_needs(const gal_program *program, const history *past, const gal_instruction *instruction,
                      uint32_t microbatch, gal_queue_entry *entry, gal_queues *queues)
{
    uint32_t needs[GAL_STREAM_COUNT] = {0};
    for (uint32_t i = 0; i < instruction->wait_count; i++) {
        const gal_wait *wait = &program->wait[instruction->first_wait + i];
        uint32_t completed = 0;
        switch ((gal_wait_kind)wait->kind) {
        case GAL_WAIT_INSTRUCTION:
            completed = past->number[wait->target];
            break;
        case GAL_WAIT_BUFFER:
            completed = access_of(program, past, wait->target, microbatch)[wait->stream];
            break;
        case GAL_WAIT_CALL:
            completed = past->before[wait->stream];
            break;
        }
        if (completed > needs[wait->stream]) {
            needs[wait->stream] = completed;
        }
    }
    for (uint32_t stream = 0; past->order == GAL_ORDER_LIST && stream < GAL_STREAM_COUNT; stream++) {
        if (takes_turns(stream) && takes_turns(instruction->stream)) {
            needs[stream] = queues->count[stream];
        }
    }
    entry->first_need = queues->need_count;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        if (needs[stream] > 0 && stream != instruction->stream) { /* its own stream is in order anyway */
            queues->need[queues->need_count++] = (gal_need){.stream = stream, .completed = needs[stream]};
        }
    }
    entry->need_count = queues->need_count - entry->first_need;
}

static void add_call(const gal_program *program, const gal_call *call, history *past, gal_queues *queues)
{
    const gal_fragment *fragment = &program->fragment[call->fragment];
    memcpy(past->before, queues->count, sizeof past->before);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *instruction = &program->instruction[i];
        const uint32_t stream = instruction->stream;
        gal_queue_entry *entry = &queues->entry[stream][queues->count[stream]++];
        entry->instruction = i;
        entry->microbatch = call->microbatch;
        add_needs(program, past, instruction, call->microbatch, entry, queues);
        past->number[i - fragment->first] = queues->count[stream];
    }
    /* Only now: a wait on a buffer means the calls before this one. */
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *instruction = &program->instruction[i];
        for (uint32_t o = 0; o < instruction->operand_count; o++) {
            const gal_operand *operand = &program->operand[instruction->first_operand + o];
            access_of(program, past, operand->buffer, call->microbatch)[instruction->stream] =
                past->number[i - fragment->first];
        }
    }
}

/* Room for all entries; needs at most one per stream that is waited for. */
static gal_code reserve(const gal_program *program, const gal_call *calls, uint32_t call_count, gal_queue_order order,
                        gal_queues *queues, gal_error *err)
{
    size_t entries[GAL_STREAM_COUNT] = {0};
    size_t needs = 0;
    for (uint32_t c = 0; c < call_count; c++) {
        const gal_fragment *fragment = &program->fragment[calls[c].fragment];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            entries[program->instruction[i].stream]++;
            needs += program->instruction[i].wait_count + (order == GAL_ORDER_LIST ? GAL_STREAM_SEND_FORWARD : 0u);
        }
    }
    queues->need = malloc((needs + 1) * sizeof *queues->need);
    bool complete = queues->need != NULL && needs < UINT32_MAX;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        queues->entry[stream] = malloc((entries[stream] + 1) * sizeof *queues->entry[stream]);
        complete = complete && queues->entry[stream] != NULL && entries[stream] < UINT32_MAX;
    }
    return complete ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: queues");
}

bool gal_queue_ready(const gal_queues *queues, const gal_queue_entry *entry, const uint32_t *completed)
{
    for (uint32_t i = 0; i < entry->need_count; i++) {
        const gal_need *need = &queues->need[entry->first_need + i];
        if (completed[need->stream] < need->completed) {
            return false;
        }
    }
    return true;
}

gal_code gal_queues_of(const gal_program *program, const gal_call *calls, uint32_t call_count, gal_queue_order order,
                       gal_queues *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queues queues = {0};
    history past = {.order = order};
    GAL_TRY(history_create(program, &past, err));
    GAL_TRY(reserve(program, calls, call_count, order, &queues, err));
    for (uint32_t c = 0; c < call_count; c++) {
        add_call(program, &calls[c], &past, &queues);
    }
    *out = queues;
    memset(&queues, 0, sizeof queues);
cleanup:
    history_free(&past);
    gal_queues_free(&queues);
    return code;
}

void gal_queues_free(gal_queues *queues)
{
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        free(queues->entry[stream]);
    }
    free(queues->need);
    memset(queues, 0, sizeof *queues);
}
