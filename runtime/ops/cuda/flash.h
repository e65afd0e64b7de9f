/* Our own attention: one description of a call serves self-attention with shared keys, relative attention, windows of a
 * grid, cross-attention, and the steps of a ring. Where a row lies, who sees whom, which entry of a bias and which
 * number of dropout belongs to a pair are functions here; kernels and tests use these alone.
 *
 * Queries and keys are numbered within their sequence, or within their window, from 0. Rows of a position follow
 * [position][sample]. Scores of a pair: scale * q k + bias; not seen: -infinity.
 * Source: T. Dao, "FlashAttention-2", arXiv 2307.08691, algorithms 1 and 2. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_H
#define GAL_RUNTIME_OPS_CUDA_FLASH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GAL_FLASH_INLINE __host__ __device__ __forceinline__
#else
#define GAL_FLASH_INLINE static inline
#endif

typedef enum gal_flash_type { GAL_FLASH_FP32, GAL_FLASH_BF16, GAL_FLASH_FP16 } gal_flash_type;

typedef enum gal_flash_bias {
    GAL_FLASH_NO_BIAS,
    GAL_FLASH_BUCKETS, /* of the distance key - query, as in T5 */
    GAL_FLASH_WINDOW   /* of the offset of rows and columns, as in Swin; 100 less where only a shift made neighbours */
} gal_flash_bias;

typedef struct gal_flash {
    uint32_t samples, heads, kv_heads, dim;
    uint32_t queries, keys; /* of a sequence, or of a window */
    uint32_t windows;       /* of a sample; 1: none */
    uint32_t positions;     /* of a sample in lse: queries * windows, or more if these are a part */
    bool causal;
    bool add;                        /* to dbias */
    bool wide;                       /* ctx of the forward, dq and dkv of the backward are fp32 */
    bool resumes;                    /* ctx and lse, or dq, have what other keys gave before: these are added */
    bool resumes_keys;               /* dkv, if wide, has what other queries gave before: these are added */
    uint32_t query_begin, key_begin; /* global positions of the first ones: what causal and buckets compare */
    float scale;
    uint64_t q_row, dq_row;       /* elements of a row of q, of its gradient */
    uint64_t kv_row;              /* of k and v, and of their gradients */
    uint64_t k_offset, v_offset;  /* of head 0 in such a row */
    uint32_t side, window, shift; /* GAL_FLASH_WINDOW: of the grid */
    gal_flash_bias bias;
    uint32_t bias_stride, bias_column; /* entry e of local head h is at e * stride + column + h */
    uint32_t bias_entries;             /* rows of the table */
    uint32_t max_distance;             /* GAL_FLASH_BUCKETS */
    /* Dropout (runtime/ops/ops.h): number of a pair = ((map[sample] * all_heads + head_begin + head) * dropout_rows +
     * row of the query) * dropout_row + key, both as global positions. */
    bool dropout;
    uint32_t drop_max, dropout_site, all_heads, head_begin, dropout_rows, dropout_row;
    float keep_scale;
    const uint32_t *sample_map;
    const void *step; /* gal_cuda_step */
    const int32_t
        *lengths; /* [samples]: keys from there on are not seen, 1 to keys; NULL: all are. Not of causal ones */
    /* Operands. lse fp32; table of the call's type, dbias fp32. */
    const void *q, *kv, *table;
    void *ctx;
    float *lse;
    const void *dctx;
    void *dq, *dkv;
    float *dbias;
    void *workspace;
    uint64_t workspace_bytes;
} gal_flash;

/* ---- where rows lie ---- */

/* Position in the sample of query or key i of a window; of a grid that is turned by shift. */
GAL_FLASH_INLINE uint32_t gal_flash_position(const gal_flash *f, uint32_t window, uint32_t i)
{
    if (f->bias != GAL_FLASH_WINDOW) {
        return i;
    }
    const uint32_t across = f->side / f->window;
    const uint32_t row = window / across * f->window + i / f->window,
                   column = window % across * f->window + i % f->window;
    return (row + f->shift) % f->side * f->side + (column + f->shift) % f->side;
}

GAL_FLASH_INLINE uint64_t gal_flash_q_at(const gal_flash *f, uint32_t position, uint32_t sample, uint32_t head)
{
    return ((uint64_t)position * f->samples + sample) * f->q_row + (uint64_t)head * f->dim;
}

