/* Attention by one thread per query or key, without tensor cores or shared memory: for fp32, where it serves tests and
 * small models, and as what the tiled kernels are compared with. Scores are computed anew for every CHUNK features of
 * an output, so that what a thread keeps is of one size for all heads. */
#ifndef GAL_RUNTIME_OPS_CUDA_FLASH_SCALAR_CUH
#define GAL_RUNTIME_OPS_CUDA_FLASH_SCALAR_CUH

#include "runtime/ops/cuda/flash_pair.cuh"

enum { GAL_FLASH_CHUNK = 32, GAL_FLASH_SCALAR_THREADS = 64 };

template <class T> __device__ __forceinline__ float gal_flash_dot(const T *x, const T *y, uint32_t count)
{
    float sum = 0.0F;
    for (uint32_t i = 0; i < count; i++) {
        sum = fmaf(gal_number(x[i]), gal_number(y[i]), sum);
    }
    return sum;
}

/* Rows of one head. */
template <class T> struct gal_flash_rows {
    const gal_flash &f;
    const uint32_t *bucket;
    gal_flash_where at;

    __device__ uint32_t kv_head() const
    {
        return at.head / (f.heads / f.kv_heads);
    }
    __device__ const T *query(uint32_t i) const
    {
        return (const T *)f.q + gal_flash_q_at(&f, gal_flash_position(&f, at.window, i), at.sample, at.head);
    }
    __device__ const T *key(uint32_t j) const
    {
        return (const T *)f.kv + f.k_offset +
               gal_flash_kv_at(&f, gal_flash_position(&f, at.window, j), at.sample, kv_head());
    }
    __device__ const T *value(uint32_t j) const
    {
        return key(j) + (f.v_offset - f.k_offset);
    }
    __device__ float score(uint32_t i, uint32_t j) const
    {
        const float product = f.scale * gal_flash_dot(query(i), key(j), f.dim);
        return f.bias == GAL_FLASH_NO_BIAS ? product : product + gal_flash_bias_of<T>(f, bucket, at, i, j);
    }
    __device__ float factor(uint32_t i, uint32_t j) const
    {
        if (!f.dropout) {
            return 1.0F;
        }
        const uint32_t position = gal_flash_position(&f, at.window, i);
        return gal_flash_factor_of(f, gal_flash_dropout_at(&f, position, at.sample, at.head) + j);
    }
    __device__ uint64_t lse_at(uint32_t i) const
    {
        return gal_flash_lse_at(&f, gal_flash_position(&f, at.window, i), at.sample, at.head);
    }
    __device__ uint64_t ctx_at(uint32_t i) const
    {
        return gal_flash_ctx_at(&f, gal_flash_position(&f, at.window, i), at.sample, at.head);
    }
    __device__ float probability(uint32_t i, uint32_t j) const
    {
        return expf(score(i, j) - f.lse[lse_at(i)]);
    }
    /* Of the loss by the score, before the scale; D of the queries lies in the workspace. */
    __device__ float slope(uint32_t i, uint32_t j) const
    {
        const float dp = gal_flash_dot((const T *)f.dctx + ctx_at(i), value(j), f.dim);
        return probability(i, j) * (factor(i, j) * dp - ((const float *)f.workspace)[lse_at(i)]);
    }
};

template <class T>
__global__ void gal_flash_scalar_forward(const __grid_constant__ gal_flash f, const uint32_t *bucket, uint64_t count)
{
    if (gal_flash_thread() >= count) {
        return;
    }
    uint32_t i;
    const gal_flash_where at = gal_flash_split(f, gal_flash_thread(), f.heads, f.queries, &i);
    const gal_flash_rows<T> rows = {f, bucket, at};
    const uint32_t end = gal_flash_key_end(&f, at.sample, i);
    const float before = f.resumes ? f.lse[rows.lse_at(i)] : -INFINITY;
    float max = before, sum = f.resumes ? 1.0F : 0.0F;
    for (uint32_t j = 0; j < end; j++) {
        const float score = rows.score(i, j);
        if (score > max) {
            sum *= expf(max - score);
            max = score;
        }
        sum += expf(score - max);
    }
    const float lse = sum == 0.0F ? -INFINITY : max + logf(sum);
    T *ctx = (T *)f.ctx + rows.ctx_at(i);
    for (uint32_t first = 0; first < f.dim; first += GAL_FLASH_CHUNK) {
        float out[GAL_FLASH_CHUNK] = {};
        for (uint32_t j = 0; j < end; j++) {
            const float p = expf(rows.score(i, j) - lse) * rows.factor(i, j);
            const T *value = rows.value(j) + first;
#pragma unroll
            for (uint32_t d = 0; d < GAL_FLASH_CHUNK; d++) {
                out[d] = first + d < f.dim ? fmaf(p, gal_number(value[d]), out[d]) : 0.0F;
            }
        }
#pragma unroll
        for (uint32_t d = 0; d < GAL_FLASH_CHUNK; d++) {
            if (first + d < f.dim) {
                const float kept = f.resumes ? expf(before - lse) * gal_number(ctx[first + d]) : 0.0F;
                ctx[first + d] = gal_element<T>(out[d] + kept);
            }
        }
    }
    f.lse[rows.lse_at(i)] = lse;
}

