#include "costmodel/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/fit.h"
#include "costmodel/interval.h"

enum { N = GAL_CONSTANT_COUNT, STEPS_MAX = 60 };

static const double residual_unit = 0.05, prior_deviation = 1.0, sister_deviation = 0.25, difference = 1e-3;

typedef struct fit {
    const gal_framework *framework;
    const gal_calibrate_row *row;
    uint32_t row_count;
    const bool *used; /* [row] */
    uint32_t count;   /* of free constants */
    gal_constant which[N];
    double prior[N];            /* [free constant]: deviation of its logarithm */
    const gal_constants *start; /* NULL: none */
    double *residual, *changed; /* [row]: log(predicted / measured) at the point, and beside it */
    double *slope;              /* [row][count] */
} fit;

/* ---- the point: logarithms of factors on what cluster and framework say ---- */

static double bounded(const fit *f, const gal_constants *start, uint32_t i, double z)
{
    const gal_constant c = f->which[i];
    const double least = log(gal_constant_least[c] / start->value[c]);
    const double most = log(gal_constant_most[c] / start->value[c]);
    return fmin(fmax(z, least), most);
}

static void begin_constants(const fit *f, const gal_cluster *cluster, gal_constants *out)
{
    gal_constants_default(cluster, f->framework, out);
    if (f->start != NULL) {
        gal_constants_apply(f->start, out);
    }
}

/* Clusters may differ by row (numbers of devices), their defaults then too: the factors are common. */
static void set_constants(const fit *f, const gal_cluster *cluster, const double *z, gal_constants *out)
{
    begin_constants(f, cluster, out);
    for (uint32_t i = 0; i < f->count; i++) {
        out->value[f->which[i]] *= exp(bounded(f, out, i, z[i]));
    }
}

static void residuals(const fit *f, const double *z, double *out)
{
    const gal_cluster *cluster = NULL;
    gal_constants constants;
    for (uint32_t i = 0; i < f->row_count; i++) {
        const gal_calibrate_row *row = &f->row[i];
        if (!f->used[i]) {
            continue;
        }
        if (row->cluster != cluster) {
            cluster = row->cluster;
            set_constants(f, cluster, z, &constants);
        }
        gal_framework_estimate estimate;
        gal_framework_price(f->framework, cluster, &constants, row->model, row->layout, &estimate);
        out[i] = log(estimate.seconds / row->seconds);
    }
}

static double loss(const fit *f, const double *residual, const double *z)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < f->row_count; i++) {
        if (f->used[i]) {
            const double e = residual[i] / residual_unit;
            sum += 2.0 * (sqrt(1.0 + e * e) - 1.0);
        }
    }
    for (uint32_t i = 0; i < f->count; i++) {
        sum += z[i] * z[i] / (f->prior[i] * f->prior[i]);
    }
    return sum;
}

/* ---- Levenberg and Marquardt ---- */

static void slopes(const fit *f, const double *z)
{
    gal_constants start;
    double beside[N];
    begin_constants(f, f->row[0].cluster, &start);
    for (uint32_t k = 0; k < f->count; k++) {
        memcpy(beside, z, sizeof beside);
        beside[k] = bounded(f, &start, k, z[k] + difference);
        if (beside[k] - z[k] < 0.5 * difference) { /* at its upper bound */
            beside[k] = z[k] - difference;
        }
        const double length = beside[k] - z[k];
        residuals(f, beside, f->changed);
        for (uint32_t i = 0; i < f->row_count; i++) {
            f->slope[(size_t)i * f->count + k] = f->used[i] ? (f->changed[i] - f->residual[i]) / length : 0.0;
        }
    }
}

/* Of the loss: half its second derivatives (Gauss and Newton) and its first, both in units of the residual. */
static void normal_equations(const fit *f, const double *z, double matrix[N][N], double gradient[N])
{
    memset(matrix, 0, sizeof(double[N][N]));
    memset(gradient, 0, sizeof(double[N]));
    for (uint32_t i = 0; i < f->row_count; i++) {
        const double e = f->used[i] ? f->residual[i] / residual_unit : 0.0;
        const double weight = f->used[i] ? 1.0 / sqrt(1.0 + e * e) : 0.0;
        const double *slope = &f->slope[(size_t)i * f->count];
        for (uint32_t k = 0; k < f->count; k++) {
            gradient[k] += weight * e * slope[k] / residual_unit;
            for (uint32_t l = 0; l < f->count; l++) {
                matrix[k][l] += weight * slope[k] * slope[l] / (residual_unit * residual_unit);
            }
        }
    }
    for (uint32_t k = 0; k < f->count; k++) {
        matrix[k][k] += 1.0 / (f->prior[k] * f->prior[k]);
        gradient[k] += z[k] / (f->prior[k] * f->prior[k]);
    }
}

