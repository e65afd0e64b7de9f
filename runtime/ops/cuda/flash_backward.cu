/* Attention backward: launches, and the end of the bias' gradient. */
#include "runtime/ops/cuda/flash_backward.cuh"

#include "runtime/ops/cuda/flash_launch.cuh"

/* The slots of an entry in order; entries of other ranks' heads become zeros. */
static __global__ void bias_kernel(const __grid_constant__ gal_flash f, const float *sums, uint64_t count)
{
    const uint64_t index = gal_flash_thread();
    if (index >= count) {
        return;
    }
    const uint32_t entry = (uint32_t)(index / f.bias_stride), column = (uint32_t)(index % f.bias_stride);
    float sum = f.add ? f.dbias[index] : 0.0F;
    if (column >= f.bias_column && column - f.bias_column < f.heads) {
        const uint32_t slots = gal_flash_slots(&f);
        for (uint32_t slot = 0; slot < slots; slot++) {
            sum += sums[((uint64_t)(column - f.bias_column) * slots + slot) * f.bias_entries + entry];
        }
    }
    f.dbias[index] = sum;
}

template <class T, int D> static int backward_tiles(const gal_flash *f, float *sums, void *stream)
{
    const uint32_t *bucket = gal_flash_buckets_of(f, true);
    const uint64_t items = gal_flash_items(f);
    const uint32_t slots = sums == nullptr ? (uint32_t)items : gal_flash_slots(f);
    const uint64_t key_blocks = (uint64_t)f->samples * f->windows * f->kv_heads * gal_flash_tiles(f->keys);
    GAL_FLASH_TRY(gal_flash_launch(
        stream, gal_flash_dq_tiles<T, D>, (uint64_t)slots * f->heads * (D / gal_flash_part<D>), GAL_FLASH_THREADS,
        gal_flash_dq_shared<T, D> + gal_flash_extra_bytes<gal_flash_span<D>>(f), *f, bucket, sums, slots));
    return gal_flash_launch(stream, gal_flash_dkv_tiles<T, D>, key_blocks * (D / gal_flash_part<D>), GAL_FLASH_THREADS,
                            gal_flash_dkv_shared<T, D> + gal_flash_extra_bytes<gal_flash_span<D>>(f), *f, bucket);
}

template <class T> static int backward(const gal_flash *f, float *sums, uint64_t rows, void *stream)
{
    GAL_FLASH_TRY(gal_flash_launch_flat(stream, gal_flash_dots<T>, rows, *f, rows));
    return f->dim <= 32    ? backward_tiles<T, 32>(f, sums, stream)
           : f->dim <= 64  ? backward_tiles<T, 64>(f, sums, stream)
           : f->dim <= 128 ? backward_tiles<T, 128>(f, sums, stream)
                           : backward_tiles<T, 256>(f, sums, stream);
}

static int backward_scalar(const gal_flash *f, float *sums, uint64_t rows, void *stream)
{
    const uint32_t *bucket = gal_flash_buckets_of(f, true);
    const uint64_t keys = (uint64_t)f->samples * f->windows * f->kv_heads * f->keys;
    const uint64_t entries = sums == nullptr ? 0 : (uint64_t)f->heads * gal_flash_slots(f) * f->bias_entries;
    GAL_FLASH_TRY(gal_flash_launch_flat(stream, gal_flash_dots<float>, rows, *f, rows));
    GAL_FLASH_TRY(gal_flash_launch_flat(stream, gal_flash_scalar_dq<float>, rows, *f, bucket, rows));
    GAL_FLASH_TRY(gal_flash_launch_flat(stream, gal_flash_scalar_dkv<float>, keys, *f, bucket, keys));
    return gal_flash_launch_flat(stream, gal_flash_scalar_sums<float>, entries, *f, bucket, sums, entries);
}

int gal_flash_backward(const gal_flash *f, gal_flash_type type, void *stream)
{
    const uint64_t rows = gal_flash_query_count(f);
    const uint64_t entries = f->bias == GAL_FLASH_NO_BIAS ? 0 : (uint64_t)f->bias_entries * f->bias_stride;
    if (!gal_flash_takes(f, type, true)) {
        return gal_flash_refused;
    }
    if (rows == 0) {
        const uint64_t bytes = (uint64_t)f->keys * f->samples * f->kv_row * gal_flash_result_bytes(f, type);
        return cudaMemsetAsync(f->dkv, 0, bytes, (cudaStream_t)stream);
    }
    float *sums = entries == 0 ? nullptr : (float *)((char *)f->workspace + gal_flash_layout_of(f, true).sums);
    GAL_FLASH_TRY(gal_flash_fill_buckets(f, true, stream));
    GAL_FLASH_TRY(type == GAL_FLASH_BF16   ? backward<__nv_bfloat16>(f, sums, rows, stream)
                  : type == GAL_FLASH_FP16 ? backward<__half>(f, sums, rows, stream)
                                           : backward_scalar(f, sums, rows, stream));
    return gal_flash_launch_flat(stream, bias_kernel, entries, *f, (const float *)sums, entries);
}
