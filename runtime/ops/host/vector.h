/* Attributes of kernels with long loops. */
#ifndef GAL_RUNTIME_OPS_HOST_VECTOR_H
#define GAL_RUNTIME_OPS_HOST_VECTOR_H

#include "schemas/base/vector.h"

/* No kernel asks for floating-point exception flags: giving them up changes no value and lets GCC put comparisons into
 * vectors (Clang assumes it by itself). Square roots (Adam) need -fno-math-errno as well, which no pragma can give. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

#define GAL_INLINE static inline __attribute__((always_inline))

#endif
