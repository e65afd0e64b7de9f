#include "schemas/base/trial.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schemas/base/clock.h"

enum { AT_ONCE_MAX = 16 };

/* A trial that runs. */
typedef struct child {
    gal_trial *trial; /* NULL: none here */
    pid_t process;
    int descriptor;
    double end_seconds;
    size_t filled; /* bytes of a note that has not come whole */
    char *note;    /* owned */
} child;

void gal_trial_note(const gal_trial_notes *notes, const void *answer)
{
    const char *at = answer;
    size_t left = notes->answer_bytes;
    while (left > 0) {
        const ssize_t written = write(notes->descriptor, at, left);
        if (written < 0 && errno != EINTR) {
            return;
        }
        at += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
}

static void run_child(const gal_trial *trial, int descriptor, pid_t parent)
{
    const gal_trial_notes notes = {descriptor, trial->answer_bytes};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        trial->run(trial->task, &notes);
    }
    _exit(0); /* the parent's buffers are not this process's to flush */
}

/* Without a process for it the trial is cut. */
static void begin(child *c, gal_trial *trial, double end_seconds)
{
    int ends[2];
    const pid_t parent = getpid();
    *c = (child){.note = malloc(trial->answer_bytes)};
    trial->cut = true;
    if (c->note == NULL || pipe(ends) != 0) {
        free(c->note);
        return;
    }
    const pid_t process = fork();
    if (process == 0) {
        run_child(trial, ends[1], parent);
    }
    (void)close(ends[1]);
    if (process < 0) {
        (void)close(ends[0]);
        free(c->note);
        return;
    }
    c->trial = trial;
    c->process = process;
    c->descriptor = ends[0];
    c->end_seconds = end_seconds;
}

static void end(child *c, bool cut)
{
    if (cut) {
        (void)kill(c->process, SIGKILL);
    }
    while (waitpid(c->process, NULL, 0) < 0 && errno == EINTR) {
    }
    (void)close(c->descriptor);
    free(c->note);
    c->trial->cut = cut;
    c->trial = NULL;
}

/* Reads what has come. */
static void receive(child *c)
{
    gal_trial *trial = c->trial;
    const ssize_t got = read(c->descriptor, c->note + c->filled, trial->answer_bytes - c->filled);
    if (got == 0 || (got < 0 && errno != EINTR)) {
        end(c, false);
        return;
    }
    c->filled += got > 0 ? (size_t)got : 0;
    if (c->filled == trial->answer_bytes) {
        memcpy(trial->answer, c->note, trial->answer_bytes);
        trial->noted = true;
        c->filled = 0;
    }
}

/* Until a note comes, a trial ends or the first one's time is up. */
static void wait_for_any(child *children, size_t at_once)
{
    struct pollfd wanted[AT_ONCE_MAX];
    size_t of[AT_ONCE_MAX];
    nfds_t count = 0;
    double first = HUGE_VAL;
    for (size_t i = 0; i < at_once; i++) {
        if (children[i].trial != NULL) {
            first = fmin(first, children[i].end_seconds);
            of[count] = i;
            wanted[count++] = (struct pollfd){.fd = children[i].descriptor, .events = POLLIN};
        }
    }
    const double left = fmax(0.0, first - gal_now_seconds());
    if (count == 0 || poll(wanted, count, (int)ceil(left * 1e3)) < 0) {
        return;
    }
    for (nfds_t i = 0; i < count; i++) {
        if (wanted[i].revents != 0) {
            receive(&children[of[i]]);
        }
    }
    for (size_t i = 0; i < at_once; i++) {
        if (children[i].trial != NULL && gal_now_seconds() >= children[i].end_seconds) {
            end(&children[i], true);
        }
    }
}

static bool any_runs(const child *children, size_t at_once)
{
    bool runs = false;
    for (size_t i = 0; i < at_once; i++) {
        runs = runs || children[i].trial != NULL;
    }
    return runs;
}

void gal_trials_run(gal_trial *trials, size_t count, size_t at_once, double each_seconds, double all_seconds)
{
    child children[AT_ONCE_MAX] = {{0}};
    const double end_seconds = gal_now_seconds() + all_seconds;
    const size_t most = at_once < 1 ? 1 : at_once < AT_ONCE_MAX ? at_once : AT_ONCE_MAX;
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        trials[i].noted = false;
        trials[i].cut = true;
    }
    while (next < count || any_runs(children, most)) {
        for (size_t i = 0; i < most && next < count; i++) {
            const double now = gal_now_seconds();
            if (now >= end_seconds) {
                next = count;
            } else if (children[i].trial == NULL) {
                begin(&children[i], &trials[next++], fmin(end_seconds, now + each_seconds));
            }
        }
        wait_for_any(children, most);
    }
}
