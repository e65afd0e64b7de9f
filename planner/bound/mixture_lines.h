/* A level of mixture.h under a price, and the lines that a bound has of it. For mixture.c. */
#ifndef GAL_PLANNER_BOUND_MIXTURE_LINES_H
#define GAL_PLANNER_BOUND_MIXTURE_LINES_H

#include "planner/bound/mixture.h"
#include "planner/bound/slope.h"

/* Lines of a level: without a price, at its own, and of bytes. */
typedef enum gal_mix_line_kind {
    GAL_MIX_NO_PRICE,
    GAL_MIX_OWN_PRICE,
    GAL_MIX_BYTES_ALONE,
    GAL_MIX_LINE_COUNT
} gal_mix_line_kind;

/* Costs at the price at hand: of half a block; of one that gathers nothing; with what it takes more beside one that
 * gathers, before or behind it; of a whole one that begins a stage, that ends one, with what that adds. Of each
 * [type][class] the least; infinite: there is none. */
enum {
    GAL_MIX_HALF,
    GAL_MIX_OPEN,
    GAL_MIX_BEFORE,
    GAL_MIX_BEHIND,
    GAL_MIX_HALVES,
    GAL_MIX_FIRST = GAL_MIX_HALVES,
    GAL_MIX_LAST,
    GAL_MIX_COST_COUNT
};

typedef struct gal_mix_level {
    const gal_mix_stage *stage;
    double top_bytes;                 /* items above it may not be taken */
    double limit_bytes;               /* less what the level charges */
    const bool *changed;              /* [type] whose items differ from those of a bound that lines are of; NULL: all */
    bool needed[GAL_TYPES_MAX];       /* those, and their neighbours */
    bool at_end[GAL_TYPES_MAX];       /* the types that may begin or end a stage */
    bool crowds;                      /* some item takes more beside one that gathers; else halves are all alike */
    bool crowds_priced;               /* halves beside one that gathers, at the price at hand */
    double rate, price;               /* at hand: what a second and a byte cost */
    gal_priced_choice *best;          /* [GAL_MIX_HALVES][type][class] of the least: of both halves */
    uint32_t *open;                   /* [2 * class] room */
    double *cost[GAL_MIX_COST_COUNT]; /* GAL_MIX_FIRST and GAL_MIX_LAST: of lines that are filled */
    double *all;                      /* room for costs of all lines of all levels */
    gal_mix_line *line;               /* where those are written that are tried */
} gal_mix_level;

static inline double gal_mix_least_of(double a, double b) /* fmin, inlined: no NaN comes here */
{
    return a < b ? a : b;
}

/* Of a stage, which is referred to, as changed is; the caller sets top_bytes, limit_bytes and line. To be freed after
 * an error too. GAL_ERR_SYSTEM without memory. */
gal_code gal_mix_level_create(const gal_mix_stage *stage, const bool *changed, gal_mix_level *out, gal_error *err);
void gal_mix_level_free(gal_mix_level *l);

/* The pairs of a line, each the least of rate * seconds + price * bytes that two halves and a conversion have, and its
 * constant, -price * limit_bytes. Returns what they are made of for the counts that prices are made for
 * (gal_mix_stage.pair_counts); infinite: there is none. At a rate of 0 conversions cost nothing. */
gal_priced_choice gal_mix_write_pairs(gal_mix_level *l, double rate, double price, gal_mix_line *line);
/* The costs of all lines of `count` levels, [level][bottom and top], each at its price: all items once. Lines at a
 * price of 0 are those without one. */
void gal_mix_price_levels(gal_mix_level *l, double turns[][2], const double *price, uint32_t count);
/* All of a line of level `number`, by what gal_mix_price_levels has for lines of the kind `of`; rate and price are
 * those of the kind: 1 and 0, 1 and the level's, 0 and 1. */
void gal_mix_write_line(gal_mix_level *l, uint32_t number, gal_mix_line_kind of, double rate, double price,
                        gal_mix_line *line);

#endif
