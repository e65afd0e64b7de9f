/* All strategies of a cell by their prices alone, without pairs of neighbours: a bound of the cell, and which of them
 * are worth a closer look.
 *
 * reduced_seconds of a type and a strategy: no plan that has such a block is faster. They come from relaxations in
 * which every block may take any strategy in any stage: first under one price of memory (planner/bound/relaxed.h), then
 * under the weights that a dual found among some of the strategies (planner/bound/dual.h), as columns are priced out in
 * linear programs. The largest found counts. */
#ifndef GAL_PLANNER_BOUND_SCREENED_H
#define GAL_PLANNER_BOUND_SCREENED_H

#include "planner/bound/dual.h"
#include "planner/bound/screen.h"
#include "planner/space/orders.h"

/* The least of any stage; of embedding and head, of theirs. Of forward and backward neighbours hide all that they may
 * (costmodel/price.h): what they do not is a cost of edges in a cell, and left out here. */
typedef struct gal_screened_item {
    double forward_seconds, backward_seconds, tail_seconds, update_seconds;
    double enter_seconds, leave_seconds, enter_tail_seconds; /* of the turns: below 0 what they gain */
    gal_pass_seconds hidden_before, hidden_behind;           /* of forward and backward: what they hide so (price.h) */
    double bytes, saved_bytes, work_bytes;                   /* once; for each microbatch in flight; in turn */
    double turn_bytes;                                       /* of all that blocks use in turn, work included */
    uint64_t boundary_bytes;                                 /* that a stage hands on behind it */
    double link_share[GAL_LINK_LEVELS_MAX];                  /* gal_block_price.link_share */
    bool gathers;                                            /* gal_price_gathers */
    const gal_block_memory *memory;                          /* of its price, which is the same on all stages */
} gal_screened_item;

/* With spec.moving: of the strategies of the space those that are one of that plan's with all of it on the device.
 * Which orders of axes are listed: of first ones prices show what they do of all (planner/space/orders.h). */
typedef enum gal_screened_orders { GAL_ALL_ORDERS, GAL_FIRST_ORDERS } gal_screened_orders;

/* Of an item: the kernels of its split alone (planner/bound/screen.h), what it takes at least (gal_price_block_floor),
 * or its price. */
typedef enum gal_item_known { GAL_ITEM_KERNELS, GAL_ITEM_FLOOR, GAL_ITEM_PRICE } gal_item_known;

/* Of all cells of equal stages and samples per microbatch. */
typedef struct gal_screened_prices {
    uint32_t pp_degree, samples, strategy_count;
    gal_screened_orders which;
    gal_strategy *strategy;
    uint32_t *first;         /* [strategy] its first order, as the list of first orders numbers it */
    uint8_t *part;           /* [strategy] gal_price_part_of */
    uint32_t *split;         /* [strategy] gal_screen_number; NULL: not asked for */
    bool *legal;             /* [type][strategy] by the rules, and by what was asked for */
    uint8_t *known;          /* [type][strategy] gal_item_known */
    gal_screened_item *item; /* [type][strategy] of what is legal, as known; else not set, nor its pages touched */
    struct gal_screened_prices *next;
} gal_screened_prices;

/* What a cell does without. */
typedef struct gal_left_out {
    uint32_t strategy_count; /* of first orders */
    bool *out;               /* [type][first order], with all its orders; owned, NULL: nothing */
    double seconds;          /* no plan that has any of it is faster; infinity: none has */
} gal_left_out;

typedef struct gal_screened {
    gal_cell_spec spec;
    const gal_block_types *types;
    const gal_strategy *strategy; /* of gal_space_strategies those that are legal for a type of block */
    uint32_t strategy_count;
    bool *legal;                   /* [type][strategy] by the rules, and not left out; owned */
    const gal_screened_item *item; /* [type][strategy] where it is legal */
    double *reduced_seconds;       /* [type][strategy]; infinity where it is not legal */
    double bound;                  /* no plan of these is faster; infinity: none fits */
    double rest_seconds;           /* nor one with what is left out than this */
} gal_screened;

/* The bound that gal_screened_create has of a cell of one stage, of first orders, from prices of as few strategies as
 * show it, or as far as enough_seconds. Prices are by far most of what such a cell takes, and what strategies take at
 * least (gal_price_block_floor) most of the rest. So all begin with their splits by kernels (screens); at the best
 * price of memory it becomes known of the cheapest what they take at least, until that is known of what is cheapest,
 * without the tail and with all of it, which says enough alone where gradients take long to reduce. Then, types of most
 * blocks first, the cheapest are priced, until those that are cheapest are priced all: as columns are generated in
 * linear programs. Of several stages nothing is done: there the turns of what is not priced might gain. As
 * gal_screened_create; *bound is raised. */
gal_code gal_screened_bound_some(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                                 double enough_seconds, gal_screened_prices **prices, double *bound, gal_error *err);

/* What a cell may do without, by what gal_screened_bound_some has asked for; nothing where it has asked for nothing.
 * hopeless: strategies with which no plan is faster than enough_seconds, under one price of memory, by prices or by
 * what they take at least. unlikely: those of which no type was priced, as others were cheaper, and all but first
 * orders; bound: the cell's. GAL_ERR_SYSTEM without memory. */
gal_code gal_screened_leave_hopeless(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                                     double enough_seconds, gal_screened_prices *prices, gal_left_out *out,
                                     gal_error *err);
gal_code gal_screened_leave_unlikely(const gal_cell_spec *spec, const gal_block_types *types, double bound,
                                     gal_screened_prices *prices, gal_left_out *out, gal_error *err);
void gal_left_out_free(gal_left_out *left); /* accepts a zeroed one */

/* The prices that gal_screened_create asks for: it then changes nothing of the list, so that cells which are priced may
 * be bounded at the same time. Arguments and errors are its own. */
gal_code gal_screened_price(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                            const gal_left_out *left, gal_screened_prices **prices, gal_error *err);
/* types is referred to, and what spec refers to. left: NULL: nothing is left out. prices: of cells that differ in their
 * numbers alone, at first NULL; what is new is added, and referred to. GAL_ERR_SYSTEM without memory; else as
 * gal_price_block. */
gal_code gal_screened_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                             const gal_left_out *left, gal_screened_prices **prices, gal_screened *out, gal_error *err);
void gal_screened_free(gal_screened *screened);             /* accepts a zeroed one */
void gal_screened_prices_free(gal_screened_prices *prices); /* all; accepts NULL */
/* Whether the list has those of such stages and samples per microbatch. */
bool gal_screened_prices_listed(uint32_t pp_degree, uint32_t samples, gal_screened_orders which,
                                const gal_screened_prices *list);
/* Frees those of the list that are of such stages and samples per microbatch, if there are any: no gal_screened refers
 * to them any longer. */
void gal_screened_prices_drop(uint32_t pp_degree, uint32_t samples, gal_screened_orders which,
                              gal_screened_prices **list);

/* Raises bound and reduced_seconds by what the weights show. */
void gal_screened_price_out(gal_screened *screened, const gal_weights *weights);

/* Marks, for every type but the ends, the `most` strategies that suit each stage best if all stages have the same share
 * of blocks. GAL_ERR_SYSTEM without memory. */
gal_code gal_screened_pick(const gal_screened *screened, uint32_t most, bool *marked, gal_error *err);

#endif
