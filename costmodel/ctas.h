/* What a profile says of communication by how many thread blocks (CTAs) of a GPU it takes. */
#ifndef GAL_COSTMODEL_CTAS_H
#define GAL_COSTMODEL_CTAS_H

#include "schemas/profile.h"

/* Between the profile's counts by straight lines, outside as at the nearest one. It has at least one. */
gal_profile_ctas gal_ctas_between(const gal_profile_gpu *gpu, uint32_t ctas);
/* Whether it has any, each with what communication takes alone. */
bool gal_ctas_know_alone(const gal_profile_gpu *gpu);

#endif
