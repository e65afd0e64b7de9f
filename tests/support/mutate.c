#include "tests/support/mutate_internal.h"

static const gal_mutation_set *const sets[] = {
    &gal_mutations_of_order, &gal_mutations_of_communication, &gal_mutations_of_sequence, &gal_mutations_of_storage,
    &gal_mutations_of_units, &gal_mutations_of_masters,       &gal_mutations_of_kept,     &gal_mutations_of_weights};

const gal_mutation *gal_mutation_at(uint32_t index)
{
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        if (index < sets[s]->count) {
            return &sets[s]->mutation[index];
        }
        index -= sets[s]->count;
    }
    return NULL;
}

const char *gal_mutation_name(const gal_mutation *mutation)
{
    return mutation->name;
}

/* False: there is nobody to pass in this fragment. */
static bool move_past(const gal_mutate_spot *where, const gal_mutate_way *way)
{
    gal_program *p = where->program;
    const gal_operand place = gal_mutate_operands(p, gal_mutate_at(p, where->fragment, where->position))[way->operand];
    const uint32_t count = p->fragment[where->fragment].count,
                   one = way->direction == GAL_MUTATE_LATER ? 1 : UINT32_MAX;
    for (uint32_t i = where->position + one; i < count; i += one) {
        const gal_instruction *in = gal_mutate_at(p, where->fragment, i);
        if ((way->of == NULL || way->of(p, in)) && gal_mutate_touches(p, in, &place, way->access != GAL_READ)) {
            gal_mutate_move(p, where->fragment, where->position, i);
            return true;
        }
    }
    return false;
}

bool gal_mutation_apply(const gal_mutation *mutation, gal_program *const *programs, uint32_t stage_count,
                        uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (mutation->wanted == NULL) {
        return mutation->whole(programs, stage_count, random);
    }
    if (!gal_mutate_choose(programs, stage_count, mutation->wanted, random, &where)) {
        return false;
    }
    if (mutation->here != NULL) {
        return mutation->here(where.program, where.fragment, where.position, random);
    }
    if (mutation->past.direction != GAL_MUTATE_STAYS) {
        return move_past(&where, &mutation->past);
    }
    gal_mutate_everywhere(programs, stage_count, &where, mutation->everywhere);
    return true;
}
