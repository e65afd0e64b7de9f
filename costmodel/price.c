#include "costmodel/price.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/structure.h"

enum { KEY_WORDS = 5, FIRST_SLOTS = 256 };

typedef struct key {
    uint64_t word[KEY_WORDS];
} key;

/* Blocks alone are kept per key without samples and stage. */
typedef enum entry_kind { ENTRY_BLOCK, ENTRY_PAIR, ENTRY_CARRIED, ENTRY_LONE } entry_kind;

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
    gal_block_shape *shape;                       /* [type] */
    uint32_t type_behind_first, type_before_last; /* of the chain's ends */
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

/* The axes in the order of their kinds. */
static gal_strategy in_order(const gal_strategy *strategy)
{
    gal_strategy out = *strategy;
    for (uint32_t i = 1; i < out.axis_count; i++) {
        for (uint32_t j = i; j > 0 && out.axis[j].kind < out.axis[j - 1].kind; j--) {
            const gal_axis axis = out.axis[j];
            out.axis[j] = out.axis[j - 1];
            out.axis[j - 1] = axis;
        }
    }
    return out;
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
    out->word[1] =
        pack_flags(query->strategy, query->type) | (uint64_t)query->prefetch_depth << 8 | (uint64_t)place << 32;
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

gal_code gal_price_cache_create(const gal_model *model, const gal_durations *durations, gal_price_cache **out,
                                gal_error *err)
{
    gal_price_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        return out_of_memory(err);
    }
    const uint32_t last = gal_model_block_count(model) - 1;
    cache->model = model;
    cache->durations = durations;
    cache->type_behind_first = gal_model_block_type(model, 1);
    cache->type_before_last = gal_model_block_type(model, last - 1);
    cache->shape = calloc(gal_model_type_count(model), sizeof *cache->shape);
    cache->slot_count = FIRST_SLOTS;
    cache->slot = calloc(cache->slot_count, sizeof *cache->slot);
    const gal_code code = cache->slot == NULL || cache->shape == NULL
                              ? out_of_memory(err)
                              : gal_structures_create(model, &cache->structures, err);
    if (code != GAL_OK) {
        gal_price_cache_free(cache);
        return code;
    }
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        gal_model_type(model, type, &cache->shape[type]);
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
    free(cache->shape);
    free(cache->slot);
    free(cache);
}

/* ---- blocks ---- */

static bool begins_chain(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].in.positions == 0;
}

static bool ends_chain(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].out.positions == 0;
}

static gal_chain_spec chain_of(const gal_price_cache *cache, const gal_price_query *query)
{
    return (gal_chain_spec){.model = cache->model, .durations = cache->durations, .query = query};
}

static void append(gal_chain_spec *chain, uint32_t type, const gal_strategy *strategy)
{
    chain->type[chain->block_count] = type;
    chain->strategy[chain->block_count++] = strategy;
}

/* The block of a query alone, kept for other samples, stages and orders of the axes. Where its sizes do not scale from
 * those at which it was lowered, one is lowered for this call into *temporary, to be freed by the caller. */
static gal_code find_lone(gal_price_cache *cache, const gal_price_query *query, const gal_lone **lone,
                          gal_lone *temporary, gal_error *err)
{
    key k;
    const gal_strategy ordered = in_order(query->strategy);
    key_of(cache, query, &k);
    k.word[0] = pack_axes(&ordered);
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

/* The chain that a block is priced by, and the block in it. */
static uint32_t chain_for(const gal_price_cache *cache, const gal_price_query *query, gal_lone_chain *chain)
{
    const bool first = begins_chain(cache, query->type), last = ends_chain(cache, query->type);
    const uint32_t beside = first ? cache->type_behind_first : last ? cache->type_before_last : query->type;
    const bool holds = cache->shape[query->type].shared != 0; /* the first one brings it */
    *chain = (gal_lone_chain){.query = query, .block_count = first || last ? 3 : steady_count(query->strategy) + holds};
    const uint32_t place = last ? chain->block_count - 1 : 0;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        chain->type[i] = i == place ? query->type : beside;
    }
    return place;
}

/* The blocks of a chain alone; `temporary` as find_lone, one for every type. */
static gal_code find_lones(gal_price_cache *cache, gal_lone_chain *chain, gal_lone temporary[2], gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t types = 0;
    for (uint32_t i = 0; i < chain->block_count && code == GAL_OK; i++) {
        if (i > 0 && chain->type[i] == chain->type[i - 1]) {
            chain->lone[i] = chain->lone[i - 1];
            continue;
        }
        gal_price_query query = *chain->query;
        query.type = chain->type[i];
        GAL_ASSERT(types < 2);
        code = find_lone(cache, &query, &chain->lone[i], &temporary[types++], err);
    }
    return code;
}

/* One more of them, where the first one holds what they share: by the ends of block `steady` and the one behind it in
 * backward, of the last two in forward. */
