/* Types of blocks that cost alike: what prices are kept by, and tables of them indexed by. */
#ifndef GAL_COSTMODEL_ALIKE_H
#define GAL_COSTMODEL_ALIKE_H

#include "costmodel/duration.h"

/* The first type (gal_block_shape.type) whose blocks have the type's prices under every strategy that is legal for it,
 * on every stage: its own, or of attention one that turns its windows by another shift, where no kernel of windows was
 * ever measured (a profile has one for each shift); of an FFN one in another stack, of as many positions. What begins
 * or ends a chain, bridges and merges are priced by their places: each has its own. property/test_alike.c */
uint32_t gal_price_type_like(const gal_model *model, const gal_durations *durations, uint32_t type);

#endif
