/* Copies between what is the device's memory and what is the host's, where both are the host's. */
#include <string.h>

#include "runtime/ops/host/kernels.h"

enum { CACHE_LINE_BYTES = 64 };

static void copy_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part), end = gal_cut_begin(&at->cut, part + 1);
    memcpy((char *)at->call->operand[1] + begin, (const char *)at->call->operand[0] + begin, end - begin);
}

static gal_code copy(const gal_kernel_call *call)
{
    gal_split_run(call, (size_t)call->dims[0] * call->dims[1], CACHE_LINE_BYTES, 1, copy_part);
    return GAL_OK;
}

gal_code GAL_KERNEL(copy_out)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    return copy(call);
}

gal_code GAL_KERNEL(copy_in)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    return copy(call);
}
