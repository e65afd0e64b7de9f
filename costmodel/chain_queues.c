#include "costmodel/chain_queues.h"

#include <stdlib.h>
#include <string.h>

/* The queues of all programs of one key. */
typedef struct layout {
    uint64_t hash;
    uint16_t *key; /* owned */
    uint32_t key_count;
    gal_expansion expansion;
    gal_script script;
} layout;

struct gal_chain_queues {
    gal_program *program; /* lowered last, whose memory the next one takes over; or NULL */
    uint16_t *key;        /* of it */
    uint32_t key_capacity;
    uint32_t layout_count, layout_capacity;
    layout *layout;
    uint32_t *slot;           /* open addressing, 2 * layout_capacity: number of a layout and 1; 0: free */
    gal_known_kernels *known; /* not owned */
};

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

gal_code gal_chain_queues_create(gal_known_kernels *known, gal_chain_queues **out, gal_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return out_of_memory(err);
    }
    (*out)->known = known;
    return GAL_OK;
}

static void layout_free(layout *of)
{
    gal_script_free(&of->script);
    gal_expansion_free(&of->expansion);
    free(of->key);
}

void gal_chain_queues_free(gal_chain_queues *queues)
{
    if (queues == NULL) {
        return;
    }
    for (uint32_t i = 0; i < queues->layout_count; i++) {
        layout_free(&queues->layout[i]);
    }
    free(queues->slot);
    free(queues->layout);
    free(queues->key);
    gal_program_free(queues->program);
    free(queues);
}

/* ---- keys ---- */

/* Writes the key of queues->program: what waits depend on (gal_program_lists_key), and what steps do beside: blocks and
 * the items of arenas. */
static gal_code write_key(gal_chain_queues *queues, uint32_t *count, uint64_t *hash, gal_error *err)
{
    const gal_program *program = queues->program;
    const uint32_t lists = gal_program_lists_key(program, NULL);
    const uint32_t arenas = gal_program_arenas(program);
    *count = lists + program->instruction_count + arenas;
    if (*count > queues->key_capacity) {
        uint16_t *grown = realloc(queues->key, *count * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        queues->key = grown;
        queues->key_capacity = *count;
    }
    (void)gal_program_lists_key(program, queues->key);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        queues->key[lists + i] = (uint16_t)(program->instruction[i].block - program->first_block);
    }
    for (uint32_t i = 0; i < arenas; i++) {
        queues->key[lists + program->instruction_count + i] = (uint16_t)program->arena[i].count;
    }
    *hash = *count;
    for (uint32_t i = 0; i < *count; i++) {
        *hash = (*hash ^ queues->key[i]) * UINT64_C(0x9E3779B97F4A7C15);
        *hash ^= *hash >> 32;
    }
    return GAL_OK;
}

static uint32_t *slot_of(const gal_chain_queues *queues, const uint16_t *key, uint32_t count, uint64_t hash)
{
    const uint32_t mask = 2 * queues->layout_capacity - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (queues->slot[at] != 0) {
        const layout *known = &queues->layout[queues->slot[at] - 1];
        if (known->hash == hash && known->key_count == count && memcmp(known->key, key, count * sizeof *key) == 0) {
            break;
        }
        at = (at + 1) & mask;
    }
    return &queues->slot[at];
}

static gal_code widen(gal_chain_queues *queues, gal_error *err)
{
    const uint32_t wanted = queues->layout_capacity == 0 ? 32 : 2 * queues->layout_capacity;
    layout *grown = realloc(queues->layout, wanted * sizeof *grown);
    queues->layout = grown == NULL ? queues->layout : grown;
    uint32_t *slot = calloc(2 * (size_t)wanted, sizeof *slot);
    if (grown == NULL || slot == NULL) {
        free(slot);
        return out_of_memory(err);
    }
    free(queues->slot);
    queues->slot = slot;
    queues->layout_capacity = wanted;
    for (uint32_t i = 0; i < queues->layout_count; i++) {
        const layout *known = &queues->layout[i];
        *slot_of(queues, known->key, known->key_count, known->hash) = i + 1;
    }
    return GAL_OK;
}

/* ---- layouts ---- */

static gal_code lay_out(gal_chain_queues *queues, uint32_t key_count, uint64_t hash, layout *out, gal_error *err)
{
    gal_code code = GAL_OK;
    layout made = {.hash = hash, .key_count = key_count, .key = malloc(key_count * sizeof *made.key)};
    if (made.key == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    memcpy(made.key, queues->key, key_count * sizeof *made.key);
    GAL_TRY(gal_program_derive_waits(queues->program, GAL_FRAGMENT_UPDATE, err));
    GAL_TRY(gal_expand(queues->program, gal_chain_calls, GAL_CHAIN_CALLS, NULL, (gal_expand_options){.alone = true},
                       &made.expansion, err));
    GAL_TRY(gal_script_create(&made.expansion, &made.script, err));
    *out = made;
    made = (layout){0};
cleanup:
    layout_free(&made);
    return code;
}

/* The layout of queues->program. */
static gal_code find_layout(gal_chain_queues *queues, layout **out, gal_error *err)
{
    uint32_t count = 0;
    uint64_t hash = 0;
    gal_code code = write_key(queues, &count, &hash, err);
    if (code == GAL_OK && queues->layout_count == queues->layout_capacity) {
        code = widen(queues, err);
    }
    if (code != GAL_OK) {
        return code;
    }
    uint32_t *slot = slot_of(queues, queues->key, count, hash);
    if (*slot == 0) {
        code = lay_out(queues, count, hash, &queues->layout[queues->layout_count], err);
        if (code != GAL_OK) {
            return code;
        }
        *slot = ++queues->layout_count;
    }
    *out = &queues->layout[*slot - 1];
    return GAL_OK;
}

/* Puts the costs of the program's instructions into the steps. */
static void fill_steps(const gal_program *program, const gal_cost *cost, layout *of)
{
    for (uint32_t f = 0; f <= GAL_FRAGMENT_BACKWARD_SYNC; f++) {
        const gal_fragment *fragment = &program->fragment[f];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            if ((program->instruction[i].group & GAL_GROUP_RELATION) != 0) {
                continue; /* transfers, which a stage alone has not */
            }
            const uint32_t at = of->expansion.step_of[i];
            gal_script_step *step = &of->script.step[at];
            step->seconds = (of->expansion.step[at].instruction == i ? 0.0 : step->seconds) + cost[i].seconds;
            step->level = cost[i].level;
            step->activity = cost[i].activity;
        }
    }
}

gal_code gal_chain_queues_run(gal_chain_queues *queues, const gal_chain_spec *spec, gal_chain_times *out,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    gal_block_spec block[GAL_CHAIN_MAX];
    gal_stage_spec stage;
    gal_alone_ends ends;
    layout *of = NULL;
    gal_cost *cost = NULL;
    gal_chain_stage(spec, GAL_LOWERED_PASSES, block, &stage);
    stage.recycled = queues->program;
    queues->program = NULL;
    GAL_TRY(gal_lower_spec(&stage, &queues->program, err));
    GAL_TRY(find_layout(queues, &of, err));
    cost = gal_chain_costs(spec, queues->program, queues->known);
    if (cost == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    fill_steps(queues->program, cost, of);
    gal_play_alone(&of->script, gal_durations_company(spec->durations), &ends);
    gal_chain_read(&ends, spec->block_count, out);
cleanup:
    free(cost);
    return code;
}
