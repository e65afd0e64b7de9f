/* Adam in the host's memory for a device that computes in 16 bits. */
#include "runtime/narrow.h"
#include "runtime/ops/host/parallel.h"
#include "runtime/ops/ops.h"

enum { WEIGHTS, MASTER = 5, LEAST_ELEMENTS = 16384 };

typedef struct rounding {
    const float *master;
    uint16_t *w;
    gal_dtype dtype;
    gal_cut cut;
} rounding;

static void round_part(const void *context, uint32_t part)
{
    const rounding *at = context;
    const size_t end = gal_cut_begin(&at->cut, part + 1);
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        at->w[i] = gal_narrow(at->master[i], at->dtype);
    }
}

/* u w, r g fp32, u m fp32, u v fp32, r norm, u master fp32 */
static gal_code host_adam(gal_op op, gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    gal_kernel_call wide = *call;
    wide.operand[WEIGHTS] = call->operand[MASTER];
    const gal_code code = gal_ops_host_fp32.kernel[op](&wide, err);
    const rounding at = {.master = call->operand[MASTER],
                         .w = call->operand[WEIGHTS],
                         .dtype = dtype,
                         .cut = gal_cut_for_threads(call->dims[0], 1, LEAST_ELEMENTS)};
    if (code == GAL_OK) {
        gal_parallel(at.cut.part_count, round_part, &at);
    }
    return code;
}

#define BESIDE(suffix, DTYPE)                                                                                          \
    static gal_code host_adam_##suffix(const gal_kernel_call *call, gal_error *err)                                    \
    {                                                                                                                  \
        return host_adam(GAL_OP_HOST_ADAM, DTYPE, call, err);                                                          \
    }                                                                                                                  \
    static gal_code host_adam_part_##suffix(const gal_kernel_call *call, gal_error *err)                               \
    {                                                                                                                  \
        return host_adam(GAL_OP_HOST_ADAM_PART, DTYPE, call, err);                                                     \
    }                                                                                                                  \
    const gal_ops gal_ops_beside_##suffix = {                                                                          \
        .name = "host",                                                                                                \
        .dtype = DTYPE,                                                                                                \
        .kernel = {[GAL_OP_HOST_ADAM] = host_adam_##suffix, [GAL_OP_HOST_ADAM_PART] = host_adam_part_##suffix}};

BESIDE(bf16, GAL_BF16)
BESIDE(fp16, GAL_FP16)
