/* Attention forward: launches, and the merge of a ring's parts. */
#include "runtime/ops/cuda/flash_forward.cuh"

#include "runtime/ops/cuda/flash_launch.cuh"

template <class T, int D> static int forward_tiles(const gal_flash *f, void *stream)
{
    return gal_flash_launch(stream, gal_flash_forward_tiles<T, D>, gal_flash_items(f) * f->heads, GAL_FLASH_THREADS,
                            gal_flash_forward_shared<T, D> + gal_flash_extra_bytes<gal_flash_span<D>>(f), *f,
                            gal_flash_buckets_of(f, false));
}

template <class T> static int forward(const gal_flash *f, void *stream)
{
    return f->dim <= 32    ? forward_tiles<T, 32>(f, stream)
           : f->dim <= 64  ? forward_tiles<T, 64>(f, stream)
           : f->dim <= 128 ? forward_tiles<T, 128>(f, stream)
                           : forward_tiles<T, 256>(f, stream);
}

int gal_flash_forward(const gal_flash *f, gal_flash_type type, void *stream)
{
    const uint64_t rows = (uint64_t)f->samples * f->heads * f->positions;
    if (!gal_flash_takes(f, type, false)) {
        return gal_flash_refused;
    }
    GAL_FLASH_TRY(gal_flash_fill_buckets(f, false, stream));
    return type == GAL_FLASH_BF16   ? forward<__nv_bfloat16>(f, stream)
           : type == GAL_FLASH_FP16 ? forward<__half>(f, stream)
                                    : gal_flash_launch_flat(stream, gal_flash_scalar_forward<float>, rows, *f,
                                                            gal_flash_buckets_of(f, false), rows);
}

/* ---- the parts of a ring ---- */

template <class T>
static __global__ void merge_kernel(uint32_t samples, uint32_t positions, uint32_t heads, uint32_t dim, float *ctx,
                                    const float *lse, const T *part, const float *part_lse, uint64_t count)
{
    const uint64_t index = gal_flash_thread();
    if (index >= count) {
        return;
    }
    const uint64_t row = index / dim;
    const uint32_t head = (uint32_t)(row % heads), sample = (uint32_t)(row / heads % samples);
    const uint64_t at = ((uint64_t)sample * heads + head) * positions + row / heads / samples;
    const float a = lse[at], b = part_lse[at], max = fmaxf(a, b);
    if (b == -INFINITY) {
        return;
    }
    const float wa = expf(a - max), wb = expf(b - max);
    ctx[index] = (wa * ctx[index] + wb * gal_number(part[index])) / (wa + wb);
}

static __global__ void merge_lse_kernel(float *lse, const float *part_lse, uint64_t count)
{
    const uint64_t index = gal_flash_thread();
    if (index >= count || part_lse[index] == -INFINITY) {
        return;
    }
    const float a = lse[index], b = part_lse[index], max = fmaxf(a, b);
    lse[index] = max + logf(expf(a - max) + expf(b - max));
}

template <class T>
static int merge(uint32_t samples, uint32_t positions, uint32_t heads, uint32_t dim, float *ctx, const float *lse,
                 const void *part, const float *part_lse, void *stream)
{
    const uint64_t count = (uint64_t)samples * positions * heads * dim;
    return gal_flash_launch_flat(stream, merge_kernel<T>, count, samples, positions, heads, dim, ctx, lse,
                                 (const T *)part, part_lse, count);
}

int gal_flash_merge(uint32_t samples, uint32_t positions, uint32_t heads, uint32_t dim, gal_flash_type type, float *ctx,
                    float *lse, const void *part, const float *part_lse, void *stream)
{
    const uint64_t rows = (uint64_t)samples * positions * heads;
    GAL_FLASH_TRY(
        type == GAL_FLASH_BF16 ? merge<__nv_bfloat16>(samples, positions, heads, dim, ctx, lse, part, part_lse, stream)
        : type == GAL_FLASH_FP16 ? merge<__half>(samples, positions, heads, dim, ctx, lse, part, part_lse, stream)
                                 : merge<float>(samples, positions, heads, dim, ctx, lse, part, part_lse, stream));
    return gal_flash_launch_flat(stream, merge_lse_kernel, rows, lse, part_lse, rows);
}
