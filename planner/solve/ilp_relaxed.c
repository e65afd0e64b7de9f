#include "planner/solve/ilp_relaxed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of lengths, which are sums of some thousands of terms at most. */
#define ROUNDING 1e-11

static const int64_t *change_into(const gal_instance *g, uint32_t layer)
{
    return g->class_change_ps + (size_t)g->transition[g->kind[layer]] * g->class_count * g->class_count;
}

/* What the relaxed row of its stage sees of a choice. */
static int64_t bytes_of(const gal_instance *g, uint32_t layer, const gal_choice *choice)
{
    return choice->kept_bytes + (layer + 1 == g->layer_count ? choice->backward_bytes : 0);
}

static double length_of(const gal_relaxed *r, uint32_t layer, uint32_t stage, const gal_choice *choice)
{
    return r->weight[stage] * (double)choice->seconds_ps +
           r->byte_price[stage] * (double)bytes_of(r->instance, layer, choice);
}

/* ---- create ---- */

gal_code gal_relaxed_create(const gal_instance *g, gal_relaxed *r, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t hubs = (size_t)g->layer_count * g->stage_count;
    const size_t cells = hubs * g->class_count;
    const size_t edges = cells * g->class_count;
    const size_t choices = hubs * 2 * g->strategy_count;
    *r = (gal_relaxed){.instance = g};
    r->menu = calloc(g->stage_count, sizeof *r->menu);
    r->weight = calloc(g->stage_count, sizeof *r->weight);
    r->byte_price = calloc(g->stage_count, sizeof *r->byte_price);
    double **table[] = {&r->inner, &r->first, &r->ahead, &r->ahead_in, &r->behind};
    bool good = r->menu != NULL && r->weight != NULL && r->byte_price != NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        *table[i] = calloc(cells, sizeof **table[i]);
        good = good && *table[i] != NULL;
    }
    r->enter = calloc(hubs, sizeof *r->enter);
    r->enter_in = calloc(hubs, sizeof *r->enter_in);
    r->edge = calloc(edges, sizeof *r->edge);
    r->entry = calloc(cells, sizeof *r->entry);
    r->exit = calloc(cells, sizeof *r->exit);
    r->choice = calloc(choices, sizeof *r->choice);
    if (!good || r->enter == NULL || r->enter_in == NULL || r->edge == NULL || r->entry == NULL || r->exit == NULL ||
        r->choice == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    memset(r->edge, true, edges);
    memset(r->entry, true, cells);
    memset(r->exit, true, cells);
    memset(r->choice, true, choices);
    for (uint32_t i = 0; i < g->stage_count; i++) {
        GAL_TRY(gal_menu_create(g, i, &r->menu[i], err));
    }
cleanup:
    if (code != GAL_OK) {
        gal_relaxed_free(r);
    }
    return code;
}

void gal_relaxed_free(gal_relaxed *r)
{
    for (uint32_t i = 0; r->menu != NULL && i < r->instance->stage_count; i++) {
        gal_menu_free(r->menu[i]);
    }
    free(r->menu);
    free(r->weight);
    free(r->byte_price);
    free(r->inner);
    free(r->first);
    free(r->ahead);
    free(r->ahead_in);
    free(r->behind);
    free(r->enter);
    free(r->enter_in);
    free(r->edge);
    free(r->entry);
    free(r->exit);
    free(r->choice);
    *r = (gal_relaxed){0};
}

/* ---- lengths ---- */

static double least_choice(const gal_relaxed *r, uint32_t layer, uint32_t stage, uint32_t class, bool is_first)
{
    const uint32_t *start = gal_relaxed_start(r, layer, stage, is_first);
    double least = INFINITY;
    for (uint32_t c = start[class]; c < start[class + 1]; c++) {
        least = fmin(least, length_of(r, layer, stage, &r->menu[stage]->choice[c]));
    }
    return least;
}

/* The least of what comes before a layer as an inner one of its stage. */
static double least_before(const gal_relaxed *r, uint32_t layer, uint32_t stage, uint32_t class)
{
    const gal_instance *g = r->instance;
    double least = INFINITY;
    if (layer == 0 || !gal_relaxed_holds(g, layer - 1, stage)) {
        return least;
    }
    const double *ahead = r->ahead + gal_relaxed_cell(g, layer - 1, stage, 0);
    const int64_t *change = change_into(g, layer);
    for (uint32_t from = 0; from < g->class_count; from++) {
        const double length = ahead[from] + r->weight[stage] * (double)change[(size_t)from * g->class_count + class];
        least = length < least ? length : least;
    }
    return least;
}

