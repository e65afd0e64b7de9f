/* Element types, by the names that documents use. */
#ifndef GAL_SCHEMAS_BASE_DTYPE_H
#define GAL_SCHEMAS_BASE_DTYPE_H

#include <stdint.h>

#include "schemas/base/status.h"

/* X(enumerator, document name, bytes per element) */
#define GAL_DTYPES(X)                                                                                                  \
    X(GAL_FP32, "fp32", 4)                                                                                             \
    X(GAL_FP64, "fp64", 8)                                                                                             \
    X(GAL_I32, "int32", 4)                                                                                             \
    X(GAL_BF16, "bf16", 2)                                                                                             \
    X(GAL_FP16, "fp16", 2)

typedef enum gal_dtype {
#define X(enumerator, name, bytes) enumerator,
    GAL_DTYPES(X)
#undef X
        GAL_DTYPE_COUNT
} gal_dtype;

extern const char *const gal_dtype_names[GAL_DTYPE_COUNT];
extern const uint8_t gal_dtype_element_bytes[GAL_DTYPE_COUNT];

static inline uint64_t gal_dtype_bytes(gal_dtype dtype)
{
    GAL_ASSERT((unsigned)dtype < GAL_DTYPE_COUNT);
    return gal_dtype_element_bytes[dtype];
}

#endif
