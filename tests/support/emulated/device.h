/* Device kernels on the host: the threads of a block take turns in one host thread, each on a stack of its own, and
 * change places where the kernel waits for others: at barriers and exchanges between lanes. Blocks run one after
 * another. What the kernels include as <cuda_runtime.h> and its like lies beside this file; so the same sources compile
 * as plain C++.
 *
 * A barrier that part of a block never reaches, or an exchange with lanes that are gone, ends the process with a
 * message: on a device it would hang or read garbage. Data races show as results that depend on the order of the
 * threads: gal_emulated_reverse turns it round. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_DEVICE_H
#define GAL_TESTS_SUPPORT_EMULATED_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gal_emulated_index {
    uint32_t x, y, z;
} gal_emulated_index;

/* Of the thread that runs. */
extern gal_emulated_index gal_emulated_thread, gal_emulated_block, gal_emulated_block_count, gal_emulated_thread_count;

/* Of all launches from now on: the last thread of a block goes first. */
extern bool gal_emulated_reverse;

/* Launches since the program began. */
extern uint64_t gal_emulated_launches;

/* Carries out work(context) for every thread of every block; blocks of at most 1,024 threads. */
void gal_emulated_run(gal_emulated_index blocks, gal_emulated_index threads, void (*work)(void *), void *context);

void gal_emulated_barrier(void);
/* The value that lane `source` of this warp gave in its same call. All lanes of the warp must call it. */
uint64_t gal_emulated_exchange(uint64_t value, uint32_t source);

#ifdef __cplusplus
}
#endif

#endif
