/* The types of a model's blocks and of its neighbours, numbered: what tables of prices are indexed by. Blocks of one
 * type have the same prices, so do pairs of neighbours of equal types: the types of schemas/model.h, those that cost
 * alike (costmodel/alike.h) taken together, cut by whether the carried tensor enters and leaves. */
#ifndef GAL_PLANNER_SPACE_BLOCK_TYPES_H
#define GAL_PLANNER_SPACE_BLOCK_TYPES_H

#include "costmodel/alike.h"

enum { GAL_SIDE_EVEN = 1, GAL_SIDE_ODD = 2 };

typedef struct gal_block_types {
    uint32_t block_count, type_count, pair_count, flow_count;
    uint32_t *type_of;      /* [block] */
    uint32_t *pair_of;      /* [block]: its number with the block before; of block 0 none */
    uint32_t *type_first;   /* [type]: its first block */
    uint32_t *type_sides;   /* [type]: GAL_SIDE_EVEN, GAL_SIDE_ODD or both: where its blocks lie in the chain */
    uint32_t *type_like;    /* [type]: the first one that costs alike, whatever is carried past it */
    uint32_t *pair_first;   /* [pair]: the later block of the first such pair */
    uint32_t *pair_repeats; /* [pair]: how many there are */
    uint32_t *pair_flow;    /* [pair]: number of the rows between them */
    gal_flow *flow;         /* [flow]: rows of different sizes */
    uint32_t carried_flow;  /* that of the carried tensor, which has the size of the encoder's rows */
    gal_block_shape *shape; /* [type]: of its first block; its own type is that of the model */
    bool table_shared;      /* several blocks hold the token table */
    bool alternates;        /* between the ends every block is of the type of the one before the last */
} gal_block_types;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_block_types_create(const gal_model *model, const gal_durations *durations, gal_block_types *out,
                                gal_error *err);
void gal_block_types_free(gal_block_types *types);

#endif
