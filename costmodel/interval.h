/* 90 % intervals of predictions. */
#ifndef GAL_COSTMODEL_INTERVAL_H
#define GAL_COSTMODEL_INTERVAL_H

#include <stdint.h>

/* Half the width, in log units, where nothing was compared with measurements. Assumed: 1.645 deviations of 12 % with
 * measured durations (make accuracy-host has some 6 to 8 % of median error), of 30 % with those of data sheets. */
#define GAL_INTERVAL_MEASURED 0.20
#define GAL_INTERVAL_ANALYTIC 0.50

/* Factors on a prediction between which 90 % of the next measurements are to be expected, from ratio[count] = measured
 * / predicted of rows that were not fitted (sorted in place): of the intervals with ceil(0.9 (count + 1)) of them, the
 * one of least high / low; with fewer than 10 rows the extremes. As of split conformal prediction (Lei et al.,
 * "Distribution-Free Predictive Inference for Regression", section 2.2), with the shortest interval in place of equal
 * tails: a few rows far off on one side do not widen the other. low <= 1 <= high. count >= 1. */
void gal_interval_factors(double *ratio, uint32_t count, double *low, double *high);

/* Of a standard normal variable: the chance that it is at most z; the value that it is at most with this probability
 * (between 1e-12 and 1 - 1e-12; 0.5 gives 0 and nothing else does). */
double gal_normal_chance(double z);
double gal_normal_quantile(double probability);
/* Those of 0.95 and 0.75, which every duration asks for. */
#define GAL_NORMAL_AT_95 1.6448536269514722
#define GAL_NORMAL_AT_75 0.6744897501960817

/* A quantity whose logarithm is normal around that of its prediction, and lies between the factors low <= 1 <= high
 * with 90 %: the factor that it stays below with the probability `quantile` (below 0.5 by low, above by high). */
double gal_interval_quantile(double low, double high, double quantile);
/* The deviation of that logarithm where half the width of the interval is `spread` in log units. */
double gal_interval_log_deviation(double spread);

#endif
