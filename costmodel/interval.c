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
    const uint32_t wanted = (uint32_t)ceil(0.9 * (count + 1.0)), inside = wanted < count ? wanted : count;
    uint32_t first = 0;
    for (uint32_t i = 1; i + inside <= count; i++) {
        if (ratio[i + inside - 1] / ratio[i] < ratio[first + inside - 1] / ratio[first]) {
            first = i;
        }
    }
    *low = fmin(1.0, ratio[first]);
    *high = fmax(1.0, ratio[first + inside - 1]);
}

double gal_normal_chance(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

double gal_normal_quantile(double probability)
{
    double low = -8.0, high = 8.0, middle = 0.0;
    for (uint32_t i = 0; i < 64; i++) {
        const double chance = gal_normal_chance(middle);
        if (chance == probability) {
            break;
        }
        low = chance < probability ? middle : low;
        high = chance < probability ? high : middle;
        middle = 0.5 * (low + high);
    }
    return middle;
}

double gal_interval_quantile(double low, double high, double quantile)
{
    const double outer = GAL_NORMAL_AT_95, at = gal_normal_quantile(quantile);
    return at < 0.0 ? pow(low, -at / outer) : pow(high, at / outer);
}

double gal_interval_log_deviation(double spread)
{
    return spread / GAL_NORMAL_AT_95;
}
