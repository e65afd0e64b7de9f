/* A CUDA runtime without a GPU, for tests: device memory is the host's, and what is put on streams is carried out late
 * and in a random order that only streams and events restrict. It fails a test (cmocka) on what CUDA would take
 * silently: waits for events that were never recorded, capture that is not joined, and destroyed things in use.
 *
 * Programs that are linked with it need no libcudart. One thread. */
#ifndef GAL_TESTS_SUPPORT_CUDA_DOUBLE_H
#define GAL_TESTS_SUPPORT_CUDA_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GAL_DOUBLE_STREAMS_MAX = 96, GAL_DOUBLE_PAYLOAD_BYTES = 640 };

/* Forgets all; later choices are drawn from seed. lazy: queries move little on, so that queues grow long. */
void gal_cuda_double_reset(uint64_t seed, bool lazy);

/* Until it is reset, the time between two events is a millisecond for every kernel or copy that was done meanwhile, on
 * any stream; else always a millisecond. */
void gal_cuda_double_clock_counts(void);

/* A kernel: work(payload) is called when the stream gets there. */
void gal_cuda_double_launch(void *stream, void (*work)(void *payload), const void *payload, size_t payload_bytes);

/* How many have been made, and are not destroyed. */
typedef struct gal_double_counts {
    uint32_t streams, events, graphs, allocations, pinned;
    uint64_t made; /* of all kinds, ever */
} gal_double_counts;
gal_double_counts gal_cuda_double_counts(void);

/* Everything that was put on any stream has been carried out; what is left are waits that nothing follows. */
bool gal_cuda_double_is_drained(void);

/* One kernel or copy, in the order in which the host issued them; those of a graph at its launch. */
typedef struct gal_double_work {
    uint32_t stream;                        /* number, in the order in which they were made */
    uint32_t after[GAL_DOUBLE_STREAMS_MAX]; /* the first so many of each stream are complete when it starts, by its
                                             * stream and the events that this has waited for */
} gal_double_work;
const gal_double_work *gal_cuda_double_log(size_t *count);
void gal_cuda_double_clear_log(void);
int gal_cuda_double_priority(uint32_t stream); /* number */

/* From here on cudaGetDeviceCount says so many; -1: no driver. */
void gal_cuda_double_set_devices(int count);
/* The n-th call of what makes or queues something fails from now on; 0: none. */
void gal_cuda_double_fail_at(uint64_t call);

#endif
