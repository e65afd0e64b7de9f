/* Chains of blocks of one strategy whose queues are laid out once for all blocks of equal lists. For costmodel alone.
 *
 * Order and waits depend on the lists of instructions alone: kind of block, whether it is split over TP, by sequence,
 * by which ZeRO stage, over DP, what runs again; not on degrees, samples or links. So a few dozen structures serve all
 * strategies, and a price is: the costs of the instructions of one or two blocks alone, put into the steps of the
 * chain, and the simulation of these. */
#ifndef GAL_COSTMODEL_STRUCTURE_H
#define GAL_COSTMODEL_STRUCTURE_H

#include "costmodel/lone.h"

typedef struct gal_structures gal_structures;
typedef struct gal_structure gal_structure;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_structures_create(const gal_model *model, gal_structures **out, gal_error *err);
void gal_structures_free(gal_structures *structures); /* accepts NULL */
/* What its blocks' kernels take, for others to look up and to add to. */
gal_known_kernels *gal_structures_kernels(gal_structures *structures);

/* A block alone, its lists classified, placed, its memory read. The caller frees it; it refers to the structures. */
gal_code gal_structures_lone(gal_structures *structures, const gal_price_query *query, gal_lone *out, gal_error *err);

/* Blocks in a row, all under the query's strategy. */
typedef struct gal_lone_chain {
    const gal_price_query *query; /* its type is not read */
    uint32_t block_count;
    uint32_t type[GAL_CHAIN_MAX];        /* what nothing enters only first, what nothing leaves only last */
    const gal_lone *lone[GAL_CHAIN_MAX]; /* neighbours of one type have one */
    const gal_cost *cost[GAL_CHAIN_MAX]; /* [block][instruction] of the block alone, by gal_structures_cost */
    bool sync_alone;                     /* of gal_chain_sync_calls: for gal_structures_sync_seconds alone */
} gal_lone_chain;

/* The structure of a chain, made if it is new; owned by the structures. GAL_ERR_SYSTEM without memory. */
gal_code gal_structures_chain(gal_structures *structures, const gal_lone_chain *chain, gal_structure **out,
                              gal_error *err);

/* Fills cost where the axes lie so, until another chain of the blocks is asked for. */
void gal_structures_cost(gal_lone_chain *chain, const gal_durations *durations, const gal_axis_levels *levels);
/* The chain's times at its cost; the update's of one block. */
void gal_structures_measure(gal_structure *structure, const gal_lone_chain *chain, const gal_durations *durations,
                            uint32_t update_block, gal_chain_times *out);
/* Of them what is of the update alone, at a block's cost. */
void gal_structures_update(const gal_lone *lone, const gal_cost *cost, const gal_durations *durations,
                           gal_chain_times *out);
/* Of one with sync_alone. */
double gal_structures_sync_seconds(gal_structure *structure, const gal_lone_chain *chain,
                                   const gal_durations *durations);

#endif
