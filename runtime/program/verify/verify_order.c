/* What happens before what in a stage: vector clocks over its streams, one pass in issue order.
 *
 * Proves nothing alone; queues and clocks read it. Linear in the instructions of the expanded schedule; memory is
 * taken once. Source: Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988. */
#include "runtime/program/verify/verify_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct gal_latest_access {
    uint32_t call;             /* of `number` */
    uint32_t number, previous; /* in the stream: the latest access, and the latest one of an earlier call */
} gal_latest_access;

typedef struct gal_noted_access {
    uint32_t slot;
    uint16_t arena;
} gal_noted_access;

gal_code gal_refuse(gal_error *err, const gal_program *program, uint32_t fragment, uint32_t position,
                    const char *rule_format, ...)
{
    char line[GAL_ERROR_TEXT_BYTES / 2];
    char rule[GAL_ERROR_TEXT_BYTES / 4];
    char name[64];
    gal_instruction_print(program, program->fragment[fragment].first + position, line, sizeof line);
    va_list arguments;
    va_start(arguments, rule_format);
    vsnprintf(rule, sizeof rule, rule_format, arguments);
    va_end(arguments);
    return gal_fail(err, GAL_NO, "stage %u, %s, instruction %u: %s: %s", program->stage,
                    gal_fragment_name(program, fragment, name), position, line, rule);
}

uint64_t gal_operand_span(const gal_program *program, const gal_operand *operand)
{
    if (operand->view == GAL_GROUP_NONE) {
        return operand->bytes;
    }
    return (gal_group_size(&program->atoms, operand->view) - 1) * operand->view_stride_bytes + operand->bytes;
}

static gal_code check_wait(const gal_program *p, uint32_t fragment, uint32_t position, const gal_wait *wait,
                           gal_error *err)
{
    const gal_instruction *list = p->instruction + p->fragment[fragment].first;
    if (wait->stream >= GAL_STREAM_COUNT || wait->kind > GAL_WAIT_CALL) {
        return gal_refuse(err, p, fragment, position, "a wait of an unknown kind or stream");
    }
    if (wait->kind == GAL_WAIT_BUFFER && wait->target >= p->buffer_count) {
        return gal_refuse(err, p, fragment, position, "waits for buffer %u, which does not exist", wait->target);
    }
    if (wait->kind != GAL_WAIT_INSTRUCTION) {
        return GAL_OK;
    }
    if (wait->target >= position) {
        return gal_refuse(err, p, fragment, position, "waits for instruction %u, which is issued later", wait->target);
    }
    if (list[wait->target].stream != wait->stream) {
        return gal_refuse(err, p, fragment, position, "waits for instruction %u on stream %s, where it is not",
                          wait->target, gal_stream_names[wait->stream]);
    }
    return GAL_OK;
}

gal_code gal_check_waits(const gal_program *p, gal_error *err)
{
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        if (p->arena[a].item_bytes > 0 && p->arena[a].count == 0) {
            return gal_fail(err, GAL_NO, "stage %u: class %s has no items", p->stage,
                            gal_class_names[gal_arena_class(a)]);
        }
    }
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            const gal_instruction *in = &p->instruction[p->fragment[f].first + i];
            for (uint32_t w = 0; w < in->wait_count; w++) {
                gal_code code = check_wait(p, f, i, &p->wait[in->first_wait + w], err);
                if (code != GAL_OK) {
                    return code;
                }
            }
        }
    }
    return GAL_OK;
}

/* A slot per (buffer, stream) that somebody waits for, one entry per item of the buffer's class. */
static gal_code make_slots(gal_order *o, gal_error *err)
{
    const gal_program *p = o->program;
    size_t pair_count = (size_t)p->buffer_count * GAL_STREAM_COUNT;
    o->slot = malloc((pair_count + 1) * sizeof *o->slot);
    if (o->slot == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    memset(o->slot, 0xff, (pair_count + 1) * sizeof *o->slot);
    uint32_t entries = 0;
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        const gal_instruction *list = p->instruction + p->fragment[f].first;
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            for (uint32_t w = 0; w < list[i].wait_count; w++) {
                const gal_wait *wait = &p->wait[list[i].first_wait + w];
                size_t pair = (size_t)wait->target * GAL_STREAM_COUNT + wait->stream;
                if (wait->kind == GAL_WAIT_BUFFER && o->slot[pair] == GAL_NO_BUFFER) {
                    o->slot[pair] = entries;
                    entries += p->arena[p->buffer[wait->target].arena].count;
                }
            }
        }
    }
    o->access = calloc((size_t)entries + 1, sizeof *o->access);
    return o->access != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
}

