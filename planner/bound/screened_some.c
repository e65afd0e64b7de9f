/* A bound of a cell of one stage from as few prices as show it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/screened_prices.h"

/* Of reduced seconds: of items that differ by no more any may be the cheapest. */
static const double tie = 1e-9;

enum { FEW_OF = 16 }; /* blocks: a type of one has few */

typedef struct some {
    gal_screened s;
    gal_screened_prices *prices;
    gal_screened_menus menus;
    gal_relaxed_type *menu; /* [type] its splits by kernels, until it is listed in menus */
    uint32_t *candidate;    /* [strategy_count] items that are not priced */
} some;

static bool is_priced(const some *o, uint32_t type, uint32_t item)
{
    const size_t first = (size_t)type * o->s.strategy_count;
    return o->prices->priced[first + o->menus.of_item[first + item]];
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
        *item = gal_screened_relaxed(&o->s.spec, &o->s.item[first + strategy], 0.0);
        item->reduced_seconds = floor.reduced_seconds +
                                gal_screen_rounds(&o->s.spec) * (item->round_seconds - floor.round_seconds) +
                                (item->once_seconds - floor.once_seconds);
        item->reduced_seconds = o->s.legal[first + strategy] ? item->reduced_seconds : HUGE_VAL;
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

static double least_work(const gal_relaxed_type *menu)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < menu->item_count; i++) {
        least = fmin(least, menu->item[i].work_bytes);
    }
    return least < HUGE_VAL ? least : 0.0;
}

/* At the best price of memory, by what is priced and what the rest takes at least. */
static void raise_bound(some *o, double *bound)
{
    const gal_block_types *types = o->s.types;
    const uint32_t in_flight = gal_screen_in_flight(&o->s.spec, 0);
    double limit_bytes = 0.0;
    gal_screen_limits(&o->s.spec, least_work(&o->menu[types->type_of[0]]),
                      least_work(&o->menu[types->type_of[types->block_count - 1]]), &limit_bytes);
    const gal_relaxed_pipeline pipeline = {1, gal_screen_rounds(&o->s.spec), &in_flight, &limit_bytes};
    *bound = fmax(*bound, gal_relaxed_bound(o->menu, types->type_count, &pipeline, NULL));
}

static void list_type(some *o, uint32_t type, double tail_weight)
{
    gal_screened_menus_list(&o->s, type, tail_weight, &o->menus);
    o->menu[type] = o->menus.type[type];
}

/* Those of most blocks first: often their prices alone rule the cell out. */
static void order_types(const gal_block_types *types, uint32_t order[GAL_TYPES_MAX])
{
    for (uint32_t type = 0; type < types->type_count; type++) {
        uint32_t at = type;
        for (; at > 0 && gal_screen_block_count(types, order[at - 1]) < gal_screen_block_count(types, type); at--) {
            order[at] = order[at - 1];
        }
        order[at] = type;
    }
}

/* By what the strategies of a type take at least, in place of its splits by kernels. Types of few blocks show little:
 * what they do is seen with the next one that has many, or the last. */
static gal_code raise_by_floors(some *o, uint32_t type, bool last, double *bound, gal_error *err)
{
    const gal_block_types *types = o->s.types;
    const gal_code code = gal_screened_floor_type(&o->s.spec, types, type, o->prices, err);
    if (code == GAL_OK) {
        list_type(o, type, 0.0);
    }
    if (code == GAL_OK && (last || FEW_OF * gal_screen_block_count(types, type) >= types->block_count)) {
        raise_bound(o, bound);
    }
    return code;
}

/* All types, which have their floors, with so much of the tail. */
static void raise_by_tails(some *o, double tail_weight, double *bound)
{
    for (uint32_t type = 0; type < o->s.types->type_count; type++) {
        list_type(o, type, tail_weight);
    }
    raise_bound(o, bound);
}

/* By prices of a type. *more: some were asked for. */
static gal_code raise_by_prices(some *o, uint32_t type, double *bound, bool *more, gal_error *err)
{
    bool priced = false;
    const gal_code code = price_cheapest(o, type, &priced, err);
    if (priced) {
        list_type(o, type, 0.0);
        raise_bound(o, bound);
        *more = true;
    }
    return code;
}

