/* What is on the menus of a stage: items, and conversions between them. */
#include "planner/bound/mixture.h"

#include <math.h>

double gal_mix_ask(const gal_mix_stage *stage, uint32_t pair, uint32_t from_class, uint32_t to_class)
{
    const double known = gal_mix_known(stage, pair, from_class, to_class);
    if (!isnan(known)) {
        return known;
    }
    const gal_mix_conversion own = stage->price(stage->context, pair, from_class, to_class);
    (*gal_mix_row(stage, pair, from_class))[to_class] = own;
    return gal_mix_known(stage, pair, from_class, to_class);
}
