#include <string.h>

#include "tests/numerics/equivalence_on.h"

static const gal_trial_on host_fp32 = {.name = "host-fp32",
                                       .device = &gal_device_host,
                                       .ops = &gal_ops_host_fp32,
                                       .relative_bound = GAL_EQUIVALENCE_FP32_BOUND,
                                       .weight_bound = GAL_EQUIVALENCE_FP32_WEIGHT_BOUND,
                                       .same_memory = true,
                                       .one_adam = true};

const gal_trial_on *gal_equivalence_on(const char *name)
{
    return strcmp(name, gal_trial_on_host.name) == 0 ? &gal_trial_on_host
           : strcmp(name, host_fp32.name) == 0       ? &host_fp32
                                                     : NULL;
}
