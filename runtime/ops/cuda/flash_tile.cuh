/* Parts of the tiled kernels: tiles of rows in shared memory, their fragments, and scores.
 *
 * A block is four warps. D is the head's width in shared memory, at least f.dim; what lies beyond is zeros. Rows of a
 * tile are 16 bytes longer than D elements, so that the eight rows of a matrix lie in different banks. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_TILE_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_TILE_CUH

#include "runtime/ops/cuda/flash_pair.cuh"

enum { GAL_FLASH_WARPS = 4, GAL_FLASH_THREADS = 32 * GAL_FLASH_WARPS };

template <int D> constexpr int gal_flash_stride = D + 8;
/* Keys (of a forward, of dq) or queries (of dk and dv) that are treated at a time: fewer for wide heads, whose sums
 * fill the registers. */
template <int D> constexpr int gal_flash_span = D <= 64 ? 64 : D <= 128 ? 32 : 16;
/* Features of dk and dv that a block sums: both sums are in registers. */
template <int D> constexpr int gal_flash_part = D <= 128 ? D : 128;

/* Rows of queries, keys, ... of one head. */
template <class T> struct gal_flash_source {
    const T *base; /* of position 0 */
    uint64_t stride;
    bool wide; /* rows can be read by 16 bytes */
};

template <class T>
__device__ __forceinline__ gal_flash_source<T> gal_flash_source_of(const gal_flash &f, const void *base,
                                                                   uint64_t offset, uint64_t row)
{
    const T *from = (const T *)base + offset;
    const uint64_t stride = row * f.samples;
    return {from, stride, f.dim % 8 == 0 && stride % 8 == 0 && (uintptr_t)from % 16 == 0};
}

/* Begins to copy R rows from number `first` on; zeros behind `end` and behind f.dim. A commit and a wait follow. */
template <int D, int R, class T>
__device__ __forceinline__ void gal_flash_load(const gal_flash &f, uint32_t window, gal_flash_source<T> from,
                                               uint32_t first, uint32_t end, T *to)
{
    if (from.wide) {
        constexpr uint32_t each = D / 8;
#pragma unroll 4
        for (uint32_t n = threadIdx.x; n < R * each; n += GAL_FLASH_THREADS) {
            const uint32_t row = n / each, column = n % each * 8;
            const bool valid = first + row < end && column < f.dim;
            const uint32_t position = valid ? gal_flash_position(&f, window, first + row) : 0;
            gal_copy_begin(to + row * gal_flash_stride<D> + column,
                           from.base + (valid ? position * from.stride + column : 0), valid);
        }
        return;
    }
    for (uint32_t n = threadIdx.x; n < R * D; n += GAL_FLASH_THREADS) {
        const uint32_t row = n / D, column = n % D;
        const bool valid = first + row < end && column < f.dim;
        to[row * gal_flash_stride<D> + column] =
            valid ? from.base[gal_flash_position(&f, window, first + row) * from.stride + column]
                  : gal_element<T>(0.0F);
    }
}

/* Address that this lane gives for the four matrices of 16 rows from `row` and 16 columns from `column` on: first by
 * rows (a, and b of what is read turned), or first by columns (two b of 8 rows each). */
template <int D, class T>
__device__ __forceinline__ const T *gal_flash_by_rows(const T *tile, uint32_t row, uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    return tile + (row + lane % 16) * gal_flash_stride<D> + column + lane / 16 * 8;
}

template <int D, class T>
__device__ __forceinline__ const T *gal_flash_by_columns(const T *tile, uint32_t row, uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    return tile + (row + lane / 16 * 8 + lane % 8) * gal_flash_stride<D> + column + lane / 8 % 2 * 8;
}

/* out[16 rows of a][N rows of b] = a b^T over D features; a from its row `row`. */
template <int D, int N, class T>
__device__ __forceinline__ void gal_flash_scores(const T *a, uint32_t row, const T *b, float out[N / 8][4])
{
#pragma unroll
    for (int n = 0; n < N / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out[n][i] = 0.0F;
        }
    }
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t left[4];
        gal_load_matrices(left, gal_flash_by_rows<D>(a, row, k));
#pragma unroll
        for (int n = 0; n < N / 8; n += 2) {
            uint32_t right[4];
            gal_load_matrices(right, gal_flash_by_columns<D>(b, 8 * n, k));
            gal_multiply(out[n], left, right, T());
            gal_multiply(out[n + 1], left, right + 2, T());
        }
    }
}

