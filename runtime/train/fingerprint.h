/* A name for the content of data files, so that other data under the same path are noticed. */
#ifndef GAL_RUNTIME_TRAIN_FINGERPRINT_H
#define GAL_RUNTIME_TRAIN_FINGERPRINT_H

#include <stdint.h>

#include "schemas/base/status.h"

enum {
    GAL_FINGERPRINT_WHOLE_BYTES = 1 << 28,
    GAL_FINGERPRINT_SAMPLES = 1 << 16,
    GAL_FINGERPRINT_SAMPLE_BYTES = 1 << 12
};

/* Continues *fingerprint (GAL_FNV_START at first) over the length and the bytes of a file: all bytes up to
 * GAL_FINGERPRINT_WHOLE_BYTES; of a longer file GAL_FINGERPRINT_SAMPLES samples of GAL_FINGERPRINT_SAMPLE_BYTES, evenly
 * spread from its first to its last byte, so that the time is bounded. GAL_ERR_SYSTEM: the file cannot be read. */
gal_code gal_fingerprint_file(const char *path, uint64_t *fingerprint, gal_error *err);

#endif
