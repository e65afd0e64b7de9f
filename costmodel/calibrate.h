/* Constants of a cluster under a framework, fitted to measured seconds.
 *
 * Least squares of log(predicted / measured), each row weighed as by the loss 2 (sqrt(1 + e^2) - 1), e in units of 5 %,
 * so that a few rows far off pull little; by Levenberg and Marquardt in the logarithms of the constants, derivatives by
 * differences. Every constant is drawn to what cluster and framework say with a deviation of a factor e (one prior
 * "row" each): what the rows do not tell stays there, with that uncertainty.
 * Sources: Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters", 1963; Charbonnier et al.,
 * "Deterministic edge-preserving regularization in computed imaging", section II, for the loss. */
#ifndef GAL_COSTMODEL_CALIBRATE_H
#define GAL_COSTMODEL_CALIBRATE_H

#include "costmodel/framework.h"

enum { GAL_CALIBRATE_FOLDS = 5 };

typedef struct gal_calibrate_row {
    const gal_model *model;
    const gal_cluster *cluster;
    const gal_uniform_layout *layout;
    double seconds; /* measured, > 0 */
    uint32_t group; /* rows of a group are never apart in cross-validation */
} gal_calibrate_row;

/* Fits the constants free_constant[] to the rows and says by cross-validation over groups (GAL_CALIBRATE_FOLDS folds,
 * or one group at a time where there are fewer) how far rows that were not seen are off: median_error and the interval.
 * Of one group alone there is nothing to hold back: median_error is that of the rows themselves, and the interval stays
 * the one of the framework, or of start.
 * A constant that no row's prediction depends on is not among those fitted.
 * start         constants of a cluster like this one: those fitted there stand in place of what cluster and framework
 *               say, each with its own deviation and one of 25 % for the difference between two clusters; NULL: none
 * group_count   groups are 0 .. group_count - 1
 * out           name is left empty; cluster is the first row's
 * GAL_NO if there are fewer than two rows, or the fit is off by more than constants can say; GAL_ERR_SYSTEM without
 * memory. */
gal_code gal_calibrate(const gal_framework *framework, const gal_calibrate_row *row, uint32_t row_count,
                       uint32_t group_count, const gal_constants *start, const bool free_constant[GAL_CONSTANT_COUNT],
                       gal_constants *out, gal_error *err);

#endif
