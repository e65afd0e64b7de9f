/* The bytes of a cell's blocks under its strategies, and of conversions between them, as planner/cell/cell.h charges
 * them but without prices and pairs. For planner/least/least_cell.c alone.
 *
 * Strategies of one type of block and one layout differ in bytes alone: of them those are kept that no other beats. */
#ifndef GAL_PLANNER_LEAST_LEAST_ITEMS_H
#define GAL_PLANNER_LEAST_LEAST_ITEMS_H

#include "planner/cell/cell.h"

typedef struct gal_least_item {
    uint32_t strategy;    /* of gal_space_strategies */
    uint32_t layout;      /* equal: nothing is converted between them */
    uint32_t shards;      /* equal: they may hold the token table together */
    int64_t state, table; /* states and gradients, without biases; of them the token table's */
    int64_t saved, input, boundary;
    int64_t carried_out, carried_in; /* of the tensor beside the rows as this strategy has it; 0: there is none */
    gal_shared_bytes shared;         /* no boundary, no relayout */
} gal_least_item;

/* What a conversion takes in chains of the two strategies at least. */
typedef struct gal_least_conversion {
    bool known, legal;
    int64_t inside, entry, carried;
} gal_least_conversion;

typedef struct gal_least_items {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    uint32_t stage_devices, samples;
    gal_strategy *strategy;
    uint32_t strategy_count, layout_count, shards_count;
    gal_least_item *item;
    uint32_t *first;                       /* [type]: into item; and the end */
    uint32_t *layout_first, *shards_first; /* [layout], [shards]: the first strategy of it */
    gal_least_conversion *conversion;      /* [pair][from layout][to layout], made when asked for */
    int64_t bias_bytes;
} gal_least_items;

/* spec and types are referred to. GAL_ERR_SYSTEM without memory. */
gal_code gal_least_items_create(const gal_cell_spec *spec, const gal_block_types *types, gal_least_items *out,
                                gal_error *err);
void gal_least_items_free(gal_least_items *items); /* accepts a zeroed one */

/* In front of the block, between items of the block before and of its own that differ in layout. */
gal_code gal_least_convert(gal_least_items *items, uint32_t block, const gal_least_item *from, const gal_least_item *to,
                           const gal_least_conversion **out, gal_error *err);

#endif
