/* Typing rules of the kernels of attention, in the order of schemas/operator.h. */
#include <string.h>

#include "runtime/program/verify/verify_internal.h"
#include "runtime/program/verify/verify_typer.h"

/* Complete features of heads: of so many parts. Where positions are split elsewhere, they were dealt out by them. */
static bool get_heads(gal_typer *t, uint32_t k, const uint64_t part[GAL_FEATURE_PARTS], gal_typed *out)
{
    return gal_type_get_complete(t, k, part[0] + part[1] + part[2], out) &&
           gal_type_holds(
               t, t->in->within == GAL_GROUP_NONE || memcmp(part, out->part, GAL_FEATURE_PARTS * sizeof *part) == 0,
               "its heads were dealt out in other parts");
}

static bool put_heads(gal_typer *t, uint32_t k, gal_typed value, const uint64_t part[GAL_FEATURE_PARTS])
{
    const bool dealt = t->in->within != GAL_GROUP_NONE;
    for (uint32_t i = 0; i < GAL_FEATURE_PARTS; i++) {
        value.part[i] = dealt ? part[i] : 0;
    }
    return gal_type_put_rows(t, k, value, part[0] + part[1] + part[2]);
}

/* Devices of one whose heads lie on those of the instruction: all of them together have the heads of a block. */
static uint64_t head_devices(const gal_typer *t)
{
    return (uint64_t)gal_type_size_of(t, t->in->group) * gal_type_size_of(t, t->in->within);
}

static bool expect_heads(gal_typer *t, const gal_typed *value)
{
    return gal_type_holds(t, value->split == t->in->group, "its heads are split over other devices") &&
           gal_type_expect_layout(t, value->rows, t->shape->dims[0], t->shape->dims[1]);
}

/* Features of a row: of the queries, or of what stands for them; of log-sum-exps; of queries, keys and values, which
 * may be of fewer heads; of keys and values. */
typedef struct parts {
    uint64_t queries[GAL_FEATURE_PARTS], lse[GAL_FEATURE_PARTS], all[GAL_FEATURE_PARTS], keys[GAL_FEATURE_PARTS];
} parts;

static parts parts_of(const uint32_t *d, uint64_t kv_heads)
{
    const uint64_t q = (uint64_t)d[2] * d[3], kv = kv_heads * d[3];
    return (parts){{q}, {d[2]}, {q, kv, kv}, {kv, kv}};
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
    const parts p = parts_of(t->shape->dims, t->shape->dims[4]);
    gal_typed qkv;
    if (get_heads(t, 0, p.all, &qkv) && expect_heads(t, &qkv) && get_lengths(t, 3, t->shape->dims[1]) &&
        put_heads(t, 1, qkv, p.queries)) {
        put_heads(t, 2, qkv, p.lse);
    }
}

/* What the backward of a self-attention reads first: dctx, qkv, ctx, lse. */
static bool get_attended(gal_typer *t, const parts *p, gal_typed *dctx)
{
    gal_typed qkv;
    gal_typed lse;
    return get_heads(t, 0, p->queries, dctx) && expect_heads(t, dctx) && get_heads(t, 1, p->all, &qkv) &&
           gal_type_get_alike(t, 2, dctx) && get_heads(t, 3, p->lse, &lse) &&
           gal_type_holds(t, qkv.rows == dctx->rows && lse.rows == dctx->rows, "operands with different rows") &&
           gal_type_holds(t, qkv.split == dctx->split && lse.split == dctx->split,
                          "operands whose heads are split differently");
}

static void type_attention_backward(gal_typer *t)
{
    const parts p = parts_of(t->shape->dims, t->shape->dims[4]);
    gal_typed dctx;
    if (get_attended(t, &p, &dctx) && get_lengths(t, 5, t->shape->dims[1])) {
        put_heads(t, 4, dctx, p.all);
    }
}

/* A table of relative positions, whole: every device has the columns of all heads. */
static bool get_relative_bias(gal_typer *t, uint32_t k)
{
    const uint32_t *d = t->shape->dims;
    gal_group by_rows;
    gal_group by_columns;
    return gal_type_get_weight(t, k, d[5], d[2] * head_devices(t), &by_rows, &by_columns) &&
           gal_type_holds(t, (by_rows | by_columns) == GAL_GROUP_NONE, "reads a split table as a whole one");
}

