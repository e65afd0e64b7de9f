#include "schemas/base/dtype.h"

#include "schemas/base/status.h"

#define X(enumerator, name, bytes) [enumerator] = name,
const char *const gal_dtype_names[GAL_DTYPE_COUNT] = {GAL_DTYPES(X)};
#undef X

#define X(enumerator, name, bytes) [enumerator] = bytes,
static const uint8_t element_bytes[GAL_DTYPE_COUNT] = {GAL_DTYPES(X)};
#undef X

uint64_t gal_dtype_bytes(gal_dtype dtype)
{
    GAL_ASSERT((unsigned)dtype < GAL_DTYPE_COUNT);
    return element_bytes[dtype];
}
