/* Mistakes of masters that are on storage. */
#include "tests/support/mutate_internal.h"

enum { FILE_OF_READ = 0, FILE_OF_WRITE = 1 };
enum { SECOND_MOMENT = 3, MASTER = 5 }; /* of the update */

static bool is_master(const gal_program *p, uint32_t buffer)
{
    bool found = false;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        found = found || p->unit[u].master == buffer;
    }
    return found && p->buffer[buffer].class == GAL_CLASS_STORAGE;
}

static bool reads_master(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_STORAGE_READ && is_master(p, gal_mutate_operands(p, in)[FILE_OF_READ].buffer);
}

static bool writes_master(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_STORAGE_WRITE && is_master(p, gal_mutate_operands(p, in)[FILE_OF_WRITE].buffer);
}

static bool updates_stored_master(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_HOST_ADAM_PART && in->operand_count > MASTER &&
           p->buffer[gal_mutate_operands(p, in)[MASTER].buffer].class == GAL_CLASS_STORED;
}

/* A part of as many bytes, of this unit or another one. */
static bool master_of_another_part(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, reads_master, random, &where)) {
        return false;
    }
    const gal_program *p = where.program;
    gal_operand *file = gal_mutate_operands(p, gal_mutate_at(p, where.fragment, where.position));
    for (uint32_t i = 0; i < p->fragment[where.fragment].count; i++) {
        const gal_instruction *in = gal_mutate_at(p, where.fragment, i);
        const gal_operand *other = gal_mutate_operands(p, in);
        if (reads_master(p, in) && other->bytes == file->bytes &&
            (other->buffer != file->buffer || other->offset_bytes != file->offset_bytes)) {
            *file = *other;
            return true;
        }
    }
    return false;
}

/* What the ring had of an earlier part is updated instead. */
static bool stale_master(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, reads_master, gal_mutate_drop);
}

/* A step ends before it, and a checkpoint has the one before. */
static bool master_written_next_step(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, writes_master, random, &where)) {
        return false;
    }
    gal_mutate_move_to(where.program, where.fragment, where.position, GAL_FRAGMENT_FORWARD);
    return true;
}

static void exchange_master(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_operand *operand = gal_mutate_operands(p, gal_mutate_at(p, fragment, position));
    const gal_operand kept = operand[SECOND_MOMENT];
    operand[SECOND_MOMENT] = operand[MASTER];
    operand[MASTER] = kept;
}

static bool master_exchanged(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, updates_stored_master, exchange_master);
}

static const gal_mutation rows[] = {
    {"master of another part read", master_of_another_part},
    {"master not read: a stale one", stale_master},
    {"master written in the next step", master_written_next_step},
    {"master and second moment exchanged", master_exchanged},
};
const gal_mutation_set gal_mutations_of_masters = {sizeof rows / sizeof rows[0], rows};
