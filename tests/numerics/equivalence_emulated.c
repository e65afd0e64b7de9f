/* The equivalence test with the CUDA kernels in fp32, on emulated threads: whole programs of what the tests of single
 * kernels look at one by one. Products are the host's: cuBLASLt has no source. */
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/cuda/flash_call.h"
#include "runtime/ops/cuda/gemm_bias.h"
#include "runtime/ops/cuda/kernels.h"
#include "tests/numerics/equivalence_on.h"

/* With what the engine has for a device's kernels. */
static gal_code run(gal_code (*kernel)(gal_op op, const gal_kernel_call *call, gal_error *err), gal_op op,
                    uint64_t workspace_bytes, const gal_kernel_call *call, gal_error *err)
{
    const gal_cuda_step step = gal_cuda_step_of(call->step, 1.0);
    gal_kernel_call own = *call;
    own.workspace_bytes = (workspace_bytes / 256 + 1) * 256;
    own.workspace = aligned_alloc(256, own.workspace_bytes);
    own.device_step = &step;
    if (own.workspace == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: workspace");
    }
    memset(own.workspace, 0xFF, own.workspace_bytes);
    const gal_code code = kernel(op, &own, err);
    free(own.workspace);
    return code;
}

static gal_code run_attention(gal_op op, const gal_kernel_call *call, gal_error *err)
{
    return gal_flash_run(op, GAL_FP32, call, err);
}

static gal_code run_sums(gal_op op, const gal_kernel_call *call, gal_error *err)
{
    (void)op;
    return gal_cuda_bias_gradient_fp32(call, err);
}

#define X(enumerator, name)                                                                                            \
    static gal_code own_##name(gal_op op, const gal_kernel_call *call, gal_error *err)                                 \
    {                                                                                                                  \
        (void)op;                                                                                                      \
        return gal_cuda_##name##_fp32(call, err);                                                                      \
    }                                                                                                                  \
    static gal_code emulated_##name(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        return run(own_##name, enumerator, gal_cuda_workspace_bytes(enumerator, call->dims), call, err);               \
    }
GAL_CUDA_KERNELS(X)
#undef X

#define X(enumerator, name)                                                                                            \
    static gal_code emulated_##name(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        switch (enumerator) {                                                                                          \
        case GAL_OP_GEMM:                                                                                              \
            return gal_ops_host_fp32.kernel[enumerator](call, err);                                                    \
        case GAL_OP_BIAS_GRADIENT:                                                                                     \
            return run(run_sums, enumerator, gal_bias_gradient_workspace_bytes(call->dims[0], call->dims[1]), call,    \
                       err);                                                                                           \
        default:                                                                                                       \
            return run(run_attention, enumerator, gal_flash_workspace_bytes(enumerator, call), call, err);             \
        }                                                                                                              \
    }
GAL_CUDA_MATH_KERNELS(X)
#undef X

/* What the host does beside a device. */
#define BESIDE(X)                                                                                                      \
    X(GAL_OP_HOST_ADAM, host_adam)                                                                                     \
    X(GAL_OP_HOST_ADAM_PART, host_adam_part)                                                                           \
    X(GAL_OP_COPY_OUT, copy_out)                                                                                       \
    X(GAL_OP_COPY_IN, copy_in)

#define X(enumerator, name)                                                                                            \
    static gal_code emulated_##name(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        return gal_ops_host_fp32.kernel[enumerator](call, err);                                                        \
    }
BESIDE(X)
#undef X

#define X(enumerator, name) [enumerator] = emulated_##name,
static const gal_ops ops = {
    .name = "emulated", .dtype = GAL_FP32, .kernel = {GAL_CUDA_KERNELS(X) GAL_CUDA_MATH_KERNELS(X) BESIDE(X)}};
#undef X

static const gal_trial_on emulated = {.name = "emulated",
                                      .device = &gal_device_host,
                                      .ops = &ops,
                                      .relative_bound = GAL_EQUIVALENCE_FP32_BOUND,
                                      .weight_bound = GAL_EQUIVALENCE_FP32_WEIGHT_BOUND,
                                      .same_memory = true};

const gal_trial_on *gal_equivalence_on(const char *name)
{
    return strcmp(name, emulated.name) == 0 ? &emulated : NULL;
}
