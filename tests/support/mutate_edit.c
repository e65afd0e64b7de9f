/* Programs copied and edited: what the mutations of the other files are made of. */
#include "tests/support/mutate_internal.h"

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

uint32_t gal_mutate_append_wait(gal_program *p, gal_wait wait)
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
    const gal_instruction *removed = gal_mutate_at(p, fragment, gone);
    uint32_t first = in->first_wait;
    uint16_t count = in->wait_count;
    in->first_wait = p->wait_count;
    in->wait_count = 0;
    for (uint32_t w = 0; w < count; w++) {
        gal_wait wait = p->wait[first + w];
        if (wait.kind != GAL_WAIT_INSTRUCTION || wait.target != gone) {
            gal_mutate_append_wait(p, wait);
            in->wait_count++;
            continue;
        }
        for (uint32_t k = 0; k < removed->wait_count; k++) {
            gal_mutate_append_wait(p, p->wait[removed->first_wait + k]);
            in->wait_count++;
        }
    }
}

/* Targets of waits in a fragment, by position. */
static void shift_targets(gal_program *p, uint32_t fragment, uint32_t from, int32_t by)
{
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        gal_instruction *in = gal_mutate_at(p, fragment, i);
        for (uint32_t w = 0; w < in->wait_count; w++) {
            gal_wait *wait = &p->wait[in->first_wait + w];
            if (wait->kind == GAL_WAIT_INSTRUCTION && wait->target >= from) {
                wait->target = (uint32_t)((int64_t)wait->target + by);
            }
        }
    }
}

void gal_mutate_drop(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_fragment *f = &p->fragment[fragment];
    for (uint32_t i = position + 1; i < f->count; i++) {
        wait_past(p, fragment, gal_mutate_at(p, fragment, i), position);
    }
    shift_targets(p, fragment, position + 1, -1);
    memmove(gal_mutate_at(p, fragment, position), gal_mutate_at(p, fragment, position + 1),
            (f->count - position - 1) * sizeof *p->instruction);
    f->count--;
}

bool gal_mutate_drop_here(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    gal_mutate_drop(p, fragment, position);
    return true;
}

bool gal_mutate_lose_waits(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    gal_mutate_at(p, fragment, position)->wait_count = 0;
    return true;
}

/* Room for one more instruction of the fragment; what is there moves one on, it too. */
static void make_room(gal_program *p, uint32_t fragment, uint32_t position)
{
    const uint32_t here = p->fragment[fragment].first + position;
    gal_instruction *grown = realloc(p->instruction, ((size_t)p->instruction_count + 1) * sizeof *grown);
    GAL_ASSERT(grown != NULL);
    p->instruction = grown;
    memmove(&grown[here + 1], &grown[here], (p->instruction_count - here) * sizeof *grown);
    p->instruction_count++;
    p->fragment[fragment].count++;
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        p->fragment[f].first += f != fragment && p->fragment[f].first >= here;
    }
}

void gal_mutate_repeat(gal_program *p, uint32_t fragment, uint32_t position)
{
    shift_targets(p, fragment, position, 1);
    make_room(p, fragment, position + 1);
    *gal_mutate_at(p, fragment, position + 1) = *gal_mutate_at(p, fragment, position);
    gal_mutate_at(p, fragment, position + 1)->wait_count = 0; /* the same stream: the first has waited */
}

static void wait_anew(gal_program *p)
{
    gal_error err = {0};
    p->room.wait = p->wait_count; /* a clone has no more */
    GAL_ASSERT(gal_program_derive_waits(p, gal_program_fragments(p), &err) == GAL_OK);
}

void gal_mutate_move_to(gal_program *p, uint32_t fragment, uint32_t position, uint32_t other)
{
    const gal_instruction moving = *gal_mutate_at(p, fragment, position);
    gal_mutate_drop(p, fragment, position);
    make_room(p, other, 0);
    *gal_mutate_at(p, other, 0) = moving;
    wait_anew(p);
}

void gal_mutate_move(gal_program *p, uint32_t fragment, uint32_t from, uint32_t to)
{
    const gal_instruction moving = *gal_mutate_at(p, fragment, from);
    for (uint32_t i = from; i != to; i += to > from ? 1 : UINT32_MAX) {
        *gal_mutate_at(p, fragment, i) = *gal_mutate_at(p, fragment, i + (to > from ? 1 : UINT32_MAX));
    }
    *gal_mutate_at(p, fragment, to) = moving;
    wait_anew(p);
}

bool gal_mutate_touches(const gal_program *p, const gal_instruction *in, const gal_operand *place, bool writes)
{
    bool found = false;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const gal_operand *o = &gal_mutate_operands(p, in)[k];
        found = found || (o->buffer == place->buffer && (o->access != GAL_READ) == writes &&
                          o->offset_bytes < place->offset_bytes + place->bytes &&
                          place->offset_bytes < o->offset_bytes + o->bytes);
    }
    return found;
}

/* ---- choosing ---- */

bool gal_mutate_choose(gal_program *const *programs, uint32_t stage_count, gal_mutate_chooser wanted, uint64_t *random,
                       gal_mutate_spot *out)
{
    uint32_t met = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t f = 0; f < gal_program_fragments(programs[s]); f++) {
            for (uint32_t i = 0; i < programs[s]->fragment[f].count; i++) {
                if (wanted(programs[s], gal_mutate_at(programs[s], f, i)) && gal_random_below(random, ++met) == 0) {
                    *out = (gal_mutate_spot){programs[s], f, i};
                }
            }
        }
    }
    return met > 0;
}

static bool is_alike(const gal_program *p, const gal_instruction *in, const gal_program *q, const gal_instruction *x)
{
    if ((x->group & GAL_GROUP_RELATION) != 0) {
        return in->op == x->op && in->group == x->group && strcmp(in->name, x->name) == 0;
    }
    return p == q && in->op == x->op && in->first_operand == x->first_operand && in->stream == x->stream;
}

void gal_mutate_everywhere(gal_program *const *programs, uint32_t stage_count, const gal_mutate_spot *where,
                           gal_mutate_editor edit)
{
    gal_instruction chosen = *gal_mutate_at(where->program, where->fragment, where->position);
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t f = 0; f < gal_program_fragments(programs[s]); f++) {
            for (uint32_t i = programs[s]->fragment[f].count; i-- > 0;) {
                if (is_alike(programs[s], gal_mutate_at(programs[s], f, i), where->program, &chosen)) {
                    edit(programs[s], f, i);
                }
            }
        }
    }
}

/* What the host copies and computes: early, or late for those who wait for it. */
bool gal_mutate_is_of_host(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->stream == GAL_STREAM_HOST_OUT || in->stream == GAL_STREAM_HOST || in->stream == GAL_STREAM_HOST_IN;
}

gal_program *gal_mutate_choose_stage(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return programs[gal_random_below(random, stage_count)];
}
