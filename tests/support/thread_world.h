/* A world whose ranks are threads of one process, for tests: control alone, no requests. */
#ifndef GAL_TESTS_SUPPORT_THREAD_WORLD_H
#define GAL_TESTS_SUPPORT_THREAD_WORLD_H

#include "runtime/comm/comm.h"

enum { GAL_THREADS_MAX = 16 };

typedef struct gal_thread_world gal_thread_world;

gal_thread_world *gal_thread_world_create(uint32_t world_size);
void gal_thread_world_free(gal_thread_world *world);
/* The rank's comm; lives as long as the world. Deadlines are not held. */
gal_comm *gal_thread_world_comm(gal_thread_world *world, uint32_t rank);

/* Runs body(rank, context) as all ranks at once, and returns when all have. */
void gal_thread_world_run(uint32_t world_size, void (*body)(uint32_t rank, void *context), void *context);

#endif
