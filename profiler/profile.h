/* Measuring a profile with the ranks that are there. */
#ifndef GAL_PROFILER_PROFILE_H
#define GAL_PROFILER_PROFILE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "profiler/fabric.h"
#include "profiler/gpu.h"
#include "runtime/backend.h"
#include "runtime/train/world.h"
#include "schemas/profile.h"

typedef struct gal_profile_settings {
    const gal_model *model; /* [model_count], of one dtype; blocks are measured of the first */
    uint32_t model_count;
    const uint32_t *batch; /* [batch_count] samples; 0: each model's own */
    uint32_t batch_count;
    const uint32_t *microbatches; /* [microbatches_count] counts */
    uint32_t microbatches_count;
    const gal_backend *backend;           /* of all ranks the same; has kernels of the models' dtype */
    const gal_gpu *gpu;                   /* this rank's; NULL: a host */
    const gal_fabric *fabric;             /* what joins it to others; NULL: a host */
    double (*clock_hertz)(void *context); /* of the GPU, now; 0: not known; may be NULL */
    void *clock_context;
    uint32_t thread_count;          /* of each rank on the host; at least 1 */
    bool tf32;                      /* of a GPU: products of fp32 may round their factors to 10 bits */
    void (*tell)(const char *text); /* gal_connection.tell; may be NULL */
    double slow_bytes_per_second;   /* gal_connection.slow_bytes_per_second */
    const char *storage_directory;  /* whose storage is measured; NULL: none is */
    double budget_seconds;
    uint64_t message_bytes_max;        /* larger collectives are left to fits; 0: none is too large */
    uint64_t memory_bytes;             /* of a rank; 0: the device's, divided by its ranks */
    const char *blas;                  /* its name and version */
    const char *command;               /* as typed */
    const volatile sig_atomic_t *stop; /* not 0 on any rank: all end with GAL_ERR_SYSTEM; may be NULL */
    void (*progress)(void *context, const char *what, uint32_t done, uint32_t count, double elapsed_seconds);
    void *progress_context; /* called on rank 0; progress NULL: not */
} gal_profile_settings;

/* What was found worth measuring and how much of it the budget allowed. The rest has no entry: readers of the profile
 * fit it (costmodel/duration.h). */
typedef struct gal_profile_report {
    uint32_t operator_count, operators_measured;
    uint32_t collective_count, collectives_measured;
    double measured_share; /* of the expected time of a step */
    double elapsed_seconds;
} gal_profile_report;

/* Collective over the world; all ranks get the same code and the same profile, which gal_profile_free releases. */
gal_code gal_profile_measure(const gal_profile_settings *settings, const gal_world *world, gal_profile *out,
                             gal_profile_report *report, gal_error *err);

#endif
