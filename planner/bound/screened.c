#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/screened_prices.h"

static bool is_end(const gal_block_types *types, uint32_t type)
{
    return types->shape[type].kind == GAL_BLOCK_EMBEDDING || types->shape[type].kind == GAL_BLOCK_HEAD;
}

/* NULL: it is not legal. */
static const gal_screened_item *item_at(const gal_screened *s, uint32_t type, uint32_t strategy)
{
    const size_t at = (size_t)type * s->strategy_count + strategy;
    return s->legal[at] ? &s->item[at] : NULL;
}

/* ---- under one price of memory ---- */

void gal_screened_menus_free(gal_screened_menus *menus)
{
    free(menus->of_item);
    free(menus->item);
    free(menus->type);
}

gal_relaxed_item gal_screened_relaxed(const gal_cell_spec *spec, const gal_screened_item *item, double tail_weight)
{
    return (gal_relaxed_item){.round_seconds = item->forward_seconds + item->backward_seconds,
                              .once_seconds = item->update_seconds / spec->pp_degree + tail_weight * item->tail_seconds,
                              .bytes = item->bytes,
                              .saved_bytes = item->saved_bytes,
                              .work_bytes = item->work_bytes};
}

static void list_type(const gal_screened *s, uint32_t type, gal_screened_menus *menus)
{
    gal_relaxed_type *menu = &menus->type[type];
    menu->item_count = 0;
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        const gal_screened_item *item = item_at(s, type, i);
        if (item != NULL) {
            menus->of_item[(size_t)type * s->strategy_count + menu->item_count] = i;
            menu->item[menu->item_count++] = gal_screened_relaxed(&s->spec, item, 0.0);
        }
    }
}

gal_code gal_screened_menus_create(const gal_screened *s, gal_screened_menus *out, gal_error *err)
{
    const size_t count = (size_t)s->types->type_count * s->strategy_count + 1;
    *out = (gal_screened_menus){calloc(s->types->type_count, sizeof *out->type), malloc(count * sizeof *out->item),
                                malloc(count * sizeof *out->of_item)};
    if (out->type == NULL || out->item == NULL || out->of_item == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        out->type[type] = (gal_relaxed_type){.block_count = gal_screen_block_count(s->types, type),
                                             .item = out->item + (size_t)type * s->strategy_count};
    }
    return GAL_OK;
}

static gal_code list_all(const gal_screened *s, gal_screened_menus *out, gal_error *err)
{
    const gal_code code = gal_screened_menus_create(s, out, err);
    for (uint32_t type = 0; type < s->types->type_count && code == GAL_OK; type++) {
        list_type(s, type, out);
    }
    return code;
}

static double least_work(const gal_screened *s, uint32_t type)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        const gal_screened_item *item = item_at(s, type, i);
        least = item != NULL ? fmin(least, item->work_bytes) : least;
    }
    return least < HUGE_VAL ? least : 0.0;
}

/* limit_bytes[stage], as gal_screen_limits has them with the least work of the ends. */
static void find_limits(const gal_screened *s, double *limit_bytes)
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
            if (item != NULL) {
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
    gal_screened_menus m = {0};
    double gain = 0.0;
    GAL_TRY(list_all(s, &m, err));
    find_limits(s, limit_bytes);
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
    gal_screened_menus_free(&m);
    return code;
}

gal_code gal_screened_price(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                            const gal_left_out *left, gal_screened_prices **prices, gal_error *err)
{
    gal_screened_prices *own = NULL;
    const gal_code code = gal_screened_prices_find(spec, types, which, prices, &own, err);
    return code == GAL_OK ? gal_screened_price_types(spec, types, left, own, err) : code;
}

gal_code gal_screened_create(const gal_cell_spec *spec, const gal_block_types *types, gal_screened_orders which,
                             const gal_left_out *left, gal_screened_prices **prices, gal_screened *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_screened s = {.spec = *spec, .types = types, .rest_seconds = left == NULL ? HUGE_VAL : left->seconds};
    gal_screened_prices *own = NULL;
    GAL_TRY(gal_screened_prices_find(spec, types, which, prices, &own, err));
    GAL_TRY(gal_screened_price_types(spec, types, left, own, err));
    const size_t room = (size_t)types->type_count * own->strategy_count + 1;
    s.strategy = own->strategy;
    s.strategy_count = own->strategy_count;
    s.item = own->item;
    s.legal = malloc(room * sizeof *s.legal);
    s.reduced_seconds = malloc(room * sizeof *s.reduced_seconds);
    if (s.legal == NULL || s.reduced_seconds == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        for (uint32_t i = 0; i < own->strategy_count; i++) {
            const size_t at = (size_t)type * own->strategy_count + i;
            s.legal[at] = own->legal[at] && !gal_is_left_out(left, own, type, i);
        }
    }
    GAL_TRY(bound_by_memory(&s, err));
    *out = s;
    s = (gal_screened){0};
cleanup:
    gal_screened_free(&s);
    return code;
}

void gal_screened_free(gal_screened *screened)
{
    free(screened->reduced_seconds);
    free(screened->legal);
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
    find_limits(s, limit_bytes);
    for (uint32_t p = 0; p < s->spec.pp_degree; p++) {
        rates[p] = gal_rates_of(weights, &s->spec, p);
        bound += gain_of_turns(s, &rates[p], p) - rates[p].byte * limit_bytes[p];
    }
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        least[type] = HUGE_VAL;
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            const gal_screened_item *item = item_at(s, type, i);
            least[type] = item != NULL ? fmin(least[type], cheapest_stage(s, rates, type, item)) : least[type];
        }
        bound += gal_screen_block_count(s->types, type) * least[type];
    }
    bound -= 1e-12 * fabs(bound);
    s->bound = fmax(s->bound, bound);
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        for (uint32_t i = 0; i < s->strategy_count; i++) {
            const gal_screened_item *item = item_at(s, type, i);
            double *reduced = &s->reduced_seconds[(size_t)type * s->strategy_count + i];
            if (item != NULL) {
                *reduced = fmax(*reduced, bound + cheapest_stage(s, rates, type, item) - least[type]);
            }
        }
    }
}

/* ---- what suits a stage ---- */

static void mark_best(const gal_screened_menus *m, const gal_screened *s, uint32_t type, uint32_t most, bool fits,
                      bool *marked)
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
    gal_screened_menus m = {0};
    uint32_t before = 0;
    GAL_TRY(list_all(s, &m, err));
    find_limits(s, limit_bytes);
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
    gal_screened_menus_free(&m);
    return code;
}
