#include "costmodel/price.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/structure.h"

enum { KEY_WORDS = 5, FIRST_SLOTS = 256 };

typedef struct key {
    uint64_t word[KEY_WORDS];
} key;

/* Blocks alone are kept per key without samples and stage. */
typedef enum entry_kind { ENTRY_BLOCK, ENTRY_PAIR, ENTRY_LONE } entry_kind;

typedef struct entry {
    key key;
    entry_kind kind;
    union {
        gal_block_price block;
        gal_pair_price pair;
        gal_lone lone;
    } of;
} entry;

struct gal_price_cache {
    const gal_model *model;
    const gal_durations *durations;
    gal_structures *structures;
    uint32_t first_type, type_behind_first, type_before_last, last_type; /* of the chain's ends */
    uint32_t slot_count, entry_count;
    entry **slot; /* open addressing; NULL: free */
};

/* ---- keys ---- */

/* Up to three axes of 2 + 19 bits; kinds do not repeat, so three is all there are. */
static uint64_t pack_axes(const gal_strategy *strategy)
{
    uint64_t word = 0;
    GAL_ASSERT(strategy->axis_count <= 3);
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        GAL_ASSERT(strategy->axis[i].degree < UINT32_C(1) << 19);
        word = word << 21 | (uint64_t)(strategy->axis[i].kind + 1) << 19 | strategy->axis[i].degree;
    }
    return word;
}

static uint64_t pack_flags(const gal_strategy *strategy, uint32_t type)
{
    _Static_assert((int)GAL_RECOMPUTE_COUNT <= 4 && (int)GAL_TYPES_MAX <= 128, "bits");
    return (uint64_t)strategy->zero_stage | (uint64_t)strategy->sequence_parallel << 2 |
           (uint64_t)strategy->recompute << 3 | (uint64_t)type << 17;
}

/* 0 where the stage lies in the link tree as all others do, else its number: see gal_group_level_counts. */
static uint32_t placement_class(const gal_cluster *cluster, uint32_t device_count, uint32_t stage)
{
    const uint64_t begin = (uint64_t)stage * device_count;
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const uint32_t span = cluster->level[i].span_devices;
        if (device_count % span != 0 && begin / span != (begin + device_count - 1) / span) {
            return stage + 1;
        }
    }
    return 0;
}

static void key_of(const gal_price_cache *cache, const gal_price_query *query, key *out)
{
    const uint32_t place = placement_class(gal_durations_cluster(cache->durations), query->device_count, query->stage);
    out->word[0] = pack_axes(query->strategy);
    out->word[1] = pack_flags(query->strategy, query->type) | (uint64_t)query->prefetch_depth << 8 |
                   (uint64_t)(query->stage_count == 1) << 16 | (uint64_t)place << 32;
    out->word[2] = (uint64_t)query->device_count | (uint64_t)query->microbatch_samples << 32;
    out->word[3] = 0;
    out->word[4] = 0;
}

