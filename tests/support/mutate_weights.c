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

static bool waits_for_file(const gal_program *p, const gal_instruction *in)
{
    bool waits = false;
    for (uint32_t w = 0; reads_weights(p, in) && w < in->wait_count; w++) {
        const gal_wait *wait = &p->wait[in->first_wait + w];
        waits = waits || (wait->kind != GAL_WAIT_INSTRUCTION && wait->stream == GAL_STREAM_STORAGE_OUT);
    }
    return waits;
}

/* Before the write of the last step's update has landed. */
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

static void fetch_to_begin(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_mutate_operands(p, gal_mutate_at(p, fragment, position))[TARGET_OF_COPY].offset_bytes = 0;
}

static bool fetches_first_part(const gal_program *p, const gal_instruction *in)
{
    return fetches_part(p, in) && gal_mutate_operands(p, in)[TARGET_OF_COPY].offset_bytes == 0;
}

static const gal_mutation rows[] = {
    {"weights read from storage late", .wanted = reads_weights,
     .past = {GAL_MUTATE_LATER, RING_OF_READ, GAL_READ, fetches_part}},
    {"weights' ring reused early", .wanted = reads_weights,
     .past = {GAL_MUTATE_EARLIER, RING_OF_READ, GAL_READ, fetches_part}},
    {"weights read before they are written", .wanted = waits_for_file, .everywhere = read_old_file},
    {"updated weights not written", .wanted = writes_weights, .everywhere = gal_mutate_drop},
    {"part of weights not fetched", .wanted = fetches_part, .everywhere = gal_mutate_drop},
    {"part of weights fetched elsewhere", .wanted = fetches_later_part, .everywhere = fetch_to_begin},
    {"first part of weights fetched twice", .wanted = fetches_first_part, .everywhere = gal_mutate_repeat},
};
const gal_mutation_set gal_mutations_of_weights = {sizeof rows / sizeof rows[0], rows};
