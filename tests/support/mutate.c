#include "tests/support/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random_plan.h"

/* ---- editing ---- */

static void *copy_of(const void *from, size_t count, size_t bytes)
{
    void *to = malloc(count * bytes + 1);
    if (to != NULL && count > 0) {
        memcpy(to, from, count * bytes);
    }
    return to;
}

gal_program *gal_program_clone(const gal_program *p)
{
    gal_program *c = copy_of(p, 1, sizeof *p);
    if (c == NULL) {
        return NULL;
    }
    c->instruction = copy_of(p->instruction, p->instruction_count, sizeof *p->instruction);
    c->operand = copy_of(p->operand, p->operand_count, sizeof *p->operand);
    c->wait = copy_of(p->wait, p->wait_count, sizeof *p->wait);
    c->shape = copy_of(p->shape, p->shape_count, sizeof *p->shape);
    c->buffer = copy_of(p->buffer, p->buffer_count, sizeof *p->buffer);
    c->layout = copy_of(p->layout, p->layout_count, sizeof *p->layout);
    c->unit = copy_of(p->unit, p->unit_count, sizeof *p->unit);
    c->parameter = copy_of(p->parameter, p->parameter_count, sizeof *p->parameter);
    c->segment = copy_of(p->segment, p->segment_count, sizeof *p->segment);
    c->life = copy_of(p->life, p->life_count, sizeof *p->life);
    c->call = copy_of(p->call, p->call_count, sizeof *p->call);
    c->evaluate_call = copy_of(p->evaluate_call, p->evaluate_call_count, sizeof *p->evaluate_call);
    if (c->instruction == NULL || c->operand == NULL || c->wait == NULL || c->shape == NULL || c->buffer == NULL ||
        c->segment == NULL || c->life == NULL || c->layout == NULL || c->unit == NULL || c->parameter == NULL ||
        c->call == NULL || c->evaluate_call == NULL) {
        gal_program_free(c);
        return NULL;
    }
    return c;
}

static gal_instruction *at(const gal_program *p, uint32_t fragment, uint32_t position)
{
    return &p->instruction[p->fragment[fragment].first + position];
}

static gal_operand *operands(const gal_program *p, const gal_instruction *in)
{
    return &p->operand[in->first_operand];
}

static uint32_t append_wait(gal_program *p, gal_wait wait)
{
    gal_wait *grown = realloc(p->wait, ((size_t)p->wait_count + 1) * sizeof *grown);
    GAL_ASSERT(grown != NULL);
    p->wait = grown;
    p->wait[p->wait_count] = wait;
    return p->wait_count++;
}

/* Waits of an instruction, written anew: those for `gone` become what it waited for itself. */
static void wait_past(gal_program *p, uint32_t fragment, gal_instruction *in, uint32_t gone)
{
    const gal_instruction *removed = at(p, fragment, gone);
    uint32_t first = in->first_wait;
    uint16_t count = in->wait_count;
    in->first_wait = p->wait_count;
    in->wait_count = 0;
    for (uint32_t w = 0; w < count; w++) {
        gal_wait wait = p->wait[first + w];
        if (wait.kind != GAL_WAIT_INSTRUCTION || wait.target != gone) {
            append_wait(p, wait);
            in->wait_count++;
            continue;
        }
        for (uint32_t k = 0; k < removed->wait_count; k++) {
            append_wait(p, p->wait[removed->first_wait + k]);
            in->wait_count++;
        }
    }
}

/* Targets of waits in a fragment, by position. */
static void shift_targets(gal_program *p, uint32_t fragment, uint32_t from, int32_t by)
{
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        gal_instruction *in = at(p, fragment, i);
        for (uint32_t w = 0; w < in->wait_count; w++) {
            gal_wait *wait = &p->wait[in->first_wait + w];
            if (wait->kind == GAL_WAIT_INSTRUCTION && wait->target >= from) {
                wait->target = (uint32_t)((int64_t)wait->target + by);
            }
        }
    }
}

static void drop(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_fragment *f = &p->fragment[fragment];
    for (uint32_t i = position + 1; i < f->count; i++) {
        wait_past(p, fragment, at(p, fragment, i), position);
    }
    shift_targets(p, fragment, position + 1, -1);
    memmove(at(p, fragment, position), at(p, fragment, position + 1),
            (f->count - position - 1) * sizeof *p->instruction);
    f->count--;
}

