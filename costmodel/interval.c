#include "costmodel/interval.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void gal_interval_factors(double *ratio, uint32_t count, double *low, double *high)
{
    qsort(ratio, count, sizeof *ratio, by_value);
    const uint32_t rank = (uint32_t)ceil(0.95 * (count + 1.0)); /* from 1 */
    const uint32_t outer = rank < count ? rank : count;
    *low = fmin(1.0, ratio[count - outer]);
    *high = fmax(1.0, ratio[outer - 1]);
}
