/* What the two directions of attention share: where a head's rows lie, and the scores of a tile.
 *
 * Scores are computed a tile of keys by a tile of queries at a time, in buffers on the stack whose bytes do not depend
 * on the sequence or the head: a head wider than a tile is treated in pieces. A score tile has a row per key, so that
 * what belongs to a query (maximum, sum) is a vector along the row. Sums over tiles build up in the outputs themselves.
 * The second factor of every product is packed first: rows of qkv lie a multiple of 4 KiB apart in common shapes, and
 * BLAS reads such a factor at half its speed; so it does the transpose of a second factor.
 * Source: T. Dao, "FlashAttention-2", arXiv 2307.08691, algorithms 1 and 2. */
#ifndef GAL_RUNTIME_OPS_HOST_ATTENTION_H
#define GAL_RUNTIME_OPS_HOST_ATTENTION_H

#include "runtime/ops/host/kernels.h"

enum { GAL_ATTENTION_TILE = 64 }; /* a multiple of 4: dropout draws four keys at once */

/* A table of relative positions, as the columns of one head: bias of bucket b at [b * stride]. NULL: none. */
typedef struct gal_attention_bias {
    const gal_real *table;
    size_t stride;
    uint32_t buckets, max_distance;
} gal_attention_bias;

/* One head of one sample. Rows of consecutive positions lie `stride` (queries), `kv_stride` (keys and values) or
 * `ctx_stride` elements apart. */
typedef struct gal_attention_head {
    const gal_real *q, *k, *v;
    size_t stride, kv_stride, ctx_stride;
    size_t ctx_offset, qkv_offset, lse_offset; /* of position 0 in ctx-like, qkv-like and lse operands */
    size_t k_offset, v_offset;                 /* of the keys and values that the head attends to, from its queries */
    size_t sequence, keys, dim;                /* sequence: of queries */
    bool causal;                               /* a query sees the keys up to its own position, else all */
    size_t unseen;  /* rows of keys behind them that are padding: their gradients are zeros */
    bool resumes;   /* ctx and lse have what other keys gave before: these are added */
    gal_real scale; /* 1 / sqrt(dim), or 1 */
    gal_attention_bias bias;
    gal_dropout dropout;
    uint64_t dropout_index;  /* of query 0 and key 0 */
    uint64_t dropout_stride; /* from a query to the next */
} gal_attention_head;

/* GAL_ERR_DEVICE if a row stride is more than BLAS takes. */
#define gal_attention_check GAL_REAL(gal_host_attention_check)
gal_code gal_attention_check(const gal_kernel_call *call, gal_error *err);

#define gal_attention_head_of GAL_REAL(gal_host_attention_head_of)
gal_attention_head gal_attention_head_of(const gal_kernel_call *call, const gal_real *qkv, size_t sample, size_t head);

GAL_INLINE size_t gal_attention_span(size_t first, size_t end)
{
    return end - first < GAL_ATTENTION_TILE ? end - first : GAL_ATTENTION_TILE;
}

/* The keys that `rows` queries from `query` on see: those before this one. */
GAL_INLINE size_t gal_attention_key_end(const gal_attention_head *at, size_t query, size_t rows)
{
    return at->causal ? query + rows : at->keys;
}

/* A head whose queries, keys and values lie in one row of qkv; all but scale and causal are set. */
#define gal_attention_self_head GAL_REAL(gal_host_attention_self_head)
gal_attention_head gal_attention_self_head(const gal_kernel_call *call, const gal_real *qkv, size_t kv_heads,
                                           size_t sample, size_t head);

/* Leaves the keys out that are padding, where the call's last operand, number `operand`, says so. */
#define gal_attention_pad GAL_REAL(gal_host_attention_pad)
void gal_attention_pad(const gal_kernel_call *call, uint32_t operand, size_t sample, gal_attention_head *at);

/* Dropout of local head `head`: of attention with its indices. */
#define gal_attention_set_dropout GAL_REAL(gal_host_attention_set_dropout)
void gal_attention_set_dropout(const gal_kernel_call *call, size_t sample, size_t head, gal_attention_head *at);

/* All queries of a head. ctx, lse at its position 0. */
#define gal_attention_forward_head GAL_REAL(gal_host_attention_forward_head)
void gal_attention_forward_head(const gal_attention_head *at, gal_real *ctx, gal_real *lse);

