/* Blocks alone and places of axes, which a price cache keeps for every price that is made of them. */
#include <string.h>

#include "costmodel/price_cache.h"

gal_code gal_price_kept_lone(gal_price_cache *cache, const gal_price_query *query, gal_kept_lone **out, gal_error *err)
{
    gal_price_key key;
    gal_price_key_of(cache, GAL_PRICE_LONE, query, &key);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        gal_kept_lone kept = {.structure = NULL};
        gal_code code = gal_structures_lone(cache->structures, query, &kept.lone, err);
        code = code == GAL_OK ? gal_price_keep(cache, &key, &kept, sizeof kept, &found, err) : code;
        if (code != GAL_OK) {
            gal_lone_free(&kept.lone);
            return code;
        }
    }
    *out = found;
    return GAL_OK;
}

/* The number of level counts among all that were met. */
static gal_code number_levels(gal_price_cache *cache, const uint32_t counts[GAL_LINK_LEVELS_MAX], uint16_t *out,
                              gal_error *err)
{
    gal_price_key key = {{0}};
    uint64_t word[GAL_LINK_LEVELS_MAX / 2];
    memcpy(word, counts, sizeof word);
    key.word[0] = word[0];
    key.word[1] = (uint64_t)GAL_PRICE_LEVELS << 24;
    memcpy(&key.word[2], &word[1], sizeof word - sizeof word[0]);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        GAL_ASSERT(cache->level_count < UINT16_MAX);
        const uint16_t next = (uint16_t)cache->level_count++;
        const gal_code code = gal_price_keep(cache, &key, &next, sizeof next, &found, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = *(const uint16_t *)found;
    return GAL_OK;
}

gal_code gal_price_kept_axes(gal_price_cache *cache, const gal_price_query *query, const gal_kept_axes **out,
                             gal_error *err)
{
    gal_price_key key;
    gal_price_key_of(cache, GAL_PRICE_AXES, query, &key);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        gal_code code = GAL_OK;
        gal_kept_axes axes = {.id = {0}};
        gal_axis_levels_of(gal_durations_cluster(cache->durations), query->strategy, query->device_count, query->stage,
                           query->stage_count, &axes.levels);
        for (uint32_t set = 0; set < gal_axis_sets_of(query->strategy) && code == GAL_OK; set++) {
            code = number_levels(cache, axes.levels.counts[set], &axes.id[set], err);
        }
        code = code == GAL_OK ? gal_price_keep(cache, &key, &axes, sizeof axes, &found, err) : code;
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = found;
    return GAL_OK;
}

gal_code gal_price_fit_samples(gal_price_cache *cache, const gal_price_query *query, const gal_kept_lone *kept,
                               const gal_lone **lone, gal_lone *temporary, gal_error *err)
{
    *lone = &kept->lone;
    if (gal_lone_stands_for(&kept->lone, query->microbatch_samples)) {
        return GAL_OK;
    }
    *lone = temporary;
    return gal_structures_lone(cache->structures, query, temporary, err);
}

gal_price_query gal_price_kept_query(const gal_price_cache *cache, const gal_price_query *asked, gal_strategy *strategy)
{
    gal_price_query query = *asked;
    *strategy = *asked->strategy; /* whose overlap is not of every kind of block */
    query.strategy = strategy;
    query.type = cache->like[asked->type];
    strategy->overlap = gal_strategy_overlap_of(strategy, cache->shape[asked->type].kind);
    if (strategy->shard_unit == GAL_SHARD_CHUNK && !gal_block_joins_chunks(cache->shape[asked->type].kind)) {
        strategy->shard_unit = GAL_SHARD_BUCKET;
        strategy->chunk_elements = 0;
    }
    return query;
}

bool gal_price_waits_for_tensor(const gal_price_cache *cache, const gal_price_query *query)
{
    const gal_strategy *strategy = query->strategy;
    return strategy->tp_mode == GAL_TP_1D && strategy->overlap == GAL_OVERLAP_NONE &&
           gal_strategy_ring_degree(strategy) == 1 && cache->shape[query->type].kind != GAL_BLOCK_CROSS_ATTENTION;
}
