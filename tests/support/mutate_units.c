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

static const gal_mutation rows[] = {
    {"gather of another unit", .whole = gather_of_another},
    {"gather behind its first reader", .wanted = fills_ring, .past = {GAL_MUTATE_LATER, 1, GAL_READ, NULL}},
    /* The weights of a unit are gone: the next unit takes their turn. */
    {"gather before the last reader", .wanted = fills_ring, .past = {GAL_MUTATE_EARLIER, 1, GAL_READ, NULL}},
    /* Before its last gradient is in it. */
    {"bucket scattered too early", .wanted = empties_bucket, .past = {GAL_MUTATE_EARLIER, 0, GAL_WRITE, NULL}},
};

const gal_mutation_set gal_mutations_of_units = {sizeof rows / sizeof rows[0], rows};
