#include "costmodel/known_kernels.h"

#include <string.h>

static uint32_t place_of(const gal_shape *shape)
{
    uint64_t hash = (uint64_t)shape->op << 8 | (uint64_t)shape->dtype;
    for (uint32_t i = 0; i < gal_op_dim_count[shape->op]; i++) {
        hash = (hash ^ shape->dims[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32) % GAL_KNOWN_KERNELS;
}

double gal_known_kernel_seconds(gal_known_kernels *known, const gal_durations *durations, const gal_shape *shape)
{
    const uint32_t place = place_of(shape);
    if (known->durations != durations) {
        memset(known, 0, sizeof *known);
        known->durations = durations;
    }
    if (!(known->at[place].seconds > 0.0) || memcmp(&known->at[place].shape, shape, sizeof *shape) != 0) {
        known->at[place].shape = *shape;
        known->at[place].seconds = gal_kernel_seconds(durations, shape, NULL);
    }
    return known->at[place].seconds;
}