static uint32_t hash_of(const key *k)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < KEY_WORDS; i++) {
        hash = (hash ^ k->word[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static entry **find(const gal_price_cache *cache, const key *k, entry_kind kind)
{
    uint32_t at = hash_of(k) & (cache->slot_count - 1);
    while (cache->slot[at] != NULL &&
           (cache->slot[at]->kind != kind || memcmp(&cache->slot[at]->key, k, sizeof *k) != 0)) {
        at = (at + 1) & (cache->slot_count - 1);
    }
    return &cache->slot[at];
}

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

static gal_code grow(gal_price_cache *cache, gal_error *err)
{
    gal_price_cache larger = {.slot_count = cache->slot_count * 2};
    larger.slot = calloc(larger.slot_count, sizeof *larger.slot);
    if (larger.slot == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t i = 0; i < cache->slot_count; i++) {
        if (cache->slot[i] != NULL) {
            *find(&larger, &cache->slot[i]->key, cache->slot[i]->kind) = cache->slot[i];
        }
    }
    free(cache->slot);
    cache->slot = larger.slot;
    cache->slot_count = larger.slot_count;
    return GAL_OK;
}

/* Takes the entry over, unless it fails. */
static gal_code add(gal_price_cache *cache, entry *e, gal_error *err)
{
    if (2 * (cache->entry_count + 1) > cache->slot_count && grow(cache, err) != GAL_OK) {
        return GAL_ERR_SYSTEM;
    }
    *find(cache, &e->key, e->kind) = e;
    cache->entry_count++;
    return GAL_OK;
}

bool gal_model_has_prices(const gal_model *model)
{
    return model->family != GAL_FAMILY_T5;
}

gal_code gal_price_cache_create(const gal_model *model, const gal_durations *durations, gal_price_cache **out,
                                gal_error *err)
{
    if (!gal_model_has_prices(model)) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "model %s: encoder-decoders (family %s) have no prices, so no search: write the plan by hand; "
                        "lower, verify, simulate and galrun take it",
                        model->name, gal_family_names[model->family]);
    }
    gal_price_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        return out_of_memory(err);
    }
    const uint32_t last = gal_model_block_count(model) - 1;
    cache->model = model;
    cache->durations = durations;
    cache->first_type = gal_model_block_type(model, 0);
    cache->type_behind_first = gal_model_block_type(model, 1);
    cache->type_before_last = gal_model_block_type(model, last - 1);
    cache->last_type = gal_model_block_type(model, last);
    cache->slot_count = FIRST_SLOTS;
    cache->slot = calloc(cache->slot_count, sizeof *cache->slot);
    const gal_code code =
        cache->slot == NULL ? out_of_memory(err) : gal_structures_create(model, &cache->structures, err);
    if (code != GAL_OK) {
        gal_price_cache_free(cache);
        return code;
    }
    *out = cache;
    return GAL_OK;
}

void gal_price_cache_free(gal_price_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (uint32_t i = 0; cache->slot != NULL && i < cache->slot_count; i++) {
        if (cache->slot[i] != NULL && cache->slot[i]->kind == ENTRY_LONE) {
            gal_lone_free(&cache->slot[i]->of.lone);
        }
        free(cache->slot[i]);
    }
    gal_structures_free(cache->structures);
    free(cache->slot);
    free(cache);
}

/* ---- blocks ---- */

static gal_chain_spec chain_of(const gal_price_cache *cache, const gal_price_query *query)
{
    return (gal_chain_spec){.model = cache->model, .durations = cache->durations, .query = query};
}

static void append(gal_chain_spec *chain, uint32_t type, const gal_strategy *strategy)
{
    chain->type[chain->block_count] = type;
    chain->strategy[chain->block_count++] = strategy;
}

/* The block of a query alone, kept for other samples and stages. Where its sizes do not scale from those at which it
 * was lowered, one is lowered for this call into *temporary, to be freed by the caller. */
static gal_code find_lone(gal_price_cache *cache, const gal_price_query *query, gal_lone **lone, gal_lone *temporary,
                          gal_error *err)
{
    key k;
    key_of(cache, query, &k);
    k.word[1] &= UINT32_MAX; /* placement */
    k.word[2] &= UINT32_MAX; /* samples */
    entry *e = *find(cache, &k, ENTRY_LONE);
    if (e != NULL && !gal_lone_scales(&e->of.lone, query->microbatch_samples)) {
        *lone = temporary;
        return gal_structures_lone(cache->structures, query, temporary, err);
    }
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        if (e == NULL) {
            return out_of_memory(err);
        }
        e->key = k;
        e->kind = ENTRY_LONE;
        gal_code code = gal_structures_lone(cache->structures, query, &e->of.lone, err);
        code = code == GAL_OK ? add(cache, e, err) : code;
        if (code != GAL_OK) {
            gal_lone_free(&e->of.lone);
            free(e);
            return code;
        }
    }
    *lone = &e->of.lone;
    return GAL_OK;
}

