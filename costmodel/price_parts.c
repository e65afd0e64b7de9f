/* Prices of blocks by several threads: each part is a cache of its own, of the strategies that fall to it, so that no
 * two threads meet. What a block is priced by (the blocks beside it) is of the same part: what its strategy may differ
 * in does not count. Conversions, between strategies of two parts, are kept by the whole, with the
 * blocks alone that they are made of, whose classes of lists are numbered there. */
#include <stdlib.h>

#include "costmodel/price_cache.h"

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
        for (; cache->part_count < part_count; cache->part_count++) {
            GAL_TRY(gal_price_cache_create(model, durations, &cache->part[cache->part_count], err));
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

gal_price_cache *gal_price_home(gal_price_cache *cache, const gal_strategy *strategy)
{
    return cache->part_count > 0 ? cache->part[gal_price_part_of(cache, strategy)] : cache;
}

/* Of one part. */
typedef struct answer {
    gal_code code;
    gal_error err;
} answer;

typedef struct tasks {
    gal_price_task *task;
    void *context;
    answer *answer; /* [part] */
} tasks;

static void do_part(void *context, uint32_t part)
{
    const tasks *of = context;
    of->answer[part].code = of->task(of->context, part, &of->answer[part].err);
}

gal_code gal_price_in_parts(gal_price_cache *cache, gal_price_task *task, void *context, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t count = cache->part_count > 0 ? cache->part_count : 1;
    tasks all = {task, context, calloc(count, sizeof *all.answer)};
    if (all.answer == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    gal_workers_run(cache->workers, count, do_part, &all);
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        code = all.answer[i].code == GAL_OK ? GAL_OK : gal_fail(err, all.answer[i].code, "%s", all.answer[i].err.text);
    }
    free(all.answer);
    return code;
}
