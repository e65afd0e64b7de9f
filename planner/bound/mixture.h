/* Neighbouring blocks that mix strategies on a stage: the least seconds under a limit of bytes.
 *
 * Every block takes one item of its type's menu. Items of one class keep rows alike: between classes rows are
 * converted. Seconds and bytes add up; of the bytes that blocks use in turn the stage has the largest of each kind, and
 * so at least the largest sum of one item (turn_bytes). A bound takes levels of that sum in turn: on a level items
 * above its top may not be taken and its bottom is charged; then a price per byte relaxes the limit, and what is left
 * is a chain. Its path costs at least what its pairs of neighbours do, each with half of both blocks, the pairs at its
 * ends with all of the block that is an end and what that adds: an item that gains at an end pays for itself there. Of
 * two neighbours that gather weights none hides anything of the other (costmodel/price.h): a pair costs what that takes
 * more, or has an item on one side that gathers nothing; with an end it may cost less.
 * A level's price is best for counts that are given once; for others the lines hold as well: they are linear in the
 * counts.
 * Source of the relaxation: M. L. Fisher, "The Lagrangian Relaxation Method for Solving Integer Programming Problems",
 * 1981. */
#ifndef GAL_PLANNER_BOUND_MIXTURE_H
#define GAL_PLANNER_BOUND_MIXTURE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/cell/cell.h"

typedef struct gal_mix_item {
    double seconds, bytes, turn_bytes;
    double first_seconds, last_seconds;    /* more, of the first and of the last block of a stage */
    double before_seconds, behind_seconds; /* more beside another that gathers, before or behind it */
    bool gathers;
    uint32_t class;
    uint32_t strategy; /* the caller's number */
} gal_mix_item;

typedef struct gal_mix_menu {
    uint32_t count;           /* 0: blocks of the type are not to be had */
    const gal_mix_item *item; /* those of a class follow each other, the quickest first */
} gal_mix_menu;

/* Of a pair's rows between two classes: what it adds to forward, to backward and to the tail, none negative. */
typedef struct gal_mix_conversion {
    double forward_seconds; /* infinity: not allowed; NaN: not asked for yet */
    double backward_seconds, tail_seconds;
} gal_mix_conversion;

/* What a second of each counts. */
typedef struct gal_mix_rates {
    double forward, backward, tail;
} gal_mix_rates;

/* The chains that stages are cut from, and what is on their menus. */
typedef struct gal_mix_stage {
    const gal_block_types *types;
    uint32_t class_count;
    const gal_mix_menu *menu;               /* [type] */
    const double *first_bytes, *last_bytes; /* [class] more, of a stage of several blocks whose first, last is of it */
    const double *pair_counts;              /* [pair]: for which the prices are best, fractions too */
    double limit_bytes;
    bool begins_chain, ends_chain;   /* every stage cut from it does, with the chain's first block, with its last one */
    gal_mix_conversion **conversion; /* [pair][class]: rows of [class], priced when they are asked for; NULL: none of it
                                      * was. Of thousands of classes few rows are */
    gal_mix_rates rates;             /* of conversions */
    /* Gives the row too. */
    gal_mix_conversion (*price)(void *context, uint32_t pair, uint32_t from_class, uint32_t to_class);
    void *context;
} gal_mix_stage;

static inline gal_mix_conversion **gal_mix_row(const gal_mix_stage *stage, uint32_t pair, uint32_t from_class)
{
    return &stage->conversion[(size_t)pair * stage->class_count + from_class];
}

/* Seconds as they count; infinity: not allowed; NaN: not known yet. To price one takes longer than to look at hundreds:
 * who looks for the least takes those not known for 0, and asks for those alone that the least then has. */
static inline double gal_mix_known(const gal_mix_stage *stage, uint32_t pair, uint32_t from_class, uint32_t to_class)
{
    const gal_mix_conversion *row = *gal_mix_row(stage, pair, from_class);
    if (row == NULL) {
        return NAN;
    }
    const gal_mix_conversion *own = &row[to_class];
    return stage->rates.forward * own->forward_seconds + stage->rates.backward * own->backward_seconds +
           stage->rates.tail * own->tail_seconds;
}

