/* Attention as in T5: scores are not divided, self-attention adds a bias of the distance between key and query,
 * cross-attention reads keys and values of another sequence. Distances share buckets: of one direction (of both, half
 * the buckets each) the first half are single distances, the others grow evenly in the logarithm up to the largest
 * distance. Source: C. Raffel et al., JMLR 21 (2020), section 2.1; buckets as in the authors' code, mesh_tensorflow
 * transformer_layers.py, _relative_position_bucket. */
#include <limits.h>
#include <string.h>

#include "runtime/ops/host/attention.h"

enum { TILE = GAL_ATTENTION_TILE, DIAGONALS = 2 * TILE };

/* distance: of the key behind the query. */
static uint32_t bucket_of(const gal_attention_bias *bias, bool causal, int64_t distance)
{
    const uint32_t side = causal ? bias->buckets : bias->buckets / 2, exact = side / 2;
    const uint32_t first = !causal && distance > 0 ? side : 0;
    const uint64_t far = distance < 0 ? (uint64_t)-distance : causal ? 0 : (uint64_t)distance;
    if (far < exact) {
        return first + (uint32_t)far;
    }
    const double share = log((double)far / exact) / log((double)bias->max_distance / exact);
    /* A distance that begins a bucket belongs to it, whatever the rounding. */
    const double steps = floor(share * (double)(side - exact) + 1e-9);
    return first + (steps < (double)(side - exact) ? exact + (uint32_t)steps : side - 1);
}

/* bucket[TILE + j - i] of query i and key j of a tile. */
static void find_buckets(const gal_attention_head *at, size_t query, size_t key, uint32_t bucket[DIAGONALS])
{
    for (int64_t d = 0; d < DIAGONALS; d++) {
        bucket[d] = bucket_of(&at->bias, at->causal, (int64_t)key - (int64_t)query + d - TILE);
    }
}

void gal_attention_add_bias(const gal_attention_head *at, size_t query, size_t key, size_t rows, size_t keys,
                            gal_real *scores)
{
    uint32_t bucket[DIAGONALS];
    gal_real bias[DIAGONALS];
    find_buckets(at, query, key, bucket);
    for (size_t d = 0; d < DIAGONALS; d++) {
        bias[d] = at->bias.table[bucket[d] * at->bias.stride];
    }
    for (size_t j = 0; j < keys; j++) {
        for (size_t i = 0; i < rows; i++) {
            scores[j * TILE + i] += bias[TILE + j - i];
        }
    }
}

void gal_attention_bias_gradient(const gal_attention_head *at, size_t query, size_t key, size_t rows, size_t keys,
                                 const gal_real *slope, gal_real *dbias)
{
    uint32_t bucket[DIAGONALS];
    double sum[DIAGONALS] = {0.0};
    find_buckets(at, query, key, bucket);
    for (size_t j = 0; j < keys; j++) {
        for (size_t i = 0; i < rows; i++) {
            sum[TILE + j - i] += (double)slope[j * TILE + i];
        }
    }
    for (size_t d = 0; d < DIAGONALS; d++) {
        dbias[bucket[d] * at->bias.stride] += (gal_real)sum[d];
    }
}

/* ---- heads ---- */

static gal_code check_row(const gal_kernel_call *call, uint64_t parts, gal_error *err)
{
    if (parts * call->dims[2] * call->dims[3] * call->dims[0] > INT_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "attention: %u samples of %u heads of %u is more than BLAS takes",
                        call->dims[0], call->dims[2], call->dims[3]);
    }
    return GAL_OK;
}

/* A head of operands 0 and 1 of a forward. */
typedef gal_attention_head head_of(const gal_kernel_call *call, const gal_real *first, const gal_real *second,
                                   size_t sample, size_t head);

static void forward_heads(const gal_split *split, uint32_t part, head_of *of)
{
    const gal_kernel_call *call = split->call;
    const size_t heads = call->dims[2], end = gal_cut_begin(&split->cut, part + 1);
    gal_real *ctx = call->operand[2];
    gal_real *lse = call->operand[3];
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        gal_attention_head at = of(call, call->operand[0], call->operand[1], i / heads, i % heads);
        gal_attention_pad(call, 4, i / heads, &at);
        gal_attention_forward_head(&at, ctx + at.ctx_offset, lse + at.lse_offset);
    }
}

/* Cut by heads of samples. row_parts: rows of so many times all heads' features lie behind one another. */
static gal_code run_heads(const gal_kernel_call *call, uint64_t row_parts, gal_part part, gal_error *err)
{
    const gal_code code = check_row(call, row_parts, err);
    if (code == GAL_OK) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[2], 1, (size_t)call->dims[1] * call->dims[3], part);
    }
    return code;
}

/* ---- self-attention ---- */

static size_t all_heads(const gal_kernel_call *call)
{
    return (size_t)call->dims[2] * call->group_count;
}

static size_t table_column(const gal_kernel_call *call, size_t head)
{
    return (size_t)call->group_index * call->dims[2] + head;
}

