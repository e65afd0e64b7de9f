/* Why cells of a search have no plan, whatever the memory.
 *
 * A cell is out if its numbers do not divide (gal_cell_refused), if some block has no strategy of the space that is
 * legal for it, or if under each legal one a tensor is too large for a program (gal_is_too_large). This file says which
 * block and which rule it is. The search itself does not read it: it finds no plan of such a cell. */
#ifndef GAL_PLANNER_CELL_ILLEGAL_H
#define GAL_PLANNER_CELL_ILLEGAL_H

#include "planner/cell/search_request.h"

enum { GAL_ILLEGAL_RULES_MAX = 6, GAL_ILLEGAL_STRATEGIES_MAX = 4 };

/* A rule that keeps strategies from blocks. */
typedef struct gal_illegal_rule {
    gal_block_shape block;       /* the first one that it was broken for */
    const char *rule;            /* as gal_strategy_block_rule_broken says; NULL: a tensor is too large */
    uint32_t microbatch_samples; /* of the cell where it was broken first */
    uint32_t strategy_count;     /* the first different splits that break it, as they are without recompute */
    gal_strategy strategy[GAL_ILLEGAL_STRATEGIES_MAX];
} gal_illegal_rule;

typedef struct gal_illegal {
    uint32_t rule_count; /* the first ones found */
    gal_illegal_rule rule[GAL_ILLEGAL_RULES_MAX];
    uint32_t bare_devices; /* a stage of so many devices has no strategy in the space at all; 0: none is without */
} gal_illegal;

/* Whether each type of block has a legal strategy. Then a cell whose floor is infinite (gal_screen_floor) is out
 * because tensors are too large. GAL_ERR_SYSTEM without memory. */
gal_code gal_cell_types_are_legal(const gal_cell_spec *spec, const gal_block_types *types, bool *legal, gal_error *err);

/* For a request of which no plan is legal. GAL_ERR_SYSTEM without memory. */
gal_code gal_search_illegal(const gal_search_request *request, gal_illegal *out, gal_error *err);

#endif
