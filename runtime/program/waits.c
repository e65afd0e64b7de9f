/* Waits, derived: one linear pass per fragment with a vector clock per instruction.
 *
 * An instruction must start after everything it conflicts with on other streams (read after write, write after read,
 * write after write; buffers as wholes, or as the parts of one that is cut). What an earlier wait already implies
 * is not waited for again. Accesses of earlier calls are named by buffer: the first access of a stream to a buffer in a
 * fragment waits for every other stream that conflicts in any fragment, unless a write of this fragment stands between.
 * Buffers of the classes work and relayout (of rows, of the carried tensor) share bytes with others, so there a stream
 * other than compute waits for compute's earlier calls as a whole and, within a call, for compute's earlier blocks,
 * which have their work in the same bytes; and compute for what others may have left running at the end of a call. */
#include <stdlib.h>
#include <string.h>

#include "runtime/program/builder.h"

enum { NO_OWNER = 255 };

_Static_assert((int)GAL_STREAM_COUNT <= 16, "sets of streams are 16 bits");

typedef struct buffer_state {
    uint32_t write_instruction;
    uint32_t read_instruction[GAL_STREAM_COUNT];
    uint8_t has_write, write_stream;
    uint16_t reading; /* streams that have read since that write */
    uint16_t touched; /* streams that waited for earlier calls here, in this fragment, as readers */
} buffer_state;

typedef struct deriver {
    gal_program *program;
    bool out_of_memory;
    uint32_t fragment_count;     /* that are asked for */
    buffer_state *state;         /* [first_row of a buffer + part], as stamp says; owns the memory of the next five */
    uint32_t *stamp;             /* likewise: the fragment that its state is of, from 1 */
    uint32_t *first_row;         /* [buffer] */
    uint16_t *readers, *writers; /* [buffer]: streams that access it in any fragment, as bits */
    uint8_t *owner;              /* [buffer]: the one stream whose order is all it needs, or NO_OWNER */
    uint32_t (*clock)[GAL_STREAM_COUNT];              /* [instruction] */
    uint32_t fragment;                                /* from 1 */
    uint32_t now[GAL_STREAM_COUNT][GAL_STREAM_COUNT]; /* what each stream knows complete; of itself: was given */
    uint32_t sharing[GAL_STREAM_COUNT]; /* number of the last instruction that touched shared bytes, from 1 */
    uint16_t called;                    /* streams that have waited for compute's earlier calls */
    uint16_t left_running;              /* streams whose shared-byte accesses may outlive a call */
    uint32_t block;                     /* of the newest instruction */
    uint32_t compute_last;              /* number of compute's newest instruction, from 1; 0: none */
    uint32_t compute_before;            /* the same when that block began */
    uint32_t needed;                    /* streams to wait for, of this instruction ... */
    uint32_t needed_instruction[GAL_STREAM_COUNT]; /* ... up to these */
} deriver;

static void add_wait(deriver *d, gal_instruction *at, gal_wait_kind kind, uint32_t stream, uint32_t target)
{
    gal_program *p = d->program;
    for (uint32_t w = at->first_wait; w < p->wait_count; w++) {
        if (p->wait[w].kind == (uint8_t)kind && p->wait[w].stream == stream && p->wait[w].target == target) {
            return;
        }
    }
    if (!gal_grow(&p->wait, &p->room.wait, p->wait_count, sizeof *p->wait)) {
        d->out_of_memory = true;
        return;
    }
    p->wait[p->wait_count++] = (gal_wait){(uint8_t)kind, (uint8_t)stream, target};
    at->wait_count++;
}

static void require(deriver *d, uint32_t stream, uint32_t instruction)
{
    if ((d->needed >> stream & 1u) == 0 || instruction > d->needed_instruction[stream]) {
        d->needed |= 1u << stream;
        d->needed_instruction[stream] = instruction;
    }
}

