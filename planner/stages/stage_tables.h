/* What is on the menus of a cell's stages (planner/bound/mixture.h): all strategies of a screened cell, by the classes
 * of their rows, with the price of conversions between them. */
#ifndef GAL_PLANNER_STAGES_STAGE_TABLES_H
#define GAL_PLANNER_STAGES_STAGE_TABLES_H

#include "planner/bound/mixture.h"
#include "planner/bound/screened.h"
#include "planner/stages/stage_items.h"
#include "planner/stages/table_ways.h"

/* What an item's seconds are: of a stage's round; what it adds to the sum over stages; that and its share of the
 * slowest rounds, as if all stages were equal; as if its stage were the slowest. With one stage all but the first are
 * all its seconds. */
typedef enum gal_stage_table {
    GAL_TABLE_ROUND,
    GAL_TABLE_ADDED,
    GAL_TABLE_BOTH,
    GAL_TABLE_STEP,
    GAL_TABLE_COUNT
} gal_stage_table;

typedef struct gal_stage_tables {
    const gal_screened *s;
    double exposed[GAL_STAGES_MAX];   /* weights of the stages' tails (planner/bound/dual.h: nu) */
    double update[GAL_STAGES_MAX];    /* of their updates (xi) */
    double drained[GAL_STAGES_MAX];   /* of those behind: what a stage's backward hides */
    uint32_t weighed[GAL_STAGES_MAX]; /* how often any of these changed */
    gal_round_counts rounds;
    uint32_t class_count;
    uint32_t *class;  /* [strategy] */
    uint32_t *stands; /* [class]: its first strategy */
    uint32_t *listed; /* [listed_count] legal strategies, class by class: items of a menu are in this order */
    uint32_t listed_count;
    uint32_t *kept, *kept_count; /* [type][kept_count[type]] of them, what no other beats on any stage */
    gal_stage_items *items;      /* [type] those */
    gal_item_room room;
    bool *may_take;     /* [kept] room */
    double *rows_bytes; /* [class] at the borders of stages */
    uint64_t *size;     /* [size_count] bytes that are sent; the first 0 */
    uint32_t size_count;
    gal_price_transfer *transfer; /* [size] that the items have, behind sent_stage */
    uint32_t sent_stage;
    gal_mix_item *item;  /* [type][strategy] */
    gal_mix_menu *menu;  /* [type] of the stage at hand */
    gal_mix_menu *known; /* [table][stage][type] under these weights, as holders of the token table like; their items
                          * owned. Items NULL: not asked for yet */
    double *pair_counts; /* its share, if all stages have the same */
    double *first_bytes, *last_bytes;
    double *table_seconds;           /* [strategy] of the token table's reduction between the stages that hold it */
    gal_table_ways ways;             /* to keep it, if several hold it */
    gal_mix_conversion **conversion; /* [pair][class] rows on stages of `place`; owned */
    gal_mix_conversion *no_row;      /* that stands for those that there is no memory for: nothing is allowed */
    uint32_t stage, place;           /* at hand; of the stages whose conversions are known (gal_price_place) */
    gal_code code;                   /* of a conversion */
    gal_error *err;
} gal_stage_tables;

/* screened is referred to; err is where a conversion that fails leaves its reason. one_class: rows are taken to lie
 * alike under all strategies, at their smallest; what is bounded so is bounded for any classes, as conversions take no
 * less than nothing, and sooner, as few items are not beaten by another. GAL_ERR_SYSTEM without memory. */
gal_code gal_stage_tables_create(const gal_screened *screened, bool one_class, gal_stage_tables *out, gal_error *err);
void gal_stage_tables_free(gal_stage_tables *tables); /* accepts a zeroed one */

/* Tails and updates count with these weights from now on: [stage], 0 or more, with a sum of at most 1; at first all are
 * 0. */
void gal_stage_tables_weigh(gal_stage_tables *tables, const double *exposed, const double *update);

/* The menus of a stage. allowed: [way] holders of the token table keep it in one of these, each in its own; NULL: as
 * they like. The stage refers to the tables until the next call. */
gal_mix_stage gal_stage_tables_fill(gal_stage_tables *tables, uint32_t stage, gal_stage_table table,
                                    const bool *allowed);

/* What one screened item is worth in a table, without what the ends of a stage add. */
double gal_stage_tables_seconds(const gal_stage_tables *tables, const gal_screened_item *item, uint32_t stage,
                                gal_stage_table table);

/* What a block pays in a stage for the token table's reduction under a strategy (planner/cell/cell.h: one of the
 * holders).
 */
double gal_stage_tables_reduction(const gal_stage_tables *tables, uint32_t type, uint32_t strategy, uint32_t stage);

/* Whether a block of the type may be on the stage: the ends of the chain have theirs. */
bool gal_stage_tables_may_hold(const gal_screened *screened, uint32_t stage, uint32_t type);

/* The ways to keep the token table that all its holders may have, with what each of them costs at least at these prices
 * per byte of the first and the last stage: what ways are compared by. Returns how many; way, least [way]: the caller's
 * room, as many as there are. */
uint32_t gal_stage_tables_list_ways(const gal_stage_tables *tables, double first_price, double last_price,
                                    gal_priced_way *way, double *least);

bool gal_holds_table(const gal_block_types *types, uint32_t type);

#endif
