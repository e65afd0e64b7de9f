#include "costmodel/fit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Normal equations of the relative residuals, with columns scaled to unit length. */
typedef struct normal {
    double a[GAL_FIT_TERMS][GAL_FIT_TERMS];
    double b[GAL_FIT_TERMS];
    double scale[GAL_FIT_TERMS];
} normal;

static void normal_of(const gal_fit_row *row, uint32_t count, normal *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t i = 0; i < GAL_FIT_TERMS; i++) {
            const double x = row[r].x[i] / row[r].y;
            out->b[i] += x;
            for (uint32_t j = 0; j < GAL_FIT_TERMS; j++) {
                out->a[i][j] += x * (row[r].x[j] / row[r].y);
            }
        }
    }
    for (uint32_t i = 0; i < GAL_FIT_TERMS; i++) {
        out->scale[i] = out->a[i][i] > 0.0 ? 1.0 / sqrt(out->a[i][i]) : 0.0;
    }
    for (uint32_t i = 0; i < GAL_FIT_TERMS; i++) {
        out->b[i] *= out->scale[i];
        for (uint32_t j = 0; j < GAL_FIT_TERMS; j++) {
            out->a[i][j] *= out->scale[i] * out->scale[j];
        }
    }
}

/* Gaussian elimination over the terms of a set; false if they are (nearly) dependent. */
static bool solve(const normal *n, uint32_t set, double x[GAL_FIT_TERMS])
{
    double m[GAL_FIT_TERMS][GAL_FIT_TERMS + 1];
    uint32_t term[GAL_FIT_TERMS];
    uint32_t size = 0;
    for (uint32_t i = 0; i < GAL_FIT_TERMS; i++) {
        x[i] = 0.0;
        if ((set >> i & 1u) != 0) {
            term[size++] = i;
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t j = 0; j < size; j++) {
            m[i][j] = n->a[term[i]][term[j]];
        }
        m[i][size] = n->b[term[i]];
    }
    for (uint32_t i = 0; i < size; i++) { /* positive definite: no pivoting needed */
        if (!(m[i][i] > 1e-12)) {
            return false;
        }
        for (uint32_t r = i + 1; r < size; r++) {
            const double factor = m[r][i] / m[i][i];
            for (uint32_t j = i; j <= size; j++) {
                m[r][j] -= factor * m[i][j];
            }
        }
    }
    for (uint32_t i = size; i-- > 0;) {
        double value = m[i][size];
        for (uint32_t j = i + 1; j < size; j++) {
            value -= m[i][j] * x[term[j]];
        }
        x[term[i]] = value / m[i][i];
    }
    return true;
}

/* Sum of squares less the constant: c a c - 2 b c. */
static double residual(const normal *n, const double x[GAL_FIT_TERMS])
{
    double sum = 0.0;
    for (uint32_t i = 0; i < GAL_FIT_TERMS; i++) {
        sum -= 2.0 * n->b[i] * x[i];
        for (uint32_t j = 0; j < GAL_FIT_TERMS; j++) {
            sum += x[i] * n->a[i][j] * x[j];
        }
    }
    return sum;
}

void gal_fit_non_negative(const gal_fit_row *row, uint32_t count, double coefficient[GAL_FIT_TERMS])
{
    normal n;
    normal_of(row, count, &n);
    double best = 0.0;
    memset(coefficient, 0, GAL_FIT_TERMS * sizeof *coefficient);
    for (uint32_t set = 1; set < 1u << GAL_FIT_TERMS; set++) {
        double x[GAL_FIT_TERMS];
        bool feasible = solve(&n, set, x);
        for (uint32_t i = 0; feasible && i < GAL_FIT_TERMS; i++) {
            feasible = x[i] >= 0.0;
        }
        const double sum = feasible ? residual(&n, x) : 0.0;
        if (feasible && sum < best) {
            best = sum;
            for (uint32_t i = 0; i < GAL_FIT_TERMS; i++) {
                coefficient[i] = x[i] * n.scale[i];
            }
        }
    }
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

double gal_median(double *value, uint32_t count)
{
    qsort(value, count, sizeof *value, compare_doubles);
    const uint32_t half = count / 2;
    return count % 2 == 1 ? value[half] : (value[half - 1] + value[half]) / 2.0;
}
