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

gal_code gal_checkpoint_remove(const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_PATH_BYTES];
    struct dirent *entry;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return errno == ENOENT ? GAL_OK : system_failure(err, path);
    }
    while (code == GAL_OK && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        GAL_TRY(gal_checkpoint_join(path, entry->d_name, name, err));
        if (unlink(name) != 0) {
            code = system_failure(err, name);
        }
    }
    if (code == GAL_OK && rmdir(path) != 0) {
        code = system_failure(err, path);
    }
cleanup:
    closedir(directory);
    return code;
}

gal_code gal_checkpoint_make_partial(const char *directory, const char *partial, gal_error *err)
{
    gal_code code = GAL_OK;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        return system_failure(err, directory);
    }
    GAL_TRY(gal_checkpoint_remove(partial, err));
    if (mkdir(partial, 0777) != 0) {
        code = system_failure(err, partial);
    }
cleanup:
    return code;
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

/* The lowest step other than `but`, and how many there are. */
static gal_code scan_steps(const char *directory, uint64_t but, uint64_t *lowest, uint32_t *count, gal_error *err)
{
    struct dirent *entry;
    DIR *opened = opendir(directory);
    if (opened == NULL) {
        return system_failure(err, directory);
    }
    *count = 0;
    *lowest = UINT64_MAX;
    while ((entry = readdir(opened)) != NULL) {
        uint64_t step = 0;
        if (step_of(entry->d_name, &step) && step != but) {
            *count += 1;
            *lowest = step < *lowest ? step : *lowest;
        }
    }
    closedir(opened);
    return GAL_OK;
}

/* Under another name first: a checkpoint goes whole or not at all. */
static gal_code retire(const char *directory, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    char aside[GAL_PATH_BYTES];
    GAL_TRY(gal_checkpoint_join(directory, "removed.partial", aside, err));
    GAL_TRY(gal_checkpoint_remove(aside, err));
    if (rename(path, aside) != 0 && errno != ENOENT) {
        code = system_failure(err, path);
        goto cleanup;
    }
    GAL_TRY(gal_checkpoint_remove(aside, err));
cleanup:
    return code;
}

/* Leaves `newest` and the keep - 1 highest others. */
static gal_code prune(const char *directory, uint64_t newest, uint32_t keep, gal_error *err)
{
    gal_code code = GAL_OK;
    while (keep > 0) {
        uint64_t lowest = 0;
        uint32_t others = 0;
        char name[LATEST_BYTES], path[GAL_PATH_BYTES];
        GAL_TRY(scan_steps(directory, newest, &lowest, &others, err));
        if (others < keep) {
            break;
        }
        snprintf(name, sizeof name, step_format, (unsigned long long)lowest);
        GAL_TRY(gal_checkpoint_join(directory, name, path, err));
        GAL_TRY(retire(directory, path, err));
    }
cleanup:
    return code;
}

/* The finished directory takes its name. One of the same step is exchanged for it, at once: between two renames there
 * would be neither, and `latest` may name it. File systems without exchange (EINVAL: NFS) have that moment. */
static gal_code take_name(const char *directory, const char *partial, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        return GAL_OK;
    }
    if (errno == EINVAL || errno == ENOSYS) {
        GAL_TRY(retire(directory, path, err));
    } else if (errno != ENOENT) {
        return system_failure(err, path);
    }
    if (rename(partial, path) != 0) {
        code = system_failure(err, partial);
    }
cleanup:
    return code;
}

/* What was exchanged is removed once the new one is on disk. */
static gal_code publish(const char *directory, const char *partial, const char *name, gal_error *err)
{
    gal_code code = GAL_OK;
    char path[GAL_PATH_BYTES], latest[GAL_PATH_BYTES], text[LATEST_BYTES + 2];
    GAL_TRY(gal_checkpoint_join(directory, name, path, err));
    GAL_TRY(gal_checkpoint_join(directory, "latest", latest, err));
    GAL_TRY(sync_directory(partial, err));
    GAL_TRY(take_name(directory, partial, path, err));
    GAL_TRY(sync_directory(directory, err));
    snprintf(text, sizeof text, "%s\n", name);
    GAL_TRY(gal_file_replace(latest, text, strlen(text), err));
    GAL_TRY(sync_directory(directory, err));
    GAL_TRY(gal_checkpoint_remove(partial, err));
cleanup:
    return code;
}

gal_code gal_checkpoint_publish(const char *directory, const char *partial, uint64_t step, uint32_t keep,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    char name[LATEST_BYTES];
    snprintf(name, sizeof name, step_format, (unsigned long long)step);
    GAL_TRY(publish(directory, partial, name, err));
    GAL_TRY(prune(directory, step, keep, err));
cleanup:
    return code;
}

gal_code gal_checkpoint_find(const char *path, char *directory, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_PATH_BYTES];
    char *text = NULL;
    size_t byte_count = 0;
    struct stat status;
    GAL_TRY(gal_checkpoint_join(path, "index.json", name, err));
    if (stat(name, &status) == 0) {
        snprintf(directory, GAL_PATH_BYTES, "%s", path);
        return GAL_OK;
    }
    GAL_TRY(gal_checkpoint_join(path, "latest", name, err));
    if (stat(name, &status) != 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: no checkpoint: neither index.json nor latest is there", path);
        goto cleanup;
    }
    GAL_TRY(gal_file_read(name, LATEST_BYTES, &text, &byte_count, err));
    uint64_t step = 0;
    text[strcspn(text, "\n")] = '\0';
    if (!step_of(text, &step)) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: must name a step directory, got '%s'", name, text);
        goto cleanup;
    }
    GAL_TRY(gal_checkpoint_join(path, text, directory, err));
cleanup:
    free(text);
    return code;
}