/* Freed also if it fails. */
static gal_code some_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_prices *prices,
                            some *o, gal_error *err)
{
    *o = (some){.s = {.spec = *spec,
                      .types = types,
                      .strategy = prices->strategy,
                      .strategy_count = prices->strategy_count,
                      .legal = prices->legal,
                      .item = prices->item},
                .prices = prices,
                .candidate = malloc(((size_t)prices->strategy_count + 1) * sizeof *o->candidate),
                .menu = malloc(types->type_count * sizeof *o->menu)};
    return o->candidate != NULL && o->menu != NULL ? gal_screened_menus_create(&o->s, &o->menus, err)
                                                   : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static void some_free(some *o)
{
    free(o->menu);
    free(o->candidate);
    gal_screened_menus_free(&o->menus);
}

gal_code gal_screened_bound_some(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                                 double enough_seconds, gal_screened_prices **prices, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    some o = {.menu = NULL};
    gal_screened_prices *own = NULL;
    const gal_relaxed_type *kernels = NULL;
    uint32_t order[GAL_TYPES_MAX];
    bool more = spec->pp_degree == 1;
    if (!more) {
        return GAL_OK;
    }
    GAL_TRY(gal_screen_menus(screens, spec, &kernels, err));
    GAL_TRY(gal_screened_prices_find(spec, types, GAL_FIRST_ORDERS, prices, &own, err));
    GAL_TRY(some_create(spec, types, own, &o, err));
    memcpy(o.menu, kernels, types->type_count * sizeof *o.menu);
    order_types(types, order);
    for (uint32_t i = 0; i < types->type_count && *bound < enough_seconds; i++) {
        GAL_TRY(raise_by_floors(&o, order[i], i + 1 == types->type_count, bound, err));
    }
    if (*bound < enough_seconds) { /* a plan has all of the tail: where gradients take long to reduce, that may do */
        raise_by_tails(&o, 1.0, bound);
    }
    if (*bound < enough_seconds) {
        raise_by_tails(&o, 0.0, bound);
    }
    while (more) {
        more = false;
        for (uint32_t i = 0; i < types->type_count && *bound < enough_seconds; i++) {
            GAL_TRY(raise_by_prices(&o, order[i], bound, &more, err));
        }
    }
cleanup:
    some_free(&o);
    return code;
}

/* ---- what a cell does without ---- */

/* Those of first orders of the cell, where all of them have floors or prices; else NULL. */
static gal_screened_prices *floored(const gal_cell_spec *spec, const gal_block_types *types,
                                    gal_screened_prices *prices)
{
    gal_screened_prices *own = gal_screened_prices_of(spec, GAL_FIRST_ORDERS, prices);
    bool all = own != NULL && spec->pp_degree == 1;
    for (uint32_t type = 0; type < types->type_count && all; type++) {
        all = own->floored[type];
    }
    return all ? own : NULL;
}

static gal_code left_out_create(const gal_block_types *types, const gal_screened_prices *prices, gal_left_out *out,
                                gal_error *err)
{
    const size_t room = (size_t)types->type_count * prices->strategy_count + 1;
    *out = (gal_left_out){prices->strategy_count, calloc(room, sizeof *out->out), HUGE_VAL};
    return out->out != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

void gal_left_out_free(gal_left_out *left)
{
    free(left->out);
    *left = (gal_left_out){.seconds = HUGE_VAL};
}

/* By what reduced_seconds say at the best price of memory, with so much of the tail. */
static void leave_by_tails(some *o, double tail_weight, double enough_seconds, gal_left_out *out)
{
    double bound = 0.0;
    raise_by_tails(o, tail_weight, &bound);
    for (uint32_t type = 0; type < o->s.types->type_count; type++) {
        const gal_relaxed_type *menu = &o->menu[type];
        const size_t first = (size_t)type * o->s.strategy_count;
        for (uint32_t i = 0; i < menu->item_count; i++) {
            const double own = bound < HUGE_VAL ? menu->item[i].reduced_seconds : HUGE_VAL;
            bool *left = &out->out[first + o->menus.of_item[first + i]];
            if (!*left && own >= enough_seconds) {
                *left = true;
                out->seconds = fmin(out->seconds, own);
            }
        }
    }
}

gal_code gal_screened_leave_hopeless(const gal_cell_spec *spec, const gal_block_types *types, double enough_seconds,
                                     gal_screened_prices *prices, gal_left_out *out, gal_error *err)
{
    gal_code code = GAL_OK;
    some o = {.menu = NULL};
    gal_screened_prices *own = floored(spec, types, prices);
    *out = (gal_left_out){.seconds = HUGE_VAL};
    if (own == NULL || enough_seconds == HUGE_VAL) {
        return GAL_OK;
    }
    GAL_TRY(left_out_create(types, own, out, err));
    GAL_TRY(some_create(spec, types, own, &o, err));
    leave_by_tails(&o, 0.0, enough_seconds, out);
    leave_by_tails(&o, 1.0, enough_seconds, out);
cleanup:
    some_free(&o);
    return code;
}

gal_code gal_screened_leave_unlikely(const gal_cell_spec *spec, const gal_block_types *types, double bound,
                                     gal_screened_prices *prices, gal_left_out *out, gal_error *err)
{
    gal_screened_prices *own = floored(spec, types, prices);
    *out = (gal_left_out){.seconds = HUGE_VAL};
    if (own == NULL) {
        return GAL_OK;
    }
    const gal_code code = left_out_create(types, own, out, err);
    out->seconds = bound; /* the other orders are left out too */
    for (uint32_t i = 0; code == GAL_OK && i < own->strategy_count; i++) {
        bool any = false;
        for (uint32_t type = 0; type < types->type_count; type++) {
            any = any || own->priced[(size_t)type * own->strategy_count + i];
        }
        for (uint32_t type = 0; type < types->type_count && !any; type++) {
            out->out[(size_t)type * own->strategy_count + i] = true;
        }
    }
    return code;
}
