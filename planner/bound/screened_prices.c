#include "planner/bound/screened_prices.h"

#include <math.h>
#include <stdlib.h>

/* ---- items ---- */

static void take_least(double *least, double own, bool first)
{
    *least = first || own < *least ? own : *least;
}

static void take_least_pass(gal_pass_seconds *least, const gal_pass_seconds *own, bool first)
{
    take_least(&least->forward_seconds, own->forward_seconds, first);
    take_least(&least->backward_seconds, own->backward_seconds, first);
}

/* Of one more stage, or of the first. */
static void take_price(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                       const gal_strategy *strategy, const gal_block_price *price, bool first, gal_screened_item *item)
{
    const bool has_stage = type == types->type_of[types->block_count - 1] && spec->pp_degree > 1;
    const gal_block_bytes *bytes = &price->memory->bytes;
    double update_seconds =
        price->update_seconds + gal_price_once(price, spec->pp_degree); /* once: of one stage, as the update */
    double sync_seconds = price->lag_seconds;
    item->bytes = (double)(bytes->state + bytes->gradient);
    /* another block may pay; for the token table the ends of a chain on their stages do (planner/cell/cell.h) */
    const bool pays = type == types->type_of[0] || has_stage;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        if (shared == GAL_SHARED_TABLE && pays) {
            continue;
        }
        update_seconds -= price->shared_update_seconds[shared];
        item->bytes -= (double)price->memory->shared_bytes[shared];
    }
    sync_seconds -= pays ? 0.0 : price->table_sync_seconds;
    take_least(&item->forward_seconds, gal_price_least_forward(price), first);
    take_least(&item->backward_seconds, gal_price_least_backward(price), first);
    take_least_pass(&item->hidden_before, &price->hidden_before, first);
    take_least_pass(&item->hidden_behind, &price->hidden_behind, first);
    take_least(&item->tail_seconds, sync_seconds, first);
    take_least(&item->update_seconds, update_seconds, first);
    take_least(&item->enter_seconds, price->enter_seconds, first);
    take_least(&item->leave_seconds, price->leave_seconds, first);
    take_least(&item->enter_tail_seconds, price->tail_seconds, first);
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        take_least(&item->link_share[level], price->link_share[level], first);
    }
    item->saved_bytes = (double)bytes->saved;
    item->work_bytes = (double)bytes->work;
    const gal_shared_bytes turn =
        gal_cell_shared_of(price->memory, spec->prefetch_depth, gal_cell_work_sides(spec->space, types, type));
    item->turn_bytes = (double)gal_shared_sum(&turn);
    item->boundary_bytes = bytes->boundary;
    item->memory = price->memory;
    item->gathers = gal_price_gathers(strategy);
}

static gal_price_query query_of(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                                const gal_strategy *strategy, uint32_t stage)
{
    return (gal_price_query){.type = types->shape[type].type,
                             .strategy = strategy,
                             .device_count = spec->device_count / spec->pp_degree,
                             .stage = stage,
                             .stage_count = spec->pp_degree,
                             .microbatch_samples = spec->global_batch_samples / spec->microbatch_count,
                             .prefetch_depth = spec->prefetch_depth};
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
        const gal_price_query query = query_of(spec, types, type, strategy, stage);
        const gal_block_price *price = NULL;
        const gal_code code = gal_price_block(spec->cache, &query, &price, err);
        if (code != GAL_OK) {
            return code;
        }
        take_price(spec, types, type, strategy, price, stage == from, item);
    }
    return GAL_OK;
}

static gal_code floor_item(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                           const gal_strategy *strategy, gal_screened_item *item, gal_error *err)
{
    const gal_block_price *price = NULL;
    const gal_price_query query = query_of(spec, types, type, strategy, 0);
    const gal_code code = gal_price_block_floor(spec->cache, &query, &price, err);
    if (code == GAL_OK) {
        take_price(spec, types, type, strategy, price, true, item);
    }
    return code;
}

static gal_code settle(gal_code code, const gal_error *reason, bool *legal, gal_error *err)
{
    if (code != GAL_OK && !gal_is_too_large(code)) {
        return gal_fail(err, code, "%s", reason->text);
    }
    *legal = code == GAL_OK;
    return GAL_OK;
}

gal_code gal_screened_price_item(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                                 uint32_t strategy, gal_screened_prices *prices, gal_error *err)
{
    gal_error reason = {0};
    const size_t at = (size_t)type * prices->strategy_count + strategy;
    const gal_code code = price_item(spec, types, type, &prices->strategy[strategy], &prices->item[at], &reason);
    prices->known[at] = GAL_ITEM_PRICE;
    return settle(code, &reason, &prices->legal[at], err);
}

/* What is asked for of all items. */
typedef struct pricing {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    gal_screened_prices *prices;
    const gal_left_out *left;
} pricing;

