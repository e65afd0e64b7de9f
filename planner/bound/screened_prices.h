/* Items of cells, priced or not yet: for planner/bound/screened*.c alone. */
#ifndef GAL_PLANNER_BOUND_SCREENED_PRICES_H
#define GAL_PLANNER_BOUND_SCREENED_PRICES_H

#include "planner/bound/screened.h"

/* Of the cell, in the list or added to it; of those of new ones legal alone is said, by the rules. GAL_ERR_SYSTEM
 * without memory. */
gal_code gal_screened_prices_find(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                                  gal_screened_prices **list, gal_screened_prices **out, gal_error *err);
/* Those of the list; NULL: it has none. */
gal_screened_prices *gal_screened_prices_of(const gal_cell_spec *spec, gal_screened_orders which,
                                            gal_screened_prices *list);
/* One item, which is legal, or all that are neither priced nor left out, by several threads where the cache has parts;
 * legal no longer if it is not to be had. Errors: as gal_price_block, but for that. */
gal_code gal_screened_price_item(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                                 uint32_t strategy, gal_screened_prices *prices, gal_error *err);
gal_code gal_screened_price_types(const gal_cell_spec *spec, const gal_block_types *types, const gal_left_out *left,
                                  gal_screened_prices *prices, gal_error *err);
/* left: NULL: nothing is. */
static inline bool gal_is_left_out(const gal_left_out *left, const gal_screened_prices *prices, uint32_t type,
                                   uint32_t strategy)
{
    return left != NULL && left->out != NULL &&
           left->out[(size_t)type * left->strategy_count + prices->first[strategy]];
}
/* One step more of an item that is legal and not priced: from kernels to what it takes at least, from that to its
 * price. The cell has one stage. Errors: as gal_screened_price_item. */
gal_code gal_screened_learn(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type, uint32_t strategy,
                            gal_screened_prices *prices, gal_error *err);

/* Menus of all types, legal items alone; of_item[type * strategy_count + item]: its strategy. */
typedef struct gal_screened_menus {
    gal_relaxed_type *type;
    gal_relaxed_item *item;
    uint32_t *of_item;
} gal_screened_menus;

/* Empty. GAL_ERR_SYSTEM without memory; freed also if it fails. */
gal_code gal_screened_menus_create(const gal_screened *s, gal_screened_menus *out, gal_error *err);
void gal_screened_menus_free(gal_screened_menus *menus); /* accepts a zeroed one */
/* tail_weight: of the first stage's tail that counts, at most 1; 0 of several stages. */
gal_relaxed_item gal_screened_relaxed(const gal_cell_spec *spec, const gal_screened_item *item, double tail_weight);

#endif
