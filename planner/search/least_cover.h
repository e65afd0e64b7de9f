/* One way for each item, so that their gains come to what is needed at the least cost: a knapsack turned round, by the
 * list of sums that no other beats (E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack
 * Problem", 1974, section 2). Costs are compared in order: the second decides between equal firsts. */
#ifndef GAL_PLANNER_SEARCH_LEAST_COVER_H
#define GAL_PLANNER_SEARCH_LEAST_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_COVER_COSTS = 2, GAL_COVER_SUMS_MAX = 1024 };

typedef struct gal_cover_way {
    uint64_t gain, cost[GAL_COVER_COSTS];
} gal_cover_way;

typedef struct gal_cover_item {
    const gal_cover_way *way;
    uint32_t way_count; /* > 0 */
} gal_cover_item;

/* chosen[item]: a way of each. *covers false: all gains together do not come to need; then nothing else is written.
 * *sum: of those chosen. Exact while no more than GAL_COVER_SUMS_MAX sums are worth keeping; beyond that, of those
 * whose gains differ by less than that share of need, the largest is kept. GAL_ERR_SYSTEM without memory. */
gal_code gal_least_cover(const gal_cover_item *item, uint32_t item_count, uint64_t need, uint32_t *chosen,
                         gal_cover_way *sum, bool *covers, gal_error *err);

#endif