/* sum[16][P] += values[16][N] b[N rows][columns from `column` on]; values rounded to T. */
template <int D, int N, int P, class T>
__device__ __forceinline__ void gal_flash_accumulate(const float values[N / 8][4], const T *b, uint32_t column,
                                                     float sum[P / 8][4])
{
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        const uint32_t left[4] = {gal_pack_two(values[2 * k][0], values[2 * k][1], T()),
                                  gal_pack_two(values[2 * k][2], values[2 * k][3], T()),
                                  gal_pack_two(values[2 * k + 1][0], values[2 * k + 1][1], T()),
                                  gal_pack_two(values[2 * k + 1][2], values[2 * k + 1][3], T())};
#pragma unroll
        for (int n = 0; n < P / 8; n += 2) {
            uint32_t right[4];
            gal_load_matrices_turned(right, gal_flash_by_rows<D>(b, 16 * k, column + 8 * n));
            gal_multiply(sum[n], left, right, T());
            gal_multiply(sum[n + 1], left, right + 2, T());
        }
    }
}

/* Writes 16 rows of sums, times factor[0] (row r) and [1] (row r + 8), from row `first` + r on. */
template <int P, class T>
__device__ __forceinline__ void gal_flash_store(const gal_flash &f, uint32_t window, const float sum[P / 8][4],
                                                const float factor[2], T *base, uint64_t stride, uint32_t first,
                                                uint32_t end, uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    const bool pairs = f.dim % 2 == 0 && stride % 2 == 0 && (uintptr_t)base % 4 == 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t row = first + lane / 4 + 8 * half;
        if (row >= end) {
            continue;
        }
        T *to = base + gal_flash_position(&f, window, row) * stride;
#pragma unroll
        for (int n = 0; n < P / 8; n++) {
            const uint32_t d = column + 8 * n + 2 * (lane % 4);
            const float low = factor[half] * sum[n][2 * half], high = factor[half] * sum[n][2 * half + 1];
            if (pairs && d < f.dim) {
                *(uint32_t *)(to + d) = gal_pack_two(low, high, T());
            } else {
                if (d < f.dim) {
                    to[d] = gal_element<T>(low);
                }
                if (d + 1 < f.dim) {
                    to[d + 1] = gal_element<T>(high);
                }
            }
        }
    }
}

/* What a block stores in fp32, through shared memory whose tiles are done with: kernels have no registers for a second
 * form of the store above. */
struct gal_flash_rows_out {
    float *shared, *base; /* base: of position 0 */
    uint64_t stride;
    uint32_t first, end; /* rows of the block: 64 from first, those before end */
    uint32_t column;
};

/* Sums of all warps, times factor, and kept times what was there. All threads; they begin and end with a barrier. */
template <int P>
__device__ __forceinline__ void gal_flash_store_wide(const gal_flash &f, uint32_t window, const float sum[P / 8][4],
                                                     const float factor[2], const float kept[2],
                                                     const gal_flash_rows_out &out)
{
    constexpr int C = P <= 128 ? P : 128; /* columns at a time: the tiles' bytes hold them */
    const uint32_t lane = threadIdx.x % 32, own = 16 * (threadIdx.x / 32) + lane / 4;
    float *row_kept = out.shared + GAL_FLASH_ROWS * C;
#pragma unroll
    for (int from = 0; from < P; from += C) {
        __syncthreads();
#pragma unroll
        for (int n = 0; n < C / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                out.shared[(own + 8 * (i / 2)) * C + 8 * n + 2 * (lane % 4) + i % 2] =
                    factor[i / 2] * sum[from / 8 + n][i];
            }
        }
        row_kept[own] = kept[0]; /* by each lane of a row alike */
        row_kept[own + 8] = kept[1];
        __syncthreads();
#pragma unroll 1
        for (uint32_t n = threadIdx.x; n < GAL_FLASH_ROWS * C; n += GAL_FLASH_THREADS) {
            const uint32_t row = n / C, d = out.column + from + n % C;
            if (out.first + row < out.end && d < f.dim) {
                float *to = out.base + gal_flash_position(&f, window, out.first + row) * out.stride + d;
                *to = out.shared[n] + (row_kept[row] == 0.0F ? 0.0F : row_kept[row] * *to);
            }
        }
    }
    __syncthreads();
}

/* One head of queries, and the keys that it sees. */
template <class T> struct gal_flash_head {
    gal_flash_source<T> q, k, v, dctx;
    const T *ctx;
    uint64_t ctx_stride;
    uint32_t kv_head;
};

