#include "costmodel/crossing.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/word_keys.h"

/* What a part of a step is of. */
typedef enum side { SIDE_FROM, SIDE_TO, SIDE_FORWARD, SIDE_BACKWARD, SIDES } side;

/* An instruction of a block alone, or a work of the conversion, that is in a step of the chain. */
typedef struct part {
    uint16_t step, instruction;
    uint8_t side;
    bool is_first; /* of its step */
} part;

struct gal_crossing {
    uint32_t number;
    gal_script script;
    uint32_t part_count;
    part *part;
    gal_crossing *next;
};

struct gal_crossings {
    gal_word_keys known; /* gal_crossing *: NULL: chains that are lowered each for itself */
    gal_crossing *first; /* of all */
    uint32_t count;
    gal_program *chain; /* laid out last, whose memory the next one takes over; or NULL */
    gal_program *works; /* of a conversion: what its costs are asked by */
    gal_instruction work[2 * GAL_RELAYOUT_WORKS_MAX];
    gal_known_kernels *kernels; /* not owned */
    gal_cost *from_cost;        /* [instruction] of the block before */
    uint32_t from_capacity;
};

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

static void crossing_free(gal_crossing *crossing)
{
    if (crossing != NULL) {
        gal_script_free(&crossing->script);
        free(crossing->part);
        free(crossing);
    }
}

gal_code gal_crossings_create(gal_known_kernels *kernels, gal_crossings **out, gal_error *err)
{
    gal_crossings *crossings = calloc(1, sizeof *crossings);
    if (crossings == NULL || (crossings->works = calloc(1, sizeof *crossings->works)) == NULL) {
        free(crossings);
        return out_of_memory(err);
    }
    crossings->kernels = kernels;
    *out = crossings;
    return GAL_OK;
}

void gal_crossings_free(gal_crossings *crossings)
{
    if (crossings == NULL) {
        return;
    }
    while (crossings->first != NULL) {
        gal_crossing *next = crossings->first->next;
        crossing_free(crossings->first);
        crossings->first = next;
    }
    gal_word_keys_free(&crossings->known);
    gal_program_free(crossings->chain);
    free(crossings->works);
    free(crossings->from_cost);
    free(crossings);
}

uint32_t gal_crossing_number(const gal_crossing *crossing)
{
    return crossing->number;
}

/* ---- what a conversion costs ---- */

/* Of copies of one name; as the lowering names them. */
static const char *name_of(const gal_relayout_work *work)
{
    return work->kind == GAL_STEP_SLICE ? "slice" : "permute";
}

static const gal_relayout_work *work_at(const gal_relayout *relayout, uint32_t i)
{
    return i < relayout->forward_count ? &relayout->forward[i] : &relayout->backward[i - relayout->forward_count];
}

/* Puts works into the program that they are asked by: a shape's number is that of the first work that has it. */
static void list_works(gal_crossings *crossings, const gal_relayout *relayout)
{
    gal_program *program = crossings->works;
    const uint32_t count = relayout->forward_count + relayout->backward_count;
    program->instruction = crossings->work;
    program->fragment[GAL_FRAGMENT_FORWARD] = (gal_fragment){0, relayout->forward_count};
    program->fragment[GAL_FRAGMENT_BACKWARD] = (gal_fragment){relayout->forward_count, relayout->backward_count};
    for (uint32_t i = 0; i < count; i++) {
        const gal_relayout_work *work = work_at(relayout, i);
        uint32_t shape = 0;
        while (shape < i && memcmp(&work_at(relayout, shape)->shape, &work->shape, sizeof work->shape) != 0) {
            shape++;
        }
        crossings->work[i] = (gal_instruction){.op = (uint8_t)work->shape.op, .shape = shape, .name = name_of(work)};
    }
}

static gal_cost cost_of(gal_crossings *crossings, const gal_crossing_chain *chain, const gal_place_in_cluster *place,
                        const gal_relayout_work *work, gal_fragment_kind kind, const gal_instruction *in)
{
    const gal_durations *durations = chain->spec->durations;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    if (!gal_op_is_collective[work->shape.op]) {
        return gal_kernel_cost(
            durations, work->shape.op,
            gal_kernel_in_company(durations, crossings->works, (uint32_t)kind, in,
                                  gal_known_kernel_seconds(crossings->kernels, durations, &work->shape)));
    }
    gal_group_level_counts(gal_durations_cluster(durations), place, work->group, level_counts);
    return gal_collective_cost(durations, work->shape.op, level_counts, work->bytes);
}

