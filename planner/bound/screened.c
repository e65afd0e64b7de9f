#include "planner/bound/screened.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/relaxed.h"
#include "planner/cell/path.h"

static bool is_end(const gal_block_types *types, uint32_t type)
{
    return types->shape[type].kind == GAL_BLOCK_EMBEDDING || types->shape[type].kind == GAL_BLOCK_HEAD;
}

/* Priced by what two blocks of another type gain beside it (costmodel/price.h). */
static bool is_gained(const gal_block_types *types, uint32_t type)
{
    const gal_block_kind kind = types->shape[type].kind;
    return is_end(types, type) || kind == GAL_BLOCK_BRIDGE || kind == GAL_BLOCK_MERGE;
}

static const gal_screened_item *item_at(const gal_screened *s, uint32_t type, uint32_t strategy)
{
    return &s->item[(size_t)type * s->strategy_count + strategy];
}

/* ---- items ---- */

static void take_least(double *least, double own, bool first)
{
    *least = first || own < *least ? own : *least;
}

static gal_code price_item(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                           const gal_strategy *strategy, gal_screened_item *item, gal_error *err)
{
    const uint32_t last = spec->pp_degree - 1;
    const uint32_t from = type == types->type_of[types->block_count - 1] ? last : 0;
    const uint32_t to = type == types->type_of[0] ? 0 : last; /* the ends of the chain have their stages */
    bool plain_done = false;                                  /* one of the stages that lie as all others do */
    for (uint32_t stage = from; stage <= to; stage++) {
        const bool plain = gal_price_place(spec->durations, spec->device_count / spec->pp_degree, stage) == 0;
        if (plain && plain_done) {
            continue;
        }
        plain_done = plain_done || plain;
        const gal_price_query query = {.type = types->shape[type].type,
                                       .strategy = strategy,
                                       .device_count = spec->device_count / spec->pp_degree,
                                       .stage = stage,
                                       .stage_count = spec->pp_degree,
                                       .microbatch_samples = spec->global_batch_samples / spec->microbatch_count,
                                       .prefetch_depth = spec->prefetch_depth};
        const gal_block_price *price = NULL;
        const gal_code code = gal_price_block(spec->cache, &query, &price, err);
        if (code != GAL_OK) {
            return code;
        }
        const gal_block_bytes *bytes = &price->memory.bytes;
        double update_seconds = price->update_seconds;
        double sync_seconds = price->sync_seconds;
        item->bytes = (double)(bytes->state + bytes->gradient);
        /* another block may pay; for the token table the ends of a chain on their stages do (planner/cell/cell.h) */
        const bool pays = type == types->type_of[0] || (last > 0 && from == last);
        for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
            if (shared == GAL_SHARED_TABLE && pays) {
                continue;
            }
            update_seconds -= price->shared_update_seconds[shared];
            item->bytes -= (double)price->memory.shared_bytes[shared];
        }
        sync_seconds -= pays ? 0.0 : price->table_sync_seconds;
        take_least(&item->forward_seconds, price->forward_seconds, stage == from);
        take_least(&item->backward_seconds, price->backward_seconds, stage == from);
        take_least(&item->tail_seconds, sync_seconds, stage == from);
        take_least(&item->update_seconds, update_seconds, stage == from);
        take_least(&item->enter_seconds, price->enter_seconds, stage == from);
        take_least(&item->leave_seconds, price->leave_seconds, stage == from);
        take_least(&item->enter_tail_seconds, price->tail_seconds, stage == from);
        for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
            take_least(&item->link_share[level], price->link_share[level], stage == from);
        }
        item->saved_bytes = (double)bytes->saved;
        item->work_bytes = (double)bytes->work;
        const gal_shared_bytes turn = gal_cell_shared_of(&price->memory, spec->prefetch_depth);
        item->turn_bytes = (double)gal_shared_sum(&turn);
        item->boundary_bytes = bytes->boundary;
        item->memory = &price->memory;
    }
    return GAL_OK;
}

/* Of a type, once. */
static gal_code price_type(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                           gal_screened_prices *prices, gal_error *err)
{
    for (uint32_t i = 0; i < prices->strategy_count && !prices->priced[type]; i++) {
        gal_screened_item *item = &prices->item[(size_t)type * prices->strategy_count + i];
        if (!item->legal) {
            continue;
        }
        gal_error reason = {0};
        const gal_code code = price_item(spec, types, type, &prices->strategy[i], item, &reason);
        if (code != GAL_OK &&
            code != GAL_ERR_DOCUMENT) { /* that is: a tensor is too large for a program: not to be had */
            return gal_fail(err, code, "%s", reason.text);
        }
        item->legal = code == GAL_OK;
    }
    prices->priced[type] = true;
    return GAL_OK;
}

