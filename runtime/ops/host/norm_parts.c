/* Norms of rows whose features are split over devices: in two kernels, between which the devices tell each other their
 * moments. Of parts with means m_i and squared deviations d_i, of n features each, all together have the mean m of the
 * means and the squared deviations sum d_i + n (m_i - m)^2: nothing cancels, as it would in E[x^2] - E[x]^2 of values
 * far from zero. Source: T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979, equation 1.5. */
#include "runtime/ops/host/kernels.h"

GAL_VECTOR
static void row_moments(const gal_real *x, size_t features, gal_real *mean_out, gal_real *squares_out)
{
    const double mean = gal_row_sum(x, features) / (double)features;
    double lane[GAL_LANES] = {0};
    for (size_t j = 0; j < features; j++) {
        const double deviation = (double)x[j] - mean;
        lane[j % GAL_LANES] += deviation * deviation;
    }
    *mean_out = (gal_real)mean;
    *squares_out = (gal_real)gal_lane_sum(lane);
}

static void moments_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t rows = at->call->dims[0], features = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *x = at->call->operand[0];
    gal_real *moments = at->call->operand[1];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        row_moments(x + i * features, features, moments + i, moments + rows + i);
    }
}

gal_code GAL_KERNEL(norm_sums)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, call->dims[1], moments_part);
    return GAL_OK;
}

/* Mean (0 where it is not taken off) and reciprocal deviation of row i. */
static void row_statistics(const gal_kernel_call *call, size_t i, gal_real *mean_out, gal_real *reciprocal_out)
{
    const size_t rows = call->dims[0], parts = call->dims[2];
    const gal_real *moments = call->operand[2];
    const double features = call->dims[1], all = features * (double)parts;
    const bool centred = call->dims[3] != 0;
    double mean = 0.0, squares = 0.0;
    for (size_t p = 0; centred && p < parts; p++) {
        mean += (double)moments[2 * p * rows + i] / (double)parts;
    }
    for (size_t p = 0; p < parts; p++) {
        const double off = (double)moments[2 * p * rows + i] - mean;
        squares += (double)moments[(2 * p + 1) * rows + i] + features * off * off;
    }
    *mean_out = (gal_real)mean;
    *reciprocal_out = (gal_real)(1.0 / sqrt(squares / all + call->step->model->norm_epsilon));
}

GAL_VECTOR
static void norm_row(const gal_real *x, const gal_real *gain, const gal_real *bias, size_t features, gal_real mean,
                     gal_real reciprocal, gal_real *y)
{
    for (size_t j = 0; j < features; j++) {
        y[j] = (x[j] - mean) * reciprocal * gain[j] + (bias != NULL ? bias[j] : (gal_real)0);
    }
}

static void norm_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], features = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const bool centred = call->dims[3] != 0;
    const gal_real *x = call->operand[0];
    gal_real *y = call->operand[3];
    gal_real *stats = call->operand[4];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        gal_real mean, reciprocal;
        row_statistics(call, i, &mean, &reciprocal);
        norm_row(x + i * features, call->operand[1], centred ? call->operand[5] : NULL, features, mean, reciprocal,
                 y + i * features);
        if (centred) {
            stats[i] = mean;
        }
        stats[centred ? rows + i : i] = reciprocal;
    }
}

gal_code GAL_KERNEL(norm_by_sums)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, call->dims[1], norm_part);
    return GAL_OK;
}

/* ---- backward ---- */

static gal_real mean_of(const gal_real *stats, bool centred, size_t i)
{
    return centred ? stats[i] : (gal_real)0;
}

static gal_real reciprocal_of(const gal_real *stats, bool centred, size_t rows, size_t i)
{
    return stats[centred ? rows + i : i];
}

GAL_VECTOR
static void row_sums(const gal_real *dy, const gal_real *x, const gal_real *gain, gal_real mean, gal_real reciprocal,
                     size_t features, gal_real *sum_out, gal_real *dot_out)
{
    double sum[GAL_LANES] = {0}, dot[GAL_LANES] = {0};
    for (size_t j = 0; j < features; j++) {
        const gal_real slope = dy[j] * gain[j];
        sum[j % GAL_LANES] += (double)slope;
        dot[j % GAL_LANES] += (double)(slope * ((x[j] - mean) * reciprocal));
    }
    *sum_out = (gal_real)gal_lane_sum(sum);
    *dot_out = (gal_real)gal_lane_sum(dot);
}