/* The instruction twice, one behind the other; who waited for it waits for the second. */
static void repeat(gal_program *p, uint32_t fragment, uint32_t position)
{
    uint32_t here = p->fragment[fragment].first + position;
    gal_instruction *grown = realloc(p->instruction, ((size_t)p->instruction_count + 1) * sizeof *grown);
    GAL_ASSERT(grown != NULL);
    p->instruction = grown;
    shift_targets(p, fragment, position, 1);
    memmove(&grown[here + 1], &grown[here], (p->instruction_count - here) * sizeof *grown);
    p->instruction_count++;
    grown[here + 1].wait_count = 0; /* the same stream: the first has waited */
    p->fragment[fragment].count++;
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        p->fragment[f].first += f != fragment && p->fragment[f].first > here;
    }
}

/* ---- choosing ---- */

typedef bool (*chooser)(const gal_program *p, const gal_instruction *in);

typedef struct spot {
    gal_program *program;
    uint32_t fragment, position;
} spot;

/* One of the instructions of all stages and fragments that `wanted` accepts. */
static bool choose(gal_program *const *programs, uint32_t stage_count, chooser wanted, uint64_t *random, spot *out)
{
    uint32_t met = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t f = 0; f < gal_program_fragments(programs[s]); f++) {
            for (uint32_t i = 0; i < programs[s]->fragment[f].count; i++) {
                if (wanted(programs[s], at(programs[s], f, i)) && gal_random_below(random, ++met) == 0) {
                    *out = (spot){programs[s], f, i};
                }
            }
        }
    }
    return met > 0;
}

/* The same place of the list in every fragment and, for what spans stages, in every stage. */
typedef void (*editor)(gal_program *p, uint32_t fragment, uint32_t position);

static bool is_alike(const gal_program *p, const gal_instruction *in, const gal_program *q, const gal_instruction *x)
{
    if ((x->group & GAL_GROUP_RELATION) != 0) {
        return in->op == x->op && in->group == x->group && strcmp(in->name, x->name) == 0;
    }
    return p == q && in->op == x->op && in->first_operand == x->first_operand && in->stream == x->stream;
}

static void edit_everywhere(gal_program *const *programs, uint32_t stage_count, const spot *where, editor edit)
{
    gal_instruction chosen = *at(where->program, where->fragment, where->position);
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t f = 0; f < gal_program_fragments(programs[s]); f++) {
            for (uint32_t i = programs[s]->fragment[f].count; i-- > 0;) {
                if (is_alike(programs[s], at(programs[s], f, i), where->program, &chosen)) {
                    edit(programs[s], f, i);
                }
            }
        }
    }
}

/* ---- waits ---- */

static bool is_inside(const gal_wait *wait)
{
    return wait->kind == GAL_WAIT_INSTRUCTION;
}

static bool has_inside(const gal_program *p, const gal_instruction *in)
{
    bool has = false;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        has = has || is_inside(&p->wait[in->first_wait + w]);
    }
    return has;
}

static bool has_across(const gal_program *p, const gal_instruction *in)
{
    bool has = false;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        has = has || !is_inside(&p->wait[in->first_wait + w]);
    }
    return has;
}

static bool remove_wait(gal_program *const *programs, uint32_t stage_count, uint64_t *random, bool inside)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, inside ? has_inside : has_across, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    gal_instruction *in = at(p, where.fragment, where.position);
    uint32_t w = gal_random_below(random, in->wait_count);
    while (is_inside(&p->wait[in->first_wait + w]) != inside) {
        w = (w + 1) % in->wait_count;
    }
    p->wait[in->first_wait + w] = p->wait[in->first_wait + in->wait_count - 1u];
    in->wait_count--;
    return true;
}

static bool wait_inside_removed(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return remove_wait(programs, stage_count, random, true);
}

/* What the host copies and computes: early, or late for those who wait for it. */
static bool is_of_host(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->stream == GAL_STREAM_HOST_OUT || in->stream == GAL_STREAM_HOST || in->stream == GAL_STREAM_HOST_IN;
}

