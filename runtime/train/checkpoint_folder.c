#include "runtime/train/checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/base/file.h"

enum { LATEST_BYTES = 64 };

static const char step_format[] = "step-%08llu";

static gal_code system_failure(gal_error *err, const char *path)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
}

gal_code gal_checkpoint_join(const char *directory, const char *name, char *path, gal_error *err)
{
    if (snprintf(path, GAL_PATH_BYTES, "%s/%s", directory, name) >= GAL_PATH_BYTES) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: the path is too long", directory);
    }
    return GAL_OK;
}

static gal_code sync_directory(const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) != 0) {
        code = system_failure(err, path);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
    return code;
}

/* The entries of an open directory that are not "." and "..". */
static const struct dirent *next_entry(DIR *opened)
{
    const struct dirent *entry = readdir(opened);
    while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
        entry = readdir(opened);
    }
    return entry;
}

static DIR *open_directory(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *opened = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (opened == NULL && descriptor >= 0) {
        close(descriptor);
    }
    return opened;
}

gal_code gal_checkpoint_remove(const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    const struct dirent *entry;
    DIR *opened = open_directory(path);
    if (opened == NULL) {
        const bool is_link = errno == ENOTDIR || errno == ELOOP;
        return errno == ENOENT || (is_link && unlink(path) == 0) ? GAL_OK : system_failure(err, path);
    }
    while (code == GAL_OK && (entry = next_entry(opened)) != NULL) {
        if (unlinkat(dirfd(opened), entry->d_name, 0) != 0) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "%s/%s: %s", path, entry->d_name, strerror(errno));
        }
    }
    if (code == GAL_OK && rmdir(path) != 0) {
        code = system_failure(err, path);
    }
    closedir(opened);
    return code;
}

/* ---- unfinished ones ---- */

gal_code gal_checkpoint_partial_path(const char *directory, const char *run, char *path, gal_error *err)
{
    char name[LATEST_BYTES];
    snprintf(name, sizeof name, "next-%.32s.partial", run);
    return gal_checkpoint_join(directory, name, path, err);
}

gal_code gal_checkpoint_make_partial(const char *partial, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_checkpoint_remove(partial, err));
    if (mkdir(partial, 0777) != 0) {
        code = system_failure(err, partial);
    }
cleanup:
    return code;
}

static bool is_unfinished(const char *name)
{
    static const char ending[] = ".partial";
    const size_t length = strlen(name);
    return (strncmp(name, "next", 4) == 0 || strncmp(name, "removed", 7) == 0) && length > sizeof ending - 1 &&
           strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

void gal_checkpoint_sweep(const char *directory, const gal_log *log)
{
    char path[GAL_PATH_BYTES];
    const struct dirent *entry;
    DIR *opened = open_directory(directory);
    while (opened != NULL && (entry = next_entry(opened)) != NULL) {
        gal_error cause = {0};
        if (is_unfinished(entry->d_name) && gal_checkpoint_join(directory, entry->d_name, path, &cause) == GAL_OK &&
            gal_checkpoint_remove(path, &cause) != GAL_OK) {
            gal_log_line(log, GAL_LOG_WARN, "an unfinished checkpoint of an earlier run stays: %s", cause.text);
        }
    }
    if (opened != NULL) {
        closedir(opened);
    }
}

/* ---- steps ---- */

void gal_checkpoint_step_name(uint64_t step, char name[GAL_CHECKPOINT_NAME_BYTES])
{
    snprintf(name, GAL_CHECKPOINT_NAME_BYTES, step_format, (unsigned long long)step);
}

/* The step of a checkpoint's directory name, or false. */
static bool step_of(const char *name, uint64_t *step)
{
    char again[LATEST_BYTES];
    if (strncmp(name, "step-", 5) != 0 || strlen(name) >= sizeof again) {
        return false;
    }
    *step = strtoull(name + 5, NULL, 10);
    snprintf(again, sizeof again, step_format, (unsigned long long)*step);
    return strcmp(name, again) == 0;
}

bool gal_checkpoint_next_older(const char *directory, uint64_t below, uint64_t *step)
{
    bool found = false;
    const struct dirent *entry;
    DIR *opened = opendir(directory); /* the folder itself may be a link: it is the user's choice */
    while (opened != NULL && (entry = next_entry(opened)) != NULL) {
        uint64_t each = 0;
        if (step_of(entry->d_name, &each) && each < below && (!found || each > *step)) {
            *step = each;
            found = true;
        }
    }
    if (opened != NULL) {
        closedir(opened);
    }
    return found;
}

/* ---- removing one ---- */

gal_code gal_checkpoint_retire(const char *directory, uint64_t step, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_CHECKPOINT_NAME_BYTES], aside_name[LATEST_BYTES], path[GAL_PATH_BYTES], aside[GAL_PATH_BYTES];
    gal_checkpoint_step_name(step, name);
    snprintf(aside_name, sizeof aside_name, "removed-%s.partial", name);
    GAL_TRY(gal_checkpoint_join(directory, name, path, err));
    GAL_TRY(gal_checkpoint_join(directory, aside_name, aside, err));
    GAL_TRY(gal_checkpoint_remove(aside, err));
    if (rename(path, aside) != 0 && errno != ENOENT) {
        code = system_failure(err, path);
        goto cleanup;
    }
    GAL_TRY(gal_checkpoint_remove(aside, err));
cleanup:
    return code;
}