/* Blocks until times repeat: two, but three under ZeRO-2, whose scatters are still gaining on compute in the second. */
static uint32_t steady_count(const gal_strategy *strategy)
{
    return strategy->zero_stage == 2 ? 3 : 2;
}

/* What can follow itself: one more of them. */
static gal_code price_inner(gal_price_cache *cache, const gal_price_query *query, gal_block_price *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t count = steady_count(query->strategy);
    const uint32_t last = count - 1;
    gal_chain_times t;
    gal_lone *lone = NULL;
    gal_lone temporary = {0};
    gal_structure *structure = NULL;
    GAL_TRY(find_lone(cache, query, &lone, &temporary, err));
    GAL_TRY(gal_structures_chain(cache->structures, query, lone, count, &structure, err));
    GAL_TRY(gal_structures_measure(cache->structures, structure, lone, cache->durations, query, &t, err));
    gal_lone_memory(lone, query->microbatch_samples, &out->memory);
    out->forward_seconds = t.forward_end[last] - t.forward_end[last - 1];
    out->backward_seconds = t.backward_end[0] - t.backward_end[1];
    out->sync_seconds = t.sync_end[0] - t.sync_end[1] - out->backward_seconds;
    out->enter_seconds = t.forward_seconds - count * out->forward_seconds;
    out->leave_seconds = t.backward_seconds - count * out->backward_seconds;
    out->tail_seconds = t.sync_seconds - count * out->sync_seconds;
    out->update_seconds = t.update_seconds[0];
cleanup:
    gal_lone_free(&temporary);
    return code;
}

/* The memory of the head of a one-stage tied model: its table is the embedding's. */
static gal_code read_tied_head(const gal_price_cache *cache, const gal_price_query *query, gal_block_memory *memory,
                               double *update_seconds, gal_error *err)
{
    gal_chain_spec chain = chain_of(cache, query);
    gal_chain_times t;
    append(&chain, cache->first_type, query->strategy);
    append(&chain, cache->last_type, query->strategy);
    const gal_code code = gal_chain_run(&chain, &t, 1, memory, err);
    if (code == GAL_OK) {
        *update_seconds = t.update_seconds[1];
    }
    return code;
}

