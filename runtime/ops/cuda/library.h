/* What the kernels of one rank that stand on cuBLASLt and cuDNN share: handles, plans that were made once per shape,
 * and how they are chosen. Not for two threads at once: an engine queues a step from one. */
#ifndef GAL_RUNTIME_OPS_CUDA_LIBRARY_H
#define GAL_RUNTIME_OPS_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_cuda_library gal_cuda_library;

enum { GAL_CUDA_CANDIDATES_MAX = 32 };
/* Least workspace of a stream: what cuBLASLt wants on Hopper. Source: cuBLAS documentation, "cublasSetWorkspace". */
#define GAL_CUDA_WORKSPACE_BYTES ((uint64_t)32 << 20)

typedef struct gal_cuda_library_options {
    const char *cache_folder; /* exists; where fastest algorithms are kept; NULL: nowhere */
    uint32_t
        candidate_count; /* algorithms timed per product, 1 (the library's own choice) .. GAL_CUDA_CANDIDATES_MAX */
    uint32_t communication_ctas; /* multiprocessors that products and attention leave to communication; 0: none */
    bool deterministic;          /* the same bits in every run: nothing is timed, no reduction whose order is open */
    bool tf32;                   /* products of fp32 may round their factors to 10 bits */
} gal_cuda_library_options;

/* Multiprocessors that products, and attention by cuDNN, are planned for, of a device's, beside communication that
 * takes so many; 0: all. At least half of them, whatever communication asks for. */
uint32_t gal_cuda_product_multiprocessors(uint32_t multiprocessor_count, uint32_t communication_ctas);

/* For the current device. *out is the caller's to free. GAL_ERR_DEVICE. */
gal_code gal_cuda_library_create(const gal_cuda_library_options *options, gal_cuda_library **out, gal_error *err);

/* Keeps what was timed since in the cache folder. GAL_ERR_SYSTEM: the work goes on without. */
gal_code gal_cuda_library_save(gal_cuda_library *library, gal_error *err);

void gal_cuda_library_free(gal_cuda_library *library);

/* $XDG_CACHE_HOME/galplan, else ~/.cache/galplan, made if it is not there. It decides how soon a run starts, never what
 * it computes, so it is no option of anybody's. False: there is no such folder and none can be made.
 * Source: XDG Base Directory Specification 0.8. */
bool gal_cuda_cache_folder(char *path, size_t path_bytes);

#endif
