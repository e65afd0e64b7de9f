#include "tests/support/grid_mistakes.h"

/* Short names of the atoms, as mistakes are many. */
enum { ROW = GAL_GRID_ROW, COLUMN = GAL_GRID_COLUMN, DEPTH = GAL_GRID_DEPTH, ALL = GAL_GRID_ALL };

typedef gal_mistake_place place;

static bool swaps_group(const place *at)
{
    at->in->group = at->in->group == ROW ? COLUMN : ROW;
    return true;
}

static bool adds_to_group(const place *at)
{
    const bool grows = at->in->group != ALL;
    at->in->group = ALL;
    return grows;
}

/* Along the next side of a cube, or the one before. */
static bool turns_group(const place *at)
{
    const gal_group was = at->in->group;
    at->in->group = (was << 1 & ALL) | was >> 2;
    return was != GAL_GROUP_NONE && was < ALL;
}

static bool turns_group_back(const place *at)
{
    return turns_group(at) && turns_group(at);
}

static bool has_other_root(const place *at)
{
    at->shape->dims[1] = 1 - at->shape->dims[1];
    return true;
}

/* The first of the sums is not the first, or the last one forgets those before. */
static bool forgets_others(const place *at)
{
    at->operand[1].access = at->operand[1].access == GAL_WRITE ? GAL_UPDATE : GAL_WRITE;
    return true;
}

static bool loses_row(const place *at)
{
    const bool has = (at->in->group & ROW) != 0;
    at->in->group &= ~(gal_group)ROW;
    return has;
}

/* Where several tensors are gathered to one matrix, or scattered from one: the place of the first. */
static bool takes_first_place(const place *at, uint32_t k)
{
    const bool other = at->operand[k].offset_bytes > 0;
    at->operand[k].offset_bytes = 0;
    return other;
}

static bool gathers_first_tensor(const place *at)
{
    return takes_first_place(at, 0);
}

static bool gathers_to_first_place(const place *at)
{
    return takes_first_place(at, 1);
}

static bool loses_depth(const place *at)
{
    const bool has = (at->in->group & DEPTH) != 0;
    at->in->group &= ~(gal_group)DEPTH;
    return has;
}

static bool loses_column(const place *at)
{
    const bool has = (at->in->group & COLUMN) != 0;
    at->in->group &= ~(gal_group)COLUMN;
    return has;
}

static bool forgets_group(const place *at)
{
    const bool had = at->in->group != GAL_GROUP_NONE;
    at->in->group = GAL_GROUP_NONE;
    return had;
}

/* The other part of a panel: of two, one more or one less. */
static bool takes_other_part(const place *at, uint32_t k)
{
    gal_operand *o = &at->operand[k];
    const gal_buffer *buffer = &at->program->buffer[o->buffer];
    if (buffer->bytes < 2 * o->bytes || o->offset_bytes % o->bytes != 0 || o->offset_bytes > o->bytes) {
        return false;
    }
    o->offset_bytes = o->bytes - o->offset_bytes;
    return true;
}

static bool is_over_rows(const place *at)
{
    return (at->shape->dims[3] & GAL_GEMM_TRANSPOSE_A) != 0;
}

static bool is_panel(const place *at, uint32_t k)
{
    return at->program->buffer[at->operand[k].buffer].bytes == 2 * at->operand[k].bytes;
}

/* Of weights; the ring may be larger than the panel. */
static bool takes_other_weights(const place *at)
{
    return !is_over_rows(at) && at->program->buffer[at->operand[1].buffer].class == GAL_CLASS_GATHERED &&
           takes_other_part(at, 1);
}

static bool takes_other_inputs(const place *at)
{
    return is_panel(at, 0) && takes_other_part(at, 0);
}

static bool takes_other_factor(const place *at)
{
    return is_over_rows(at) && is_panel(at, 1) && takes_other_part(at, 1);
}

static bool writes_other_part(const place *at)
{
    return (is_over_rows(at) || is_panel(at, 2)) && takes_other_part(at, 2);
}

/* The first term of a sum is lost, or what was there before stays. */
static bool begins_again(const place *at)
{
    const bool adds = at->operand[2].access == GAL_UPDATE;
    at->operand[2].access = adds ? GAL_WRITE : GAL_UPDATE;
    return !is_over_rows(at);
}

static bool has_other_parts(const place *at)
{
    at->shape->dims[2] *= 2;
    return true;
}

static bool has_other_first_dim(const place *at)
{
    at->shape->dims[0] *= 2;
    return true;
}