/* Embedding and head: what a chain of two blocks gains by them. */
static gal_code price_outer(gal_price_cache *cache, const gal_price_query *query, gal_block_price *out, gal_error *err)
{
    const bool head = query->type == cache->last_type;
    gal_price_query beside = *query;
    beside.type = head ? cache->type_before_last : cache->type_behind_first;
    const gal_block_price *inner = NULL;
    gal_code code = gal_price_block(cache, &beside, &inner, err);
    gal_chain_spec chain = chain_of(cache, query);
    gal_chain_times t;
    const uint32_t place = head ? 2 : 0;
    for (uint32_t i = 0; i < 3; i++) {
        append(&chain, i == place ? query->type : beside.type, query->strategy);
    }
    code = code == GAL_OK ? gal_chain_run(&chain, &t, place, &out->memory, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    out->forward_seconds = t.forward_seconds - 2 * inner->forward_seconds - (head ? inner->enter_seconds : 0.0);
    out->backward_seconds = t.backward_seconds - 2 * inner->backward_seconds - (head ? 0.0 : inner->leave_seconds);
    out->sync_seconds = t.sync_seconds - 2 * inner->sync_seconds - (head ? inner->tail_seconds : 0.0);
    out->update_seconds = t.update_seconds[place];
    out->memory.bytes.boundary = inner->memory.bytes.boundary; /* the same layout */
    if (head && cache->model->tied_embeddings && query->stage_count == 1) {
        code = read_tied_head(cache, query, &out->memory, &out->update_seconds, err);
        out->memory.bytes.boundary = inner->memory.bytes.boundary;
    }
    return code;
}

gal_code gal_price_block(gal_price_cache *cache, const gal_price_query *query, const gal_block_price **out,
                         gal_error *err)
{
    key k;
    key_of(cache, query, &k);
    entry *e = *find(cache, &k, ENTRY_BLOCK);
    if (e == NULL) {
        const bool outer = query->type == cache->first_type || query->type == cache->last_type;
        e = calloc(1, sizeof *e);
        if (e == NULL) {
            return out_of_memory(err);
        }
        e->key = k;
        gal_code code =
            outer ? price_outer(cache, query, &e->of.block, err) : price_inner(cache, query, &e->of.block, err);
        e->of.block.memory.bytes.relayout = 0;
        e->of.block.memory.relayout_entry = 0;
        code = code == GAL_OK ? add(cache, e, err) : code;
        if (code != GAL_OK) {
            free(e);
            return code;
        }
    }
    *out = &e->of.block;
    return GAL_OK;
}

/* ---- pairs ---- */

/* Adds the axis, to the one before it where both split samples. */
static void add_axis(gal_strategy *strategy, gal_axis_kind kind, uint32_t degree)
{
    gal_axis *last = strategy->axis_count > 0 ? &strategy->axis[strategy->axis_count - 1] : NULL;
    if (last != NULL && last->kind != GAL_AXIS_TP && kind != GAL_AXIS_TP) {
        last->degree *= degree;
        return;
    }
    strategy->axis[strategy->axis_count++] = (gal_axis){kind, degree};
}

/* The plainest strategy of the same layout: nothing gathered, scattered or run again. Samples split on both sides of a
 * TP axis take DP and SDP, whose states alone are sharded. */
static gal_strategy plain(const gal_strategy *strategy)
{
    gal_strategy out = {.sequence_parallel = strategy->sequence_parallel};
    bool split = false;
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis *axis = &strategy->axis[i];
        const bool tp = axis->kind == GAL_AXIS_TP;
        const uint32_t count = out.axis_count;
        add_axis(&out, tp ? GAL_AXIS_TP : split ? GAL_AXIS_SDP : GAL_AXIS_DP, axis->degree);
        split = split || (!tp && out.axis_count > count);
    }
    for (uint32_t i = 0; i < out.axis_count; i++) {
        out.zero_stage = out.axis[i].kind == GAL_AXIS_SDP ? 1 : out.zero_stage;
    }
    return out;
}

static bool layouts_differ(const gal_price_query *from, const gal_price_query *to)
{
    gal_atoms atoms;
    gal_atoms_of(from->device_count, &atoms);
    const gal_mesh a = gal_mesh_of(&atoms, from->strategy);
    const gal_mesh b = gal_mesh_of(&atoms, to->strategy);
    return (a.dp | a.sdp) != (b.dp | b.sdp) || (from->strategy->sequence_parallel ? a.tp : GAL_GROUP_NONE) !=
                                                   (to->strategy->sequence_parallel ? b.tp : GAL_GROUP_NONE);
}

