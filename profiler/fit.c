#include "profiler/fit.h"

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
