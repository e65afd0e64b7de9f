/* How something is timed: all ranks together, repeatedly, with one answer on all of them. For the profiler alone. */
#ifndef GAL_PROFILER_BENCH_H
#define GAL_PROFILER_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/backend.h"
#include "runtime/train/world.h"

/* The two queues of a device with queues. Kernels go on the first one, what runs beside them on the second, which is
 * urgent, as a communicator's is. */
typedef enum gal_lane { GAL_LANE_COMPUTE, GAL_LANE_BESIDE, GAL_LANE_COUNT } gal_lane;

typedef struct gal_bench {
    gal_world world;
    const gal_backend *backend;
    void *queue[GAL_LANE_COUNT];                                    /* NULL: the device has none */
    void *begin[GAL_LANE_COUNT], *first_done, *end[GAL_LANE_COUNT]; /* its events */
    void (*tell)(const char *text);                                 /* gal_connection.tell; may be NULL */
    const volatile sig_atomic_t *stop; /* not 0 on any rank: measuring ends with GAL_ERR_SYSTEM on all; may be NULL */
    bool tf32;                         /* of the kernels of a device: gal_kernel_choice */
    uint32_t sharing_count;            /* ranks on this rank's device, at least 1 */
    bool shared_cores;                 /* more ranks than cores on one machine */
    double begin_seconds;
    double elapsed_seconds; /* since begin, as all ranks last agreed */
} gal_bench;

typedef struct gal_timing {
    double seconds;        /* of one: median over the repeats of the slowest rank */
    double spread_seconds; /* half the distance between the quartiles */
} gal_timing;

/* Does it `count` times, one after the other; on a device with queues puts it on one of them. */
typedef gal_code (*gal_timed)(void *context, uint32_t count, gal_error *err);

/* The device's queues and events, which all measuring shares. GAL_ERR_DEVICE, GAL_ERR_SYSTEM. */
gal_code gal_bench_open(gal_bench *bench, gal_error *err);
void gal_bench_close(gal_bench *bench); /* accepts one that is not open */

/* Collective: times run on all ranks at once. A sample is a batch that lasts some 300 us at least; before each all
 * ranks meet. A rank's time is its own, unless ranks share cores: then a sample lasts from the first rank's begin to
 * the last one's end, for a rank that waits for a core has not begun by its own clock.
 * On a device with queues what is timed lies between two events of the compute lane, behind one run more: the device is
 * busy then, and the host ahead of it, as within a step. Nothing is allocated while it runs. */
gal_code gal_bench_time(gal_bench *bench, gal_timed run, void *context, gal_timing *out, gal_error *err);

/* On one lane, taking `alone_seconds` each when it runs alone (the same on all ranks). */
typedef struct gal_beside {
    gal_timed run;
    void *context;
    gal_lane lane;
    double alone_seconds;
} gal_beside;

/* Collective, on a device with queues: seconds of one `measured` while `cover`, on the other lane, runs from before the
 * first of them to after the last. */
gal_code gal_bench_time_beside(gal_bench *bench, const gal_beside *measured, const gal_beside *cover, gal_timing *out,
                               gal_error *err);
/* Waits for all that the lane was given. */
gal_code gal_bench_settle(const gal_bench *bench, gal_lane lane, gal_error *err);

/* Collective: renews elapsed_seconds, and ends all ranks' work if one of them is to stop. */
gal_code gal_bench_tick(gal_bench *bench, gal_error *err);
gal_code gal_bench_barrier(const gal_bench *bench, gal_error *err);

/* Sorts; quartile 1, 2 or 3 (2: the median) by linear interpolation. count >= 1. */
double gal_quartile(double *value, uint32_t count, uint32_t quartile);

#endif
