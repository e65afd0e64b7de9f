#include "costmodel/company.h"

gal_company_factors gal_company_factors_of(const double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT])
{
    gal_company_factors out;
    for (uint32_t company = 0; company < GAL_COMPANIES; company++) {
        for (uint32_t activity = 0; activity < GAL_ACTIVITY_COUNT; activity++) {
            double *factor = &out.of[activity][company];
            *factor = 1.0;
            for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
                *factor *= (company >> i & 1U) != 0 ? slowdown[activity][i] : 1.0;
            }
        }
        out.of[GAL_ACTIVITY_COUNT][company] = 1.0;
    }
    return out;
}