static bool waits_for_host(const gal_program *p, const gal_instruction *in)
{
    bool waits = is_of_host(p, in) && in->wait_count > 0;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_instruction of_stream = {.stream = p->wait[in->first_wait + w].stream};
        waits = waits || is_of_host(p, &of_stream);
    }
    return waits;
}

static bool host_waits_removed(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, waits_for_host, random, &where)) {
        return false;
    }
    at(where.program, where.fragment, where.position)->wait_count = 0;
    return true;
}

static bool wait_across_removed(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return remove_wait(programs, stage_count, random, false);
}

/* ---- places ---- */

static bool choose_buffer(gal_program *p, uint32_t class, uint64_t *random, uint32_t *out)
{
    uint32_t met = 0;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        if (p->buffer[b].class == class && gal_random_below(random, ++met) == 0) {
            *out = b;
        }
    }
    return met > 0;
}

static gal_program *choose_stage(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return programs[gal_random_below(random, stage_count)];
}

static bool fits(const gal_program *p, uint32_t buffer, uint64_t offset)
{
    return offset != p->buffer[buffer].offset &&
           offset + p->buffer[buffer].bytes <= p->arena[p->buffer[buffer].arena].item_bytes;
}

static bool work_to_zero(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = choose_stage(programs, stage_count, random);
    uint32_t b = 0;
    if (!choose_buffer(p, GAL_CLASS_WORK, random, &b) || !fits(p, b, 0)) {
        return false;
    }
    p->buffer[b].offset = 0;
    return true;
}

static bool work_onto_another(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = choose_stage(programs, stage_count, random);
    uint32_t b = 0;
    uint32_t other = 0;
    if (!choose_buffer(p, GAL_CLASS_WORK, random, &b) || !choose_buffer(p, GAL_CLASS_WORK, random, &other) ||
        !fits(p, b, p->buffer[other].offset)) {
        return false;
    }
    p->buffer[b].offset = p->buffer[other].offset;
    return true;
}

static bool is_work(const gal_program *p, const gal_operand *o)
{
    return p->buffer[o->buffer].class == GAL_CLASS_WORK;
}

static bool reads_and_writes_work(const gal_program *p, const gal_instruction *in)
{
    bool reads = false;
    bool writes = false;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const gal_operand *o = &operands(p, in)[k];
        reads = reads || (is_work(p, o) && o->access == GAL_READ);
        writes = writes || (is_work(p, o) && o->access == GAL_WRITE);
    }
    return reads && writes;
}

/* An output is placed on an input of the same instruction. */
static bool early_reuse(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, reads_and_writes_work, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    const gal_instruction *in = at(p, where.fragment, where.position);
    uint32_t input = GAL_NO_BUFFER;
    uint32_t output = GAL_NO_BUFFER;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const gal_operand *o = &operands(p, in)[k];
        input = is_work(p, o) && o->access == GAL_READ ? o->buffer : input;
        output = is_work(p, o) && o->access == GAL_WRITE ? o->buffer : output;
    }
    if (!fits(p, output, p->buffer[input].offset)) {
        return false;
    }
    p->buffer[output].offset = p->buffer[input].offset;
    return true;
}

static bool class_shorter(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = choose_stage(programs, stage_count, random);
    uint32_t arena = gal_random_below(random, gal_program_arenas(p));
    if (p->arena[arena].item_bytes == 0 || p->arena[arena].count < 2) {
        return false;
    }
    p->arena[arena].count--;
    return true;
}

/* Two buffers that take turns lie on the same bytes, or become one. */
static bool ring_shorter(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    static const uint32_t rings[] = {GAL_CLASS_GATHERED, GAL_CLASS_BUCKET, GAL_CLASS_BOUNDARY};
    gal_program *p = choose_stage(programs, stage_count, random);
    uint32_t class = rings[gal_random_below(random, 3)];
    uint32_t first = GAL_NO_BUFFER;
    uint32_t second = GAL_NO_BUFFER;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        if (p->buffer[b].class == class) {
            second = first == GAL_NO_BUFFER ? GAL_NO_BUFFER : b;
            first = first == GAL_NO_BUFFER ? b : first;
        }
    }
    if (second == GAL_NO_BUFFER) {
        return false;
    }
    if (gal_random_below(random, 2) == 0) {
        uint32_t moved = p->buffer[first].bytes < p->buffer[second].bytes ? first : second;
        p->buffer[moved].offset = p->buffer[moved == first ? second : first].offset;
        return true;
    }
    uint32_t kept = p->buffer[first].bytes < p->buffer[second].bytes ? second : first;
    for (uint32_t k = 0; k < p->operand_count; k++) {
        gal_operand *o = &p->operand[k];
        o->buffer = o->buffer == first || o->buffer == second ? kept : o->buffer;
    }
    return true;
}

