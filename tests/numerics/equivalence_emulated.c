/* The equivalence test with the CUDA kernels in fp32, on emulated threads: whole programs of what the tests of single
 * kernels look at one by one. */
#include <string.h>

#include "tests/numerics/equivalence_on.h"
#include "tests/support/emulated/kernels.h"

static const gal_trial_on emulated = {.name = "emulated",
                                      .device = &gal_device_host,
                                      .ops = &gal_ops_emulated_fp32,
                                      .relative_bound = GAL_EQUIVALENCE_FP32_BOUND,
                                      .weight_bound = GAL_EQUIVALENCE_FP32_WEIGHT_BOUND,
                                      .same_memory = true};

const gal_trial_on *gal_equivalence_on(const char *name)
{
    return strcmp(name, emulated.name) == 0 ? &emulated : NULL;
}
