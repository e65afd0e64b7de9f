#include "schemas/operator.h"

#define X(enumerator, name, dims, collective) [enumerator] = name,
const char *const gal_op_names[GAL_OP_COUNT] = {GAL_OPERATORS(X)};
#undef X

#define X(enumerator, name, dims, collective) [enumerator] = dims,
const uint8_t gal_op_dim_count[GAL_OP_COUNT] = {GAL_OPERATORS(X)};
#undef X

#define X(enumerator, name, dims, collective) [enumerator] = collective,
const uint8_t gal_op_is_collective[GAL_OP_COUNT] = {GAL_OPERATORS(X)};
#undef X
