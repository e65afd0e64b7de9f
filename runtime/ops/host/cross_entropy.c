/* Cross-entropy over a vocabulary that may be split over a group: the maximum, then the sums, each to be reduced over
 * the group, then loss and gradient. Padding of the vocabulary counts as logits of minus infinity. A row without a
 * target has sums of 0, which no other row has: its largest logit alone gives 1. */
#include <string.h>

#include "runtime/ops/host/kernels.h"

/* Columns of this rank that are real: padding lies at the end. */
static size_t real_columns(const gal_kernel_call *call, uint32_t vocabulary_local, uint32_t vocabulary)
{
    const uint64_t first = (uint64_t)call->group_index * vocabulary_local;
    const uint64_t left = vocabulary > first ? vocabulary - first : 0;
    return (size_t)(left < vocabulary_local ? left : vocabulary_local);
}

/* -1: none. */
static int32_t target_of(const gal_kernel_call *call, const int32_t *targets, size_t row)
{
    const size_t samples = call->dims[0], sequence = call->dims[1];
    return targets[(row % samples) * sequence + row / samples];
}

/* Column of a target in this rank's part, or `columns` if it is elsewhere. */
static size_t target_column(const gal_kernel_call *call, int32_t target, size_t columns)
{
    const int64_t column = target - (int64_t)call->group_index * (int64_t)call->dims[2];
    return column >= 0 && column < (int64_t)columns ? (size_t)column : columns;
}

/* A part that is all padding gives the least finite number, so that reductions stay finite. */
GAL_VECTOR
static gal_real row_maximum(const gal_real *z, size_t columns)
{
    return gal_row_max(z, columns);
}

static void maximum_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t stride = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const size_t columns = real_columns(at->call, at->call->dims[1], at->call->dims[2]);
    const gal_real *logits = at->call->operand[0];
    gal_real *maxima = at->call->operand[1];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        maxima[i] = row_maximum(logits + i * stride, columns);
    }
}

gal_code GAL_KERNEL(cross_entropy_max)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, call->dims[1], maximum_part);
    return GAL_OK;
}

GAL_VECTOR
static double exponential_sum(const gal_real *z, gal_real max, size_t columns)
{
    double lane[GAL_LANES] = {0};
    size_t j = 0;
    for (; j + GAL_LANES <= columns; j += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            lane[l] += (double)gal_exp_nonpositive(z[j + l] - max);
        }
    }
    for (; j < columns; j++) {
        lane[0] += (double)gal_exp_nonpositive(z[j] - max);
    }
    return gal_lane_sum(lane);
}

static void sum_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t end = gal_cut_begin(&at->cut, part + 1), rows = (size_t)call->dims[0] * call->dims[1],
                 stride = call->dims[2];
    const size_t columns = real_columns(call, call->dims[2], call->dims[3]);
    const gal_real *logits = call->operand[0];
    const gal_real *max = call->operand[1];
    gal_real *sums = call->operand[3];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        const gal_real *z = logits + i * stride;
        const int32_t id = target_of(call, call->operand[2], i);
        const size_t target = target_column(call, id, columns);
        sums[i] = id < 0 ? (gal_real)0 : (gal_real)exponential_sum(z, max[i], columns);
        sums[rows + i] = target < columns ? z[target] - max[i] : (gal_real)0;
    }
}

gal_code GAL_KERNEL(cross_entropy_sum)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, (size_t)call->dims[0] * call->dims[1], GAL_COLUMN_UNIT, call->dims[2], sum_part);
    return GAL_OK;
}

gal_code GAL_KERNEL(cross_entropy_loss)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t rows = call->dims[0];
    const gal_real *sums = call->operand[0];
    double *loss = call->operand[1];
    double total = 0.0, right = 0.0;
    for (size_t i = 0; i < rows; i++) {
        if (sums[i] != 0) {
            total += log((double)sums[i]) - (double)sums[rows + i];
            right += sums[rows + i] >= 0 ? 1.0 : 0.0;
        }
    }
    loss[0] = call->add ? loss[0] + total : total;
    loss[1] = call->add ? loss[1] + right : right;
    return GAL_OK;
}

GAL_VECTOR
static void softmax_gradient(gal_real *z, gal_real max, gal_real factor, size_t columns, size_t stride)
{
    for (size_t j = 0; j < columns; j++) {
        z[j] = gal_exp_nonpositive(z[j] - max) * factor;
    }
    for (size_t j = columns; j < stride; j++) {
        z[j] = 0;
    }
}

static void gradient_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t end = gal_cut_begin(&at->cut, part + 1), stride = call->dims[2];
    const size_t columns = real_columns(call, call->dims[2], call->dims[3]);
    const double scale = call->step->loss_scale;
    gal_real *logits = call->operand[0];
    const gal_real *max = call->operand[1];
    const gal_real *sums = call->operand[2];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        gal_real *z = logits + i * stride;
        const int32_t id = target_of(call, call->operand[3], i);
        const size_t target = target_column(call, id, columns);
        if (id < 0) {
            memset(z, 0, stride * sizeof *z);
            continue;
        }
        softmax_gradient(z, max[i], (gal_real)(scale / (double)sums[i]), columns, stride);
        if (target < columns) {
            z[target] -= (gal_real)scale;
        }
    }
}

gal_code GAL_KERNEL(cross_entropy_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, (size_t)call->dims[0] * call->dims[1], 1, call->dims[2], gradient_part);
    return GAL_OK;
}