/* By this part of the prices. */
static bool is_asked(const pricing *p, uint32_t type, uint32_t strategy, uint32_t part)
{
    const size_t at = (size_t)type * p->prices->strategy_count + strategy;
    return p->prices->part[strategy] == part && p->prices->legal[at] && /* of another part they may be written */
           p->prices->known[at] != GAL_ITEM_PRICE && !gal_is_left_out(p->left, p->prices, type, strategy);
}

static gal_code price_part(void *context, uint32_t part, gal_error *err)
{
    const pricing *p = context;
    for (uint32_t type = 0; type < p->types->type_count; type++) {
        for (uint32_t i = 0; i < p->prices->strategy_count; i++) {
            const gal_code code = is_asked(p, type, i, part)
                                      ? gal_screened_price_item(p->spec, p->types, type, i, p->prices, err)
                                      : GAL_OK;
            if (code != GAL_OK) {
                return code;
            }
        }
    }
    return GAL_OK;
}

gal_code gal_screened_price_types(const gal_cell_spec *spec, const gal_block_types *types, const gal_left_out *left,
                                  gal_screened_prices *prices, gal_error *err)
{
    pricing p = {spec, types, prices, left};
    return gal_price_in_parts(spec->cache, price_part, &p, err);
}

static bool is_inside(const gal_block_types *types, uint32_t type)
{
    return type != types->type_of[0] && type != types->type_of[types->block_count - 1];
}

/* What a type that costs alike takes at least, if that is known and the item, which is of no end of the chain, the
 * same. */
static const gal_screened_item *floor_alike(const gal_block_types *types, uint32_t type, uint32_t strategy,
                                            const gal_screened_prices *prices)
{
    const uint32_t like = types->type_like[type];
    const size_t at = (size_t)like * prices->strategy_count + strategy;
    const bool inside = is_inside(types, type) && is_inside(types, like);
    const bool known = like != type && prices->legal[at] && prices->known[at] == GAL_ITEM_FLOOR;
    return inside && known ? &prices->item[at] : NULL;
}

gal_code gal_screened_learn(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type, uint32_t strategy,
                            gal_screened_prices *prices, gal_error *err)
{
    gal_error reason = {0};
    const size_t at = (size_t)type * prices->strategy_count + strategy;
    const gal_screened_item *alike = floor_alike(types, type, strategy, prices);
    if (prices->known[at] == GAL_ITEM_FLOOR) {
        return gal_screened_price_item(spec, types, type, strategy, prices, err);
    }
    prices->known[at] = GAL_ITEM_FLOOR;
    if (alike != NULL) {
        prices->item[at] = *alike;
        return GAL_OK;
    }
    const gal_code code = floor_item(spec, types, type, &prices->strategy[strategy], &prices->item[at], &reason);
    return settle(code, &reason, &prices->legal[at], err);
}

/* ---- of all cells of equal stages and samples ---- */

/* All strategies of a space. */
typedef struct listing {
    uint32_t count;
    gal_strategy *strategy;
    uint32_t *first;  /* [strategy] of its orders */
    uint32_t *number; /* [strategy] how many first ones are taken before it */
    gal_screened_orders which;
    bool *taken; /* [strategy] of those that are legal for some type */
    bool *legal; /* [strategy][type] */
} listing;

static void listing_free(listing *l)
{
    free(l->legal);
    free(l->taken);
    free(l->number);
    free(l->first);
    free(l->strategy);
}

static bool is_moved(const gal_plan *plan, const gal_strategy *strategy)
{
    const gal_strategy on_device = gal_strategy_on_device(strategy);
    bool found = plan == NULL;
    for (uint32_t run = 0; !found && run < plan->run_count; run++) {
        found = gal_strategy_equal(&plan->run[run].strategy, &on_device);
    }
    return found;
}

static void keep_moved(const gal_cell_spec *spec, listing *l)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (is_moved(spec->moving, &l->strategy[i])) {
            l->strategy[kept++] = l->strategy[i];
        }
    }
    l->count = kept;
}

