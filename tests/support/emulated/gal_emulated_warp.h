/* What runtime/ops/cuda/flash_warp.cuh says a warp does at once, by definition: fragments are read from where the other
 * lanes left them. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_GAL_EMULATED_WARP_H
#define GAL_TESTS_SUPPORT_EMULATED_GAL_EMULATED_WARP_H

#include <cuda_runtime.h>

#include "tests/support/emulated/device.h"

/* Blocks run one after another; the largest block of a device has no more. */
#define GAL_DYNAMIC_SHARED(name) alignas(128) static unsigned char name[232448]

/* What lane `source` gave. The places of two calls after another differ: a lane is at most one ahead of another. */
template <class V> class gal_emulated_gather
{
  public:
    explicit gal_emulated_gather(const V &given)
    {
        static V place[32][2][32];
        static uint32_t turn[32][32];
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        all_ = place[warp][turn[warp][lane]++ % 2];
        all_[lane] = given;
        gal_emulated_exchange(0, lane);
    }
    const V &of(uint32_t lane) const
    {
        return all_[lane];
    }

  private:
    V *all_;
};

static inline uint32_t gal_emulated_two(const uint16_t *low, const uint16_t *high)
{
    return (uint32_t)*low | (uint32_t)*high << 16;
}

static inline void gal_load_matrices(uint32_t out[4], const void *row)
{
    const gal_emulated_gather<const uint16_t *> rows((const uint16_t *)row);
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t m = 0; m < 4; m++) {
        const uint16_t *from = rows.of(8 * m + lane / 4) + 2 * (lane % 4);
        out[m] = gal_emulated_two(from, from + 1);
    }
}

static inline void gal_load_matrices_turned(uint32_t out[4], const void *row)
{
    const gal_emulated_gather<const uint16_t *> rows((const uint16_t *)row);
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t m = 0; m < 4; m++) {
        out[m] = gal_emulated_two(rows.of(8 * m + 2 * (lane % 4)) + lane / 4,
                                  rows.of(8 * m + 2 * (lane % 4) + 1) + lane / 4);
    }
}

template <class T> float gal_emulated_half(uint32_t word, uint32_t half);
template <> inline float gal_emulated_half<__nv_bfloat16>(uint32_t word, uint32_t half)
{
    return __bfloat162float({(uint16_t)(word >> 16 * half)});
}
template <> inline float gal_emulated_half<__half>(uint32_t word, uint32_t half)
{
    return __half2float({(uint16_t)(word >> 16 * half)});
}

typedef struct gal_emulated_factors {
    uint32_t a[4], b[2];
} gal_emulated_factors;

template <class T> void gal_multiply(float d[4], const uint32_t a[4], const uint32_t b[2], T)
{
    const gal_emulated_gather<gal_emulated_factors> all({{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t a_word = all.of(row % 8 * 4 + k % 8 / 2).a[row / 8 + 2 * (k / 8)];
            const uint32_t b_word = all.of(column * 4 + k % 8 / 2).b[k / 8];
            d[i] += gal_emulated_half<T>(a_word, k % 2) * gal_emulated_half<T>(b_word, k % 2);
        }
    }
}

static inline void gal_copy_begin(void *to, const void *from, bool valid)
{
    if (valid) {
        memcpy(to, from, 16);
    } else {
        memset(to, 0, 16);
    }
}
static inline void gal_copy_commit()
{
}
template <int left> void gal_copy_wait()
{
}

#endif
