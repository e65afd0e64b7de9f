/* A model's chain of blocks as layers: the unit that a kind is for.
 *
 * A layer is an attention, the cross-attention behind it if there is one, and the FFN; or a block that stands alone: an
 * embedding, a bridge, a merge or a head. Layers of one type cost alike in every place. */
#ifndef GAL_PLANNER_KINDS_LAYERS_H
#define GAL_PLANNER_KINDS_LAYERS_H

#include "costmodel/duration.h"

enum { GAL_LAYER_BLOCKS_MAX = 3, GAL_LAYER_TYPES_MAX = 24 };

/* Blocks of one layer share two strategies at most: that of attention, and that of the FFN. */
typedef enum gal_layer_half { GAL_HALF_ATTENTION, GAL_HALF_FFN, GAL_HALF_COUNT } gal_layer_half;

typedef struct gal_layer_type {
    uint32_t block_count;
    gal_block_shape shape[GAL_LAYER_BLOCKS_MAX]; /* of its first layer */
    gal_layer_half half[GAL_LAYER_BLOCKS_MAX];   /* of a block that stands alone attention */
    uint32_t first_layer;
    bool alone;       /* one block: embedding, bridge, merge or head */
    bool holds_table; /* a block of it holds the token table, which others may hold too */
} gal_layer_type;

typedef struct gal_layers {
    uint32_t layer_count, type_count;
    uint32_t *type_of;     /* [layer] */
    uint32_t *first_block; /* [layer], and the number of blocks behind the last */
    gal_layer_type type[GAL_LAYER_TYPES_MAX];
    bool table_shared; /* several layers hold the token table */
} gal_layers;

/* GAL_NO for a model with more types of layers than GAL_LAYER_TYPES_MAX; GAL_ERR_SYSTEM without memory. */
gal_code gal_layers_create(const gal_model *model, const gal_durations *durations, gal_layers *out, gal_error *err);
void gal_layers_free(gal_layers *layers); /* accepts a zeroed one */

#endif