static bool loads_other_rows(const place *at)
{
    for (uint32_t i = 1; i < at->program->layout_count; i++) {
        if (i != at->in->layout) {
            at->in->layout = (uint16_t)i;
            return true;
        }
    }
    return false;
}

static bool cuts_over_others(const place *at)
{
    const bool cuts = at->operand[0].view != GAL_GROUP_NONE;
    at->operand[0].view = at->operand[0].view == ROW ? COLUMN : ROW;
    return cuts;
}

static bool cuts_along_outputs(const place *at)
{
    at->operand[0].view = DEPTH;
    return true;
}

static bool cuts_closer(const place *at)
{
    at->operand[0].view_stride_bytes /= 2;
    return true;
}

static bool joins_in_other_order(const place *at)
{
    uint32_t *count = at->shape->dims + 1, *stride = at->shape->dims + 6;
    const uint32_t parts = count[4], rows = count[3];
    if (at->operand[0].view != GAL_GROUP_NONE || parts != 2 || stride[4] != rows) {
        return false;
    }
    count[3] = parts; /* part by part, as they were delivered */
    count[4] = rows;
    stride[3] = rows;
    stride[4] = 1;
    return true;
}

static const gal_mistake rows_2p5d[] = {
    {"rows of X gathered along the column", "gather a", GAL_OP_ALL_GATHER, swaps_group},
    {"X gathered over all", "gather a", GAL_OP_ALL_GATHER, adds_to_group},
    {"weights gathered along the row", "gather w", GAL_OP_ALL_GATHER, swaps_group},
    {"weights gathered over all", "gather w", GAL_OP_ALL_GATHER, adds_to_group},
    {"dX scattered along the column", "scatter da", GAL_OP_REDUCE_SCATTER, swaps_group},
    {"dW scattered along the row", "scatter dw", GAL_OP_REDUCE_SCATTER, swaps_group},
    {"logits scattered along the column", "scatter y", GAL_OP_REDUCE_SCATTER, swaps_group},
    {"gradients of logits gathered along the column", "gather dy", GAL_OP_ALL_GATHER, swaps_group},
    {"another part of the weights", NULL, GAL_OP_GEMM, takes_other_weights},
    {"another part of the inputs", NULL, GAL_OP_GEMM, takes_other_inputs},
    {"another part of a gradient", NULL, GAL_OP_GEMM, takes_other_factor},
    {"a part written elsewhere", NULL, GAL_OP_GEMM, writes_other_part},
    {"a sum begun again, or never", NULL, GAL_OP_GEMM, begins_again},
    {"depth left out of a sum of gradients", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
    {"the column left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_column},
    {"a gradient summed over all", "reduce dw", GAL_OP_ALL_REDUCE, adds_to_group},
    {"moments gathered along the column", "gather moments", GAL_OP_ALL_GATHER, swaps_group},
    {"sums of a norm over the column", "reduce sums", GAL_OP_ALL_REDUCE, swaps_group},
    {"a norm of another number of parts", NULL, GAL_OP_NORM_BY_SUMS, has_other_parts},
    {"its backward of another number of parts", NULL, GAL_OP_NORM_BY_SUMS_BACKWARD, has_other_parts},
    {"the largest logits of the column", "reduce max", GAL_OP_ALL_REDUCE, swaps_group},
    {"a row's features taken for whole ones", NULL, GAL_OP_RESIDUAL, forgets_group},
    {"a mask of other features", NULL, GAL_OP_DROPOUT, swaps_group},
    {"positions of other features", NULL, GAL_OP_POSITION, swaps_group},
    {"heads of the column", NULL, GAL_OP_ATTENTION, swaps_group},
    {"a relative bias of other heads", NULL, GAL_OP_RELATIVE_ATTENTION, swaps_group},
    {"windows of other heads", NULL, GAL_OP_WINDOW_ATTENTION, swaps_group},
    {"heads of the column, of two stacks", NULL, GAL_OP_CROSS_ATTENTION, swaps_group},
    {"a look-up in a part of the vocabulary", NULL, GAL_OP_EMBED, swaps_group},
    {"replicas of the loss", NULL, GAL_OP_NORM_START, has_other_first_dim},
    {"labels of other samples", NULL, GAL_OP_LOAD_TARGETS, loads_other_rows},
    {"features gathered along the column", "gather x", GAL_OP_ALL_GATHER, swaps_group},
    {"features cut over others", "slice", GAL_OP_PERMUTE, cuts_over_others},
    {"parts of rows joined in another order", "permute", GAL_OP_PERMUTE, joins_in_other_order},
};

static const gal_mistake rows_stepped[] = {
    {"X spread along the column", "spread a", GAL_OP_BROADCAST, swaps_group},
    {"X spread over all", "spread a", GAL_OP_BROADCAST, adds_to_group},
    {"another device's X", "spread a", GAL_OP_BROADCAST, has_other_root},
    {"weights spread along the row", "spread w", GAL_OP_BROADCAST, swaps_group},
    {"another device's weights", "spread w", GAL_OP_BROADCAST, has_other_root},
    {"dX summed along the column", "sum da", GAL_OP_REDUCE, swaps_group},
    {"dX summed to another device", "sum da", GAL_OP_REDUCE, has_other_root},
    {"dX of the last device alone", "sum da", GAL_OP_REDUCE, forgets_others},
    {"dW summed along the row", "sum dw", GAL_OP_REDUCE, swaps_group},
    {"dW summed over the depth too", "sum dw", GAL_OP_REDUCE, adds_to_group},
    {"dW summed to another device", "sum dw", GAL_OP_REDUCE, has_other_root},
    {"dW of the last device alone", "sum dw", GAL_OP_REDUCE, forgets_others},
    {"logits summed along the column", "sum y", GAL_OP_REDUCE, swaps_group},
    {"logits summed to another device", "sum y", GAL_OP_REDUCE, has_other_root},
    {"gradients of logits of another device", "spread dy", GAL_OP_BROADCAST, has_other_root},
    {"a sum begun again, or never", NULL, GAL_OP_GEMM, begins_again},
    {"depth left out of a sum of gradients", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
};

static const gal_mistake rows_3d[] = {
    {"rows of X gathered along the outputs", "gather a", GAL_OP_ALL_GATHER, turns_group},
    {"rows of X gathered along the weights", "gather a", GAL_OP_ALL_GATHER, turns_group_back},
    {"X gathered over all", "gather a", GAL_OP_ALL_GATHER, adds_to_group},
    {"weights gathered along the inputs", "gather w", GAL_OP_ALL_GATHER, turns_group},
    {"weights gathered along the outputs", "gather w", GAL_OP_ALL_GATHER, turns_group_back},
    {"keys or values gathered from queries", "gather w", GAL_OP_ALL_GATHER, gathers_first_tensor},
    {"keys or values gathered upon queries", "gather w", GAL_OP_ALL_GATHER, gathers_to_first_place},
    {"sums scattered along the weights", "scatter y", GAL_OP_REDUCE_SCATTER, turns_group},
    {"sums scattered along the inputs", "scatter y", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"dY gathered along the weights", "gather dy", GAL_OP_ALL_GATHER, turns_group},
    {"dY gathered along the inputs", "gather dy", GAL_OP_ALL_GATHER, turns_group_back},
    {"dX scattered along the outputs", "scatter da", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dX scattered along the weights", "scatter da", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"dW scattered along the inputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dW scattered along the outputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"gradients of keys or values from queries", "scatter dw", GAL_OP_REDUCE_SCATTER, gathers_first_tensor},
    {"weights left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_row},
    {"inputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_column},
    {"outputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
    {"a gradient summed over all", "reduce dw", GAL_OP_ALL_REDUCE, adds_to_group},
    {"a gradient summed along other sides", "reduce dw", GAL_OP_ALL_REDUCE, turns_group},
    {"moments gathered along the weights", "gather moments", GAL_OP_ALL_GATHER, turns_group},
    {"moments gathered along the inputs", "gather moments", GAL_OP_ALL_GATHER, turns_group_back},
    {"sums of a norm over the weights", "reduce sums", GAL_OP_ALL_REDUCE, turns_group},
    {"a norm of another number of parts", NULL, GAL_OP_NORM_BY_SUMS, has_other_parts},
    {"the largest logits of the outputs", "reduce max", GAL_OP_ALL_REDUCE, turns_group},
    {"the largest logits of the weights", "reduce max", GAL_OP_ALL_REDUCE, turns_group_back},
    {"a product that adds to what is there, or begins", NULL, GAL_OP_GEMM, begins_again},
    {"a row's features taken for whole ones", NULL, GAL_OP_RESIDUAL, forgets_group},
    {"a mask of other features", NULL, GAL_OP_DROPOUT, turns_group},
    {"a mask of other samples", NULL, GAL_OP_DROPOUT, loads_other_rows},
    {"positions of other features", NULL, GAL_OP_POSITION, turns_group},
    {"heads of the outputs", NULL, GAL_OP_ATTENTION, turns_group},
    {"attention to rows that are not turned", NULL, GAL_OP_ATTENTION, loads_other_rows},
    {"a relative bias of other heads", NULL, GAL_OP_RELATIVE_ATTENTION, turns_group},
    {"windows of other heads", NULL, GAL_OP_WINDOW_ATTENTION, turns_group},
    {"windows of rows that are not turned", NULL, GAL_OP_WINDOW_ATTENTION, loads_other_rows},
    {"heads of the outputs, of two stacks", NULL, GAL_OP_CROSS_ATTENTION, turns_group},
    {"two stacks of rows that are not turned", NULL, GAL_OP_CROSS_ATTENTION, loads_other_rows},
    {"neighbours of turned rows merged", NULL, GAL_OP_MERGE, loads_other_rows},
    {"queries turned by other positions", NULL, GAL_OP_ROTARY, loads_other_rows},
    {"a look-up in a part of the vocabulary", NULL, GAL_OP_EMBED, swaps_group},
    {"tokens of other samples", NULL, GAL_OP_LOAD_TOKENS, loads_other_rows},
    {"tokens of the target of other samples", NULL, GAL_OP_LOAD_DECODER_TOKENS, loads_other_rows},
    {"labels of rows that are not turned", NULL, GAL_OP_LOAD_TARGETS, loads_other_rows},
    {"rows to be turned gathered along the outputs", "gather turned", GAL_OP_ALL_GATHER, turns_group},
    {"rows to be turned gathered along the weights", "gather turned", GAL_OP_ALL_GATHER, turns_group_back},
    {"exchanged along the weights", "exchange turned", GAL_OP_ALL_TO_ALL, turns_group},
    {"exchanged along the inputs", "exchange turned", GAL_OP_ALL_TO_ALL, turns_group_back},
    {"the part of another side taken", "turn", GAL_OP_PERMUTE, cuts_along_outputs},
    {"half of a part taken", "turn", GAL_OP_PERMUTE, cuts_closer},
    {"replicas of the loss", NULL, GAL_OP_NORM_START, has_other_first_dim},
    {"features gathered along the weights", "gather x", GAL_OP_ALL_GATHER, turns_group},
    {"features cut over others", "slice", GAL_OP_PERMUTE, cuts_over_others},
    {"parts of rows joined in another order", "permute", GAL_OP_PERMUTE, joins_in_other_order},
};

static const gal_mistake rows_3d_kept[] = {
    {"dW scattered along the inputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dW scattered along the outputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"dW scattered over all", "scatter dw", GAL_OP_REDUCE_SCATTER, adds_to_group},
    {"updated weights gathered along the inputs", "gather w", GAL_OP_ALL_GATHER, turns_group},
    {"updated weights gathered along the outputs", "gather w", GAL_OP_ALL_GATHER, turns_group_back},
    {"updated weights gathered over all", "gather w", GAL_OP_ALL_GATHER, adds_to_group},
    {"rows of X gathered along the weights", "gather a", GAL_OP_ALL_GATHER, turns_group_back},
    {"sums scattered along the weights", "scatter y", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dY gathered along the weights", "gather dy", GAL_OP_ALL_GATHER, turns_group},
    {"dX scattered along the weights", "scatter da", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"weights left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_row},
    {"inputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_column},
    {"outputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
    {"a gradient summed over all", "reduce dw", GAL_OP_ALL_REDUCE, adds_to_group},
};

#define COUNT_OF(rows) (sizeof(rows) / sizeof(rows)[0])
const gal_mistakes gal_mistakes_2p5d = {COUNT_OF(rows_2p5d), rows_2p5d};
const gal_mistakes gal_mistakes_stepped = {COUNT_OF(rows_stepped), rows_stepped};
const gal_mistakes gal_mistakes_3d = {COUNT_OF(rows_3d), rows_3d};
const gal_mistakes gal_mistakes_3d_kept = {COUNT_OF(rows_3d_kept), rows_3d_kept};
_Static_assert(COUNT_OF(rows_2p5d) <= GAL_MISTAKES_MAX, "more mistakes than a set may have");
_Static_assert(COUNT_OF(rows_stepped) <= GAL_MISTAKES_MAX, "more mistakes than a set may have");
_Static_assert(COUNT_OF(rows_3d) <= GAL_MISTAKES_MAX, "more mistakes than a set may have");
_Static_assert(COUNT_OF(rows_3d_kept) <= GAL_MISTAKES_MAX, "more mistakes than a set may have");
