/* A fault interposer: counts the calls by which a program changes the files below one folder, and at the i-th ends the
 * process or lets the disk be full. Preload it into the program (into the ranks, not into mpirun):
 *
 *     GALPLAN_FAULT_FOLDER=/tmp/save   only paths and descriptors below it count
 *     GALPLAN_FAULT_AT=17              1-based; 0: only counts
 *     GALPLAN_FAULT_KIND=kill          SIGKILL just before the call (a write is carried out by half)
 *                        full          ENOSPC from that call on, of all that may need room (a write is done by half)
 *                        broken        EIO, likewise
 *                        unreadable    EIO from that pread on
 *                        ended         from that pread on there is nothing to read
 *                        short         from that call on pread and pwrite move half, in whole blocks
 *     GALPLAN_FAULT_RANK=2             only in this rank of Open MPI
 *     GALPLAN_FAULT_FILE=/tmp/count    the calls so far, as a number, rewritten at each
 *
 * Counted: open and openat for creation, mkdir, write, pwrite, fsync, close, rename, renameat2, unlink, unlinkat,
 * rmdir; of unreadable and ended pread alone, of short pread and pwrite. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum kind { KILL, FULL, BROKEN, UNREADABLE, ENDED, SHORT, KINDS } kind;
static const char *const kind_names[KINDS] = {"kill", "full", "broken", "unreadable", "ended", "short"};
enum { BLOCK_BYTES = 4096 /* what a file past the page cache is read and written in */ };

static const char *folder;
static long at, calls;
static kind fault;
static int count_file = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *rank = getenv("GALPLAN_FAULT_RANK"), *launched = getenv("OMPI_COMM_WORLD_RANK");
    const char *number = getenv("GALPLAN_FAULT_AT"), *name = getenv("GALPLAN_FAULT_KIND");
    const char *file = getenv("GALPLAN_FAULT_FILE");
    if (rank != NULL && (launched == NULL || strcmp(rank, launched) != 0)) {
        return;
    }
    folder = getenv("GALPLAN_FAULT_FOLDER");
    at = number != NULL ? strtol(number, NULL, 10) : 0;
    for (kind k = KILL; name != NULL && k < KINDS; k++) {
        fault = strcmp(name, kind_names[k]) == 0 ? k : fault;
    }
    if (folder != NULL && file != NULL) {
        count_file = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
}

static bool below(const char *path)
{
    const size_t length = folder != NULL ? strlen(folder) : 0;
    return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool descriptor_below(int descriptor)
{
    char name[64], path[PATH_MAX];
    const int saved = errno;
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    const ssize_t length = folder != NULL ? readlink(name, path, sizeof path - 1) : -1;
    errno = saved;
    path[length > 0 ? length : 0] = '\0';
    return below(path);
}

/* Counts a call; true if the fault is due. */
static bool due(void)
{
    char text[32];
    calls++;
    if (count_file >= 0) {
        const int length = snprintf(text, sizeof text, "%ld\n", calls);
        (void)syscall(SYS_pwrite64, count_file, text, (size_t)length, 0L);
    }
    return at > 0 && (fault == KILL ? calls == at : calls >= at);
}

/* Whether the fault is of what changes files. */
static bool is_of_changes(void)
{
    return fault == KILL || fault == FULL || fault == BROKEN;
}

/* A call that needs room: ends the process or is refused. */
static bool refused(void)
{
    if (!is_of_changes() || !due()) {
        return false;
    }
    if (fault == KILL) {
        (void)syscall(SYS_kill, getpid(), SIGKILL);
    }
    errno = fault == FULL ? ENOSPC : EIO;
    return true;
}

/* One that gives room back goes on when the disk is full. */
static void passed(void)
{
    if (is_of_changes() && due() && fault == KILL) {
        (void)syscall(SYS_kill, getpid(), SIGKILL);
    }
}

/* Of so many bytes what a call moves that is due to move half. */
static size_t half_of(size_t byte_count)
{
    const size_t half = byte_count / 2 / BLOCK_BYTES * BLOCK_BYTES;
    return half > 0 ? half : byte_count;
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
        if (below(path) && refused()) {
            return -1;
        }
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* A name below an open folder, or a path. */
static bool below_at(int folder_descriptor, const char *path)
{
    return path[0] == '/' || folder_descriptor == AT_FDCWD ? below(path) : descriptor_below(folder_descriptor);
}

int openat(int folder_descriptor, const char *path, int flags, ...)
{
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
        if (below_at(folder_descriptor, path) && refused()) {
            return -1;
        }
    }
    return (int)syscall(SYS_openat, folder_descriptor, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return below(path) && refused() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

ssize_t write(int descriptor, const void *bytes, size_t byte_count)
{
    if (descriptor_below(descriptor) && is_of_changes() && due()) {
        if (fault == KILL || (calls == at && byte_count > 1)) {
            const long half = syscall(SYS_write, descriptor, bytes, byte_count / 2);
            if (fault != KILL) {
                return (ssize_t)half;
            }
            (void)syscall(SYS_kill, getpid(), SIGKILL);
        }
        errno = fault == FULL ? ENOSPC : EIO;
        return -1;
    }
    return (ssize_t)syscall(SYS_write, descriptor, bytes, byte_count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t byte_count, off_t offset)
{
    const bool ours = descriptor_below(descriptor);
    if (ours && refused()) {
        return -1;
    }
    const size_t moved = ours && fault == SHORT && due() ? half_of(byte_count) : byte_count;
    return (ssize_t)syscall(SYS_pwrite64, descriptor, bytes, moved, offset);
}

ssize_t pread(int descriptor, void *bytes, size_t byte_count, off_t offset)
{
    const bool faulty = !is_of_changes() && descriptor_below(descriptor) && due();
    if (faulty && fault == UNREADABLE) {
        errno = EIO;
        return -1;
    }
    const size_t moved = !faulty ? byte_count : fault == ENDED ? 0 : half_of(byte_count);
    return (ssize_t)syscall(SYS_pread64, descriptor, bytes, moved, offset);
}

int fsync(int descriptor)
{
    return descriptor_below(descriptor) && refused() ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int close(int descriptor)
{
    if (descriptor_below(descriptor)) {
        passed();
    }
    return (int)syscall(SYS_close, descriptor);
}

int rename(const char *from, const char *to)
{
    return below(to) && refused() ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return below(to) && refused() ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int unlink(const char *path)
{
    if (below(path)) {
        passed();
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int folder_descriptor, const char *path, int flags)
{
    if (below_at(folder_descriptor, path)) {
        passed();
    }
    return (int)syscall(SYS_unlinkat, folder_descriptor, path, flags);
}

int rmdir(const char *path)
{
    if (below(path)) {
        passed();
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
