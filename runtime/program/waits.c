/* Waits, derived: one linear pass per fragment with a vector clock per instruction.
 *
 * An instruction must start after everything it conflicts with on other streams (read after write, write after read,
 * write after write; buffers as wholes). What an earlier wait already implies is not waited for again. Accesses of
 * earlier calls are named by buffer: the first access of a stream to a buffer in a fragment waits for every other
 * stream that conflicts in any fragment, unless a write of this fragment stands between. Buffers of the classes work
 * and relayout share bytes with others, so there a stream other than compute waits for compute's earlier calls as a
 * whole, and compute for what others may have left running at the end of a call. */
#include <stdlib.h>
#include <string.h>

#include "runtime/program/builder.h"

enum { NO_OWNER = 255 };

typedef struct buffer_state {
    uint32_t write_stamp, read_stamp[GAL_STREAM_COUNT]; /* fragment stamp when the fields below are of this fragment */
    uint32_t write_number;                              /* of the last writer in its stream, plus one */
    uint32_t write_instruction;
    uint32_t read_number[GAL_STREAM_COUNT], read_instruction[GAL_STREAM_COUNT];
    uint8_t write_stream;
    uint8_t touched;          /* streams that waited for earlier calls here, in this fragment, as readers */
    uint8_t readers, writers; /* streams over all fragments */
    bool shares_bytes;        /* of class work or relayout */
    uint32_t touched_stamp;
} buffer_state;

typedef struct deriver {
    gal_builder *b;
    buffer_state *state;
    uint8_t *owner;  /* [buffer]: the one stream whose order is all it needs, or NO_OWNER */
    uint32_t *clock; /* [instruction][stream] */
    uint32_t stamp;
    uint32_t now[GAL_STREAM_COUNT][GAL_STREAM_COUNT]; /* what each stream knows complete */
    uint32_t issued[GAL_STREAM_COUNT];
    uint8_t called;                    /* streams that have waited for compute's earlier calls */
    uint8_t left_running;              /* streams whose shared-byte accesses may outlive a call */
    uint32_t needed[GAL_STREAM_COUNT]; /* number + 1 to wait for, of this instruction */
    uint32_t needed_instruction[GAL_STREAM_COUNT];
} deriver;

static void add_wait(deriver *d, gal_instruction *at, gal_wait_kind kind, uint32_t stream, uint32_t target)
{
    gal_program *p = d->b->program;
    for (uint32_t w = at->first_wait; w < p->wait_count; w++) {
        if (p->wait[w].kind == (uint8_t)kind && p->wait[w].stream == stream && p->wait[w].target == target) {
            return;
        }
    }
    if (!gal_grow(&p->wait, &d->b->wait_capacity, p->wait_count, sizeof *p->wait)) {
        d->b->out_of_memory = true;
        return;
    }
    p->wait[p->wait_count++] = (gal_wait){(uint8_t)kind, (uint8_t)stream, target};
    at->wait_count++;
}

static void require(deriver *d, uint32_t stream, uint32_t number, uint32_t instruction)
{
    if (number > d->needed[stream]) {
        d->needed[stream] = number;
        d->needed_instruction[stream] = instruction;
    }
}

/* Conflicts with accesses of this fragment. */
static void conflicts_here(deriver *d, const buffer_state *s, bool writes)
{
    if (s->write_stamp == d->stamp) {
        require(d, s->write_stream, s->write_number, s->write_instruction);
    }
    for (uint32_t t = 0; writes && t < GAL_STREAM_COUNT; t++) {
        if (s->read_stamp[t] == d->stamp) {
            require(d, t, s->read_number[t], s->read_instruction[t]);
        }
    }
}

