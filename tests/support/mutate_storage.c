/* Mistakes of what moves between the host's memory and storage. */
#include "tests/support/mutate_internal.h"

#include <stdlib.h>

#include "tests/support/random_plan.h"

enum { RING_OF_READ = 1, RING_OF_WRITE = 0, FIRST_MOMENT = 2, SECOND_MOMENT = 3 };

static bool is_read(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_STORAGE_READ;
}

static bool is_write(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_STORAGE_WRITE;
}

static bool is_update(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_HOST_ADAM_PART;
}

static bool is_transfer(const gal_program *p, const gal_instruction *in)
{
    return is_read(p, in) || is_write(p, in);
}

static gal_operand place_of(const gal_mutate_spot *where, uint32_t operand)
{
    return gal_mutate_operands(where->program,
                               gal_mutate_at(where->program, where->fragment, where->position))[operand];
}

/* Behind the update that wants it. */
static bool read_late(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, is_read, random, &where)) {
        return false;
    }
    const gal_operand ring = place_of(&where, RING_OF_READ);
    for (uint32_t i = where.position + 1; i < where.program->fragment[where.fragment].count; i++) {
        const gal_instruction *in = gal_mutate_at(where.program, where.fragment, i);
        if (is_update(where.program, in) && gal_mutate_touches(where.program, in, &ring, true)) {
            gal_mutate_move(where.program, where.fragment, where.position, i);
            return true;
        }
    }
    return false;
}

/* Into a place of the ring whose part is not written yet. */
static bool evicted_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, is_read, random, &where)) {
        return false;
    }
    const gal_operand ring = place_of(&where, RING_OF_READ);
    for (uint32_t i = where.position; i-- > 0;) {
        const gal_instruction *in = gal_mutate_at(where.program, where.fragment, i);
        if (is_write(where.program, in) && gal_mutate_touches(where.program, in, &ring, false)) {
            gal_mutate_move(where.program, where.fragment, where.position, i);
            return true;
        }
    }
    return false; /* the first of the ring */
}

/* What was read, as it was. */
static bool written_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, is_write, random, &where)) {
        return false;
    }
    const gal_operand ring = place_of(&where, RING_OF_WRITE);
    for (uint32_t i = where.position; i-- > 0;) {
        const gal_instruction *in = gal_mutate_at(where.program, where.fragment, i);
        if (is_update(where.program, in) && gal_mutate_touches(where.program, in, &ring, true)) {
            gal_mutate_move(where.program, where.fragment, where.position, i);
            return true;
        }
    }
    return false;
}

static bool transfer_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, is_transfer, gal_mutate_drop);
}

static bool part_updated_twice(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, is_update, gal_mutate_repeat);
}

static bool waits_somewhere(const gal_program *p, const gal_instruction *in)
{
    return (is_transfer(p, in) || is_update(p, in)) && in->wait_count > 0;
}

static bool waits_removed(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, waits_somewhere, random, &where)) {
        return false;
    }
    gal_mutate_at(where.program, where.fragment, where.position)->wait_count = 0;
    return true;
}

/* One block of storage before or behind its own. */
static bool is_behind(const gal_program *p, const gal_instruction *in)
{
    return is_transfer(p, in) && gal_mutate_operands(p, in)[is_read(p, in) ? 0 : 1].offset_bytes > 0;
}

static void take_the_block_before(gal_program *p, uint32_t fragment, uint32_t position)
{
    const gal_instruction *in = gal_mutate_at(p, fragment, position);
    gal_mutate_operands(p, in)[is_read(p, in) ? 0 : 1].offset_bytes -= GAL_STORAGE_BLOCK_BYTES;
}

static bool part_misplaced(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, is_behind, take_the_block_before);
}

static void exchange_moments(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_operand *operand = gal_mutate_operands(p, gal_mutate_at(p, fragment, position));
    const gal_operand kept = operand[FIRST_MOMENT];
    operand[FIRST_MOMENT] = operand[SECOND_MOMENT];
    operand[SECOND_MOMENT] = kept;
}

static bool moments_exchanged(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, is_update, exchange_moments);
}

static const gal_mutation rows[] = {
    {"moments read from storage late", read_late},
    {"moments evicted early", evicted_early},
    {"moments written early", written_early},
    {"transfer of storage dropped", transfer_dropped},
    {"part of moments updated twice", part_updated_twice},
    {"storage without its waits", waits_removed},
    {"part of a file in another place", part_misplaced},
    {"first and second moment exchanged", moments_exchanged},
};
const gal_mutation_set gal_mutations_of_storage = {sizeof rows / sizeof rows[0], rows};