/* Solves in place; matrix is positive definite. */
static void solve(uint32_t count, double matrix[N][N], double right[N])
{
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t r = k + 1; r < count; r++) {
            const double factor = matrix[r][k] / matrix[k][k];
            for (uint32_t c = k; c < count; c++) {
                matrix[r][c] -= factor * matrix[k][c];
            }
            right[r] -= factor * right[k];
        }
    }
    for (uint32_t k = count; k-- > 0;) {
        for (uint32_t c = k + 1; c < count; c++) {
            right[k] -= matrix[k][c] * right[c];
        }
        right[k] /= matrix[k][k];
    }
}

static void clamp(const fit *f, const gal_constants *start, double *z)
{
    for (uint32_t k = 0; k < f->count; k++) {
        z[k] = bounded(f, start, k, z[k]);
    }
}

/* A constant at a bound that the loss would have beyond it stays: steps of the others are taken as if it were fixed. */
static void hold(const fit *f, const gal_constants *start, const double *z, double matrix[N][N], double gradient[N])
{
    for (uint32_t k = 0; k < f->count; k++) {
        const double further = z[k] - copysign(difference, gradient[k]);
        if (bounded(f, start, k, further) != z[k]) {
            continue;
        }
        for (uint32_t l = 0; l < f->count; l++) {
            matrix[k][l] = matrix[l][k] = k == l ? 1.0 : 0.0;
        }
        gradient[k] = 0.0;
    }
}

/* z: where to begin, and the best point found. */
static void descend(const fit *f, double *z)
{
    gal_constants start;
    double matrix[N][N], damped[N][N], gradient[N], step[N], next[N], damping = 1e-2;
    begin_constants(f, f->row[0].cluster, &start);
    clamp(f, &start, z);
    residuals(f, z, f->residual);
    double best = loss(f, f->residual, z);
    for (uint32_t i = 0; i < STEPS_MAX && damping < 1e8; i++) {
        slopes(f, z);
        normal_equations(f, z, matrix, gradient);
        hold(f, &start, z, matrix, gradient);
        bool better = false;
        const double before = best;
        for (; !better && damping < 1e8; damping *= better ? 0.1 : 10.0) {
            memcpy(damped, matrix, sizeof damped);
            memcpy(step, gradient, sizeof step);
            for (uint32_t k = 0; k < f->count; k++) {
                damped[k][k] *= 1.0 + damping;
            }
            solve(f->count, damped, step);
            for (uint32_t k = 0; k < f->count; k++) {
                next[k] = z[k] - step[k];
            }
            clamp(f, &start, next);
            residuals(f, next, f->changed);
            const double now = loss(f, f->changed, next);
            better = now < best;
            if (better) {
                best = now;
                memcpy(z, next, sizeof(double[N]));
                memcpy(f->residual, f->changed, f->row_count * sizeof *f->residual);
            }
        }
        if (before - best < 1e-7 * (1.0 + best)) {
            break;
        }
    }
}

/* The best of the descents that begin at the start and, for every constant, at a start that has it at a quarter or
 * fourfold: the longer of two activities hides the constants of the other, so there are several minima. */
static void search_minimum(const fit *f, double *z)
{
    const double apart = 4.0; /* a factor e is the deviation of the prior: 1.4 of them */
    const uint32_t starts = 1 + 2 * f->count;
    double least = INFINITY;
    for (uint32_t i = 0; i < starts; i++) {
        double at[N] = {0};
        if (i > 0) {
            at[(i - 1) / 2] = i % 2 == 1 ? -log(apart) : log(apart);
        }
        descend(f, at);
        const double reached = loss(f, f->residual, at);
        if (reached < least) {
            least = reached;
            memcpy(z, at, sizeof at);
        }
    }
}

/* ---- what is reported ---- */

/* Deviations of z: of the inverse of the normal equations, times the mean square of the weighed residuals where that
 * is above one unit. used[k]: whether any row depends on it. */
static void deviations(const fit *f, const double *z, double deviation[N], bool used[N])
{
    double matrix[N][N], gradient[N], sum = 0.0, copy[N][N];
    uint32_t rows = 0;
    slopes(f, z);
    normal_equations(f, z, matrix, gradient);
    for (uint32_t i = 0; i < f->row_count; i++) {
        if (f->used[i]) {
            const double e = f->residual[i] / residual_unit;
            sum += e * e / sqrt(1.0 + e * e);
            rows++;
        }
    }
    const double scale = fmax(1.0, sum / fmax(1.0, (double)rows - f->count));
    for (uint32_t k = 0; k < f->count; k++) {
        double unit[N] = {0};
        unit[k] = 1.0;
        memcpy(copy, matrix, sizeof copy);
        solve(f->count, copy, unit);
        deviation[k] = fmin(sqrt(unit[k] * scale), f->prior[k]);
        used[k] = false;
        for (uint32_t i = 0; i < f->row_count; i++) {
            used[k] = used[k] || fabs(f->slope[(size_t)i * f->count + k]) > 1e-9;
        }
    }
}

