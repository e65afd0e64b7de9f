#include "costmodel/structure.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/alone.h"

/* An instruction of a block that is in a step of the chain. */
typedef struct part {
    uint16_t step, instruction;
    uint8_t block; /* of the chain */
    bool is_first; /* of its step */
} part;

struct gal_structure {
    uint32_t prefetch_depth, block_count;
    uint32_t list_class[GAL_CHAIN_MAX];
    gal_program *program; /* that the expansion refers to */
    gal_expansion expansion;
    gal_script script;
    uint32_t part_count;
    part *part;
    gal_structure *next;
};

struct gal_structures {
    const gal_model *model;
    uint32_t class_count, class_capacity;
    gal_program **class_like; /* [list_class]: a program with lifetimes, owned */
    gal_program *lists;       /* of the block lowered last, or NULL */
    gal_structure *first;
};

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

static void structure_free(gal_structure *structure)
{
    if (structure != NULL) {
        gal_script_free(&structure->script);
        gal_expansion_free(&structure->expansion);
        gal_program_free(structure->program);
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
    while (structures->first != NULL) {
        gal_structure *next = structures->first->next;
        structure_free(structures->first);
        structures->first = next;
    }
    for (uint32_t i = 0; i < structures->class_count; i++) {
        gal_program_free(structures->class_like[i]);
    }
    gal_program_free(structures->lists);
    free(structures->class_like);
    free(structures);
}

/* ---- classes of lists ---- */

static gal_code add_class(gal_structures *structures, const gal_price_query *query, gal_error *err)
{
    if (structures->class_count == structures->class_capacity) {
        const uint32_t capacity = 16 + 2 * structures->class_capacity;
        gal_program **grown = realloc(structures->class_like, capacity * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        structures->class_like = grown;
        structures->class_capacity = capacity;
    }
    gal_program **like = &structures->class_like[structures->class_count];
    const gal_code code = gal_lone_lower(structures->model, query, GAL_LOWERED_STEP, NULL, like, err);
    structures->class_count += code == GAL_OK;
    return code;
}

static gal_code find_class(gal_structures *structures, const gal_price_query *query, uint32_t *class, gal_error *err)
{
    *class = 0;
    while (*class < structures->class_count &&
           !gal_program_lists_equal(structures->class_like[*class], structures->lists)) {
        ++*class;
    }
    return *class == structures->class_count ? add_class(structures, query, err) : GAL_OK;
}

gal_code gal_structures_lone(gal_structures *structures, const gal_price_query *query, gal_lone **out, gal_error *err)
{
    uint32_t class = 0;
    gal_program *recycled = structures->lists;
    structures->lists = NULL;
    gal_code code = gal_lone_lower(structures->model, query, GAL_LOWERED_LISTS, recycled, &structures->lists, err);
    code = code == GAL_OK ? find_class(structures, query, &class, err) : code;
    return code == GAL_OK ? gal_lone_create(structures->lists, structures->class_like[class], class, out, err) : code;
}

/* ---- chains ---- */

static bool is_of(const gal_structure *structure, const gal_chain_spec *spec, gal_lone *const lone[])
{
    bool same = structure->block_count == spec->block_count && structure->prefetch_depth == spec->query->prefetch_depth;
    for (uint32_t i = 0; same && i < spec->block_count; i++) {
        same = structure->list_class[i] == lone[i]->list_class;
    }
    return same;
}

/* The block's next instruction in the fragment, transfers passed over; of plain backward its original. */
static uint32_t next_own(const gal_program *program, gal_fragment_kind kind, uint32_t after)
{
    const bool plain = kind == GAL_FRAGMENT_BACKWARD;
    const gal_fragment *fragment = &program->fragment[plain ? GAL_FRAGMENT_BACKWARD_SYNC : kind];
    uint32_t i = after == UINT32_MAX ? fragment->first : after + 1;
    while (i < fragment->first + fragment->count && ((program->instruction[i].group & GAL_GROUP_RELATION) != 0 ||
                                                     (plain && program->instruction[i].only_last))) {
        i++;
    }
    GAL_ASSERT(i < fragment->first + fragment->count);
    return i;
}

/* The chain lists its blocks' instructions in their own order. */
static void list_parts(gal_structure *structure, gal_fragment_kind kind, gal_lone *const lone[])
{
    const gal_program *program = structure->program;
    const gal_fragment *fragment = &program->fragment[kind];
    uint32_t at[GAL_CHAIN_MAX];
    memset(at, 0xFF, sizeof at);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        if ((in->group & GAL_GROUP_RELATION) != 0) {
            continue;
        }
        const uint32_t block = in->block - program->first_block;
        const gal_program *own = lone[block]->like;
        at[block] = next_own(own, kind, at[block]);
        const gal_instruction *original = &own->instruction[at[block]];
        GAL_ASSERT(original->op == in->op && original->stream == in->stream &&
                   lone[block]->size[at[block]].group == in->group);
        const uint32_t step = structure->expansion.step_of[i];
        structure->part[structure->part_count++] = (part){.step = (uint16_t)step,
                                                          .instruction = (uint16_t)at[block],
                                                          .block = (uint8_t)block,
                                                          .is_first = structure->expansion.step[step].instruction == i};
    }
}

static gal_code structure_create(const gal_chain_spec *spec, gal_lone *const lone[], gal_structure **out,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_structure *structure = calloc(1, sizeof *structure);
    if (structure == NULL) {
        return out_of_memory(err);
    }
    structure->block_count = spec->block_count;
    structure->prefetch_depth = spec->query->prefetch_depth;
    gal_block_spec block[GAL_CHAIN_MAX];
    gal_stage_spec stage;
    gal_chain_stage(spec, GAL_LOWERED_STEP, block, &stage);
    for (uint32_t i = 0; i < spec->block_count; i++) {
        structure->list_class[i] = lone[i]->list_class;
    }
    GAL_TRY(gal_lower_spec(&stage, &structure->program, err));
    GAL_TRY(gal_expand(structure->program, gal_chain_calls, GAL_CHAIN_CALLS, NULL, (gal_expand_options){.alone = true},
                       &structure->expansion, err));
    GAL_TRY(gal_script_create(&structure->expansion, &structure->script, err));
    structure->part = malloc(((size_t)structure->program->instruction_count + 1) * sizeof *structure->part);
    if (structure->part == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    list_parts(structure, GAL_FRAGMENT_FORWARD, lone);
    list_parts(structure, GAL_FRAGMENT_BACKWARD, lone);
    list_parts(structure, GAL_FRAGMENT_BACKWARD_SYNC, lone);
    *out = structure;
    structure = NULL;
cleanup:
    structure_free(structure);
    return code;
}

gal_code gal_structures_chain(gal_structures *structures, const gal_chain_spec *spec, gal_lone *const lone[],
                              gal_structure **out, gal_error *err)
{
    gal_structure **at = &structures->first;
    while (*at != NULL && !is_of(*at, spec, lone)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        const gal_code code = structure_create(spec, lone, at, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = *at;
    return GAL_OK;
}

void gal_structure_measure(gal_structure *structure, gal_lone *const lone[], const gal_slowdowns *slowdowns,
                           gal_chain_times *out)
{
    gal_alone_ends ends;
    for (uint32_t i = 0; i < structure->part_count; i++) {
        const part *from = &structure->part[i];
        const gal_cost *cost = &lone[from->block]->cost[from->instruction];
        gal_step *step = &structure->expansion.step[from->step];
        step->seconds = (from->is_first ? 0.0 : step->seconds) + cost->seconds;
        step->level = cost->level;
    }
    gal_play_alone(&structure->script, &structure->expansion, slowdowns, &ends);
    gal_chain_read(&ends, structure->block_count, out);
    for (uint32_t i = 0; i < structure->block_count; i++) {
        out->update_seconds[i] = lone[i]->update_seconds;
    }
}