static void read_steady(const gal_chain_times *t, uint32_t count, uint32_t steady, gal_block_price *out)
{
    out->forward_seconds = t->forward_end[count - 1] - t->forward_end[count - 2];
    out->backward_seconds = t->backward_end[steady] - t->backward_end[steady + 1];
    out->sync_seconds = t->sync_end[steady] - t->sync_end[steady + 1] - out->backward_seconds;
    out->enter_seconds = t->forward_seconds - count * out->forward_seconds;
    out->leave_seconds = t->backward_seconds - count * out->backward_seconds;
    out->tail_seconds = t->sync_seconds - count * out->sync_seconds;
}

/* Embedding and head: what a chain of two blocks gains by them. */
static gal_code read_end(gal_price_cache *cache, const gal_price_query *query, uint32_t beside_type,
                         const gal_chain_times *t, gal_block_price *out, gal_error *err)
{
    const bool head = ends_chain(cache, query->type);
    const gal_block_price *beside = NULL;
    gal_price_query query_beside = *query;
    query_beside.type = beside_type;
    const gal_code code = gal_price_block(cache, &query_beside, &beside, err);
    if (code != GAL_OK) {
        return code;
    }
    out->forward_seconds = t->forward_seconds - 2 * beside->forward_seconds - (head ? beside->enter_seconds : 0.0);
    out->backward_seconds = t->backward_seconds - 2 * beside->backward_seconds - (head ? 0.0 : beside->leave_seconds);
    out->sync_seconds = t->sync_seconds - 2 * beside->sync_seconds - (head ? beside->tail_seconds : 0.0);
    return GAL_OK;
}

static gal_code price_anew(gal_price_cache *cache, const gal_price_query *query, gal_block_price *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_chain_times t;
    gal_lone_chain chain;
    gal_lone temporary[2] = {{0}};
    gal_structure *structure = NULL;
    const uint32_t place = chain_for(cache, query, &chain);
    GAL_TRY(find_lones(cache, &chain, temporary, err));
    GAL_TRY(gal_structures_chain(cache->structures, &chain, &structure, err));
    GAL_TRY(gal_structures_measure(cache->structures, structure, &chain, cache->durations, place, &t, err));
    if (begins_chain(cache, query->type) || ends_chain(cache, query->type)) {
        GAL_TRY(read_end(cache, query, chain.type[1], &t, out, err));
    } else {
        read_steady(&t, chain.block_count, chain.block_count - steady_count(query->strategy), out);
    }
    out->update_seconds = t.update_seconds;
    memcpy(out->shared_update_seconds, t.shared_update_seconds, sizeof t.shared_update_seconds);
    gal_lone_memory(chain.lone[place], query->microbatch_samples, &out->memory);
    out->memory.bytes.relayout = 0;
    out->memory.relayout_entry = 0;
    out->memory.bytes.boundary =
        gal_price_rows_bytes(cache->model, query->strategy, query->microbatch_samples, cache->shape[query->type].out);
cleanup:
    gal_lone_free(&temporary[1]);
    gal_lone_free(&temporary[0]);
    return code;
}

gal_code gal_price_block(gal_price_cache *cache, const gal_price_query *query, const gal_block_price **out,
                         gal_error *err)
{
    key k;
    key_of(cache, query, &k);
    entry *e = *find(cache, &k, ENTRY_BLOCK);
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        if (e == NULL) {
            return out_of_memory(err);
        }
        e->key = k;
        gal_code code = price_anew(cache, query, &e->of.block, err);
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

/* Where the rows lie that a block of strategy `from` reaches from whole ones, and after their conversion for `to`. */
static void lay_out(const gal_price_query *from, const gal_price_query *to, gal_layout *before, gal_layout *behind)
{
    gal_atoms atoms;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    gal_atoms_of(from->device_count, &atoms);
    const gal_mesh a = gal_mesh_of(&atoms, from->strategy);
    const gal_mesh b = gal_mesh_of(&atoms, to->strategy);
    gal_layout_split(from->microbatch_samples, &atoms, a.dp | a.sdp,
                     from->strategy->sequence_parallel ? a.tp : GAL_GROUP_NONE, before);
    gal_layout_convert(before, &atoms, b.dp | b.sdp, to->strategy->sequence_parallel ? b.tp : GAL_GROUP_NONE, steps,
                       behind);
}

/* Whether one more of them may stand behind it: not where other rows leave than enter, nor where the carried tensor is
 * made. */
static bool follows_itself(const gal_price_cache *cache, uint32_t type)
{
    const gal_block_shape *shape = &cache->shape[type];
    return shape->in.positions == shape->out.positions && shape->in.features == shape->out.features &&
           (shape->carried_in.positions > 0 || shape->carried_out.positions == 0);
}

static bool is_cross(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].kind == GAL_BLOCK_CROSS_ATTENTION;
}