static void price_ahead(gal_relaxed *r, uint32_t layer, uint32_t stage)
{
    const gal_instance *g = r->instance;
    const size_t hub = (size_t)layer * g->stage_count + stage;
    r->enter_in[hub] = layer == 0 && stage == 0 ? 0.0 : INFINITY;
    for (uint32_t k = 0; layer > 0 && stage > 0 && gal_relaxed_holds(g, layer - 1, stage - 1) && k < g->class_count;
         k++) {
        r->enter_in[hub] = fmin(r->enter_in[hub], r->ahead[gal_relaxed_cell(g, layer - 1, stage - 1, k)]);
    }
    for (uint32_t k = 0; k < g->class_count; k++) {
        const size_t cell = gal_relaxed_cell(g, layer, stage, k);
        r->inner[cell] = least_choice(r, layer, stage, k, false);
        r->first[cell] = least_choice(r, layer, stage, k, true);
        r->ahead_in[cell] = least_before(r, layer, stage, k);
        r->ahead[cell] = fmin(r->ahead_in[cell] + r->inner[cell], r->enter_in[hub] + r->first[cell]);
    }
}

/* From the end of a stage in a layer on. */
static double after_exit(const gal_relaxed *r, uint32_t layer, uint32_t stage)
{
    const gal_instance *g = r->instance;
    if (layer + 1 == g->layer_count) {
        return stage + 1 == g->stage_count ? 0.0 : INFINITY;
    }
    return stage + 1 < g->stage_count && gal_relaxed_holds(g, layer + 1, stage + 1)
               ? r->enter[(size_t)(layer + 1) * g->stage_count + stage + 1]
               : INFINITY;
}

static void price_behind(gal_relaxed *r, uint32_t layer, uint32_t stage)
{
    const gal_instance *g = r->instance;
    const bool goes_on = layer + 1 < g->layer_count && gal_relaxed_holds(g, layer + 1, stage);
    double *enter = &r->enter[(size_t)layer * g->stage_count + stage];
    *enter = INFINITY;
    for (uint32_t k = 0; k < g->class_count; k++) {
        const size_t cell = gal_relaxed_cell(g, layer, stage, k);
        double least = after_exit(r, layer, stage);
        const size_t next = goes_on ? gal_relaxed_cell(g, layer + 1, stage, 0) : 0;
        const int64_t *change = goes_on ? change_into(g, layer + 1) + (size_t)k * g->class_count : NULL;
        for (uint32_t to = 0; goes_on && to < g->class_count; to++) {
            const double length = r->weight[stage] * (double)change[to] + r->inner[next + to] + r->behind[next + to];
            least = length < least ? length : least;
        }
        r->behind[cell] = least;
        *enter = fmin(*enter, r->first[cell] + least);
    }
}

/* Lengths stand without the budgets: they are taken off at the end. */
static double budgets(const gal_relaxed *r)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < r->instance->stage_count; i++) {
        sum += r->byte_price[i] * (double)r->instance->budget_bytes;
    }
    return sum;
}

void gal_relaxed_price(gal_relaxed *r)
{
    const gal_instance *g = r->instance;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        for (uint32_t i = 0; i < g->stage_count; i++) {
            if (gal_relaxed_holds(g, l, i)) {
                price_ahead(r, l, i);
            }
        }
    }
    for (uint32_t l = g->layer_count; l-- > 0;) {
        for (uint32_t i = 0; i < g->stage_count; i++) {
            if (gal_relaxed_holds(g, l, i)) {
                price_behind(r, l, i);
            }
        }
    }
    r->length_ps = r->enter[0] - budgets(r);
}

/* ---- a path ---- */

static void take_choice(const gal_relaxed *r, uint32_t layer, uint32_t stage, uint32_t class, bool is_first,
                        gal_assignment *out, int64_t *kept_bytes)
{
    const uint32_t *start = gal_relaxed_start(r, layer, stage, is_first);
    const gal_choice *best = &r->menu[stage]->choice[start[class]];
    for (uint32_t c = start[class] + 1; c < start[class + 1]; c++) {
        const gal_choice *at = &r->menu[stage]->choice[c];
        best = length_of(r, layer, stage, at) < length_of(r, layer, stage, best) ? at : best;
    }
    out->strategy[layer] = best->strategy;
    kept_bytes[stage] += bytes_of(r->instance, layer, best);
}

