/* How many strategies of a space each rule leaves, block kind by block kind: for people who ask what a search has
 * looked at. */
#ifndef GAL_PLANNER_SEARCH_SPACE_COUNTS_H
#define GAL_PLANNER_SEARCH_SPACE_COUNTS_H

#include "planner/cell/cell.h"

typedef struct gal_space_count {
    gal_block_kind kind;
    uint32_t block_count; /* of the type */
    uint32_t listed; /* gal_space_strategies: takeaways, and DP outside a 2d grid where 2.5d is that, are applied */
    uint32_t legal;  /* of them: for the block, in plans of the cell's prefetch depth */
    uint32_t tried;  /* of them: of equal programs one; attention and FFN alone run again (gal_cell_is_legal) */
    uint32_t first;  /* of them: of orders of axes that are one the first (planner/space/orders.h) */
    uint32_t
        open; /* of those tried: not ruled out of a plan within the memory that is faster (planner/bound/screened.h) */
} gal_space_count;

typedef struct gal_space_counts {
    uint32_t type_count;
    gal_space_count *of; /* owned; [type_count], in the order of the model */
} gal_space_counts;

/* For the cell of spec; plan_seconds: the objective of the plan that was found. GAL_ERR_SYSTEM without memory; else as
 * gal_screened_create. */
gal_code gal_space_counts_create(const gal_cell_spec *spec, double plan_seconds, gal_space_counts *out, gal_error *err);
void gal_space_counts_free(gal_space_counts *counts);

#endif