static bool shares_bytes(const deriver *d, uint32_t buffer)
{
    const uint8_t class = d->program->buffer[buffer].class;
    return class == GAL_CLASS_WORK || class == GAL_CLASS_RELAYOUT || class == GAL_CLASS_CARRIED_RELAYOUT;
}

static uint32_t parts_of_buffer(const gal_buffer *buffer)
{
    return buffer->cut_bytes == 0 ? 1 : (uint32_t)((buffer->bytes + buffer->cut_bytes - 1) / buffer->cut_bytes);
}

/* The parts of its buffer that an operand is of: the first of `*count` rows of state and stamp. */
static uint32_t parts_of(const deriver *d, const gal_operand *o, uint32_t *count)
{
    const gal_buffer *buffer = &d->program->buffer[o->buffer];
    const uint32_t row = d->first_row[o->buffer];
    if (buffer->cut_bytes == 0 || o->view != GAL_GROUP_NONE) {
        *count = parts_of_buffer(buffer);
        return row;
    }
    const uint32_t first = (uint32_t)(o->offset_bytes / buffer->cut_bytes);
    *count = (uint32_t)((o->offset_bytes + o->bytes - 1) / buffer->cut_bytes) - first + 1;
    return row + first;
}

/* Conflicts with accesses of this fragment. */
static void conflicts_here(deriver *d, uint32_t stream, uint32_t buffer, uint32_t row, bool writes)
{
    buffer_state *s = &d->state[row];
    if (stream != GAL_STREAM_COMPUTE && d->compute_before > 0 && d->program->buffer[buffer].class == GAL_CLASS_WORK) {
        require(d, GAL_STREAM_COMPUTE, d->compute_before - 1);
    }
    if (d->stamp[row] != d->fragment) {
        d->stamp[row] = d->fragment;
        s->has_write = 0;
        s->reading = s->touched = 0;
        return;
    }
    if (s->has_write) {
        require(d, s->write_stream, s->write_instruction);
    }
    for (uint32_t left = writes ? s->reading : 0; left != 0; left &= left - 1) {
        const uint32_t t = (uint32_t)__builtin_ctz(left);
        require(d, t, s->read_instruction[t]);
    }
}

/* Conflicts with accesses of earlier calls. */
static void conflicts_before(deriver *d, gal_instruction *at, uint32_t buffer, uint32_t row, bool writes)
{
    buffer_state *s = &d->state[row];
    uint32_t me = at->stream;
    if (shares_bytes(d, buffer)) {
        d->sharing[me] = d->now[me][me] + 1;
        if (me != GAL_STREAM_COMPUTE && d->now[me][GAL_STREAM_COMPUTE] == 0 && (d->called >> me & 1) == 0) {
            add_wait(d, at, GAL_WAIT_CALL, GAL_STREAM_COMPUTE, 0);
            d->called |= (uint16_t)(1u << me);
        }
        return;
    }
    if (s->has_write) {
        return; /* that write has waited for all */
    }
    const bool again = (s->touched >> me & 1) != 0;
    const uint32_t writers = d->writers[buffer];
    const uint32_t others = writes ? writers | d->readers[buffer] : (again ? 0u : writers);
    for (uint32_t left = others & ~(1u << me); left != 0; left &= left - 1) {
        add_wait(d, at, GAL_WAIT_BUFFER, (uint32_t)__builtin_ctz(left), buffer);
    }
    s->touched |= (uint16_t)(1u << me);
}

static void record(deriver *d, const gal_instruction *at, uint32_t instruction, uint32_t row, bool writes)
{
    buffer_state *s = &d->state[row];
    if (writes) {
        s->has_write = 1;
        s->write_stream = at->stream;
        s->write_instruction = instruction;
        s->reading = 0;
    } else {
        s->reading |= (uint16_t)(1u << at->stream);
        s->read_instruction[at->stream] = instruction;
    }
}