template <class T>
__global__ void gal_flash_scalar_dq(const __grid_constant__ gal_flash f, const uint32_t *bucket, uint64_t count)
{
    if (gal_flash_thread() >= count) {
        return;
    }
    uint32_t i;
    const gal_flash_where at = gal_flash_split(f, gal_flash_thread(), f.heads, f.queries, &i);
    const gal_flash_rows<T> rows = {f, bucket, at};
    T *dq = (T *)f.dq + gal_flash_dq_at(&f, gal_flash_position(&f, at.window, i), at.sample, at.head);
    for (uint32_t first = 0; first < f.dim; first += GAL_FLASH_CHUNK) {
        float out[GAL_FLASH_CHUNK] = {};
        for (uint32_t j = 0; j < gal_flash_key_end(&f, at.sample, i); j++) {
            const float slope = rows.slope(i, j);
            const T *key = rows.key(j) + first;
#pragma unroll
            for (uint32_t d = 0; d < GAL_FLASH_CHUNK; d++) {
                out[d] = first + d < f.dim ? fmaf(slope, gal_number(key[d]), out[d]) : 0.0F;
            }
        }
#pragma unroll
        for (uint32_t d = 0; d < GAL_FLASH_CHUNK; d++) {
            if (first + d < f.dim) {
                const float kept = f.resumes ? gal_number(dq[first + d]) : 0.0F;
                dq[first + d] = gal_element<T>(f.scale * out[d] + kept);
            }
        }
    }
}

/* Of a key, over all heads of queries that share it, in order. */
template <class T>
__global__ void gal_flash_scalar_dkv(const __grid_constant__ gal_flash f, const uint32_t *bucket, uint64_t count)
{
    if (gal_flash_thread() >= count) {
        return;
    }
    uint32_t j;
    const gal_flash_where kv = gal_flash_split(f, gal_flash_thread(), f.kv_heads, f.keys, &j);
    const uint32_t group = f.heads / f.kv_heads;
    T *dk = (T *)f.dkv + f.k_offset + gal_flash_kv_at(&f, gal_flash_position(&f, kv.window, j), kv.sample, kv.head);
    T *dv = dk + (f.v_offset - f.k_offset);
    for (uint32_t first = 0; first < f.dim; first += GAL_FLASH_CHUNK) {
        float k_out[GAL_FLASH_CHUNK] = {}, v_out[GAL_FLASH_CHUNK] = {};
        for (uint32_t h = 0; h < group; h++) {
            const gal_flash_rows<T> rows = {f, bucket, {kv.sample, kv.head * group + h, kv.window}};
            for (uint32_t i = gal_flash_query_begin(&f, kv.sample, j); i < f.queries; i++) {
                const float slope = rows.slope(i, j), p = rows.probability(i, j) * rows.factor(i, j);
                const T *query = rows.query(i) + first, *dctx = (const T *)f.dctx + rows.ctx_at(i) + first;
#pragma unroll
                for (uint32_t d = 0; d < GAL_FLASH_CHUNK; d++) {
                    k_out[d] = first + d < f.dim ? fmaf(slope, gal_number(query[d]), k_out[d]) : 0.0F;
                    v_out[d] = first + d < f.dim ? fmaf(p, gal_number(dctx[d]), v_out[d]) : 0.0F;
                }
            }
        }
#pragma unroll
        for (uint32_t d = 0; d < GAL_FLASH_CHUNK; d++) {
            if (first + d < f.dim) {
                const float k_kept = f.resumes_keys ? gal_number(dk[first + d]) : 0.0F;
                const float v_kept = f.resumes_keys ? gal_number(dv[first + d]) : 0.0F;
                dk[first + d] = gal_element<T>(f.scale * k_out[d] + k_kept);
                dv[first + d] = gal_element<T>(v_out[d] + v_kept);
            }
        }
    }
}

/* One slot's sum of an entry: over its items, that is tiles of queries, as the tiled kernel cuts them. */
template <class T>
__global__ void gal_flash_scalar_sums(const __grid_constant__ gal_flash f, const uint32_t *bucket, float *sums,
                                      uint64_t count)
{
    const uint64_t index = gal_flash_thread();
    if (index >= count) {
        return;
    }
    const uint32_t slots = gal_flash_slots(&f), entry = (uint32_t)(index % f.bias_entries);
    const uint32_t slot = (uint32_t)(index / f.bias_entries % slots);
    const uint32_t tiles = gal_flash_tiles(f.queries);
    gal_flash_rows<T> rows = {f, bucket, {0, (uint32_t)(index / f.bias_entries / slots), 0}};
    float sum = 0.0F;
    for (uint64_t item = slot; item < gal_flash_items(&f); item += slots) {
        const uint32_t first = (uint32_t)(item % tiles) * GAL_FLASH_ROWS;
        rows.at.window = (uint32_t)(item / tiles % f.windows);
        rows.at.sample = (uint32_t)(item / tiles / f.windows);
        for (uint32_t i = first; i < first + GAL_FLASH_ROWS && i < f.queries; i++) {
            if (f.bias == GAL_FLASH_WINDOW) {
                const uint32_t j = gal_flash_key_of_entry(&f, i, entry);
                sum += j < f.keys ? rows.slope(i, j) : 0.0F;
                continue;
            }
            for (uint32_t j = 0; j < gal_flash_key_end(&f, rows.at.sample, i); j++) {
                sum += bucket[gal_flash_distance(&f, i, j)] == entry ? rows.slope(i, j) : 0.0F;
            }
        }
    }
    sums[index] = sum;
}

#endif