void gal_crossings_costs(gal_crossings *crossings, const gal_crossing_chain *chain, gal_relayout_costs *out)
{
    const gal_relayout *relayout = chain->relayout;
    const gal_price_query *query = chain->spec->query;
    gal_atoms atoms;
    gal_atoms_of(query->device_count, &atoms);
    const gal_place_in_cluster place = {&atoms, query->device_count, query->stage, query->stage_count};
    list_works(crossings, relayout);
    for (uint32_t i = 0; i < relayout->forward_count; i++) {
        out->forward[i] =
            cost_of(crossings, chain, &place, &relayout->forward[i], GAL_FRAGMENT_FORWARD, &crossings->work[i]);
    }
    for (uint32_t i = 0; i < relayout->backward_count; i++) {
        out->backward[i] = cost_of(crossings, chain, &place, &relayout->backward[i], GAL_FRAGMENT_BACKWARD,
                                   &crossings->work[relayout->forward_count + i]);
    }
}

/* ---- parts ---- */

typedef struct lister {
    gal_crossing *crossing;
    const gal_program *program;
    const gal_expansion *expansion;
    const gal_crossing_chain *chain;
    bool like; /* the lists are as they should be */
} lister;

static const gal_lone *lone_of(const gal_crossing_chain *chain, uint32_t block)
{
    return block < chain->from_count ? chain->from : chain->to;
}

/* The block's next instruction that the chain has too (structure.c), of plain backward its original; the fragment's
 * end: none. */
static uint32_t next_own(const gal_program *program, gal_fragment_kind kind, bool borrowing, uint32_t after)
{
    const gal_fragment *fragment =
        &program->fragment[kind == GAL_FRAGMENT_BACKWARD ? GAL_FRAGMENT_BACKWARD_SYNC : kind];
    uint32_t i = after == UINT32_MAX ? fragment->first : after + 1;
    for (; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool last_only =
            in->only_last && (kind == GAL_FRAGMENT_BACKWARD || (borrowing && gal_lone_is_of_shared(program, in)));
        if ((in->group & GAL_GROUP_RELATION) == 0 && !last_only) {
            break;
        }
    }
    return i;
}

/* No block has instructions of these names. */
static bool converts(const gal_instruction *in)
{
    static const char *const names[] = {"slice", "permute", "exchange", "gather x"};
    bool found = false;
    for (uint32_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
        found = in->name[0] == names[i][0] && strcmp(in->name, names[i]) == 0;
    }
    return found;
}

static void add_part(lister *l, uint32_t instruction, side from, uint32_t number)
{
    const uint32_t step = l->expansion->step_of[instruction];
    GAL_ASSERT(step <= UINT16_MAX && number <= UINT16_MAX);
    l->crossing->part[l->crossing->part_count++] =
        (part){.step = (uint16_t)step,
               .instruction = (uint16_t)number,
               .side = (uint8_t)from,
               .is_first = l->expansion->step[step].instruction == instruction};
}

static bool is_work(const lister *l, uint32_t instruction, const gal_relayout_work *work)
{
    const gal_instruction *in = &l->program->instruction[instruction];
    const gal_shape *shape = &l->program->shape[in->shape];
    return in->op == work->shape.op &&
           (gal_op_is_collective[in->op] ? in->group == work->group && in->bytes == work->bytes
                                         : memcmp(shape, &work->shape, sizeof *shape) == 0);
}

/* A fragment of the chain lists its blocks' instructions and the conversion's in their own order. */
static void list_parts(lister *l, gal_fragment_kind kind)
{
    const gal_fragment *fragment = &l->program->fragment[kind];
    const gal_relayout *relayout = l->chain->relayout;
    const bool forward = kind == GAL_FRAGMENT_FORWARD;
    const gal_relayout_work *work = forward ? relayout->forward : relayout->backward;
    const uint32_t work_count = forward ? relayout->forward_count : relayout->backward_count;
    uint32_t at[GAL_CHAIN_MAX], works = 0;
    memset(at, 0xFF, sizeof at);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count && l->like; i++) {
        const gal_instruction *in = &l->program->instruction[i];
        const uint32_t block = in->block - l->program->first_block;
        if ((in->group & GAL_GROUP_RELATION) != 0) {
            continue;
        }
        if (converts(in)) {
            l->like = works < work_count && is_work(l, i, &work[works]);
            add_part(l, i, forward ? SIDE_FORWARD : SIDE_BACKWARD, works++);
            continue;
        }
        const gal_lone *lone = lone_of(l->chain, block);
        const gal_program *own = lone->like;
        at[block] = next_own(own, kind, gal_lone_borrows(lone, l->program, block), at[block]);
        l->like = at[block] < own->instruction_count && own->instruction[at[block]].op == in->op &&
                  own->instruction[at[block]].stream == in->stream;
        add_part(l, i, block < l->chain->from_count ? SIDE_FROM : SIDE_TO, at[block]);
    }
    l->like = l->like && works == work_count;
}

