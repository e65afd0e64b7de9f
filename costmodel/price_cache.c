#include "costmodel/price_cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/alike.h"
#include "schemas/limits.h"

enum { FIRST_SLOTS = 256, PAGE_BYTES = 1 << 16 };

typedef struct gal_price_entry {
    gal_price_key key;
    max_align_t result[];
} entry;

typedef struct gal_price_page {
    struct gal_price_page *next;
    size_t used_bytes; /* of PAGE_BYTES */
    max_align_t entries[];
} page;

/* ---- keys ---- */

/* Of every axis its degree, behind it the kind and the degree's number of bits. Degrees multiply to at most
 * GAL_DEVICES_MAX, 21 bits, so those of four axes have 24 and all is 56: no kind comes twice, and of those that split
 * positions there is one. */
enum { AXES_MAX = 4 };

static uint64_t key_axes(const gal_axis *axis, uint32_t count)
{
    enum { KIND_BITS = 3, LENGTH_BITS = 5 };
    _Static_assert((int)GAL_AXIS_KIND_COUNT < 1 << KIND_BITS, "bits");
    uint64_t word = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t length = 32U - (uint32_t)__builtin_clz(axis[i].degree);
        word = word << length | axis[i].degree;
        word = word << KIND_BITS | (uint64_t)(axis[i].kind + 1);
        word = word << LENGTH_BITS | length;
    }
    return word;
}

uint64_t gal_price_key_axes(const gal_strategy *strategy)
{
    GAL_ASSERT(strategy->axis_count <= AXES_MAX);
    return key_axes(strategy->axis, strategy->axis_count);
}

/* The same of the axes in the order of their kinds. */
uint64_t gal_price_key_any_order(const gal_strategy *strategy)
{
    gal_axis ordered[AXES_MAX];
    GAL_ASSERT(strategy->axis_count <= AXES_MAX);
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis own = strategy->axis[i];
        uint32_t at = i;
        for (; at > 0 && own.kind < ordered[at - 1].kind; at--) {
            ordered[at] = ordered[at - 1];
        }
        ordered[at] = own;
    }
    return key_axes(ordered, strategy->axis_count);
}

uint64_t gal_price_key_flags(const gal_strategy *strategy, uint32_t type)
{
    _Static_assert((int)GAL_RECOMPUTE_COUNT <= 4 && (int)GAL_OVERLAP_COUNT <= 8 && (int)GAL_TYPES_MAX <= 128 &&
                       (int)GAL_SHARD_UNIT_COUNT <= 4,
                   "bits");
    return (uint64_t)strategy->zero_stage | (uint64_t)strategy->sequence_parallel << 2 |
           (uint64_t)strategy->recompute << 3 | (uint64_t)strategy->overlap << 5 |
           (uint64_t)strategy->keep_panels << 10 | (uint64_t)strategy->stepped << 11 |
           (uint64_t)strategy->shard_unit << 12 | (uint64_t)type << 17; /* prefetch_depth: from 8 on */
}

uint32_t gal_price_key_grid(const gal_strategy *strategy)
{
    GAL_ASSERT(strategy->tp_depth < UINT32_C(1) << 19);
    return (uint32_t)strategy->tp_mode | strategy->tp_depth << 2 | (uint32_t)strategy->keep_weights << 30;
}

/* What of it is on the host and on storage. */
static uint64_t key_offload(const gal_strategy *strategy)
{
    enum { PERCENT_BITS = 7 };
    const uint32_t percents[] = {
        strategy->offload_optimizer_percent,          strategy->offload_storage_percent,
        strategy->offload_parameters_percent,         strategy->offload_activations_percent,
        strategy->offload_storage_parameters_percent, strategy->offload_storage_activations_percent};
    uint64_t word = strategy->offload_storage_masters;
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        word = word << PERCENT_BITS | percents[i];
    }
    return word;
}

static gal_price_kind kind_of(const gal_price_key *key)
{
    return (gal_price_kind)(key->word[1] >> 24 & 0xFF);
}