/* The sequence s s s' s' less its steady prices; embedding and head stand once. */
static gal_code price_pair(gal_price_cache *cache, const gal_price_query *query, const gal_price_query *to,
                           gal_pair_price *out, gal_error *err)
{
    const uint32_t from_count = query->type == cache->first_type ? 1 : 2;
    const uint32_t to_count = to->type == cache->last_type ? 1 : 2;
    const gal_block_price *a = NULL;
    const gal_block_price *b = NULL;
    gal_code code = gal_price_block(cache, query, &a, err);
    code = code == GAL_OK ? gal_price_block(cache, to, &b, err) : code;
    gal_chain_spec chain = chain_of(cache, query);
    for (uint32_t i = 0; i < from_count + to_count; i++) {
        append(&chain, i < from_count ? query->type : to->type, i < from_count ? query->strategy : to->strategy);
    }
    gal_chain_times t;
    gal_block_memory memory;
    code = code == GAL_OK ? gal_chain_run(&chain, &t, from_count, &memory, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    out->forward_seconds =
        t.forward_seconds - from_count * a->forward_seconds - to_count * b->forward_seconds - a->enter_seconds;
    out->backward_seconds =
        t.backward_seconds - from_count * a->backward_seconds - to_count * b->backward_seconds - b->leave_seconds;
    out->sync_seconds = t.sync_seconds - from_count * a->sync_seconds - to_count * b->sync_seconds - a->tail_seconds;
    out->converts = true;
    out->relayout_bytes = memory.bytes.relayout;
    out->relayout_entry_bytes = memory.relayout_entry;
    return GAL_OK;
}

gal_code gal_price_pair(gal_price_cache *cache, const gal_price_query *query, uint32_t to_type,
                        const gal_strategy *to_strategy, const gal_pair_price **out, gal_error *err)
{
    const gal_strategy from_plain = plain(query->strategy);
    const gal_strategy to_plain = plain(to_strategy);
    gal_price_query from = *query;
    gal_price_query to = *query;
    key k;
    from.strategy = &from_plain;
    to.strategy = &to_plain;
    to.type = to_type;
    key_of(cache, &from, &k);
    k.word[3] = pack_axes(&to_plain);
    k.word[4] = pack_flags(&to_plain, to_type);
    entry *e = *find(cache, &k, ENTRY_PAIR);
    if (e == NULL) {
        gal_code code = GAL_OK;
        e = calloc(1, sizeof *e);
        if (e == NULL) {
            return out_of_memory(err);
        }
        e->key = k;
        e->kind = ENTRY_PAIR;
        if (layouts_differ(&from, &to)) {
            code = price_pair(cache, &from, &to, &e->of.pair, err);
        }
        code = code == GAL_OK ? add(cache, e, err) : code;
        if (code != GAL_OK) {
            free(e);
            return code;
        }
    }
    *out = &e->of.pair;
    return GAL_OK;
}

gal_code gal_price_relayout(const gal_price_cache *cache, const gal_price_query *query, const gal_layout *from,
                            uint32_t to_type, const gal_strategy *to_strategy, uint64_t *inside_bytes,
                            uint64_t *entry_bytes, gal_error *err)
{
    gal_chain_spec spec = chain_of(cache, query);
    gal_block_memory memory;
    spec.entry = from;
    append(&spec, query->type, query->strategy);
    append(&spec, to_type, to_strategy);
    const gal_code code = gal_chain_run(&spec, NULL, 1, &memory, err);
    if (code == GAL_OK) {
        *inside_bytes = memory.bytes.relayout;
        *entry_bytes = memory.relayout_entry;
    }
    return code;
}

/* ---- what no block owns ---- */

double gal_price_transfer(const gal_durations *durations, uint32_t device_count, uint32_t stage, uint32_t stage_count,
                          uint64_t bytes)
{
    gal_atoms atoms;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    gal_atoms_of(device_count, &atoms);
    const gal_place_in_cluster place = {&atoms, device_count, stage, stage_count};
    gal_group_level_counts(gal_durations_cluster(durations), &place, GAL_GROUP_NEXT, level_counts);
    return gal_collective_seconds(durations, GAL_OP_SEND, level_counts, bytes, NULL);
}

double gal_price_common_update(const gal_durations *durations, uint32_t device_count, uint32_t stage_count,
                               uint64_t tied_bytes)
{
    gal_atoms atoms;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    gal_atoms_of(device_count, &atoms);
    const gal_place_in_cluster place = {&atoms, device_count, 0, stage_count};
    const gal_cluster *cluster = gal_durations_cluster(durations);
    gal_group_level_counts(cluster, &place, GAL_GROUP_WORLD, level_counts);
    double seconds = gal_collective_seconds(durations, GAL_OP_ALL_REDUCE, level_counts, 16, NULL);
    if (tied_bytes > 0) {
        gal_group_level_counts(cluster, &place, GAL_GROUP_TIED, level_counts);
        seconds += gal_collective_seconds(durations, GAL_OP_ALL_REDUCE, level_counts, tied_bytes, NULL);
    }
    return seconds;
}
