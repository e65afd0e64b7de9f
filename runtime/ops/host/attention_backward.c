/* Attention, backward: probabilities are computed again from the scores and the saved log-sum-exp.
 * With mask M (0 or the keep scale), P the probabilities and O = (P M) V:
 *   dV = (P M)^T dO     D = rowsum(dO O) = rowsum(P M dO V^T)     dS = P (M dO V^T - D)     dQ = c dS K, dK = c dS^T Q
 * c the scale. dQ, dK and dV build up in the output, tile of queries by tile of queries; dK and dV over all heads of
 * queries that share them. */
#include <string.h>

#include "runtime/ops/host/attention.h"

enum { TILE = GAL_ATTENTION_TILE };

/* Tiles of queries are packed for all tiles of keys, but of a head wider than a tile piece by piece. */
typedef struct backward_tiles {
    gal_real probability[TILE * TILE];                            /* [key][query] */
    gal_real slope[TILE * TILE];                                  /* [key][query]: dO V^T, then c dS */
    gal_real factor[TILE * TILE];                                 /* [key][query]: of dropout */
    gal_real query[TILE * TILE], dctx[TILE * TILE];               /* [query][feature] */
    gal_real query_turned[TILE * TILE], dctx_turned[TILE * TILE]; /* [feature][query] */
    gal_real key[TILE * TILE];                                    /* [key][feature] */
    gal_real dot[TILE], lse[TILE];                                /* of the queries: D, log-sum-exp */
} backward_tiles;

GAL_VECTOR
void gal_attention_differentiate(gal_real *restrict probability, gal_real *restrict slope, const gal_real *factor,
                                 const gal_real *lse, const gal_real *dot, gal_real scale, size_t first, size_t end)
{
    for (size_t i = 0; i < first; i++) {
        slope[i] = 0;
        probability[i] = 0;
    }
    for (size_t i = first; i < end; i++) {
        const gal_real difference = probability[i] - lse[i];
        const gal_real p = gal_exp_nonpositive(difference);
        slope[i] = p * (factor[i] * slope[i] - dot[i]) * scale;
        probability[i] = p * factor[i];
    }
}

GAL_VECTOR
static void row_dots(const gal_real *dctx, const gal_real *ctx, size_t stride, size_t rows, size_t dim, gal_real *dot)
{
    for (size_t i = 0; i < rows; i++) {
        dot[i] = (gal_real)gal_row_dot(dctx + i * stride, ctx + i * stride, dim);
    }
}

static void fill_factors(const gal_attention_head *at, size_t query, size_t key, size_t rows, size_t keys,
                         gal_real *factor)
{
    gal_real row[TILE];
    for (size_t i = 0; i < rows; i++) {
        gal_dropout_factors(&at->dropout, at->dropout_index + (query + i) * at->dropout_stride + key, keys, row);
        for (size_t j = 0; j < keys; j++) {
            factor[j * TILE + i] = row[j];
        }
    }
}

/* Probabilities of the tile, and c dS. */
static void slope_tile(const gal_attention_head *at, const gal_attention_gradients *to, backward_tiles *tiles,
                       size_t query, size_t key, size_t rows, size_t keys)
{
    const bool pack = key == 0 || at->dim > TILE;
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        if (pack) {
            gal_attention_turn(at->q + query * at->stride + first, at->stride, rows, span, tiles->query_turned);
            gal_attention_turn(to->dctx + query * at->ctx_stride + first, at->ctx_stride, rows, span,
                               tiles->dctx_turned);
        }
        gal_attention_product(CblasNoTrans, keys, rows, span, at->scale, at->k + key * at->kv_stride + first,
                              at->kv_stride, tiles->query_turned, first > 0, tiles->probability, TILE);
        gal_attention_product(CblasNoTrans, keys, rows, span, (gal_real)1, at->v + key * at->kv_stride + first,
                              at->kv_stride, tiles->dctx_turned, first > 0, tiles->slope, TILE);
    }
    if (at->bias.table != NULL) {
        gal_attention_add_bias(at, query, key, rows, keys, tiles->probability);
    }
    if (at->dropout.active) {
        fill_factors(at, query, key, rows, keys, tiles->factor);
    }
    for (size_t j = 0; j < keys; j++) {
        gal_attention_differentiate(tiles->probability + j * TILE, tiles->slope + j * TILE, tiles->factor + j * TILE,
                                    tiles->lse, tiles->dot, at->scale, at->causal && key == query ? j : 0, rows);
    }
    if (to->dbias != NULL) {
        gal_attention_bias_gradient(at, query, key, rows, keys, tiles->slope, to->dbias);
    }
}

