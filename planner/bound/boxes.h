/* Boxes of paths: the shared bytes and the first block of each stage between a least and a most (planner/bound/dual.h).
 * A box that labels cannot finish is split where its relaxed path costs most seconds more than its bound: at the bytes
 * of a use that is not charged (below them that path is gone, from them up it pays them), or at a border of the slowest
 * stage. */
#ifndef GAL_PLANNER_BOUND_BOXES_H
#define GAL_PLANNER_BOUND_BOXES_H

#include "planner/bound/dual.h"

#define GAL_BOX_UNTIED UINT32_MAX

typedef struct gal_box gal_box;

typedef struct gal_boxes { /* open ones, by their bounds */
    gal_box **box;
    uint32_t count, capacity;
    uint64_t added; /* equal bounds: the oldest first */
} gal_boxes;

typedef struct gal_split {
    uint32_t stage;
    gal_shared_kind kind; /* GAL_SHARED_KIND_COUNT: its first block */
    int64_t at;           /* bytes, or block */
    bool upper;           /* from `at` up; else below */
} gal_split;

typedef struct gal_box_state {
    double bound;
    uint32_t embedding; /* as gal_dual_tie, or GAL_BOX_UNTIED */
    uint32_t effort;    /* how often labels did not suffice for all of it */
} gal_box_state;

/* The half of the dual's box (split NULL: all of it) with its weights, copied. GAL_ERR_SYSTEM without memory. */
gal_code gal_boxes_add(gal_boxes *boxes, const gal_dual *dual, const gal_box_state *state, const gal_split *split,
                       gal_error *err);
double gal_boxes_least_bound(const gal_boxes *boxes); /* of at least one box */
gal_box *gal_boxes_take(gal_boxes *boxes);            /* that box, for gal_box_free */
void gal_boxes_free(gal_boxes *boxes);

gal_box_state gal_box_state_of(const gal_box *box);
/* Weights, box and ties; weighs. */
void gal_box_load(const gal_box *box, gal_dual *dual);
void gal_box_free(gal_box *box);

/* Of the dual's box, by its shortest path; false: that path costs what its bound says. */
bool gal_box_choose_split(const gal_dual *dual, gal_split *out);

#endif
