/* Prices for several threads: each part is a cache of its own, of the strategies that fall to it, so that threads that
 * price all blocks of a part each do not meet. What a block is priced by (the blocks beside it) is of the same part:
 * what its strategy may differ in does not count. Conversions, between strategies of two parts, are kept by the whole,
 * with the blocks alone that they are made of, whose classes of lists are numbered there. Who asks for a price holds
 * the mutex of what keeps it: of the whole first, for a conversion, then of the part that a block of it is of. */
#include <stdlib.h>

#include "costmodel/price_cache.h"

static gal_code create_mutex(gal_price_cache *cache, gal_error *err)
{
    cache->mutex = malloc(sizeof *cache->mutex);
    if (cache->mutex == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    pthread_mutex_init(cache->mutex, NULL);
    return GAL_OK;
}

gal_code gal_price_cache_create_parts(const gal_model *model, const gal_durations *durations, uint32_t part_count,
                                      gal_price_cache **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_cache *cache = NULL;
    GAL_TRY(gal_price_cache_create(model, durations, &cache, err));
    if (part_count > 1) {
        cache->part = calloc(part_count, sizeof *cache->part);
        cache->workers = gal_workers_create(part_count);
        if (cache->part == NULL || cache->workers == NULL) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price"));
        }
        GAL_TRY(create_mutex(cache, err));
        while (cache->part_count < part_count) {
            GAL_TRY(gal_price_cache_create(model, durations, &cache->part[cache->part_count++], err));
            GAL_TRY(create_mutex(cache->part[cache->part_count - 1], err));
        }
    }
    *out = cache;
    cache = NULL;
cleanup:
    gal_price_cache_free(cache);
    return code;
}

void gal_price_parts_free(gal_price_cache *cache)
{
    gal_workers_free(cache->workers);
    for (uint32_t i = 0; i < cache->part_count; i++) {
        gal_price_cache_free(cache->part[i]);
    }
    free(cache->part);
    if (cache->mutex != NULL) {
        pthread_mutex_destroy(cache->mutex);
    }
    free(cache->mutex);
}

/* Overlap, units of sharding and what is on storage are not of every block beside one another. */
uint32_t gal_price_part_of(const gal_price_cache *cache, const gal_strategy *strategy)
{
    gal_strategy rest = {.zero_stage = strategy->zero_stage,
                         .sequence_parallel = strategy->sequence_parallel,
                         .recompute = strategy->recompute,
                         .keep_panels = strategy->keep_panels,
                         .stepped = strategy->stepped};
    if (cache->part_count == 0) {
        return 0;
    }
    uint64_t hash = gal_price_key_any_order(strategy) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32 ^ gal_price_key_flags(&rest, 0)) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32 ^ gal_price_key_grid(strategy)) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32) % cache->part_count;
}

/* ---- prices ---- */

static void lock(gal_price_cache *cache)
{
    if (cache->mutex != NULL) {
        pthread_mutex_lock(cache->mutex);
    }
}

static void unlock(gal_price_cache *cache)
{
    if (cache->mutex != NULL) {
        pthread_mutex_unlock(cache->mutex);
    }
}

/* Where the blocks of a strategy are kept. */
static gal_price_cache *home_of(gal_price_cache *cache, const gal_strategy *strategy)
{
    return cache->part_count > 0 ? cache->part[gal_price_part_of(cache, strategy)] : cache;
}

void *gal_price_find_at_home(gal_price_cache *cache, const gal_strategy *strategy, const gal_price_key *key)
{
    gal_price_cache *home = home_of(cache, strategy);
    if (home == cache) {
        return gal_price_find(home, key); /* the caller holds its mutex */
    }
    lock(home);
    void *found = gal_price_find(home, key);
    unlock(home);
    return found;
}

gal_code gal_price_block(gal_price_cache *cache, const gal_price_query *query, const gal_block_price **out,
                         gal_error *err)
{
    gal_price_cache *home = home_of(cache, query->strategy);
    lock(home);
    const gal_code code = gal_price_block_here(home, query, out, err);
    unlock(home);
    return code;
}

gal_code gal_price_block_floor(gal_price_cache *cache, const gal_price_query *query, const gal_block_price **out,
                               gal_error *err)
{
    gal_price_cache *home = home_of(cache, query->strategy);
    lock(home);
    const gal_code code = gal_price_floor_here(home, query, out, err);
    unlock(home);
    return code;
}

static gal_code find_conversion(gal_price_cache *cache, gal_price_kind kind, const gal_price_query *from,
                                uint32_t to_type, const gal_strategy *to_strategy, const gal_pair_price **out,
                                gal_error *err)
{
    gal_price_cache *whole = cache->of != NULL ? cache->of : cache;
    lock(whole);
    const gal_code code = gal_price_conversion_here(whole, kind, from, to_type, to_strategy, out, err);
    unlock(whole);
    return code;
}

gal_code gal_price_pair(gal_price_cache *cache, const gal_price_query *query, uint32_t to_type,
                        const gal_strategy *to_strategy, const gal_pair_price **out, gal_error *err)
{
    return find_conversion(cache, GAL_PRICE_PAIR, query, to_type, to_strategy, out, err);
}

gal_code gal_price_carried(gal_price_cache *cache, const gal_price_query *query, const gal_strategy *from_strategy,
                           const gal_pair_price **out, gal_error *err)
{
    gal_price_query from = *query;
    from.strategy = from_strategy;
    return find_conversion(cache, GAL_PRICE_CARRIED, &from, query->type, query->strategy, out, err);
}

/* ---- tasks ---- */

/* Of one task. */
typedef struct answer {
    gal_code code;
    gal_error err;
} answer;

typedef struct tasks {
    gal_price_task *task;
    void *context;
    uint32_t count, first; /* the one that is begun with */
    answer *answer;        /* [task] */
} tasks;

static void do_task(void *context, uint32_t turn)
{
    const tasks *of = context;
    const uint32_t index = (of->first + turn) % of->count;
    of->answer[index].code = of->task(of->context, index, &of->answer[index].err);
}

static gal_code run(gal_workers *workers, uint32_t count, uint32_t first, gal_price_task *task, void *context,
                    gal_error *err)
{
    gal_code code = GAL_OK;
    tasks all = {task, context, count, first, calloc((size_t)count + 1, sizeof *all.answer)};
    if (all.answer == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    gal_workers_run(workers, count, do_task, &all);
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        code = all.answer[i].code == GAL_OK ? GAL_OK : gal_fail(err, all.answer[i].code, "%s", all.answer[i].err.text);
    }
    free(all.answer);
    return code;
}

gal_code gal_price_in_parts(gal_price_cache *cache, gal_price_task *task, void *context, gal_error *err)
{
    const uint32_t count = cache->part_count > 0 ? cache->part_count : 1;
    return cache->at_once ? run(NULL, count, cache->turn++ % count, task, context, err)
                          : run(cache->workers, count, 0, task, context, err);
}

gal_code gal_price_at_once(gal_price_cache *cache, uint32_t count, gal_price_task *task, void *context, gal_error *err)
{
    GAL_ASSERT(!cache->at_once);
    cache->at_once = count > 1;
    const gal_code code = run(cache->workers, count, 0, task, context, err);
    cache->at_once = false;
    return code;
}