/* All strategies of a space. */
typedef struct listing {
    uint32_t count;
    gal_strategy *strategy;
    uint32_t *first; /* [strategy] of its orders; itself where all are listed */
    bool *taken;     /* [strategy] a first one that is legal for some type */
    bool *legal;     /* [taken][type] */
} listing;

static void listing_free(listing *l)
{
    free(l->legal);
    free(l->taken);
    free(l->first);
    free(l->strategy);
}

static gal_code listing_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                               listing *l, gal_error *err)
{
    const uint32_t devices = spec->device_count / spec->pp_degree;
    const size_t room = gal_space_room(spec->space, devices);
    *l = (listing){.strategy = malloc(room * sizeof *l->strategy),
                   .first = malloc(room * sizeof *l->first),
                   .taken = malloc(room * sizeof *l->taken),
                   .legal = malloc(room * types->type_count * sizeof *l->legal)};
    if (l->strategy == NULL || l->first == NULL || l->taken == NULL || l->legal == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    l->count = gal_space_strategies(spec->space, devices, l->strategy);
    for (uint32_t i = 0; i < l->count; i++) {
        l->first[i] = i;
    }
    return which == GAL_ALL_ORDERS ? GAL_OK
                                   : gal_orders_number(gal_durations_cluster(spec->durations), devices, l->strategy,
                                                       l->count, l->first, err);
}

/* Takes what is legal for some type. Returns how many. */
static uint32_t take_legal(const gal_cell_spec *spec, const gal_block_types *types, listing *l)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        bool *own = &l->legal[(size_t)count * types->type_count];
        l->taken[i] = false;
        for (uint32_t type = 0; type < types->type_count && l->first[i] == i; type++) {
            own[type] = gal_cell_is_legal(spec, types, type, &l->strategy[i]);
            l->taken[i] = l->taken[i] || own[type];
        }
        count += l->taken[i];
    }
    return count;
}

static void copy_taken(const listing *l, const gal_block_types *types, gal_screened_prices *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->taken[i]) {
            out->strategy[count++] = l->strategy[i];
        }
    }
    for (size_t i = 0; i < (size_t)types->type_count * count; i++) {
        out->item[i].legal = l->legal[i % count * types->type_count + i / count];
    }
}

/* Nothing is priced yet. */
static gal_code prices_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                              gal_screened_prices **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_screened_prices *prices = calloc(1, sizeof *prices);
    listing l = {0};
    GAL_TRY(listing_create(spec, types, which, &l, err));
    if (prices == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    prices->pp_degree = spec->pp_degree;
    prices->samples = spec->global_batch_samples / spec->microbatch_count;
    prices->which = which;
    prices->strategy_count = take_legal(spec, types, &l);
    prices->strategy = malloc((prices->strategy_count + 1) * sizeof *prices->strategy);
    prices->item = calloc((size_t)types->type_count * prices->strategy_count + 1, sizeof *prices->item);
    prices->priced = calloc(types->type_count, sizeof *prices->priced);
    if (prices->strategy == NULL || prices->item == NULL || prices->priced == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    copy_taken(&l, types, prices);
    *out = prices;
    prices = NULL;
cleanup:
    listing_free(&l);
    gal_screened_prices_free(prices);
    return code;
}

void gal_screened_prices_free(gal_screened_prices *prices)
{
    while (prices != NULL) {
        gal_screened_prices *next = prices->next;
        free(prices->priced);
        free(prices->item);
        free(prices->strategy);
        free(prices);
        prices = next;
    }
}

/* Of the cell; those met last are first. */
static gal_code find_prices(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                            gal_screened_prices **list, gal_screened_prices **out, gal_error *err)
{
    const uint32_t samples = spec->global_batch_samples / spec->microbatch_count;
    for (gal_screened_prices *at = *list; at != NULL; at = at->next) {
        if (at->pp_degree == spec->pp_degree && at->samples == samples && at->which == which) {
            *out = at;
            return GAL_OK;
        }
    }
    gal_screened_prices *made = NULL;
    const gal_code code = prices_create(spec, types, which, &made, err);
    if (code == GAL_OK) {
        made->next = *list;
        *list = made;
        *out = made;
    }
    return code;
}

/* ---- under one price of memory ---- */

/* Menus of all types; of_item[type][item]: its strategy. */
typedef struct menus {
    gal_relaxed_type *type;
    gal_relaxed_item *item;
    uint32_t *of_item;
} menus;

static void menus_free(menus *m)
{
    free(m->of_item);
    free(m->item);
    free(m->type);
}

static gal_relaxed_item relaxed_item(const gal_cell_spec *spec, const gal_screened_item *item)
{
    const bool one_stage = spec->pp_degree == 1; /* nothing hides its tail */
    return (gal_relaxed_item){.round_seconds = item->forward_seconds + item->backward_seconds,
                              .once_seconds =
                                  item->update_seconds / spec->pp_degree + (one_stage ? item->tail_seconds : 0.0),
                              .bytes = item->bytes,
                              .saved_bytes = item->saved_bytes,
                              .work_bytes = item->work_bytes};
}

static gal_code menus_create(const gal_screened *s, menus *m, gal_error *err)
{
    const size_t count = (size_t)s->types->type_count * s->strategy_count + 1;
    *m = (menus){calloc(s->types->type_count, sizeof *m->type), calloc(count, sizeof *m->item),
                 calloc(count, sizeof *m->of_item)};
    if (m->type == NULL || m->item == NULL || m->of_item == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        gal_relaxed_type *menu = &m->type[type];
        *menu = (gal_relaxed_type){.block_count = gal_screen_block_count(s->types, type),
                                   .item = m->item + (size_t)type * s->strategy_count};
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            const gal_screened_item *item = item_at(s, type, i);
            if (item->legal) {
                m->of_item[(size_t)type * s->strategy_count + menu->item_count] = i;
                menu->item[menu->item_count++] = relaxed_item(&s->spec, item);
            }
        }
    }
    return GAL_OK;
}