/* Most buffers belong to one stream alone. A byte each: this is asked for every operand. */
static void find_owners(deriver *d)
{
    const gal_program *p = d->program;
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        const gal_instruction *at = &p->instruction[i];
        for (uint32_t o = at->first_operand; o < at->first_operand + at->operand_count; o++) {
            const gal_operand *operand = &p->operand[o];
            d->readers[operand->buffer] |= (uint16_t)((operand->access != GAL_WRITE) << at->stream);
            d->writers[operand->buffer] |= (uint16_t)((operand->access != GAL_READ) << at->stream);
        }
    }
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const uint32_t streams = d->readers[i] | d->writers[i];
        const bool one = streams != 0 && (streams & (streams - 1)) == 0;
        const bool free = streams == 1u << GAL_STREAM_COMPUTE || !shares_bytes(d, i);
        d->owner[i] = (uint8_t)(one && free ? (uint32_t)__builtin_ctz(streams) : NO_OWNER);
    }
}

/* Waits for what the instruction needs and does not know complete. */
static void wait_for_needed(deriver *d, gal_instruction *at, uint32_t first)
{
    uint32_t *mine = d->now[at->stream];
    for (uint32_t left = d->needed & ~(1u << at->stream); left != 0; left &= left - 1) {
        const uint32_t t = (uint32_t)__builtin_ctz(left);
        const uint32_t target = d->needed_instruction[t];
        const uint32_t *theirs = d->clock[first + target];
        const uint32_t number = theirs[t] + 1;
        if (number <= mine[t]) {
            continue;
        }
        add_wait(d, at, GAL_WAIT_INSTRUCTION, t, target);
        for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
            mine[s] = theirs[s] > mine[s] ? theirs[s] : mine[s];
        }
        mine[t] = number;
    }
}

/* An operand, and the rows of state that it is of. */
typedef struct accessed {
    uint32_t buffer, first, count;
    bool writes;
} accessed;

/* The operands that others access too. Returns their count. */
static uint32_t find_accessed(const deriver *d, const gal_instruction *at, accessed out[GAL_INSTRUCTION_OPERANDS_MAX])
{
    const gal_operand *operand = &d->program->operand[at->first_operand];
    uint32_t count = 0;
    for (uint32_t o = 0; o < at->operand_count; o++) {
        if (d->owner[operand[o].buffer] != at->stream) {
            accessed *a = &out[count++];
            a->buffer = operand[o].buffer;
            a->writes = operand[o].access != GAL_READ;
            a->first = parts_of(d, &operand[o], &a->count);
        }
    }
    return count;
}

static void derive_instruction(deriver *d, uint32_t first, uint32_t index)
{
    gal_program *p = d->program;
    gal_instruction *at = &p->instruction[first + index];
    uint32_t me = at->stream;
    accessed accesses[GAL_INSTRUCTION_OPERANDS_MAX];
    at->first_wait = p->wait_count;
    at->wait_count = 0;
    if (at->block != d->block || index == 0) {
        d->block = at->block;
        d->compute_before = d->compute_last;
    }
    const uint32_t count = find_accessed(d, at, accesses);
    const accessed *end = accesses + count;
    d->needed = 0;
    for (const accessed *a = accesses; a < end; a++) {
        for (uint32_t i = 0; i < a->count; i++) {
            conflicts_here(d, me, a->buffer, a->first + i, a->writes);
        }
    }
    if (count > 0) {
        wait_for_needed(d, at, first);
    }
    for (const accessed *a = accesses; a < end; a++) {
        for (uint32_t i = 0; i < a->count; i++) {
            conflicts_before(d, at, a->buffer, a->first + i, a->writes);
        }
    }
    for (const accessed *a = accesses; a < end; a++) {
        for (uint32_t i = 0; i < a->count; i++) {
            record(d, at, index, a->first + i, a->writes);
        }
    }
    memcpy(d->clock[first + index], d->now[me], sizeof d->now[me]);
    d->now[me][me]++;
    d->compute_last = me == GAL_STREAM_COMPUTE ? index + 1 : d->compute_last;
}

