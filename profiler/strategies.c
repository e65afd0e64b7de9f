#include "profiler/strategies.h"

#include <string.h>

typedef struct listing {
    gal_strategy *out;
    uint32_t count;
} listing;

static void put_variants(listing *l, const gal_strategy *axes)
{
    const bool sharded = gal_strategy_degree(axes, GAL_AXIS_SDP) > 1;
    const bool split = gal_strategy_degree(axes, GAL_AXIS_TP) > 1;
    for (uint32_t zero = sharded ? 1 : 0; zero <= (sharded ? 3u : 0u); zero++) {
        for (uint32_t sequence = 0; sequence <= (split ? 1u : 0u); sequence++) {
            for (uint32_t recompute = 0; recompute <= GAL_RECOMPUTE_FULL && l->count < GAL_STRATEGIES_MAX;
                 recompute++) {
                gal_strategy strategy = *axes;
                strategy.zero_stage = zero;
                strategy.sequence_parallel = sequence == 1;
                strategy.recompute = (gal_recompute)recompute;
                l->out[l->count++] = strategy;
            }
        }
    }
}

/* The next axis outwards. */
static void grow(listing *l, gal_strategy *axes, uint32_t devices_left)
{
    if (devices_left == 1) {
        put_variants(l, axes);
        return;
    }
    static const gal_axis_kind kinds[] = {GAL_AXIS_DP, GAL_AXIS_SDP, GAL_AXIS_TP}; /* fits serve the shapes of others */
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const gal_axis_kind kind = kinds[i];
        if (gal_strategy_degree(axes, kind) > 1) {
            continue;
        }
        for (uint32_t degree = 2; degree <= devices_left; degree++) {
            if (devices_left % degree == 0) {
                axes->axis[axes->axis_count++] = (gal_axis){kind, degree};
                grow(l, axes, devices_left / degree);
                axes->axis[--axes->axis_count] = (gal_axis){0};
            }
        }
    }
}

uint32_t gal_strategies_list(uint32_t device_count, gal_strategy *out)
{
    listing l = {out, 0};
    gal_strategy axes;
    memset(&axes, 0, sizeof axes);
    grow(&l, &axes, device_count);
    return l.count;
}
