/* Attention by our own kernels. */
#include "runtime/ops/cuda/flash_call.h"
#include "tests/support/emulated/machine.h"

bool gal_machine_attention_odd(void)
{
    return true;
}

uint64_t gal_machine_attention_workspace_bytes(gal_op op, gal_dtype dtype, const gal_kernel_call *call)
{
    (void)dtype;
    return gal_flash_workspace_bytes(op, call);
}

gal_code gal_machine_attention(gal_op op, gal_dtype dtype, gal_kernel_call *call, gal_error *err)
{
    return gal_flash_run(op, dtype, call, err);
}
