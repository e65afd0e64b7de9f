/* What happens before what in a stage: vector clocks over its queues, one pass in issue order.
 *
 * Proves nothing alone; queues and clocks read it. Linear in the instructions of the expanded schedule; memory is
 * taken once. Source: Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988. */
#include "runtime/program/verify_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct gal_latest_access {
    uint32_t call;             /* of `number` */
    uint32_t number, previous; /* in the queue: the latest access, and the latest one of an earlier call */
} gal_latest_access;

gal_code gal_refuse(gal_error *err, const gal_program *program, gal_fragment_kind fragment, uint32_t position,
                    const char *rule_format, ...)
{
    char line[GAL_ERROR_TEXT_BYTES / 2];
    char rule[GAL_ERROR_TEXT_BYTES / 4];
    gal_instruction_print(program, program->fragment[fragment].first + position, line, sizeof line);
    va_list arguments;
    va_start(arguments, rule_format);
    vsnprintf(rule, sizeof rule, rule_format, arguments);
    va_end(arguments);
    return gal_fail(err, GAL_NO, "stage %u, %s, instruction %u: %s: %s", program->stage, gal_fragment_names[fragment],
                    position, line, rule);
}

uint64_t gal_operand_span(const gal_program *program, const gal_operand *operand)
{
    if (operand->view == GAL_GROUP_NONE) {
        return operand->bytes;
    }
    return (gal_group_size(&program->atoms, operand->view) - 1) * operand->view_stride_bytes + operand->bytes;
}

static gal_code check_wait(const gal_program *p, gal_fragment_kind fragment, uint32_t position, const gal_wait *wait,
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
    for (uint32_t c = 0; c < GAL_CLASS_COUNT; c++) {
        if (p->arena[c].item_bytes > 0 && p->arena[c].count == 0) {
            return gal_fail(err, GAL_NO, "stage %u: class %s has no items", p->stage, gal_class_names[c]);
        }
    }
    for (uint32_t f = 0; f < GAL_FRAGMENT_COUNT; f++) {
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            const gal_instruction *in = &p->instruction[p->fragment[f].first + i];
            for (uint32_t w = 0; w < in->wait_count; w++) {
                gal_code code = check_wait(p, (gal_fragment_kind)f, i, &p->wait[in->first_wait + w], err);
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
    for (uint32_t f = 0; f < GAL_FRAGMENT_COUNT; f++) {
        const gal_instruction *list = p->instruction + p->fragment[f].first;
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            for (uint32_t w = 0; w < list[i].wait_count; w++) {
                const gal_wait *wait = &p->wait[list[i].first_wait + w];
                size_t pair = (size_t)wait->target * GAL_STREAM_COUNT + wait->stream;
                if (wait->kind == GAL_WAIT_BUFFER && o->slot[pair] == GAL_NO_BUFFER) {
                    o->slot[pair] = entries;
                    entries += p->arena[p->buffer[wait->target].class].count;
                }
            }
        }
    }
    o->access = calloc((size_t)entries + 1, sizeof *o->access);
    return o->access != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
}

gal_code gal_order_init(gal_order *o, const gal_program *p, const uint8_t queue_of[GAL_STREAM_COUNT],
                        const gal_call_list *lists, uint32_t list_count, gal_error *err)
{
    memset(o, 0, sizeof *o);
    o->program = p;
    memcpy(o->queue_of, queue_of, GAL_STREAM_COUNT);
    uint64_t per_queue[GAL_STREAM_COUNT] = {0};
    uint64_t in_fragment[GAL_FRAGMENT_COUNT][GAL_STREAM_COUNT] = {{0}};
    uint32_t longest = 0;
    for (uint32_t f = 0; f < GAL_FRAGMENT_COUNT; f++) {
        longest = p->fragment[f].count > longest ? p->fragment[f].count : longest;
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            in_fragment[f][queue_of[p->instruction[p->fragment[f].first + i].stream]]++;
        }
    }
    for (uint32_t l = 0; l < list_count; l++) {
        for (uint32_t c = 0; c < lists[l].count; c++) {
            for (uint32_t q = 0; q < GAL_STREAM_COUNT; q++) {
                per_queue[q] += in_fragment[lists[l].call[c].fragment][q];
            }
        }
    }
    uint64_t total = 0;
    for (uint32_t q = 0; q < GAL_STREAM_COUNT; q++) {
        o->base[q] = (uint32_t)total;
        total += per_queue[q] + 1; /* number 0: nothing yet */
    }
    if (total > UINT32_MAX) {
        return gal_fail(err, GAL_ERR_SYSTEM, "stage %u: the expanded schedule has too many instructions", p->stage);
    }
    o->done = malloc(total * sizeof *o->done);
    o->number = malloc(((size_t)longest + 1) * sizeof *o->number);
    if (o->done == NULL || o->number == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t q = 0; q < GAL_STREAM_COUNT; q++) {
        memset(o->done[o->base[q]], 0, sizeof *o->done);
    }
    return make_slots(o, err);
}

void gal_order_free(gal_order *o)
{
    free(o->done);
    free(o->number);
    free(o->slot);
    free(o->access);
}

void gal_order_begin_call(gal_order *o)
{
    o->call_number++;
    memcpy(o->before_call, o->stream_issued, sizeof o->before_call);
}

static void learn(uint32_t *known, const uint32_t *other)
{
    for (uint32_t q = 0; q < GAL_STREAM_COUNT; q++) {
        known[q] = known[q] < other[q] ? other[q] : known[q];
    }
}

static uint32_t awaited_number(const gal_order *o, const gal_wait *wait, uint32_t microbatch)
{
    if (wait->kind == GAL_WAIT_INSTRUCTION) {
        return o->number[wait->target];
    }
    if (wait->kind == GAL_WAIT_CALL) {
        return o->before_call[wait->stream];
    }
    uint32_t count = o->program->arena[o->program->buffer[wait->target].class].count;
    const gal_latest_access *latest =
        &o->access[o->slot[(size_t)wait->target * GAL_STREAM_COUNT + wait->stream] + microbatch % count];
    return latest->call == o->call_number ? latest->previous : latest->number;
}

static void note_accesses(gal_order *o, const gal_event *event, uint32_t number)
{
    const gal_program *p = o->program;
    const gal_instruction *in = event->instruction;
    const gal_operand *operand = p->operand + in->first_operand;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        uint32_t slot = o->slot[(size_t)operand[k].buffer * GAL_STREAM_COUNT + in->stream];
        if (slot == GAL_NO_BUFFER) {
            continue;
        }
        uint32_t count = p->arena[p->buffer[operand[k].buffer].class].count;
        gal_latest_access *latest = &o->access[slot + event->microbatch % count];
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
    uint32_t queue = o->queue_of[in->stream];
    memcpy(known, o->now[queue], sizeof o->now[queue]);
    const gal_wait *wait = o->program->wait + in->first_wait;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        uint32_t number = awaited_number(o, &wait[w], event->microbatch);
        uint32_t other = o->queue_of[wait[w].stream];
        if (number > known[other]) {
            learn(known, o->done[o->base[other] + number]);
        }
    }
    uint32_t number = ++o->issued[queue];
    memcpy(o->now[queue], known, sizeof o->now[queue]);
    o->now[queue][queue] = number;
    memcpy(o->done[o->base[queue] + number], o->now[queue], sizeof o->now[queue]);
    o->stream_issued[in->stream] = number;
    o->number[event->position] = number;
    note_accesses(o, event, number);
    return number;
}
