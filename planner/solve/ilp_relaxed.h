/* The whole problem without its coupled rows: a shortest path through layers, stages and classes.
 *
 * Relaxed by Lagrange: Eq. 5's maximum, (m - 1) max C = (m - 1) M with M >= C_i at a price of weight[i] - 1 >= 0 a
 * second each, together at most m - 1; and of Eq. 2 the row of each stage's kept bytes at byte_price[i] (in the last
 * stage with the last layer's backward). What is left is the path
 *     sum over stages of weight[i] C_i + byte_price[i] (kept bytes of i - budget),
 * whose least length bounds Eq. 5 from below, as that of the paths through a choice bounds all that take it. Lengths
 * are doubles: what leaves something out allows for their rounding. Used by `ilp` alone, so that it shares nothing but
 * the instance and its tables of choices with `exact`. */
#ifndef GAL_PLANNER_SOLVE_ILP_RELAXED_H
#define GAL_PLANNER_SOLVE_ILP_RELAXED_H

#include "planner/solve/menu.h"

typedef struct gal_relaxed {
    const gal_instance *instance;
    gal_menu **menu; /* (stage) */
    /* Prices, set by the caller; and the least length under them, INFINITY where no path is left. */
    double *weight, *byte_price; /* (stage) */
    double length_ps;
    /* Least lengths: cell = (layer, stage, class). */
    double *inner, *first;    /* of the layer alone, as an inner layer of its stage and as the first */
    double *ahead, *ahead_in; /* up to and with the layer; ahead_in: before it, as an inner layer */
    double *behind;           /* of what follows the layer */
    double *enter, *enter_in; /* (layer, stage): from that layer on as first of the stage; before that layer */
    /* What some path as fast as the best known one may use. */
    bool *edge;   /* (layer, stage, from, to): within a stage */
    bool *entry;  /* cell: as first layer of its stage */
    bool *exit;   /* cell: as last */
    bool *choice; /* (layer, stage, first or not, strategy) */
} gal_relaxed;

static inline size_t gal_relaxed_cell(const gal_instance *g, uint32_t layer, uint32_t stage, uint32_t class)
{
    return ((size_t)layer * g->stage_count + stage) * g->class_count + class;
}
static inline size_t gal_relaxed_choice(const gal_instance *g, uint32_t layer, uint32_t stage, bool is_first,
                                        uint32_t strategy)
{
    return (((size_t)layer * g->stage_count + stage) * 2 + (is_first ? 1 : 0)) * g->strategy_count + strategy;
}
/* Does each stage before and behind have a layer left? */
static inline bool gal_relaxed_holds(const gal_instance *g, uint32_t layer, uint32_t stage)
{
    return stage <= layer && g->stage_count - 1 - stage <= g->layer_count - 1 - layer;
}
/* The choices of a layer in a stage by class: start[class] .. start[class + 1]. */
static inline const uint32_t *gal_relaxed_start(const gal_relaxed *r, uint32_t layer, uint32_t stage, bool is_first)
{
    const gal_menu *menu = r->menu[stage];
    const bool is_last = layer + 1 == r->instance->layer_count;
    return menu->start + gal_menu_slot(menu, r->instance->kind[layer], is_first, is_last);
}

/* All is used at first. GAL_ERR_SYSTEM without memory. */
gal_code gal_relaxed_create(const gal_instance *instance, gal_relaxed *out, gal_error *err);
void gal_relaxed_free(gal_relaxed *relaxed);

/* The tables and length_ps under the prices. */
void gal_relaxed_price(gal_relaxed *relaxed);
/* A path of that length; out->value_ps is not set. kept_bytes (stage): of its relaxed rows. */
void gal_relaxed_path(const gal_relaxed *relaxed, gal_assignment *out, int64_t *kept_bytes);
/* Takes out what is on no path of at most best_ps under the prices. */
void gal_relaxed_leave_out(gal_relaxed *relaxed, int64_t best_ps);

#endif