/* The same, priced if need be. */
double gal_mix_ask(const gal_mix_stage *stage, uint32_t pair, uint32_t from_class, uint32_t to_class);

enum { GAL_MIX_LEVELS = 16 };

/* A sum over the pairs of a chain of blocks and over its two ends. */
typedef struct gal_mix_line {
    double constant;
    double *pair;         /* [pair] */
    double *first, *last; /* [pair] more, of the first and of the last of several pairs */
    double *two;          /* [pair] of a stage of two blocks, all of it */
    double *one;          /* [type] of a stage of one block */
    /* The same, no more than with any blocks beside: */
    double *first_floor, *last_floor, *two_floor, *one_floor;
} gal_mix_line;

typedef struct gal_mix_bound {
    uint32_t level_count, pair_count;
    gal_mix_line seconds[GAL_MIX_LEVELS][2]; /* without a price, and at the level's best */
    gal_mix_line bytes[GAL_MIX_LEVELS];      /* the least bytes over the limit: above 0 nothing fits */
    double *least;                           /* [type] seconds of a block, whatever is beside it and its bytes */
    double gain;                             /* of the ends at most: 0 or less */
    double least_seconds;                    /* of the counts that prices are made for */
    uint32_t least_level;                    /* gives them */
    double turns[GAL_MIX_LEVELS][2];         /* bottom and top */
    double price[GAL_MIX_LEVELS];            /* the level's best */
    double *memory;                          /* owned */
} gal_mix_bound;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_mix_bound_create(const gal_mix_stage *stage, gal_mix_bound *out, gal_error *err);
/* The same at the levels of another bound and at its prices times `scale`: sooner found. changed: the types whose menus
 * differ from those of its stage, which has all that this one has there; NULL: all may. */
gal_code gal_mix_bound_create_like(const gal_mix_stage *stage, const gal_mix_bound *like, const bool *changed,
                                   double scale, gal_mix_bound *out, gal_error *err);
gal_code gal_mix_bound_copy(const gal_block_types *types, const gal_mix_bound *from, gal_mix_bound *out,
                            gal_error *err);
void gal_mix_bound_free(gal_mix_bound *bound); /* accepts a zeroed one */

/* A chain: how often each pair is in it, and its ends. */
typedef struct gal_mix_chain {
    const uint32_t *behind, *before; /* [pair]: their difference counts */
    uint32_t first_type;
    uint32_t first_pair, last_pair; /* of several blocks */
} gal_mix_chain;

/* No choice takes less; infinity: none fits. */
double gal_mix_least(const gal_mix_bound *bound, const gal_mix_chain *chain);
/* No more than that, and no more than with further blocks at either end, as long as pairs take no less than nothing. */
double gal_mix_floor(const gal_mix_bound *bound, const gal_mix_chain *chain);

/* ---- a choice ---- */

/* Blocks that choose from the same items. */
typedef struct gal_mix_group {
    const gal_mix_item *item; /* the quickest first */
    uint32_t item_count, block_count;
    uint32_t *taken; /* [item] of the caller: how many blocks take it */
} gal_mix_group;

typedef struct gal_mix_sum {
    double seconds, bytes; /* without what is used in turn */
    double rate;           /* seconds per byte of the last that was gained; 0: all that could be gained was */
} gal_mix_sum;

/* Seconds that no choice is below of items of up to top_bytes in turn, whose other bytes are not above the limit: by a
 * price per byte. */
double gal_mix_choice_floor(const gal_mix_group *group, uint32_t group_count, double limit_bytes, double top_bytes,
                            double price);
/* The quickest choice that is found whose bytes, with the largest turn_bytes of an item taken, are not above the limit;
 * fills taken. False: none fits, or none that by this price may take less than `enough_seconds`. */
bool gal_mix_choose(const gal_mix_group *group, uint32_t group_count, double limit_bytes, double price,
                    double enough_seconds, gal_mix_sum *out);

#endif
