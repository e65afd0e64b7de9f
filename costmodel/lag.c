#include "costmodel/lag.h"

#include <math.h>

double gal_lag_with_backward(const gal_durations *durations, uint32_t device_count, const gal_chain_times *times)
{
    const gal_cluster *cluster = gal_durations_cluster(durations);
    const double kernels = gal_durations_slowdown(durations, GAL_ACTIVITY_COMPUTE, GAL_ACTIVITY_COMMUNICATION);
    const double reductions = gal_durations_slowdown(durations, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMPUTE);
    const double shared = gal_durations_slowdown(durations, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMMUNICATION);
    uint32_t level = 0;
    while (level + 1 < cluster->level_count && cluster->level[level].span_devices < device_count) {
        level++;
    }
    /* kernels take so much longer, and meanwhile that much less is reduced than in as long alone */
    return times->reduced_seconds + (kernels - kernels / reductions) * times->own_backward_seconds +
           (shared - 1.0) * times->beside_seconds[level];
}

double gal_lag_seconds(const gal_durations *durations, uint32_t device_count, const gal_chain_times *times,
                       double backward_seconds)
{
    return gal_lag_with_backward(durations, device_count, times) - backward_seconds;
}

bool gal_lag_is_awaited(const gal_strategy *strategy)
{
    return strategy->zero_stage >= 2;
}

void gal_lag_part(bool alone, double borrowed_seconds, gal_block_price *price)
{
    const double sync = price->sync_seconds - borrowed_seconds;
    const double lag = alone ? sync : fmin(price->lag_seconds, sync);
    price->once_seconds = fmax(sync, 0.0) - (alone ? 0.0 : fmax(lag, 0.0));
    price->lag_seconds = lag - price->once_seconds + borrowed_seconds;
}

double gal_lag_of(double borrowed_seconds, const gal_block_price *price)
{
    return price->once_seconds + price->lag_seconds - borrowed_seconds;
}
