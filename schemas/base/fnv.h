/* FNV-1a, 64 bits: a checksum against damage and a name for contents, not against malice.
 * Source: draft-eastlake-fnv, section 2. */
#ifndef GAL_SCHEMAS_BASE_FNV_H
#define GAL_SCHEMAS_BASE_FNV_H

#include <stdint.h>

#define GAL_FNV_START UINT64_C(0xCBF29CE484222325)

/* Continues a hash, GAL_FNV_START at first, over more bytes. */
static inline uint64_t gal_fnv(uint64_t hash, const void *bytes, uint64_t byte_count)
{
    const uint8_t *at = (const uint8_t *)bytes;
    for (uint64_t i = 0; i < byte_count; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

#endif
