/* A bound of a cell of one stage from as few prices as show it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/screened_prices.h"

/* Of reduced seconds: of items that differ by no more any may be the cheapest. */
static const double tie = 1e-9;

typedef struct some {
    gal_screened s;
    gal_screened_prices *prices;
    gal_screen_menus kernels;
    gal_screened_menus menus;
    double byte_seconds; /* that reduced_seconds are by */
    uint32_t *candidate; /* [strategy_count] items that are not priced */
} some;

static gal_item_known known_of(const some *o, uint32_t type, uint32_t item)
{
    const size_t first = (size_t)type * o->s.strategy_count;
    return (gal_item_known)o->prices->known[first + o->menus.of_item[first + item]];
}

/* An item as it is known by now. */
static gal_relaxed_item item_as_known(const some *o, uint32_t type, uint32_t strategy, double tail_weight)
{
    const size_t at = (size_t)type * o->s.strategy_count + strategy;
    const uint32_t split = o->prices->split[strategy];
    if (o->prices->known[at] != GAL_ITEM_KERNELS) {
        return gal_screened_relaxed(&o->s.spec, &o->s.item[at], tail_weight);
    }
    const gal_relaxed_item *kernels =
        split < o->kernels.split_count ? o->kernels.item_of[type * o->kernels.split_count + split] : NULL;
    return kernels != NULL ? *kernels : (gal_relaxed_item){0}; /* not to be had: as is found when more is known of it */
}

/* One step more is known of an item. reduced_seconds are at the same price of memory. */
static gal_code learn(some *o, uint32_t type, uint32_t number, double tail_weight, gal_error *err)
{
    const size_t first = (size_t)type * o->s.strategy_count;
    const uint32_t strategy = o->menus.of_item[first + number];
    gal_relaxed_item *item = &o->menus.type[type].item[number];
    const gal_relaxed_item before = *item;
    const gal_code code = gal_screened_learn(&o->s.spec, o->s.types, type, strategy, o->prices, err);
    if (code == GAL_OK && !o->s.legal[first + strategy]) {
        item->reduced_seconds = HUGE_VAL;
    } else if (code == GAL_OK) {
        const uint32_t in_flight = gal_screen_in_flight(&o->s.spec, 0);
        *item = item_as_known(o, type, strategy, tail_weight);
        item->reduced_seconds =
            before.reduced_seconds + (item->once_seconds - before.once_seconds) +
            gal_screen_rounds(&o->s.spec) * (item->round_seconds - before.round_seconds) +
            o->byte_seconds * (item->bytes - before.bytes + in_flight * (item->saved_bytes - before.saved_bytes));
    }
    return code;
}

/* More is known of items of a type than kernels until the cheapest, at the price of memory that reduced_seconds are of,
 * is one of these. *more: of at least one. */
static gal_code learn_cheapest(some *o, uint32_t type, double tail_weight, bool *more, gal_error *err)
{
    const gal_relaxed_type *menu = &o->menus.type[type];
    double least_known = HUGE_VAL;
    uint32_t cheapest = 0;
    for (uint32_t i = 0; i < menu->item_count; i++) {
        const double own = menu->item[i].reduced_seconds;
        least_known = known_of(o, type, i) != GAL_ITEM_KERNELS ? fmin(least_known, own) : least_known;
        cheapest = own < menu->item[cheapest].reduced_seconds ? i : cheapest;
    }
    for (uint32_t k = 0; k <= menu->item_count && menu->item_count > 0; k++) { /* it first: most others are above it */
        const uint32_t i = k == 0 ? cheapest : k - 1;
        const double *own = &menu->item[i].reduced_seconds;
        if (*own <= least_known && *own < HUGE_VAL && known_of(o, type, i) == GAL_ITEM_KERNELS) {
            const gal_code code = learn(o, type, i, tail_weight, err);
            if (code != GAL_OK) {
                return code;
            }
            least_known = fmin(least_known, *own);
            *more = true;
        }
    }
    return GAL_OK;
}

/* The same of the ends, until what takes the least work memory is one of these: by that bytes are limited. */
static gal_code learn_least_work(some *o, uint32_t type, double tail_weight, bool *more, gal_error *err)
{
    const gal_relaxed_type *menu = &o->menus.type[type];
    const gal_block_types *types = o->s.types;
    const bool counts = type == types->type_of[0] || type == types->type_of[types->block_count - 1];
    while (counts) {
        uint32_t least = menu->item_count;
        for (uint32_t i = 0; i < menu->item_count; i++) {
            const bool possible = menu->item[i].reduced_seconds < HUGE_VAL;
            const double lead =
                least < menu->item_count ? menu->item[least].work_bytes - menu->item[i].work_bytes : 1.0;
            least =
                possible && (lead > 0.0 || (lead == 0.0 && known_of(o, type, least) == GAL_ITEM_KERNELS)) ? i : least;
        }
        if (least == menu->item_count || known_of(o, type, least) != GAL_ITEM_KERNELS) {
            return GAL_OK;
        }
        const gal_code code = learn(o, type, least, tail_weight, err);
        if (code != GAL_OK) {
            return code;
        }
        *more = true;
    }
    return GAL_OK;
}

