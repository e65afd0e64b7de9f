#include "schemas/base/dtype.h"

#define X(enumerator, name, bytes) [enumerator] = name,
const char *const gal_dtype_names[GAL_DTYPE_COUNT] = {GAL_DTYPES(X)};
#undef X

#define X(enumerator, name, bytes) [enumerator] = bytes,
const uint8_t gal_dtype_element_bytes[GAL_DTYPE_COUNT] = {GAL_DTYPES(X)};
#undef X
