/* Mistakes of what forward keeps in a file: on its way there through the host's memory, and back. */
#include "tests/support/mutate_internal.h"

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

static bool moves_and_waits(const gal_program *p, const gal_instruction *in)
{
    return moves(p, in) && in->wait_count > 0;
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
    /* To the file before it is in the host's memory; from the file when it was copied in already. */
    {"kept value stored early", .wanted = stores, .past = {GAL_MUTATE_EARLIER, 0, GAL_WRITE, NULL}},
    {"kept value loaded late", .wanted = loads, .past = {GAL_MUTATE_LATER, 1, GAL_READ, NULL}},
    /* Into a place of the ring whose value is not yet on its way. */
    {"ring of kept values reused early", .wanted = fills_ring, .past = {GAL_MUTATE_EARLIER, 1, GAL_READ, NULL}},
    {"kept value neither stored nor loaded", .wanted = moves, .everywhere = gal_mutate_drop},
    {"kept value moved without its waits", .wanted = moves_and_waits, .here = gal_mutate_lose_waits},
    {"kept value in another's place", .whole = place_of_another},
};
const gal_mutation_set gal_mutations_of_kept = {sizeof rows / sizeof rows[0], rows};
