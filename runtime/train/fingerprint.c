#include "runtime/train/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/opened.h"
#include "schemas/base/fnv.h"

enum { CHUNK_BYTES = 1 << 20 };

static gal_code hash_range(const gal_opened *file, uint64_t begin, uint64_t end, void *chunk, uint64_t *fingerprint,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    while (begin < end) {
        const uint64_t count = end - begin < CHUNK_BYTES ? end - begin : (uint64_t)CHUNK_BYTES;
        GAL_TRY(gal_opened_read(file, begin, chunk, count, err));
        *fingerprint = gal_fnv(*fingerprint, chunk, count);
        begin += count;
    }
cleanup:
    return code;
}

static gal_code hash_samples(const gal_opened *file, void *chunk, uint64_t *fingerprint, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint64_t last = file->byte_count - GAL_FINGERPRINT_SAMPLE_BYTES;
    const uint64_t gaps = GAL_FINGERPRINT_SAMPLES - 1;
    for (uint64_t i = 0; i <= gaps; i++) {
        const uint64_t begin = last / gaps * i + last % gaps * i / gaps;
        GAL_TRY(hash_range(file, begin, begin + GAL_FINGERPRINT_SAMPLE_BYTES, chunk, fingerprint, err));
    }
cleanup:
    return code;
}

gal_code gal_fingerprint_file(const char *path, uint64_t *fingerprint, gal_error *err)
{
    gal_code code = GAL_OK;
    struct stat status;
    uint64_t hash = *fingerprint;
    void *chunk = malloc(CHUNK_BYTES);
    gal_opened file = {.path = path, .descriptor = open(path, O_RDONLY | O_CLOEXEC)};
    if (chunk == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: fingerprint"));
    }
    if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno)));
    }
    file.byte_count = (uint64_t)status.st_size;
    hash = gal_fnv(hash, &file.byte_count, sizeof file.byte_count);
    if (file.byte_count <= GAL_FINGERPRINT_WHOLE_BYTES) {
        GAL_TRY(hash_range(&file, 0, file.byte_count, chunk, &hash, err));
    } else {
        GAL_TRY(hash_samples(&file, chunk, &hash, err));
    }
    *fingerprint = hash;
cleanup:
    if (file.descriptor >= 0) {
        close(file.descriptor);
    }
    free(chunk);
    return code;
}
