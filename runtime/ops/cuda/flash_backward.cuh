/* Backward, in two kernels that each own what they sum, so that nothing is added in an order that may differ:
 *   dk, dv   a block has 64 keys, a warp 16 of them; tiles of queries of all heads that share the keys pass by. Scores
 * are of keys by queries, so what they multiply, queries and dctx, is the second factor as it lies. dq       a block
 * has 64 queries; tiles of keys pass by. Sums of the bias' gradient too, each entry by one thread. With mask M (0 or
 * the keep scale), P the probabilities, D = rowsum(dO O): dV = (P M)^T dO, dS = P (M dO V^T - D), dQ = c dS K, dK = c
 * dS^T Q, c the scale. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_BACKWARD_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_BACKWARD_CUH

#include "runtime/ops/cuda/flash_tile.cuh"

/* D of a query. A thread per query: dctx and ctx are read once, which the products read many times. */
template <class T> __global__ void gal_flash_dots(const __grid_constant__ gal_flash f, uint64_t count)
{
    const uint64_t index = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) {
        return;
    }
    const uint32_t queries = f.queries * f.windows;
    const uint32_t position = (uint32_t)(index % queries), row = (uint32_t)(index / queries);
    const uint64_t from = gal_flash_ctx_at(&f, position, row / f.heads, row % f.heads);
    const T *dctx = (const T *)f.dctx + from, *ctx = (const T *)f.ctx + from;
    float sum = 0.0F;
    for (uint32_t d = 0; d < f.dim; d++) {
        sum = fmaf(gal_number(dctx[d]), gal_number(ctx[d]), sum);
    }
    ((float *)f.workspace)[gal_flash_lse_at(&f, position, row / f.heads, row % f.heads)] = sum;
}

/* A pair's probability (times its factor of dropout) and slope, given its product and that of dctx and value; zeros
 * if it is not seen. place: of the pair in extras. */
template <int N>
__device__ __forceinline__ void gal_flash_differentiate(const gal_flash &f, gal_flash_extras<N> extras, uint32_t place,
                                                        bool seen, float lse, float dot, float *probability,
                                                        float *slope)
{
    const float bias = extras.bias != nullptr ? extras.bias[place] : 0.0F;
    const float factor = extras.factor != nullptr ? extras.factor[place] : 1.0F;
    const float p = exp2f((fmaf(f.scale, *probability, bias) - lse) * 1.4426950408889634F);
    *slope = seen ? p * (factor * *slope - dot) : 0.0F;
    *probability = seen ? p * factor : 0.0F;
}

/* ---- dk, dv ---- */

/* lse and D of the queries of a tile lie behind the tiles. */
template <class T, int D>
constexpr uint32_t gal_flash_dkv_shared = (2 * GAL_FLASH_ROWS + 2 * gal_flash_span<D>)*gal_flash_stride<D> * sizeof(T) +
                                          2 * gal_flash_span<D> * sizeof(float);

