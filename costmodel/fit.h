/* Small least squares for duration models. */
#ifndef GAL_COSTMODEL_FIT_H
#define GAL_COSTMODEL_FIT_H

#include <stdint.h>

enum { GAL_FIT_TERMS = 3 };

typedef struct gal_fit_row {
    double x[GAL_FIT_TERMS];
    double y; /* > 0 */
} gal_fit_row;

/* The coefficients >= 0 that minimise the sum of ((x c - y) / y)^2: exact, as the best feasible of the least squares
 * over all sets of terms (the optimum of the constrained problem is the free optimum over its positive terms).
 * count >= 1; columns may be zero. */
void gal_fit_non_negative(const gal_fit_row *row, uint32_t count, double coefficient[GAL_FIT_TERMS]);

/* Sorts the values; of an even count the mean of the middle two. count >= 1. */
double gal_median(double *value, uint32_t count);

#endif