GAL_FLASH_INLINE uint64_t gal_flash_dq_at(const gal_flash *f, uint32_t position, uint32_t sample, uint32_t head)
{
    return ((uint64_t)position * f->samples + sample) * f->dq_row + (uint64_t)head * f->dim;
}

/* Without k_offset or v_offset. */
GAL_FLASH_INLINE uint64_t gal_flash_kv_at(const gal_flash *f, uint32_t position, uint32_t sample, uint32_t kv_head)
{
    return ((uint64_t)position * f->samples + sample) * f->kv_row + (uint64_t)kv_head * f->dim;
}

GAL_FLASH_INLINE uint64_t gal_flash_ctx_at(const gal_flash *f, uint32_t position, uint32_t sample, uint32_t head)
{
    return (((uint64_t)position * f->samples + sample) * f->heads + head) * f->dim;
}

GAL_FLASH_INLINE uint64_t gal_flash_lse_at(const gal_flash *f, uint32_t position, uint32_t sample, uint32_t head)
{
    return ((uint64_t)sample * f->heads + head) * f->positions + position;
}

/* ---- who sees whom ---- */

/* Keys that query i of a sample sees are those below this number. */
GAL_FLASH_INLINE uint32_t gal_flash_key_end(const gal_flash *f, uint32_t sample, uint32_t query)
{
    if (!f->causal) {
        return f->lengths != NULL ? (uint32_t)f->lengths[sample] : f->keys;
    }
    const int64_t end = (int64_t)f->query_begin + query + 1 - (int64_t)f->key_begin;
    return end <= 0 ? 0 : end < (int64_t)f->keys ? (uint32_t)end : f->keys;
}

/* Queries that see key j are those from this number on. */
GAL_FLASH_INLINE uint32_t gal_flash_query_begin(const gal_flash *f, uint32_t sample, uint32_t key)
{
    const int64_t begin = (int64_t)f->key_begin + key - (int64_t)f->query_begin;
    if (f->lengths != NULL && key >= (uint32_t)f->lengths[sample]) {
        return f->queries;
    }
    return !f->causal || begin <= 0 ? 0 : begin < (int64_t)f->queries ? (uint32_t)begin : f->queries;
}

/* ---- bias ---- */

/* Distances of all pairs are numbered from 0: key - query + queries - 1. */
GAL_FLASH_INLINE uint32_t gal_flash_distance(const gal_flash *f, uint32_t query, uint32_t key)
{
    return key + (f->queries - 1) - query;
}

/* As runtime/ops/host/attention_t5.c, with the same logarithms: a distance that begins a bucket belongs to it. */
GAL_FLASH_INLINE uint32_t gal_flash_bucket(const gal_flash *f, int64_t distance)
{
    const uint32_t side = f->causal ? f->bias_entries : f->bias_entries / 2, exact = side / 2;
    const uint32_t first = !f->causal && distance > 0 ? side : 0;
    const uint64_t behind = distance < 0 ? (uint64_t)-distance : 0;
    const uint64_t far = distance < 0 || f->causal ? behind : (uint64_t)distance;
    if (far < exact) {
        return first + (uint32_t)far;
    }
    const double share = log((double)far / exact) / log((double)f->max_distance / exact);
    const double steps = floor(share * (double)(side - exact) + 1e-9);
    return first + (steps < (double)(side - exact) ? exact + (uint32_t)steps : side - 1);
}

/* Of a query or key in its window: row and column as the table numbers them, and which part of the grid it is in, as
 * the turn cuts it. */
typedef struct gal_flash_place {
    uint32_t offset, region;
} gal_flash_place;

GAL_FLASH_INLINE gal_flash_place gal_flash_place_of(const gal_flash *f, uint32_t window, uint32_t i)
{
    const uint32_t across = f->side / f->window, y = i / f->window, x = i % f->window;
    const uint32_t kept = f->side - f->shift; /* rows and columns in front of those turned over */
    const gal_flash_place place = {y * (2 * f->window - 1) + x,
                                   (uint32_t)(window / across * f->window + y >= kept) +
                                       2 * (uint32_t)(window % across * f->window + x >= kept)};
    return place;
}

GAL_FLASH_INLINE uint32_t gal_flash_entry(const gal_flash *f, gal_flash_place query, gal_flash_place key)
{
    return query.offset + 2 * f->window * (f->window - 1) - key.offset;
}