static double least_work(const gal_screened *s, uint32_t type)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        least = item_at(s, type, i)->legal ? fmin(least, item_at(s, type, i)->work_bytes) : least;
    }
    return least < HUGE_VAL ? least : 0.0;
}

static void limit_stages(const gal_screened *s, double *limit_bytes)
{
    gal_screen_limits(&s->spec, least_work(s, s->types->type_of[0]),
                      least_work(s, s->types->type_of[s->types->block_count - 1]), limit_bytes);
}

static double lesser(double a, double b) /* fmin, inlined: no NaN comes here */
{
    return b < a ? b : a;
}

/* What the turns of all stages gain at most at these rates. */
static double gain_of_turns(const gal_screened *s, const gal_rates *rates, uint32_t stage)
{
    double enter = 0.0;
    double leave = 0.0;
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            const gal_screened_item *item = item_at(s, type, i);
            if (item->legal) {
                enter = lesser(enter, rates->forward * item->enter_seconds + rates->tail * item->enter_tail_seconds);
                leave = lesser(leave, rates->backward * item->leave_seconds);
            }
        }
    }
    return (stage > 0 ? enter : 0.0) + (stage + 1 < s->spec.pp_degree ? leave : 0.0);
}

static gal_code bound_by_memory(gal_screened *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t stages = s->spec.pp_degree;
    uint32_t in_flight[GAL_STAGES_MAX];
    double limit_bytes[GAL_STAGES_MAX];
    menus m = {0};
    double gain = 0.0;
    GAL_TRY(menus_create(s, &m, err));
    limit_stages(s, limit_bytes);
    const gal_rates even = {.forward = gal_screen_rounds(&s->spec), .backward = gal_screen_rounds(&s->spec)};
    for (uint32_t p = 0; p < stages; p++) {
        in_flight[p] = gal_screen_in_flight(&s->spec, p);
        gain += gain_of_turns(s, &even, p);
    }
    const gal_relaxed_pipeline pipeline = {stages, even.forward, in_flight, limit_bytes};
    s->bound = gal_relaxed_bound(m.type, s->types->type_count, &pipeline, NULL) + gain;
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        const size_t first = (size_t)type * s->strategy_count;
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            s->reduced_seconds[first + i] = HUGE_VAL;
        }
        for (uint32_t i = 0; i < m.type[type].item_count && s->bound < HUGE_VAL; i++) {
            s->reduced_seconds[first + m.of_item[first + i]] = m.type[type].item[i].reduced_seconds + gain;
        }
    }
cleanup:
    menus_free(&m);
    return code;
}