static gal_code listing_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                               listing *l, gal_error *err)
{
    const uint32_t devices = spec->device_count / spec->pp_degree;
    const size_t room = gal_space_room(spec->space, devices);
    *l = (listing){.which = which,
                   .strategy = malloc(room * sizeof *l->strategy),
                   .first = malloc(room * sizeof *l->first),
                   .number = malloc(room * sizeof *l->number),
                   .taken = malloc(room * sizeof *l->taken),
                   .legal = malloc(room * types->type_count * sizeof *l->legal)};
    if (l->strategy == NULL || l->first == NULL || l->number == NULL || l->taken == NULL || l->legal == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    l->count = gal_space_strategies(spec->space, devices, l->strategy);
    keep_moved(spec, l);
    return gal_orders_number(gal_durations_cluster(spec->durations), devices, l->strategy, l->count, l->first, err);
}

enum { RULE_TASKS = 8 }; /* for as many threads at most */

typedef struct rules {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    listing *l;
} rules;

/* Of some strategies, whether they are legal. */
static gal_code ask_rules(void *context, uint32_t task, gal_error *err)
{
    const rules *r = context;
    const uint32_t types = r->types->type_count;
    const uint32_t from = (uint32_t)((uint64_t)r->l->count * task / RULE_TASKS);
    const uint32_t to = (uint32_t)((uint64_t)r->l->count * (task + 1) / RULE_TASKS);
    (void)err;
    for (uint32_t i = from; i < to; i++) {
        bool *own = &r->l->legal[(size_t)i * types];
        const bool listed = r->l->which == GAL_ALL_ORDERS || r->l->first[i] == i;
        const bool any = listed && gal_cell_may_take(r->spec, &r->l->strategy[i]);
        r->l->taken[i] = false;
        for (uint32_t type = 0; type < types && any; type++) {
            own[type] = gal_cell_may_take_for(r->spec, r->types, type, &r->l->strategy[i]);
            r->l->taken[i] = r->l->taken[i] || own[type];
        }
    }
    return GAL_OK;
}

/* Takes what is legal for some type. */
static gal_code take_legal(const gal_cell_spec *spec, const gal_block_types *types, listing *l, uint32_t *taken_count,
                           gal_error *err)
{
    rules r = {spec, types, l};
    const gal_code code = gal_price_at_once(spec->cache, RULE_TASKS, ask_rules, &r, err);
    *taken_count = 0;
    for (uint32_t i = 0; code == GAL_OK && i < l->count; i++) {
        *taken_count += l->taken[i];
    }
    return code;
}

static void copy_taken(const gal_cell_spec *spec, const listing *l, const gal_block_types *types,
                       gal_screened_prices *out)
{
    uint32_t count = 0;
    uint32_t firsts = 0;
    for (uint32_t i = 0; i < l->count; i++) { /* first orders are legal where any is */
        l->number[i] = firsts;
        firsts += l->taken[i] && l->first[i] == i;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->taken[i]) {
            GAL_ASSERT(l->taken[l->first[i]]);
            out->strategy[count] = l->strategy[i];
            out->first[count] = l->number[l->first[i]];
            out->part[count] = (uint8_t)gal_price_part_of(spec->cache, &l->strategy[i]);
            for (uint32_t type = 0; type < types->type_count; type++) {
                out->legal[(size_t)type * out->strategy_count + count] = l->legal[(size_t)i * types->type_count + type];
            }
            count++;
        }
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
    GAL_TRY(take_legal(spec, types, &l, &prices->strategy_count, err));
    prices->strategy = malloc((prices->strategy_count + 1) * sizeof *prices->strategy);
    const size_t room = (size_t)types->type_count * prices->strategy_count + 1;
    prices->legal = malloc(room * sizeof *prices->legal);
    prices->known = calloc(room, sizeof *prices->known);
    prices->item = malloc(room * sizeof *prices->item);
    prices->part = malloc((prices->strategy_count + 1) * sizeof *prices->part);
    prices->first = malloc((prices->strategy_count + 1) * sizeof *prices->first);
    if (prices->strategy == NULL || prices->legal == NULL || prices->known == NULL || prices->item == NULL ||
        prices->part == NULL || prices->first == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    copy_taken(spec, &l, types, prices);
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
        free(prices->first);
        free(prices->split);
        free(prices->part);
        free(prices->item);
        free(prices->known);
        free(prices->legal);
        free(prices->strategy);
        free(prices);
        prices = next;
    }
}

/* The link to those of such cells; to NULL: the list has none. */
static gal_screened_prices **link_to(uint32_t pp_degree, uint32_t samples, gal_screened_orders which,
                                     gal_screened_prices **list)
{
    gal_screened_prices **at = list;
    while (*at != NULL && !((*at)->pp_degree == pp_degree && (*at)->samples == samples && (*at)->which == which)) {
        at = &(*at)->next;
    }
    return at;
}

bool gal_screened_prices_listed(uint32_t pp_degree, uint32_t samples, gal_screened_orders which,
                                const gal_screened_prices *list)
{
    gal_screened_prices *first = (gal_screened_prices *)list; /* nothing of it is changed */
    return *link_to(pp_degree, samples, which, &first) != NULL;
}

void gal_screened_prices_drop(uint32_t pp_degree, uint32_t samples, gal_screened_orders which,
                              gal_screened_prices **list)
{
    gal_screened_prices **at = link_to(pp_degree, samples, which, list), *own = *at;
    if (own != NULL) {
        *at = own->next;
        own->next = NULL;
        gal_screened_prices_free(own);
    }
}

gal_screened_prices *gal_screened_prices_of(const gal_cell_spec *spec, gal_screened_orders which,
                                            gal_screened_prices *list)
{
    return *link_to(spec->pp_degree, spec->global_batch_samples / spec->microbatch_count, which, &list);
}

/* Those met last are first. */
gal_code gal_screened_prices_find(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                                  gal_screened_prices **list, gal_screened_prices **out, gal_error *err)
{
    const uint32_t samples = spec->global_batch_samples / spec->microbatch_count;
    *out = *link_to(spec->pp_degree, samples, which, list);
    if (*out != NULL) {
        return GAL_OK;
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
