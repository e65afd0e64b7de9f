/* Mistakes of what forward keeps in a file: on its way there through the host's memory, and back. */
#include "tests/support/mutate_internal.h"
#include "tests/support/random_plan.h"

static bool reads_or_writes(const gal_program *p, const gal_instruction *in, uint32_t operand, uint8_t class)
{
    return p->buffer[gal_mutate_operands(p, in)[operand].buffer].class == class;
}

static bool stores(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_STORAGE_WRITE && reads_or_writes(p, in, 1, GAL_CLASS_STORAGE_SAVED);
}

static bool loads(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_STORAGE_READ && reads_or_writes(p, in, 0, GAL_CLASS_STORAGE_SAVED);
}

static bool moves(const gal_program *p, const gal_instruction *in)
{
    return stores(p, in) || loads(p, in);
}

static bool fills_ring(const gal_program *p, const gal_instruction *in)
{
    return loads(p, in) || (in->op == GAL_OP_COPY_OUT && reads_or_writes(p, in, 1, GAL_CLASS_STORED_SAVED));
}

/* One of those that `wanted` accepts, in front of the nearest one before it, or behind the nearest one after it, that
 * writes, or else reads, the place that its operand means. */
static bool move_past(gal_program *const *programs, uint32_t stage_count, uint64_t *random, gal_mutate_chooser wanted,
                      uint32_t operand, bool later, bool writes)
{
    gal_mutate_spot at = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, wanted, random, &at)) {
        return false;
    }
    const gal_operand place =
        gal_mutate_operands(at.program, gal_mutate_at(at.program, at.fragment, at.position))[operand];
    const uint32_t count = at.program->fragment[at.fragment].count;
    for (uint32_t i = later ? at.position + 1 : at.position - 1; i < count; i = later ? i + 1 : i - 1) {
        if (gal_mutate_touches(at.program, gal_mutate_at(at.program, at.fragment, i), &place, writes)) {
            gal_mutate_move(at.program, at.fragment, at.position, i);
            return true;
        }
    }
    return false; /* nobody in this fragment: the first of the ring */
}

/* To the file before it is in the host's memory. */
static bool stored_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return move_past(programs, stage_count, random, stores, 0, false, true);
}

/* From the file when it was copied in already. */
static bool loaded_late(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return move_past(programs, stage_count, random, loads, 1, true, false);
}

/* Into a place of the ring whose value is not yet on its way. */
static bool ring_reused_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return move_past(programs, stage_count, random, fills_ring, 1, false, false);
}

static bool move_dropped(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, moves, gal_mutate_drop);
}

static bool moves_and_waits(const gal_program *p, const gal_instruction *in)
{
    return moves(p, in) && in->wait_count > 0;
}

static bool waits_removed(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot at = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, moves_and_waits, random, &at)) {
        return false;
    }
    gal_mutate_at(at.program, at.fragment, at.position)->wait_count = 0;
    return true;
}

/* The place of the microbatch before, or behind: there is one place less than there are microbatches in flight. */
static bool place_of_another(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
    gal_class_arena *arena = &p->arena[GAL_CLASS_STORAGE_SAVED];
    if (arena->item_bytes == 0 || arena->count < 2) {
        return false;
    }
    arena->count--;
    return true;
}

static const gal_mutation rows[] = {
    {"kept value stored early", stored_early},
    {"kept value loaded late", loaded_late},
    {"ring of kept values reused early", ring_reused_early},
    {"kept value neither stored nor loaded", move_dropped},
    {"kept value moved without its waits", waits_removed},
    {"kept value in another's place", place_of_another},
};
const gal_mutation_set gal_mutations_of_kept = {sizeof rows / sizeof rows[0], rows};
