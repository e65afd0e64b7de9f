/* The strategies of a type that may be on menus, by their numbers: a menu is listed from them for each stage, each
 * table and each weights, some hundred times, so what that reads lies number by number, and what it found is where it
 * looks first the next time. */
#ifndef GAL_PLANNER_STAGES_STAGE_ITEMS_H
#define GAL_PLANNER_STAGES_STAGE_ITEMS_H

#include "planner/bound/mixture.h"
#include "planner/bound/screened.h"

/* As in gal_screened_item; of TRANSFER what is set last. */
typedef enum gal_item_number {
    GAL_ITEM_FORWARD,
    GAL_ITEM_BACKWARD,
    GAL_ITEM_TAIL,
    GAL_ITEM_UPDATE,
    GAL_ITEM_BYTES,
    GAL_ITEM_SAVED,
    GAL_ITEM_TURN,
    GAL_ITEM_ENTER,
    GAL_ITEM_LEAVE,
    GAL_ITEM_ENTER_TAIL,
    GAL_ITEM_BEFORE_FORWARD, /* of hidden_before, and so on */
    GAL_ITEM_BEFORE_BACKWARD,
    GAL_ITEM_BEHIND_FORWARD,
    GAL_ITEM_BEHIND_BACKWARD,
    GAL_ITEM_GATHERS, /* 1, else 0 */
    GAL_ITEM_TRANSFER,
    GAL_ITEM_NUMBERS
} gal_item_number;

typedef struct gal_stage_items {
    uint32_t count;
    bool crowds;                      /* some, of this type or, as the caller may say, of another, take more beside
                                       * one that gathers */
    const uint32_t *strategy;         /* [count], those of a class one after the other */
    uint32_t *class;                  /* [count] */
    double *number[GAL_ITEM_NUMBERS]; /* [count] each */
    uint32_t *sent, *carried;         /* [count] of sizes of transfers (planner/stages/stage_tables.c) */
    uint32_t *beater;                 /* [count] place of one that beat it; count: none did */
    uint32_t *order[2];               /* [count] places class by class, the quickest first when a menu was listed last:
                                       * of rounds, and of all else */
    void *memory;                     /* owned */
} gal_stage_items;

/* Of `count` strategies; strategy, item[strategy] and class[strategy] are referred to while it is made, strategy as
 * long as it lives. Transfers are 0, of sizes 0. GAL_ERR_SYSTEM without memory. */
gal_code gal_stage_items_create(const gal_screened_item *item, const uint32_t *class, const uint32_t *strategy,
                                uint32_t count, gal_stage_items *out, gal_error *err);
void gal_stage_items_free(gal_stage_items *items); /* accepts a zeroed one */

/* What numbers count on a stage. */
typedef struct gal_item_weights {
    gal_mix_rates rates;
    double update, in_flight;
    double sent;             /* of the transfer */
    double hidden_share;     /* of what is hidden of backward (gal_price_hidden_share) ... */
    double not_hidden_share; /* ... and the rest, where it is not in update */
    bool enters, leaves;     /* there is a stage before, behind it */
    const double *more;      /* [strategy] seconds beside; NULL: none */
    const bool *may_take;    /* [count] NULL: all may be */
    uint32_t order;          /* which one is kept */
} gal_item_weights;

/* Room for menus of at most so many items. */
typedef struct gal_item_room {
    double *value; /* owned */
    uint32_t count;
} gal_item_room;

gal_code gal_item_room_create(uint32_t count, gal_item_room *out, gal_error *err);
void gal_item_room_free(gal_item_room *room); /* accepts a zeroed one */

/* The menu at these weights: what no other item of its class beats in all its numbers at once, of equals the first
 * strategy, class by class, the quickest first. Returns how many; they are written by gal_stage_items_write, before
 * another is listed in the room. */
uint32_t gal_stage_items_list(gal_stage_items *items, const gal_item_weights *weights, gal_item_room *room);
void gal_stage_items_write(const gal_stage_items *items, const gal_item_room *room, uint32_t count, gal_mix_item *out);

#endif