/* Operands of the backward at position 0 of a head; dbias of the head's column, or NULL. */
typedef struct gal_attention_gradients {
    const gal_real *dctx, *ctx, *lse;
    gal_real *dq, *dk, *dv;
    gal_real *dbias;
    bool add;         /* to dk and dv: another head has begun them */
    bool add_queries; /* to dq: other keys have begun it */
    size_t dq_stride; /* of rows of dq; 0: that of queries */
} gal_attention_gradients;

#define gal_attention_backward_head GAL_REAL(gal_host_attention_backward_head)
void gal_attention_backward_head(const gal_attention_head *at, const gal_attention_gradients *to);

/* Running softmax of one tile of queries; max -GAL_REAL_MAX and sum 0 in front of the first keys. */
typedef struct gal_attention_softmax {
    gal_real max[GAL_ATTENTION_TILE];
    gal_real factor[GAL_ATTENTION_TILE]; /* takes what was summed before to the new maximum */
    double sum[GAL_ATTENTION_TILE];
} gal_attention_softmax;

/* Of queries whose log-sum-exp so far is lse: what is summed for them is divided by their sum. */
#define gal_attention_softmax_resume GAL_REAL(gal_host_attention_softmax_resume)
void gal_attention_softmax_resume(const gal_real *lse, size_t rows, gal_attention_softmax *state);

#define gal_attention_softmax_begin GAL_REAL(gal_host_attention_softmax_begin)
void gal_attention_softmax_begin(gal_attention_softmax *state);

/* Turns the scores[keys][TILE] of a tile into probabilities up to the query's sum. All TILE columns are treated: those
 * past the last query hold finite numbers and are not used. */
#define gal_attention_softmax_tile GAL_REAL(gal_host_attention_softmax_tile)
void gal_attention_softmax_tile(gal_real *restrict scores, size_t keys, gal_attention_softmax *restrict state);

/* One key of a tile: scores -> P M, dO V^T -> scale dS (attention_backward.c); the queries from `first` to `end` see
 * it, the rest get 0. */
#define gal_attention_differentiate GAL_REAL(gal_host_attention_differentiate)
void gal_attention_differentiate(gal_real *restrict probability, gal_real *restrict slope, const gal_real *factor,
                                 const gal_real *lse, const gal_real *dot, gal_real scale, size_t first, size_t end);

/* scores[keys][TILE] of the keys from `key` on, for `rows` queries from `query` on, += the bias of their distance. */
#define gal_attention_add_bias GAL_REAL(gal_host_attention_add_bias)
void gal_attention_add_bias(const gal_attention_head *at, size_t query, size_t key, size_t rows, size_t keys,
                            gal_real *scores);
/* The slopes of a tile to their buckets' sums. */
#define gal_attention_bias_gradient GAL_REAL(gal_host_attention_bias_gradient)
void gal_attention_bias_gradient(const gal_attention_head *at, size_t query, size_t key, size_t rows, size_t keys,
                                 const gal_real *slope, gal_real *dbias);

/* to[rows][TILE] = from[rows][columns] */
#define gal_attention_pack GAL_REAL(gal_host_attention_pack)
void gal_attention_pack(const gal_real *from, size_t stride, size_t rows, size_t columns, gal_real *to);

/* to[columns][TILE] = from[rows][columns]^T */
#define gal_attention_turn GAL_REAL(gal_host_attention_turn)
void gal_attention_turn(const gal_real *from, size_t stride, size_t rows, size_t columns, gal_real *to);

/* c[rows][columns] (+)= alpha op(a)[rows][k] b[k][columns], b a packed tile. */
GAL_INLINE void gal_attention_product(CBLAS_TRANSPOSE transpose, size_t rows, size_t columns, size_t k, gal_real alpha,
                                      const gal_real *a, size_t a_stride, const gal_real *b, bool add, gal_real *c,
                                      size_t c_stride)
{
    gal_cblas_gemm(CblasRowMajor, transpose, CblasNoTrans, (int)rows, (int)columns, (int)k, alpha, a, (int)a_stride, b,
                   GAL_ATTENTION_TILE, add ? (gal_real)1 : (gal_real)0, c, (int)c_stride);
}

#endif
