/* Attention forward: launches. */
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
    const uint64_t rows = gal_flash_query_count(f);
    if (!gal_flash_takes(f, type, false)) {
        return gal_flash_refused;
    }
    GAL_FLASH_TRY(gal_flash_fill_buckets(f, false, stream));
    return type == GAL_FLASH_BF16   ? forward<__nv_bfloat16>(f, stream)
           : type == GAL_FLASH_FP16 ? forward<__half>(f, stream)
                                    : gal_flash_launch_flat(stream, gal_flash_scalar_forward<float>, rows, *f,
                                                            gal_flash_buckets_of(f, false), rows);
}
