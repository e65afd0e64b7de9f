/* Forward: a block has 64 queries of a head, a warp 16 of them. Keys and values come a tile at a time; while scores are
 * computed the values are under way, while values are summed the next keys are. What other keys gave before is added at
 * the end: a context is divided by its sum of exponentials, so it counts like one key of score lse. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_FORWARD_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_FORWARD_CUH

#include "runtime/ops/cuda/flash_tile.cuh"

/* Of the two rows that a lane has a part of. */
struct gal_flash_softmax {
    float max[2], sum[2]; /* sum: of this lane's columns alone */
};

/* Scores to exp(score - max); the sums so far are taken to the new maximum by factor. A row that has seen no key yet
 * keeps a maximum of -infinity. */
template <int N>
__device__ __forceinline__ void gal_flash_soften(float score[N / 8][4], gal_flash_softmax *state, float factor[2])
{
    const float log2e = 1.4426950408889634F;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float max = state->max[half];
#pragma unroll
        for (int n = 0; n < N / 8; n++) {
            max = fmaxf(max, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
        }
        max = gal_quad_max(max);
        const float from = max == -INFINITY ? 0.0F : max * log2e;
        factor[half] = exp2f(state->max[half] * log2e - from);
        state->max[half] = max;
        state->sum[half] *= factor[half];
#pragma unroll
        for (int n = 0; n < N / 8; n++) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                score[n][i] = exp2f(score[n][i] * log2e - from);
                state->sum[half] += score[n][i];
            }
        }
    }
}

/* The end of a row: its log-sum-exp, and what its sums and the context before are multiplied by. before: -infinity if
 * there is none. */
__device__ __forceinline__ float gal_flash_finish(float max, float sum, float before, float *own, float *kept)
{
    const float all = fmaxf(max, before), from = all == -INFINITY ? 0.0F : all;
    const float of_max = expf(max - from), of_before = expf(before - from), total = of_max * sum + of_before;
    *own = total == 0.0F ? 0.0F : of_max / total;
    *kept = total == 0.0F ? 0.0F : of_before / total;
    return all + logf(total);
}

template <class T, int D>
constexpr uint32_t gal_flash_forward_shared = (GAL_FLASH_ROWS + 2 * gal_flash_span<D>)*gal_flash_stride<D> * sizeof(T);

template <class T, int D>
__global__ void __launch_bounds__(GAL_FLASH_THREADS, 2)
    gal_flash_forward_tiles(const __grid_constant__ gal_flash f, const uint32_t *bucket)
{
    constexpr int N = gal_flash_span<D>;
    GAL_DYNAMIC_SHARED(shared);
    T *q = (T *)shared, *k = q + GAL_FLASH_ROWS * gal_flash_stride<D>, *v = k + N * gal_flash_stride<D>;
    const uint32_t tiles = gal_flash_tiles(f.queries), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t tile;
    const gal_flash_where at = gal_flash_split(f, blockIdx.x, f.heads, tiles, &tile);
    const gal_flash_head<T> head = gal_flash_head_of<T>(f, at);
    const uint32_t first = (tiles - 1 - tile) * GAL_FLASH_ROWS; /* of causal heads the longest rows first */
    const uint32_t last = first + GAL_FLASH_ROWS < f.queries ? first + GAL_FLASH_ROWS - 1 : f.queries - 1;
    const uint32_t end = gal_flash_key_end(&f, at.sample, last), query = first + 16 * warp + lane / 4;
    float out[D / 8][4] = {}, factor[2];
    gal_flash_softmax state = {{-INFINITY, -INFINITY}, {0.0F, 0.0F}};
    const gal_flash_extras<N> extras = gal_flash_extras_at<N>(f, v + N * gal_flash_stride<D>);
    const uint32_t place = (16 * warp + lane / 4) * extras.stride + 2 * (lane % 4); /* in them, of score[0][0] */
    const uint32_t row_end[2] = {query < f.queries ? gal_flash_key_end(&f, at.sample, query) : 0,
                                 query + 8 < f.queries ? gal_flash_key_end(&f, at.sample, query + 8) : 0};
    gal_flash_load<D, GAL_FLASH_ROWS>(f, at.window, head.q, first, f.queries, q);
    gal_flash_load<D, N>(f, at.window, head.k, 0, end, k);
    gal_copy_commit();
    for (uint32_t key = 0; key < end; key += N) {
        float score[N / 8][4];
        __syncthreads(); /* all are done with the values before */
        gal_flash_load<D, N>(f, at.window, head.v, key, end, v);
        gal_copy_commit();
        gal_flash_fill<T, N, false>(f, bucket, at, extras, first, key);
        gal_copy_wait<1>();
        __syncthreads();
        gal_flash_scores<D, N>(q, 16 * warp, k, score);
        __syncthreads();
        if (key + N < end) {
            gal_flash_load<D, N>(f, at.window, head.k, key + N, end, k);
        }
        gal_copy_commit();
#pragma unroll
        for (int n = 0; n < N / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t column = key + 8 * n + 2 * (lane % 4) + i % 2,
                               from = 8 * extras.stride * (i / 2) + 8 * n;
                const float bias = extras.bias != nullptr ? extras.bias[place + from + i % 2] : 0.0F;
                score[n][i] = column < row_end[i / 2] ? fmaf(f.scale, score[n][i], bias) : -INFINITY;
            }
        }
        gal_flash_soften<N>(score, &state, factor);
        if (extras.factor != nullptr) {
#pragma unroll
            for (int n = 0; n < N / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float kept = extras.factor[place + 8 * extras.stride * (i / 2) + 8 * n + i % 2];
                    score[n][i] = score[n][i] == 0.0F ? 0.0F : score[n][i] * kept; /* none where nothing is seen */
                }
            }
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                out[n][i] *= factor[i / 2];
            }
        }
        gal_copy_wait<1>();
        __syncthreads();
        gal_flash_accumulate<D, N, D>(score, v, 0, out);
    }
    gal_copy_wait<0>();
    float kept[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float sum = gal_quad_sum(state.sum[half]);
        const uint32_t i = query + 8 * half;
        const bool writes = lane % 4 == 0 && i < f.queries; /* it alone reads, too */
        float *lse = f.lse + (writes ? gal_flash_lse_at(&f, gal_flash_position(&f, at.window, i), at.sample, at.head)
                                     : 0);
        const float before = f.resumes ? gal_quad_max(writes ? *lse : -INFINITY) : -INFINITY;
        const float merged = gal_flash_finish(state.max[half], sum, before, &factor[half], &kept[half]);
        if (writes) {
            *lse = merged;
        }
    }
    const uint64_t to = gal_flash_ctx_at(&f, 0, at.sample, at.head), stride = (uint64_t)f.samples * f.heads * f.dim;
    if (f.wide) {
        gal_flash_store_wide<D>(f, at.window, out, factor, kept,
                                {(float *)shared, (float *)f.ctx + to, stride, first, f.queries, 0});
    } else {
        gal_flash_store<D>(f, at.window, out, factor, (T *)f.ctx + to, stride, first + 16 * warp, f.queries, 0);
    }
}

#endif