static void report(const fit *f, const double *z, gal_constants *out)
{
    double deviation[N];
    bool used[N];
    set_constants(f, f->row[0].cluster, z, out);
    deviations(f, z, deviation, used);
    for (uint32_t k = 0; k < f->count; k++) {
        out->fitted[f->which[k]] = used[k] || (f->start != NULL && f->start->fitted[f->which[k]]);
        out->log_deviation[f->which[k]] = deviation[k];
    }
    memcpy(out->cluster, f->row[0].cluster->name, sizeof out->cluster);
    memcpy(out->framework, f->framework->name, sizeof out->framework);
    out->row_count = f->row_count;
}

/* measured / predicted of every row, from the folds that it is not in. */
static void cross_validate(fit *f, bool *used, uint32_t group_count, const double *z, double *ratio)
{
    const uint32_t folds = group_count < GAL_CALIBRATE_FOLDS ? group_count : GAL_CALIBRATE_FOLDS; /* at least 2 */
    for (uint32_t fold = 0; fold < folds; fold++) {
        double at[N];
        memcpy(at, z, sizeof at);
        for (uint32_t i = 0; i < f->row_count; i++) {
            used[i] = f->row[i].group % folds != fold;
        }
        descend(f, at);
        for (uint32_t i = 0; i < f->row_count; i++) {
            used[i] = !used[i];
        }
        residuals(f, at, f->residual);
        for (uint32_t i = 0; i < f->row_count; i++) {
            if (used[i]) {
                ratio[i] = exp(-f->residual[i]);
            }
        }
    }
    for (uint32_t i = 0; i < f->row_count; i++) {
        used[i] = true;
    }
}

gal_code gal_calibrate(const gal_framework *framework, const gal_calibrate_row *row, uint32_t row_count,
                       uint32_t group_count, const gal_constants *start, const bool free_constant[GAL_CONSTANT_COUNT],
                       gal_constants *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double z[N] = {0};
    fit f = {.framework = framework, .row = row, .row_count = row_count, .start = start};
    for (uint32_t i = 0; i < N; i++) {
        if (free_constant[i]) {
            f.prior[f.count] =
                start != NULL && start->fitted[i] ? hypot(start->log_deviation[i], sister_deviation) : prior_deviation;
            f.which[f.count++] = (gal_constant)i;
        }
    }
    if (row_count < 2) {
        return gal_fail(err, GAL_NO, "calibration needs at least 2 measured rows, got %u", row_count);
    }
    bool *used = malloc(row_count * sizeof *used);
    double *ratio = malloc(row_count * sizeof *ratio);
    f.residual = malloc(row_count * sizeof *f.residual);
    f.changed = malloc(row_count * sizeof *f.changed);
    f.slope = malloc(((size_t)row_count * f.count + 1) * sizeof *f.slope);
    if (used == NULL || ratio == NULL || f.residual == NULL || f.changed == NULL || f.slope == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: calibration"));
    }
    for (uint32_t i = 0; i < row_count; i++) {
        used[i] = true;
    }
    f.used = used;
    search_minimum(&f, z);
    residuals(&f, z, f.residual);
    report(&f, z, out);
    for (uint32_t i = 0; i < row_count; i++) {
        ratio[i] = exp(-f.residual[i]);
    }
    if (group_count > 1) {
        cross_validate(&f, used, group_count, z, ratio);
    }
    for (uint32_t i = 0; i < row_count; i++) {
        f.changed[i] = fabs(1.0 / ratio[i] - 1.0);
    }
    out->median_error = gal_median(f.changed, row_count);
    if (group_count > 1) {
        gal_interval_factors(ratio, row_count, &out->seconds_low_factor, &out->seconds_high_factor);
    }
    if (!(out->median_error <= GAL_CONSTANTS_FACTOR_MAX && out->seconds_high_factor <= GAL_CONSTANTS_FACTOR_MAX)) {
        GAL_TRY(
            gal_fail(err, GAL_NO,
                     "measured seconds are %.3g times what is predicted of them (median), and constants within their "
                     "bounds do not explain that: another cluster, framework or unit?",
                     gal_median(ratio, row_count)));
    }
cleanup:
    free(f.slope);
    free(f.changed);
    free(f.residual);
    free(ratio);
    free(used);
    return code;
}
