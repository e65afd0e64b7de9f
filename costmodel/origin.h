/* How a duration was had, and how far off it may be. */
#ifndef GAL_COSTMODEL_ORIGIN_H
#define GAL_COSTMODEL_ORIGIN_H

#include "schemas/profile.h"

typedef struct gal_origin {
    gal_source source;
    double log_deviation; /* what else than the source makes its logarithm stray */
} gal_origin;

/* Of repeats of which half lie within spread_seconds around the median. */
gal_origin gal_origin_of_repeats(gal_source source, double seconds, double spread_seconds);

#endif
