/* Which random plans the equivalence test takes. */
#ifndef GAL_TESTS_SUPPORT_NUMERICS_DRAW_H
#define GAL_TESTS_SUPPORT_NUMERICS_DRAW_H

#include "tests/support/numerics_coverage.h"

/* Names a plan. */
typedef struct gal_drawn {
    uint64_t seed;
    uint32_t world;
    bool stores; /* moments may be on storage: not under queues */
} gal_drawn;

/* What is asked of every plan drawn. */
typedef enum gal_draw_kind {
    GAL_DRAW_ANY,      /* nothing */
    GAL_DRAW_CELLS,    /* of several, it is the one that meets most cells that are still short */
    GAL_DRAW_OVERLAPS, /* it has kinds of overlap that are to compute the same (gal_drawn_turn_overlap) */
    GAL_DRAW_GRIDS     /* it has a grid of more than 8 ranks: 3 x 3, 3 layers of 2 x 2, 4 x 4, 4 layers of 2 x 2 */
} gal_draw_kind;

/* Random, with reuse, offload and storage; gal_plan_free releases it. */
void gal_drawn_plan(const gal_drawn *drawn, gal_plan *out);

/* Plans over at most `launched` ranks, 2 or more for overlaps, 16 for grids; by world, then seed. What they meet is
 * added to coverage. The caller frees the array. */
gal_drawn *gal_draw_plans(uint32_t count, uint64_t seed, uint32_t launched, gal_draw_kind kind, bool stores,
                          gal_coverage *coverage);

/* in_pass, cross_pass and fine under full recompute become the next of them, `steps` times; false: there is none. */
bool gal_drawn_turn_overlap(gal_plan *plan, uint32_t steps);

#endif
