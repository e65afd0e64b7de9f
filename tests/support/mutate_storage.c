/* Mistakes of what moves between the host's memory and storage. */
#include "tests/support/mutate_internal.h"

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

static bool waits_somewhere(const gal_program *p, const gal_instruction *in)
{
    return (is_transfer(p, in) || is_update(p, in)) && in->wait_count > 0;
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

static void exchange_moments(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_operand *operand = gal_mutate_operands(p, gal_mutate_at(p, fragment, position));
    const gal_operand kept = operand[FIRST_MOMENT];
    operand[FIRST_MOMENT] = operand[SECOND_MOMENT];
    operand[SECOND_MOMENT] = kept;
}

static const gal_mutation rows[] = {
    {"moments read from storage late", .wanted = is_read,
     .past = {GAL_MUTATE_LATER, RING_OF_READ, GAL_WRITE, is_update}},
    /* Into a place of the ring whose part is not written yet. */
    {"moments evicted early", .wanted = is_read, .past = {GAL_MUTATE_EARLIER, RING_OF_READ, GAL_READ, is_write}},
    /* What was read, as it was. */
    {"moments written early", .wanted = is_write, .past = {GAL_MUTATE_EARLIER, RING_OF_WRITE, GAL_WRITE, is_update}},
    {"transfer of storage dropped", .wanted = is_transfer, .everywhere = gal_mutate_drop},
    {"part of moments updated twice", .wanted = is_update, .everywhere = gal_mutate_repeat},
    {"storage without its waits", .wanted = waits_somewhere, .here = gal_mutate_lose_waits},
    {"part of a file in another place", .wanted = is_behind, .everywhere = take_the_block_before},
    {"first and second moment exchanged", .wanted = is_update, .everywhere = exchange_moments},
};
const gal_mutation_set gal_mutations_of_storage = {sizeof rows / sizeof rows[0], rows};
