/* Attention within windows of a grid of positions, as in Swin: every window is a sequence of its own. Its rows lie a
 * window's side at a time in the operands, so tiles of them are gathered and what a tile gives is put back row by row;
 * else all is as in attention.c and attention_backward.c. Windows are laid on the grid turned by `shift`; positions of
 * one window that only the turn made neighbours do not see each other: 100 less in the score, as published.
 * Source: Z. Liu et al., "Swin Transformer", arXiv 2103.14030, section 3.2 and figure 4; the authors' code for the
 * order of offsets in the table and for the 100. */
#include <limits.h>
#include <string.h>

#include "runtime/ops/host/attention.h"

enum { TILE = GAL_ATTENTION_TILE };

static const gal_real unseen = 100;

/* One head of one window of one sample. */
typedef struct window_head {
    gal_attention_head at; /* of position 0 of the grid; sequence and keys are the window's */
    size_t side, window, shift;
    size_t row, column; /* of the window's first position in the turned grid */
    const gal_real *table;
    size_t table_stride;
} window_head;

/* Positions of a window from one on, at most a tile of them. */
typedef struct tile_rows {
    size_t count;
    size_t position[TILE]; /* in the grid */
    size_t offset[TILE];   /* row and column in the window, as the table numbers them */
    uint8_t region[TILE];  /* of the grid, as the turn cuts it */
} tile_rows;

static void find_rows(const window_head *h, size_t first, tile_rows *out)
{
    const size_t kept = h->side - h->shift; /* of the turned grid the rows and columns in front of those turned over */
    out->count = gal_attention_span(first, h->at.sequence);
    for (size_t i = 0; i < out->count; i++) {
        const size_t y = (first + i) / h->window, x = (first + i) % h->window;
        const size_t row = h->row + y, column = h->column + x;
        out->position[i] = (row + h->shift) % h->side * h->side + (column + h->shift) % h->side;
        out->offset[i] = y * (2 * h->window - 1) + x;
        out->region[i] = (uint8_t)((row >= kept) + 2 * (column >= kept));
    }
}

/* to[rows][TILE], or to[columns][TILE] if turned */
static void gather(const gal_real *from, size_t stride, const tile_rows *rows, size_t columns, gal_real *to)
{
    for (size_t i = 0; i < rows->count; i++) {
        memcpy(to + i * TILE, from + rows->position[i] * stride, columns * sizeof *to);
    }
}

static void gather_turned(const gal_real *from, size_t stride, const tile_rows *rows, size_t columns, gal_real *to)
{
    for (size_t i = 0; i < rows->count; i++) {
        const gal_real *row = from + rows->position[i] * stride;
        for (size_t j = 0; j < columns; j++) {
            to[j * TILE + i] = row[j];
        }
    }
}

/* to[row] = factor to[row] + tile[row]; factor NULL: 1. Without add: = tile[row]. */
static void put_back(const gal_real *tile, const tile_rows *rows, size_t columns, bool add, const gal_real *factor,
                     gal_real *to, size_t stride)
{
    for (size_t i = 0; i < rows->count; i++) {
        gal_real *row = to + rows->position[i] * stride;
        const gal_real old = factor == NULL ? (gal_real)1 : factor[i];
        for (size_t j = 0; j < columns; j++) {
            row[j] = add ? old * row[j] + tile[i * TILE + j] : tile[i * TILE + j];
        }
    }
}

/* The entry of the table for a query and a key. */
static size_t entry_of(const window_head *h, const tile_rows *queries, size_t i, const tile_rows *keys, size_t j)
{
    return (queries->offset[i] + 2 * h->window * (h->window - 1) - keys->offset[j]) * h->table_stride;
}

static void add_bias(const window_head *h, const tile_rows *queries, const tile_rows *keys, gal_real *scores)
{
    for (size_t j = 0; j < keys->count; j++) {
        for (size_t i = 0; i < queries->count; i++) {
            const gal_real less = queries->region[i] == keys->region[j] ? (gal_real)0 : unseen;
            scores[j * TILE + i] += h->table[entry_of(h, queries, i, keys, j)] - less;
        }
    }
}

