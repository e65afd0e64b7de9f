/* The table of this element type. */
#include "runtime/ops/host/kernels.h"

const gal_ops GAL_REAL(gal_ops_host) = {
    .name = "host",
    .dtype = GAL_REAL_DTYPE,
    .kernel =
        {
#define X(enumerator, name) [enumerator] = GAL_KERNEL(name),
            GAL_HOST_KERNELS(X)
#undef X
        },
};
