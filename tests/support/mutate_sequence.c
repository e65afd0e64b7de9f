/* Mistakes of split positions and of sub-batches. */
#include "tests/support/mutate_internal.h"
#include "tests/support/random_plan.h"

/* ---- sequence parallelism ---- */

static bool rotates(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ROTATE;
}

static bool steps(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ATTENTION_STEP || in->op == GAL_OP_ATTENTION_STEP_BACKWARD;
}

/* Every step of this shape takes the keys for those of another chunk. */
static bool take_another_chunk(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    uint32_t *dims = p->shape[gal_mutate_at(p, fragment, position)->shape].dims;
    dims[6] = (dims[6] + 1) % dims[7];
    return true;
}

static bool trades(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_MIRROR;
}

/* A trade of all shapes like one's moves a row more or less than the half. */
static bool trade_another_row(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    gal_shape *shape = &p->shape[gal_mutate_at(p, fragment, position)->shape];
    shape->dims[0] += gal_random_below(random, 2) == 0 ? 1 : UINT32_MAX;
    return true;
}

static bool steps_zigzag(const gal_program *p, const gal_instruction *in)
{
    return steps(p, in) && (p->shape[in->shape].dims[5] & GAL_ATTENTION_ZIGZAG) != 0;
}

/* Every step of this shape takes its chunks for whole ones. */
static bool forget_zigzag(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    p->shape[gal_mutate_at(p, fragment, position)->shape].dims[5] &= ~(uint32_t)GAL_ATTENTION_ZIGZAG;
    return true;
}

static bool steps_in_order(const gal_program *p, const gal_instruction *in)
{
    return steps(p, in) && !steps_zigzag(p, in);
}

/* Every step of this shape takes whole chunks for halves of two. */
static bool assume_zigzag(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    p->shape[gal_mutate_at(p, fragment, position)->shape].dims[5] |= GAL_ATTENTION_ZIGZAG;
    return true;
}

static bool deals(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_DEAL_FEATURES || in->op == GAL_OP_COLLECT_FEATURES;
}

/* Queries, keys and values dealt out as one part, or a part less to the one before it. */
static bool alter_parts(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    uint32_t *dims = p->shape[gal_mutate_at(p, fragment, position)->shape].dims;
    if (dims[3] == 0) {
        return false;
    }
    dims[2] += dims[3];
    dims[3] = dims[4];
    dims[4] = 0;
    return true;
}

static bool attends_dealt(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->within != GAL_GROUP_NONE;
}

static void forget_within(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_mutate_at(p, fragment, position)->within = GAL_GROUP_NONE;
}

/* ---- sub-batches ---- */

static bool is_added(const gal_program *p, const gal_operand *o)
{
    const uint8_t class = p->buffer[o->buffer].class;
    return o->access == GAL_UPDATE && (class == GAL_CLASS_GRADIENT || class == GAL_CLASS_BUCKET);
}

static bool adds_to_first(const gal_program *p, const gal_instruction *in)
{
    bool adds = false;
    for (uint32_t i = 0; i < in->operand_count; i++) {
        adds = adds || is_added(p, &p->operand[in->first_operand + i]);
    }
    return adds && in->sub_batch == 2 && in->stream == GAL_STREAM_COMPUTE && in->op != GAL_OP_FILL;
}

/* What the second adds to a gradient takes the place of what the first wrote. */
static bool lose_first(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    const gal_instruction *in = gal_mutate_at(p, fragment, position);
    for (uint32_t i = 0; i < in->operand_count; i++) {
        gal_operand *o = &p->operand[in->first_operand + i];
        o->access = is_added(p, o) ? GAL_WRITE : o->access;
    }
    return true;
}

static bool is_second_half(const gal_program *p, const gal_operand *o)
{
    return o->offset_bytes > 0 && o->offset_bytes == o->bytes && p->buffer[o->buffer].bytes == 2 * o->bytes;
}

static bool reads_second(const gal_program *p, const gal_instruction *in)
{
    return in->sub_batch == 2 && in->operand_count > 0 && p->operand[in->first_operand].access == GAL_READ &&
           is_second_half(p, &p->operand[in->first_operand]);
}

static bool read_first(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    (void)random;
    p->operand[gal_mutate_at(p, fragment, position)->first_operand].offset_bytes = 0;
    return true;
}

static const gal_mutation rows[] = {
    /* By everybody; trades likewise. */
    {"hop of a ring dropped", .wanted = rotates, .everywhere = gal_mutate_drop},
    {"step of a ring altered", .wanted = steps, .here = take_another_chunk},
    {"trade of halves dropped", .wanted = trades, .everywhere = gal_mutate_drop},
    {"trade of halves off by one", .wanted = trades, .here = trade_another_row},
    {"zig-zag forgotten by a step", .wanted = steps_zigzag, .here = forget_zigzag},
    {"zig-zag assumed by a step", .wanted = steps_in_order, .here = assume_zigzag},
    {"parts dealt out altered", .wanted = deals, .here = alter_parts},
    {"heads in another place", .wanted = attends_dealt, .everywhere = forget_within},
    {"second sub-batch over the first", .wanted = adds_to_first, .here = lose_first},
    {"first sub-batch read for the second", .wanted = reads_second, .here = read_first},
};
const gal_mutation_set gal_mutations_of_sequence = {sizeof rows / sizeof rows[0], rows};
