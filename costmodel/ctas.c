#include "costmodel/ctas.h"

static double along(double low, double high, double share)
{
    return low + share * (high - low);
}

gal_profile_ctas gal_ctas_between(const gal_profile_gpu *gpu, uint32_t ctas)
{
    uint32_t next = 0;
    while (next < gpu->by_ctas_count && gpu->by_ctas[next].ctas < ctas) {
        next++;
    }
    if (next == 0 || next == gpu->by_ctas_count) {
        return gpu->by_ctas[next == 0 ? 0 : next - 1];
    }
    const gal_profile_ctas *less = &gpu->by_ctas[next - 1], *more = &gpu->by_ctas[next];
    const double share = (double)(ctas - less->ctas) / (more->ctas - less->ctas);
    return (gal_profile_ctas){
        .ctas = ctas,
        .compute = along(less->compute, more->compute, share),
        .communication = along(less->communication, more->communication, share),
        .communication_alone = along(less->communication_alone, more->communication_alone, share),
    };
}

bool gal_ctas_know_alone(const gal_profile_gpu *gpu)
{
    bool all = gpu->by_ctas_count > 0;
    for (uint32_t i = 0; i < gpu->by_ctas_count; i++) {
        all = all && gpu->by_ctas[i].communication_alone > 0.0;
    }
    return all;
}
