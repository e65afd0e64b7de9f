/* Typing rules of the kernels of attention, in the order of schemas/operator.h. */
#include "runtime/program/verify_internal.h"
#include "runtime/program/verify_typer.h"

static bool expect_heads(gal_typer *t, const gal_typed *value)
{
    return gal_type_holds(t, value->split == t->in->group, "its heads are split over other devices") &&
           gal_type_expect_layout(t, value->rows, t->shape->dims[0], t->shape->dims[1]);
}

/* Queries, keys and values of a row. */
static uint64_t qkv_features(const uint32_t *d)
{
    return ((uint64_t)d[2] + 2 * (uint64_t)d[4]) * d[3];
}

static void type_rotary(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed qkv;
    if (gal_type_get_complete(t, 0, d[4], &qkv) && expect_heads(t, &qkv) &&
        gal_type_holds(t, (uint64_t)d[2] * d[3] <= d[4], "turns more features than a row has")) {
        gal_type_put_rows(t, 0, qkv, d[4]);
    }
}

/* Operand k, where there is one: of the same samples, for so many keys. */
static bool get_lengths(gal_typer *t, uint32_t k, uint32_t keys)
{
    gal_typed lengths;
    return t->in->operand_count == k ||
           (gal_type_get_kind(t, k, GAL_VALUE_LENGTHS, &lengths) &&
            gal_type_holds(t, lengths.features == keys, "reads the lengths of another sequence") &&
            gal_type_expect_layout(t, lengths.rows, t->shape->dims[0], 1));
}

static void type_attention(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed qkv;
    if (gal_type_get_complete(t, 0, qkv_features(d), &qkv) && expect_heads(t, &qkv) && get_lengths(t, 3, d[1]) &&
        gal_type_put_rows(t, 1, qkv, (uint64_t)d[2] * d[3])) {
        gal_type_put_rows(t, 2, qkv, d[2]);
    }
}

static void type_attention_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dctx;
    gal_typed qkv;
    gal_typed lse;
    if (gal_type_get_complete(t, 0, (uint64_t)d[2] * d[3], &dctx) && expect_heads(t, &dctx) &&
        gal_type_get_complete(t, 1, qkv_features(d), &qkv) && gal_type_get_alike(t, 2, &dctx) &&
        gal_type_get_complete(t, 3, d[2], &lse) &&
        gal_type_holds(t, qkv.rows == dctx.rows && lse.rows == dctx.rows, "operands with different rows") &&
        gal_type_holds(t, qkv.split == dctx.split && lse.split == dctx.split,
                       "operands whose heads are split differently") &&
        get_lengths(t, 5, d[1])) {
        gal_type_put_rows(t, 4, dctx, qkv_features(d));
    }
}

/* A table of relative positions, whole: every device has the columns of all heads. */
static bool get_relative_bias(gal_typer *t, uint32_t k)
{
    const uint32_t *d = t->shape->dims;
    gal_group by_rows;
    gal_group by_columns;
    return gal_type_get_weight(t, k, d[5], (uint64_t)d[2] * gal_type_size_of(t, t->in->group), &by_rows, &by_columns) &&
           gal_type_holds(t, (by_rows | by_columns) == GAL_GROUP_NONE, "reads a split table as a whole one");
}

static void type_relative_attention(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t features = (uint64_t)d[2] * d[3];
    gal_typed qkv;
    if (gal_type_get_complete(t, 0, 3 * features, &qkv) && expect_heads(t, &qkv) && get_relative_bias(t, 1) &&
        get_lengths(t, 4, d[1]) && gal_type_put_rows(t, 2, qkv, features)) {
        gal_type_put_rows(t, 3, qkv, d[2]);
    }
}

/* What the backward of an attention with a table reads in front of it: dctx, qkv, ctx, lse. */
static bool get_attended(gal_typer *t, gal_typed *dctx)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t features = (uint64_t)d[2] * d[3];
    gal_typed qkv;
    gal_typed lse;
    return gal_type_get_complete(t, 0, features, dctx) && expect_heads(t, dctx) &&
           gal_type_get_complete(t, 1, 3 * features, &qkv) && gal_type_get_alike(t, 2, dctx) &&
           gal_type_get_complete(t, 3, d[2], &lse) &&
           gal_type_holds(t, qkv.rows == dctx->rows && lse.rows == dctx->rows, "operands with different rows") &&
           gal_type_holds(t, qkv.split == dctx->split && lse.split == dctx->split,
                          "operands whose heads are split differently");
}

