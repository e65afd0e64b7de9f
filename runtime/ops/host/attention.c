/* Causal attention, forward, with an online softmax. */
#include "runtime/ops/host/attention.h"

#include <limits.h>

enum { TILE = GAL_ATTENTION_TILE };

gal_code gal_attention_check(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = 3U * (uint64_t)call->dims[2] * call->dims[3];
    if (row > INT_MAX || row * call->dims[0] > INT_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "attention: %u samples of %u heads of %u is more than BLAS takes",
                        call->dims[0], call->dims[2], call->dims[3]);
    }
    return GAL_OK;
}

gal_attention_head gal_attention_head_of(const gal_kernel_call *call, const gal_real *qkv, size_t sample, size_t head)
{
    const gal_model *model = call->step->model;
    const size_t samples = call->dims[0], sequence = call->dims[1], heads = call->dims[2], dim = call->dims[3];
    const size_t width = heads * dim, offset = sample * 3 * width + head * dim;
    gal_attention_head at = {
        .q = qkv + offset,
        .k = qkv + offset + width,
        .v = qkv + offset + 2 * width,
        .stride = samples * 3 * width,
        .ctx_stride = samples * width,
        .ctx_offset = sample * width + head * dim,
        .qkv_offset = offset,
        .lse_offset = (sample * heads + head) * sequence,
        .width = width,
        .sequence = sequence,
        .dim = dim,
        .scale = (gal_real)(1.0 / sqrt((double)dim)),
        .dropout = gal_dropout_of(call, model->attention_dropout, 1),
        .dropout_stride = ((uint64_t)model->sequence_length + 3) / 4 * 4,
    };
    if (at.dropout.active) {
        const uint64_t global_head = (uint64_t)call->group_index * heads + head;
        at.dropout_index = ((uint64_t)call->sample_map[sample] * model->head_count + global_head) *
                           model->sequence_length * at.dropout_stride;
    }
    return at;
}

/* Running softmax of the rows of one tile of queries. */
typedef struct softmax_rows {
    gal_real max[TILE];
    double sum[TILE];
} softmax_rows;

/* score becomes exp(score - new maximum); returns the sum of those. */
GAL_INLINE double exponentials(gal_real *score, gal_real max, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        score[j] = gal_exp_nonpositive(score[j] - max);
    }
    return gal_row_sum(score, count);
}

/* Turns the scores of a tile into probabilities up to the row's factor, and takes what ctx holds to the new maximum.
 * keys  of the tile; row i sees the first valid + i of them */
GAL_VECTOR
static void softmax_tile(gal_real *scores, size_t rows, size_t keys, size_t valid, bool first, softmax_rows *state,
                         gal_real *ctx, size_t ctx_stride, size_t dim)
{
    for (size_t i = 0; i < rows; i++) {
        gal_real *row = scores + i * TILE;
        const size_t count = valid + i < keys ? valid + i : keys;
        const gal_real tile_max = gal_row_max(row, count);
        const gal_real old = first ? tile_max : state->max[i];
        const gal_real max = tile_max > old ? tile_max : old;
        const double sum = exponentials(row, max, count);
        for (size_t j = count; j < keys; j++) {
            row[j] = 0;
        }
        if (first) {
            state->sum[i] = sum;
        } else {
            const gal_real factor = gal_exp_nonpositive(old - max);
            state->sum[i] = state->sum[i] * (double)factor + sum;
            for (size_t j = 0; j < dim; j++) {
                ctx[i * ctx_stride + j] *= factor;
            }
        }
        state->max[i] = max;
    }
}

static void drop_tile(const gal_attention_head *at, gal_real *tile, size_t query, size_t key, size_t rows, size_t keys)
{
    for (size_t i = 0; i < rows; i++) {
        const size_t seen = query + i - key + 1, count = seen < keys ? seen : keys;
        const uint64_t index = at->dropout_index + (query + i) * at->dropout_stride + key;
        gal_dropout_apply_row(&at->dropout, index, count, tile + i * TILE, tile + i * TILE);
    }
}

static void attend_queries(const gal_attention_head *at, size_t query, gal_real *ctx, gal_real *lse)
{
    gal_real scores[TILE * TILE];
    softmax_rows state;
    const size_t rows = gal_attention_span(query, at->sequence);
    gal_real *out = ctx + query * at->ctx_stride;
    for (size_t key = 0; key < query + rows; key += TILE) {
        const size_t keys = gal_attention_span(key, query + rows);
        gal_attention_scores(at->q + query * at->stride, at->stride, at->k + key * at->stride, at->stride, rows, keys,
                             at->dim, at->scale, scores);
        softmax_tile(scores, rows, keys, query - key + 1, key == 0, &state, out, at->ctx_stride, at->dim);
        if (at->dropout.active) {
            drop_tile(at, scores, query, key, rows, keys);
        }
        gal_attention_product(CblasNoTrans, scores, at->v + key * at->stride, at->stride, rows, at->dim, keys, key > 0,
                              out, at->ctx_stride);
    }
    for (size_t i = 0; i < rows; i++) {
        const gal_real factor = (gal_real)(1.0 / state.sum[i]);
        for (size_t j = 0; j < at->dim; j++) {
            out[i * at->ctx_stride + j] *= factor;
        }
        lse[query + i] = (gal_real)((double)state.max[i] + log(state.sum[i]));
    }
}

static void attend_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_kernel_call *call = split->call;
    const size_t heads = call->dims[2], end = gal_cut_begin(&split->cut, part + 1);
    gal_real *ctx = call->operand[1];
    gal_real *lse = call->operand[2];
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        const gal_attention_head at = gal_attention_head_of(call, call->operand[0], i / heads, i % heads);
        for (size_t query = 0; query < at.sequence; query += TILE) {
            attend_queries(&at, query, ctx + at.ctx_offset, lse + at.lse_offset);
        }
    }
}

gal_code GAL_KERNEL(attention)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = gal_attention_check(call, err);
    if (code == GAL_OK) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[2], 1, (size_t)call->dims[1] * call->dims[3],
                      attend_part);
    }
    return code;
}
