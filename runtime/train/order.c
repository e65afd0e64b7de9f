#include "runtime/train/order.h"

#include "schemas/base/status.h"

enum { FEISTEL_ROUNDS = 8 };

uint64_t gal_mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t gal_permute(uint64_t index, uint64_t count, uint64_t key)
{
    uint32_t half_bits = 1;
    while (half_bits < 31 && (UINT64_C(1) << 2 * half_bits) < count) {
        half_bits++;
    }
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    GAL_ASSERT(index < count && count <= UINT64_C(1) << 62);
    do {
        uint64_t left = index >> half_bits;
        uint64_t right = index & mask;
        for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
            const uint64_t next = left ^ (gal_mix(key ^ gal_mix(right + (round << 56))) & mask);
            left = right;
            right = next;
        }
        index = left << half_bits | right;
    } while (index >= count);
    return index;
}