static void type_relative_attention_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dctx;
    if (get_attended(t, &dctx) && get_relative_bias(t, 4) && get_lengths(t, 7, d[1]) &&
        gal_type_put_rows(t, 5, dctx, 3 * (uint64_t)d[2] * d[3])) {
        /* zeros in the columns of heads that are elsewhere: a part of the sum over those devices too */
        gal_type_put_piece(t, 6, d[5], (uint64_t)d[2] * gal_type_size_of(t, t->in->group), GAL_GROUP_NONE,
                           GAL_GROUP_NONE, gal_type_owners_of(t, &dctx) | t->in->group);
    }
}

/* A table of the offsets within a window, split by heads. */
static bool get_window_bias(gal_typer *t, uint32_t k)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t offsets = 2 * (uint64_t)d[5] - 1;
    gal_group by_rows;
    gal_group by_columns;
    return gal_type_get_weight(t, k, offsets * offsets, d[2], &by_rows, &by_columns) &&
           gal_type_holds(t, by_rows == GAL_GROUP_NONE && by_columns == t->in->group,
                          "its table is split over other devices");
}

static bool expect_grid(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    return gal_type_holds(t, (uint64_t)d[4] * d[4] == d[1] && d[5] > 0 && d[4] % d[5] == 0 && d[6] < d[4],
                          "its windows do not divide the grid");
}

static void type_window_attention(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t features = (uint64_t)d[2] * d[3];
    gal_typed qkv;
    if (expect_grid(t) && gal_type_get_complete(t, 0, 3 * features, &qkv) && expect_heads(t, &qkv) &&
        get_window_bias(t, 1) && gal_type_put_rows(t, 2, qkv, features)) {
        gal_type_put_rows(t, 3, qkv, d[2]);
    }
}

static void type_window_attention_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t offsets = 2 * (uint64_t)d[5] - 1;
    gal_typed dctx;
    if (expect_grid(t) && get_attended(t, &dctx) && get_window_bias(t, 4) &&
        gal_type_put_rows(t, 5, dctx, 3 * (uint64_t)d[2] * d[3])) {
        gal_type_put_piece(t, 6, offsets * offsets, d[2], GAL_GROUP_NONE, t->in->group, gal_type_owners_of(t, &dctx));
    }
}

/* Keys and values of the same samples and heads, of all positions of the carried tensor. */
static bool get_keys(gal_typer *t, uint32_t k, const gal_typed *queries, gal_typed *out)
{
    const uint32_t *d = t->shape->dims;
    return gal_type_get_complete(t, k, 2 * (uint64_t)d[2] * d[3], out) &&
           gal_type_holds(t, out->split == queries->split, "operands whose heads are split differently") &&
           gal_type_expect_layout(t, out->rows, d[0], d[4]);
}

static void type_cross_attention(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t features = (uint64_t)d[2] * d[3];
    gal_typed q;
    gal_typed kv;
    if (gal_type_get_complete(t, 0, features, &q) && expect_heads(t, &q) && get_keys(t, 1, &q, &kv) &&
        get_lengths(t, 4, d[4]) && gal_type_put_rows(t, 2, q, features)) {
        gal_type_put_rows(t, 3, q, d[2]);
    }
}

static void type_cross_attention_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t features = (uint64_t)d[2] * d[3];
    gal_typed dctx;
    gal_typed kv;
    gal_typed lse;
    if (gal_type_get_complete(t, 0, features, &dctx) && expect_heads(t, &dctx) && gal_type_get_alike(t, 1, &dctx) &&
        get_keys(t, 2, &dctx, &kv) && gal_type_get_alike(t, 3, &dctx) && gal_type_get_complete(t, 4, d[2], &lse) &&
        gal_type_holds(t, lse.rows == dctx.rows && lse.split == dctx.split, "operands with different rows") &&
        get_lengths(t, 7, d[4]) && gal_type_put_rows(t, 5, dctx, features)) {
        gal_type_put_rows(t, 6, kv, 2 * features);
    }
}

const gal_typing_rule gal_type_attention_rules[GAL_OP_COUNT] = {
    [GAL_OP_ROTARY] = {type_rotary, 1, 1},
    [GAL_OP_ATTENTION] = {type_attention, 3, 4},
    [GAL_OP_ATTENTION_BACKWARD] = {type_attention_backward, 5, 6},
    [GAL_OP_RELATIVE_ATTENTION] = {type_relative_attention, 4, 5},
    [GAL_OP_RELATIVE_ATTENTION_BACKWARD] = {type_relative_attention_backward, 7, 8},
    [GAL_OP_WINDOW_ATTENTION] = {type_window_attention, 4, 4},
    [GAL_OP_WINDOW_ATTENTION_BACKWARD] = {type_window_attention_backward, 7, 7},
    [GAL_OP_CROSS_ATTENTION] = {type_cross_attention, 4, 5},
    [GAL_OP_CROSS_ATTENTION_BACKWARD] = {type_cross_attention_backward, 7, 8},
};
