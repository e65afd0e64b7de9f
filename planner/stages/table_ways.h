/* The ways to keep the token table: strategies under which every device holds the same part of it
 * (gal_strategy_same_shards) are one way, and all its holders have the same. */
#ifndef GAL_PLANNER_STAGES_TABLE_WAYS_H
#define GAL_PLANNER_STAGES_TABLE_WAYS_H

#include "planner/bound/screened.h"

#define GAL_NO_WAY UINT32_MAX /* no embedding keeps it so */

typedef struct gal_table_ways {
    uint32_t count;
    uint32_t *of; /* owned; [strategy]: its way, numbered by the first embedding that has it, or GAL_NO_WAY */
} gal_table_ways;

/* Of all strategies that are screened. GAL_ERR_SYSTEM without memory. */
gal_code gal_table_ways_create(const gal_screened *screened, gal_table_ways *out, gal_error *err);
void gal_table_ways_free(gal_table_ways *ways); /* accepts a zeroed one */

/* A way as a group of them is halved: what it costs the embedding, and all other holders, at least. */
typedef struct gal_priced_way {
    uint32_t way;
    double cost[2];
} gal_priced_way;

/* No choice takes less in which each holder has some way of the group, each its own; allowed[way_limit]. Once the bound
 * is enough it need not be the best. */
typedef gal_code gal_ways_bound(void *context, const bool *allowed, double *bound);

/* The least bound of any way by itself, or enough_seconds if none has less: branch and bound, best first. The group of
 * the least bound is halved, cheap ways of what its costs differ most in from dear ones, until it is one way: of the
 * thousands of a large space those alone are looked at that are nearly the best. way[count] is put in another order;
 * its numbers are below way_limit, which is also how many entries `allowed` has: a bound may ask of ways that are not
 * among them. GAL_ERR_SYSTEM without memory, else as bound_of. */
gal_code gal_table_ways_bound(gal_priced_way *way, uint32_t count, uint32_t way_limit, double enough_seconds,
                              gal_ways_bound *bound_of, void *context, double *least, gal_error *err);

#endif