/* Conflicts with accesses of earlier calls. */
static void conflicts_before(deriver *d, gal_instruction *at, uint32_t buffer, bool writes)
{
    buffer_state *s = &d->state[buffer];
    uint32_t me = at->stream;
    if (s->shares_bytes) {
        if (me != GAL_STREAM_COMPUTE && d->now[me][GAL_STREAM_COMPUTE] == 0 && (d->called >> me & 1) == 0) {
            add_wait(d, at, GAL_WAIT_CALL, GAL_STREAM_COMPUTE, 0);
            d->called |= (uint8_t)(1u << me);
        }
        return;
    }
    if (s->write_stamp == d->stamp) {
        return; /* that write has waited for all */
    }
    if (s->touched_stamp != d->stamp) {
        s->touched_stamp = d->stamp;
        s->touched = 0;
    }
    bool again = (s->touched >> me & 1) != 0;
    uint8_t others = writes ? (uint8_t)(s->writers | s->readers) : (again ? 0 : s->writers);
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        if (t != me && (others >> t & 1) != 0) {
            add_wait(d, at, GAL_WAIT_BUFFER, t, buffer);
        }
    }
    s->touched |= (uint8_t)(1u << me);
}

static void record(deriver *d, const gal_instruction *at, uint32_t instruction, uint32_t buffer, bool writes)
{
    buffer_state *s = &d->state[buffer];
    uint32_t number = d->issued[at->stream];
    if (writes) {
        s->write_stamp = d->stamp;
        s->write_stream = at->stream;
        s->write_number = number;
        s->write_instruction = instruction;
        memset(s->read_stamp, 0, sizeof s->read_stamp);
    } else {
        s->read_stamp[at->stream] = d->stamp;
        s->read_number[at->stream] = number;
        s->read_instruction[at->stream] = instruction;
    }
}

/* Most buffers belong to one stream alone. A byte each: this is asked for every operand. */
static void find_owners(deriver *d)
{
    for (uint32_t i = 0; i < d->b->program->buffer_count; i++) {
        const buffer_state *s = &d->state[i];
        uint32_t streams = s->readers | s->writers;
        bool one = streams != 0 && (streams & (streams - 1)) == 0;
        uint32_t stream = one ? (uint32_t)__builtin_ctz(streams) : NO_OWNER;
        bool free = !s->shares_bytes || stream == GAL_STREAM_COMPUTE;
        d->owner[i] = (uint8_t)(free ? stream : NO_OWNER);
    }
}

static void derive_instruction(deriver *d, uint32_t first, uint32_t index)
{
    gal_program *p = d->b->program;
    gal_instruction *at = &p->instruction[first + index];
    uint32_t me = at->stream;
    uint32_t *mine = d->now[me];
    const gal_operand *shared[GAL_INSTRUCTION_OPERANDS_MAX];
    uint32_t shared_count = 0;
    at->first_wait = p->wait_count;
    at->wait_count = 0;
    for (uint32_t o = 0; o < at->operand_count; o++) {
        const gal_operand *operand = &p->operand[at->first_operand + o];
        if (d->owner[operand->buffer] != me) {
            shared[shared_count++] = operand;
        }
    }
    memset(d->needed, 0, shared_count > 0 ? sizeof d->needed : 0);
    for (uint32_t o = 0; o < shared_count; o++) {
        conflicts_here(d, &d->state[shared[o]->buffer], shared[o]->access != GAL_READ);
    }
    for (uint32_t t = 0; shared_count > 0 && t < GAL_STREAM_COUNT; t++) {
        if (t != me && d->needed[t] > mine[t]) {
            uint32_t target = d->needed_instruction[t];
            add_wait(d, at, GAL_WAIT_INSTRUCTION, t, target);
            const uint32_t *theirs = &d->clock[(size_t)(first + target) * GAL_STREAM_COUNT];
            for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
                mine[s] = theirs[s] > mine[s] ? theirs[s] : mine[s];
            }
            mine[t] = d->needed[t] > mine[t] ? d->needed[t] : mine[t];
        }
    }
    for (uint32_t o = 0; o < shared_count; o++) {
        conflicts_before(d, at, shared[o]->buffer, shared[o]->access != GAL_READ);
    }
    memcpy(&d->clock[(size_t)(first + index) * GAL_STREAM_COUNT], mine, sizeof d->now[me]);
    d->issued[me]++;
    mine[me] = d->issued[me];
    for (uint32_t o = 0; o < shared_count; o++) {
        record(d, at, index, shared[o]->buffer, shared[o]->access != GAL_READ);
    }
}

static void begin_fragment(deriver *d)
{
    d->stamp++;
    d->called = 0;
    memset(d->now, 0, sizeof d->now);
    memset(d->issued, 0, sizeof d->issued);
}

