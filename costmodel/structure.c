#include "costmodel/structure.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/alone.h"

/* KEY_MAX: of one block some 250, and of each step of a ring attention 70 more. */
enum { KEY_MAX = 16384, SHELVES = 1024 };

/* An instruction of a block alone that is in a step of the chain. */
typedef struct part {
    uint16_t step, instruction;
    uint8_t block;
    bool is_first; /* of its step */
} part;

struct gal_structure {
    uint32_t prefetch_depth, block_count;
    bool sync_alone;
    uint32_t list_class[GAL_CHAIN_MAX]; /* [block] */
    gal_script script;
    uint32_t part_count;
    part *part;
    gal_structure *next;
};

/* Programs of equal lists. */
typedef struct list_class {
    gal_program *like; /* one of them, with lives; owned */
    uint16_t *key;     /* owned */
    uint32_t key_count;
} list_class;

struct gal_structures {
    const gal_model *model;
    uint32_t class_count, class_capacity;
    list_class *class;
    gal_program *lists;            /* of the block lowered last, whose memory the next one takes over; or NULL */
    gal_program *chain;            /* laid out last, whose memory the next one takes over; or NULL */
    gal_structure *shelf[SHELVES]; /* of chains of the classes that shelf_of says */
    gal_known_kernels known;
};

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

static void structure_free(gal_structure *structure)
{
    if (structure != NULL) {
        gal_script_free(&structure->script);
        free(structure->part);
        free(structure);
    }
}

gal_code gal_structures_create(const gal_model *model, gal_structures **out, gal_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return out_of_memory(err);
    }
    (*out)->model = model;
    return GAL_OK;
}

void gal_structures_free(gal_structures *structures)
{
    if (structures == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SHELVES; i++) {
        while (structures->shelf[i] != NULL) {
            gal_structure *next = structures->shelf[i]->next;
            structure_free(structures->shelf[i]);
            structures->shelf[i] = next;
        }
    }
    for (uint32_t i = 0; i < structures->class_count; i++) {
        gal_program_free(structures->class[i].like);
        free(structures->class[i].key);
    }
    gal_program_free(structures->chain);
    gal_program_free(structures->lists);
    free(structures->class);
    free(structures);
}

gal_known_kernels *gal_structures_kernels(gal_structures *structures)
{
    return &structures->known;
}

/* ---- classes of lists ---- */

static gal_code add_class(gal_structures *structures, const uint16_t *key, uint32_t key_count, gal_error *err)
{
    if (structures->class_count == structures->class_capacity) {
        const uint32_t capacity = 16 + 2 * structures->class_capacity;
        list_class *grown = realloc(structures->class, capacity * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        structures->class = grown;
        structures->class_capacity = capacity;
    }
    const gal_code code = gal_program_derive(structures->lists, err);
    if (code != GAL_OK) {
        return code;
    }
    list_class own = {gal_program_copy_lists(structures->lists), malloc(key_count * sizeof *key), key_count};
    if (own.like == NULL || own.key == NULL) {
        gal_program_free(own.like);
        free(own.key);
        return out_of_memory(err);
    }
    memcpy(own.key, key, key_count * sizeof *key);
    structures->class[structures->class_count++] = own;
    return GAL_OK;
}

/* The class of structures->lists. */
static gal_code find_class(gal_structures *structures, uint32_t *class, gal_error *err)
{
    uint16_t key[KEY_MAX];
    const uint32_t count = gal_program_lists_key(structures->lists, NULL);
    GAL_ASSERT(count <= KEY_MAX);
    (void)gal_program_lists_key(structures->lists, key);
    for (*class = 0; *class < structures->class_count; ++*class) {
        const list_class *at = &structures->class[*class];
        if (at->key_count == count && memcmp(at->key, key, count * sizeof *key) == 0) {
            return GAL_OK;
        }
    }
    return add_class(structures, key, count, err);
}

gal_code gal_structures_lone(gal_structures *structures, const gal_price_query *query, gal_lone *out, gal_error *err)
{
    uint32_t class = 0;
    gal_program *recycled = structures->lists;
    structures->lists = NULL;
    gal_code code = gal_lone_lower(structures->model, query, recycled, &structures->lists, err);
    gal_program *program = structures->lists;
    code = code == GAL_OK ? find_class(structures, &class, err) : code;
    return code == GAL_OK ? gal_lone_create(program, query->strategy, structures->class[class].like, class,
                                            &structures->known, out, err)
                          : code;
}

/* ---- chains ---- */

/* Whether a block alone does what none of the chain does there: transfers; in plain backward what only the last
 * microbatch does; what is of a borrowed unit. */
static bool left_out(const gal_program *program, const gal_instruction *in, gal_fragment_kind kind, bool borrows)
{
    return (in->group & GAL_GROUP_RELATION) != 0 ||
           (in->only_last && (kind == GAL_FRAGMENT_BACKWARD || (borrows && gal_lone_is_of_shared(program, in))));
}

/* The block's next instruction in the fragment, of a sub-batch; of plain backward its original. */
static uint32_t next_own(const gal_program *program, gal_fragment_kind kind, bool borrows, uint8_t sub_batch,
                         uint32_t after)
{
    const gal_fragment *fragment =
        &program->fragment[kind == GAL_FRAGMENT_BACKWARD ? GAL_FRAGMENT_BACKWARD_SYNC : kind];
    uint32_t i = after == UINT32_MAX ? fragment->first : after + 1;
    while (i < fragment->first + fragment->count && (program->instruction[i].sub_batch != sub_batch ||
                                                     left_out(program, &program->instruction[i], kind, borrows))) {
        i++;
    }
    GAL_ASSERT(i < fragment->first + fragment->count);
    return i;
}

/* The chain lists its blocks' instructions in their own order; of two sub-batches, which take turns otherwise beside
 * neighbours, each by itself. */
static void list_parts(gal_structure *structure, const gal_program *program, const gal_expansion *expansion,
                       gal_fragment_kind kind, const gal_lone_chain *chain)
{
    const gal_fragment *fragment = &program->fragment[kind];
    enum { SUB_BATCHES = 3 };
    uint32_t at[GAL_CHAIN_MAX][SUB_BATCHES];
    bool borrows[GAL_CHAIN_MAX];
    memset(at, 0xFF, sizeof at);
    for (uint32_t block = 0; block < chain->block_count; block++) {
        borrows[block] = gal_lone_borrows(chain->lone[block], program, block);
    }
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        if ((in->group & GAL_GROUP_RELATION) != 0) {
            continue;
        }
        const uint32_t block = in->block - program->first_block;
        const gal_lone *lone = chain->lone[block];
        uint32_t *own = &at[block][in->sub_batch];
        *own = next_own(lone->like, kind, borrows[block], in->sub_batch, *own);
        const gal_instruction *original = &lone->like->instruction[*own];
        GAL_ASSERT(original->op == in->op && original->stream == in->stream && original->only_last == in->only_last);
        const uint32_t step = expansion->step_of[i];
        GAL_ASSERT(step <= UINT16_MAX && *own <= UINT16_MAX);
        structure->part[structure->part_count++] = (part){.step = (uint16_t)step,
                                                          .instruction = (uint16_t)*own,
                                                          .block = (uint8_t)block,
                                                          .is_first = expansion->step[step].instruction == i};
    }
}