/* ---- order ---- */

static bool calls_swapped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = choose_stage(programs, stage_count, random);
    uint32_t i = gal_random_below(random, p->call_count - 1);
    gal_call kept = p->call[i];
    p->call[i] = p->call[i + 1];
    p->call[i + 1] = kept;
    return true;
}

static bool any(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    (void)in;
    return true;
}

/* Neighbours of different streams change places; what each waits for stays. */
static bool instructions_swapped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    choose(programs, stage_count, any, random, &where);
    gal_program *p = where.program;
    uint32_t i = where.position;
    if (i + 1 >= p->fragment[where.fragment].count ||
        at(p, where.fragment, i)->stream == at(p, where.fragment, i + 1)->stream) {
        return false;
    }
    for (uint32_t k = 0; k < p->fragment[where.fragment].count; k++) {
        const gal_instruction *in = at(p, where.fragment, k);
        for (uint32_t w = 0; w < in->wait_count; w++) {
            gal_wait *wait = &p->wait[in->first_wait + w];
            if (wait->kind == GAL_WAIT_INSTRUCTION && (wait->target == i || wait->target == i + 1)) {
                wait->target = wait->target == i ? i + 1 : i;
            }
        }
    }
    gal_instruction kept = *at(p, where.fragment, i);
    *at(p, where.fragment, i) = *at(p, where.fragment, i + 1);
    *at(p, where.fragment, i + 1) = kept;
    return true;
}

/* On every stage alike, so that partners still meet. */
static bool update_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    (void)random;
    for (uint32_t s = 0; s < stage_count; s++) {
        gal_call *last = &programs[s]->call[programs[s]->call_count - 1];
        gal_call kept = last[0];
        last[0] = last[-1];
        last[-1] = kept;
    }
    return true;
}

static bool wrong_microbatch(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = choose_stage(programs, stage_count, random);
    if (p->microbatch_count < 2) {
        return false;
    }
    gal_call *call = &p->call[gal_random_below(random, p->call_count - 1)]; /* not the update */
    call->microbatch = (call->microbatch + 1 + gal_random_below(random, p->microbatch_count - 1)) % p->microbatch_count;
    return true;
}

static bool sync_on_wrong_backward(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    uint32_t m = programs[0]->microbatch_count;
    if (m < 2) {
        return false;
    }
    uint32_t chosen = gal_random_below(random, m - 1);
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t i = 0; i < programs[s]->call_count; i++) {
            gal_call *call = &programs[s]->call[i];
            const uint32_t chunk = gal_fragment_chunk(call->fragment);
            const gal_fragment_kind kind = gal_fragment_kind_of(call->fragment);
            if (kind == GAL_FRAGMENT_BACKWARD_SYNC) {
                call->fragment = (uint16_t)gal_fragment_number(GAL_FRAGMENT_BACKWARD, chunk);
            } else if (kind == GAL_FRAGMENT_BACKWARD && call->microbatch == chosen) {
                call->fragment = (uint16_t)gal_fragment_number(GAL_FRAGMENT_BACKWARD_SYNC, chunk);
            }
        }
    }
    return true;
}

/* ---- communication ---- */

static bool reduces(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ALL_REDUCE || in->op == GAL_OP_REDUCE_SCATTER;
}

static bool all_reduces(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ALL_REDUCE;
}

static bool gathers(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ALL_GATHER;
}

static bool sends(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_SEND;
}

static bool receives(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_RECEIVE;
}

static bool edit_one(gal_program *const *programs, uint32_t stage_count, uint64_t *random, chooser wanted, editor edit)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, wanted, random, &where)) {
        return false;
    }
    edit_everywhere(programs, stage_count, &where, edit);
    return true;
}

static bool reduction_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return edit_one(programs, stage_count, random, reduces, drop);
}

static bool reduction_doubled(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return edit_one(programs, stage_count, random, all_reduces, repeat);
}