gal_code gal_screened_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                             gal_screened_prices **prices, gal_screened *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_screened s = {.spec = *spec, .types = types};
    gal_screened_prices *own = NULL;
    GAL_TRY(find_prices(spec, types, which, prices, &own, err));
    for (uint32_t type = 0; type < types->type_count; type++) {
        GAL_TRY(price_type(spec, types, type, own, err));
    }
    s.strategy = own->strategy;
    s.strategy_count = own->strategy_count;
    s.item = own->item;
    s.reduced_seconds = malloc(((size_t)types->type_count * own->strategy_count + 1) * sizeof *s.reduced_seconds);
    if (s.reduced_seconds == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(bound_by_memory(&s, err));
    *out = s;
    s = (gal_screened){0};
cleanup:
    gal_screened_free(&s);
    return code;
}

/* ---- by some types ---- */

/* Of those that are not priced yet the one of most blocks; of equals the first. */
static uint32_t largest_type(const gal_screened_prices *prices, const gal_block_types *types)
{
    uint32_t best = types->type_count;
    uint32_t most = 0;
    for (uint32_t type = 0; type < types->type_count; type++) {
        const uint32_t own = prices->priced[type] ? 0 : gal_screen_block_count(types, type);
        best = own > most ? type : best;
        most = own > most ? own : most;
    }
    return best;
}

static void list_priced(const gal_cell_spec *spec, const gal_screened_prices *prices, uint32_t type,
                        gal_relaxed_type *menu)
{
    for (uint32_t i = 0; i < prices->strategy_count; i++) {
        const gal_screened_item *item = &prices->item[(size_t)type * prices->strategy_count + i];
        if (item->legal) {
            menu->item[menu->item_count++] = relaxed_item(spec, item);
        }
    }
}

static double least_work_of(const gal_relaxed_type *menu)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < menu->item_count; i++) {
        least = lesser(least, menu->item[i].work_bytes);
    }
    return least < HUGE_VAL ? least : 0.0;
}

/* A type that is priced by what others gain, while it is not priced: of its menu the least of all numbers, and no
 * seconds. Its price may be below its kernels, by reductions of its neighbours that these hide: by no more than its
 * backward, as a longer chain takes no less (costmodel/price.h: sync_seconds). */
static void list_gained(const gal_relaxed_type *floors, gal_relaxed_type *menu)
{
    gal_relaxed_item least = {.bytes = HUGE_VAL, .saved_bytes = HUGE_VAL, .work_bytes = HUGE_VAL};
    for (uint32_t i = 0; i < floors->item_count; i++) {
        least.bytes = lesser(least.bytes, floors->item[i].bytes);
        least.saved_bytes = lesser(least.saved_bytes, floors->item[i].saved_bytes);
        least.work_bytes = lesser(least.work_bytes, floors->item[i].work_bytes);
    }
    menu->item_count = floors->item_count > 0 ? 1 : 0;
    menu->item[0] = least;
}

gal_code gal_screened_bound_some(const gal_cell_spec *spec, const gal_block_types *types, gal_screens *screens,
                                 double enough_seconds, gal_screened_prices **prices, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_screened_prices *own = NULL;
    const gal_relaxed_type *floors = NULL;
    gal_relaxed_type *menu = NULL;
    gal_relaxed_item *item = NULL;
    if (spec->pp_degree > 1) {
        return GAL_OK;
    }
    GAL_TRY(find_prices(spec, types, GAL_FIRST_ORDERS, prices, &own, err));
    GAL_TRY(gal_screen_menus(screens, spec, &floors, err));
    menu = malloc(types->type_count * sizeof *menu);
    item = malloc(((size_t)types->type_count * own->strategy_count + 1) * sizeof *item);
    if (menu == NULL || item == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        menu[type] = (gal_relaxed_type){floors[type].block_count, 0, item + (size_t)type * own->strategy_count};
        if (own->priced[type]) {
            list_priced(spec, own, type, &menu[type]);
        } else if (is_gained(types, type) && own->strategy_count > 0) {
            list_gained(&floors[type], &menu[type]);
        } else {
            menu[type] = floors[type];
        }
    }
    for (uint32_t type = largest_type(own, types); type < types->type_count && *bound < enough_seconds;
         type = largest_type(own, types)) {
        const uint32_t in_flight = gal_screen_in_flight(spec, 0);
        double limit_bytes = 0.0;
        GAL_TRY(price_type(spec, types, type, own, err));
        menu[type] = (gal_relaxed_type){floors[type].block_count, 0, item + (size_t)type * own->strategy_count};
        list_priced(spec, own, type, &menu[type]);
        gal_screen_limits(spec, least_work_of(&menu[types->type_of[0]]),
                          least_work_of(&menu[types->type_of[types->block_count - 1]]), &limit_bytes);
        const gal_relaxed_pipeline pipeline = {1, gal_screen_rounds(spec), &in_flight, &limit_bytes};
        *bound = fmax(*bound, gal_relaxed_bound(menu, types->type_count, &pipeline, NULL));
    }
cleanup:
    free(item);
    free(menu);
    return code;
}

