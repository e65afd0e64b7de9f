/* Layer normalisation. Statistics in double and in two passes: the variance of values far from zero would vanish in
 * E[x^2] - E[x]^2. */
#include "runtime/ops/host/kernels.h"

GAL_INLINE double squared_deviations(const gal_real *x, double mean, size_t count)
{
    double lane[GAL_LANES] = {0};
    size_t i = 0;
    for (; i + GAL_LANES <= count; i += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            const double deviation = (double)x[i + l] - mean;
            lane[l] += deviation * deviation;
        }
    }
    for (; i < count; i++) {
        const double deviation = (double)x[i] - mean;
        lane[0] += deviation * deviation;
    }
    return gal_lane_sum(lane);
}

/* y by the rounded statistics, the ones that the backward pass reads. */
GAL_VECTOR
static void norm_row(const gal_real *x, const gal_real *gain, const gal_real *bias, size_t hidden, double epsilon,
                     gal_real *y, gal_real *mean_out, gal_real *reciprocal_out)
{
    const double exact_mean = gal_row_sum(x, hidden) / (double)hidden;
    const double variance = squared_deviations(x, exact_mean, hidden) / (double)hidden;
    const gal_real mean = (gal_real)exact_mean;
    const gal_real reciprocal = (gal_real)(1.0 / sqrt(variance + epsilon));
    for (size_t j = 0; j < hidden; j++) {
        y[j] = (x[j] - mean) * reciprocal * gain[j] + bias[j];
    }
    *mean_out = mean;
    *reciprocal_out = reciprocal;
}

static void norm_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t rows = at->call->dims[0], hidden = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *x = at->call->operand[0];
    gal_real *y = at->call->operand[3];
    gal_real *stats = at->call->operand[4];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        norm_row(x + i * hidden, at->call->operand[1], at->call->operand[2], hidden,
                 at->call->step->model->norm_epsilon, y + i * hidden, stats + i, stats + rows + i);
    }
}

gal_code GAL_KERNEL(layer_norm)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, call->dims[1], norm_part);
    return GAL_OK;
}

enum { COLUMNS = 256 };

/* Sums over rows of dy * xhat and of dy for `columns` features. */
GAL_VECTOR
static void parameter_sums(const gal_real *dy, const gal_real *x, const gal_real *stats, size_t rows, size_t hidden,
                           size_t columns, double *dgain, double *dbias)
{
    for (size_t j = 0; j < columns; j++) {
        dgain[j] = 0.0;
        dbias[j] = 0.0;
    }
    for (size_t i = 0; i < rows; i++) {
        const gal_real mean = stats[i], reciprocal = stats[rows + i];
        for (size_t j = 0; j < columns; j++) {
            const gal_real slope = dy[i * hidden + j];
            dgain[j] += (double)(slope * ((x[i * hidden + j] - mean) * reciprocal));
            dbias[j] += (double)slope;
        }
    }
}

static void parameter_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], hidden = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    gal_real *dgain = call->operand[5];
    gal_real *dbias = call->operand[6];
    double gain_sum[COLUMNS], bias_sum[COLUMNS];
    for (size_t first = gal_cut_begin(&at->cut, part); first < end; first += COLUMNS) {
        const size_t columns = end - first < COLUMNS ? end - first : COLUMNS;
        parameter_sums(dy + first, x + first, call->operand[3], rows, hidden, columns, gain_sum, bias_sum);
        for (size_t j = 0; j < columns; j++) {
            dgain[first + j] = (gal_real)(gain_sum[j] + (call->add ? (double)dgain[first + j] : 0.0));
            dbias[first + j] = (gal_real)(bias_sum[j] + (call->add ? (double)dbias[first + j] : 0.0));
        }
    }
}

/* dx = reciprocal (d - mean(d) - xhat mean(d xhat)) with d = dy * gain. */
GAL_VECTOR
static void input_row(const gal_real *dy, const gal_real *x, const gal_real *gain, const gal_real *addend,
                      gal_real mean, gal_real reciprocal, size_t hidden, gal_real *dx)
{
    double sum[GAL_LANES] = {0}, dot[GAL_LANES] = {0};
    size_t j = 0;
    for (; j + GAL_LANES <= hidden; j += GAL_LANES) {
        for (size_t l = 0; l < GAL_LANES; l++) {
            const gal_real slope = dy[j + l] * gain[j + l];
            sum[l] += (double)slope;
            dot[l] += (double)(slope * ((x[j + l] - mean) * reciprocal));
        }
    }
    for (; j < hidden; j++) {
        const gal_real slope = dy[j] * gain[j];
        sum[0] += (double)slope;
        dot[0] += (double)(slope * ((x[j] - mean) * reciprocal));
    }
    const gal_real mean_slope = (gal_real)(gal_lane_sum(sum) / (double)hidden);
    const gal_real mean_dot = (gal_real)(gal_lane_sum(dot) / (double)hidden);
    if (addend != NULL) {
        for (j = 0; j < hidden; j++) {
            const gal_real unit = (x[j] - mean) * reciprocal;
            dx[j] = addend[j] + reciprocal * (dy[j] * gain[j] - mean_slope - unit * mean_dot);
        }
    } else {
        for (j = 0; j < hidden; j++) {
            const gal_real unit = (x[j] - mean) * reciprocal;
            dx[j] = reciprocal * (dy[j] * gain[j] - mean_slope - unit * mean_dot);
        }
    }
}

static void input_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], hidden = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    const gal_real *stats = call->operand[3];
    gal_real *dx = call->operand[4];
    const gal_real *addend = call->dims[2] != 0 ? call->operand[7] : NULL;
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        input_row(dy + i * hidden, x + i * hidden, call->operand[2], addend != NULL ? addend + i * hidden : NULL,
                  stats[i], stats[rows + i], hidden, dx + i * hidden);
    }
}

gal_code GAL_KERNEL(layer_norm_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t rows = call->dims[0], hidden = call->dims[1];
    gal_split_run(call, hidden, GAL_COLUMN_UNIT, rows, parameter_part);
    gal_split_run(call, rows, 1, hidden, input_part);
    return GAL_OK;
}
