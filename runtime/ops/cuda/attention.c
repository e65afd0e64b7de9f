/* Who carries out an attention: cuDNN where it has an engine, else our own kernels. */
#include "runtime/ops/cuda/attention.h"

#include "runtime/ops/cuda/attention_cudnn.h"
#include "runtime/ops/cuda/flash_call.h"
#include "runtime/ops/cuda/gemm.h"
#include "runtime/ops/cuda/gemm_bias.h"
#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/cuda/library_internal.h"

/* Whether a call of attention or its backward reads lengths. */
static bool is_padded(gal_op op, const gal_kernel_call *call)
{
    return call->operand_count > (op == GAL_OP_ATTENTION ? 3 : 5);
}

/* cuDNN is asked for attention of 16 bits of models without dropout. With it our own kernels also do the steps that do
 * not train: plans and workspace are made for one of the two. */
static bool key_of(const gal_cuda_library *library, gal_dtype dtype, gal_op op, const gal_kernel_call *call,
                   gal_cudnn_attention_key *key)
{
    if ((op != GAL_OP_ATTENTION && op != GAL_OP_ATTENTION_BACKWARD) || dtype == GAL_FP32 ||
        call->step->model->attention_dropout > 0.0) {
        return false;
    }
    *key = (gal_cudnn_attention_key){
        .samples = call->dims[0],
        .sequence = call->dims[1],
        .heads = call->dims[2],
        .dim = call->dims[3],
        .kv_heads = call->dims[4],
        .causal = (call->dims[5] & GAL_ATTENTION_CAUSAL) != 0,
        .padded = is_padded(op, call),
        .backward = op == GAL_OP_ATTENTION_BACKWARD,
        .deterministic = library->options.deterministic,
        .type = dtype == GAL_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
    };
    return gal_cudnn_attention_suits(key);
}

static gal_code cudnn_of(gal_cuda_library *library, gal_error *err)
{
    return library->cudnn != NULL ? GAL_OK
                                  : gal_cudnn_attention_create(library->product_multiprocessors, &library->cudnn, err);
}

static gal_code attend(gal_dtype dtype, gal_op op, const gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_NO;
    gal_cuda_library *library = call->context;
    gal_cudnn_attention_key key;
    if (key_of(library, dtype, op, call, &key)) {
        GAL_TRY(cudnn_of(library, err));
        code = gal_cudnn_attention_run(library->cudnn, &key, call, err);
    }
    if (code == GAL_NO) {
        code = gal_flash_run(op, dtype, call, err);
    }
cleanup:
    return code;
}

#define ENTRY(enumerator, name, suffix, dtype)                                                                         \
    gal_code gal_cuda_##name##_##suffix(const gal_kernel_call *call, gal_error *err)                                   \
    {                                                                                                                  \
        return attend(dtype, enumerator, call, err);                                                                   \
    }
#define ENTRIES(enumerator, name)                                                                                      \
    ENTRY(enumerator, name, fp32, GAL_FP32)                                                                            \
    ENTRY(enumerator, name, bf16, GAL_BF16)                                                                            \
    ENTRY(enumerator, name, fp16, GAL_FP16)

ENTRIES(GAL_OP_ATTENTION, attention)
ENTRIES(GAL_OP_ATTENTION_BACKWARD, attention_backward)
ENTRIES(GAL_OP_RELATIVE_ATTENTION, relative_attention)
ENTRIES(GAL_OP_RELATIVE_ATTENTION_BACKWARD, relative_attention_backward)
ENTRIES(GAL_OP_WINDOW_ATTENTION, window_attention)
ENTRIES(GAL_OP_WINDOW_ATTENTION_BACKWARD, window_attention_backward)
ENTRIES(GAL_OP_CROSS_ATTENTION, cross_attention)
ENTRIES(GAL_OP_CROSS_ATTENTION_BACKWARD, cross_attention_backward)
ENTRIES(GAL_OP_ATTENTION_STEP, attention_step)
ENTRIES(GAL_OP_ATTENTION_STEP_BACKWARD, attention_step_backward)

static bool is_attention(gal_op op)
{
    return (op >= GAL_OP_ATTENTION && op <= GAL_OP_CROSS_ATTENTION_BACKWARD) || op == GAL_OP_ATTENTION_STEP ||
           op == GAL_OP_ATTENTION_STEP_BACKWARD;
}

/* A plan that fails here fails again when it is run, and is reported there. */
uint64_t gal_cuda_math_workspace_bytes(gal_cuda_library *library, gal_dtype dtype, gal_op op,
                                       const gal_kernel_call *call)
{
    gal_error ignored = {.code = GAL_OK};
    gal_cudnn_attention_key key;
    uint64_t bytes = 0;
    if (op == GAL_OP_GEMM) {
        return GAL_CUDA_WORKSPACE_BYTES;
    }
    if (op == GAL_OP_BIAS_GRADIENT) {
        return gal_bias_gradient_workspace_bytes(call->dims[0], call->dims[1]);
    }
    if (!is_attention(op)) {
        return 0;
    }
    if (key_of(library, dtype, op, call, &key) && cudnn_of(library, &ignored) == GAL_OK &&
        gal_cudnn_attention_plan(library->cudnn, &key, &bytes, &ignored) == GAL_OK) {
        return bytes;
    }
    return gal_flash_workspace_bytes(op, call);
}

gal_code gal_cuda_math_prepare(gal_dtype dtype, gal_op op, const gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cuda_library *library = call->context;
    gal_cudnn_attention_key key;
    if (op == GAL_OP_GEMM) {
        return gal_cuda_gemm_prepare(dtype, call, err);
    }
    if (is_attention(op) && key_of(library, dtype, op, call, &key)) {
        GAL_TRY(cudnn_of(library, err));
        code = gal_cudnn_attention_prepare(library->cudnn, &key, call, err);
    }
cleanup:
    return code == GAL_NO ? GAL_OK : code;
}