/* Prices items of a type until one that is priced is the cheapest at the price of memory that reduced_seconds are of,
 * and none that is not is as cheap. *more: more is known of at least one. */
static gal_code price_cheapest(some *o, uint32_t type, bool *more, gal_error *err)
{
    const gal_relaxed_type *menu = &o->menus.type[type];
    double least_priced = HUGE_VAL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < menu->item_count; i++) {
        if (known_of(o, type, i) != GAL_ITEM_PRICE) {
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
        const gal_code code = learn(o, type, next, 0.0, err);
        if (code != GAL_OK) {
            return code;
        }
        if (known_of(o, type, next) == GAL_ITEM_PRICE) {
            o->candidate[best] = o->candidate[--kept];
            least_priced = fmin(least_priced, menu->item[next].reduced_seconds);
        }
        *more = true;
        count = kept;
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

/* At the best price of memory, by what is known. */
static void raise_bound(some *o, double *bound)
{
    const gal_block_types *types = o->s.types;
    const uint32_t in_flight = gal_screen_in_flight(&o->s.spec, 0);
    double limit_bytes = 0.0;
    gal_relaxed_memory memory;
    gal_screen_limits(&o->s.spec, least_work(&o->menus.type[types->type_of[0]]),
                      least_work(&o->menus.type[types->type_of[types->block_count - 1]]), &limit_bytes);
    const gal_relaxed_pipeline pipeline = {1, gal_screen_rounds(&o->s.spec), &in_flight, &limit_bytes};
    *bound = fmax(*bound, gal_relaxed_bound(o->menus.type, types->type_count, &pipeline, &memory));
    o->byte_seconds = memory.byte_seconds;
}

static void list_type(some *o, uint32_t type, double tail_weight)
{
    gal_relaxed_type *menu = &o->menus.type[type];
    const size_t first = (size_t)type * o->s.strategy_count;
    menu->item_count = 0;
    for (uint32_t i = 0; i < o->s.strategy_count; i++) {
        if (o->s.legal[first + i]) {
            o->menus.of_item[first + menu->item_count] = i;
            menu->item[menu->item_count++] = item_as_known(o, type, i, tail_weight);
        }
    }
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

/* All types, with so much of the tail. */
static void raise_by_tails(some *o, double tail_weight, double *bound)
{
    for (uint32_t type = 0; type < o->s.types->type_count; type++) {
        list_type(o, type, tail_weight);
    }
    raise_bound(o, bound);
}

/* By what the cheapest strategies take at least. */
static gal_code raise_by_floors(some *o, double tail_weight, double enough_seconds, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    bool more = true;
    raise_by_tails(o, tail_weight, bound);
    while (more && *bound < enough_seconds) {
        more = false;
        for (uint32_t type = 0; type < o->s.types->type_count; type++) {
            GAL_TRY(learn_cheapest(o, type, tail_weight, &more, err));
            GAL_TRY(learn_least_work(o, type, tail_weight, &more, err));
        }
        if (more) {
            raise_by_tails(o, tail_weight, bound);
        }
    }
cleanup:
    return code;
}

/* By prices of a type. *more: more is known. */
static gal_code raise_by_prices(some *o, uint32_t type, double *bound, bool *more, gal_error *err)
{
    bool learned = false;
    gal_code code = learn_least_work(o, type, 0.0, &learned, err);
    code = code == GAL_OK ? price_cheapest(o, type, &learned, err) : code;
    if (learned) {
        list_type(o, type, 0.0);
        raise_bound(o, bound);
        *more = true;
    }
    return code;
}

static gal_code number_splits(const gal_cell_spec *spec, gal_screens *screens, gal_screened_prices *prices,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    if (prices->split != NULL) {
        return GAL_OK;
    }
    prices->split = malloc(((size_t)prices->strategy_count + 1) * sizeof *prices->split);
    if (prices->split == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t i = 0; i < prices->strategy_count; i++) {
        GAL_TRY(gal_screen_number(screens, spec->device_count / spec->pp_degree, &prices->strategy[i],
                                  &prices->split[i], err));
    }
cleanup:
    return code;
}

/* Freed also if it fails. */
static gal_code some_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                            gal_screened_prices *prices, some *o, gal_error *err)
{
    gal_code code = GAL_OK;
    *o = (some){.s = {.spec = *spec,
                      .types = types,
                      .strategy = prices->strategy,
                      .strategy_count = prices->strategy_count,
                      .legal = prices->legal,
                      .item = prices->item},
                .prices = prices,
                .candidate = malloc(((size_t)prices->strategy_count + 1) * sizeof *o->candidate)};
    if (o->candidate == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    GAL_TRY(gal_screen_menus_of(screens, spec, &o->kernels, err));
    GAL_TRY(number_splits(spec, screens, prices, err));
    GAL_TRY(gal_screened_menus_create(&o->s, &o->menus, err));
cleanup:
    return code;
}

static void some_free(some *o)
{
    free(o->candidate);
    gal_screened_menus_free(&o->menus);
}

gal_code gal_screened_bound_some(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                                 double enough_seconds, gal_screened_prices **prices, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    some o = {.candidate = NULL};
    gal_screened_prices *own = NULL;
    uint32_t order[GAL_TYPES_MAX];
    bool more = spec->pp_degree == 1;
    if (!more) {
        return GAL_OK;
    }
    GAL_TRY(gal_screened_prices_find(spec, types, GAL_FIRST_ORDERS, prices, &own, err));
    GAL_TRY(some_create(spec, types, screens, own, &o, err));
    order_types(types, order);
    GAL_TRY(raise_by_floors(&o, 0.0, enough_seconds, bound, err));
    if (*bound < enough_seconds) { /* a plan has all of the tail: where gradients take long to reduce, that may do */
        GAL_TRY(raise_by_floors(&o, 1.0, enough_seconds, bound, err));
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

/* Those of first orders of the cell, where something was asked for of it; else NULL. */
static gal_screened_prices *asked_for(const gal_cell_spec *spec, gal_screened_prices *prices)
{
    gal_screened_prices *own = gal_screened_prices_of(spec, GAL_FIRST_ORDERS, prices);
    return own != NULL && spec->pp_degree == 1 && own->split != NULL ? own : NULL;
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

/* By what reduced_seconds say at the best price of memory, with so much of the tail; where kernels do not say so, by
 * what strategies take at least. */
static gal_code leave_by_tails(some *o, double tail_weight, double enough_seconds, gal_left_out *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double bound = 0.0;
    raise_by_tails(o, tail_weight, &bound);
    for (uint32_t type = 0; type < o->s.types->type_count && bound < HUGE_VAL; type++) {
        const gal_relaxed_type *menu = &o->menus.type[type];
        const size_t first = (size_t)type * o->s.strategy_count;
        for (uint32_t i = 0; i < menu->item_count; i++) {
            const double *own = &menu->item[i].reduced_seconds;
            bool *left = &out->out[first + o->menus.of_item[first + i]];
            if (!*left && *own < enough_seconds && known_of(o, type, i) == GAL_ITEM_KERNELS) {
                GAL_TRY(learn(o, type, i, tail_weight, err));
            }
            if (!*left && *own >= enough_seconds) {
                *left = true;
                out->seconds = fmin(out->seconds, *own);
            }
        }
    }
cleanup:
    return code;
}

gal_code gal_screened_leave_hopeless(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                                     double enough_seconds, gal_screened_prices *prices, gal_left_out *out,
                                     gal_error *err)
{
    gal_code code = GAL_OK;
    some o = {.candidate = NULL};
    gal_screened_prices *own = asked_for(spec, prices);
    *out = (gal_left_out){.seconds = HUGE_VAL};
    if (own == NULL || enough_seconds == HUGE_VAL) {
        return GAL_OK;
    }
    GAL_TRY(left_out_create(types, own, out, err));
    GAL_TRY(some_create(spec, types, screens, own, &o, err));
    GAL_TRY(leave_by_tails(&o, 0.0, enough_seconds, out, err));
    GAL_TRY(leave_by_tails(&o, 1.0, enough_seconds, out, err));
cleanup:
    some_free(&o);
    return code;
}

gal_code gal_screened_leave_unlikely(const gal_cell_spec *spec, const gal_block_types *types, double bound,
                                     gal_screened_prices *prices, gal_left_out *out, gal_error *err)
{
    gal_screened_prices *own = asked_for(spec, prices);
    *out = (gal_left_out){.seconds = HUGE_VAL};
    if (own == NULL) {
        return GAL_OK;
    }
    const gal_code code = left_out_create(types, own, out, err);
    out->seconds = bound; /* the other orders are left out too */
    for (uint32_t i = 0; code == GAL_OK && i < own->strategy_count; i++) {
        bool any = false;
        for (uint32_t type = 0; type < types->type_count; type++) {
            any = any || own->known[(size_t)type * own->strategy_count + i] == GAL_ITEM_PRICE;
        }
        for (uint32_t type = 0; type < types->type_count && !any; type++) {
            out->out[(size_t)type * own->strategy_count + i] = true;
        }
    }
    return code;
}