static void type_relative_attention(gal_typer *t)
{
    const parts p = parts_of(t->shape->dims, t->shape->dims[2]);
    gal_typed qkv;
    if (get_heads(t, 0, p.all, &qkv) && expect_heads(t, &qkv) && get_relative_bias(t, 1) &&
        get_lengths(t, 4, t->shape->dims[1]) && put_heads(t, 2, qkv, p.queries)) {
        put_heads(t, 3, qkv, p.lse);
    }
}

static void type_relative_attention_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const parts p = parts_of(d, d[2]);
    gal_typed dctx;
    if (get_attended(t, &p, &dctx) && get_relative_bias(t, 4) && get_lengths(t, 7, d[1]) &&
        put_heads(t, 5, dctx, p.all)) {
        /* zeros in the columns of heads that are elsewhere: a part of the sum over those devices too */
        gal_type_put_piece(t, 6, d[5], d[2] * head_devices(t), GAL_GROUP_NONE, GAL_GROUP_NONE,
                           gal_type_owners_of(t, &dctx) | t->in->group | t->in->within);
    }
}

/* A table of the offsets within a window, split by heads over the instruction's group. */
static uint64_t window_columns(const gal_typer *t)
{
    return (uint64_t)t->shape->dims[2] * gal_type_size_of(t, t->in->within);
}

static bool get_window_bias(gal_typer *t, uint32_t k)
{
    const uint64_t offsets = 2 * (uint64_t)t->shape->dims[5] - 1;
    gal_group by_rows;
    gal_group by_columns;
    return gal_type_get_weight(t, k, offsets * offsets, window_columns(t), &by_rows, &by_columns) &&
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
    const parts p = parts_of(t->shape->dims, t->shape->dims[2]);
    gal_typed qkv;
    if (expect_grid(t) && get_heads(t, 0, p.all, &qkv) && expect_heads(t, &qkv) && get_window_bias(t, 1) &&
        put_heads(t, 2, qkv, p.queries)) {
        put_heads(t, 3, qkv, p.lse);
    }
}

static void type_window_attention_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t offsets = 2 * (uint64_t)d[5] - 1;
    const parts p = parts_of(d, d[2]);
    gal_typed dctx;
    if (expect_grid(t) && get_attended(t, &p, &dctx) && get_window_bias(t, 4) && put_heads(t, 5, dctx, p.all)) {
        gal_type_put_piece(t, 6, offsets * offsets, window_columns(t), GAL_GROUP_NONE, t->in->group,
                           gal_type_owners_of(t, &dctx) | t->in->within);
    }
}

/* Keys and values of the same samples and heads, of all positions of the carried tensor. */
static bool get_keys(gal_typer *t, uint32_t k, const gal_typed *queries, gal_typed *out)
{
    const uint32_t *d = t->shape->dims;
    const parts p = parts_of(d, d[2]);
    return get_heads(t, k, p.keys, out) &&
           gal_type_holds(t, out->split == queries->split, "operands whose heads are split differently") &&
           gal_type_expect_layout(t, out->rows, d[0], d[4]);
}

static void type_cross_attention(gal_typer *t)
{
    const parts p = parts_of(t->shape->dims, t->shape->dims[2]);
    gal_typed q;
    gal_typed kv;
    if (get_heads(t, 0, p.queries, &q) && expect_heads(t, &q) && get_keys(t, 1, &q, &kv) &&
        get_lengths(t, 4, t->shape->dims[4]) && put_heads(t, 2, q, p.queries)) {
        put_heads(t, 3, q, p.lse);
    }
}

static void type_cross_attention_backward(gal_typer *t)
{
    const parts p = parts_of(t->shape->dims, t->shape->dims[2]);
    gal_typed dctx;
    gal_typed kv;
    gal_typed lse;
    if (get_heads(t, 0, p.queries, &dctx) && expect_heads(t, &dctx) && gal_type_get_alike(t, 1, &dctx) &&
        get_keys(t, 2, &dctx, &kv) && gal_type_get_alike(t, 3, &dctx) && get_heads(t, 4, p.lse, &lse) &&
        gal_type_holds(t, lse.rows == dctx.rows && lse.split == dctx.split, "operands with different rows") &&
        get_lengths(t, 7, t->shape->dims[4]) && put_heads(t, 5, dctx, p.queries)) {
        put_heads(t, 6, kv, p.keys);
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
