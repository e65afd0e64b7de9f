/* How something is timed: all ranks together, repeatedly, with one answer on all of them. For the profiler alone. */
#ifndef GAL_PROFILER_BENCH_H
#define GAL_PROFILER_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/train/world.h"

typedef struct gal_bench {
    gal_world world;
    const volatile sig_atomic_t *stop; /* not 0 on any rank: measuring ends with GAL_ERR_SYSTEM on all; may be NULL */
    bool shared_cores;                 /* more ranks than cores on one machine */
    double begin_seconds;
    double elapsed_seconds; /* since begin, as all ranks last agreed */
} gal_bench;

typedef struct gal_timing {
    double seconds;        /* of one: median over the repeats of the slowest rank */
    double spread_seconds; /* half the distance between the quartiles */
} gal_timing;

/* Does it `count` times, one after the other. */
typedef gal_code (*gal_timed)(void *context, uint32_t count, gal_error *err);

/* Collective: times run on all ranks at once. A sample is a batch that lasts some 300 us at least; before each all
 * ranks meet. A rank's time is its own, unless ranks share cores: then a sample lasts from the first rank's begin to
 * the last one's end, for a rank that waits for a core has not begun by its own clock. */
gal_code gal_bench_time(gal_bench *bench, gal_timed run, void *context, gal_timing *out, gal_error *err);

/* Collective: renews elapsed_seconds, and ends all ranks' work if one of them is to stop. */
gal_code gal_bench_tick(gal_bench *bench, gal_error *err);
gal_code gal_bench_barrier(const gal_bench *bench, gal_error *err);

/* Sorts; quartile 1, 2 or 3 (2: the median) by linear interpolation. count >= 1. */
double gal_quartile(double *value, uint32_t count, uint32_t quartile);

#endif
