#include "runtime/ops/cuda/gemm.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/ops/cuda/gemm_plan.h"
#include "runtime/ops/cuda/kernels.h"

/* ---- an instruction in the library's terms ---- */

gal_gemm_key gal_gemm_key_of_dims(const uint32_t *dims)
{
    return (gal_gemm_key){
        .rows = dims[1],
        .columns = dims[0],
        .depth = dims[2],
        .transpose_a = (dims[3] & GAL_GEMM_TRANSPOSE_B) != 0,
        .transpose_b = (dims[3] & GAL_GEMM_TRANSPOSE_A) != 0,
    };
}

static cudaDataType_t type_of(gal_dtype dtype)
{
    return dtype == GAL_BF16 ? CUDA_R_16BF : dtype == GAL_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

/* The largest power of two that divides the address, at most the 256 bytes that arenas align to. */
static uint32_t alignment_of(const void *address)
{
    const uintptr_t bits = (uintptr_t)address | 256U;
    return (uint32_t)(bits & (~bits + 1));
}

static gal_gemm_run run_of(gal_dtype dtype, const gal_kernel_call *call)
{
    const gal_cuda_library *library = call->context;
    const bool wide = (call->dims[3] & GAL_GEMM_FP32_C) != 0;
    gal_gemm_run run = {
        .key = gal_gemm_key_of_dims(call->dims),
        .a = call->operand[1],
        .b = call->operand[0],
        .d = call->operand[2],
        .add = call->add,
        .workspace = call->workspace,
        .workspace_bytes = call->workspace_bytes,
        .stream = call->stream,
    };
    run.key.input_type = (uint32_t)type_of(dtype);
    run.key.output_type = (uint32_t)type_of(wide ? GAL_FP32 : dtype);
    run.key.compute_type =
        (uint32_t)(dtype == GAL_FP32 && library->options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    run.key.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    run.key.a_alignment = alignment_of(run.a);
    run.key.b_alignment = alignment_of(run.b);
    run.key.d_alignment = alignment_of(run.d);
    run.key.sm_count = library->product_multiprocessors;
    if ((call->dims[3] & GAL_GEMM_BIAS) != 0) {
        run.key.epilogue = CUBLASLT_EPILOGUE_BIAS;
        run.bias = call->operand[3];
        run.bias_type = (uint32_t)type_of(dtype);
    }
    return run;
}

static gal_code refuse(const gal_kernel_call *call, gal_error *err)
{
    return gal_fail(err, GAL_ERR_DEVICE,
                    "gemm: cuBLASLt has no algorithm for %" PRIu32 " x %" PRIu32 " x %" PRIu32 " with flags %" PRIu32
                    " and a workspace of %" PRIu64 " bytes",
                    call->dims[0], call->dims[1], call->dims[2], call->dims[3], call->workspace_bytes);
}

static gal_code gemm(gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    const gal_gemm_run run = run_of(dtype, call);
    const gal_code code = gal_gemm_run_queue(call->context, &run, err);
    return code == GAL_NO ? refuse(call, err) : code;
}

gal_code gal_cuda_gemm_prepare(gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    const gal_gemm_run run = run_of(dtype, call);
    const gal_code code = gal_gemm_run_prepare(call->context, &run, err);
    return code == GAL_NO ? refuse(call, err) : code;
}

gal_code gal_cuda_gemm_fp32(const gal_kernel_call *call, gal_error *err)
{
    return gemm(GAL_FP32, call, err);
}

gal_code gal_cuda_gemm_bf16(const gal_kernel_call *call, gal_error *err)
{
    return gemm(GAL_BF16, call, err);
}

gal_code gal_cuda_gemm_fp16(const gal_kernel_call *call, gal_error *err)
{
    return gemm(GAL_FP16, call, err);
}

/* ---- two instructions as one ---- */

/* The library's GELU is the approximation by tanh; its input as an extra output needs rows that are a multiple of 8
 * elements apart. */
static bool same_gelu(const gal_kernel_call *product, const gal_kernel_call *activation)
{
    const uint64_t elements = (uint64_t)product->dims[0] * product->dims[1];
    return activation->dims[0] == elements && activation->dims[1] == GAL_ACTIVATION_GELU_TANH &&
           product->dims[1] % 8 == 0 && !product->add && (product->dims[3] & GAL_GEMM_FP32_C) == 0;
}

/* Bytes at the end of a product's workspace for sums that are added: the library writes its bias gradients. Kept free
 * where they are not, too, so that one algorithm serves all microbatches. */
static uint64_t sums_bytes(const gal_kernel_call *sums)
{
    return ((uint64_t)sums->dims[1] * sizeof(float) + 255) / 256 * 256;
}

static bool bias_of_product(const gal_kernel_call *product, const gal_kernel_call *sums)
{
    return (product->dims[3] & (GAL_GEMM_TRANSPOSE_A | GAL_GEMM_TRANSPOSE_B | GAL_GEMM_BIAS)) == GAL_GEMM_TRANSPOSE_A &&
           sums->operand[0] == product->operand[1] && sums->dims[0] == product->dims[2] &&
           sums->dims[1] == product->dims[1] && sums_bytes(sums) <= product->workspace_bytes;
}

gal_cuda_fusion gal_cuda_fusion_of(const gal_kernel_pair *pair)
{
    const gal_kernel_call *product = pair->first, *next = pair->second;
    if (pair->first_op != GAL_OP_GEMM) {
        return GAL_CUDA_FUSE_NONE;
    }
    const bool chained = next->operand[0] == product->operand[2];
    if (pair->second_op == GAL_OP_ACTIVATION && chained && same_gelu(product, next)) {
        return GAL_CUDA_FUSE_ACTIVATION;
    }
    if (pair->second_op == GAL_OP_ACTIVATION_BACKWARD && pair->lone && chained && same_gelu(product, next) &&
        (product->dims[3] & GAL_GEMM_BIAS) == 0) {
        return GAL_CUDA_FUSE_DERIVATIVE;
    }
    if (pair->second_op == GAL_OP_BIAS_GRADIENT && bias_of_product(product, next)) {
        return GAL_CUDA_FUSE_BIAS;
    }
    return GAL_CUDA_FUSE_NONE;
}

static gal_gemm_run fused_run(gal_cuda_fusion fusion, gal_dtype dtype, const gal_kernel_pair *pair)
{
    gal_gemm_run run = run_of(dtype, pair->first);
    void *const *operand = pair->second->operand;
    switch (fusion) {
    case GAL_CUDA_FUSE_ACTIVATION: /* the activation's input is the epilogue's second output */
        run.key.epilogue = run.bias != NULL ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        run.aux = operand[0];
        run.d = operand[1];
        break;
    case GAL_CUDA_FUSE_DERIVATIVE:
        run.key.epilogue = CUBLASLT_EPILOGUE_DGELU;
        run.aux = operand[1];
        run.d = operand[2];
        break;
    case GAL_CUDA_FUSE_BIAS: /* our b is the library's A */
        run.key.epilogue = CUBLASLT_EPILOGUE_BGRADA;
        run.workspace_bytes = (run.workspace_bytes - sums_bytes(pair->second)) / 256 * 256;
        run.bias = pair->second->add ? (char *)run.workspace + run.workspace_bytes : operand[1];
        run.bias_type = CUDA_R_32F;
        break;
    case GAL_CUDA_FUSE_NONE:
    case GAL_CUDA_FUSE_NORM:
        GAL_ASSERT(fusion != GAL_CUDA_FUSE_NONE && fusion != GAL_CUDA_FUSE_NORM);
    }
    run.key.d_alignment = alignment_of(run.d);
    return run;
}

gal_code gal_cuda_fuse(gal_dtype dtype, const gal_kernel_pair *pair, uint32_t *fusion, gal_error *err)
{
    gal_cuda_library *library = pair->first->context;
    const gal_cuda_fusion found = gal_cuda_fusion_of(pair);
    *fusion = GAL_CUDA_FUSE_NONE;
    if (found == GAL_CUDA_FUSE_NONE || (found == GAL_CUDA_FUSE_BIAS && library->options.deterministic)) {
        return GAL_OK;
    }
    const gal_gemm_run run = fused_run(found, dtype, pair);
    const gal_code code = gal_gemm_run_prepare(library, &run, err);
    if (code == GAL_OK) {
        *fusion = found;
    }
    return code == GAL_NO ? GAL_OK : code;
}

/* What the library has written behind its workspace, to the gradient. */
static gal_code add_sums(const gal_kernel_pair *pair, const gal_gemm_run *run, gal_error *err)
{
    const uint32_t dims[] = {pair->second->dims[1]};
    gal_kernel_call add = *pair->second;
    add.dims = dims;
    add.operand[0] = run->bias;
    add.stream = pair->first->stream;
    return gal_cuda_add_fp32(&add, err);
}

gal_code gal_cuda_fused(gal_dtype dtype, const gal_kernel_pair *pair, uint32_t fusion, gal_error *err)
{
    const gal_gemm_run run = fused_run((gal_cuda_fusion)fusion, dtype, pair);
    const gal_code code = gal_gemm_run_queue(pair->first->context, &run, err);
    if (code == GAL_OK && fusion == GAL_CUDA_FUSE_BIAS && pair->second->add) {
        return add_sums(pair, &run, err);
    }
    return code == GAL_NO ? refuse(pair->first, err) : code;
}
