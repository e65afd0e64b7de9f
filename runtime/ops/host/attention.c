/* Attention, forward, with an online softmax. */
#include "runtime/ops/host/attention.h"

#include <limits.h>
#include <string.h>

enum { TILE = GAL_ATTENTION_TILE };

gal_code gal_attention_check(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = (call->dims[2] + 2U * (uint64_t)call->dims[4]) * call->dims[3];
    if (row > INT_MAX || row * call->dims[0] > INT_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "attention: %u samples of %u heads of %u is more than BLAS takes",
                        call->dims[0], call->dims[2], call->dims[3]);
    }
    return GAL_OK;
}

void gal_attention_set_dropout(const gal_kernel_call *call, size_t sample, size_t head, gal_attention_head *at)
{
    const gal_model *model = call->step->model;
    const uint64_t positions = gal_model_longest_sequence(model);
    at->dropout = gal_dropout_of(call, model->attention_dropout, 1);
    at->dropout_stride = (positions + 3) / 4 * 4;
    if (at->dropout.active) {
        const uint64_t global_head = (uint64_t)call->group_index * call->dims[2] + head;
        at->dropout_index =
            ((uint64_t)call->sample_map[sample] * model->head_count + global_head) * positions * at->dropout_stride;
    }
}

gal_attention_head gal_attention_self_head(const gal_kernel_call *call, const gal_real *qkv, size_t kv_heads,
                                           size_t sample, size_t head)
{
    const size_t samples = call->dims[0], sequence = call->dims[1], heads = call->dims[2], dim = call->dims[3];
    const size_t kv_head = head / (heads / kv_heads);
    const size_t row = (heads + 2 * kv_heads) * dim, offset = sample * row + head * dim;
    const size_t k_offset = (heads + kv_head - head) * dim, v_offset = k_offset + kv_heads * dim;
    gal_attention_head at = {
        .q = qkv + offset,
        .k = qkv + offset + k_offset,
        .v = qkv + offset + v_offset,
        .stride = samples * row,
        .kv_stride = samples * row,
        .ctx_stride = samples * heads * dim,
        .ctx_offset = (sample * heads + head) * dim,
        .qkv_offset = offset,
        .lse_offset = (sample * heads + head) * sequence,
        .k_offset = k_offset,
        .v_offset = v_offset,
        .sequence = sequence,
        .keys = sequence,
        .dim = dim,
    };
    gal_attention_set_dropout(call, sample, head, &at);
    return at;
}

void gal_attention_pad(const gal_kernel_call *call, uint32_t operand, size_t sample, gal_attention_head *at)
{
    if (call->operand_count > operand) {
        const int32_t *lengths = call->operand[operand];
        at->unseen = at->keys - (size_t)lengths[sample];
        at->keys = (size_t)lengths[sample];
    }
}

gal_attention_head gal_attention_head_of(const gal_kernel_call *call, const gal_real *qkv, size_t sample, size_t head)
{
    gal_attention_head at = gal_attention_self_head(call, qkv, call->dims[4], sample, head);
    at.causal = (call->dims[5] & GAL_ATTENTION_CAUSAL) != 0;
    at.scale = (gal_real)(1.0 / sqrt((double)at.dim));
    return at;
}

void gal_attention_pack(const gal_real *from, size_t stride, size_t rows, size_t columns, gal_real *to)
{
    for (size_t i = 0; i < rows; i++) {
        memcpy(to + i * TILE, from + i * stride, columns * sizeof *to);
    }
}

GAL_VECTOR
void gal_attention_turn(const gal_real *from, size_t stride, size_t rows, size_t columns, gal_real *to)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            to[j * TILE + i] = from[i * stride + j];
        }
    }
}

/* A key is not seen by the queries before it: in the tile where both begin alike, by those of a lower number. Its score
 * there becomes one whose exponential is 0. */
static void mask_diagonal(gal_real *scores, size_t keys)
{
    for (size_t j = 0; j < keys; j++) {
        for (size_t i = 0; i < j; i++) {
            scores[j * TILE + i] = -GAL_REAL_MAX;
        }
    }
}

void gal_attention_softmax_begin(gal_attention_softmax *state)
{
    for (size_t i = 0; i < TILE; i++) {
        state->max[i] = -GAL_REAL_MAX;
        state->sum[i] = 0.0;
    }
}

void gal_attention_softmax_resume(const gal_real *lse, size_t rows, gal_attention_softmax *state)
{
    gal_attention_softmax_begin(state);
    for (size_t i = 0; i < rows; i++) {
        state->max[i] = lse[i];
        state->sum[i] = 1.0;
    }
}

