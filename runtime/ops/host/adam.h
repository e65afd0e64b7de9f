/* Adam on one range of elements, once for each set of vector instructions that a processor may have.
 *
 * All versions are one loop of plain C, compiled for different instructions: each element is treated alone, and no
 * products and sums are fused (-ffp-contract=off; the versions for AVX2 and AVX-512 do not ask for FMA), so all give
 * the same bits, and so do the device's update and the host's of one tensor. */
#ifndef GAL_RUNTIME_OPS_HOST_ADAM_H
#define GAL_RUNTIME_OPS_HOST_ADAM_H

#include "runtime/ops/host/real.h"

/* w -= rate (mhat / (sqrt(vhat) + epsilon) + decoupled w), mhat and vhat by their bias corrections. */
typedef struct gal_adam_scalars {
    gal_real clip, l2, decoupled_rate, beta1, beta2, rest1, rest2, corrected_rate, v_correction, epsilon;
} gal_adam_scalars;

typedef struct gal_adam_range {
    gal_real *w; /* updated, as m and v */
    const gal_real *g;
    gal_real *m, *v;
    size_t begin, end; /* elements; the arrays do not overlap */
} gal_adam_range;

typedef void (*gal_adam_function)(const gal_adam_scalars *scalars, const gal_adam_range *range);

typedef struct gal_adam_version {
    const char *name; /* "C", "AVX2", "AVX-512" */
    gal_adam_function update;
} gal_adam_version;

/* Those that this processor can run, plain C first, the widest last. Returns their count, at least 1. */
enum { GAL_ADAM_VERSIONS_MAX = 3 };
#define gal_adam_versions GAL_REAL(gal_adam_versions)
uint32_t gal_adam_versions(gal_adam_version out[GAL_ADAM_VERSIONS_MAX]);

/* By the widest of them. */
#define gal_adam_update GAL_REAL(gal_adam_update)
void gal_adam_update(const gal_adam_scalars *scalars, const gal_adam_range *range);

#endif
