#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/ops/cuda/library.h"

static bool make(const char *path)
{
    struct stat found;
    return mkdir(path, 0700) == 0 || (errno == EEXIST && stat(path, &found) == 0 && S_ISDIR(found.st_mode));
}

/* Relative paths are to be ignored. */
bool gal_cuda_cache_folder(char *path, size_t path_bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool given = cache != NULL && cache[0] == '/';
    if (!given && (home == NULL || home[0] != '/')) {
        return false;
    }
    int length = snprintf(path, path_bytes, "%s%s", given ? cache : home, given ? "" : "/.cache");
    if (length < 0 || (size_t)length >= path_bytes || !make(path)) {
        return false;
    }
    const size_t used = (size_t)length;
    length = snprintf(path + used, path_bytes - used, "/galplan");
    return length > 0 && (size_t)length < path_bytes - used && make(path);
}