/* Lowers the chain into structures->chain; no plain backward where none is called: the other has its accesses. */
static gal_code lower_chain(gal_structures *structures, const gal_lone_chain *chain, gal_error *err)
{
    gal_chain_spec spec = {.model = structures->model, .query = chain->query, .block_count = chain->block_count};
    gal_block_spec block[GAL_CHAIN_MAX];
    gal_stage_spec stage;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        spec.type[i] = chain->type[i];
        spec.strategy[i] = chain->query->strategy;
    }
    gal_chain_stage(&spec, chain->sync_alone ? GAL_LOWERED_PASSES_ONCE : GAL_LOWERED_PASSES, block, &stage);
    stage.recycled = structures->chain;
    structures->chain = NULL;
    const gal_code code = gal_lower_spec(&stage, &structures->chain, err);
    return code == GAL_OK ? gal_program_derive_waits(structures->chain, GAL_FRAGMENT_UPDATE, err) : code;
}

static gal_code structure_create(gal_structures *structures, const gal_lone_chain *chain, gal_structure **out,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_expansion expansion = {0};
    gal_structure *structure = calloc(1, sizeof *structure);
    if (structure == NULL) {
        return out_of_memory(err);
    }
    structure->prefetch_depth = chain->query->prefetch_depth;
    structure->block_count = chain->block_count;
    structure->sync_alone = chain->sync_alone;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        structure->list_class[i] = chain->lone[i]->list_class;
    }
    GAL_TRY(lower_chain(structures, chain, err));
    const gal_program *program = structures->chain;
    GAL_TRY(gal_expand(program, chain->sync_alone ? gal_chain_sync_calls : gal_chain_calls,
                       chain->sync_alone ? GAL_CHAIN_SYNC_CALLS : GAL_CHAIN_CALLS, NULL,
                       (gal_expand_options){.alone = true}, &expansion, err));
    GAL_TRY(gal_script_create(&expansion, &structure->script, err));
    structure->part = malloc(((size_t)program->instruction_count + 1) * sizeof *structure->part);
    if (structure->part == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    list_parts(structure, program, &expansion, GAL_FRAGMENT_FORWARD, chain);
    if (!chain->sync_alone) {
        list_parts(structure, program, &expansion, GAL_FRAGMENT_BACKWARD, chain);
    }
    list_parts(structure, program, &expansion, GAL_FRAGMENT_BACKWARD_SYNC, chain);
    *out = structure;
    structure = NULL;
cleanup:
    gal_expansion_free(&expansion);
    structure_free(structure);
    return code;
}

