#include "runtime/launch/launch_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char shared_memory[] = "/dev/shm";
static const char prefix[] = "galrun-";

/* Removes an entry of an open folder, with everything below it. Follows no symbolic link. */
static void remove_below(int folder, const char *name, int depth)
{
    enum { DEPTH_MAX = 16 };
    const int below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0 || depth == DEPTH_MAX) {
        (void)unlinkat(folder, name, 0);
        if (below >= 0) {
            close(below);
        }
        return;
    }
    DIR *opened = fdopendir(below);
    const struct dirent *entry;
    while (opened != NULL && (entry = readdir(opened)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            remove_below(below, entry->d_name, depth + 1);
        }
    }
    if (opened != NULL) {
        closedir(opened);
    } else {
        close(below);
    }
    (void)unlinkat(folder, name, AT_REMOVEDIR);
}

/* Whether a folder of this user is that of a launch whose process is gone. */
static bool is_left_over(int folder, const char *name)
{
    struct stat status;
    char *end = NULL;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    const long process = strtol(name + sizeof prefix - 1, &end, 10);
    return process > 0 && *end == '-' && fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode) && status.st_uid == geteuid() && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

static void sweep(void)
{
    const int folder = open(shared_memory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *opened = folder >= 0 ? fdopendir(folder) : NULL;
    const struct dirent *entry;
    while (opened != NULL && (entry = readdir(opened)) != NULL) {
        if (is_left_over(folder, entry->d_name)) {
            remove_below(folder, entry->d_name, 0);
        }
    }
    if (opened != NULL) {
        closedir(opened);
    } else if (folder >= 0) {
        close(folder);
    }
}

void gal_launch_folder_make(char path[GAL_LAUNCH_FOLDER_BYTES])
{
    sweep();
    snprintf(path, GAL_LAUNCH_FOLDER_BYTES, "%s/%s%ld-XXXXXX", shared_memory, prefix, (long)getpid());
    if (mkdtemp(path) == NULL) {
        path[0] = '\0';
    }
}

void gal_launch_folder_remove(const char *path)
{
    const int root = path[0] != '\0' ? open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (root >= 0) {
        remove_below(root, path + 1, 0);
        close(root);
    }
}
