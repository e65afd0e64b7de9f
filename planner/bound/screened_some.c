/* A bound of a cell of one stage from as few prices as show it. */
#include <math.h>
#include <stdlib.h>

#include "planner/bound/screened_prices.h"

/* Of reduced seconds: of items that differ by no more any may be the cheapest. */
static const double tie = 1e-9;

typedef struct some {
    gal_screened s;
    gal_screened_prices *prices;
    gal_screened_menus menus;
    uint32_t *candidate; /* [strategy_count] items that are not priced */
} some;

static bool is_priced(const some *o, uint32_t type, uint32_t item)
{
    const size_t first = (size_t)type * o->s.strategy_count;
    return o->s.item[first + o->menus.of_item[first + item]].priced;
}

/* Prices an item; its bytes and so what they cost are the same. */
static gal_code price_one(some *o, uint32_t type, uint32_t number, gal_error *err)
{
    const size_t first = (size_t)type * o->s.strategy_count;
    const uint32_t strategy = o->menus.of_item[first + number];
    gal_relaxed_item *item = &o->menus.type[type].item[number];
    const gal_relaxed_item floor = *item;
    const gal_code code = gal_screened_price_item(&o->s.spec, o->s.types, type, strategy, o->prices, err);
    if (code == GAL_OK) {
        *item = gal_screened_relaxed(&o->s.spec, &o->s.item[first + strategy]);
        item->reduced_seconds = floor.reduced_seconds +
                                gal_screen_rounds(&o->s.spec) * (item->round_seconds - floor.round_seconds) +
                                (item->once_seconds - floor.once_seconds);
        item->reduced_seconds = o->s.item[first + strategy].legal ? item->reduced_seconds : HUGE_VAL;
    }
    return code;
}

/* Prices items of a type until one that is priced is the cheapest at the price of memory that reduced_seconds are of,
 * and none that is not is as cheap. *more: at least one was priced. */
static gal_code price_cheapest(some *o, uint32_t type, bool *more, gal_error *err)
{
    const gal_relaxed_type *menu = &o->menus.type[type];
    double least_priced = HUGE_VAL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < menu->item_count; i++) {
        if (!is_priced(o, type, i)) {
            o->candidate[count++] = i;
        } else if (menu->item[i].reduced_seconds < least_priced) {
            least_priced = menu->item[i].reduced_seconds;
        }
    }
    for (;;) {
        const double most = least_priced < HUGE_VAL ? least_priced + tie * fabs(least_priced) : HUGE_VAL;
        uint32_t kept = 0, best = 0;
        for (uint32_t i = 0; i < count; i++) {
            const double own = menu->item[o->candidate[i]].reduced_seconds;
            if (own <= most) {
                best = own < menu->item[o->candidate[best]].reduced_seconds || kept == 0 ? kept : best;
                o->candidate[kept++] = o->candidate[i];
            }
        }
        if (kept == 0) {
            return GAL_OK;
        }
        const uint32_t next = o->candidate[best];
        o->candidate[best] = o->candidate[kept - 1];
        count = kept - 1;
        const gal_code code = price_one(o, type, next, err);
        if (code != GAL_OK) {
            return code;
        }
        least_priced = fmin(least_priced, menu->item[next].reduced_seconds);
        *more = true;
    }
}

gal_code gal_screened_bound_some(const gal_cell_spec *spec, const gal_block_types *types, double enough_seconds,
                                 gal_screened_prices **prices, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    some o = {.s = {.spec = *spec, .types = types}};
    const uint32_t in_flight = gal_screen_in_flight(spec, 0);
    bool more = spec->pp_degree == 1;
    if (!more) {
        return GAL_OK;
    }
    GAL_TRY(gal_screened_prices_find(spec, types, GAL_FIRST_ORDERS, prices, &o.prices, err));
    GAL_TRY(gal_screened_floor_all(spec, types, o.prices, err));
    o.s.strategy = o.prices->strategy;
    o.s.strategy_count = o.prices->strategy_count;
    o.s.item = o.prices->item;
    GAL_TRY(gal_screened_menus_create(&o.s, &o.menus, err));
    o.candidate = malloc(((size_t)o.s.strategy_count + 1) * sizeof *o.candidate);
    if (o.candidate == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    while (more) {
        double limit_bytes = 0.0;
        gal_screened_limits(&o.s, &limit_bytes);
        const gal_relaxed_pipeline pipeline = {1, gal_screen_rounds(spec), &in_flight, &limit_bytes};
        *bound = fmax(*bound, gal_relaxed_bound(o.menus.type, types->type_count, &pipeline, NULL));
        more = false;
        for (uint32_t type = 0; type < types->type_count && *bound < enough_seconds; type++) {
            GAL_TRY(price_cheapest(&o, type, &more, err));
            gal_screened_menus_list(&o.s, type, &o.menus);
        }
    }
cleanup:
    free(o.candidate);
    gal_screened_menus_free(&o.menus);
    return code;
}