static gal_code note_operands(gal_order *o, gal_error *err)
{
    const gal_program *p = o->program;
    size_t most = 0;
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        most += p->instruction[i].operand_count;
    }
    o->noted = malloc((most + 1) * sizeof *o->noted);
    o->first_noted = malloc(((size_t)p->instruction_count + 1) * sizeof *o->first_noted);
    if (o->noted == NULL || o->first_noted == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        const gal_instruction *in = &p->instruction[i];
        o->first_noted[i] = count;
        for (uint32_t k = 0; k < in->operand_count; k++) {
            uint32_t buffer = p->operand[in->first_operand + k].buffer;
            uint32_t slot = o->slot[(size_t)buffer * GAL_STREAM_COUNT + in->stream];
            if (slot != GAL_NO_BUFFER) {
                o->noted[count++] = (gal_noted_access){slot, p->buffer[buffer].arena};
            }
        }
    }
    o->first_noted[p->instruction_count] = count;
    return GAL_OK;
}

gal_code gal_order_init(gal_order *o, const gal_program *p, const gal_call_list *lists, uint32_t list_count,
                        gal_error *err)
{
    memset(o, 0, sizeof *o);
    o->program = p;
    uint64_t per_stream[GAL_STREAM_COUNT] = {0};
    uint64_t in_fragment[GAL_FRAGMENTS_MAX][GAL_STREAM_COUNT];
    uint32_t longest = 0;
    memset(in_fragment, 0, gal_program_fragments(p) * sizeof *in_fragment);
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        longest = p->fragment[f].count > longest ? p->fragment[f].count : longest;
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            in_fragment[f][p->instruction[p->fragment[f].first + i].stream]++;
        }
    }
    for (uint32_t l = 0; l < list_count; l++) {
        for (uint32_t c = 0; c < lists[l].count; c++) {
            for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
                per_stream[t] += in_fragment[lists[l].call[c].fragment][t];
            }
        }
    }
    uint64_t total = 0;
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        o->base[t] = (uint32_t)total;
        total += per_stream[t] + 1; /* number 0: nothing yet */
    }
    if (total > UINT32_MAX) {
        return gal_fail(err, GAL_ERR_SYSTEM, "stage %u: the expanded schedule has too many instructions", p->stage);
    }
    o->done = malloc(total * sizeof *o->done);
    o->number = malloc(((size_t)longest + 1) * sizeof *o->number);
    if (o->done == NULL || o->number == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        memset(o->done[o->base[t]], 0, sizeof *o->done);
    }
    gal_code code = make_slots(o, err);
    return code == GAL_OK ? note_operands(o, err) : code;
}

void gal_order_free(gal_order *o)
{
    free(o->done);
    free(o->number);
    free(o->slot);
    free(o->noted);
    free(o->first_noted);
    free(o->access);
}

void gal_order_begin_call(gal_order *o, uint32_t microbatch)
{
    o->call_number++;
    for (uint32_t a = 0; a < gal_program_arenas(o->program); a++) {
        uint32_t count = o->program->arena[a].count;
        o->item[a] = count > 0 ? microbatch % count : 0;
    }
    memcpy(o->before_call, o->issued, sizeof o->before_call);
}

static void learn(uint32_t *known, const uint32_t *other)
{
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        known[t] = known[t] < other[t] ? other[t] : known[t];
    }
}

static uint32_t awaited_number(const gal_order *o, const gal_wait *wait)
{
    if (wait->kind == GAL_WAIT_INSTRUCTION) {
        return o->number[wait->target];
    }
    if (wait->kind == GAL_WAIT_CALL) {
        return o->before_call[wait->stream];
    }
    uint32_t slot = o->slot[(size_t)wait->target * GAL_STREAM_COUNT + wait->stream];
    const gal_latest_access *latest = &o->access[slot + o->item[o->program->buffer[wait->target].arena]];
    return latest->call == o->call_number ? latest->previous : latest->number;
}

static void note_accesses(gal_order *o, const gal_instruction *in, uint32_t number)
{
    size_t index = (size_t)(in - o->program->instruction);
    for (uint32_t i = o->first_noted[index]; i < o->first_noted[index + 1]; i++) {
        gal_latest_access *latest = &o->access[o->noted[i].slot + o->item[o->noted[i].arena]];
        if (latest->call != o->call_number) {
            latest->previous = latest->number;
            latest->call = o->call_number;
        }
        latest->number = number;
    }
}

uint32_t gal_order_issue(gal_order *o, const gal_event *event, uint32_t known[GAL_STREAM_COUNT])
{
    const gal_instruction *in = event->instruction;
    uint32_t stream = in->stream;
    uint32_t number = ++o->issued[stream];
    memcpy(known, o->now[stream], sizeof o->now[stream]);
    const gal_wait *wait = o->program->wait + in->first_wait;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        uint32_t awaited = awaited_number(o, &wait[w]);
        uint32_t other = wait[w].stream;
        if (other != stream && awaited > known[other]) {
            learn(known, o->done[o->base[other] + awaited]);
        }
    }
    memcpy(o->now[stream], known, sizeof o->now[stream]);
    memcpy(o->done[o->base[stream] + number], known, sizeof o->now[stream]);
    o->done[o->base[stream] + number][stream] = number;
    known[stream] = number - 1;
    o->number[event->position] = number;
    note_accesses(o, in, number);
    return number;
}