void gal_price_key_of(const gal_price_cache *cache, gal_price_kind kind, const gal_price_query *query,
                      gal_price_key *out)
{
    const bool any_stage =
        kind == GAL_PRICE_LIKE || kind == GAL_PRICE_FLOOR || kind == GAL_PRICE_LONE || kind == GAL_PRICE_MEMORY;
    const bool any_block = kind == GAL_PRICE_AXES;
    const bool any_samples = kind == GAL_PRICE_LONE || any_block;
    out->word[0] = any_stage ? gal_price_key_any_order(query->strategy) : gal_price_key_axes(query->strategy);
    out->word[1] = (uint64_t)kind << 24;
    if (!any_block) {
        out->word[1] |= gal_price_key_flags(query->strategy, query->type) | (uint64_t)query->prefetch_depth << 8;
    }
    if (!any_stage) {
        out->word[1] |= (uint64_t)gal_price_place(cache->durations, query->device_count, query->stage) << 32;
    }
    out->word[2] = (uint64_t)query->device_count | (uint64_t)(any_samples ? 0 : query->microbatch_samples) << 32;
    out->word[3] = 0;
    out->word[4] = 0;
    out->word[5] = gal_price_key_grid(query->strategy) | (uint64_t)query->strategy->chunk_elements << 32;
    out->word[6] = 0;
    out->word[7] = any_block ? 0 : key_offload(query->strategy);
}

