#include "runtime/train/opened.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

gal_code gal_opened_read(const gal_opened *file, uint64_t offset, void *out, uint64_t byte_count, gal_error *err)
{
    for (uint64_t done = 0; done < byte_count;) {
        const ssize_t got = pread(file->descriptor, (char *)out + done, byte_count - done, (off_t)(offset + done));
        if (got == 0) {
            return gal_fail(err, GAL_ERR_SYSTEM, "%s: the file had %llu bytes when it was opened, byte %llu is gone",
                            file->path, (unsigned long long)file->byte_count, (unsigned long long)(offset + done));
        }
        if (got < 0 && errno != EINTR) {
            return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", file->path, strerror(errno));
        }
        done += got > 0 ? (uint64_t)got : 0;
    }
    return GAL_OK;
}
