/* The graphs of attention_cudnn.h. */
#include "runtime/ops/cuda/attention_cudnn.h"

#include <string.h>

enum { NONE = GAL_CUDNN_NONE };

bool gal_cudnn_attention_suits(const gal_cudnn_attention_key *key)
{
    return key->dim % 8 == 0 && key->heads % key->kv_heads == 0;
}

/* (sample, head, position, feature) of `heads` heads in rows of `row` elements. */
static gal_cudnn_shape rows_of(const gal_cudnn_attention_key *key, uint32_t heads, int64_t row)
{
    return (gal_cudnn_shape){{key->samples, heads, key->sequence, key->dim}, {row, key->dim, key->samples * row, 1}};
}

static int64_t packed_row(const gal_cudnn_attention_key *key)
{
    return ((int64_t)key->heads + 2 * (int64_t)key->kv_heads) * key->dim;
}

static gal_cudnn_shape per_query(const gal_cudnn_attention_key *key)
{
    return gal_cudnn_packed(key->samples, key->heads, key->sequence, 1);
}

static int pointwise(gal_cudnn_attention_graph *g, cudnnPointwiseMode_t mode, int x, int b)
{
    return gal_cudnn_pointwise(&g->graph, mode, x, b, NONE, CUDNN_DATA_FLOAT, NONE);
}

static int compare(gal_cudnn_attention_graph *g, cudnnPointwiseMode_t mode, int x, int b)
{
    return gal_cudnn_pointwise(&g->graph, mode, x, b, NONE, CUDNN_DATA_BOOLEAN, NONE);
}

static int select_seen(gal_cudnn_attention_graph *g, int score, int seen)
{
    g->tensor[GAL_CUDNN_MINUS_INFINITY] = gal_cudnn_number(&g->graph, CUDNN_DATA_FLOAT);
    return gal_cudnn_pointwise(&g->graph, CUDNN_POINTWISE_BINARY_SELECT, score, g->tensor[GAL_CUDNN_MINUS_INFINITY],
                               seen, CUDNN_DATA_FLOAT, NONE);
}

static int mask_causal(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g, int score)
{
    if (key->causal == 0) {
        return score;
    }
    const int row = gal_cudnn_index(&g->graph, score, 2), column = gal_cudnn_index(&g->graph, score, 3);
    return select_seen(g, score, compare(g, CUDNN_POINTWISE_CMP_GE, row, column));
}

static int mask_padding(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g, int score)
{
    if (key->padded == 0) {
        return score;
    }
    const int row = gal_cudnn_index(&g->graph, score, 2), column = gal_cudnn_index(&g->graph, score, 3);
    const int counts = compare(g, CUDNN_POINTWISE_CMP_LT, row, g->tensor[GAL_CUDNN_QUERY_COUNTS]);
    const int is_key = compare(g, CUDNN_POINTWISE_CMP_LT, column, g->tensor[GAL_CUDNN_KEY_COUNTS]);
    return select_seen(g, score, compare(g, CUDNN_POINTWISE_LOGICAL_AND, counts, is_key));
}

static void add_counts(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g)
{
    const gal_cudnn_shape each = gal_cudnn_packed(key->samples, 1, 1, 1);
    if (key->padded != 0) {
        g->tensor[GAL_CUDNN_QUERY_COUNTS] = gal_cudnn_tensor(&g->graph, CUDNN_DATA_INT32, each);
        g->tensor[GAL_CUDNN_KEY_COUNTS] = gal_cudnn_tensor(&g->graph, CUDNN_DATA_INT32, each);
    }
}

/* Of products of queries by keys, of queries by features, of keys by features: none without padding. */
static gal_cudnn_limits by_keys(const gal_cudnn_attention_graph *g)
{
    return (gal_cudnn_limits){g->tensor[GAL_CUDNN_QUERY_COUNTS], g->tensor[GAL_CUDNN_KEY_COUNTS], NONE};
}

static gal_cudnn_limits of_queries(const gal_cudnn_attention_graph *g)
{
    return (gal_cudnn_limits){g->tensor[GAL_CUDNN_QUERY_COUNTS], NONE, g->tensor[GAL_CUDNN_KEY_COUNTS]};
}

static gal_cudnn_limits of_keys(const gal_cudnn_attention_graph *g)
{
    return (gal_cudnn_limits){g->tensor[GAL_CUDNN_KEY_COUNTS], NONE, g->tensor[GAL_CUDNN_QUERY_COUNTS]};
}