static gal_attention_head relative_head(const gal_kernel_call *call, const gal_real *qkv, const gal_real *table,
                                        size_t sample, size_t head)
{
    gal_attention_head at = gal_attention_self_head(call, qkv, call->dims[2], sample, head);
    at.causal = call->dims[4] != 0;
    at.scale = 1;
    at.bias = (gal_attention_bias){table + table_column(call, head), all_heads(call), call->dims[5], call->dims[6]};
    return at;
}

static void relative_part(const void *context, uint32_t part)
{
    forward_heads(context, part, relative_head);
}

gal_code GAL_KERNEL(relative_attention)(const gal_kernel_call *call, gal_error *err)
{
    return run_heads(call, 3, relative_part, err);
}

/* The samples of some heads, in order: they add to one column of the table's gradient. */
static void relative_backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_kernel_call *call = split->call;
    const size_t samples = call->dims[0], end = gal_cut_begin(&split->cut, part + 1);
    for (size_t head = gal_cut_begin(&split->cut, part); head < end; head++) {
        for (size_t sample = 0; sample < samples; sample++) {
            gal_attention_head at = relative_head(call, call->operand[1], call->operand[4], sample, head);
            gal_attention_pad(call, 7, sample, &at);
            gal_real *dqkv = (gal_real *)call->operand[5] + at.qkv_offset;
            const gal_attention_gradients to = {
                .dctx = (const gal_real *)call->operand[0] + at.ctx_offset,
                .ctx = (const gal_real *)call->operand[2] + at.ctx_offset,
                .lse = (const gal_real *)call->operand[3] + at.lse_offset,
                .dq = dqkv,
                .dk = dqkv + at.k_offset,
                .dv = dqkv + at.v_offset,
                .dbias = (gal_real *)call->operand[6] + table_column(call, head),
            };
            gal_attention_backward_head(&at, &to);
        }
    }
}

gal_code GAL_KERNEL(relative_attention_backward)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = check_row(call, 3, err);
    if (code != GAL_OK) {
        return code;
    }
    if (!call->add) {
        memset(call->operand[6], 0, all_heads(call) * call->dims[5] * sizeof(gal_real));
    }
    gal_split_run(call, call->dims[2], 1, (size_t)call->dims[0] * call->dims[1] * call->dims[3],
                  relative_backward_part);
    return GAL_OK;
}

/* ---- cross-attention ---- */

static gal_attention_head cross_head(const gal_kernel_call *call, const gal_real *q, const gal_real *kv, size_t sample,
                                     size_t head)
{
    const size_t samples = call->dims[0], queries = call->dims[1], heads = call->dims[2], dim = call->dims[3];
    const size_t row = heads * dim, q_offset = sample * row + head * dim;
    const size_t k_offset = 2 * sample * row + head * dim, v_offset = k_offset + row;
    gal_attention_head at = {
        .q = q + q_offset,
        .k = kv + k_offset,
        .v = kv + v_offset,
        .stride = samples * row,
        .kv_stride = 2 * samples * row,
        .ctx_stride = samples * row,
        .ctx_offset = q_offset,
        .qkv_offset = q_offset,
        .lse_offset = (sample * heads + head) * queries,
        .k_offset = k_offset,
        .v_offset = v_offset,
        .sequence = queries,
        .keys = call->dims[4],
        .dim = dim,
        .scale = 1,
    };
    gal_attention_set_dropout(call, sample, head, &at);
    return at;
}

static void cross_part(const void *context, uint32_t part)
{
    forward_heads(context, part, cross_head);
}

gal_code GAL_KERNEL(cross_attention)(const gal_kernel_call *call, gal_error *err)
{
    return run_heads(call, 2, cross_part, err);
}

static void cross_backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_kernel_call *call = split->call;
    const size_t heads = call->dims[2], end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        gal_attention_head at = cross_head(call, call->operand[1], call->operand[2], i / heads, i % heads);
        gal_attention_pad(call, 7, i / heads, &at);
        const gal_attention_gradients to = {
            .dctx = (const gal_real *)call->operand[0] + at.ctx_offset,
            .ctx = (const gal_real *)call->operand[3] + at.ctx_offset,
            .lse = (const gal_real *)call->operand[4] + at.lse_offset,
            .dq = (gal_real *)call->operand[5] + at.qkv_offset,
            .dk = (gal_real *)call->operand[6] + at.k_offset,
            .dv = (gal_real *)call->operand[6] + at.v_offset,
        };
        gal_attention_backward_head(&at, &to);
    }
}

gal_code GAL_KERNEL(cross_attention_backward)(const gal_kernel_call *call, gal_error *err)
{
    return run_heads(call, 2, cross_backward_part, err);
}

/* ---- the tied head ---- */

static void scale_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    gal_real *a = at->call->operand[0];
    const gal_real factor = (gal_real)(1.0 / sqrt((double)at->call->dims[1]));
    for (size_t i = gal_cut_begin(&at->cut, part); i < gal_cut_begin(&at->cut, part + 1); i++) {
        a[i] *= factor;
    }
}

gal_code GAL_KERNEL(scale)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, scale_part);
    return GAL_OK;
}
