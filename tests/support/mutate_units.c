/* Units of parameters in the rings: the wrong one, too late, gone too early. */
#include "tests/support/mutate_internal.h"
#include "tests/support/random_plan.h"

static uint8_t class_of(const gal_program *p, const gal_instruction *in, uint32_t operand)
{
    return p->buffer[gal_mutate_operands(p, in)[operand].buffer].class;
}

static bool fills_ring(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_ALL_GATHER && in->operand_count == 2 && class_of(p, in, 1) == GAL_CLASS_GATHERED;
}

static bool empties_bucket(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_REDUCE_SCATTER && class_of(p, in, 0) == GAL_CLASS_BUCKET;
}

static uint32_t chosen_buffer; /* tests run on one thread */

static void set_source(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_mutate_operands(p, gal_mutate_at(p, fragment, position))->buffer = chosen_buffer;
}

/* What a gather reads: the shard of a unit that is as large. */
static bool gather_of_another(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, fills_ring, random, &where)) {
        return false;
    }
    const gal_program *p = where.program;
    const uint32_t own = gal_mutate_operands(p, gal_mutate_at(p, where.fragment, where.position))->buffer;
    uint32_t met = 0;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const uint32_t other = p->unit[u].weight;
        const bool alike = other != own && p->buffer[other].bytes == p->buffer[own].bytes &&
                           p->buffer[other].class == p->buffer[own].class;
        if (alike && gal_random_below(random, ++met) == 0) {
            chosen_buffer = other;
        }
    }
    if (met > 0) {
        gal_mutate_everywhere(programs, stage_count, &where, set_source);
    }
    return met > 0;
}

/* Weights that are gathered when somebody has read their place already. */
static bool gather_late(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, fills_ring, random, &where)) {
        return false;
    }
    gal_program *p = where.program;
    const gal_operand place = gal_mutate_operands(p, gal_mutate_at(p, where.fragment, where.position))[1];
    for (uint32_t i = where.position + 1; i < p->fragment[where.fragment].count; i++) {
        if (gal_mutate_touches(p, gal_mutate_at(p, where.fragment, i), &place, false)) {
            gal_mutate_move(p, where.fragment, where.position, i);
            return true;
        }
    }
    return false;
}

/* Moves an instruction in front of the last one before it that writes, or else reads, its operand. */
static bool move_in_front(const gal_mutate_spot *where, uint32_t operand, bool writes)
{
    gal_program *p = where->program;
    const gal_operand place = gal_mutate_operands(p, gal_mutate_at(p, where->fragment, where->position))[operand];
    for (uint32_t i = where->position; i-- > 0;) {
        if (gal_mutate_touches(p, gal_mutate_at(p, where->fragment, i), &place, writes)) {
            gal_mutate_move(p, where->fragment, where->position, i);
            return true;
        }
    }
    return false;
}

/* The weights of a unit are gone before their last reader: the next unit takes their turn. */
static bool ring_taken_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    return gal_mutate_choose(programs, stage_count, fills_ring, random, &where) && move_in_front(&where, 1, false);
}

/* A bucket is scattered before its last gradient is in it. */
static bool bucket_left_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    return gal_mutate_choose(programs, stage_count, empties_bucket, random, &where) && move_in_front(&where, 0, true);
}

static const gal_mutation rows[] = {
    {"gather of another unit", gather_of_another},
    {"gather behind its first reader", gather_late},
    {"gather before the last reader", ring_taken_early},
    {"bucket scattered too early", bucket_left_early},
};

const gal_mutation_set gal_mutations_of_units = {sizeof rows / sizeof rows[0], rows};
