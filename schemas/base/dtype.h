/* Element types, by the names that documents use. Models compute in the first ones, up to GAL_FP16. */
#ifndef GAL_SCHEMAS_BASE_DTYPE_H
#define GAL_SCHEMAS_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

/* X(enumerator, document name, bytes per element) */
#define GAL_DTYPES(X)                                                                                                  \
    X(GAL_FP32, "fp32", 4)                                                                                             \
    X(GAL_FP64, "fp64", 8)                                                                                             \
    X(GAL_BF16, "bf16", 2)                                                                                             \
    X(GAL_FP16, "fp16", 2)                                                                                             \
    X(GAL_I32, "int32", 4)

typedef enum gal_dtype {
#define X(enumerator, name, bytes) enumerator,
    GAL_DTYPES(X)
#undef X
        GAL_DTYPE_COUNT
} gal_dtype;

/* What models compute in: the first ones. */
enum { GAL_COMPUTE_DTYPE_COUNT = GAL_FP16 + 1 };

extern const char *const gal_dtype_names[GAL_DTYPE_COUNT];
extern const uint8_t gal_dtype_element_bytes[GAL_DTYPE_COUNT];

static inline uint64_t gal_dtype_bytes(gal_dtype dtype)
{
    GAL_ASSERT((unsigned)dtype < GAL_DTYPE_COUNT);
    return gal_dtype_element_bytes[dtype];
}

/* Of two bytes: too narrow for sums, statistics and what an optimizer keeps. */
static inline bool gal_dtype_is_narrow(gal_dtype dtype)
{
    return dtype == GAL_BF16 || dtype == GAL_FP16;
}

/* What is summed and kept beside values of a type: fp32 beside a narrow one, else the type itself. */
static inline gal_dtype gal_dtype_wide(gal_dtype dtype)
{
    return gal_dtype_is_narrow(dtype) ? GAL_FP32 : dtype;
}

#endif