static bool host_work_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return edit_one(programs, stage_count, random, is_of_host, drop);
}

static bool host_work_repeated(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return edit_one(programs, stage_count, random, is_of_host, repeat);
}

static bool views_a_shard(const gal_program *p, const gal_instruction *in)
{
    return is_of_host(p, in) && in->stream != GAL_STREAM_HOST &&
           (operands(p, in)[0].view != GAL_GROUP_NONE || operands(p, in)[1].view != GAL_GROUP_NONE);
}

static void take_the_first(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_operand *operand = operands(p, at(p, fragment, position));
    for (uint32_t k = 0; k < 2; k++) {
        operand[k].view = GAL_GROUP_NONE;
        operand[k].view_stride_bytes = 0;
    }
}

static bool host_shard_misplaced(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return edit_one(programs, stage_count, random, views_a_shard, take_the_first);
}

/* Of what forward keeps in the host's memory: on its way there, and back. */
static bool puts_away(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_OUT && p->buffer[operands(p, in)[1].buffer].class == GAL_CLASS_HOST_SAVED;
}

static bool brings_back(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_IN && p->buffer[operands(p, in)[0].buffer].class == GAL_CLASS_HOST_SAVED;
}

static bool touches(const gal_program *p, const gal_instruction *in, const gal_operand *place, bool writes)
{
    bool found = false;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const gal_operand *o = &operands(p, in)[k];
        found = found || (o->buffer == place->buffer && (o->access != GAL_READ) == writes &&
                          o->offset_bytes < place->offset_bytes + place->bytes &&
                          place->offset_bytes < o->offset_bytes + o->bytes);
    }
    return found;
}

/* Takes the instruction to another place in its fragment; waits follow from the new order. */
static void move_to(gal_program *p, uint32_t fragment, uint32_t from, uint32_t to)
{
    const gal_instruction moving = *at(p, fragment, from);
    gal_error err = {0};
    for (uint32_t i = from; i != to; i += to > from ? 1 : UINT32_MAX) {
        *at(p, fragment, i) = *at(p, fragment, i + (to > from ? 1 : UINT32_MAX));
    }
    *at(p, fragment, to) = moving;
    p->room.wait = p->wait_count; /* a clone has no more */
    GAL_ASSERT(gal_program_derive_waits(p, &err) == GAL_OK);
}

/* To the host before the value is there: in front of what writes it last. */
static bool kept_taken_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, puts_away, random, &where)) {
        return false;
    }
    const gal_operand place = operands(where.program, at(where.program, where.fragment, where.position))[0];
    for (uint32_t i = where.position; i-- > 0;) {
        if (touches(where.program, at(where.program, where.fragment, i), &place, true)) {
            move_to(where.program, where.fragment, where.position, i);
            return true;
        }
    }
    return false; /* it was received */
}

/* From the host when somebody has read the place already. */
static bool kept_brought_late(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, brings_back, random, &where)) {
        return false;
    }
    const gal_operand place = operands(where.program, at(where.program, where.fragment, where.position))[1];
    for (uint32_t i = where.position + 1; i < where.program->fragment[where.fragment].count; i++) {
        if (touches(where.program, at(where.program, where.fragment, i), &place, false)) {
            move_to(where.program, where.fragment, where.position, i);
            return true;
        }
    }
    return false;
}

static bool gather_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return edit_one(programs, stage_count, random, gathers, drop);
}

/* A send has no partner name of its own to share with other stages: only this stage's. */
static bool drop_transfer(gal_program *const *programs, uint32_t stage_count, uint64_t *random, chooser wanted)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, wanted, random, &where)) {
        return false;
    }
    drop(where.program, where.fragment, where.position);
    return true;
}

static bool receive_missing(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return drop_transfer(programs, stage_count, random, receives);
}

static bool send_missing(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return drop_transfer(programs, stage_count, random, sends);
}

static gal_group chosen_group; /* tests run on one thread */

static void set_group(gal_program *p, uint32_t fragment, uint32_t position)
{
    at(p, fragment, position)->group = chosen_group;
}

static bool reduces_inside(const gal_program *p, const gal_instruction *in)
{
    return reduces(p, in) && (in->group & GAL_GROUP_RELATION) == 0;
}

