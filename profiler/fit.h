/* Latency and bandwidth of a link from transfers that were measured. */
#ifndef GAL_PROFILER_FIT_H
#define GAL_PROFILER_FIT_H

#include <stdint.h>

typedef struct gal_transfer {
    double bytes, seconds; /* > 0 */
} gal_transfer;

/* seconds ~ latency + bytes / bandwidth: least squares of the relative error, latency >= 0, bandwidth > 0.
 * count >= 1; where the transfers do not grow with their bytes, the bandwidth of the largest. */
void gal_fit_link(const gal_transfer *transfer, uint32_t count, double *latency_seconds, double *bytes_per_second);

#endif