static void begin_fragment(deriver *d)
{
    d->fragment++;
    d->called = 0;
    d->compute_before = d->compute_last = 0;
    memset(d->now, 0, sizeof d->now);
    memset(d->sharing, 0, sizeof d->sharing);
}

/* Streams that touch shared bytes and that compute does not know complete when the fragment ends. */
static void note_left_running(deriver *d)
{
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        if (t != GAL_STREAM_COMPUTE && d->sharing[t] > d->now[GAL_STREAM_COMPUTE][t]) {
            d->left_running |= (uint16_t)(1u << t);
        }
    }
}

static bool is_first_reuse(const deriver *d, const gal_instruction *at)
{
    for (uint32_t o = 0; at->stream == GAL_STREAM_COMPUTE && o < at->operand_count; o++) {
        if (shares_bytes(d, d->program->operand[at->first_operand + o].buffer)) {
            return true;
        }
    }
    return false;
}

/* Compute's first use of shared bytes in a call waits for what others left running. Which streams those are is known
 * only when all fragments are done, so the instruction's waits move to the end of the array and grow there. */
static void wait_for_left_running(deriver *d, const gal_fragment *fragment)
{
    gal_program *p = d->program;
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

/* Whether another stream than compute touches shared bytes in a fragment: it may be left running. */
static bool may_leave_running(const deriver *d, const gal_fragment *fragment)
{
    const gal_program *p = d->program;
    bool may = false;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count && !may; i++) {
        const gal_instruction *at = &p->instruction[i];
        for (uint32_t o = 0; at->stream != GAL_STREAM_COMPUTE && o < at->operand_count; o++) {
            may = may || shares_bytes(d, p->operand[at->first_operand + o].buffer);
        }
    }
    return may;
}

static void derive_fragments(deriver *d)
{
    gal_program *p = d->program;
    p->wait_count = 0;
    find_owners(d);
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        if (f >= d->fragment_count && !may_leave_running(d, &p->fragment[f])) {
            continue;
        }
        begin_fragment(d);
        for (uint32_t i = 0; i < p->fragment[f].count && !d->out_of_memory; i++) {
            derive_instruction(d, p->fragment[f].first, i);
        }
        note_left_running(d);
    }
}

/* Rows of state: one for each part of each buffer. */
static size_t count_rows(const gal_program *program)
{
    size_t rows = 1;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        rows += parts_of_buffer(&program->buffer[b]);
    }
    return rows;
}

static void number_rows(deriver *d)
{
    uint32_t row = 0;
    for (uint32_t b = 0; b < d->program->buffer_count; b++) {
        d->first_row[b] = row;
        row += parts_of_buffer(&d->program->buffer[b]);
    }
}

bool gal_derive_waits(gal_program *program, uint32_t fragment_count, uint32_t (*clock)[GAL_STREAM_COUNT])
{
    const size_t buffers = (size_t)program->buffer_count + 1, rows = count_rows(program);
    const size_t zeroed = rows * sizeof(uint32_t) + buffers * (sizeof(uint32_t) + 2 * sizeof(uint16_t) + 1);
    deriver d = {.program = program, .fragment_count = fragment_count, .clock = clock};
    d.state = malloc(rows * sizeof *d.state + zeroed);
    if (d.state == NULL) {
        return false;
    }
    d.stamp = (uint32_t *)(d.state + rows);
    memset(d.stamp, 0, zeroed);
    d.first_row = d.stamp + rows;
    d.readers = (uint16_t *)(d.first_row + buffers);
    d.writers = d.readers + buffers;
    d.owner = (uint8_t *)(d.writers + buffers);
    number_rows(&d);
    derive_fragments(&d);
    for (uint32_t f = 0; d.left_running != 0 && f < fragment_count && !d.out_of_memory; f++) {
        wait_for_left_running(&d, &program->fragment[f]);
    }
    free(d.state);
    return !d.out_of_memory;
}
