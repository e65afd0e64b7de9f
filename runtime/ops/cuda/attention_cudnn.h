/* Self-attention by cuDNN: the graphs, and plans of them that are kept.
 *
 * cuDNN's attention engines take graphs of plain operations whose pattern they know: forward
 *     S = Q K^T, scale, mask, max, exp, sum, log (so the log-sum-exp), P = exp / sum, O = P V
 * and backward the same scores again, less the log-sum-exp, and the five products. Operands lie as operator.h has them:
 * rows [position][sample] of packed queries, keys and values are strides, nothing is copied. Shared keys are fewer
 * heads of K and V. Padding: products are told how many queries and keys count, and scores of the others are masked,
 * both of which the pattern wants. No dropout: its masks are ours, by global index. Source: operations and their order
 * as cudnn-frontend lowers them, scaled_dot_product_flash_attention.h (MIT). */
#ifndef GAL_RUNTIME_OPS_CUDA_ATTENTION_CUDNN_H
#define GAL_RUNTIME_OPS_CUDA_ATTENTION_CUDNN_H

#include "runtime/ops/cuda/cudnn_graph.h"
#include "runtime/ops/ops.h"

/* What makes one graph differ from another. */
typedef struct gal_cudnn_attention_key {
    uint32_t samples, sequence, heads, dim, kv_heads;
    uint32_t causal, padded, backward, deterministic; /* 0 or 1; causal ones are not padded */
    uint32_t type;                                    /* cudnnDataType_t: BFLOAT16 or HALF */
} gal_cudnn_attention_key;

/* Tensors of a graph that are not virtual, by what they hold. */
typedef enum gal_cudnn_operand {
    GAL_CUDNN_Q,
    GAL_CUDNN_K,
    GAL_CUDNN_V,
    GAL_CUDNN_CTX,
    GAL_CUDNN_LSE,
    GAL_CUDNN_SCALE,
    GAL_CUDNN_MINUS_INFINITY, /* of causal and padded graphs */
    GAL_CUDNN_QUERY_COUNTS,   /* of padded ones int32 [samples]: all queries, also those behind a sample's end ... */
    GAL_CUDNN_KEY_COUNTS,     /* ... and the lengths */
    GAL_CUDNN_DCTX,           /* from here on backward */
    GAL_CUDNN_DQ,
    GAL_CUDNN_DK,
    GAL_CUDNN_DV,
    GAL_CUDNN_ONE,
    GAL_CUDNN_DOTS,   /* fp32 [samples][heads][sequence], in the workspace */
    GAL_CUDNN_DQ_SUM, /* fp32 [samples][heads][sequence][dim], likewise, unless deterministic */
    GAL_CUDNN_OPERAND_COUNT
} gal_cudnn_operand;

typedef struct gal_cudnn_attention_graph {
    gal_cudnn_graph graph;
    int tensor[GAL_CUDNN_OPERAND_COUNT]; /* GAL_CUDNN_NONE: not there */
} gal_cudnn_attention_graph;

/* False if the graph is not asked for at all: heads that are not a multiple of 8 features, so rows are not aligned. */
bool gal_cudnn_attention_suits(const gal_cudnn_attention_key *key);

/* handle as in gal_cudnn_graph_finish. GAL_ERR_DEVICE; free in any case. */
gal_code gal_cudnn_attention_build(const gal_cudnn_attention_key *key, cudnnHandle_t handle,
                                   gal_cudnn_attention_graph *out, gal_error *err);

/* ---- plans ---- */

typedef struct gal_cudnn_attention gal_cudnn_attention;

/* multiprocessors: as in gal_cudnn_engines. GAL_ERR_DEVICE without a device. */
gal_code gal_cudnn_attention_create(uint32_t multiprocessors, gal_cudnn_attention **out, gal_error *err);
void gal_cudnn_attention_free(gal_cudnn_attention *attention); /* accepts NULL */

/* Finds or makes the plans of a graph: seconds at the first time. *workspace_bytes: what any of them needs. GAL_NO if
 * cuDNN has none, at each call. */
gal_code gal_cudnn_attention_plan(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key,
                                  uint64_t *workspace_bytes, gal_error *err);

/* Times the plans of a graph on a whole call's buffers, whose outputs it writes, and keeps the fastest; waits. Once per
 * graph; a deterministic one keeps its first. GAL_NO as above. */
gal_code gal_cudnn_attention_prepare(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key,
                                     const gal_kernel_call *call, gal_error *err);

/* Queues attention or attention_backward. GAL_NO as above, and then nothing was queued. */
gal_code gal_cudnn_attention_run(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key,
                                 const gal_kernel_call *call, gal_error *err);

#endif