/* Streams that touch shared bytes and that compute does not know complete when the fragment ends. */
static void note_left_running(deriver *d, const gal_fragment *fragment)
{
    const gal_program *p = d->b->program;
    uint32_t number[GAL_STREAM_COUNT] = {0};
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *at = &p->instruction[fragment->first + i];
        number[at->stream]++;
        if (at->stream == GAL_STREAM_COMPUTE) {
            continue;
        }
        for (uint32_t o = 0; o < at->operand_count; o++) {
            if (d->state[p->operand[at->first_operand + o].buffer].shares_bytes &&
                number[at->stream] > d->now[GAL_STREAM_COMPUTE][at->stream]) {
                d->left_running |= (uint8_t)(1u << at->stream);
            }
        }
    }
}

static bool is_first_reuse(const deriver *d, const gal_instruction *at)
{
    for (uint32_t o = 0; at->stream == GAL_STREAM_COMPUTE && o < at->operand_count; o++) {
        if (d->state[d->b->program->operand[at->first_operand + o].buffer].shares_bytes) {
            return true;
        }
    }
    return false;
}

/* Compute's first use of shared bytes in a call waits for what others left running. Which streams those are is known
 * only when all fragments are done, so the instruction's waits move to the end of the array and grow there. */
static void wait_for_left_running(deriver *d, const gal_fragment *fragment)
{
    gal_program *p = d->b->program;
    uint32_t i = 0;
    while (i < fragment->count && !is_first_reuse(d, &p->instruction[fragment->first + i])) {
        i++;
    }
    if (i == fragment->count) {
        return;
    }
    gal_instruction *at = &p->instruction[fragment->first + i];
    uint32_t old_first = at->first_wait;
    uint32_t old_count = at->wait_count;
    at->first_wait = p->wait_count;
    at->wait_count = 0;
    for (uint32_t w = 0; w < old_count; w++) {
        gal_wait wait = p->wait[old_first + w];
        add_wait(d, at, (gal_wait_kind)wait.kind, wait.stream, wait.target);
    }
    for (uint32_t t = 1; t < GAL_STREAM_COUNT; t++) {
        if ((d->left_running >> t & 1) != 0) {
            add_wait(d, at, GAL_WAIT_CALL, t, 0);
        }
    }
}

static void derive_fragments(deriver *d)
{
    gal_program *p = d->b->program;
    p->wait_count = 0;
    find_owners(d);
    for (uint32_t f = 0; f < GAL_FRAGMENT_COUNT; f++) {
        begin_fragment(d);
        for (uint32_t i = 0; i < p->fragment[f].count && !d->b->out_of_memory; i++) {
            derive_instruction(d, p->fragment[f].first, i);
        }
        note_left_running(d, &p->fragment[f]);
    }
}

gal_code gal_derive_waits(gal_builder *b, uint32_t *clock)
{
    gal_program *p = b->program;
    deriver d = {.b = b, .clock = clock};
    d.state = calloc(p->buffer_count + 1, sizeof *d.state);
    d.owner = malloc(p->buffer_count + 1);
    if (d.state == NULL || d.owner == NULL) {
        b->out_of_memory = true;
        free(d.owner);
        free(d.state);
        return GAL_ERR_SYSTEM;
    }
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        uint8_t class = p->buffer[i].class;
        d.state[i].shares_bytes = class == GAL_CLASS_WORK || class == GAL_CLASS_RELAYOUT;
    }
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        const gal_instruction *at = &p->instruction[i];
        for (uint32_t o = 0; o < at->operand_count; o++) {
            const gal_operand *operand = &p->operand[at->first_operand + o];
            buffer_state *s = &d.state[operand->buffer];
            uint8_t bit = (uint8_t)(1u << at->stream);
            s->readers |= operand->access != GAL_WRITE ? bit : 0;
            s->writers |= operand->access != GAL_READ ? bit : 0;
        }
    }
    derive_fragments(&d);
    for (uint32_t f = 0; d.left_running != 0 && f < GAL_FRAGMENT_COUNT && !b->out_of_memory; f++) {
        wait_for_left_running(&d, &p->fragment[f]);
    }
    free(d.owner);
    free(d.state);
    return b->out_of_memory ? GAL_ERR_SYSTEM : GAL_OK;
}
