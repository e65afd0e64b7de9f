/* A plan as people read it: layers with the strategies of their attention and FFN, equal ones folded.
 *
 * A unit is the embedding, the head, the start of a T5's decoder, a merge of a Swin, or a layer: the attention,
 * cross-attention and FFN that bear one number, as far as one piece of a stage holds them. Where a piece ends inside a
 * layer, both pieces have a unit of it. Equal layers in a row fold to one row, `layers 1-26`; layers that repeat a
 * pattern fold to the rows of its first turn, `layers 1-2, x 12`. Pieces in a row whose units are equal but for their
 * layers' numbers fold to one group. Layers count from 1, within their stack (T5) or level (Swin); pieces count from 0
 * as in the plan. */
#ifndef GAL_PLANNER_ANSWERS_PLAN_ROWS_H
#define GAL_PLANNER_ANSWERS_PLAN_ROWS_H

#include "schemas/plan.h"

typedef enum gal_stack { GAL_STACK_ONLY, GAL_STACK_ENCODER, GAL_STACK_DECODER } gal_stack;

typedef enum gal_plan_part { GAL_PART_ATTENTION, GAL_PART_CROSS_ATTENTION, GAL_PART_FFN, GAL_PART_COUNT } gal_plan_part;

typedef struct gal_plan_row {
    gal_block_kind kind; /* GAL_BLOCK_ATTENTION: layers */
    gal_stack stack;
    uint32_t level;                               /* of a Swin, from 1; else 0 */
    uint32_t first_layer, last_layer;             /* of the first turn; 0 where the row is no layers */
    uint32_t repeat;                              /* turns; 1: no pattern */
    uint32_t period;                              /* layers of a turn; 0 with one turn */
    const gal_strategy *strategy[GAL_PART_COUNT]; /* into the plan; of layers, NULL: the piece has no such block of
                                                   * them. Else the first alone */
} gal_plan_row;

/* Pieces piece, piece + 1, ... piece + piece_count - 1, equal but for the layers' numbers: each has shift more than the
 * one before. The rows are those of the first. */
typedef struct gal_plan_group {
    uint32_t piece, piece_count;
    uint32_t shift; /* 0 with one piece */
    uint32_t first_row, row_count;
} gal_plan_group;

typedef struct gal_plan_rows {
    uint32_t group_count, row_count;
    gal_plan_group *group; /* owned */
    gal_plan_row *row;     /* owned; in the order of the chain */
} gal_plan_rows;

/* The plan must outlive them. GAL_ERR_SYSTEM without memory. */
gal_code gal_plan_rows_find(const gal_plan *plan, gal_plan_rows *out, gal_error *err);
void gal_plan_rows_free(gal_plan_rows *rows);

/* The one strategy of all blocks of a row; NULL if they differ. */
const gal_strategy *gal_plan_row_strategy(const gal_plan_row *row);
/* Likewise of all rows of a group. */
const gal_strategy *gal_plan_group_strategy(const gal_plan_rows *rows, const gal_plan_group *group);

/* Whether it is no layer, or a layer with all its blocks: no piece ends inside it. */
bool gal_plan_row_is_whole(const gal_plan_row *row);
extern const char *const gal_plan_part_names[GAL_PART_COUNT];

enum { GAL_PLAN_ROW_NAME_BYTES = 160 };
/* "embedding", "layer 3", "decoder layers 1-6", "level 2 layers 1-2", "merge 1", "head"; with a pattern "layers 1, 3
 * ... 23 (x 12)"; of a layer that goes on in the next piece "layer 3 attention". */
const char *gal_plan_row_name(const gal_plan_row *row, char *buffer);

#endif
