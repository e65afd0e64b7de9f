/* The types of a model's blocks and of its neighbours, numbered: what tables of prices are indexed by. Blocks of one
 * type differ in nothing but their weights (schemas/model.h), so do pairs of neighbours of equal types. */
#ifndef GAL_PLANNER_BLOCK_TYPES_H
#define GAL_PLANNER_BLOCK_TYPES_H

#include "schemas/model.h"

typedef struct gal_block_types {
    uint32_t block_count, type_count, pair_count;
    uint32_t *type_of;      /* [block] */
    uint32_t *pair_of;      /* [block]: its number with the block before; of block 0 none */
    uint32_t *type_first;   /* [type]: its first block */
    uint32_t *pair_first;   /* [pair]: the later block of the first such pair */
    uint32_t *pair_repeats; /* [pair]: how many there are */
    gal_block_kind *kind;   /* [type] */
    bool alternates;        /* between the ends every block is of the type of the one before the last */
} gal_block_types;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_block_types_create(const gal_model *model, gal_block_types *out, gal_error *err);
void gal_block_types_free(gal_block_types *types);

#endif
