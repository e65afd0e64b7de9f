#include "schemas/base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

struct gal_workers {
    uint32_t thread_count; /* of its own that were begun */
    pthread_t *thread;     /* [wanted_count] */
    uint32_t wanted_count;
    bool begun, ends;
    pthread_mutex_t mutex; /* over all below, and ends */
    pthread_cond_t wake;   /* tasks are there, or it ends */
    pthread_cond_t done;   /* the last one is */
    uint32_t task_count, next, running;
    void (*task)(void *context, uint32_t index);
    void *context;
};

uint32_t gal_workers_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

gal_workers *gal_workers_create(uint32_t thread_count)
{
    gal_workers *workers = thread_count > 1 ? calloc(1, sizeof *workers) : NULL;
    if (workers == NULL) {
        return NULL;
    }
    workers->wanted_count = thread_count - 1;
    workers->thread = calloc(workers->wanted_count, sizeof *workers->thread);
    if (workers->thread == NULL) {
        free(workers);
        return NULL;
    }
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->wake, NULL);
    pthread_cond_init(&workers->done, NULL);
    return workers;
}

/* Tasks until none is left to begin. The mutex is held but in tasks. */
static void work(gal_workers *w)
{
    while (w->next < w->task_count) {
        const uint32_t index = w->next++;
        w->running++;
        pthread_mutex_unlock(&w->mutex);
        w->task(w->context, index);
        pthread_mutex_lock(&w->mutex);
        w->running--;
    }
    if (w->running == 0) {
        pthread_cond_signal(&w->done);
    }
}

static void *live(void *argument)
{
    gal_workers *w = argument;
    pthread_mutex_lock(&w->mutex);
    while (!w->ends) {
        if (w->next < w->task_count) {
            work(w);
        } else {
            pthread_cond_wait(&w->wake, &w->mutex);
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void begin(gal_workers *w)
{
    w->begun = true;
    while (w->thread_count < w->wanted_count && pthread_create(&w->thread[w->thread_count], NULL, live, w) == 0) {
        w->thread_count++;
    }
}

void gal_workers_run(gal_workers *workers, uint32_t task_count, void (*task)(void *context, uint32_t index),
                     void *context)
{
    if (workers == NULL || task_count < 2) {
        for (uint32_t i = 0; i < task_count; i++) {
            task(context, i);
        }
        return;
    }
    if (!workers->begun) {
        begin(workers);
    }
    pthread_mutex_lock(&workers->mutex);
    workers->task = task;
    workers->context = context;
    workers->next = 0;
    workers->task_count = task_count;
    pthread_cond_broadcast(&workers->wake);
    work(workers);
    while (workers->running > 0) {
        pthread_cond_wait(&workers->done, &workers->mutex);
    }
    pthread_mutex_unlock(&workers->mutex);
}

void gal_workers_free(gal_workers *workers)
{
    if (workers == NULL) {
        return;
    }
    pthread_mutex_lock(&workers->mutex);
    workers->ends = true;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->mutex);
    for (uint32_t i = 0; i < workers->thread_count; i++) {
        pthread_join(workers->thread[i], NULL);
    }
    pthread_cond_destroy(&workers->done);
    pthread_cond_destroy(&workers->wake);
    pthread_mutex_destroy(&workers->mutex);
    free(workers->thread);
    free(workers);
}