static void build_forward(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g)
{
    gal_cudnn_graph *graph = &g->graph;
    const cudnnDataType_t type = (cudnnDataType_t)key->type;
    const gal_cudnn_shape kv = rows_of(key, key->kv_heads, packed_row(key)), one = per_query(key);
    int *t = g->tensor;
    t[GAL_CUDNN_Q] = gal_cudnn_tensor(graph, type, rows_of(key, key->heads, packed_row(key)));
    t[GAL_CUDNN_K] = gal_cudnn_tensor(graph, type, gal_cudnn_turned(kv));
    t[GAL_CUDNN_V] = gal_cudnn_tensor(graph, type, kv);
    t[GAL_CUDNN_CTX] = gal_cudnn_tensor(graph, type, rows_of(key, key->heads, (int64_t)key->heads * key->dim));
    t[GAL_CUDNN_LSE] = gal_cudnn_tensor(graph, CUDNN_DATA_FLOAT, one);
    t[GAL_CUDNN_SCALE] = gal_cudnn_number(graph, CUDNN_DATA_FLOAT);
    add_counts(key, g);
    const int product = gal_cudnn_matmul(graph, t[GAL_CUDNN_Q], t[GAL_CUDNN_K], by_keys(g), CUDNN_DATA_FLOAT, NONE);
    const int scaled = pointwise(g, CUDNN_POINTWISE_MUL, product, t[GAL_CUDNN_SCALE]);
    const int score = mask_causal(key, g, mask_padding(key, g, scaled));
    const int max = gal_cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, score, one, NONE);
    const int less = pointwise(g, CUDNN_POINTWISE_SUB, score, max);
    const int power = pointwise(g, CUDNN_POINTWISE_EXP, less, NONE);
    const int sum = gal_cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, power, one, NONE);
    const int logarithm = pointwise(g, CUDNN_POINTWISE_LOG, sum, NONE);
    gal_cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, max, logarithm, NONE, CUDNN_DATA_FLOAT, t[GAL_CUDNN_LSE]);
    const int p = gal_cudnn_pointwise(graph, CUDNN_POINTWISE_DIV, power, sum, NONE, type, NONE);
    gal_cudnn_matmul(graph, p, t[GAL_CUDNN_V], of_queries(g), type, t[GAL_CUDNN_CTX]);
}

/* [keys][queries] of what is [queries][keys]. */
static int turn(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g, int x)
{
    const gal_cudnn_shape pairs = gal_cudnn_packed(key->samples, key->heads, key->sequence, key->sequence);
    return gal_cudnn_reshape(&g->graph, x, gal_cudnn_turned(pairs), (cudnnDataType_t)key->type);
}

/* to = x y, summed over the heads of queries that share a head of keys. */
static void product_by_keys(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g, int x, int y, int to)
{
    const cudnnDataType_t type = (cudnnDataType_t)key->type;
    if (key->heads == key->kv_heads) {
        gal_cudnn_matmul(&g->graph, x, y, of_keys(g), type, to);
        return;
    }
    const int all = gal_cudnn_matmul(&g->graph, x, y, of_keys(g), type, NONE);
    gal_cudnn_reduce(&g->graph, CUDNN_REDUCE_TENSOR_ADD, all, g->graph.shape[to < 0 ? 0 : to], to);
}

/* dq = dS K. The engine adds parts of it in fp32 in whatever order its blocks come; without that tensor it keeps dS in
 * its workspace, and the sum has one order. */
static void build_dq(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g, int slope, int k)
{
    gal_cudnn_graph *graph = &g->graph;
    int *t = g->tensor;
    if (key->deterministic != 0) {
        gal_cudnn_matmul(graph, slope, k, of_queries(g), (cudnnDataType_t)key->type, t[GAL_CUDNN_DQ]);
        return;
    }
    t[GAL_CUDNN_DQ_SUM] =
        gal_cudnn_tensor(graph, CUDNN_DATA_FLOAT, gal_cudnn_packed(key->samples, key->heads, key->sequence, key->dim));
    gal_cudnn_matmul(graph, slope, k, of_queries(g), CUDNN_DATA_FLOAT, t[GAL_CUDNN_DQ_SUM]);
    gal_cudnn_pointwise(graph, CUDNN_POINTWISE_IDENTITY, t[GAL_CUDNN_DQ_SUM], NONE, NONE, CUDNN_DATA_FLOAT,
                        t[GAL_CUDNN_DQ]);
}

