#include "runtime/engine/engine_tape.h"

#include <stdlib.h>
#include <string.h>

/* Entries of every stream of which it is known that they are complete. */
typedef uint32_t knowledge[GAL_STREAM_COUNT];

typedef struct builder {
    const gal_program *program;
    gal_tape tape;
    knowledge *known;   /* [issue] when it is complete */
    uint32_t *last_use; /* [issue]: the last issue that waits for it; 0: none does (the first one waits for nothing) */
    uint32_t *free_event;
    uint32_t free_count;
} builder;

static void builder_free(builder *b)
{
    free(b->known);
    free(b->last_use);
    free(b->free_event);
    gal_tape_free(&b->tape);
}

static gal_code reserve(builder *b, const gal_queues *queues, uint32_t call_count, gal_error *err)
{
    gal_tape *tape = &b->tape;
    size_t issues = 0;
    bool complete = true;
    tape->queues = queues;
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        issues += queues->count[s];
        tape->first_mark[s] = GAL_NO_EVENT;
        tape->of_entry[s] = calloc((size_t)queues->count[s] + 1, sizeof *tape->of_entry[s]);
        complete = complete && tape->of_entry[s] != NULL;
    }
    tape->issue = calloc(issues + 1, sizeof *tape->issue);
    tape->wait = calloc((size_t)queues->need_count + 1, sizeof *tape->wait);
    tape->mark = calloc((size_t)call_count * GAL_STREAM_COUNT + 1, sizeof *tape->mark);
    b->known = calloc(issues + 1, sizeof *b->known);
    b->last_use = calloc(issues + 1, sizeof *b->last_use);
    b->free_event = calloc(issues + 1, sizeof *b->free_event);
    complete = complete && tape->issue != NULL && tape->wait != NULL && tape->mark != NULL && b->known != NULL &&
               b->last_use != NULL && b->free_event != NULL && issues < UINT32_MAX;
    return complete ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: tape");
}

/* Waits are issues here; events get their numbers when all is known. */
static void add_waits(builder *b, const gal_queue_entry *entry, uint32_t number, knowledge known)
{
    gal_tape *tape = &b->tape;
    tape->issue[number].first_wait = tape->wait_count;
    for (uint32_t i = 0; i < entry->need_count; i++) {
        const gal_need *need = &tape->queues->need[entry->first_need + i];
        if (known[need->stream] >= need->completed) {
            continue;
        }
        const uint32_t target = tape->of_entry[need->stream][need->completed - 1];
        GAL_ASSERT(target < number);
        b->last_use[target] = number;
        tape->wait[tape->wait_count++] = target;
        for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
            known[s] = b->known[target][s] > known[s] ? b->known[target][s] : known[s];
        }
    }
    tape->issue[number].wait_count = tape->wait_count - tape->issue[number].first_wait;
}

static void add_issue(builder *b, uint32_t call, uint32_t instruction, knowledge known[GAL_STREAM_COUNT])
{
    gal_tape *tape = &b->tape;
    const gal_instruction *at = &b->program->instruction[instruction];
    const uint32_t stream = at->stream;
    const uint32_t number = tape->issue_count++;
    const uint32_t entry = known[stream][stream];
    gal_issue *issue = &tape->issue[number];
    GAL_ASSERT(tape->queues->entry[stream][entry].instruction == instruction);
    *issue = (gal_issue){.stream = stream, .entry = entry, .event = GAL_NO_EVENT, .mark = GAL_NO_EVENT, .call = call};
    tape->of_entry[stream][entry] = number;
    add_waits(b, &tape->queues->entry[stream][entry], number, known[stream]);
    known[stream][stream] = entry + 1;
    memcpy(b->known[number], known[stream], sizeof(knowledge));
    if (gal_op_loads((gal_op)at->op)) {
        issue->staging_offset = tape->staging_bytes;
        tape->staging_bytes += gal_align(b->program->operand[at->first_operand].bytes);
    }
}

static void add_marks(builder *b, const uint32_t before[GAL_STREAM_COUNT], uint32_t last_mark[GAL_STREAM_COUNT],
                      knowledge known[GAL_STREAM_COUNT])
{
    gal_tape *tape = &b->tape;
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (known[s][s] == before[s]) {
            continue;
        }
        const uint32_t mark = tape->mark_count++;
        *(last_mark[s] == GAL_NO_EVENT ? &tape->first_mark[s] : &tape->mark[last_mark[s]].next) = mark;
        last_mark[s] = mark;
        tape->mark[mark] = (gal_mark){.completed = known[s][s], .next = GAL_NO_EVENT};
        tape->issue[tape->of_entry[s][known[s][s] - 1]].mark = mark;
    }
}

static void number_events(builder *b, bool in_list_order)
{
    gal_tape *tape = &b->tape;
    for (uint32_t i = 0; i < tape->issue_count; i++) {
        for (uint32_t w = 0; w < tape->issue[i].wait_count; w++) {
            uint32_t *wait = &tape->wait[tape->issue[i].first_wait + w];
            const uint32_t target = *wait;
            *wait = tape->issue[target].event;
            if (in_list_order && b->last_use[target] == i) {
                b->free_event[b->free_count++] = *wait;
            }
        }
        if (b->last_use[i] > 0) {
            tape->issue[i].event = b->free_count > 0 ? b->free_event[--b->free_count] : tape->event_count++;
        }
    }
}

gal_code gal_tape_of(const gal_program *program, const gal_call *calls, uint32_t call_count, const gal_queues *queues,
                     bool in_list_order, gal_tape *out, gal_error *err)
{
    gal_code code = GAL_OK;
    builder b = {.program = program};
    knowledge known[GAL_STREAM_COUNT] = {{0}};
    uint32_t last_mark[GAL_STREAM_COUNT];
    memset(last_mark, 0xFF, sizeof last_mark);
    GAL_TRY(reserve(&b, queues, call_count, err));
    for (uint32_t c = 0; c < call_count; c++) {
        const gal_fragment *fragment = &program->fragment[calls[c].fragment];
        uint32_t before[GAL_STREAM_COUNT];
        for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
            before[s] = known[s][s];
        }
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            add_issue(&b, c, i, known);
        }
        add_marks(&b, before, last_mark, known);
    }
    number_events(&b, in_list_order);
    *out = b.tape;
    memset(&b.tape, 0, sizeof b.tape);
cleanup:
    builder_free(&b);
    return code;
}

void gal_tape_free(gal_tape *tape)
{
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        free(tape->of_entry[s]);
    }
    free(tape->issue);
    free(tape->wait);
    free(tape->mark);
    memset(tape, 0, sizeof *tape);
}