template <class T, int D>
__global__ void __launch_bounds__(GAL_FLASH_THREADS)
    gal_flash_dkv_tiles(const __grid_constant__ gal_flash f, const uint32_t *bucket)
{
    constexpr int N = gal_flash_span<D>, P = gal_flash_part<D>;
    GAL_DYNAMIC_SHARED(shared);
    T *k = (T *)shared, *v = k + GAL_FLASH_ROWS * gal_flash_stride<D>, *q = v + GAL_FLASH_ROWS * gal_flash_stride<D>;
    T *dctx = q + N * gal_flash_stride<D>;
    float *lse = (float *)(dctx + N * gal_flash_stride<D>), *dot = lse + N;
    const gal_flash_extras<N> extras = gal_flash_extras_at<N>(f, dot + N);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = f.heads / f.kv_heads;
    const uint32_t column = blockIdx.x % (D / P) * P; /* the features that this block sums */
    uint32_t tile;
    const gal_flash_where kv = gal_flash_split(f, blockIdx.x / (D / P), f.kv_heads, gal_flash_tiles(f.keys), &tile);
    const uint32_t first = tile * GAL_FLASH_ROWS, begin = gal_flash_query_begin(&f, kv.sample, first);
    const uint32_t key = first + 16 * warp + lane / 4; /* and 8 more */
    const uint32_t row_begin[2] = {key < f.keys ? gal_flash_query_begin(&f, kv.sample, key) : f.queries,
                                   key + 8 < f.keys ? gal_flash_query_begin(&f, kv.sample, key + 8) : f.queries};
    float dk[P / 8][4] = {}, dv[P / 8][4] = {};
    gal_flash_head<T> head = gal_flash_head_of<T>(f, {kv.sample, kv.head * group, kv.window});
    gal_flash_load<D, GAL_FLASH_ROWS>(f, kv.window, head.k, first, f.keys, k);
    gal_flash_load<D, GAL_FLASH_ROWS>(f, kv.window, head.v, first, f.keys, v);
    for (uint32_t h = 0; h < group; h++) {
        const gal_flash_where at = {kv.sample, kv.head * group + h, kv.window};
        head = gal_flash_head_of<T>(f, at);
        for (uint32_t query = begin / N * N; query < f.queries; query += N) {
            float probability[N / 8][4], slope[N / 8][4];
            __syncthreads(); /* all are done with the queries before */
            gal_flash_load<D, N>(f, at.window, head.q, query, f.queries, q);
            gal_flash_load<D, N>(f, at.window, head.dctx, query, f.queries, dctx);
            gal_copy_commit();
            if (threadIdx.x < N && query + threadIdx.x < f.queries) {
                const uint32_t position = gal_flash_position(&f, at.window, query + threadIdx.x);
                const uint64_t row = gal_flash_lse_at(&f, position, at.sample, at.head);
                lse[threadIdx.x] = f.lse[row];
                dot[threadIdx.x] = ((const float *)f.workspace)[row];
            }
            gal_flash_fill<T, N, true>(f, bucket, at, extras, first, query);
            gal_copy_wait<0>();
            __syncthreads();
            gal_flash_scores<D, N>(k, 16 * warp, q, probability);
            gal_flash_scores<D, N>(v, 16 * warp, dctx, slope);
#pragma unroll
            for (int n = 0; n < N / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t column = 8 * n + 2 * (lane % 4) + i % 2, row = 16 * warp + lane / 4 + 8 * (i / 2);
                    const bool seen = query + column >= row_begin[i / 2] && query + column < f.queries;
                    gal_flash_differentiate<N>(f, extras, row * extras.stride + column, seen, lse[column], dot[column],
                                               &probability[n][i], &slope[n][i]);
                }
            }
            gal_flash_accumulate<D, N, P>(probability, dctx, column, dv);
            gal_flash_accumulate<D, N, P>(slope, q, column, dk);
        }
    }
    gal_copy_commit();
    gal_copy_wait<0>();
    const float scale[2] = {f.scale, f.scale}, one[2] = {1.0F, 1.0F};
    const float before = f.resumes_keys ? 1.0F : 0.0F, kept[2] = {before, before};
    const uint64_t stride = f.kv_row * f.samples, base = gal_flash_kv_at(&f, 0, kv.sample, kv.head);
    if (f.wide) {
        float *to = (float *)f.dkv + base;
        gal_flash_store_wide<P>(f, kv.window, dk, scale, kept,
                                {(float *)shared, to + f.k_offset, stride, first, f.keys, column});
        gal_flash_store_wide<P>(f, kv.window, dv, one, kept,
                                {(float *)shared, to + f.v_offset, stride, first, f.keys, column});
        return;
    }
    gal_flash_store<P>(f, kv.window, dk, scale, (T *)f.dkv + f.k_offset + base, stride, first + 16 * warp, f.keys,
                       column);
    gal_flash_store<P>(f, kv.window, dv, one, (T *)f.dkv + f.v_offset + base, stride, first + 16 * warp, f.keys,
                       column);
}

/* ---- dq, and the bias ---- */

/* With the sums of a tile's diagonals, between the tiles and the extras. */
template <class T, int D>
constexpr uint32_t gal_flash_dq_shared = (2 * GAL_FLASH_ROWS + 2 * gal_flash_span<D>)*gal_flash_stride<D> * sizeof(T) +
                                         (GAL_FLASH_ROWS + gal_flash_span<D>)*sizeof(float);

