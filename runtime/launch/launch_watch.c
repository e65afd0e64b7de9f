#include "runtime/launch/launch_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "runtime/launch/launch_record.h"
#include "schemas/base/clock.h"

/* Numbers of events that are not a rank's. */
#define LAUNCHER UINT32_MAX
#define PIPE (UINT32_MAX - 1)

enum { ENDING_MILLISECONDS = 20, EVENTS_MAX = 64, PATH_BYTES = 64, LIST_BYTES = 512, STATUS_BYTES = 512 };

/* What a rank says at its end comes through mpirun. */
static const double dying_seconds = 0.3;
/* A killed process that is writing ends when the write does. */
static const double ending_seconds = 10.0;

/* pidfd < 0: not started, or ended. */
struct gal_launch_watched {
    int pidfd;
    pid_t process; /* 0: not started */
    bool joined;   /* has left the start of MPI */
    bool blocked;
    bool done;            /* its work is */
    double since_seconds; /* blocked */
    char text[GAL_LAUNCH_TEXT_BYTES];
    uint32_t member_count; /* 0: all */
    uint32_t member[GAL_LAUNCH_MEMBERS_MAX];
};

const gal_launch_watch gal_launch_watch_none = {.pipe = {-1, -1}, .epoll = -1, .first_ended = GAL_NO_RANK};

static void add_event(const gal_launch_watch *watch, int descriptor, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = number}};
    (void)epoll_ctl(watch->epoll, EPOLL_CTL_ADD, descriptor, &event);
}

gal_code gal_launch_watch_open(gal_launch_watch *watch, uint32_t rank_count, gal_error *err)
{
    char path[PATH_BYTES];
    *watch = gal_launch_watch_none;
    watch->rank_count = rank_count;
    watch->rank = calloc(rank_count, sizeof *watch->rank);
    if (watch->rank == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: launch");
    }
    for (uint32_t r = 0; r < rank_count; r++) {
        watch->rank[r].pidfd = -1;
    }
    if (pipe2(watch->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "pipe: %s", strerror(errno));
    }
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (watch->epoll < 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "epoll: %s", strerror(errno));
    }
    add_event(watch, watch->pipe[0], PIPE);
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), watch->pipe[1]);
    setenv(GAL_LAUNCH_PIPE_VARIABLE, path, 1);
    return GAL_OK;
}

void gal_launch_watch_close(gal_launch_watch *watch)
{
    for (uint32_t r = 0; watch->rank != NULL && r < watch->rank_count; r++) {
        if (watch->rank[r].pidfd >= 0) {
            close(watch->rank[r].pidfd);
        }
    }
    for (int end = 0; end < 2; end++) {
        if (watch->pipe[end] >= 0) {
            close(watch->pipe[end]);
        }
    }
    if (watch->epoll >= 0) {
        close(watch->epoll);
    }
    free(watch->rank);
    *watch = gal_launch_watch_none;
}

bool gal_launch_watch_kill(const gal_launch_watch *watch)
{
    bool any = false;
    for (uint32_t r = 0; r < watch->rank_count; r++) {
        if (watch->rank[r].pidfd >= 0) {
            (void)pidfd_send_signal(watch->rank[r].pidfd, SIGKILL, NULL, 0);
            any = true;
        }
    }
    return any;
}

bool gal_launch_watch_all_done(const gal_launch_watch *watch)
{
    bool all = true;
    for (uint32_t r = 0; r < watch->rank_count; r++) {
        all = all && watch->rank[r].done;
    }
    return all;
}

/* ---- what is heard ---- */

static void note_ended(gal_launch_watch *watch, uint32_t r)
{
    gal_launch_watched *rank = &watch->rank[r];
    if (watch->first_ended == GAL_NO_RANK) {
        watch->first_ended = r;
        watch->ended_seconds = gal_now_seconds();
        watch->dying = rank->joined && !rank->blocked; /* else it may be the end of MPI */
    }
    if (rank->pidfd >= 0) {
        close(rank->pidfd); /* and epoll forgets it */
    }
    rank->pidfd = -1;
    rank->blocked = false;
}

/* Ranks that fail for one cause say it one by one: the first is the one that counts. */
static bool read_error(gal_launch_watch *watch)
{
    gal_error error;
    if (read(watch->pipe[0], &error, sizeof error) != (ssize_t)sizeof error) {
        return false;
    }
    if (watch->said.code == GAL_OK) {
        watch->said = error;
    }
    return true;
}

