#include "planner/cli/waiting.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "schemas/base/progress.h"

enum { INTERVAL_NANOSECONDS = 500000000 };

static void add_interval(struct timespec *at)
{
    at->tv_nsec += INTERVAL_NANOSECONDS;
    if (at->tv_nsec >= 1000000000) {
        at->tv_nsec -= 1000000000;
        at->tv_sec++;
    }
}

static void *show(void *argument)
{
    gal_waiting *waiting = argument;
    gal_progress progress = {.terminal = true};
    struct timespec at;
    double elapsed_seconds = 0.0;
    clock_gettime(CLOCK_MONOTONIC, &at);
    pthread_mutex_lock(&waiting->mutex);
    while (!waiting->done) {
        add_interval(&at);
        while (!waiting->done && pthread_cond_timedwait(&waiting->wake, &waiting->mutex, &at) != ETIMEDOUT) {
        }
        elapsed_seconds += 1e-9 * INTERVAL_NANOSECONDS;
        if (!waiting->done) {
            gal_progress_show(&progress, waiting->what, 0, 0, elapsed_seconds);
        }
    }
    pthread_mutex_unlock(&waiting->mutex);
    gal_progress_end(&progress);
    return NULL;
}

void gal_waiting_begin(gal_waiting *waiting, const char *what)
{
    pthread_condattr_t clock;
    *waiting = (gal_waiting){.what = what};
    if (isatty(STDERR_FILENO) == 0) {
        return;
    }
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&waiting->mutex, NULL);
    pthread_cond_init(&waiting->wake, &clock);
    pthread_condattr_destroy(&clock);
    waiting->running = pthread_create(&waiting->thread, NULL, show, waiting) == 0; /* without it: no line */
    if (!waiting->running) {
        pthread_cond_destroy(&waiting->wake);
        pthread_mutex_destroy(&waiting->mutex);
    }
}

void gal_waiting_end(gal_waiting *waiting)
{
    if (!waiting->running) {
        return;
    }
    pthread_mutex_lock(&waiting->mutex);
    waiting->done = true;
    pthread_cond_signal(&waiting->wake);
    pthread_mutex_unlock(&waiting->mutex);
    pthread_join(waiting->thread, NULL);
    pthread_cond_destroy(&waiting->wake);
    pthread_mutex_destroy(&waiting->mutex);
    waiting->running = false;
}
