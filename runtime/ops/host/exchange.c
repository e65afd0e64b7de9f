/* Features put in the order of the devices that they are sent to, and back. */
#include <string.h>

#include "runtime/ops/host/kernels.h"

/* One row: x[features] and, of each member, y[member * stride]. */
static void move_row(const gal_kernel_call *call, bool deal, gal_real *x, gal_real *y, size_t stride)
{
    const uint32_t members = call->dims[1];
    for (uint32_t p = 0; p < GAL_FEATURE_PARTS; p++) {
        const size_t span = call->dims[2 + p] / members;
        for (uint32_t m = 0; m < members; m++) {
            memcpy(deal ? y + m * stride : x, deal ? x : y + m * stride, span * sizeof *x);
            x += span;
        }
        y += span;
    }
}

static void move_part(const gal_split *at, uint32_t part, bool deal)
{
    const uint32_t *d = at->call->dims;
    const size_t features = (size_t)d[2] + d[3] + d[4], own = features / d[1];
    gal_real *x = at->call->operand[deal ? 0 : 1], *y = at->call->operand[deal ? 1 : 0];
    const size_t end = gal_cut_begin(&at->cut, part + 1);
    for (size_t row = gal_cut_begin(&at->cut, part); row < end; row++) {
        move_row(at->call, deal, x + row * features, y + row * own, d[0] * own);
    }
}

static void deal_part(const void *context, uint32_t part)
{
    move_part(context, part, true);
}

static void collect_part(const void *context, uint32_t part)
{
    move_part(context, part, false);
}

static gal_code move(const gal_kernel_call *call, gal_part part)
{
    gal_split_run(call, call->dims[0], 1, (size_t)call->dims[2] + call->dims[3] + call->dims[4], part);
    return GAL_OK;
}

gal_code GAL_KERNEL(deal_features)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    return move(call, deal_part);
}

gal_code GAL_KERNEL(collect_features)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    return move(call, collect_part);
}