static uint32_t hash_of(const gal_price_key *key)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < GAL_PRICE_KEY_WORDS; i++) {
        hash = (hash ^ key->word[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

/* ---- the table ---- */

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

static gal_price_slot *slot_of(const gal_price_cache *cache, const gal_price_key *key, uint32_t hash)
{
    uint32_t at = hash & (cache->slot_count - 1);
    while (cache->slot[at].entry != NULL &&
           (cache->slot[at].hash != hash || memcmp(&cache->slot[at].entry->key, key, sizeof *key) != 0)) {
        at = (at + 1) & (cache->slot_count - 1);
    }
    return &cache->slot[at];
}

void *gal_price_find(const gal_price_cache *cache, const gal_price_key *key)
{
    const gal_price_slot *slot = slot_of(cache, key, hash_of(key));
    return slot->entry != NULL ? slot->entry->result : NULL;
}

static gal_code grow(gal_price_cache *cache, gal_error *err)
{
    gal_price_cache larger = {.slot_count = cache->slot_count * 2};
    larger.slot = calloc(larger.slot_count, sizeof *larger.slot);
    if (larger.slot == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t i = 0; i < cache->slot_count; i++) {
        const gal_price_slot *slot = &cache->slot[i];
        if (slot->entry != NULL) {
            *slot_of(&larger, &slot->entry->key, slot->hash) = *slot;
        }
    }
    free(cache->slot);
    cache->slot = larger.slot;
    cache->slot_count = larger.slot_count;
    return GAL_OK;
}

static entry *new_entry(gal_price_cache *cache, size_t result_bytes)
{
    const size_t bytes =
        (sizeof(entry) + result_bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    GAL_ASSERT(bytes <= PAGE_BYTES);
    page *first = cache->pages;
    if (first == NULL || PAGE_BYTES - first->used_bytes < bytes) {
        first = malloc(sizeof *first + PAGE_BYTES);
        if (first == NULL) {
            return NULL;
        }
        *first = (page){.next = cache->pages};
        cache->pages = first;
    }
    entry *out = (entry *)((char *)first->entries + first->used_bytes);
    first->used_bytes += bytes;
    return out;
}

gal_code gal_price_keep(gal_price_cache *cache, const gal_price_key *key, const void *result, size_t bytes, void **out,
                        gal_error *err)
{
    if (4 * (cache->entry_count + 1) > 3 * cache->slot_count && grow(cache, err) != GAL_OK) {
        return GAL_ERR_SYSTEM;
    }
    entry *kept = new_entry(cache, bytes);
    if (kept == NULL) {
        return out_of_memory(err);
    }
    const uint32_t hash = hash_of(key);
    kept->key = *key;
    memcpy(kept->result, result, bytes);
    *slot_of(cache, key, hash) = (gal_price_slot){hash, kept};
    cache->entry_count++;
    *out = kept->result;
    return GAL_OK;
}

/* Slots and shapes, which every cache has. */
static gal_code create(const gal_model *model, const gal_durations *durations, gal_price_cache **out, gal_error *err)
{
    gal_price_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        return out_of_memory(err);
    }
    const uint32_t last = gal_model_block_count(model) - 1;
    cache->model = model;
    cache->durations = durations;
    cache->type_first = gal_model_block_type(model, 0);
    cache->type_behind_first = gal_model_block_type(model, 1);
    cache->type_before_last = gal_model_block_type(model, last - 1);
    cache->shape = calloc(gal_model_type_count(model), sizeof *cache->shape);
    cache->type_before_merge = calloc(gal_model_type_count(model), sizeof *cache->type_before_merge);
    cache->like = calloc(gal_model_type_count(model), sizeof *cache->like);
    cache->slot_count = FIRST_SLOTS;
    cache->slot = calloc(cache->slot_count, sizeof *cache->slot);
    if (cache->slot == NULL || cache->shape == NULL || cache->type_before_merge == NULL || cache->like == NULL) {
        gal_price_cache_free(cache);
        return out_of_memory(err);
    }
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        gal_model_type(model, type, &cache->shape[type]);
        cache->like[type] = gal_price_type_like(model, durations, type);
    }
    for (uint32_t block = last; block > 0; block--) {
        const uint32_t type = gal_model_block_type(model, block);
        if (cache->shape[type].kind == GAL_BLOCK_MERGE) {
            cache->type_before_merge[type] = gal_model_block_type(model, block - 1);
        }
    }
    *out = cache;
    return GAL_OK;
}

gal_code gal_price_cache_create(const gal_model *model, const gal_durations *durations, gal_price_cache **out,
                                gal_error *err)
{
    gal_price_cache *cache = NULL;
    gal_code code = create(model, durations, &cache, err);
    code = code == GAL_OK ? gal_structures_create(model, &cache->structures, err) : code;
    code =
        code == GAL_OK ? gal_chain_queues_create(gal_structures_kernels(cache->structures), &cache->queues, err) : code;
    code =
        code == GAL_OK ? gal_crossings_create(gal_structures_kernels(cache->structures), &cache->crossings, err) : code;
    if (code != GAL_OK) {
        gal_price_cache_free(cache);
        return code;
    }
    *out = cache;
    return GAL_OK;
}

bool gal_price_cache_is_charged(const gal_price_cache *cache)
{
    return cache->of != NULL;
}

gal_code gal_price_cache_create_charged(gal_price_cache *of, const gal_price_charge *charge, gal_price_cache **out,
                                        gal_error *err)
{
    GAL_ASSERT(of->of == NULL);
    const gal_code code = create(of->model, of->durations, out, err);
    if (code == GAL_OK) {
        (*out)->of = of;
        (*out)->charge = *charge;
    }
    return code;
}

void gal_price_cache_free(gal_price_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (uint32_t i = 0; cache->slot != NULL && i < cache->slot_count; i++) {
        entry *kept = cache->slot[i].entry;
        if (kept != NULL && kind_of(&kept->key) == GAL_PRICE_LONE) {
            gal_kept_lone *lone = (gal_kept_lone *)kept->result;
            gal_lone_free(&lone->lone);
        }
    }
    while (cache->pages != NULL) {
        page *next = cache->pages->next;
        free(cache->pages);
        cache->pages = next;
    }
    gal_price_parts_free(cache);
    gal_word_keys_free(&cache->alike);
    gal_crossings_free(cache->crossings);
    gal_chain_queues_free(cache->queues);
    gal_structures_free(cache->structures);
    free(cache->type_before_merge);
    free(cache->like);
    free(cache->shape);
    free(cache->slot);
    free(cache);
}