template <class T>
__device__ __forceinline__ gal_flash_head<T> gal_flash_head_of(const gal_flash &f, gal_flash_where at)
{
    gal_flash_head<T> head;
    head.kv_head = at.head / (f.heads / f.kv_heads);
    const uint64_t kv = gal_flash_kv_at(&f, 0, at.sample, head.kv_head),
                   ctx = gal_flash_ctx_at(&f, 0, at.sample, at.head);
    head.q = gal_flash_source_of<T>(f, f.q, gal_flash_q_at(&f, 0, at.sample, at.head), f.q_row);
    head.k = gal_flash_source_of<T>(f, f.kv, f.k_offset + kv, f.kv_row);
    head.v = gal_flash_source_of<T>(f, f.kv, f.v_offset + kv, f.kv_row);
    head.dctx = gal_flash_source_of<T>(f, f.dctx, ctx, (uint64_t)f.heads * f.dim);
    return head;
}

/* ---- bias and dropout of a tile of pairs ---- */

/* Rows are the block's own, columns what passes by; a row is one longer than the span, against bank conflicts. NULL:
 * there is no bias, no dropout, and no place for it. */
template <int N> struct gal_flash_extras {
    float *bias, *factor;

    static constexpr uint32_t stride = N + 1, floats = GAL_FLASH_ROWS * stride;
};

template <int N> uint32_t gal_flash_extra_bytes(const gal_flash *f)
{
    const uint32_t tiles = (f->bias != GAL_FLASH_NO_BIAS ? 1U : 0U) + (f->dropout ? 1U : 0U);
    return tiles * gal_flash_extras<N>::floats * (uint32_t)sizeof(float);
}

template <int N> __device__ __forceinline__ gal_flash_extras<N> gal_flash_extras_at(const gal_flash &f, void *shared)
{
    float *from = (float *)shared;
    gal_flash_extras<N> extras = {nullptr, nullptr};
    if (f.bias != GAL_FLASH_NO_BIAS) {
        extras.bias = from;
        from += gal_flash_extras<N>::floats;
    }
    if (f.dropout) {
        extras.factor = from;
    }
    return extras;
}

/* Of rows from `row` and columns from `column` on; keys_are_rows: else queries are. All threads; a barrier follows. */
template <class T, int N, bool keys_are_rows>
__device__ __forceinline__ void gal_flash_fill(const gal_flash &f, const uint32_t *bucket, gal_flash_where at,
                                               gal_flash_extras<N> extras, uint32_t row, uint32_t column)
{
    constexpr uint32_t stride = gal_flash_extras<N>::stride;
    if (extras.bias != nullptr) {
#pragma unroll 1
        for (uint32_t n = threadIdx.x; n < GAL_FLASH_ROWS * N; n += GAL_FLASH_THREADS) {
            const uint32_t i = n / N, j = n % N, query = keys_are_rows ? column + j : row + i;
            const uint32_t key = keys_are_rows ? row + i : column + j;
            if (query < f.queries && key < f.keys) {
                extras.bias[i * stride + j] = gal_flash_bias_of<T>(f, bucket, at, query, key);
            }
        }
    }
    if (extras.factor != nullptr) {
        /* By quads of keys. */
        constexpr uint32_t quads = (keys_are_rows ? GAL_FLASH_ROWS : N) / 4;
#pragma unroll 1
        for (uint32_t n = threadIdx.x; n < GAL_FLASH_ROWS * N / 4; n += GAL_FLASH_THREADS) {
            const uint32_t i = n / quads, j = n % quads * 4, query = (keys_are_rows ? column : row) + i;
            const uint32_t key = (keys_are_rows ? row : column) + j;
            if (query < f.queries && key < f.keys) {
                const uint32_t position = gal_flash_position(&f, at.window, query);
                const uint64_t number = gal_flash_dropout_at(&f, position, at.sample, at.head) + key;
                float *to = extras.factor + (keys_are_rows ? j * stride + i : i * stride + j);
                constexpr uint32_t next = keys_are_rows ? stride : 1;
                if (f.key_begin % 4 != 0) { /* a ring cuts the quads of some chunks */
#pragma unroll 1
                    for (uint32_t l = 0; l < 4; l++) {
                        to[l * next] = gal_flash_factor_of(f, number + l);
                    }
                    continue;
                }
                float out[4];
                gal_flash_factors(f, number / 4, out);
#pragma unroll
                for (uint32_t l = 0; l < 4; l++) {
                    to[l * next] = out[l];
                }
            }
        }
    }
}

#endif
