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
static bool read_another_part(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    gal_operand *file = gal_mutate_operands(p, gal_mutate_at(p, fragment, position));
    (void)random;
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        const gal_instruction *in = gal_mutate_at(p, fragment, i);
        const gal_operand *other = gal_mutate_operands(p, in);
        if (reads_master(p, in) && other->bytes == file->bytes &&
            (other->buffer != file->buffer || other->offset_bytes != file->offset_bytes)) {
            *file = *other;
            return true;
        }
    }
    return false;
}

/* A step ends before it, and a checkpoint has the one before. */
static bool write_next_step(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    gal_mutate_move_to(p, fragment, position, GAL_FRAGMENT_FORWARD);
    return true;
}

static void exchange_master(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_operand *operand = gal_mutate_operands(p, gal_mutate_at(p, fragment, position));
    const gal_operand kept = operand[SECOND_MOMENT];
    operand[SECOND_MOMENT] = operand[MASTER];
    operand[MASTER] = kept;
}

static const gal_mutation rows[] = {
    {"master of another part read", .wanted = reads_master, .here = read_another_part},
    /* What the ring had of an earlier part is updated instead. */
    {"master not read: a stale one", .wanted = reads_master, .everywhere = gal_mutate_drop},
    {"master written in the next step", .wanted = writes_master, .here = write_next_step},
    {"master and second moment exchanged", .wanted = updates_stored_master, .everywhere = exchange_master},
};
const gal_mutation_set gal_mutations_of_masters = {sizeof rows / sizeof rows[0], rows};
