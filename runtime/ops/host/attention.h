/* What the two directions of attention share: where a head's rows lie, and the scores of a tile.
 *
 * Scores are computed a tile of queries by a tile of keys at a time, in a buffer on the stack whose bytes do not
 * depend on the sequence or the head. Sums over keys build up in the outputs themselves.
 * Source: T. Dao, "FlashAttention-2", arXiv 2307.08691, algorithms 1 and 2. */
#ifndef GAL_RUNTIME_OPS_HOST_ATTENTION_H
#define GAL_RUNTIME_OPS_HOST_ATTENTION_H

#include "runtime/ops/host/kernels.h"

enum { GAL_ATTENTION_TILE = 64 }; /* a multiple of 4: dropout draws four keys at once */

/* One head of one sample. Rows of consecutive positions lie `stride` (qkv) or `ctx_stride` elements apart. */
typedef struct gal_attention_head {
    const gal_real *q, *k, *v;
    size_t stride, ctx_stride;
    size_t ctx_offset, qkv_offset, lse_offset; /* of position 0 in ctx-like, qkv-like and lse operands */
    size_t width;                              /* from q to k and from k to v */
    size_t sequence, dim;
    gal_real scale; /* 1 / sqrt(dim) */
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

/* c[rows][columns] = alpha a[rows][k] b[columns][k]^T, c with rows of GAL_ATTENTION_TILE. */
GAL_INLINE void gal_attention_scores(const gal_real *a, size_t a_stride, const gal_real *b, size_t b_stride,
                                     size_t rows, size_t columns, size_t k, gal_real alpha, gal_real *c)
{
    gal_cblas_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)columns, (int)k, alpha, a, (int)a_stride, b,
                   (int)b_stride, (gal_real)0, c, GAL_ATTENTION_TILE);
}

/* c[rows][columns] (+)= op(tile)[rows][k] b[k][columns]. */
GAL_INLINE void gal_attention_product(CBLAS_TRANSPOSE transpose, const gal_real *tile, const gal_real *b,
                                      size_t b_stride, size_t rows, size_t columns, size_t k, bool add, gal_real *c,
                                      size_t c_stride)
{
    gal_cblas_gemm(CblasRowMajor, transpose, CblasNoTrans, (int)rows, (int)columns, (int)k, (gal_real)1, tile,
                   GAL_ATTENTION_TILE, b, (int)b_stride, add ? (gal_real)1 : (gal_real)0, c, (int)c_stride);
}

#endif