static bool wrong_group(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, reduces_inside, random, &where)) {
        return false;
    }
    gal_group group = at(where.program, where.fragment, where.position)->group;
    uint32_t sets = (1u << where.program->atoms.count) - 1;
    if (sets < 2) {
        return false;
    }
    do {
        chosen_group = 1 + gal_random_below(random, sets);
    } while (chosen_group == group);
    edit_everywhere(programs, stage_count, &where, set_group);
    return true;
}

static bool permutes(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_PERMUTE;
}

/* Two strides change places, or one grows by a row. */
static bool permute_stride(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    enum { COUNTS = 5 };
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, permutes, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    uint32_t *dims = p->shape[at(p, where.fragment, where.position)->shape].dims;
    uint32_t i = gal_random_below(random, COUNTS);
    uint32_t j = gal_random_below(random, COUNTS);
    if (dims[1 + i] < 2) {
        return false;
    }
    if (dims[1 + j] > 1 && i != j) {
        uint32_t kept = dims[1 + COUNTS + i];
        dims[1 + COUNTS + i] = dims[1 + COUNTS + j];
        dims[1 + COUNTS + j] = kept;
    } else {
        dims[1 + COUNTS + i]++;
    }
    return true;
}

/* ---- sums that are no sums ---- */

static bool replicated_sum(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = choose_stage(programs, stage_count, random);
    for (uint32_t i = 0; i < p->shape_count; i++) {
        if (p->shape[i].op == GAL_OP_SUM_SQUARES) {
            p->shape[i].dims[1]++;
            return true;
        }
    }
    return false;
}

/* ---- sequence parallelism ---- */

static bool rotates(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ROTATE;
}

/* A hop that everybody leaves out. */
static bool hop_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, rotates, random, &where)) {
        return false;
    }
    edit_everywhere(programs, stage_count, &where, drop);
    return true;
}

static bool steps(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ATTENTION_STEP || in->op == GAL_OP_ATTENTION_STEP_BACKWARD;
}

/* Every step of this shape takes the keys for those of another chunk. */
static bool step_altered(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, steps, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    uint32_t *dims = p->shape[at(p, where.fragment, where.position)->shape].dims;
    dims[6] = (dims[6] + 1) % dims[7];
    return true;
}

static bool trades(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_MIRROR;
}

/* A trade that everybody leaves out. */
static bool trade_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, trades, random, &where)) {
        return false;
    }
    edit_everywhere(programs, stage_count, &where, drop);
    return true;
}

/* A trade of all shapes like one's moves a row more or less than the half. */
static bool trade_off_by_one(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, trades, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    gal_shape *shape = &p->shape[at(p, where.fragment, where.position)->shape];
    shape->dims[0] += gal_random_below(random, 2) == 0 ? 1 : UINT32_MAX;
    return true;
}

static bool steps_zigzag(const gal_program *p, const gal_instruction *in)
{
    return steps(p, in) && (p->shape[in->shape].dims[5] & GAL_ATTENTION_ZIGZAG) != 0;
}

/* Every step of this shape takes its chunks for whole ones. */
static bool zigzag_forgotten(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, steps_zigzag, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    p->shape[at(p, where.fragment, where.position)->shape].dims[5] &= ~(uint32_t)GAL_ATTENTION_ZIGZAG;
    return true;
}

static bool steps_in_order(const gal_program *p, const gal_instruction *in)
{
    return steps(p, in) && !steps_zigzag(p, in);
}

/* Every step of this shape takes whole chunks for halves of two. */
static bool zigzag_assumed(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, steps_in_order, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    p->shape[at(p, where.fragment, where.position)->shape].dims[5] |= GAL_ATTENTION_ZIGZAG;
    return true;
}

static bool deals(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_DEAL_FEATURES || in->op == GAL_OP_COLLECT_FEATURES;
}

/* Queries, keys and values dealt out as one part, or a part less to the one before it. */
static bool parts_altered(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, deals, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    uint32_t *dims = p->shape[at(p, where.fragment, where.position)->shape].dims;
    if (dims[3] == 0) {
        return false;
    }
    dims[2] += dims[3];
    dims[3] = dims[4];
    dims[4] = 0;
    return true;
}

static bool attends_dealt(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->within != GAL_GROUP_NONE;
}

