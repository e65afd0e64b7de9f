#include "profiler/fit.h"

#include <math.h>

/* With u = 1 / t and v = b / t the relative error of a transfer is latency u + v / bandwidth - 1: a linear problem. */
void gal_fit_link(const gal_transfer *transfer, uint32_t count, double *latency_seconds, double *bytes_per_second)
{
    double uu = 0.0, uv = 0.0, vv = 0.0, u1 = 0.0, v1 = 0.0;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double u = 1.0 / transfer[i].seconds, v = transfer[i].bytes / transfer[i].seconds;
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
        largest = transfer[i].bytes > transfer[largest].bytes ? i : largest;
    }
    const double determinant = uu * vv - uv * uv;
    double latency = determinant > 1e-12 * uu * vv ? (u1 * vv - v1 * uv) / determinant : -1.0;
    double inverse = determinant > 1e-12 * uu * vv ? (uu * v1 - uv * u1) / determinant : -1.0;
    if (latency < 0.0) { /* the optimum lies on the border */
        latency = 0.0;
        inverse = v1 / vv;
    }
    *latency_seconds = latency;
    *bytes_per_second = inverse > 0.0 ? 1.0 / inverse : transfer[largest].bytes / transfer[largest].seconds;
}

void gal_balance_runs(const double item_seconds[2], uint32_t count, uint32_t most, uint32_t items[2])
{
    const uint32_t slower = item_seconds[1] > item_seconds[0] ? 1 : 0;
    const double wanted = round(count * item_seconds[slower] / item_seconds[1 - slower]);
    items[slower] = count;
    items[1 - slower] = wanted < most ? (uint32_t)wanted : most;
}

double gal_slowdown_of_runs(double one_seconds, double other_seconds, double both_seconds)
{
    const double alone_seconds = fabs(one_seconds - other_seconds); /* of the longer one, when the other has ended */
    return fmax(1.0, (both_seconds - alone_seconds) / fmin(one_seconds, other_seconds));
}
