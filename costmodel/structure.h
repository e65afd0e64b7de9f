/* Chains of blocks whose queues are laid out once for all block programs of equal lists. For costmodel alone.
 *
 * Order and waits depend on the lists of instructions alone: kind of block, whether it is split over TP, by sequence,
 * by which ZeRO stage, over DP, what runs again; not on degrees, samples or links (notes/program.md section 5). So a
 * few dozen structures serve all strategies, and a price is: the costs of one block's instructions, put into the steps
 * of its structure, and the simulation of these. */
#ifndef GAL_COSTMODEL_STRUCTURE_H
#define GAL_COSTMODEL_STRUCTURE_H

#include "costmodel/chain.h"
#include "costmodel/lone.h"

typedef struct gal_structures gal_structures;
typedef struct gal_structure gal_structure;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_structures_create(const gal_model *model, gal_structures **out, gal_error *err);
void gal_structures_free(gal_structures *structures); /* accepts NULL */

/* A block alone, its lists classified, placed, its memory read. The caller frees it. */
gal_code gal_structures_lone(gal_structures *structures, const gal_price_query *query, gal_lone **out, gal_error *err);

/* The structure of a chain of such blocks, which convert no layouts between them; owned by the structures. spec: where
 * to lower it, if it is new. */
gal_code gal_structures_chain(gal_structures *structures, const gal_chain_spec *spec, gal_lone *const lone[],
                              gal_structure **out, gal_error *err);

/* The chain's times with the present costs of its blocks (gal_lone_renew). */
void gal_structure_measure(gal_structure *structure, gal_lone *const lone[], const gal_slowdowns *slowdowns,
                           gal_chain_times *out);

#endif
