#include "runtime/launch/launch_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/launch/launch_record.h"
#include "runtime/launch/signals.h"

enum { FULL_PIPE_MILLISECONDS = 1000, LINE_BYTES = 256 };

static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
static const double stagger_seconds = 2.0, stagger_seconds_max = 10.0;

static const char *rank_text(void)
{
    for (size_t i = 0; i < sizeof rank_variables / sizeof rank_variables[0]; i++) {
        const char *text = getenv(rank_variables[i]);
        if (text != NULL) {
            return text;
        }
    }
    return NULL;
}

bool gal_launched(void)
{
    return rank_text() != NULL;
}

uint32_t gal_launched_rank(void)
{
    const char *text = rank_text();
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

bool gal_launched_terminal(void)
{
    return isatty(STDERR_FILENO) != 0 || (gal_launched() && getenv(GAL_LAUNCH_TERMINAL_VARIABLE) != NULL);
}

/* ---- a launcher of ours ---- */

typedef struct message {
    gal_launch_record record;
    union {
        uint32_t member[GAL_LAUNCH_MEMBERS_MAX];
        gal_error error;
    };
} message;

_Static_assert(sizeof(message) <= PIPE_BUF, "a record is written whole or not at all");

typedef enum delivery { NOBODY_LISTENS, LOST, DELIVERED } delivery;

/* The record and the first byte_count bytes behind it. */
static delivery deliver(message *out, gal_launch_event event, size_t byte_count)
{
    const char *path = getenv(GAL_LAUNCH_PIPE_VARIABLE);
    const int descriptor = path != NULL && gal_launched() ? open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (descriptor < 0) {
        return NOBODY_LISTENS;
    }
    out->record.event = event;
    out->record.rank = gal_launched_rank();
    out->record.process = (int32_t)getpid();
    byte_count += sizeof out->record;
    ssize_t written = write(descriptor, out, byte_count);
    if (written < 0 && errno == EAGAIN) { /* the reader is behind: once more */
        struct pollfd room = {.fd = descriptor, .events = POLLOUT};
        (void)poll(&room, 1, FULL_PIPE_MILLISECONDS);
        written = write(descriptor, out, byte_count);
    }
    close(descriptor);
    return written == (ssize_t)byte_count ? DELIVERED : LOST;
}

/* False if nobody listens. */
static bool tell(gal_launch_event event, const gal_comm_wait *wait)
{
    message out;
    memset(&out.record, 0, sizeof out.record);
    if (wait != NULL) {
        const uint32_t count = wait->rank_count;
        out.record.member_count = count < GAL_LAUNCH_MEMBERS_MAX ? count : GAL_LAUNCH_MEMBERS_MAX;
        snprintf(out.record.text, sizeof out.record.text, "%s", wait->text);
        if (out.record.member_count > 0) {
            memcpy(out.member, wait->ranks, out.record.member_count * sizeof *out.member);
        }
    }
    return deliver(&out, event, out.record.member_count * sizeof *out.member) != NOBODY_LISTENS;
}

void gal_launch_register(void)
{
    (void)tell(GAL_LAUNCH_STARTED, NULL);
}

void gal_launch_done(void)
{
    (void)tell(GAL_LAUNCH_DONE, NULL);
}

bool gal_launch_say(const gal_error *err)
{
    message out = {.error = *err};
    return deliver(&out, GAL_LAUNCH_FAILED, sizeof out.error) == DELIVERED;
}

/* ---- a foreign launcher ---- */

/* A handler has no other way to know. */
static struct {
    char program[32], line[LINE_BYTES];
    size_t line_bytes;
    double deadline_seconds; /* 0: none */
    const volatile sig_atomic_t *stop;
} timer;

/* A rank that was told to end meanwhile is not the first that was late. */
static void end_now(int number)
{
    (void)number;
    if (*timer.stop != 0) {
        _exit(GAL_ERR_DEVICE);
    }
    (void)!write(STDERR_FILENO, timer.line, timer.line_bytes);
    _exit(GAL_ERR_DEVICE);
}

static void set_timer(double seconds)
{
    struct itimerval value;
    memset(&value, 0, sizeof value);
    value.it_value.tv_sec = (time_t)seconds;
    value.it_value.tv_usec = (suseconds_t)((seconds - floor(seconds)) * 1e6);
    setitimer(ITIMER_REAL, &value, NULL);
}

void gal_launch_deadline(const char *program, double deadline_seconds)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_now;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    snprintf(timer.program, sizeof timer.program, "%s", program);
    timer.deadline_seconds = deadline_seconds;
    timer.stop = gal_stop_on_signals();
}

void gal_launch_blocked(const gal_comm_wait *wait)
{
    const uint32_t rank = gal_launched_rank();
    if (timer.deadline_seconds <= 0.0 || tell(GAL_LAUNCH_BLOCKED, wait)) {
        return;
    }
    int used = snprintf(timer.line, sizeof timer.line, "%s: error: rank %u has waited for %g s in %s for ",
                        timer.program, rank, timer.deadline_seconds, wait->text);
    used += snprintf(timer.line + used, sizeof timer.line - (size_t)used, wait->rank_count == 0 ? "all ranks" : "rank");
    for (uint32_t i = 0; i < wait->rank_count && used + 24 < LINE_BYTES; i++) {
        if (wait->ranks[i] != rank) {
            used += snprintf(timer.line + used, sizeof timer.line - (size_t)used, " %u", wait->ranks[i]);
        }
    }
    used += snprintf(timer.line + used, sizeof timer.line - (size_t)used, "\n");
    timer.line_bytes = (size_t)used < sizeof timer.line ? (size_t)used : sizeof timer.line - 1;
    set_timer(timer.deadline_seconds + fmin(stagger_seconds * (rank + 1), stagger_seconds_max));
}

void gal_launch_unblocked(void)
{
    if (timer.deadline_seconds > 0.0 && !tell(GAL_LAUNCH_UNBLOCKED, NULL)) {
        set_timer(0.0);
    }
}
