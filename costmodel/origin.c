#include "costmodel/origin.h"

#include "costmodel/interval.h"

gal_origin gal_origin_of_repeats(gal_source source, double seconds, double spread_seconds)
{
    return (gal_origin){source, seconds > 0.0 ? spread_seconds / seconds / GAL_NORMAL_AT_75 : 0.0};
}
