/* The equivalence test on the GPU, which all ranks share: kernels in fp32, communication through the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/ops/cuda/kernels.h"
#include "tests/numerics/equivalence_on.h"

/* Kernels that were fused leave out what nobody else reads, so not all of the arena's bytes are written. */
static const gal_trial_on cuda = {.name = "cuda",
                                  .device = &gal_device_cuda,
                                  .ops = &gal_ops_cuda_fp32,
                                  .host_ops = &gal_ops_host_fp32,
                                  .relative_bound = GAL_EQUIVALENCE_FP32_BOUND,
                                  .weight_bound = GAL_EQUIVALENCE_FP32_WEIGHT_BOUND};

const gal_trial_on *gal_equivalence_on(const char *name)
{
    gal_error err = {.code = GAL_OK};
    if (strcmp(name, cuda.name) != 0) {
        return NULL;
    }
    if (gal_cuda_open(0, &err) != GAL_OK) {
        (void)fprintf(stderr, "equivalence: %s\n", err.text);
        exit(GAL_ERR_DEVICE);
    }
    return &cuda;
}