static void add_gradients(const gal_attention_head *at, const gal_attention_gradients *to, backward_tiles *tiles,
                          size_t query, size_t key, size_t rows, size_t keys)
{
    const bool pack = key == 0 || at->dim > TILE;
    const size_t first_query = at->causal ? key : 0; /* the first tile of queries that sees these keys */
    const bool add = to->add || query > first_query;
    const size_t dq_stride = to->dq_stride > 0 ? to->dq_stride : at->stride;
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim), at_key = key * at->kv_stride + first;
        if (pack) {
            gal_attention_pack(at->q + query * at->stride + first, at->stride, rows, span, tiles->query);
            gal_attention_pack(to->dctx + query * at->ctx_stride + first, at->ctx_stride, rows, span, tiles->dctx);
        }
        gal_attention_pack(at->k + at_key, at->kv_stride, keys, span, tiles->key);
        gal_attention_product(CblasNoTrans, keys, span, rows, (gal_real)1, tiles->probability, TILE, tiles->dctx, add,
                              to->dv + at_key, at->kv_stride);
        gal_attention_product(CblasNoTrans, keys, span, rows, (gal_real)1, tiles->slope, TILE, tiles->query, add,
                              to->dk + at_key, at->kv_stride);
        gal_attention_product(CblasTrans, rows, span, keys, (gal_real)1, tiles->slope, TILE, tiles->key,
                              to->add_queries || key > 0, to->dq + query * dq_stride + first, dq_stride);
    }
}

static void backward_queries(const gal_attention_head *at, const gal_attention_gradients *to, size_t query)
{
    backward_tiles tiles;
    const size_t rows = gal_attention_span(query, at->sequence), end = gal_attention_key_end(at, query, rows);
    const size_t offset = query * at->ctx_stride;
    for (size_t i = 0; i < TILE * TILE; i++) {
        tiles.factor[i] = 1;
    }
    memcpy(tiles.lse, to->lse + query, rows * sizeof *tiles.lse);
    row_dots(to->dctx + offset, to->ctx + offset, at->ctx_stride, rows, at->dim, tiles.dot);
    for (size_t key = 0; key < end; key += TILE) {
        const size_t keys = gal_attention_span(key, end);
        slope_tile(at, to, &tiles, query, key, rows, keys);
        add_gradients(at, to, &tiles, query, key, rows, keys);
    }
}

/* Of keys that no query sees. */
static void clear_unseen(const gal_attention_head *at, const gal_attention_gradients *to)
{
    for (size_t key = at->keys; key < at->keys + at->unseen && !to->add; key++) {
        memset(to->dk + key * at->kv_stride, 0, at->dim * sizeof *to->dk);
        memset(to->dv + key * at->kv_stride, 0, at->dim * sizeof *to->dv);
    }
}

void gal_attention_backward_head(const gal_attention_head *at, const gal_attention_gradients *to)
{
    clear_unseen(at, to);
    for (size_t query = 0; query < at->sequence; query += TILE) {
        backward_queries(at, to, query);
    }
}

static void backward_head(const gal_kernel_call *call, size_t sample, size_t head, bool add)
{
    gal_attention_head at = gal_attention_head_of(call, call->operand[1], sample, head);
    gal_attention_pad(call, 5, sample, &at);
    gal_real *dqkv = (gal_real *)call->operand[4] + at.qkv_offset;
    const gal_attention_gradients to = {
        .dctx = (const gal_real *)call->operand[0] + at.ctx_offset,
        .ctx = (const gal_real *)call->operand[2] + at.ctx_offset,
        .lse = (const gal_real *)call->operand[3] + at.lse_offset,
        .dq = dqkv,
        .dk = dqkv + at.k_offset,
        .dv = dqkv + at.v_offset,
        .add = add,
    };
    gal_attention_backward_head(&at, &to);
}

static void backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const size_t kv_heads = split->call->dims[4], group = split->call->dims[2] / kv_heads;
    const size_t end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        for (size_t j = 0; j < group; j++) {
            backward_head(split->call, i / kv_heads, i % kv_heads * group + j, j > 0);
        }
    }
}

gal_code GAL_KERNEL(attention_backward)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = gal_attention_check(call, err);
    if (code == GAL_OK) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[4], 1,
                      (size_t)call->dims[1] * (call->dims[2] / call->dims[4]) * call->dims[3], backward_part);
    }
    return code;
}
