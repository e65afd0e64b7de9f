#include "runtime/launch_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "runtime/launch.h"

enum { LAUNCHER, PIPE, FIRST_RANK, PATH_BYTES = 64 };

static const char pipe_variable[] = "GALPLAN_LAUNCH_PIPE";

typedef struct record {
    uint32_t rank;
    int32_t process;
} record;

void gal_launch_register(void)
{
    const char *path = getenv(pipe_variable);
    const int descriptor = path != NULL && gal_launched() ? open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    const record mine = {.rank = gal_launched_rank(), .process = (int32_t)getpid()};
    if (descriptor >= 0) {
        (void)!write(descriptor, &mine, sizeof mine); /* less than PIPE_BUF: whole or not at all */
        close(descriptor);
    }
}

gal_code gal_launch_watch_open(gal_launch_watch *watch, uint32_t rank_count, gal_error *err)
{
    char path[PATH_BYTES];
    *watch = (gal_launch_watch){.pipe = {-1, -1}, .rank_count = rank_count, .first_ended = GAL_NO_RANK};
    if (pipe2(watch->pipe, O_CLOEXEC) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "pipe: %s", strerror(errno));
    }
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), watch->pipe[1]);
    setenv(pipe_variable, path, 1);
    return GAL_OK;
}

void gal_launch_watch_close(gal_launch_watch *watch)
{
    for (int end = 0; end < 2; end++) {
        if (watch->pipe[end] >= 0) {
            close(watch->pipe[end]);
        }
    }
}

/* A rank has said who it is: it is polled from now on. */
static void add_rank(const gal_launch_watch *watch, struct pollfd *polled)
{
    record one = {0};
    if (read(watch->pipe[0], &one, sizeof one) == (ssize_t)sizeof one && one.rank < watch->rank_count) {
        polled[FIRST_RANK + one.rank].fd = pidfd_open((pid_t)one.process, 0);
    }
}

static void note_ended(gal_launch_watch *watch, struct pollfd *polled)
{
    for (uint32_t r = 0; r < watch->rank_count; r++) {
        struct pollfd *rank = &polled[FIRST_RANK + r];
        if (rank->fd >= 0 && rank->revents != 0) {
            watch->first_ended = watch->first_ended == GAL_NO_RANK ? r : watch->first_ended;
            close(rank->fd);
            rank->fd = -1;
        }
    }
}

gal_code gal_launch_watch_wait(gal_launch_watch *watch, pid_t launcher, gal_error *err)
{
    const size_t count = (size_t)FIRST_RANK + watch->rank_count;
    struct pollfd *polled = calloc(count, sizeof *polled);
    if (polled == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: launch");
    }
    for (size_t i = 0; i < count; i++) {
        polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    polled[LAUNCHER].fd = pidfd_open(launcher, 0);
    polled[PIPE].fd = watch->pipe[0];
    while (polled[LAUNCHER].fd >= 0) {
        if (poll(polled, (nfds_t)count, -1) < 0) {
            continue; /* a signal, which its handler has forwarded */
        }
        note_ended(watch, polled);
        if (polled[PIPE].revents != 0) {
            add_rank(watch, polled);
        }
        if (polled[LAUNCHER].revents != 0) {
            break;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (i != PIPE && polled[i].fd >= 0) {
            close(polled[i].fd);
        }
    }
    free(polled);
    return GAL_OK;
}