/* The key that has this entry with the query, or f->keys if it is not in the window. */
GAL_FLASH_INLINE uint32_t gal_flash_key_of_entry(const gal_flash *f, uint32_t query, uint32_t entry)
{
    const uint32_t wide = 2 * f->window - 1;
    const uint32_t y = query / f->window + f->window - 1 - entry / wide;
    const uint32_t x = query % f->window + f->window - 1 - entry % wide;
    return y < f->window && x < f->window ? y * f->window + x : f->keys; /* below 0 wraps and is large */
}

/* ---- dropout ---- */

/* Number of a query's key 0; modulo 4 it is key_begin. */
GAL_FLASH_INLINE uint64_t gal_flash_dropout_at(const gal_flash *f, uint32_t position, uint32_t sample, uint32_t head)
{
    const uint64_t whole = (uint64_t)f->sample_map[sample] * f->all_heads + f->head_begin + head;
    return (whole * f->dropout_rows + f->query_begin + position) * f->dropout_row + f->key_begin;
}

/* ---- work is cut into tiles of queries ---- */

enum { GAL_FLASH_ROWS = 64, GAL_FLASH_SLOTS_MAX = 256, GAL_FLASH_DIM_MAX = 256 };

GAL_FLASH_INLINE uint32_t gal_flash_tiles(uint32_t rows)
{
    return (rows + GAL_FLASH_ROWS - 1) / GAL_FLASH_ROWS;
}

/* Queries of all samples and heads. */
GAL_FLASH_INLINE uint64_t gal_flash_query_count(const gal_flash *f)
{
    return (uint64_t)f->samples * f->heads * f->windows * f->queries;
}

/* Of one head: its samples, windows and tiles of queries. */
GAL_FLASH_INLINE uint64_t gal_flash_items(const gal_flash *f)
{
    return (uint64_t)f->samples * f->windows * gal_flash_tiles(f->queries);
}

/* Blocks that share a head's gradient of the bias, each with sums of its own: a function of the shape alone, so that
 * the order of the sum is. */
GAL_FLASH_INLINE uint32_t gal_flash_slots(const gal_flash *f)
{
    const uint64_t items = gal_flash_items(f), most = ((uint64_t)1 << 20) / (f->bias_entries + 1) + 1;
    const uint64_t slots = items < GAL_FLASH_SLOTS_MAX ? items : (uint64_t)GAL_FLASH_SLOTS_MAX;
    return (uint32_t)(slots < most ? slots : most);
}

/* Workspace: D of the queries fp32[samples][heads][positions] | buckets of all distances uint32 | sums of the bias'
 * gradient fp32[heads][slots][entries]. Each from a multiple of 256 bytes. */
typedef struct gal_flash_layout {
    uint64_t buckets, sums, bytes;
} gal_flash_layout;

GAL_FLASH_INLINE uint64_t gal_flash_aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

GAL_FLASH_INLINE gal_flash_layout gal_flash_layout_of(const gal_flash *f, bool backward)
{
    gal_flash_layout at;
    at.buckets = backward ? gal_flash_aligned((uint64_t)f->samples * f->heads * f->positions * sizeof(float)) : 0;
    at.sums = at.buckets;
    if (f->bias == GAL_FLASH_BUCKETS) {
        at.sums += gal_flash_aligned(((uint64_t)f->queries + f->keys) * sizeof(uint32_t));
    }
    at.bytes = at.sums;
    if (backward && f->bias != GAL_FLASH_NO_BIAS) {
        at.bytes += (uint64_t)f->heads * gal_flash_slots(f) * f->bias_entries * sizeof(float);
    }
    return at;
}

#ifdef __cplusplus
extern "C" {
#endif

/* Queue on `stream`; return a cudaError_t, 0 if all was queued. Operands that they write: ctx and lse; dq, dkv and
 * dbias. No queries: gradients of keys that nobody sees are zeros. f->dim <= GAL_FLASH_DIM_MAX but for GAL_FLASH_FP32,
 * which takes any. No two runs differ in a bit. */
int gal_flash_forward(const gal_flash *f, gal_flash_type type, void *stream);
int gal_flash_backward(const gal_flash *f, gal_flash_type type, void *stream);

#ifdef __cplusplus
}
#endif

#endif