static void fill_factors(const window_head *h, const tile_rows *queries, size_t key, size_t keys, gal_real *factor)
{
    gal_real row[TILE];
    for (size_t i = 0; i < queries->count; i++) {
        gal_dropout_factors(&h->at.dropout, h->at.dropout_index + queries->position[i] * h->at.dropout_stride + key,
                            keys, row);
        for (size_t j = 0; j < keys; j++) {
            factor[j * TILE + i] = row[j];
        }
    }
}

/* ---- forward ---- */

typedef struct forward_tiles {
    gal_real scores[TILE * TILE]; /* [key][query] */
    gal_real query[TILE * TILE];  /* [feature][query] */
    gal_real key[TILE * TILE];    /* [key][feature], then [query][feature] of what a tile of values gives */
    gal_real value[TILE * TILE];  /* [key][feature]; before that the factors of dropout */
} forward_tiles;

static void score_tile(const window_head *h, const tile_rows *queries, const tile_rows *keys, bool first_keys,
                       forward_tiles *tiles)
{
    const gal_attention_head *at = &h->at;
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        if (first_keys || at->dim > TILE) {
            gather_turned(at->q + first, at->stride, queries, span, tiles->query);
        }
        gather(at->k + first, at->kv_stride, keys, span, tiles->key);
        gal_attention_product(CblasNoTrans, keys->count, queries->count, span, at->scale, tiles->key, TILE,
                              tiles->query, first > 0, tiles->scores, TILE);
    }
    add_bias(h, queries, keys, tiles->scores);
}

static void drop(const window_head *h, const tile_rows *queries, size_t key, size_t keys, forward_tiles *tiles)
{
    fill_factors(h, queries, key, keys, tiles->value);
    for (size_t j = 0; j < keys; j++) {
        for (size_t i = 0; i < queries->count; i++) {
            tiles->scores[j * TILE + i] *= tiles->value[j * TILE + i];
        }
    }
}

static void add_values(const window_head *h, const tile_rows *queries, const tile_rows *keys, const gal_real *factor,
                       forward_tiles *tiles, gal_real *ctx)
{
    const gal_attention_head *at = &h->at;
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        gather(at->v + first, at->kv_stride, keys, span, tiles->value);
        gal_attention_product(CblasTrans, queries->count, span, keys->count, (gal_real)1, tiles->scores, TILE,
                              tiles->value, false, tiles->key, TILE);
        put_back(tiles->key, queries, span, factor != NULL, factor, ctx + first, at->ctx_stride);
    }
}

static void attend_queries(const window_head *h, size_t query, gal_real *ctx, gal_real *lse)
{
    forward_tiles tiles;
    gal_attention_softmax state;
    tile_rows queries, keys;
    const gal_attention_head *at = &h->at;
    find_rows(h, query, &queries);
    gal_attention_softmax_begin(&state);
    memset(tiles.scores, 0, sizeof tiles.scores);
    for (size_t key = 0; key < at->keys; key += TILE) {
        find_rows(h, key, &keys);
        score_tile(h, &queries, &keys, key == 0, &tiles);
        gal_attention_softmax_tile(tiles.scores, keys.count, &state);
        if (at->dropout.active) {
            drop(h, &queries, key, keys.count, &tiles);
        }
        add_values(h, &queries, &keys, key > 0 ? state.factor : NULL, &tiles, ctx);
    }
    for (size_t i = 0; i < queries.count; i++) {
        gal_real *row = ctx + queries.position[i] * at->ctx_stride;
        const gal_real factor = (gal_real)(1.0 / state.sum[i]);
        for (size_t j = 0; j < at->dim; j++) {
            row[j] *= factor;
        }
        lse[queries.position[i]] = (gal_real)((double)state.max[i] + log(state.sum[i]));
    }
}

/* ---- backward ---- */

typedef struct backward_tiles {
    gal_real probability[TILE * TILE];                            /* [key][query] */
    gal_real slope[TILE * TILE];                                  /* [key][query]: dO V^T, then dS */
    gal_real factor[TILE * TILE];                                 /* [key][query]: of dropout */
    gal_real query[TILE * TILE], dctx[TILE * TILE];               /* [query][feature] */
    gal_real query_turned[TILE * TILE], dctx_turned[TILE * TILE]; /* [feature][query] */
    gal_real key[TILE * TILE], value[TILE * TILE];                /* [key][feature] */
    gal_real out[TILE * TILE];
    gal_real dot[TILE], lse[TILE];
} backward_tiles;