GAL_VECTOR
void gal_attention_softmax_tile(gal_real *restrict scores, size_t keys, gal_attention_softmax *restrict state)
{
    gal_real max[TILE];
    for (size_t i = 0; i < TILE; i++) {
        max[i] = state->max[i];
    }
    for (size_t j = 0; j < keys; j++) {
        for (size_t i = 0; i < TILE; i++) {
            max[i] = scores[j * TILE + i] > max[i] ? scores[j * TILE + i] : max[i];
        }
    }
    for (size_t i = 0; i < TILE; i++) {
        state->factor[i] = gal_exp_nonpositive(state->max[i] - max[i]);
        state->sum[i] *= (double)state->factor[i];
        state->max[i] = max[i];
    }
    for (size_t j = 0; j < keys; j++) {
        for (size_t i = 0; i < TILE; i++) {
            const gal_real difference = scores[j * TILE + i] - max[i];
            const gal_real p = gal_exp_nonpositive(difference);
            scores[j * TILE + i] = p;
            state->sum[i] += (double)p;
        }
    }
}

static void drop_tile(const gal_attention_head *at, gal_real *tile, size_t query, size_t key, size_t rows, size_t keys)
{
    gal_real factor[TILE];
    for (size_t i = 0; i < rows; i++) {
        gal_dropout_factors(&at->dropout, at->dropout_index + (query + i) * at->dropout_stride + key, keys, factor);
        for (size_t j = 0; j < keys; j++) {
            tile[j * TILE + i] *= factor[j];
        }
    }
}

GAL_VECTOR
static void scale_rows(gal_real *x, size_t stride, size_t rows, size_t columns, const gal_real *factor)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            x[i * stride + j] *= factor[i];
        }
    }
}

typedef struct forward_tiles {
    gal_real scores[TILE * TILE]; /* [key][query] */
    gal_real query[TILE * TILE];  /* [feature][query] */
    gal_real value[TILE * TILE];  /* [key][feature] */
} forward_tiles;

/* What is packed of a head that is not wider than a tile serves all its tiles of keys. */
static void score_tile(const gal_attention_head *at, forward_tiles *tiles, size_t query, size_t key, size_t rows,
                       size_t keys)
{
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        if (key == 0 || at->dim > TILE) {
            gal_attention_turn(at->q + query * at->stride + first, at->stride, rows, span, tiles->query);
        }
        gal_attention_product(CblasNoTrans, keys, rows, span, at->scale, at->k + key * at->kv_stride + first,
                              at->kv_stride, tiles->query, first > 0, tiles->scores, TILE);
    }
    if (at->bias.table != NULL) {
        gal_attention_add_bias(at, query, key, rows, keys, tiles->scores);
    }
}

static void add_values(const gal_attention_head *at, forward_tiles *tiles, size_t key, size_t rows, size_t keys,
                       bool add, gal_real *out)
{
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        gal_attention_pack(at->v + key * at->kv_stride + first, at->kv_stride, keys, span, tiles->value);
        gal_attention_product(CblasTrans, rows, span, keys, (gal_real)1, tiles->scores, TILE, tiles->value, add,
                              out + first, at->ctx_stride);
    }
}

static void attend_queries(const gal_attention_head *at, size_t query, gal_real *ctx, gal_real *lse)
{
    forward_tiles tiles;
    gal_attention_softmax state;
    const size_t rows = gal_attention_span(query, at->sequence), end = gal_attention_key_end(at, query, rows);
    gal_real *out = ctx + query * at->ctx_stride;
    if (at->resumes) {
        gal_attention_softmax_resume(lse + query, rows, &state);
    } else {
        gal_attention_softmax_begin(&state);
    }
    memset(tiles.scores, 0, sizeof tiles.scores);
    for (size_t key = 0; key < end; key += TILE) {
        const size_t keys = gal_attention_span(key, end);
        score_tile(at, &tiles, query, key, rows, keys);
        if (at->causal && key == query) {
            mask_diagonal(tiles.scores, keys);
        }
        gal_attention_softmax_tile(tiles.scores, keys, &state);
        const bool add = at->resumes || key > 0;
        if (add) {
            scale_rows(out, at->ctx_stride, rows, at->dim, state.factor);
        }
        if (at->dropout.active) {
            drop_tile(at, tiles.scores, query, key, rows, keys);
        }
        add_values(at, &tiles, key, rows, keys, add, out);
    }
    for (size_t i = 0; i < rows; i++) {
        state.factor[i] = (gal_real)(1.0 / state.sum[i]);
        lse[query + i] = (gal_real)((double)state.max[i] + log(state.sum[i]));
    }
    scale_rows(out, at->ctx_stride, rows, at->dim, state.factor);
}

void gal_attention_forward_head(const gal_attention_head *at, gal_real *ctx, gal_real *lse)
{
    for (size_t query = 0; query < at->sequence; query += TILE) {
        attend_queries(at, query, ctx, lse);
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
        gal_attention_head at = gal_attention_head_of(call, call->operand[0], i / heads, i % heads);
        gal_attention_pad(call, 3, i / heads, &at);
        gal_attention_forward_head(&at, ctx + at.ctx_offset, lse + at.lse_offset);
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
