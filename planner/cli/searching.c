#include "planner/cli/searching.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "schemas/base/clock.h"
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

static void write_line(gal_progress *progress, const gal_search_progress *now, double elapsed_seconds)
{
    char line[GAL_PROGRESS_COLUMNS + 1];
    char limit[32] = "";
    char best[48] = "";
    if (now->work_limit > 0) { /* the first rounds of the dual do not stop at the limit */
        (void)snprintf(limit, sizeof limit, " (%.0f %%)",
                       fmin(100.0, 100.0 * (double)now->work / (double)now->work_limit));
    }
    if (now->samples_per_second > 0.0) {
        (void)snprintf(best, sizeof best, ", best %.4g samples/s", now->samples_per_second);
    }
    const int bytes = snprintf(line, sizeof line, "searching: %u of %u cells closed%s%s, %.0f s",
                               now->closed_cell_count, now->cell_count, limit, best, elapsed_seconds);
    if (bytes > 0) { /* what is longer than a line is cut */
        gal_progress_write(progress, line);
    }
}

static void *show(void *argument)
{
    gal_searching *s = argument;
    gal_progress progress = {.terminal = true};
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    pthread_mutex_lock(&s->mutex);
    while (!s->done) {
        add_interval(&at);
        while (!s->done && pthread_cond_timedwait(&s->wake, &s->mutex, &at) != ETIMEDOUT) {
        }
        if (!s->done && s->now.closed_cell_count < s->now.cell_count) {
            const gal_search_progress now = s->now;
            pthread_mutex_unlock(&s->mutex); /* the search does not wait for the terminal */
            write_line(&progress, &now, gal_now_seconds() - s->begin_seconds);
            pthread_mutex_lock(&s->mutex);
        }
    }
    pthread_mutex_unlock(&s->mutex);
    gal_progress_end(&progress);
    return NULL;
}

void gal_searching_begin(gal_searching *searching)
{
    pthread_condattr_t clock;
    searching->begin_seconds = gal_now_seconds();
    if (searching->quiet || isatty(STDERR_FILENO) == 0) {
        return;
    }
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&searching->mutex, NULL);
    pthread_cond_init(&searching->wake, &clock);
    pthread_condattr_destroy(&clock);
    searching->running = pthread_create(&searching->thread, NULL, show, searching) == 0; /* without it: no line */
    if (!searching->running) {
        pthread_cond_destroy(&searching->wake);
        pthread_mutex_destroy(&searching->mutex);
    }
}

void gal_searching_tell(void *searching, const gal_search_progress *now)
{
    gal_searching *s = searching;
    if (!s->running) {
        return;
    }
    pthread_mutex_lock(&s->mutex);
    s->now = *now;
    pthread_mutex_unlock(&s->mutex);
}

double gal_searching_end(gal_searching *searching)
{
    const double seconds = gal_now_seconds() - searching->begin_seconds;
    if (searching->running) {
        pthread_mutex_lock(&searching->mutex);
        searching->done = true;
        pthread_cond_signal(&searching->wake);
        pthread_mutex_unlock(&searching->mutex);
        pthread_join(searching->thread, NULL);
        pthread_cond_destroy(&searching->wake);
        pthread_mutex_destroy(&searching->mutex);
        searching->running = false;
    }
    return seconds;
}