/* The class by which the length from here on is least. */
static uint32_t best_first(const gal_relaxed *r, uint32_t layer, uint32_t stage)
{
    const gal_instance *g = r->instance;
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t k = 0; k < g->class_count; k++) {
        const size_t cell = gal_relaxed_cell(g, layer, stage, k);
        if (r->first[cell] + r->behind[cell] < least) {
            least = r->first[cell] + r->behind[cell];
            best = k;
        }
    }
    return best;
}

static uint32_t best_inner(const gal_relaxed *r, uint32_t layer, uint32_t stage, uint32_t from, double *length)
{
    const gal_instance *g = r->instance;
    uint32_t best = 0;
    *length = INFINITY;
    if (layer == g->layer_count || !gal_relaxed_holds(g, layer, stage)) {
        return best;
    }
    const int64_t *change = change_into(g, layer) + (size_t)from * g->class_count;
    for (uint32_t k = 0; k < g->class_count; k++) {
        const size_t cell = gal_relaxed_cell(g, layer, stage, k);
        const double here = r->weight[stage] * (double)change[k] + r->inner[cell] + r->behind[cell];
        if (here < *length) {
            *length = here;
            best = k;
        }
    }
    return best;
}

void gal_relaxed_path(const gal_relaxed *r, gal_assignment *out, int64_t *kept_bytes)
{
    const gal_instance *g = r->instance;
    uint32_t stage = 0;
    uint32_t class = best_first(r, 0, 0);
    memset(kept_bytes, 0, g->stage_count * sizeof *kept_bytes);
    out->stage_first[0] = 0;
    take_choice(r, 0, 0, class, true, out, kept_bytes);
    for (uint32_t l = 1; l < g->layer_count; l++) {
        double length;
        const uint32_t inner = best_inner(r, l, stage, class, &length);
        const bool is_first = after_exit(r, l - 1, stage) < length;
        if (is_first) {
            stage++;
            out->stage_first[stage] = l;
        }
        class = is_first ? best_first(r, l, stage) : inner;
        take_choice(r, l, stage, class, is_first, out, kept_bytes);
    }
}

/* ---- leaving out ---- */

static void leave_out_of(gal_relaxed *r, uint32_t layer, uint32_t stage, double most)
{
    const gal_instance *g = r->instance;
    const double weight = r->weight[stage];
    const bool is_inner = layer > 0 && gal_relaxed_holds(g, layer - 1, stage);
    const double enter = r->enter_in[(size_t)layer * g->stage_count + stage];
    for (uint32_t k = 0; k < g->class_count; k++) {
        const size_t cell = gal_relaxed_cell(g, layer, stage, k);
        r->entry[cell] = r->entry[cell] && enter + r->first[cell] + r->behind[cell] <= most;
        r->exit[cell] = r->exit[cell] && r->ahead[cell] + after_exit(r, layer, stage) <= most;
        for (uint32_t from = 0; is_inner && from < g->class_count; from++) {
            bool *edge = &r->edge[gal_relaxed_cell(g, layer, stage, from) * g->class_count + k];
            const double change = (double)change_into(g, layer)[(size_t)from * g->class_count + k];
            *edge = *edge && r->ahead[gal_relaxed_cell(g, layer - 1, stage, from)] + weight * change + r->inner[cell] +
                                     r->behind[cell] <=
                                 most;
        }
        for (uint32_t is_first = 0; is_first < 2; is_first++) {
            const uint32_t *start = gal_relaxed_start(r, layer, stage, is_first);
            const double before = is_first ? enter : r->ahead_in[cell];
            for (uint32_t c = start[k]; c < start[k + 1]; c++) {
                const gal_choice *at = &r->menu[stage]->choice[c];
                bool *choice = &r->choice[gal_relaxed_choice(g, layer, stage, is_first, at->strategy)];
                *choice = *choice && before + length_of(r, layer, stage, at) + r->behind[cell] <= most;
            }
        }
    }
}

void gal_relaxed_leave_out(gal_relaxed *r, int64_t best_ps)
{
    const gal_instance *g = r->instance;
    const double most = (double)best_ps + budgets(r);
    for (uint32_t l = 0; l < g->layer_count; l++) {
        for (uint32_t i = 0; i < g->stage_count; i++) {
            if (gal_relaxed_holds(g, l, i)) {
                leave_out_of(r, l, i, most * (1.0 + ROUNDING) + 1.0);
            }
        }
    }
}
