/* Root-mean-square normalisation: y = x gain / sqrt(mean x^2 + epsilon). The mean is taken in double.
 * Source: B. Zhang, R. Sennrich, "Root mean square layer normalization", arXiv 1910.07467, equation 4. */
#include "runtime/ops/host/kernels.h"

GAL_VECTOR
static void norm_row(const gal_real *x, const gal_real *gain, size_t hidden, double epsilon, gal_real *y,
                     gal_real *reciprocal_out)
{
    const double mean_square = gal_row_dot(x, x, hidden) / (double)hidden;
    const gal_real reciprocal = (gal_real)(1.0 / sqrt(mean_square + epsilon));
    for (size_t j = 0; j < hidden; j++) {
        y[j] = x[j] * reciprocal * gain[j];
    }
    *reciprocal_out = reciprocal;
}

static void norm_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t hidden = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *x = at->call->operand[0];
    gal_real *y = at->call->operand[2];
    gal_real *reciprocals = at->call->operand[3];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        norm_row(x + i * hidden, at->call->operand[1], hidden, at->call->step->model->norm_epsilon, y + i * hidden,
                 reciprocals + i);
    }
}

gal_code GAL_KERNEL(rms_norm)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, call->dims[1], norm_part);
    return GAL_OK;
}

enum { COLUMNS = 256 };

/* Sums over rows of dy x reciprocal for `columns` features. */
GAL_VECTOR
static void gain_sums(const gal_real *dy, const gal_real *x, const gal_real *reciprocals, size_t rows, size_t hidden,
                      size_t columns, double *dgain)
{
    for (size_t j = 0; j < columns; j++) {
        dgain[j] = 0.0;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            dgain[j] += (double)(dy[i * hidden + j] * (x[i * hidden + j] * reciprocals[i]));
        }
    }
}

static void gain_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], hidden = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    gal_real *dgain = call->operand[5];
    double sum[COLUMNS];
    for (size_t first = gal_cut_begin(&at->cut, part); first < end; first += COLUMNS) {
        const size_t columns = end - first < COLUMNS ? end - first : COLUMNS;
        gain_sums(dy + first, x + first, call->operand[3], rows, hidden, columns, sum);
        for (size_t j = 0; j < columns; j++) {
            dgain[first + j] = (gal_real)(sum[j] + (call->add ? (double)dgain[first + j] : 0.0));
        }
    }
}

/* dx = reciprocal (d - xhat mean(d xhat)) with d = dy gain, xhat = x reciprocal. */
GAL_VECTOR
static void input_row(const gal_real *dy, const gal_real *x, const gal_real *gain, const gal_real *addend,
                      gal_real reciprocal, size_t hidden, gal_real *dx)
{
    double dot[GAL_LANES] = {0};
    size_t j = 0;
    for (; j + GAL_LANES <= hidden; j += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            dot[l] += (double)(dy[j + l] * gain[j + l] * (x[j + l] * reciprocal));
        }
    }
    for (; j < hidden; j++) {
        dot[0] += (double)(dy[j] * gain[j] * (x[j] * reciprocal));
    }
    const gal_real mean_dot = (gal_real)(gal_lane_sum(dot) / (double)hidden);
    for (j = 0; j < hidden; j++) {
        dx[j] = reciprocal * (dy[j] * gain[j] - x[j] * reciprocal * mean_dot);
    }
    if (addend != NULL) {
        for (j = 0; j < hidden; j++) {
            dx[j] += addend[j];
        }
    }
}

static void input_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t hidden = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    const gal_real *reciprocals = call->operand[3];
    gal_real *dx = call->operand[4];
    const gal_real *addend = call->dims[2] != 0 ? call->operand[6] : NULL;
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        input_row(dy + i * hidden, x + i * hidden, call->operand[2], addend != NULL ? addend + i * hidden : NULL,
                  reciprocals[i], hidden, dx + i * hidden);
    }
}

gal_code GAL_KERNEL(rms_norm_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t rows = call->dims[0], hidden = call->dims[1];
    gal_split_run(call, hidden, GAL_COLUMN_UNIT, rows, gain_part);
    gal_split_run(call, rows, 1, hidden, input_part);
    return GAL_OK;
}
