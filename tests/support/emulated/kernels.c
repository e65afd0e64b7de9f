#include "tests/support/emulated/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/narrow.h"
#include "runtime/ops/cuda/flash_call.h"
#include "runtime/ops/cuda/gemm_bias.h"
#include "runtime/ops/cuda/kernels.h"

/* With what the engine has for a device's kernels. */
static gal_code run(gal_code (*kernel)(gal_op op, const gal_kernel_call *call, gal_error *err), gal_op op,
                    uint64_t workspace_bytes, const gal_kernel_call *call, gal_error *err)
{
    const double scale = call->step->gradient_scale > 0.0 ? call->step->gradient_scale : 1.0;
    const gal_cuda_step step = gal_cuda_step_of(call->step, scale);
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

/* ---- products ---- */

static uint64_t elements_of(const uint32_t *dims, uint32_t operand)
{
    const uint64_t m = dims[0], n = dims[1], k = dims[2];
    const uint64_t elements[] = {m * k, k * n, m * n, n};
    return elements[operand];
}

static float *widened(gal_dtype dtype, const void *values, uint64_t elements)
{
    float *wide = malloc(elements * sizeof *wide);
    for (uint64_t i = 0; wide != NULL && i < elements; i++) {
        wide[i] = (float)gal_get_real(dtype, values, i);
    }
    return wide;
}

static gal_code narrow_product(gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    enum { C = 2, OPERANDS = 4 };
    gal_code code = GAL_OK;
    gal_kernel_call wide = *call;
    float *room[OPERANDS] = {NULL};
    const bool wide_c = (call->dims[3] & GAL_GEMM_FP32_C) != 0;
    for (uint32_t o = 0; o < call->operand_count; o++) {
        const gal_dtype own = o == C && wide_c ? GAL_FP32 : dtype;
        wide.operand[o] = room[o] = widened(own, call->operand[o], elements_of(call->dims, o));
        if (room[o] == NULL) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a product");
        }
    }
    code = code == GAL_OK ? gal_ops_host_fp32.kernel[GAL_OP_GEMM](&wide, err) : code;
    for (uint64_t i = 0; code == GAL_OK && i < elements_of(call->dims, C); i++) {
        gal_put_real(wide_c ? GAL_FP32 : dtype, call->operand[C], i, (double)room[C][i]);
    }
    for (uint32_t o = 0; o < OPERANDS; o++) {
        free(room[o]);
    }
    return code;
}

static gal_code product(gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    return gal_dtype_is_narrow(dtype) ? narrow_product(dtype, call, err)
                                      : gal_ops_host_fp32.kernel[GAL_OP_GEMM](call, err);
}

/* ---- tables ---- */

/* What the host does beside a device. */
#define COPIES(X)                                                                                                      \
    X(GAL_OP_COPY_OUT, copy_out)                                                                                       \
    X(GAL_OP_COPY_IN, copy_in)
#define UPDATES(X)                                                                                                     \
    X(GAL_OP_HOST_ADAM, host_adam)                                                                                     \
    X(GAL_OP_HOST_ADAM_PART, host_adam_part)

#define X(enumerator, name)                                                                                            \
    static gal_code emulated_##name(const gal_kernel_call *call, gal_error *err)                                       \
    {                                                                                                                  \
        return gal_ops_host_fp32.kernel[enumerator](call, err);                                                        \
    }
COPIES(X)
#undef X

