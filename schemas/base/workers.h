/* Threads that share out numbered tasks. */
#ifndef GAL_SCHEMAS_BASE_WORKERS_H
#define GAL_SCHEMAS_BASE_WORKERS_H

#include <stdint.h>

typedef struct gal_workers gal_workers;

/* The caller and up to thread_count - 1 threads of its own, which begin with the first tasks. NULL without memory, and
 * of one thread: NULL stands for the caller alone. Where a thread can't be had the others do its share. */
gal_workers *gal_workers_create(uint32_t thread_count);
void gal_workers_free(gal_workers *workers); /* accepts NULL */

/* task(context, i) for every i below task_count, each once, by whichever thread is free, begun in their order; returns
 * when all are done. Not from within a task. */
void gal_workers_run(gal_workers *workers, uint32_t task_count, void (*task)(void *context, uint32_t index),
                     void *context);

/* How many cores this process may run on; at least 1. */
uint32_t gal_workers_cores(void);

#endif
