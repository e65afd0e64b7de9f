/* Chains that change from one strategy to another, whose rows are converted between them: queues are laid out once for
 * all of equal lists. For costmodel alone.
 *
 * As in structure.h order and waits depend on the lists of instructions alone: those of the blocks on both sides, and
 * of the steps between. So a price is: the costs of two blocks alone and of the conversion, put into the steps of the
 * chain, and the simulation of these. */
#ifndef GAL_COSTMODEL_CROSSING_H
#define GAL_COSTMODEL_CROSSING_H

#include "costmodel/lone.h"
#include "costmodel/relayout.h"

typedef struct gal_crossings gal_crossings;
typedef struct gal_crossing gal_crossing;

/* Blocks of whole microbatches, first of one strategy, then of another: plain ones, under which nothing is gathered,
 * runs again or leaves the device. */
typedef struct gal_crossing_chain {
    const gal_chain_spec *spec; /* of all blocks */
    uint32_t from_count;        /* the rest are of the other strategy */
    const gal_lone *from, *to;  /* one of the blocks; they stand for the samples (gal_lone_stands_for) */
    const gal_axis_levels *from_levels, *to_levels;
    const gal_relayout *relayout; /* between them */
} gal_crossing_chain;

/* [work] of a conversion, in company. */
typedef struct gal_relayout_costs {
    gal_cost forward[GAL_RELAYOUT_WORKS_MAX], backward[GAL_RELAYOUT_WORKS_MAX];
} gal_relayout_costs;

/* kernels are referred to, and added to. GAL_ERR_SYSTEM without memory. */
gal_code gal_crossings_create(gal_known_kernels *kernels, gal_crossings **out, gal_error *err);
void gal_crossings_free(gal_crossings *crossings); /* accepts NULL */

void gal_crossings_costs(gal_crossings *crossings, const gal_crossing_chain *chain, gal_relayout_costs *out);
/* The queues of a chain, owned by the crossings; NULL where its lists are not those of the blocks alone and of the
 * conversion: such a chain is to be lowered for itself. GAL_ERR_SYSTEM without memory. */
gal_code gal_crossings_find(gal_crossings *crossings, const gal_crossing_chain *chain, const gal_crossing **out,
                            gal_error *err);
/* Its number, from 1 on. */
uint32_t gal_crossing_number(const gal_crossing *crossing);
/* The chain's times, but for its update's, which stay as they are. */
void gal_crossings_run(gal_crossings *crossings, const gal_crossing *crossing, const gal_crossing_chain *chain,
                       const gal_relayout_costs *costs, gal_chain_times *out);

#endif
