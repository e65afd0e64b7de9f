/* Mistakes of collectives, transfers and what lies in the host's memory. */
#include "tests/support/mutate_internal.h"
#include "tests/support/random_plan.h"

/* ---- communication ---- */

static bool reduces(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ALL_REDUCE || in->op == GAL_OP_REDUCE_SCATTER;
}

static bool all_reduces(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ALL_REDUCE;
}

static bool gathers(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_ALL_GATHER;
}

static bool sends(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_SEND;
}

static bool receives(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_RECEIVE;
}

static bool views_a_shard(const gal_program *p, const gal_instruction *in)
{
    return gal_mutate_is_of_host(p, in) && in->stream != GAL_STREAM_HOST &&
           (gal_mutate_operands(p, in)[0].view != GAL_GROUP_NONE ||
            gal_mutate_operands(p, in)[1].view != GAL_GROUP_NONE);
}

static void take_the_first(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_operand *operand = gal_mutate_operands(p, gal_mutate_at(p, fragment, position));
    for (uint32_t k = 0; k < 2; k++) {
        operand[k].view = GAL_GROUP_NONE;
        operand[k].view_stride_bytes = 0;
    }
}

/* Of what forward keeps in the host's memory, or beyond it: on its way there, and back. */
static bool holds_kept(const gal_program *p, const gal_operand *operand)
{
    const uint8_t class = p->buffer[operand->buffer].class;
    return class == GAL_CLASS_HOST_SAVED || class == GAL_CLASS_STORED_SAVED;
}

static bool puts_away(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_OUT && holds_kept(p, &gal_mutate_operands(p, in)[1]);
}

static bool brings_back(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_IN && holds_kept(p, &gal_mutate_operands(p, in)[0]);
}

static gal_group chosen_group; /* tests run on one thread */

static void set_group(gal_program *p, uint32_t fragment, uint32_t position)
{
    gal_mutate_at(p, fragment, position)->group = chosen_group;
}

static bool reduces_inside(const gal_program *p, const gal_instruction *in)
{
    return reduces(p, in) && (in->group & GAL_GROUP_RELATION) == 0;
}

static bool wrong_group(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_mutate_spot where = {NULL, 0, 0};
    if (!gal_mutate_choose(programs, stage_count, reduces_inside, random, &where)) {
        return false;
    }
    gal_group group = gal_mutate_at(where.program, where.fragment, where.position)->group;
    uint32_t sets = (1u << where.program->atoms.count) - 1;
    if (sets < 2) {
        return false;
    }
    do {
        chosen_group = 1 + gal_random_below(random, sets);
    } while (chosen_group == group);
    gal_mutate_everywhere(programs, stage_count, &where, set_group);
    return true;
}

static bool permutes(const gal_program *p, const gal_instruction *in)
{
    (void)p;
    return in->op == GAL_OP_PERMUTE;
}

/* Two strides change places, or one grows by a row. */
static bool alter_stride(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random)
{
    enum { COUNTS = 5 };
    uint32_t *dims = p->shape[gal_mutate_at(p, fragment, position)->shape].dims;
    uint32_t i = gal_random_below(random, COUNTS);
    uint32_t j = gal_random_below(random, COUNTS);
    if (dims[1 + i] < 2) {
        return false;
    }
    if (dims[1 + j] > 1 && i != j) {
        uint32_t kept = dims[1 + COUNTS + i];
        dims[1 + COUNTS + i] = dims[1 + COUNTS + j];
        dims[1 + COUNTS + j] = kept;
    } else {
        dims[1 + COUNTS + i]++;
    }
    return true;
}

/* ---- sums that are no sums ---- */

static bool replicated_sum(gal_program *const *programs, uint32_t stage_count, uint64_t *random)
{
    gal_program *p = gal_mutate_choose_stage(programs, stage_count, random);
    for (uint32_t i = 0; i < p->shape_count; i++) {
        if (p->shape[i].op == GAL_OP_SUM_SQUARES) {
            p->shape[i].dims[1]++;
            return true;
        }
    }
    return false;
}

static const gal_mutation rows[] = {
    {"reduction dropped", .wanted = reduces, .everywhere = gal_mutate_drop},
    {"reduction doubled", .wanted = all_reduces, .everywhere = gal_mutate_repeat},
    {"reduction over a wrong group", .whole = wrong_group},
    {"gather dropped", .wanted = gathers, .everywhere = gal_mutate_drop},
    {"host work dropped", .wanted = gal_mutate_is_of_host, .everywhere = gal_mutate_drop},
    {"host work doubled", .wanted = gal_mutate_is_of_host, .everywhere = gal_mutate_repeat},
    {"host copy of another shard", .wanted = views_a_shard, .everywhere = take_the_first},
    /* To the host before the value is there; from the host when somebody has read the place already. */
    {"kept values taken early", .wanted = puts_away, .past = {GAL_MUTATE_EARLIER, 0, GAL_WRITE, NULL}},
    {"kept values brought late", .wanted = brings_back, .past = {GAL_MUTATE_LATER, 1, GAL_READ, NULL}},
    {"send missing", .wanted = sends, .here = gal_mutate_drop_here},
    {"receive missing", .wanted = receives, .here = gal_mutate_drop_here},
    {"permute stride altered", .wanted = permutes, .here = alter_stride},
    {"replicas of a norm altered", .whole = replicated_sum},
};
const gal_mutation_set gal_mutations_of_communication = {sizeof rows / sizeof rows[0], rows};
