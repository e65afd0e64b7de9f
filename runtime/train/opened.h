/* An open file of data. It is read and not mapped: one that shrinks under a mapping ends the process by SIGBUS, one
 * that is read comes up short. */
#ifndef GAL_RUNTIME_TRAIN_OPENED_H
#define GAL_RUNTIME_TRAIN_OPENED_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_opened {
    const char *path;
    int descriptor;
    uint64_t byte_count; /* when it was opened */
} gal_opened;

/* Reads byte_count bytes from offset on. GAL_ERR_SYSTEM, also where the file has become shorter. */
gal_code gal_opened_read(const gal_opened *file, uint64_t offset, void *out, uint64_t byte_count, gal_error *err);

#endif
