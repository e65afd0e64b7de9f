#include "schemas/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_CAPACITY_BYTES = 1 << 16, TEMPORARY_NAMES = 100 };

static const char *shown_path(const char *path)
{
    return strcmp(path, "-") == 0 ? "stdin" : path;
}

/* Reads until the end or until more than max_bytes have come. */
static gal_code read_all(int file, const char *name, size_t max_bytes, char **text, size_t *byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    size_t capacity = FIRST_CAPACITY_BYTES;
    size_t used = 0;
    char *buffer = malloc(capacity);
    if (buffer == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", name);
    }
    for (;;) {
        ssize_t got = read(file, buffer + used, capacity - used - 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "cannot read %s: %s", name, strerror(errno));
            goto cleanup;
        }
        if (got == 0) {
            break;
        }
        used += (size_t)got;
        if (used > max_bytes) {
            code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: must be at most %zu bytes", name, max_bytes);
            goto cleanup;
        }
        if (used + 1 == capacity) {
            char *larger = realloc(buffer, capacity * 2);
            if (larger == NULL) {
                code = gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", name);
                goto cleanup;
            }
            buffer = larger;
            capacity *= 2;
        }
    }
    buffer[used] = '\0';
    *text = buffer;
    *byte_count = used;
    buffer = NULL;
cleanup:
    free(buffer);
    return code;
}

gal_code gal_file_read(const char *path, size_t max_bytes, char **text, size_t *byte_count, gal_error *err)
{
    if (strcmp(path, "-") == 0) {
        return read_all(STDIN_FILENO, shown_path(path), max_bytes, text, byte_count, err);
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return gal_fail(err, GAL_ERR_USAGE, "%s: no such file", path);
    }
    if (file < 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    }
    gal_code code = read_all(file, path, max_bytes, text, byte_count, err);
    (void)close(file);
    return code;
}

static gal_code write_all(int file, const char *name, const void *bytes, size_t byte_count, gal_error *err)
{
    const char *from = bytes;
    while (byte_count > 0) {
        ssize_t written = write(file, from, byte_count);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", name, strerror(errno));
        }
        from += written;
        byte_count -= (size_t)written;
    }
    return GAL_OK;
}

static gal_code write_stdout(const void *bytes, size_t byte_count, gal_error *err)
{
    if (fwrite(bytes, 1, byte_count, stdout) != byte_count || fflush(stdout) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write stdout: %s", strerror(errno));
    }
    return GAL_OK;
}

static gal_code write_in_place(const char *path, const void *bytes, size_t byte_count, gal_error *err)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    }
    gal_code code = write_all(file, path, bytes, byte_count, err);
    if (close(file) != 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    }
    return code;
}

static int open_temporary(const char *path, char *temporary, size_t capacity)
{
    for (unsigned attempt = 0; attempt < TEMPORARY_NAMES; attempt++) {
        (void)snprintf(temporary, capacity, "%s.%ld.%u.tmp", path, (long)getpid(), attempt);
        int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST) {
            return file;
        }
    }
    return -1;
}

static gal_code replace_regular(const char *path, const void *bytes, size_t byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    int file = -1;
    size_t capacity = strlen(path) + 64;
    char *temporary = malloc(capacity);
    if (temporary == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: out of memory", path);
    }
    temporary[0] = '\0';
    file = open_temporary(path, temporary, capacity);
    if (file < 0) {
        temporary[0] = '\0';
        code = gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
        goto cleanup;
    }
    GAL_TRY(write_all(file, path, bytes, byte_count, err));
    int failed = fsync(file);
    int close_failed = close(file);
    file = -1;
    if (failed != 0 || close_failed != 0 || rename(temporary, path) != 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
        goto cleanup;
    }
    temporary[0] = '\0';
cleanup:
    if (file >= 0) {
        (void)close(file);
    }
    if (temporary[0] != '\0') {
        (void)unlink(temporary);
    }
    free(temporary);
    return code;
}

gal_code gal_file_replace(const char *path, const void *bytes, size_t byte_count, gal_error *err)
{
    struct stat status;
    if (strcmp(path, "-") == 0) {
        return write_stdout(bytes, byte_count, err);
    }
    if (stat(path, &status) != 0) {
        return replace_regular(path, bytes, byte_count, err);
    }
    if (!S_ISREG(status.st_mode)) {
        return write_in_place(path, bytes, byte_count, err);
    }
    char *target = realpath(path, NULL);
    if (target == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    }
    gal_code code = replace_regular(target, bytes, byte_count, err);
    free(target);
    return code;
}
