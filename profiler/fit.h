/* Latency and bandwidth of a link, and what two runs do to each other, from what was measured. */
#ifndef GAL_PROFILER_FIT_H
#define GAL_PROFILER_FIT_H

#include <stdint.h>

typedef struct gal_transfer {
    double bytes, seconds; /* > 0 */
} gal_transfer;

/* seconds ~ latency + bytes / bandwidth: least squares of the relative error, latency >= 0, bandwidth > 0.
 * count >= 1; where the transfers do not grow with their bytes, the bandwidth of the largest. */
void gal_fit_link(const gal_transfer *transfer, uint32_t count, double *latency_seconds, double *bytes_per_second);

/* Two runs that are to go on together to the end: of items that take item_seconds each alone (> 0), the slower one has
 * `count`, the other one as many as last about as long, `most` at most. */
void gal_balance_runs(const double item_seconds[2], uint32_t count, uint32_t most, uint32_t items[2]);

/* By what factor each of two runs takes longer while both go on, where they begin together: they take one_seconds and
 * other_seconds alone (> 0), both_seconds until the last one ends. At least 1. What an error of the times comes to
 * grows with the longer run over the shorter one: of balanced runs no more than the errors themselves. */
double gal_slowdown_of_runs(double one_seconds, double other_seconds, double both_seconds);

#endif
