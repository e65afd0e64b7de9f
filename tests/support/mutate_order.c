/* Mistakes of waits, places and order. */
#include "tests/support/mutate_internal.h"
#include "tests/support/random_plan.h"

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

static bool lose_wait(const gal_program *p, gal_instruction *in, uint64_t *random, bool inside)
{
    uint32_t w = gal_random_below(random, in->wait_count);
    while (is_inside(&p->wait[in->first_wait + w]) != inside) {
        w = (w + 1) % in->wait_count;
    }
    p->wait[in->first_wait + w] = p->wait[in->first_wait + in->wait_count - 1u];
    in->wait_count--;
    return true;
}

static bool lose_wait_inside(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    return lose_wait(p, gal_mutate_at(p, fragment, position), random, true);
}

static bool lose_wait_across(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    return lose_wait(p, gal_mutate_at(p, fragment, position), random, false);
}

static bool waits_for_host(const gal_program *p, const gal_instruction *in)
{
    bool waits = gal_mutate_is_of_host(p, in) && in->wait_count > 0;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_instruction of_stream = {.stream = p->wait[in->first_wait + w].stream};
        waits = waits || gal_mutate_is_of_host(p, &of_stream);
    }
    return waits;
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

static bool fits(const gal_program *p, uint32_t buffer, uint64_t offset)
{
    return offset != p->buffer[buffer].offset &&
           offset + p->buffer[buffer].bytes <= p->arena[p->buffer[buffer].arena].item_bytes;
}

static bool work_to_zero(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
    uint32_t b = 0;
    if (!choose_buffer(p, GAL_CLASS_WORK, random, &b) || !fits(p, b, 0)) {
        return false;
    }
    p->buffer[b].offset = 0;
    return true;
}

static bool work_onto_another(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
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
        const gal_operand *o = &gal_mutate_operands(p, in)[k];
        reads = reads || (is_work(p, o) && o->access == GAL_READ);
        writes = writes || (is_work(p, o) && o->access == GAL_WRITE);
    }
    return reads && writes;
}

/* An output is placed on an input of the same instruction. */
static bool place_on_input(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    const gal_instruction *in = gal_mutate_at(p, fragment, position);
    uint32_t input = GAL_NO_BUFFER;
    uint32_t output = GAL_NO_BUFFER;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const gal_operand *o = &gal_mutate_operands(p, in)[k];
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
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
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
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
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
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
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
    gal_mutate_spot where = {NULL, 0, 0};
    gal_mutate_choose(programs, stage_count, any, random, &where);
    gal_program *p = where.program;
    uint32_t i = where.position;
    if (i + 1 >= p->fragment[where.fragment].count ||
        gal_mutate_at(p, where.fragment, i)->stream == gal_mutate_at(p, where.fragment, i + 1)->stream) {
        return false;
    }
    for (uint32_t k = 0; k < p->fragment[where.fragment].count; k++) {
        const gal_instruction *in = gal_mutate_at(p, where.fragment, k);
        for (uint32_t w = 0; w < in->wait_count; w++) {
            gal_wait *wait = &p->wait[in->first_wait + w];
            if (wait->kind == GAL_WAIT_INSTRUCTION && (wait->target == i || wait->target == i + 1)) {
                wait->target = wait->target == i ? i + 1 : i;
            }
        }
    }
    gal_instruction kept = *gal_mutate_at(p, where.fragment, i);
    *gal_mutate_at(p, where.fragment, i) = *gal_mutate_at(p, where.fragment, i + 1);
    *gal_mutate_at(p, where.fragment, i + 1) = kept;
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
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
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

static const gal_mutation rows[] = {
    {"wait inside a fragment removed", .wanted = has_inside, .here = lose_wait_inside},
    {"wait across fragments removed", .wanted = has_across, .here = lose_wait_across},
    {"work buffer moved to offset 0", .whole = work_to_zero},
    {"work buffer moved onto another", .whole = work_onto_another},
    {"output placed on an input", .wanted = reads_and_writes_work, .here = place_on_input},
    {"class one item shorter", .whole = class_shorter},
    {"ring one buffer shorter", .whole = ring_shorter},
    {"neighbouring calls swapped", .whole = calls_swapped},
    {"neighbouring instructions swapped", .whole = instructions_swapped},
    {"update before the last backward", .whole = update_early},
    {"wrong microbatch in a call", .whole = wrong_microbatch},
    {"sync on a wrong backward", .whole = sync_on_wrong_backward},
    {"host work without its waits", .wanted = waits_for_host, .here = gal_mutate_lose_waits},
};
const gal_mutation_set gal_mutations_of_order = {sizeof rows / sizeof rows[0], rows};
