/* Seconds of a clock that only goes forward; the zero is arbitrary. */
#ifndef GAL_SCHEMAS_BASE_CLOCK_H
#define GAL_SCHEMAS_BASE_CLOCK_H

#include <time.h>

static inline double gal_now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
