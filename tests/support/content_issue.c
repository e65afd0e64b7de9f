#include "tests/support/content_internal.h"

#include <stdlib.h>
#include <string.h>

static bool add_awaited(gal_content_stage *s, gal_content_awaited w)
{
    if (s->awaited_count == s->awaited_capacity) {
        uint32_t wanted = s->awaited_capacity == 0 ? 1024 : 2 * s->awaited_capacity;
        gal_content_awaited *grown = realloc(s->awaited, wanted * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        s->awaited = grown;
        s->awaited_capacity = wanted;
    }
    s->awaited[s->awaited_count++] = w;
    return true;
}

typedef struct issuer {
    gal_content_stage *stage;
    uint32_t *latest; /* [buffer][item][stream]: number in the stream of the latest access in a call that is over */
    uint32_t items;   /* the most that an arena has */
    uint32_t *number; /* of the tasks of this call, by position */
} issuer;

static uint32_t *latest_access(const issuer *host, uint32_t buffer, uint32_t microbatch, uint32_t stream)
{
    const gal_program *p = host->stage->program;
    uint32_t item = microbatch % p->arena[p->buffer[buffer].arena].count;
    return &host->latest[((size_t)buffer * host->items + item) * GAL_STREAM_COUNT + stream];
}

static bool issue_waits(issuer *host, const gal_instruction *in, uint32_t position, uint32_t microbatch,
                        const uint32_t *before)
{
    const gal_program *p = host->stage->program;
    bool fine = true;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_wait *wait = &p->wait[in->first_wait + w];
        uint32_t number = 0;
        if (wait->kind == GAL_WAIT_INSTRUCTION) {
            number = wait->target < position ? host->number[wait->target] : 0; /* an event not yet recorded */
        } else if (wait->kind == GAL_WAIT_BUFFER) {
            number = *latest_access(host, wait->target, microbatch, wait->stream);
        } else {
            number = before[wait->stream];
        }
        fine = fine && add_awaited(host->stage, (gal_content_awaited){wait->stream, number});
    }
    return fine;
}

/* Strides of one row mean nothing. Kernels draw dropout by block and microbatch; a collective moves or adds what it
 * reads and asks for neither, so the weights that forward gathered for one block are those that backward gathers for
 * the next, where both are of one unit. */
static uint64_t meaning_of(const gal_program *p, const gal_instruction *in, uint32_t microbatch, uint32_t run)
{
    const gal_shape *shape = &p->shape[in->shape];
    const bool moves = gal_op_is_collective[in->op];
    uint64_t hash = gal_content_mix(gal_content_mix(in->op, moves ? 0 : in->block), moves ? 0 : microbatch);
    for (uint32_t i = 0; i < GAL_SHAPE_DIMS; i++) {
        bool idle = in->op == GAL_OP_PERMUTE && i > 5 && shape->dims[i - 5] == 1;
        hash = gal_content_mix(hash, idle ? 0 : shape->dims[i]);
    }
    return gal_op_loads((gal_op)in->op) ? gal_content_mix(hash, run) : hash;
}

static bool issue_call(issuer *host, const gal_call *call, uint32_t run)
{
    gal_content_stage *s = host->stage;
    const gal_program *p = s->program;
    const gal_fragment *fragment = &p->fragment[call->fragment];
    uint32_t before[GAL_STREAM_COUNT];
    memcpy(before, s->queue_count, sizeof before);
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *in = &p->instruction[fragment->first + i];
        uint32_t first = s->awaited_count;
        if (!issue_waits(host, in, i, call->microbatch, before)) {
            return false;
        }
        s->task[s->task_count] = (gal_content_task){.in = in,
                                                    .microbatch = call->microbatch,
                                                    .first_awaited = first,
                                                    .awaited_count = s->awaited_count - first,
                                                    .meaning = meaning_of(p, in, call->microbatch, run)};
        s->queue[in->stream][s->queue_count[in->stream]++] = s->task_count++;
        host->number[i] = s->queue_count[in->stream];
    }
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *in = &p->instruction[fragment->first + i];
        for (uint32_t k = 0; k < in->operand_count; k++) {
            *latest_access(host, p->operand[in->first_operand + k].buffer, call->microbatch, in->stream) =
                host->number[i];
        }
    }
    return true;
}

bool gal_content_issue(gal_content_stage *s)
{
    const gal_program *p = s->program;
    const gal_call *calls[GAL_CONTENT_RUNS] = {p->call, p->call, p->evaluate_call, p->call};
    const uint32_t counts[GAL_CONTENT_RUNS] = {p->call_count, p->call_count, p->evaluate_call_count, p->call_count};
    size_t total = 0;
    for (uint32_t r = 0; r < GAL_CONTENT_RUNS; r++) {
        for (uint32_t c = 0; c < counts[r]; c++) {
            total += p->fragment[calls[r][c].fragment].count;
        }
    }
    issuer host = {.stage = s, .items = 1};
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        host.items = p->arena[a].count > host.items ? p->arena[a].count : host.items;
    }
    host.latest = calloc((size_t)p->buffer_count * host.items * GAL_STREAM_COUNT, sizeof *host.latest);
    host.number = calloc((size_t)p->instruction_count + 1, sizeof *host.number);
    s->task = calloc(total + 1, sizeof *s->task);
    bool fine = host.latest != NULL && host.number != NULL && s->task != NULL;
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        s->queue[t] = calloc(total + 1, sizeof *s->queue[t]);
        fine = fine && s->queue[t] != NULL;
    }
    for (uint32_t r = 0; r < GAL_CONTENT_RUNS; r++) {
        for (uint32_t c = 0; fine && c < counts[r]; c++) {
            fine = issue_call(&host, &calls[r][c], r);
        }
    }
    free(host.latest);
    free(host.number);
    return fine;
}
