/* The constants document: what was fitted of a cluster under a framework, and how far predictions with it are off.
 *
 * A constant that the document does not name keeps what the cluster and the framework say. */
#ifndef GAL_SCHEMAS_CONSTANTS_H
#define GAL_SCHEMAS_CONSTANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/model.h"

enum { GAL_CONSTANTS_VERSION = 1 };

/* X(enumerator, name, least, most)
 *   gemm_fraction       of the peak rate that large products reach
 *   gemm_half           the length of a side of a product at which half of that is lost
 *   memory_fraction     of the memory rate
 *   kernel_seconds      of a kernel on the device beside its work
 *   host_seconds        of the host, to launch a kernel: a device waits where its kernels are shorter
 *   outer_fraction, outer_seconds   of link levels that devices share (a node's way out): of their rate; latency of a
 *                       hop
 *   inner_fraction, inner_seconds   of the other levels
 *   transfer_seconds    between stages, beside latency and bytes
 *   step_seconds        of a step, beside what it does
 *   overlap_slowdown    where x and y run together: longer + (slowdown - 1) shorter */
#define GAL_CONSTANTS(X)                                                                                               \
    X(GAL_CONSTANT_GEMM_FRACTION, "gemm_fraction", 0.01, 1.0)                                                          \
    X(GAL_CONSTANT_GEMM_HALF, "gemm_half", 1.0, 4096.0)                                                                \
    X(GAL_CONSTANT_MEMORY_FRACTION, "memory_fraction", 0.01, 1.0)                                                      \
    X(GAL_CONSTANT_KERNEL_SECONDS, "kernel_seconds", 1e-7, 1e-2)                                                       \
    X(GAL_CONSTANT_HOST_SECONDS, "host_seconds", 1e-8, 1e-2)                                                           \
    X(GAL_CONSTANT_INNER_FRACTION, "inner_fraction", 0.001, 1.0)                                                       \
    X(GAL_CONSTANT_INNER_SECONDS, "inner_seconds", 1e-7, 0.1)                                                          \
    X(GAL_CONSTANT_OUTER_FRACTION, "outer_fraction", 0.001, 1.0)                                                       \
    X(GAL_CONSTANT_OUTER_SECONDS, "outer_seconds", 1e-7, 0.1)                                                          \
    X(GAL_CONSTANT_TRANSFER_SECONDS, "transfer_seconds", 1e-7, 1.0)                                                    \
    X(GAL_CONSTANT_STEP_SECONDS, "step_seconds", 1e-6, 100.0)                                                          \
    X(GAL_CONSTANT_OVERLAP_SLOWDOWN, "overlap_slowdown", 1.0, 2.0)

typedef enum gal_constant {
#define X(enumerator, name, least, most) enumerator,
    GAL_CONSTANTS(X)
#undef X
        GAL_CONSTANT_COUNT
} gal_constant;

extern const char *const gal_constant_names[GAL_CONSTANT_COUNT];
extern const double gal_constant_least[GAL_CONSTANT_COUNT], gal_constant_most[GAL_CONSTANT_COUNT];

#define GAL_CONSTANTS_FACTOR_MAX 1e3 /* of median_error and of the interval's factors */

typedef struct gal_constants {
    char name[GAL_NAME_BYTES];
    char cluster[GAL_NAME_BYTES], framework[GAL_NAME_BYTES]; /* that it was fitted for */
    bool fitted[GAL_CONSTANT_COUNT];
    double value[GAL_CONSTANT_COUNT];
    double log_deviation[GAL_CONSTANT_COUNT]; /* one standard deviation of log value */
    uint32_t row_count;                       /* measurements fitted to */
    double median_error;                      /* relative, cross-validated; of one group alone that of its rows */
    /* A prediction times these is a 90 % interval: quantiles of measured / predicted, cross-validated. */
    double seconds_low_factor, seconds_high_factor;
} gal_constants;

/* The members, of an object that is open. */
void gal_constants_read_at(const gal_json_cursor *at, gal_constants *out);
void gal_constants_write_at(gal_json_writer *out, const gal_constants *constants);
/* As gal_document_read and gal_document_write (schemas/document.h); nothing is owned. */
gal_code gal_constants_read(const char *path, gal_constants *out, gal_error *err);
gal_code gal_constants_write(const char *path, const gal_constants *constants, gal_error *err);

#endif