static void sums_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], features = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const bool centred = call->dims[2] != 0;
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    const gal_real *stats = call->operand[3];
    gal_real *sums = call->operand[4];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        row_sums(dy + i * features, x + i * features, call->operand[2], mean_of(stats, centred, i),
                 reciprocal_of(stats, centred, rows, i), features, sums + i, sums + rows + i);
    }
}

enum { COLUMNS = 256 };

/* Sums over rows of dy xhat and of dy for `columns` features, from the first row to the last. */
GAL_VECTOR
static void parameter_sums(const gal_real *dy, const gal_real *x, const gal_real *stats, bool centred, size_t rows,
                           size_t features, size_t columns, double *gain_sum, double *bias_sum)
{
    for (size_t j = 0; j < columns; j++) {
        gain_sum[j] = bias_sum[j] = 0.0;
    }
    for (size_t i = 0; i < rows; i++) {
        const gal_real mean = mean_of(stats, centred, i), reciprocal = reciprocal_of(stats, centred, rows, i);
        for (size_t j = 0; j < columns; j++) {
            const gal_real slope = dy[i * features + j];
            gain_sum[j] += (double)(slope * ((x[i * features + j] - mean) * reciprocal));
            bias_sum[j] += (double)slope;
        }
    }
}

static void put_sums(const double *sum, size_t columns, bool add, gal_real *out)
{
    for (size_t j = 0; j < columns; j++) {
        out[j] = (gal_real)(sum[j] + (add ? (double)out[j] : 0.0));
    }
}

static void parameters_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], features = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const bool centred = call->dims[2] != 0;
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    double gain_sum[COLUMNS], bias_sum[COLUMNS];
    for (size_t first = gal_cut_begin(&at->cut, part); first < end; first += COLUMNS) {
        const size_t columns = end - first < COLUMNS ? end - first : COLUMNS;
        parameter_sums(dy + first, x + first, call->operand[3], centred, rows, features, columns, gain_sum, bias_sum);
        put_sums(gain_sum, columns, call->add, (gal_real *)call->operand[5] + first);
        if (centred) {
            put_sums(bias_sum, columns, call->add, (gal_real *)call->operand[6] + first);
        }
    }
}

gal_code GAL_KERNEL(norm_sums_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, call->dims[1], sums_part);
    gal_split_run(call, call->dims[1], GAL_COLUMN_UNIT, call->dims[0], parameters_part);
    return GAL_OK;
}

/* dx = reciprocal (d - mean(d) - xhat mean(d xhat)), d = dy gain; where no mean was taken off, without the first. */
GAL_VECTOR
static void input_row(const gal_real *dy, const gal_real *x, const gal_real *gain, const gal_real *addend,
                      gal_real mean, gal_real reciprocal, gal_real mean_slope, gal_real mean_dot, size_t features,
                      gal_real *dx)
{
    for (size_t j = 0; j < features; j++) {
        const gal_real normal = (x[j] - mean) * reciprocal;
        dx[j] = reciprocal * (dy[j] * gain[j] - mean_slope - normal * mean_dot) +
                (addend != NULL ? addend[j] : (gal_real)0);
    }
}

static void input_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t rows = call->dims[0], features = call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    const double all = (double)features * call->dims[2];
    const bool centred = call->dims[3] != 0;
    const gal_real *dy = call->operand[0];
    const gal_real *x = call->operand[1];
    const gal_real *stats = call->operand[3];
    const gal_real *sums = call->operand[4];
    gal_real *dx = call->operand[5];
    const gal_real *addend = call->dims[4] != 0 ? call->operand[6] : NULL;
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        input_row(dy + i * features, x + i * features, call->operand[2], addend != NULL ? addend + i * features : NULL,
                  mean_of(stats, centred, i), reciprocal_of(stats, centred, rows, i),
                  centred ? (gal_real)((double)sums[i] / all) : (gal_real)0, (gal_real)((double)sums[rows + i] / all),
                  features, dx + i * features);
    }
}

gal_code GAL_KERNEL(norm_by_sums_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], 1, call->dims[1], input_part);
    return GAL_OK;
}

/* ---- */

static void bias_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t features = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    gal_real *x = at->call->operand[0];
    const gal_real *bias = at->call->operand[1];
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        for (size_t j = 0; j < features; j++) {
            x[i * features + j] += bias[j];
        }
    }
}

gal_code GAL_KERNEL(add_bias)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], 1, call->dims[1], bias_part);
    return GAL_OK;
}