/* ---- running ---- */

static gal_code keep_from(gal_crossings *crossings, uint32_t count, gal_error *err)
{
    if (count > crossings->from_capacity) {
        gal_cost *grown = realloc(crossings->from_cost, count * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        crossings->from_cost = grown;
        crossings->from_capacity = count;
    }
    return GAL_OK;
}

/* The costs of both blocks, which may be of one that keeps its last ones alone. */
static void fill_steps(gal_crossings *crossings, gal_crossing *crossing, const gal_crossing_chain *chain,
                       const gal_relayout_costs *costs)
{
    const gal_durations *durations = chain->spec->durations;
    const uint32_t samples = chain->spec->query->microbatch_samples;
    const gal_cost *from = gal_lone_costs(chain->from, durations, chain->from_levels, samples);
    memcpy(crossings->from_cost, from, chain->from->like->instruction_count * sizeof *from);
    const gal_cost *const cost[SIDES] = {
        [SIDE_FROM] = crossings->from_cost,
        [SIDE_TO] = gal_lone_costs(chain->to, durations, chain->to_levels, samples),
        [SIDE_FORWARD] = costs->forward,
        [SIDE_BACKWARD] = costs->backward,
    };
    for (uint32_t i = 0; i < crossing->part_count; i++) {
        const part *of = &crossing->part[i];
        const gal_cost *own = &cost[of->side][of->instruction];
        gal_script_step *step = &crossing->script.step[of->step];
        step->seconds = (of->is_first ? 0.0 : step->seconds) + own->seconds;
        step->level = own->level;
        step->activity = own->activity;
    }
}

void gal_crossings_run(gal_crossings *crossings, const gal_crossing *crossing, const gal_crossing_chain *chain,
                       const gal_relayout_costs *costs, gal_chain_times *out)
{
    gal_alone_ends ends;
    gal_crossing *filled = (gal_crossing *)crossing; /* the crossings' own */
    fill_steps(crossings, filled, chain, costs);
    gal_play_alone(&crossing->script, gal_durations_company(chain->spec->durations), &ends);
    gal_chain_read(&ends, chain->spec->block_count, out);
}

/* ---- queues ---- */

/* Whether the costs of the parts are those of the chain's own instructions, to the bit. */
static gal_code check_parts(gal_crossings *crossings, gal_crossing *crossing, const gal_expansion *e,
                            const gal_crossing_chain *chain, bool *equal, gal_error *err)
{
    const gal_program *program = crossings->chain;
    const gal_script_step *steps = crossing->script.step;
    gal_relayout_costs costs;
    gal_cost *cost = gal_chain_costs(chain->spec, program, crossings->kernels);
    double *seconds = calloc((size_t)e->step_count + 1, sizeof *seconds);
    *equal = false;
    if (cost == NULL || seconds == NULL) {
        free(cost);
        free(seconds);
        return out_of_memory(err);
    }
    gal_crossings_costs(crossings, chain, &costs);
    fill_steps(crossings, crossing, chain, &costs);
    *equal = true;
    for (uint32_t f = 0; f <= GAL_FRAGMENT_BACKWARD_SYNC; f++) {
        const gal_fragment *fragment = &program->fragment[f];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            if ((program->instruction[i].group & GAL_GROUP_RELATION) == 0) {
                const gal_script_step *step = &steps[e->step_of[i]];
                seconds[e->step_of[i]] += cost[i].seconds;
                *equal = *equal && step->level == cost[i].level && step->activity == cost[i].activity;
            }
        }
    }
    for (uint32_t i = 0; i < e->step_count; i++) {
        *equal = *equal && memcmp(&seconds[i], &steps[i].seconds, sizeof *seconds) == 0;
    }
    free(seconds);
    free(cost);
    return GAL_OK;
}

static gal_code lower(gal_crossings *crossings, const gal_crossing_chain *chain, gal_error *err)
{
    gal_block_spec block[GAL_CHAIN_MAX];
    gal_stage_spec stage;
    gal_chain_stage(chain->spec, GAL_LOWERED_PASSES, block, &stage);
    stage.recycled = crossings->chain;
    crossings->chain = NULL;
    const gal_code code = gal_lower_spec(&stage, &crossings->chain, err);
    return code == GAL_OK ? gal_program_derive_waits(crossings->chain, GAL_FRAGMENT_UPDATE, err) : code;
}