/* Of one element type: TYPE is its suffix, DTYPE its enumerator, BESIDE the table of the host's updates. */
#define OWN(enumerator, name, TYPE)                                                                                    \
    static gal_code own_##name##_##TYPE(gal_op op, const gal_kernel_call *call, gal_error *err)                        \
    {                                                                                                                  \
        (void)op;                                                                                                      \
        return gal_cuda_##name##_##TYPE(call, err);                                                                    \
    }                                                                                                                  \
    static gal_code emulated_##name##_##TYPE(const gal_kernel_call *call, gal_error *err)                              \
    {                                                                                                                  \
        return run(own_##name##_##TYPE, enumerator, gal_cuda_workspace_bytes(enumerator, call->dims), call, err);      \
    }
#define SUMS_AND_ATTENTION(TYPE, DTYPE)                                                                                \
    static gal_code run_attention_##TYPE(gal_op op, const gal_kernel_call *call, gal_error *err)                       \
    {                                                                                                                  \
        return gal_flash_run(op, DTYPE, call, err);                                                                    \
    }                                                                                                                  \
    static gal_code run_sums_##TYPE(gal_op op, const gal_kernel_call *call, gal_error *err)                            \
    {                                                                                                                  \
        (void)op;                                                                                                      \
        return gal_cuda_bias_gradient_##TYPE(call, err);                                                               \
    }
#define MATH(enumerator, name, TYPE, DTYPE)                                                                            \
    static gal_code emulated_##name##_##TYPE(const gal_kernel_call *call, gal_error *err)                              \
    {                                                                                                                  \
        switch (enumerator) {                                                                                          \
        case GAL_OP_GEMM:                                                                                              \
            return product(DTYPE, call, err);                                                                          \
        case GAL_OP_BIAS_GRADIENT:                                                                                     \
            return run(run_sums_##TYPE, enumerator, gal_bias_gradient_workspace_bytes(call->dims[0], call->dims[1]),   \
                       call, err);                                                                                     \
        default:                                                                                                       \
            return run(run_attention_##TYPE, enumerator, gal_flash_workspace_bytes(enumerator, call), call, err);      \
        }                                                                                                              \
    }
#define UPDATE(enumerator, name, TYPE, BESIDE)                                                                         \
    static gal_code emulated_##name##_##TYPE(const gal_kernel_call *call, gal_error *err)                              \
    {                                                                                                                  \
        return BESIDE.kernel[enumerator](call, err);                                                                   \
    }
#define ROW(enumerator, name, TYPE) [enumerator] = emulated_##name##_##TYPE,

SUMS_AND_ATTENTION(fp32, GAL_FP32)
SUMS_AND_ATTENTION(bf16, GAL_BF16)
SUMS_AND_ATTENTION(fp16, GAL_FP16)

#define X(enumerator, name)                                                                                            \
    OWN(enumerator, name, fp32)                                                                                        \
    OWN(enumerator, name, bf16)                                                                                        \
    OWN(enumerator, name, fp16)
GAL_CUDA_KERNELS(X)
#undef X
#define X(enumerator, name)                                                                                            \
    MATH(enumerator, name, fp32, GAL_FP32)                                                                             \
    MATH(enumerator, name, bf16, GAL_BF16)                                                                             \
    MATH(enumerator, name, fp16, GAL_FP16)
GAL_CUDA_MATH_KERNELS(X)
#undef X
#define X(enumerator, name)                                                                                            \
    UPDATE(enumerator, name, fp32, gal_ops_host_fp32)                                                                  \
    UPDATE(enumerator, name, bf16, gal_ops_beside_bf16)                                                                \
    UPDATE(enumerator, name, fp16, gal_ops_beside_fp16)
UPDATES(X)
#undef X

#define COPY(enumerator, name) [enumerator] = emulated_##name,
#define X(enumerator, name) ROW(enumerator, name, fp32)
const gal_ops gal_ops_emulated_fp32 = {
    .name = "emulated",
    .dtype = GAL_FP32,
    .kernel = {GAL_CUDA_KERNELS(X) GAL_CUDA_MATH_KERNELS(X) UPDATES(X) COPIES(COPY)}};
#undef X
#define X(enumerator, name) ROW(enumerator, name, bf16)
const gal_ops gal_ops_emulated_bf16 = {
    .name = "emulated",
    .dtype = GAL_BF16,
    .kernel = {GAL_CUDA_KERNELS(X) GAL_CUDA_MATH_KERNELS(X) UPDATES(X) COPIES(COPY)}};
#undef X
#define X(enumerator, name) ROW(enumerator, name, fp16)
const gal_ops gal_ops_emulated_fp16 = {
    .name = "emulated",
    .dtype = GAL_FP16,
    .kernel = {GAL_CUDA_KERNELS(X) GAL_CUDA_MATH_KERNELS(X) UPDATES(X) COPIES(COPY)}};
#undef X