static void build_backward(const gal_cudnn_attention_key *key, gal_cudnn_attention_graph *g)
{
    gal_cudnn_graph *graph = &g->graph;
    const cudnnDataType_t type = (cudnnDataType_t)key->type;
    const gal_cudnn_shape q = rows_of(key, key->heads, packed_row(key)), one = per_query(key);
    const gal_cudnn_shape kv = rows_of(key, key->kv_heads, packed_row(key));
    const gal_cudnn_shape ctx = rows_of(key, key->heads, (int64_t)key->heads * key->dim);
    int *t = g->tensor;
    t[GAL_CUDNN_Q] = gal_cudnn_tensor(graph, type, q);
    t[GAL_CUDNN_K] = gal_cudnn_tensor(graph, type, gal_cudnn_turned(kv));
    t[GAL_CUDNN_V] = gal_cudnn_tensor(graph, type, gal_cudnn_turned(kv));
    t[GAL_CUDNN_CTX] = gal_cudnn_tensor(graph, type, ctx);
    t[GAL_CUDNN_DCTX] = gal_cudnn_tensor(graph, type, ctx);
    t[GAL_CUDNN_LSE] = gal_cudnn_tensor(graph, CUDNN_DATA_FLOAT, one);
    t[GAL_CUDNN_SCALE] = gal_cudnn_number(graph, CUDNN_DATA_FLOAT);
    t[GAL_CUDNN_ONE] = gal_cudnn_number(graph, CUDNN_DATA_FLOAT);
    t[GAL_CUDNN_DOTS] = gal_cudnn_tensor(graph, CUDNN_DATA_FLOAT, one);
    t[GAL_CUDNN_DQ] = gal_cudnn_tensor(graph, type, q);
    t[GAL_CUDNN_DK] = gal_cudnn_tensor(graph, type, kv);
    t[GAL_CUDNN_DV] = gal_cudnn_tensor(graph, type, kv);
    add_counts(key, g);
    /* D = rowsum(dO O), where dropout would be taken out again: the pattern wants its number, 1 */
    const int both = pointwise(g, CUDNN_POINTWISE_MUL, t[GAL_CUDNN_DCTX], t[GAL_CUDNN_CTX]);
    const int row_sum = gal_cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, both, one, NONE);
    gal_cudnn_pointwise(graph, CUDNN_POINTWISE_MUL, row_sum, t[GAL_CUDNN_ONE], NONE, CUDNN_DATA_FLOAT,
                        t[GAL_CUDNN_DOTS]);
    const int product = gal_cudnn_matmul(graph, t[GAL_CUDNN_Q], t[GAL_CUDNN_K], by_keys(g), CUDNN_DATA_FLOAT, NONE);
    const int score = mask_padding(key, g, pointwise(g, CUDNN_POINTWISE_MUL, product, t[GAL_CUDNN_SCALE]));
    const int less = mask_causal(key, g, pointwise(g, CUDNN_POINTWISE_SUB, score, t[GAL_CUDNN_LSE]));
    const int p = pointwise(g, CUDNN_POINTWISE_EXP, less, NONE);
    product_by_keys(key, g, turn(key, g, p), t[GAL_CUDNN_DCTX], t[GAL_CUDNN_DV]);
    const int dp = gal_cudnn_matmul(graph, t[GAL_CUDNN_DCTX], t[GAL_CUDNN_V], by_keys(g), CUDNN_DATA_FLOAT, NONE);
    const int centred = pointwise(g, CUDNN_POINTWISE_SUB, dp, t[GAL_CUDNN_DOTS]);
    const int ds = pointwise(g, CUDNN_POINTWISE_MUL, centred, p);
    const int slope = gal_cudnn_pointwise(graph, CUDNN_POINTWISE_MUL, ds, t[GAL_CUDNN_SCALE], NONE, type, NONE);
    product_by_keys(key, g, turn(key, g, slope), t[GAL_CUDNN_Q], t[GAL_CUDNN_DK]);
    build_dq(key, g, slope, gal_cudnn_reshape(graph, t[GAL_CUDNN_K], kv, type));
}

gal_code gal_cudnn_attention_build(const gal_cudnn_attention_key *key, cudnnHandle_t handle,
                                   gal_cudnn_attention_graph *out, gal_error *err)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < GAL_CUDNN_OPERAND_COUNT; i++) {
        out->tensor[i] = NONE;
    }
    (key->backward != 0 ? build_backward : build_forward)(key, out);
    return gal_cudnn_graph_finish(&out->graph, handle, err);
}