/* False if there is no further record. */
static bool read_record(gal_launch_watch *watch)
{
    gal_launch_record record;
    gal_launch_watched other = {.pidfd = -1}, *rank = &other;
    if (read(watch->pipe[0], &record, sizeof record) != (ssize_t)sizeof record ||
        record.member_count > GAL_LAUNCH_MEMBERS_MAX) {
        return false;
    }
    if (record.event == GAL_LAUNCH_FAILED) {
        return read_error(watch);
    }
    if (record.rank < watch->rank_count) {
        rank = &watch->rank[record.rank];
    }
    const size_t member_bytes = record.member_count * sizeof *rank->member;
    if (member_bytes > 0 && read(watch->pipe[0], rank->member, member_bytes) != (ssize_t)member_bytes) {
        return false;
    }
    rank->member_count = record.member_count;
    if (rank != &other && rank->process == 0) { /* else it is known already */
        rank->process = (pid_t)record.process;
        rank->pidfd = pidfd_open(rank->process, 0);
        if (rank->pidfd >= 0) {
            add_event(watch, rank->pidfd, record.rank);
        } else {
            note_ended(watch, record.rank);
        }
    }
    rank->done = rank->done || record.event == GAL_LAUNCH_DONE;
    rank->joined = rank->joined || record.event == GAL_LAUNCH_UNBLOCKED;
    rank->blocked = record.event == GAL_LAUNCH_BLOCKED && rank->pidfd >= 0; /* else it has ended since */
    rank->since_seconds = gal_now_seconds();
    memcpy(rank->text, record.text, sizeof rank->text);
    return true;
}

void gal_launch_watch_hear(gal_launch_watch *watch)
{
    while (read_record(watch)) {
    }
}

static uint32_t count_started(const gal_launch_watch *watch)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < watch->rank_count; r++) {
        count += watch->rank[r].process != 0 ? 1 : 0;
    }
    return count;
}

/* ---- verdict ---- */

/* True if a signal has stopped the process. */
static bool is_stopped(pid_t process)
{
    char path[PATH_BYTES], status[STATUS_BYTES] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        status[fread(status, 1, sizeof status - 1, file)] = '\0';
        fclose(file);
    }
    const char *name_end = strrchr(status, ')'); /* the name may hold anything */
    return name_end != NULL && (name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't'));
}

/* Why a rank does not come to where another is blocked; NULL: it is blocked itself. */
static const char *absence(const gal_launch_watched *rank)
{
    if (rank->process == 0) {
        return "not started";
    }
    if (rank->pidfd < 0) {
        return "ended";
    }
    if (is_stopped(rank->process)) {
        return "stopped";
    }
    return rank->blocked ? NULL : "busy";
}

/* "rank 0 (stopped), rank 2 (busy)": those that have not ended; a long list is cut. */
static void list_left(const gal_launch_watch *watch, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t r = 0; r < watch->rank_count && used + 48 < capacity; r++) {
        const gal_launch_watched *rank = &watch->rank[r];
        if (rank->process == 0 || rank->pidfd >= 0) {
            const char *why = absence(rank);
            used += (size_t)snprintf(text + used, capacity - used, "%srank %u (%s)", used == 0 ? "" : ", ", r,
                                     why == NULL ? "waits" : why);
        }
    }
}

/* "rank 1 (not started), rank 3 (stopped)": those that the waiter waits for; a long list is cut. */
static void list_absent(const gal_launch_watch *watch, const gal_launch_watched *waiter, char *text, size_t capacity)
{
    const uint32_t count = waiter->member_count == 0 ? watch->rank_count : waiter->member_count;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count && used + 48 < capacity; i++) {
        const uint32_t r = waiter->member_count == 0 ? i : waiter->member[i];
        const char *why = r < watch->rank_count ? absence(&watch->rank[r]) : NULL;
        if (why != NULL) {
            used += (size_t)snprintf(text + used, capacity - used, "%srank %u (%s)", used == 0 ? "" : ", ", r, why);
        }
    }
}

void gal_launch_watch_list_late(const gal_launch_watch *watch, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t r = 0; r < watch->rank_count && used + 32 < capacity; r++) {
        if (watch->rank[r].process == 0) {
            used += (size_t)snprintf(text + used, capacity - used, "%srank %u", used == 0 ? "" : ", ", r);
        }
    }
}

/* Of the ranks that are blocked for deadline_seconds the lowest that waits for one that is not; then of all that are
 * blocked: those that wait longest may wait for others that are. */
static gal_code verdict(const gal_launch_watch *watch, uint32_t late, double deadline_seconds, gal_error *err)
{
    char list[LIST_BYTES];
    const double begin_seconds = gal_now_seconds() - deadline_seconds;
    for (int all = 0; all < 2; all++) {
        for (uint32_t r = 0; r < watch->rank_count; r++) {
            const gal_launch_watched *waiter = &watch->rank[r];
            if (!waiter->blocked || (all == 0 && waiter->since_seconds > begin_seconds)) {
                continue;
            }
            list_absent(watch, waiter, list, sizeof list);
            if (list[0] != '\0' && !is_stopped(waiter->process)) {
                return gal_fail(err, GAL_ERR_DEVICE, "not there after %g s: %s; rank %u waits in %s", deadline_seconds,
                                list, r, waiter->text);
            }
        }
    }
    return gal_fail(err, GAL_ERR_DEVICE, "no progress for %g s, though no rank is missing: rank %u waits in %s",
                    deadline_seconds, late, watch->rank[late].text);
}

