#include "planner/bound/relaxed.h"

#include <math.h>
#include <stddef.h>

#include "planner/bound/slope.h"

static const double slack = 1e-9; /* of the limit */

typedef struct menus {
    const gal_relaxed_type *menu;
    uint32_t count;
} menus;

static double lesser(double a, double b) /* fmin, inlined: no NaN comes here */
{
    return b < a ? b : a;
}

static const gal_relaxed_item *cheapest_item(const gal_relaxed_type *menu, double price)
{
    const gal_relaxed_item *best = &menu->item[0];
    double least = best->seconds + price * best->weight;
    for (uint32_t i = 1; i < menu->item_count; i++) {
        const gal_relaxed_item *item = &menu->item[i];
        const double cost = item->seconds + price * item->weight;
        if (cost < least || (cost == least && item->weight < best->weight)) {
            least = cost;
            best = item;
        }
    }
    return best;
}

/* Weights stand for bytes. */
static gal_priced_choice take_cheapest(void *context, double price)
{
    const menus *m = context;
    gal_priced_choice sum = {0.0, 0.0};
    for (uint32_t i = 0; i < m->count; i++) {
        const gal_relaxed_item *item = cheapest_item(&m->menu[i], price);
        sum.seconds += m->menu[i].block_count * item->seconds;
        sum.bytes += m->menu[i].block_count * item->weight;
    }
    return sum;
}

static double least_weight(const gal_relaxed_type *menu, uint32_t menu_count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < menu_count; i++) {
        double least = HUGE_VAL;
        for (uint32_t j = 0; j < menu[i].item_count; j++) {
            least = lesser(least, menu[i].item[j].weight);
        }
        sum += menu[i].block_count * least;
    }
    return sum;
}

/* The stages' weights: so that the quickest items cost the same in each. Returns the weighted limit. */
static double weigh(gal_relaxed_type *menu, uint32_t menu_count, const gal_relaxed_pipeline *pipeline,
                    double *weight_sum, double *last_weight)
{
    double bytes = 1.0;
    double saved = 0.0;
    double limit = 0.0;
    for (uint32_t i = 0; i < menu_count; i++) {
        const gal_relaxed_item *quickest = cheapest_item(&menu[i], 0.0);
        bytes += menu[i].block_count * quickest->bytes;
        saved += menu[i].block_count * quickest->saved_bytes;
        for (uint32_t j = 0; j < menu[i].item_count; j++) {
            menu[i].item[j].weight = HUGE_VAL;
        }
    }
    for (uint32_t p = 0; p < pipeline->stage_count; p++) {
        const double weight = 1.0 / (bytes + pipeline->in_flight[p] * saved);
        limit += weight * pipeline->limit_bytes[p];
        *weight_sum += weight;
        *last_weight = weight;
        for (uint32_t i = 0; i < menu_count; i++) {
            for (uint32_t j = 0; j < menu[i].item_count; j++) {
                gal_relaxed_item *item = &menu[i].item[j];
                item->weight =
                    lesser(item->weight, weight * (item->bytes + pipeline->in_flight[p] * item->saved_bytes));
            }
        }
    }
    return limit;
}

static bool begin(gal_relaxed_type *menu, uint32_t menu_count, double rounds)
{
    for (uint32_t i = 0; i < menu_count; i++) {
        for (uint32_t j = 0; j < menu[i].item_count; j++) {
            gal_relaxed_item *item = &menu[i].item[j];
            item->seconds = rounds * item->round_seconds + item->once_seconds;
            item->weight = 0.0;
        }
        if (menu[i].item_count == 0) {
            return false;
        }
    }
    return true;
}

double gal_relaxed_bound(gal_relaxed_type *menu, uint32_t menu_count, const gal_relaxed_pipeline *pipeline,
                         gal_relaxed_memory *memory)
{
    double weight_sum = 0.0, last_weight = 0.0;
    gal_relaxed_memory unread;
    memory = memory == NULL ? &unread : memory;
    *memory = (gal_relaxed_memory){.spare_bytes = -HUGE_VAL};
    if (!begin(menu, menu_count, pipeline->rounds)) {
        return HUGE_VAL;
    }
    /* a little more: where the smallest items just fit, their rounded sum must not be above it */
    const double exact_limit = weigh(menu, menu_count, pipeline, &weight_sum, &last_weight);
    const double limit = exact_limit + slack * fabs(exact_limit);
    const double least = least_weight(menu, menu_count);
    memory->spare_bytes = (limit - least) / weight_sum;
    if (least > limit) {
        return HUGE_VAL;
    }
    menus all = {menu, menu_count};
    const gal_slope slope = gal_best_slope(take_cheapest, &all, limit);
    const double price = slope.price;
    const double bound = (slope.best.seconds + price * (slope.best.bytes - limit)) * (1.0 - 1e-12);
    memory->byte_seconds = price * last_weight;
    for (uint32_t i = 0; i < menu_count; i++) {
        const gal_relaxed_item *own = cheapest_item(&menu[i], price);
        for (uint32_t j = 0; j < menu[i].item_count; j++) {
            gal_relaxed_item *item = &menu[i].item[j];
            item->reduced_seconds = bound + (item->seconds - own->seconds) + price * (item->weight - own->weight);
        }
    }
    return bound;
}
