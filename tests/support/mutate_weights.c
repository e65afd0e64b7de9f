/* Mistakes of weights that are on storage. */
#include "tests/support/mutate_internal.h"

enum { FILE_OF_READ = 0, RING_OF_READ = 1, FILE_OF_WRITE = 1, RING_OF_COPY = 0, TARGET_OF_COPY = 1 };

static bool is_weight(const gal_program *p, uint32_t buffer)
{
    bool found = false;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        found = found || p->unit[u].weight == buffer;
    }
    return found && p->buffer[buffer].class == GAL_CLASS_STORAGE;
}

static bool reads_weights(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_STORAGE_READ && is_weight(p, gal_mutate_operands(p, in)[FILE_OF_READ].buffer);
}

static bool writes_weights(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_STORAGE_WRITE && is_weight(p, gal_mutate_operands(p, in)[FILE_OF_WRITE].buffer);
}

static bool fetches_part(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_IN &&
           p->buffer[gal_mutate_operands(p, in)[RING_OF_COPY].buffer].class == GAL_CLASS_STORED;
}

static bool fetches_later_part(const gal_program *p, const gal_instruction *in)
{
    return fetches_part(p, in) && gal_mutate_operands(p, in)[TARGET_OF_COPY].offset_bytes > 0;
}

/* To where the copy is that takes the place in the ring to the device: the next one, or the one before. */
static bool move_past_copy(gal_program *const *programs, uint32_t stage_count, uint64_t *random, bool next)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, reads_weights, random, &where)) {
        return false;
    }
    const gal_program *p = where.program;
    const gal_operand ring = gal_mutate_operands(p, gal_mutate_at(p, where.fragment, where.position))[RING_OF_READ];
    const uint32_t count = p->fragment[where.fragment].count;
    for (uint32_t i = where.position; next ? ++i < count : i-- > 0;) {
        const gal_instruction *in = gal_mutate_at(p, where.fragment, i);
        if (fetches_part(p, in) && gal_mutate_touches(p, in, &ring, false)) {
            gal_mutate_move(where.program, where.fragment, where.position, i);
            return true;
        }
    }
    return false;
}

static bool read_late(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return move_past_copy(programs, stage_count, random, true);
}

static bool ring_reused_early(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return move_past_copy(programs, stage_count, random, false);
}

static bool waits_for_file(const gal_program *p, const gal_instruction *in)
{
    bool waits = false;
    for (uint32_t w = 0; reads_weights(p, in) && w < in->wait_count; w++) {
        const gal_wait *wait = &p->wait[in->first_wait + w];
        waits = waits || (wait->kind != GAL_WAIT_INSTRUCTION && wait->stream == GAL_STREAM_STORAGE_OUT);
    }
    return waits;
}

static void read_old_file(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_instruction *in = gal_mutate_at(p, fragment, position);
    uint32_t kept = 0;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_wait wait = p->wait[in->first_wait + w];
        if (wait.stream != GAL_STREAM_STORAGE_OUT) {
            p->wait[in->first_wait + kept++] = wait;
        }
    }
    in->wait_count = (uint16_t)kept;
}

/* Before the write of the last step's update has landed. */
static bool old_file_read(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, waits_for_file, read_old_file);
}

static bool update_not_written(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, writes_weights, gal_mutate_drop);
}

static bool part_not_fetched(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, fetches_part, gal_mutate_drop);
}

static void fetch_to_begin(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_mutate_operands(p, gal_mutate_at(p, fragment, position))[TARGET_OF_COPY].offset_bytes = 0;
}

static bool part_fetched_elsewhere(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    return gal_mutate_one(programs, stage_count, random, fetches_later_part, fetch_to_begin);
}

static const gal_mutation rows[] = {
    {"weights read from storage late", read_late},
    {"weights' ring reused early", ring_reused_early},
    {"weights read before they are written", old_file_read},
    {"updated weights not written", update_not_written},
    {"part of weights not fetched", part_not_fetched},
    {"part of weights fetched elsewhere", part_fetched_elsewhere},
};
const gal_mutation_set gal_mutations_of_weights = {sizeof rows / sizeof rows[0], rows};