static void forget_within(gal_program *p, uint32_t fragment, uint32_t position)
{
    at(p, fragment, position)->within = GAL_GROUP_NONE;
}

static bool heads_misplaced(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot where = {NULL, 0, 0};
    if (!choose(programs, stage_count, attends_dealt, random, &where)) {
        return false;
    }
    edit_everywhere(programs, stage_count, &where, forget_within);
    return true;
}

/* ---- sub-batches ---- */

static bool is_added(const gal_program *p, const gal_operand *o)
{
    const uint8_t class = p->buffer[o->buffer].class;
    return o->access == GAL_UPDATE && (class == GAL_CLASS_GRADIENT || class == GAL_CLASS_BUCKET);
}

static bool adds_to_first(const gal_program *p, const gal_instruction *in)
{
    bool adds = false;
    for (uint32_t i = 0; i < in->operand_count; i++) {
        adds = adds || is_added(p, &p->operand[in->first_operand + i]);
    }
    return adds && in->sub_batch == 2 && in->stream == GAL_STREAM_COMPUTE && in->op != GAL_OP_FILL;
}

/* What the second adds to a gradient takes the place of what the first wrote. */
static bool first_lost(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot found;
    if (!choose(programs, stage_count, adds_to_first, random, &found)) {
        return false;
    }
    gal_program *p = found.program;
    const gal_instruction *in = at(p, found.fragment, found.position);
    for (uint32_t i = 0; i < in->operand_count; i++) {
        gal_operand *o = &p->operand[in->first_operand + i];
        o->access = is_added(p, o) ? GAL_WRITE : o->access;
    }
    return true;
}

static bool is_second_half(const gal_program *p, const gal_operand *o)
{
    return o->offset_bytes > 0 && o->offset_bytes == o->bytes && p->buffer[o->buffer].bytes == 2 * o->bytes;
}

static bool reads_second(const gal_program *p, const gal_instruction *in)
{
    return in->sub_batch == 2 && in->operand_count > 0 && p->operand[in->first_operand].access == GAL_READ &&
           is_second_half(p, &p->operand[in->first_operand]);
}

static bool first_read_twice(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    spot found;
    if (!choose(programs, stage_count, reads_second, random, &found)) {
        return false;
    }
    gal_program *p = found.program;
    p->operand[at(p, found.fragment, found.position)->first_operand].offset_bytes = 0;
    return true;
}

const gal_mutation gal_mutations[] = {
    {"wait inside a fragment removed", wait_inside_removed},
    {"wait across fragments removed", wait_across_removed},
    {"work buffer moved to offset 0", work_to_zero},
    {"work buffer moved onto another", work_onto_another},
    {"output placed on an input", early_reuse},
    {"class one item shorter", class_shorter},
    {"ring one buffer shorter", ring_shorter},
    {"neighbouring calls swapped", calls_swapped},
    {"neighbouring instructions swapped", instructions_swapped},
    {"update before the last backward", update_early},
    {"wrong microbatch in a call", wrong_microbatch},
    {"sync on a wrong backward", sync_on_wrong_backward},
    {"reduction dropped", reduction_dropped},
    {"reduction doubled", reduction_doubled},
    {"reduction over a wrong group", wrong_group},
    {"gather dropped", gather_dropped},
    {"host work without its waits", host_waits_removed},
    {"host work dropped", host_work_dropped},
    {"host work doubled", host_work_repeated},
    {"host copy of another shard", host_shard_misplaced},
    {"kept values taken early", kept_taken_early},
    {"kept values brought late", kept_brought_late},
    {"send missing", send_missing},
    {"receive missing", receive_missing},
    {"permute stride altered", permute_stride},
    {"replicas of a norm altered", replicated_sum},
    {"hop of a ring dropped", hop_dropped},
    {"step of a ring altered", step_altered},
    {"trade of halves dropped", trade_dropped},
    {"trade of halves off by one", trade_off_by_one},
    {"zig-zag forgotten by a step", zigzag_forgotten},
    {"zig-zag assumed by a step", zigzag_assumed},
    {"parts dealt out altered", parts_altered},
    {"heads in another place", heads_misplaced},
    {"second sub-batch over the first", first_lost},
    {"first sub-batch read for the second", first_read_twice},
};
const uint32_t gal_mutation_count = sizeof gal_mutations / sizeof gal_mutations[0];
