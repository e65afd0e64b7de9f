/* Which algorithm is fastest for a product, kept in a file of one device and library version.
 *
 * The file is text: a head that names the device and the versions, then a line per product with its own checksum. What
 * cannot be read is as if it were not there: a file of another device, a truncated one or a damaged line costs the
 * time of measuring again, never an error. Whoever uses an entry asks the library first whether it takes it
 * (cublasLtMatmulAlgoCheck), so a line that was made up does no harm either. */
#ifndef GAL_RUNTIME_OPS_CUDA_GEMM_CACHE_H
#define GAL_RUNTIME_OPS_CUDA_GEMM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_GEMM_ALGORITHM_WORDS = 8, GAL_GEMM_ENTRIES_MAX = 4096, GAL_GEMM_ID_BYTES = 192 };

/* A product as cuBLASLt sees it: D[rows][columns], column-major. Types, compute and epilogue are the library's
 * enumerators; alignments are bytes of the addresses. Compared as a whole: no padding. */
typedef struct gal_gemm_key {
    uint32_t rows, columns, depth;
    uint32_t transpose_a, transpose_b; /* 0 or 1 */
    uint32_t input_type, output_type, compute_type, epilogue;
    uint32_t a_alignment, b_alignment, d_alignment;
    uint32_t sm_count; /* to plan for; 0 all */
} gal_gemm_key;

enum { GAL_GEMM_KEY_WORDS = sizeof(gal_gemm_key) / sizeof(uint32_t) };

typedef struct gal_gemm_entry {
    gal_gemm_key key;
    uint64_t algorithm[GAL_GEMM_ALGORITHM_WORDS];
} gal_gemm_entry;

typedef struct gal_gemm_cache {
    char id[GAL_GEMM_ID_BYTES]; /* device and versions: the head of the file */
    gal_gemm_entry *entry;      /* owned */
    size_t count, capacity;
    bool changed; /* since it was read or written */
} gal_gemm_cache;

/* Head of the file of a device. */
void gal_gemm_cache_begin(gal_gemm_cache *cache, const char *device_name, uint32_t capability_major,
                          uint32_t capability_minor, uint64_t library_version);

/* Name of that file below a folder: one per head. False if it does not fit. */
bool gal_gemm_cache_path(const gal_gemm_cache *cache, const char *folder, char *path, size_t path_bytes);

/* Takes the good lines of a file; a key that is there already keeps its entry. GAL_ERR_SYSTEM if memory ends. */
gal_code gal_gemm_cache_read(gal_gemm_cache *cache, const char *path, gal_error *err);

/* Replaces the file at once. GAL_ERR_SYSTEM. */
gal_code gal_gemm_cache_write(gal_gemm_cache *cache, const char *path, gal_error *err);

/* NULL if there is none. */
const gal_gemm_entry *gal_gemm_cache_find(const gal_gemm_cache *cache, const gal_gemm_key *key);

/* Adds or replaces; a full cache is left as it is. GAL_ERR_SYSTEM if memory ends. */
gal_code gal_gemm_cache_put(gal_gemm_cache *cache, const gal_gemm_entry *entry, gal_error *err);

void gal_gemm_cache_free(gal_gemm_cache *cache);

#endif
