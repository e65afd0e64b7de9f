/* What moments, and with them masters or weights, on storage would free and take, block by block: read from programs,
 * to the byte.
 *
 * A block's share of its moments on storage is whole units (runtime/program/lower/storage.c), so of a hundred
 * percentages few differ. They are found by lowering a stage with all its blocks at one percentage, halving between two
 * that differ. */
#ifndef GAL_PLANNER_SEARCH_STORAGE_LEVELS_H
#define GAL_PLANNER_SEARCH_STORAGE_LEVELS_H

#include "costmodel/price.h"
#include "schemas/plan.h"

/* Of one block. */
typedef struct gal_storage_level {
    uint64_t host_bytes;  /* that its moments, masters and weights no longer take there */
    uint64_t bytes;       /* that they take on storage */
    uint64_t part_bytes;  /* the largest part of any of them that is on its way at a time */
    uint64_t picoseconds; /* of its update, by the prices of the search; with weights on storage, of its forward and
                           * backward in every microbatch, too */
} gal_storage_level;

/* A stage with all its blocks at a percentage, or at what they have on the host where that is less. */
typedef struct gal_storage_snapshot {
    uint32_t percent;
    uint64_t host_bytes;      /* of the whole stage */
    gal_storage_level *block; /* [block of the stage] */
} gal_storage_snapshot;

typedef struct gal_storage_levels {
    uint32_t block_count, snapshot_count;
    gal_storage_snapshot *snapshot; /* by percentage, from 0 on; each differs from the one before */
} gal_storage_levels;

/* plan: legal; not interleaved, without chunks; beside: these lie where the moments do. GAL_ERR_SYSTEM without memory,
 * else as gal_lower and gal_price_block.
 */
gal_code gal_storage_levels_create(gal_price_cache *cache, const gal_plan *plan, uint32_t stage,
                                   gal_stored_kinds beside, gal_storage_levels *out, gal_error *err);
void gal_storage_levels_free(gal_storage_levels *levels); /* accepts a zeroed one */

#endif
