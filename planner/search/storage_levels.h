/* What moments, and with them masters, on storage would free and take, block by block: read from programs, to the byte.
 *
 * A block's share of its moments on storage is whole units (runtime/program/lower/storage.c), so of a hundred
 * percentages few differ. They are found by lowering a stage with all its blocks at one percentage, halving between two
 * that differ. Which weights and activations are on storage is the strategies': beside weights all moments are. */
#ifndef GAL_PLANNER_SEARCH_STORAGE_LEVELS_H
#define GAL_PLANNER_SEARCH_STORAGE_LEVELS_H

#include "costmodel/price.h"
#include "schemas/plan.h"

/* Of one block. */
typedef struct gal_storage_level {
    uint64_t host_bytes;  /* that its moments, masters and weights no longer take there */
    uint64_t bytes;       /* that they take on storage */
    uint64_t part_bytes;  /* the largest part of a moment that is on its way at a time; a master's is as large */
    uint64_t picoseconds; /* of its update, by the prices of the search */
} gal_storage_level;

/* A stage with all its blocks at a percentage, or at what they have on the host where that is less or weights are on
 * storage. */
typedef struct gal_storage_snapshot {
    uint32_t percent;
    gal_storage_level *block; /* [block of the stage] */
} gal_storage_snapshot;

typedef struct gal_storage_levels {
    uint32_t block_count, snapshot_count;
    uint64_t host_bytes;            /* of the whole stage, if moments and weights were in memory */
    uint64_t kept_bytes;            /* of activations on storage */
    uint64_t weight_part_bytes;     /* the largest part of weights that is on its way */
    gal_storage_snapshot *snapshot; /* by percentage, from 0 on; each differs from the one before */
} gal_storage_levels;

/* The strategy with so much of its moments on storage, or what is nearest to it that it may have. */
gal_strategy gal_storage_strategy_at(const gal_strategy *strategy, uint32_t percent, bool masters);

/* plan: legal; not interleaved, without chunks; masters: these lie where the moments do. GAL_ERR_SYSTEM without memory,
 * else as gal_lower and gal_price_block. */
gal_code gal_storage_levels_create(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, bool masters,
                                   gal_storage_levels *out, gal_error *err);
void gal_storage_levels_free(gal_storage_levels *levels); /* accepts a zeroed one */

#endif