static gal_code lay_out(gal_crossings *crossings, const gal_crossing_chain *chain, gal_crossing **out, gal_error *err)
{
    gal_code code = GAL_OK;
    bool equal = false;
    gal_expansion expansion = {0};
    gal_crossing *crossing = calloc(1, sizeof *crossing);
    if (crossing == NULL) {
        return out_of_memory(err);
    }
    GAL_TRY(lower(crossings, chain, err));
    const gal_program *program = crossings->chain;
    GAL_TRY(gal_expand(program, gal_chain_calls, GAL_CHAIN_CALLS, NULL, (gal_expand_options){.alone = true}, &expansion,
                       err));
    GAL_TRY(gal_script_create(&expansion, &crossing->script, err));
    crossing->part = calloc((size_t)program->instruction_count + 1, sizeof *crossing->part);
    if (crossing->part == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    lister l = {.crossing = crossing, .program = program, .expansion = &expansion, .chain = chain, .like = true};
    list_parts(&l, GAL_FRAGMENT_FORWARD);
    list_parts(&l, GAL_FRAGMENT_BACKWARD);
    list_parts(&l, GAL_FRAGMENT_BACKWARD_SYNC);
    if (l.like) {
        GAL_TRY(check_parts(crossings, crossing, &expansion, chain, &equal, err));
    }
    *out = NULL;
    if (equal) {
        *out = crossing;
        crossing = NULL;
    }
cleanup:
    gal_expansion_free(&expansion);
    crossing_free(crossing);
    return code;
}

/* Chains of others may differ where blocks alone do not: in what units join and in what is issued across a border. */
static bool is_plain(const gal_strategy *strategy)
{
    return strategy->zero_stage <= 1 && strategy->chunk_elements == 0 && strategy->recompute == GAL_RECOMPUTE_NONE &&
           strategy->overlap == GAL_OVERLAP_NONE && !gal_strategy_offloads(strategy);
}

/* Of plain strategies lists depend on the types, on the lists of the blocks alone, on the steps and on how many
 * instructions each is. */
enum { KEY_STEPS = 8, KEY_WORDS = 4 + 2 * (GAL_RELAYOUT_WORKS_MAX / KEY_STEPS + 1) };

static uint32_t write_key(const gal_crossing_chain *chain, uint64_t *key)
{
    const gal_chain_spec *spec = chain->spec;
    const gal_relayout *relayout = chain->relayout;
    uint32_t count = 0;
    _Static_assert((int)GAL_STEP_JOIN < 16, "bits");
    GAL_ASSERT(is_plain(spec->strategy[0]) && is_plain(spec->strategy[spec->block_count - 1]));
    key[count++] = (uint64_t)chain->from->list_class << 32 | chain->to->list_class;
    key[count++] = (uint64_t)spec->type[0] << 32 | spec->type[spec->block_count - 1];
    key[count++] = (uint64_t)spec->query->prefetch_depth << 32 | chain->from_count << 16 | spec->block_count;
    key[count++] = (uint64_t)relayout->forward_count << 32 | relayout->backward_count;
    for (uint32_t way = 0; way < 2; way++) {
        const gal_relayout_work *work = way == 0 ? relayout->forward : relayout->backward;
        const uint32_t works = way == 0 ? relayout->forward_count : relayout->backward_count;
        for (uint32_t i = 0; i < works; i++) {
            key[count] = i % KEY_STEPS == 0 ? 0 : key[count];
            key[count] = key[count] << 8 | (uint64_t)work[i].kind << 4 |
                         (uint64_t)(work[i].shape.op == GAL_OP_PERMUTE) << 1 | (uint64_t)work[i].begins;
            count += i % KEY_STEPS == KEY_STEPS - 1 || i + 1 == works;
        }
    }
    return count;
}

gal_code gal_crossings_find(gal_crossings *crossings, const gal_crossing_chain *chain, const gal_crossing **out,
                            gal_error *err)
{
    uint64_t key[KEY_WORDS];
    const uint32_t count = write_key(chain, key);
    gal_crossing **known = gal_word_keys_find(&crossings->known, key, count);
    if (known != NULL) {
        *out = *known;
        return GAL_OK;
    }
    gal_crossing *made = NULL;
    gal_code code = keep_from(crossings, chain->from->like->instruction_count, err);
    code = code == GAL_OK ? lay_out(crossings, chain, &made, err) : code;
    code = code == GAL_OK ? gal_word_keys_keep(&crossings->known, key, count, &made, sizeof made, err) : code;
    if (code != GAL_OK) {
        crossing_free(made);
        return code;
    }
    if (made != NULL) {
        made->number = ++crossings->count;
        made->next = crossings->first;
        crossings->first = made;
    }
    *out = made;
    return GAL_OK;
}