/* The launcher has not ended for deadline_seconds after the first rank. */
static gal_code unended(const gal_launch_watch *watch, double deadline_seconds, gal_error *err)
{
    char list[LIST_BYTES];
    list_left(watch, list, sizeof list);
    return gal_fail(err, GAL_ERR_DEVICE, "not ended %g s after rank %u: %s", deadline_seconds, watch->first_ended,
                    list[0] == '\0' ? "mpirun, though all ranks have" : list);
}

/* The rank that has been blocked longest, or GAL_NO_RANK. */
static uint32_t longest_blocked(const gal_launch_watch *watch)
{
    uint32_t longest = GAL_NO_RANK;
    for (uint32_t r = 0; r < watch->rank_count; r++) {
        const gal_launch_watched *rank = &watch->rank[r];
        if (rank->blocked && (longest == GAL_NO_RANK || rank->since_seconds < watch->rank[longest].since_seconds)) {
            longest = r;
        }
    }
    return longest;
}

/* ---- waiting ---- */

/* An error if a time is over, or what is due then; else *wait_milliseconds until the next one may be, -1: never. */
static gal_code check_deadlines(gal_launch_watch *watch, double deadline_seconds, double start_end_seconds,
                                double start_seconds, int *wait_milliseconds, gal_error *err)
{
    const uint32_t late = longest_blocked(watch);
    const double now_seconds = gal_now_seconds();
    double end_seconds = INFINITY;
    if (watch->first_ended != GAL_NO_RANK) {
        end_seconds = watch->ended_seconds + deadline_seconds;
        if (now_seconds >= end_seconds) {
            return unended(watch, deadline_seconds, err);
        }
        end_seconds = watch->dying ? fmin(end_seconds, watch->ended_seconds + dying_seconds) : end_seconds;
        if (now_seconds >= end_seconds) {
            (void)gal_launch_watch_kill(watch);
            watch->dying = false;
        }
    } else if (count_started(watch) == 0) {
        end_seconds = start_end_seconds;
        if (now_seconds >= end_seconds) {
            return gal_fail(err, GAL_ERR_DEVICE, "mpirun has started no rank within %g s", start_seconds);
        }
    } else if (late != GAL_NO_RANK) {
        end_seconds = watch->rank[late].since_seconds + deadline_seconds;
        if (now_seconds >= end_seconds) {
            return verdict(watch, late, deadline_seconds, err);
        }
    }
    const double milliseconds = ceil(fmax(end_seconds - now_seconds, 0.0) * 1e3);
    *wait_milliseconds = isfinite(milliseconds) ? (int)fmin(milliseconds, 1e9) : -1;
    return GAL_OK;
}

/* Takes what has happened in the order in which it did: when a rank has died mpirun kills the others at once, so
 * several ends may come together, and epoll hands them out as they came. */
static void take_events(gal_launch_watch *watch, int wait_milliseconds, bool *launcher_ended)
{
    struct epoll_event event[EVENTS_MAX];
    const int count = epoll_wait(watch->epoll, event, EVENTS_MAX, wait_milliseconds);
    for (int i = 0; i < count; i++) { /* none: a time is over, or a signal came, which its handler has forwarded */
        if (event[i].data.u32 == LAUNCHER) {
            *launcher_ended = true;
        } else if (event[i].data.u32 == PIPE) {
            gal_launch_watch_hear(watch);
        } else {
            note_ended(watch, event[i].data.u32);
        }
    }
}

gal_code gal_launch_watch_wait(gal_launch_watch *watch, pid_t launcher, double deadline_seconds, double start_seconds,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    const double start_end_seconds = gal_now_seconds() + start_seconds;
    const int launcher_pidfd = pidfd_open(launcher, 0);
    bool launcher_ended = launcher_pidfd < 0;
    add_event(watch, launcher_pidfd, LAUNCHER);
    while (!launcher_ended) {
        int wait_milliseconds = -1;
        GAL_TRY(check_deadlines(watch, deadline_seconds, start_end_seconds, start_seconds, &wait_milliseconds, err));
        take_events(watch, wait_milliseconds, &launcher_ended);
    }
cleanup:
    if (launcher_pidfd >= 0) {
        close(launcher_pidfd);
    }
    return code;
}

void gal_launch_watch_end_ranks(gal_launch_watch *watch)
{
    bool ignored = false;
    const double end_seconds = gal_now_seconds() + ending_seconds;
    gal_launch_watch_hear(watch);
    while (gal_launch_watch_kill(watch) && gal_now_seconds() < end_seconds) {
        take_events(watch, ENDING_MILLISECONDS, &ignored);
        gal_launch_watch_hear(watch);
    }
}
