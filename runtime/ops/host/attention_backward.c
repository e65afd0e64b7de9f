/* Causal attention, backward: probabilities are computed again from the scores and the saved log-sum-exp.
 * With mask M (0 or the keep scale), P the probabilities and O = (P M) V:
 *   dV = (P M)^T dO     D = rowsum(dO O) = rowsum(P M dO V^T)     dS = P (M dO V^T - D)     dQ = c dS K, dK = c dS^T Q
 * c the scale. dQ, dK and dV build up in the output, tile of queries by tile of queries. */
#include "runtime/ops/host/attention.h"

enum { TILE = GAL_ATTENTION_TILE };

typedef struct backward_tiles {
    gal_real probability[TILE * TILE];
    gal_real slope[TILE * TILE]; /* dO V^T, then c dS */
    gal_real factor[TILE];       /* dropout factors of a row */
} backward_tiles;

/* One row of a tile: scores -> P M, dO V^T -> c dS; `count` keys are seen, the rest get 0. */
GAL_VECTOR
static void differentiate_row(gal_real *probability, gal_real *slope, const gal_real *factor, gal_real lse,
                              gal_real dot, gal_real scale, size_t count, size_t keys)
{
    for (size_t j = 0; j < count; j++) {
        const gal_real difference = probability[j] - lse;
        const gal_real p = gal_exp_nonpositive(difference);
        slope[j] = p * (factor[j] * slope[j] - dot) * scale;
        probability[j] = p * factor[j];
    }
    for (size_t j = count; j < keys; j++) {
        slope[j] = 0;
        probability[j] = 0;
    }
}

GAL_VECTOR
static void row_dots(const gal_real *dctx, const gal_real *ctx, size_t stride, size_t rows, size_t dim, gal_real *dot)
{
    for (size_t i = 0; i < rows; i++) {
        dot[i] = (gal_real)gal_row_dot(dctx + i * stride, ctx + i * stride, dim);
    }
}

/* dctx, ctx, lse, dqkv at position 0 of this head. */
typedef struct head_operands {
    const gal_real *dctx, *ctx, *lse;
    gal_real *dq, *dk, *dv;
} head_operands;

/* dot  D of the tile's queries */
static void backward_tile(const gal_attention_head *at, const head_operands *to, const gal_real *dot, size_t query,
                          size_t key)
{
    backward_tiles tiles;
    const size_t rows = gal_attention_span(query, at->sequence);
    const size_t keys = gal_attention_span(key, at->sequence);
    const gal_real *q = at->q + query * at->stride;
    const gal_real *k = at->k + key * at->stride;
    const gal_real *dctx = to->dctx + query * at->ctx_stride;
    gal_attention_scores(q, at->stride, k, at->stride, rows, keys, at->dim, at->scale, tiles.probability);
    gal_attention_scores(dctx, at->ctx_stride, at->v + key * at->stride, at->stride, rows, keys, at->dim, (gal_real)1,
                         tiles.slope);
    for (size_t j = 0; j < TILE; j++) {
        tiles.factor[j] = 1;
    }
    for (size_t i = 0; i < rows; i++) {
        const size_t seen = query + i - key + 1, count = seen < keys ? seen : keys;
        if (at->dropout.active) {
            gal_dropout_factors(&at->dropout, at->dropout_index + (query + i) * at->dropout_stride + key, count,
                                tiles.factor);
        }
        differentiate_row(tiles.probability + i * TILE, tiles.slope + i * TILE, tiles.factor, to->lse[query + i],
                          dot[i], at->scale, count, keys);
    }
    const bool add = query > key; /* the diagonal tile is the first of its keys */
    gal_attention_product(CblasTrans, tiles.probability, dctx, at->ctx_stride, keys, at->dim, rows, add,
                          to->dv + key * at->stride, at->stride);
    gal_attention_product(CblasTrans, tiles.slope, q, at->stride, keys, at->dim, rows, add, to->dk + key * at->stride,
                          at->stride);
    gal_attention_product(CblasNoTrans, tiles.slope, k, at->stride, rows, at->dim, keys, key > 0,
                          to->dq + query * at->stride, at->stride);
}

static void backward_head(const gal_kernel_call *call, size_t sample, size_t head)
{
    const gal_attention_head at = gal_attention_head_of(call, call->operand[1], sample, head);
    gal_real *dqkv = (gal_real *)call->operand[4] + at.qkv_offset;
    const head_operands to = {
        .dctx = (const gal_real *)call->operand[0] + at.ctx_offset,
        .ctx = (const gal_real *)call->operand[2] + at.ctx_offset,
        .lse = (const gal_real *)call->operand[3] + at.lse_offset,
        .dq = dqkv,
        .dk = dqkv + at.width,
        .dv = dqkv + 2 * at.width,
    };
    for (size_t query = 0; query < at.sequence; query += TILE) {
        const size_t offset = query * at.ctx_stride;
        gal_real dot[TILE];
        row_dots(to.dctx + offset, to.ctx + offset, at.ctx_stride, gal_attention_span(query, at.sequence), at.dim, dot);
        for (size_t key = 0; key <= query; key += TILE) {
            backward_tile(&at, &to, dot, query, key);
        }
    }
}

static void backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const size_t heads = split->call->dims[2], end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        backward_head(split->call, i / heads, i % heads);
    }
}

gal_code GAL_KERNEL(attention_backward)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = gal_attention_check(call, err);
    if (code == GAL_OK) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[2], 1, (size_t)call->dims[1] * call->dims[3],
                      backward_part);
    }
    return code;
}
