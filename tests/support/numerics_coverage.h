/* Which combinations a set of plans has met: the coverage matrix of the equivalence test. A plan meets a cell once,
 * however often the combination occurs in it. */
#ifndef GAL_TESTS_SUPPORT_NUMERICS_COVERAGE_H
#define GAL_TESTS_SUPPORT_NUMERICS_COVERAGE_H

#include <stdio.h>

#include "schemas/plan.h"

#define GAL_COVERAGE_CELLS_MAX 800

typedef struct gal_coverage {
    uint32_t wanted_plans;                /* a legal cell is to be met by as many */
    uint32_t met[GAL_COVERAGE_CELLS_MAX]; /* plans */
} gal_coverage;

/* hit[cell] of one plan. */
void gal_coverage_of(const gal_plan *plan, bool hit[GAL_COVERAGE_CELLS_MAX]);
void gal_coverage_add(gal_coverage *coverage, const bool hit[GAL_COVERAGE_CELLS_MAX]);
/* How many cells that are still met too seldom the plan would meet. */
uint32_t gal_coverage_gain(const gal_coverage *coverage, const bool hit[GAL_COVERAGE_CELLS_MAX]);
/* Legal cells met by fewer than wanted_plans. */
uint32_t gal_coverage_short(const gal_coverage *coverage);
void gal_coverage_print(const gal_coverage *coverage, FILE *out);

#endif
