/* Overflow-checked arithmetic on exact quantities (bytes, counts). True if the result fits; if not, *out is left
 * alone. */
#ifndef GAL_SCHEMAS_BASE_CHECKED_H
#define GAL_SCHEMAS_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool gal_checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

static inline bool gal_checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

#endif
