#include "planner/bound/slope.h"

#include <stdbool.h>
#include <stdint.h>

enum { GROWTHS_MAX = 12, SLOPES_MAX = 40 };

/* From what all seconds for the limit would be, on; false: nothing fits. */
static bool grow_price(gal_choose_at *choose, void *context, double limit_bytes, gal_slope *s)
{
    s->price = (s->large.seconds + 1e-9) / (limit_bytes > 0.0 ? limit_bytes : s->large.bytes);
    s->small = choose(context, s->price);
    for (uint32_t i = 0; s->small.bytes > limit_bytes && i < GROWTHS_MAX; i++) {
        s->price *= 8.0;
        s->small = choose(context, s->price);
    }
    return s->small.bytes <= limit_bytes;
}

static double price_between(const gal_priced_choice *large, const gal_priced_choice *small)
{
    const double bytes = large->bytes - small->bytes;
    const double price = bytes > 0.0 ? (small->seconds - large->seconds) / bytes : 0.0;
    return price > 0.0 ? price : 0.0;
}

gal_slope gal_best_slope(gal_choose_at *choose, void *context, double limit_bytes)
{
    gal_slope s = {.price = 0.0};
    s.best = s.large = s.small = choose(context, 0.0);
    if (s.large.bytes <= limit_bytes) {
        return s;
    }
    const bool fits = grow_price(choose, context, limit_bytes, &s);
    for (uint32_t i = 0; i < SLOPES_MAX; i++) {
        s.price = price_between(&s.large, &s.small);
        s.best = choose(context, s.price);
        if (!fits ||
            s.best.seconds + s.price * s.best.bytes >= (s.large.seconds + s.price * s.large.bytes) * (1.0 - 1e-12)) {
            break; /* no other choice below this line */
        }
        *(s.best.bytes > limit_bytes ? &s.large : &s.small) = s.best;
    }
    return s;
}