static bool is_of_chain(const gal_structure *structure, const gal_lone_chain *chain)
{
    bool same = structure->block_count == chain->block_count && structure->sync_alone == chain->sync_alone &&
                structure->prefetch_depth == chain->query->prefetch_depth;
    for (uint32_t i = 0; i < chain->block_count && same; i++) {
        same = structure->list_class[i] == chain->lone[i]->list_class;
    }
    return same;
}

static uint32_t shelf_of(const gal_lone_chain *chain)
{
    uint32_t hash = 0;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        hash = (hash ^ chain->lone[i]->list_class) * UINT32_C(0x9E3779B1);
    }
    return hash >> 16 & (SHELVES - 1U);
}

gal_code gal_structures_chain(gal_structures *structures, const gal_lone_chain *chain, gal_structure **out,
                              gal_error *err)
{
    gal_structure **at = &structures->shelf[shelf_of(chain)];
    while (*at != NULL && !is_of_chain(*at, chain)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        const gal_code code = structure_create(structures, chain, at, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = *at;
    return GAL_OK;
}

void gal_structures_cost(gal_lone_chain *chain, const gal_durations *durations, const gal_axis_levels *levels)
{
    for (uint32_t i = 0; i < chain->block_count; i++) {
        chain->cost[i] = i > 0 && chain->lone[i] == chain->lone[i - 1]
                             ? chain->cost[i - 1]
                             : gal_lone_costs(chain->lone[i], durations, levels, chain->query->microbatch_samples);
    }
}

void gal_structures_update(const gal_lone *lone, const gal_cost *cost, const gal_durations *durations,
                           gal_chain_times *out)
{
    const gal_company_factors *factors = gal_durations_company(durations);
    gal_lone_laid *laid = lone->kernels->now;
    if (laid == NULL || !laid->knows_update) {
        out->update_seconds = gal_update_seconds(lone->like, cost, factors, 0, 0);
        for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
            const uint32_t units = lone->shared_units[shared];
            out->shared_update_seconds[shared] =
                units == 0 ? 0.0 : out->update_seconds - gal_update_seconds(lone->like, cost, factors, 0, units);
        }
    }
    if (laid != NULL && !laid->knows_update) {
        laid->update_seconds = out->update_seconds;
        memcpy(laid->shared_update_seconds, out->shared_update_seconds, sizeof laid->shared_update_seconds);
        laid->knows_update = true;
    } else if (laid != NULL) {
        out->update_seconds = laid->update_seconds;
        memcpy(out->shared_update_seconds, laid->shared_update_seconds, sizeof out->shared_update_seconds);
    }
}

static void play(gal_structure *structure, const gal_lone_chain *chain, const gal_durations *durations,
                 gal_alone_ends *ends)
{
    for (uint32_t i = 0; i < structure->part_count; i++) {
        const part *from = &structure->part[i];
        const gal_cost *own = &chain->cost[from->block][from->instruction];
        gal_script_step *step = &structure->script.step[from->step];
        step->seconds = (from->is_first ? 0.0 : step->seconds) + own->seconds;
        step->level = own->level;
        step->activity = own->activity;
    }
    gal_play_alone(&structure->script, gal_durations_company(durations), ends);
}

double gal_structures_sync_seconds(gal_structure *structure, const gal_lone_chain *chain,
                                   const gal_durations *durations)
{
    gal_alone_ends ends;
    play(structure, chain, durations, &ends);
    return gal_chain_sync_seconds(&ends);
}

void gal_structures_measure(gal_structure *structure, const gal_lone_chain *chain, const gal_durations *durations,
                            uint32_t update_block, gal_chain_times *out)
{
    gal_alone_ends ends;
    play(structure, chain, durations, &ends);
    gal_chain_read(&ends, structure->block_count, out);
    const gal_lone *lone = chain->lone[update_block];
    const gal_cost *cost = chain->cost[update_block];
    const uint32_t samples = chain->query->microbatch_samples;
    out->own_forward_seconds = gal_lone_own_seconds(lone, durations, samples, GAL_FRAGMENT_FORWARD);
    out->own_backward_seconds = gal_lone_own_seconds(lone, durations, samples, GAL_FRAGMENT_BACKWARD_SYNC);
    out->stored_forward_seconds = gal_lone_stored_seconds(lone, durations, samples, GAL_FRAGMENT_FORWARD);
    out->stored_backward_seconds = gal_lone_stored_seconds(lone, durations, samples, GAL_FRAGMENT_BACKWARD_SYNC);
    gal_lone_link_seconds(lone, cost, out->link_seconds);
    gal_lone_collective_seconds(lone, cost, out);
    gal_structures_update(lone, cost, durations, out);
}