static void slope_tile(const window_head *h, const gal_attention_gradients *to, const tile_rows *queries,
                       const tile_rows *keys, size_t key, backward_tiles *tiles)
{
    const gal_attention_head *at = &h->at;
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        gather_turned(at->q + first, at->stride, queries, span, tiles->query_turned);
        gather_turned(to->dctx + first, at->ctx_stride, queries, span, tiles->dctx_turned);
        gather(at->k + first, at->kv_stride, keys, span, tiles->key);
        gather(at->v + first, at->kv_stride, keys, span, tiles->value);
        gal_attention_product(CblasNoTrans, keys->count, queries->count, span, at->scale, tiles->key, TILE,
                              tiles->query_turned, first > 0, tiles->probability, TILE);
        gal_attention_product(CblasNoTrans, keys->count, queries->count, span, (gal_real)1, tiles->value, TILE,
                              tiles->dctx_turned, first > 0, tiles->slope, TILE);
    }
    add_bias(h, queries, keys, tiles->probability);
    if (at->dropout.active) {
        fill_factors(h, queries, key, keys->count, tiles->factor);
    }
    for (size_t j = 0; j < keys->count; j++) {
        gal_attention_differentiate(tiles->probability + j * TILE, tiles->slope + j * TILE, tiles->factor + j * TILE,
                                    tiles->lse, tiles->dot, (gal_real)1, 0, queries->count);
        for (size_t i = 0; i < queries->count; i++) {
            to->dbias[entry_of(h, queries, i, keys, j)] += tiles->slope[j * TILE + i];
        }
    }
}

static void add_gradients(const window_head *h, const gal_attention_gradients *to, const tile_rows *queries,
                          const tile_rows *keys, bool first_queries, bool first_keys, backward_tiles *tiles)
{
    const gal_attention_head *at = &h->at;
    const size_t rows = queries->count, count = keys->count;
    for (size_t first = 0; first < at->dim; first += TILE) {
        const size_t span = gal_attention_span(first, at->dim);
        gather(at->q + first, at->stride, queries, span, tiles->query);
        gather(to->dctx + first, at->ctx_stride, queries, span, tiles->dctx);
        gather(at->k + first, at->kv_stride, keys, span, tiles->key);
        gal_attention_product(CblasNoTrans, count, span, rows, (gal_real)1, tiles->probability, TILE, tiles->dctx,
                              false, tiles->out, TILE);
        put_back(tiles->out, keys, span, !first_queries, NULL, to->dv + first, at->kv_stride);
        gal_attention_product(CblasNoTrans, count, span, rows, at->scale, tiles->slope, TILE, tiles->query, false,
                              tiles->out, TILE);
        put_back(tiles->out, keys, span, !first_queries, NULL, to->dk + first, at->kv_stride);
        gal_attention_product(CblasTrans, rows, span, count, at->scale, tiles->slope, TILE, tiles->key, false,
                              tiles->out, TILE);
        put_back(tiles->out, queries, span, !first_keys, NULL, to->dq + first, at->stride);
    }
}

static void backward_queries(const window_head *h, const gal_attention_gradients *to, size_t query)
{
    backward_tiles tiles;
    tile_rows queries, keys;
    find_rows(h, query, &queries);
    for (size_t i = 0; i < TILE * TILE; i++) {
        tiles.factor[i] = 1;
    }
    for (size_t i = 0; i < queries.count; i++) {
        const size_t row = queries.position[i] * h->at.ctx_stride;
        tiles.lse[i] = to->lse[queries.position[i]];
        tiles.dot[i] = (gal_real)gal_row_dot(to->dctx + row, to->ctx + row, h->at.dim);
    }
    for (size_t key = 0; key < h->at.keys; key += TILE) {
        find_rows(h, key, &keys);
        slope_tile(h, to, &queries, &keys, key, &tiles);
        add_gradients(h, to, &queries, &keys, query == 0, key == 0, &tiles);
    }
}

/* ---- calls ---- */

static gal_code check_row(const gal_kernel_call *call, gal_error *err)
{
    if (UINT64_C(3) * call->dims[2] * call->dims[3] > INT_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "attention: %u heads of %u is more than BLAS takes", call->dims[2],
                        call->dims[3]);
    }
    return GAL_OK;
}

