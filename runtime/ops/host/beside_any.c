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
static gal_code host_adam(gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    gal_kernel_call wide = *call;
    wide.operand[WEIGHTS] = call->operand[MASTER];
    const gal_code code = gal_ops_host_fp32.kernel[GAL_OP_HOST_ADAM](&wide, err);
    const rounding at = {.master = call->operand[MASTER],
                         .w = call->operand[WEIGHTS],
                         .dtype = dtype,
                         .cut = gal_cut_for_threads(call->dims[0], 1, LEAST_ELEMENTS)};
    if (code == GAL_OK) {
        gal_parallel(at.cut.part_count, round_part, &at);
    }
    return code;
}

static gal_code host_adam_bf16(const gal_kernel_call *call, gal_error *err)
{
    return host_adam(GAL_BF16, call, err);
}

static gal_code host_adam_fp16(const gal_kernel_call *call, gal_error *err)
{
    return host_adam(GAL_FP16, call, err);
}

const gal_ops gal_ops_beside_bf16 = {
    .name = "host", .dtype = GAL_BF16, .kernel = {[GAL_OP_HOST_ADAM] = host_adam_bf16}};
const gal_ops gal_ops_beside_fp16 = {
    .name = "host", .dtype = GAL_FP16, .kernel = {[GAL_OP_HOST_ADAM] = host_adam_fp16}};
