/* Positions as a whole and as a grid: their mean, and the merging of 2 by 2 neighbours. */
#include <string.h>

#include "runtime/ops/host/kernels.h"

/* ---- mean ---- */

static void mean_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t positions = call->dims[1], features = call->dims[2], rows = call->dims[0] * features;
    const gal_real *x = call->operand[0];
    gal_real *y = call->operand[1];
    for (size_t i = gal_cut_begin(&at->cut, part); i < gal_cut_begin(&at->cut, part + 1); i++) {
        double sum = 0.0;
        for (size_t p = 0; p < positions; p++) {
            sum += (double)x[p * rows + i];
        }
        y[i] = (gal_real)(sum / call->dims[3]);
    }
}

gal_code GAL_KERNEL(mean_position)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, (size_t)call->dims[0] * call->dims[2], GAL_COLUMN_UNIT, call->dims[1], mean_part);
    return GAL_OK;
}

static void mean_backward_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t row = (size_t)call->dims[0] * call->dims[2];
    const gal_real *dy = call->operand[0];
    gal_real *dx = call->operand[1];
    for (size_t p = gal_cut_begin(&at->cut, part); p < gal_cut_begin(&at->cut, part + 1); p++) {
        for (size_t i = 0; i < row; i++) {
            dx[p * row + i] = dy[i] / (gal_real)call->dims[3];
        }
    }
}

gal_code GAL_KERNEL(mean_position_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2], mean_backward_part);
    return GAL_OK;
}

/* ---- merging ---- */

/* Row number `sample` of position (row, column) of the grid, and of the one that it goes to. */
typedef struct merge_rows {
    size_t samples, features, side;
} merge_rows;

static size_t separate_row(const merge_rows *m, size_t row, size_t column, size_t sample)
{
    return ((row * m->side + column) * m->samples + sample) * m->features;
}

static size_t merged_row(const merge_rows *m, size_t row, size_t column, size_t sample)
{
    const size_t place = column % 2 * 2 + row % 2;
    return (((row / 2 * (m->side / 2) + column / 2) * m->samples + sample) * 4 + place) * m->features;
}

/* Rows of the grid; forward if the first operand is the separate one. */
static void move_rows(const gal_split *at, uint32_t part, bool forward)
{
    const gal_kernel_call *call = at->call;
    const merge_rows m = {call->dims[0], call->dims[2], call->dims[3]};
    const gal_real *from = call->operand[0];
    gal_real *to = call->operand[1];
    for (size_t row = gal_cut_begin(&at->cut, part); row < gal_cut_begin(&at->cut, part + 1); row++) {
        for (size_t column = 0; column < m.side; column++) {
            for (size_t sample = 0; sample < m.samples; sample++) {
                const size_t separate = separate_row(&m, row, column, sample),
                             merged = merged_row(&m, row, column, sample);
                memcpy(to + (forward ? merged : separate), from + (forward ? separate : merged),
                       m.features * sizeof *to);
            }
        }
    }
}

static void merge_part(const void *context, uint32_t part)
{
    move_rows(context, part, true);
}

static void merge_backward_part(const void *context, uint32_t part)
{
    move_rows(context, part, false);
}

static void run_rows(const gal_kernel_call *call, gal_part part)
{
    const size_t row = (size_t)call->dims[3] * call->dims[0] * call->dims[2];
    gal_split_run(call, call->dims[1] / call->dims[3], 1, row, part);
}

gal_code GAL_KERNEL(merge)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    run_rows(call, merge_part);
    return GAL_OK;
}

gal_code GAL_KERNEL(merge_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    run_rows(call, merge_backward_part);
    return GAL_OK;
}