void gal_screened_free(gal_screened *screened)
{
    free(screened->reduced_seconds);
    *screened = (gal_screened){0};
}

/* ---- under the weights of a dual ---- */

static double weighted(const gal_rates *r, const gal_screened_item *item, uint32_t in_flight)
{
    return r->forward * item->forward_seconds + r->backward * item->backward_seconds + r->tail * item->tail_seconds +
           r->update * item->update_seconds + r->byte * (item->bytes + in_flight * item->saved_bytes);
}

/* In the stage where it costs least; the ends of the chain have theirs. */
static double cheapest_stage(const gal_screened *s, const gal_rates *rates, uint32_t type,
                             const gal_screened_item *item)
{
    const uint32_t last = s->spec.pp_degree - 1;
    const uint32_t from = type == s->types->type_of[s->types->block_count - 1] ? last : 0;
    const uint32_t to = type == s->types->type_of[0] ? 0 : last;
    double least = HUGE_VAL;
    for (uint32_t p = from; p <= to; p++) {
        least = fmin(least, weighted(&rates[p], item, gal_screen_in_flight(&s->spec, p)));
    }
    return least;
}

void gal_screened_price_out(gal_screened *s, const gal_weights *weights)
{
    gal_rates rates[GAL_STAGES_MAX];
    double limit_bytes[GAL_STAGES_MAX];
    double least[GAL_TYPES_MAX];
    double bound = 0.0;
    limit_stages(s, limit_bytes);
    for (uint32_t p = 0; p < s->spec.pp_degree; p++) {
        rates[p] = gal_rates_of(weights, &s->spec, p);
        bound += gain_of_turns(s, &rates[p], p) - rates[p].byte * limit_bytes[p];
    }
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        least[type] = HUGE_VAL;
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            const gal_screened_item *item = item_at(s, type, i);
            least[type] = item->legal ? fmin(least[type], cheapest_stage(s, rates, type, item)) : least[type];
        }
        bound += gal_screen_block_count(s->types, type) * least[type];
    }
    bound -= 1e-12 * fabs(bound);
    s->bound = fmax(s->bound, bound);
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            const gal_screened_item *item = item_at(s, type, i);
            double *reduced = &s->reduced_seconds[(size_t)type * s->strategy_count + i];
            if (item->legal) {
                *reduced = fmax(*reduced, bound + cheapest_stage(s, rates, type, item) - least[type]);
            }
        }
    }
}

/* ---- what suits a stage ---- */

static void mark_best(const menus *m, const gal_screened *s, uint32_t type, uint32_t most, bool fits, bool *marked)
{
    const gal_relaxed_type *menu = &m->type[type];
    const size_t first = (size_t)type * s->strategy_count;
    double above = -HUGE_VAL;
    for (uint32_t rank = 0; rank < most; rank++) {
        uint32_t best = menu->item_count;
        double least = HUGE_VAL;
        for (uint32_t i = 0; i < menu->item_count; i++) {
            const double own = fits ? menu->item[i].reduced_seconds : menu->item[i].weight;
            if (own < least && (own > above)) {
                least = own;
                best = i;
            }
        }
        if (best == menu->item_count) {
            return;
        }
        above = least;
        marked[first + m->of_item[first + best]] = true;
    }
}

gal_code gal_screened_pick(const gal_screened *s, uint32_t most, bool *marked, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t stages = s->spec.pp_degree;
    double limit_bytes[GAL_STAGES_MAX];
    menus m = {0};
    uint32_t before = 0;
    GAL_TRY(menus_create(s, &m, err));
    limit_stages(s, limit_bytes);
    for (uint32_t p = 0; p < stages; p++) {
        const uint32_t in_flight = gal_screen_in_flight(&s->spec, p);
        const double limit = limit_bytes[p] * stages; /* all blocks in it stand for its share */
        const gal_relaxed_pipeline alone = {1, gal_screen_rounds(&s->spec), &in_flight, &limit};
        if (in_flight == before && p + 1 < stages) {
            continue;
        }
        const bool fits = gal_relaxed_bound(m.type, s->types->type_count, &alone, NULL) < HUGE_VAL;
        for (uint32_t type = 0; type < s->types->type_count; type++) {
            if (!is_end(s->types, type)) {
                mark_best(&m, s, type, most, fits, marked);
            }
        }
        before = in_flight;
    }
cleanup:
    menus_free(&m);
    return code;
}
