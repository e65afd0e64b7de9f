/* The cheapest way to have two neighbouring blocks: each in a class, with rows converted where classes differ. */
#ifndef GAL_PLANNER_BOUND_MIXTURE_WAYS_H
#define GAL_PLANNER_BOUND_MIXTURE_WAYS_H

#include "planner/bound/mixture.h"

typedef struct gal_mix_way {
    uint32_t from, to;       /* classes */
    double conversion, cost; /* seconds as they count; of all */
} gal_mix_way;

/* from, to: [class] cost of the block before and of the one behind; infinity: not to be had. */

/* Where conversions cost nothing. */
gal_mix_way gal_mix_cheapest_apart(const gal_mix_stage *stage, const double *from, const double *to);
/* With them: those are asked for alone that the least way may have. Of equal ways one without a conversion, else the
 * one met first. room: [2 * class]. */
gal_mix_way gal_mix_cheapest_way(const gal_mix_stage *stage, uint32_t pair, const double *from, const double *to,
                                 uint32_t *room);

#endif