/* Pairs of a diagonal have one distance and so one bucket: diagonals first, then those of a bucket in order. */
template <int N, int S>
__device__ __forceinline__ void gal_flash_sum_buckets(const gal_flash &f, const uint32_t *bucket, const float *slope,
                                                      float *diagonal, uint32_t query, uint32_t key, float *sums)
{
    for (uint32_t d = threadIdx.x; d < GAL_FLASH_ROWS + N - 1; d += GAL_FLASH_THREADS) {
        float sum = 0.0F;
        for (uint32_t i = 0; i < GAL_FLASH_ROWS; i++) {
            const uint32_t j = i + d - (GAL_FLASH_ROWS - 1); /* below 0 wraps and is large */
            sum += j < N ? slope[i * S + j] : 0.0F;
        }
        diagonal[d] = sum;
    }
    __syncthreads();
    for (uint32_t entry = threadIdx.x; entry < f.bias_entries; entry += GAL_FLASH_THREADS) {
        float sum = 0.0F;
        for (uint32_t d = 0; d < GAL_FLASH_ROWS + N - 1; d++) {
            const uint32_t distance = gal_flash_distance(&f, query, key) + d - (GAL_FLASH_ROWS - 1);
            const bool there = distance < f.queries + f.keys - 1;
            sum += there && bucket[distance] == entry ? diagonal[d] : 0.0F;
        }
        sums[entry] += sum;
    }
}

/* An entry has at most one key for a query. */
template <int N, int S>
__device__ __forceinline__ void gal_flash_sum_window(const gal_flash &f, const float *slope, uint32_t query,
                                                     uint32_t key, float *sums)
{
    for (uint32_t entry = threadIdx.x; entry < f.bias_entries; entry += GAL_FLASH_THREADS) {
        float sum = 0.0F;
        for (uint32_t i = 0; i < GAL_FLASH_ROWS && query + i < f.queries; i++) {
            const uint32_t j = gal_flash_key_of_entry(&f, query + i, entry);
            sum += j < f.keys && j - key < N ? slope[i * S + j - key] : 0.0F; /* j < key wraps and is large */
        }
        sums[entry] += sum;
    }
}

/* Blocks on a multiprocessor that ptxas is to make room for in the registers; 0: its choice. Left alone it wants four
 * of narrow heads on sm_100 and spills for it, and three of heads of 64 on sm_90, where four fit without a spill, as
 * they do on neither sm_80 nor sm_100 (make lint-cuda). */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
template <int D> constexpr int gal_flash_dq_blocks = D <= 32 ? 3 : D <= 64 ? 4 : 0;
#else
template <int D> constexpr int gal_flash_dq_blocks = D <= 32 ? 3 : 0;
#endif

