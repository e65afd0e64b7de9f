/* Attention as programs have it: by cuDNN where it has an engine, deterministic, else by our own kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "runtime/ops/cuda/kernels.h"
#include "tests/support/emulated/machine.h"

static const gal_ops *table_of(gal_dtype dtype)
{
    return dtype == GAL_FP32 ? &gal_ops_cuda_fp32 : dtype == GAL_BF16 ? &gal_ops_cuda_bf16 : &gal_ops_cuda_fp16;
}

static void *context_of(const gal_ops *table)
{
    static void *context; /* one library for all types, for the life of the process */
    gal_error err = {.code = GAL_OK};
    const gal_kernel_choice choice = {.deterministic = true};
    if (context == NULL && table->queued->open(&choice, &context, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return context;
}

bool gal_machine_attention_odd(void)
{
    return false; /* what arenas give is aligned */
}

uint64_t gal_machine_attention_workspace_bytes(gal_op op, gal_dtype dtype, const gal_kernel_call *call)
{
    const gal_ops *table = table_of(dtype);
    return table->queued->workspace_bytes(context_of(table), op, call);
}

gal_code gal_machine_attention(gal_op op, gal_dtype dtype, gal_kernel_call *call, gal_error *err)
{
    const gal_ops *table = table_of(dtype);
    call->context = context_of(table);
    const gal_code code = table->queued->prepare(op, call, err);
    return code == GAL_OK ? table->kernel[op](call, err) : code;
}
