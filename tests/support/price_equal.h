/* Prices of two caches, to the bit. */
#ifndef GAL_TESTS_SUPPORT_PRICE_EQUAL_H
#define GAL_TESTS_SUPPORT_PRICE_EQUAL_H

#include <string.h>

#include "costmodel/price.h"

static inline bool gal_prices_equal(const gal_block_price *a, const gal_block_price *b)
{
    gal_block_price own = *a;
    own.memory = b->memory;
    return memcmp(&own, b, sizeof own) == 0 && memcmp(a->memory, b->memory, sizeof *a->memory) == 0;
}

#endif
