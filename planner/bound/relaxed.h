/* The least that blocks chosen from menus can take in a pipeline: order, borders and conversions left out.
 *
 * Every block takes one item of its menu, in any stage. A path's objective (costmodel/objective.h) is at least
 * sum g (m / P + bubble) + sum once, its stages' bytes are limited one by one; weights of the stages make one limit of
 * them, a price per byte relaxes it (planner/bound/slope.h), and what is left falls apart into blocks. */
#ifndef GAL_PLANNER_BOUND_RELAXED_H
#define GAL_PLANNER_BOUND_RELAXED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gal_relaxed_item {
    double round_seconds;      /* forward and backward of one microbatch */
    double once_seconds;       /* of an iteration */
    double bytes, saved_bytes; /* once; for each microbatch in flight */
    double work_bytes;         /* in turn with others: not read here */
    double reduced_seconds;    /* out: least bound of a path with a block of this item */
    double seconds, weight;    /* inside: of an iteration; bytes at the stage's weight */
} gal_relaxed_item;

typedef struct gal_relaxed_type {
    uint32_t block_count; /* that choose from it */
    uint32_t item_count;
    gal_relaxed_item *item; /* the caller's */
} gal_relaxed_type;

typedef struct gal_relaxed_pipeline {
    uint32_t stage_count;
    double rounds;             /* times that each block's round counts */
    const uint32_t *in_flight; /* [stage] */
    const double *limit_bytes; /* [stage] */
} gal_relaxed_pipeline;

typedef struct gal_relaxed_memory {
    double spare_bytes;  /* with so many less in every stage, more if negative, none would fit for sure; -infinity if a
                            menu is empty */
    double byte_seconds; /* price of a byte on the last stage, by which reduced_seconds are; 0 if they are not */
} gal_relaxed_memory;

/* No path is faster. Infinity: none fits, or a menu is empty. Fills reduced_seconds, unless it is infinity. memory:
 * out; may be NULL. */
double gal_relaxed_bound(gal_relaxed_type *menu, uint32_t menu_count, const gal_relaxed_pipeline *pipeline,
                         gal_relaxed_memory *memory);

#endif