static size_t windows_of(const gal_kernel_call *call)
{
    const size_t across = call->dims[4] / call->dims[5];
    return across * across;
}

/* The table has the heads of all devices that share it. */
static size_t table_columns(const gal_kernel_call *call)
{
    return (size_t)call->dims[2] * (call->within_count > 1 ? call->within_count : 1);
}

static size_t table_column(const gal_kernel_call *call, size_t head)
{
    return (size_t)call->within_index * call->dims[2] + head;
}

static window_head head_of(const gal_kernel_call *call, const gal_real *qkv, const gal_real *table, size_t sample,
                           size_t head, size_t window)
{
    const size_t across = call->dims[4] / call->dims[5], heads = call->dims[2];
    window_head h = {.at = gal_attention_self_head(call, qkv, heads, sample, head),
                     .side = call->dims[4],
                     .window = call->dims[5],
                     .shift = call->dims[6],
                     .row = window / across * call->dims[5],
                     .column = window % across * call->dims[5],
                     .table = table + table_column(call, head),
                     .table_stride = table_columns(call)};
    h.at.sequence = h.at.keys = h.window * h.window;
    h.at.scale = (gal_real)(1.0 / sqrt((double)h.at.dim));
    h.at.dropout_stride = (h.at.keys + 3) / 4 * 4;
    if (h.at.dropout.active) {
        const uint64_t all_heads = (uint64_t)heads * call->group_count;
        const uint64_t global = call->sample_map[sample] * all_heads + call->group_index * (uint64_t)heads + head;
        h.at.dropout_index = global * call->dims[1] * h.at.dropout_stride;
    }
    return h;
}

static void forward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_kernel_call *call = split->call;
    const size_t heads = call->dims[2], windows = windows_of(call), end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        const window_head h =
            head_of(call, call->operand[0], call->operand[1], i / windows / heads, i / windows % heads, i % windows);
        for (size_t query = 0; query < h.at.sequence; query += TILE) {
            attend_queries(&h, query, (gal_real *)call->operand[2] + h.at.ctx_offset,
                           (gal_real *)call->operand[3] + h.at.lse_offset);
        }
    }
}

gal_code GAL_KERNEL(window_attention)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = check_row(call, err);
    if (code == GAL_OK) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[2] * windows_of(call), 1,
                      (size_t)call->dims[5] * call->dims[5] * call->dims[3], forward_part);
    }
    return code;
}

static void backward_window(const gal_kernel_call *call, size_t sample, size_t head, size_t window)
{
    const window_head h = head_of(call, call->operand[1], call->operand[4], sample, head, window);
    gal_real *dqkv = (gal_real *)call->operand[5] + h.at.qkv_offset;
    const gal_attention_gradients to = {
        .dctx = (const gal_real *)call->operand[0] + h.at.ctx_offset,
        .ctx = (const gal_real *)call->operand[2] + h.at.ctx_offset,
        .lse = (const gal_real *)call->operand[3] + h.at.lse_offset,
        .dq = dqkv,
        .dk = dqkv + h.at.k_offset,
        .dv = dqkv + h.at.v_offset,
        .dbias = (gal_real *)call->operand[6] + table_column(call, head),
    };
    for (size_t query = 0; query < h.at.sequence; query += TILE) {
        backward_queries(&h, &to, query);
    }
}

/* The windows of some heads, in order: they add to one column of the table's gradient. */
static void backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_kernel_call *call = split->call;
    const size_t samples = call->dims[0], windows = windows_of(call), end = gal_cut_begin(&split->cut, part + 1);
    for (size_t head = gal_cut_begin(&split->cut, part); head < end; head++) {
        for (size_t i = 0; i < samples * windows; i++) {
            backward_window(call, i / windows, head, i % windows);
        }
    }
}

gal_code GAL_KERNEL(window_attention_backward)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = check_row(call, err);
    if (code != GAL_OK) {
        return code;
    }
    if (!call->add) {
        const size_t offsets = 2 * (size_t)call->dims[5] - 1;
        memset(call->operand[6], 0, offsets * offsets * table_columns(call) * sizeof(gal_real));
    }
    gal_split_run(call, call->dims[2], 1, (size_t)call->dims[0] * call->dims[1] * call->dims[3], backward_part);
    return GAL_OK;
}