/* ---- publishing ---- */

/* The finished directory takes its name. One of the same step is exchanged for it, at once: between two renames there
 * would be neither, and `latest` may name it. File systems without exchange (EINVAL: NFS) have that moment. */
static gal_code take_name(const char *directory, const char *partial, const char *path, uint64_t step, gal_error *err)
{
    gal_code code = GAL_OK;
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        return GAL_OK;
    }
    if (errno == EINVAL || errno == ENOSYS) {
        GAL_TRY(gal_checkpoint_retire(directory, step, err));
    } else if (errno != ENOENT) {
        return system_failure(err, path);
    }
    if (rename(partial, path) != 0) {
        code = system_failure(err, partial);
    }
cleanup:
    return code;
}

/* The exchanged directory is removed once the new one is on disk. */
gal_code gal_checkpoint_publish(const char *directory, const char *partial, uint64_t step, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_CHECKPOINT_NAME_BYTES];
    char path[GAL_PATH_BYTES], latest[GAL_PATH_BYTES], text[LATEST_BYTES + 2];
    gal_checkpoint_step_name(step, name);
    GAL_TRY(gal_checkpoint_join(directory, name, path, err));
    GAL_TRY(gal_checkpoint_join(directory, "latest", latest, err));
    GAL_TRY(sync_directory(partial, err));
    GAL_TRY(take_name(directory, partial, path, step, err));
    GAL_TRY(sync_directory(directory, err));
    snprintf(text, sizeof text, "%s\n", name);
    GAL_TRY(gal_file_replace(latest, text, strlen(text), err));
    GAL_TRY(sync_directory(directory, err));
    GAL_TRY(gal_checkpoint_remove(partial, err));
cleanup:
    return code;
}

/* ---- finding ---- */

static gal_code read_latest(const char *path, uint64_t *step, gal_error *err)
{
    gal_code code = GAL_OK;
    char *text = NULL;
    size_t byte_count = 0;
    GAL_TRY(gal_file_read(path, LATEST_BYTES, &text, &byte_count, err));
    text[strcspn(text, "\n")] = '\0';
    if (!step_of(text, step)) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: must name a step directory, got '%s'", path, text);
    }
cleanup:
    free(text);
    return code;
}

gal_code gal_checkpoint_find(const char *path, gal_checkpoint_place *out, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_PATH_BYTES];
    struct stat status;
    gal_checkpoint_place found = {.is_step = false};
    GAL_TRY(gal_checkpoint_join(path, "index.json", name, err));
    found.is_step = stat(name, &status) == 0;
    if (!found.is_step) {
        GAL_TRY(gal_checkpoint_join(path, "latest", name, err));
        if (stat(name, &status) == 0) {
            GAL_TRY(read_latest(name, &found.step, err));
        } else if (!gal_checkpoint_next_older(path, UINT64_MAX, &found.step)) {
            (void)gal_fail(err, GAL_ERR_SYSTEM, "%s: no checkpoint: neither index.json nor latest is there", path);
            return GAL_NO;
        }
    }
    *out = found;
cleanup:
    return code;
}