/* What a chain of these blocks takes beyond their steady prices. */
static void read_conversion(const gal_chain_times *t, const gal_block_price *a, uint32_t a_count,
                            const gal_block_price *b, uint32_t b_count, gal_pair_price *out)
{
    out->forward_seconds =
        t->forward_seconds - a_count * a->forward_seconds - b_count * b->forward_seconds - a->enter_seconds;
    out->backward_seconds =
        t->backward_seconds - a_count * a->backward_seconds - b_count * b->backward_seconds - b->leave_seconds;
    out->sync_seconds = t->sync_seconds - a_count * a->sync_seconds - b_count * b->sync_seconds - a->tail_seconds;
    out->converts = true;
}

/* The sequence s s s' s' less its steady prices; what cannot follow itself stands once. The carried tensor lies as the
 * second ones want it. */
static gal_code price_pair(gal_price_cache *cache, const gal_price_query *query, const gal_price_query *to,
                           gal_pair_price *out, gal_error *err)
{
    const uint32_t from_count = follows_itself(cache, query->type) ? 2 : 1;
    const uint32_t to_count = follows_itself(cache, to->type) ? 2 : 1;
    const gal_block_price *a = NULL;
    const gal_block_price *b = NULL;
    gal_layout before, behind;
    gal_code code = gal_price_block(cache, query, &a, err);
    code = code == GAL_OK ? gal_price_block(cache, to, &b, err) : code;
    gal_chain_spec chain = chain_of(cache, query);
    for (uint32_t i = 0; i < from_count + to_count; i++) {
        append(&chain, i < from_count ? query->type : to->type, i < from_count ? query->strategy : to->strategy);
    }
    if (is_cross(cache, to->type)) {
        lay_out(query, to, &before, &behind);
        chain.entry = &before;
        chain.carried = &behind;
    }
    gal_chain_times t;
    gal_block_memory memory;
    code = code == GAL_OK ? gal_chain_run(&chain, &t, from_count, &memory, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    read_conversion(&t, a, from_count, b, to_count, out);
    out->relayout_bytes = memory.bytes.relayout;
    out->relayout_entry_bytes = memory.relayout_entry;
    return GAL_OK;
}

/* Two cross-attentions whose rows lie right less their steady prices. */
static gal_code price_carried(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to,
                              gal_pair_price *out, gal_error *err)
{
    const gal_block_price *b = NULL;
    gal_layout before, behind;
    gal_code code = gal_price_block(cache, to, &b, err);
    gal_chain_spec chain = chain_of(cache, to);
    gal_chain_times t;
    gal_block_memory memory;
    lay_out(from, to, &before, &behind);
    chain.entry = &behind;
    chain.carried = &before;
    append(&chain, to->type, to->strategy);
    append(&chain, to->type, to->strategy);
    code = code == GAL_OK ? gal_chain_run(&chain, &t, 0, &memory, err) : code;
    if (code == GAL_OK) {
        read_conversion(&t, b, 1, b, 1, out);
        out->relayout_bytes = out->relayout_entry_bytes = memory.carried_relayout;
    }
    return code;
}

/* The conversion between the plainest strategies of two layouts, of the rows or of the carried tensor. */
static gal_code find_conversion(gal_price_cache *cache, entry_kind kind, const gal_price_query *query, uint32_t to_type,
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
    entry *e = *find(cache, &k, kind);
    if (e == NULL) {
        gal_code code = GAL_OK;
        e = calloc(1, sizeof *e);
        if (e == NULL) {
            return out_of_memory(err);
        }
        e->key = k;
        e->kind = kind;
        if (!gal_price_rows_alike(&from_plain, &to_plain, query->device_count)) {
            code = kind == ENTRY_PAIR ? price_pair(cache, &from, &to, &e->of.pair, err)
                                      : price_carried(cache, &from, &to, &e->of.pair, err);
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

gal_code gal_price_pair(gal_price_cache *cache, const gal_price_query *query, uint32_t to_type,
                        const gal_strategy *to_strategy, const gal_pair_price **out, gal_error *err)
{
    return find_conversion(cache, ENTRY_PAIR, query, to_type, to_strategy, out, err);
}

gal_code gal_price_carried(gal_price_cache *cache, const gal_price_query *query, const gal_strategy *from_strategy,
                           const gal_pair_price **out, gal_error *err)
{
    gal_price_query from = *query;
    from.strategy = from_strategy;
    return find_conversion(cache, ENTRY_CARRIED, &from, query->type, query->strategy, out, err);
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

gal_code gal_price_carried_relayout(const gal_price_cache *cache, const gal_price_query *query, const gal_layout *from,
                                    const gal_layout *to, uint64_t *bytes, gal_error *err)
{
    gal_chain_spec spec = chain_of(cache, query);
    gal_block_memory memory;
    spec.entry = to;
    spec.carried = from;
    append(&spec, query->type, query->strategy);
    const gal_code code = gal_chain_run(&spec, NULL, 0, &memory, err);
    if (code == GAL_OK) {
        *bytes = memory.carried_relayout;
    }
    return code;
}