template <class T, int D>
__global__ void __launch_bounds__(GAL_FLASH_THREADS, gal_flash_dq_blocks<D>)
    gal_flash_dq_tiles(const __grid_constant__ gal_flash f, const uint32_t *bucket, float *all_sums, uint32_t slots)
{
    constexpr int N = gal_flash_span<D>, S = gal_flash_extras<N>::stride, P = gal_flash_part<D>;
    GAL_DYNAMIC_SHARED(shared);
    T *q = (T *)shared, *dctx = q + GAL_FLASH_ROWS * gal_flash_stride<D>;
    T *k = dctx + GAL_FLASH_ROWS * gal_flash_stride<D>, *v = k + N * gal_flash_stride<D>;
    float *diagonal = (float *)(v + N * gal_flash_stride<D>);
    const gal_flash_extras<N> extras = gal_flash_extras_at<N>(f, diagonal + GAL_FLASH_ROWS + N);
    float *slopes = extras.bias; /* a lane reads a pair's bias and leaves its slope */
    const uint32_t tiles = gal_flash_tiles(f.queries), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t column = blockIdx.x % (D / P) * P, block = blockIdx.x / (D / P); /* features that it sums */
    gal_flash_where at = {0, block / slots, 0};
    float *sums = all_sums == nullptr || column > 0 ? nullptr : all_sums + (uint64_t)block * f.bias_entries;
    for (uint32_t entry = threadIdx.x; sums != nullptr && entry < f.bias_entries; entry += GAL_FLASH_THREADS) {
        sums[entry] = 0.0F; /* the same thread adds to it below */
    }
    for (uint64_t item = block % slots; item < gal_flash_items(&f); item += slots) {
        at.window = (uint32_t)(item / tiles % f.windows);
        at.sample = (uint32_t)(item / tiles / f.windows);
        const gal_flash_head<T> head = gal_flash_head_of<T>(f, at);
        const uint32_t first = (tiles - 1 - (uint32_t)(item % tiles)) * GAL_FLASH_ROWS;
        const uint32_t last = first + GAL_FLASH_ROWS < f.queries ? first + GAL_FLASH_ROWS - 1 : f.queries - 1;
        const uint32_t end = gal_flash_key_end(&f, at.sample, last), query = first + 16 * warp + lane / 4;
        float dq[P / 8][4] = {}, lse[2] = {}, dot[2] = {};
        uint32_t row_end[2] = {};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (query + 8 * half < f.queries) {
                const uint32_t position = gal_flash_position(&f, at.window, query + 8 * half);
                lse[half] = f.lse[gal_flash_lse_at(&f, position, at.sample, at.head)];
                dot[half] = ((const float *)f.workspace)[gal_flash_lse_at(&f, position, at.sample, at.head)];
                row_end[half] = gal_flash_key_end(&f, at.sample, query + 8 * half);
            }
        }
        __syncthreads(); /* all are done with the item before */
        gal_flash_load<D, GAL_FLASH_ROWS>(f, at.window, head.q, first, f.queries, q);
        gal_flash_load<D, GAL_FLASH_ROWS>(f, at.window, head.dctx, first, f.queries, dctx);
        for (uint32_t key = 0; key < end; key += N) {
            float probability[N / 8][4], slope[N / 8][4];
            __syncthreads();
            gal_flash_load<D, N>(f, at.window, head.k, key, end, k);
            gal_flash_load<D, N>(f, at.window, head.v, key, end, v);
            gal_copy_commit();
            gal_flash_fill<T, N, false>(f, bucket, at, extras, first, key);
            gal_copy_wait<0>();
            __syncthreads();
            gal_flash_scores<D, N>(q, 16 * warp, k, probability);
            gal_flash_scores<D, N>(dctx, 16 * warp, v, slope);
#pragma unroll
            for (int n = 0; n < N / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t j = 8 * n + 2 * (lane % 4) + i % 2, row = 16 * warp + lane / 4 + 8 * (i / 2);
                    const bool seen = key + j < row_end[i / 2];
                    gal_flash_differentiate<N>(f, extras, row * S + j, seen, lse[i / 2], dot[i / 2], &probability[n][i],
                                               &slope[n][i]);
                    if (sums != nullptr) {
                        slopes[row * S + j] = slope[n][i];
                    }
                }
            }
            gal_flash_accumulate<D, N, P>(slope, k, column, dq);
            if (sums != nullptr) {
                __syncthreads();
                if (f.bias == GAL_FLASH_BUCKETS) {
                    gal_flash_sum_buckets<N, S>(f, bucket, slopes, diagonal, first, key, sums);
                } else {
                    gal_flash_sum_window<N, S>(f, slopes, first, key, sums);
                }
            }
        }
        gal_copy_commit(); /* of queries that see no key */
        gal_copy_wait<0>();
        const float scale[2] = {f.scale, f.scale};
        if (f.wide) {
            const uint64_t to = gal_flash_dq_at(&f, 0, at.sample, at.head), stride = f.dq_row * f.samples;
            const float kept = f.resumes ? 1.0F : 0.0F, both[2] = {kept, kept};
            gal_flash_store_wide<P>(f, at.window, dq, scale, both,
                                    {(float *)shared, (float *)f.dq + to, stride, first, f.queries, column});
        } else {
            gal_flash_store<P>(f, at.window, dq, scale, (T *)f.dq + gal_flash_q_at(&f, 0, at.sample, at.head),
                               f.q_row * f.samples, first + 16 * warp, f.queries, column);
        }
    }
}

#endif
