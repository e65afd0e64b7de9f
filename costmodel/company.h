/* What company costs: the factors of a profile, multiplied out once for all that can run at the same time on a stage
 * (costmodel/simulate.h). */
#ifndef GAL_COSTMODEL_COMPANY_H
#define GAL_COSTMODEL_COMPANY_H

#include "schemas/profile.h"

enum { GAL_COMPANIES = 1 << GAL_ACTIVITY_COUNT };

/* of[activity][company]: the factor on one that runs beside those activities whose bits are set; its own: beside
 * another of them. Behind the activities: of what goes on beside the device (GAL_ACTIVITY_BESIDE), all 1. */
typedef struct gal_company_factors {
    double of[GAL_ACTIVITY_COUNT + 1][GAL_COMPANIES];
} gal_company_factors;

/* slowdown[slowed][beside]: see gal_durations_slowdown. */
gal_company_factors gal_company_factors_of(const double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT]);

#endif
