/* Whole files: read into memory, replaced at once. */
#ifndef GAL_SCHEMAS_BASE_FILE_H
#define GAL_SCHEMAS_BASE_FILE_H

#include <stddef.h>

#include "schemas/base/status.h"

/* Reads all of path ("-" is stdin) into *text, which the caller frees and which has a NUL behind its *byte_count
 * bytes. GAL_ERR_USAGE if there is no file of that name, GAL_ERR_SYSTEM if there is one and it cannot be read,
 * GAL_ERR_DOCUMENT if it is larger than max_bytes. */
gal_code gal_file_read(const char *path, size_t max_bytes, char **text, size_t *byte_count, gal_error *err);

/* Writes path as a whole: temporary file beside it, fsync, rename; a reader sees the old or the new text, never a
 * part, after a crash too. Which of them it is then is only sure once the folder is on disk as well: that is the
 * caller's, where it matters: that takes longer than the file itself where blocks that become free are discarded.
 * "-" is stdout; pipes and devices are written in place; of a symbolic link the target is replaced. GAL_ERR_SYSTEM. */
gal_code gal_file_replace(const char *path, const void *bytes, size_t byte_count, gal_error *err);

#endif
