#include "planner/solve/menu.h"

#include <stdlib.h>

/* Rows of Eq. 2 before the layer see what it holds, its own row also its backward, rows after it what it keeps: no
 * row, and no path, is worse off with a than with b. */
static bool replaces(const gal_choice *a, const gal_choice *b)
{
    return a->seconds_ps <= b->seconds_ps && a->held_bytes <= b->held_bytes && a->kept_bytes <= b->kept_bytes &&
           a->kept_bytes + a->backward_bytes <= b->kept_bytes + b->backward_bytes;
}

static gal_choice choice_of(const gal_instance *g, uint32_t stage, uint32_t kind, uint32_t strategy, bool is_first,
                            bool is_last)
{
    const size_t cell = (size_t)kind * g->strategy_count + strategy;
    const int64_t held = g->state_bytes[cell] + (int64_t)(g->in_flight[stage] - 1) * g->forward_bytes[cell];
    return (gal_choice){.seconds_ps =
                            g->seconds_ps[cell] + gal_instance_edge_ps(g, stage, kind, strategy, is_first, is_last),
                        .held_bytes = held,
                        .kept_bytes = held + g->forward_bytes[cell],
                        .backward_bytes = g->backward_bytes[cell],
                        .strategy = strategy};
}

/* Appends a choice to those of its class unless one of them replaces it; those that it replaces leave. Returns the
 * new count. */
static uint32_t add_choice(gal_choice *list, uint32_t count, gal_choice added)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (replaces(&list[i], &added)) {
            return count;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!replaces(&added, &list[i])) {
            list[kept++] = list[i];
        }
    }
    list[kept++] = added;
    return kept;
}

static bool any_edge(const gal_instance *g, uint32_t stage, bool is_first)
{
    for (uint32_t k = 0; k < g->kind_count; k++) {
        for (uint32_t s = 0; s < g->strategy_count; s++) {
            if (gal_instance_edge_ps(g, stage, k, s, is_first, !is_first) != 0) {
                return true;
            }
        }
    }
    return false;
}

static void fill(gal_menu *o)
{
    const gal_instance *g = o->instance;
    uint32_t used = 0;
    for (uint32_t kind = 0; kind < g->kind_count; kind++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            const bool is_first = variant >= 2;
            const bool is_last = variant % 2 == 1;
            const bool is_used = (!is_first || o->first_differs) && (!is_last || o->last_differs);
            uint32_t *start = o->start + ((size_t)kind * 4 + variant) * g->class_count;
            for (uint32_t k = 0; k < g->class_count; k++) {
                uint32_t count = 0;
                start[k] = used;
                for (uint32_t s = 0; is_used && s < g->strategy_count; s++) {
                    if (g->class_of[s] == k) {
                        count = add_choice(o->choice + used, count, choice_of(g, o->stage, kind, s, is_first, is_last));
                    }
                }
                used += count;
            }
        }
    }
    o->start[(size_t)g->kind_count * 4 * g->class_count] = used;
}

gal_code gal_menu_create(const gal_instance *g, uint32_t stage, gal_menu **out, gal_error *err)
{
    gal_menu *o = calloc(1, sizeof *o);
    if (o == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    o->instance = g;
    o->stage = stage;
    o->first_differs = any_edge(g, stage, true);
    o->last_differs = any_edge(g, stage, false);
    const size_t variants = (o->first_differs ? 2u : 1u) * (o->last_differs ? 2u : 1u);
    o->start = calloc((size_t)g->kind_count * 4 * g->class_count + 1, sizeof *o->start);
    o->choice = calloc((size_t)g->kind_count * variants * g->strategy_count, sizeof *o->choice);
    if (o->start == NULL || o->choice == NULL) {
        gal_menu_free(o);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    fill(o);
    *out = o;
    return GAL_OK;
}

void gal_menu_free(gal_menu *o)
{
    if (o != NULL) {
        free(o->start);
        free(o->choice);
        free(o);
    }
}
