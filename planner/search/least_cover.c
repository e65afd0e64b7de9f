#include "planner/search/least_cover.h"

#include <stdlib.h>

#define NONE UINT32_MAX

/* A sum that may become part of the answer. */
typedef struct partial {
    gal_cover_way sum;
    uint32_t before, way; /* the sum that it goes on from, by what */
} partial;

/* Those of all items behind each other. */
typedef struct list {
    partial *of;
    uint32_t count, room;
} list;

static int compare_costs(const gal_cover_way *a, const gal_cover_way *b)
{
    for (uint32_t c = 0; c < GAL_COVER_COSTS; c++) {
        if (a->cost[c] != b->cost[c]) {
            return a->cost[c] < b->cost[c] ? -1 : 1;
        }
    }
    return 0;
}

static int most_gain_first(const void *x, const void *y)
{
    const partial *a = x, *b = y;
    if (a->sum.gain != b->sum.gain) {
        return a->sum.gain > b->sum.gain ? -1 : 1;
    }
    const int costs = compare_costs(&a->sum, &b->sum);
    if (costs != 0) {
        return costs;
    }
    return a->before != b->before ? (a->before < b->before ? -1 : 1) : (a->way > b->way) - (a->way < b->way);
}

static gal_code make_room(list *l, uint64_t more, gal_error *err)
{
    const uint64_t wanted = l->count + more;
    if (wanted > l->room) {
        partial *grown = realloc(l->of, 2 * wanted * sizeof *grown);
        if (grown == NULL || wanted > NONE / 2) {
            l->of = grown == NULL ? l->of : grown;
            return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        l->of = grown;
        l->room = (uint32_t)(2 * wanted);
    }
    return GAL_OK;
}

static partial follow(const list *l, uint32_t before, const gal_cover_item *item, uint32_t way, uint64_t need)
{
    const gal_cover_way *from = &l->of[before].sum, *by = &item->way[way];
    const uint64_t gain = from->gain + by->gain;
    return (partial){
        .sum = {.gain = gain < need ? gain : need, .cost = {from->cost[0] + by->cost[0], from->cost[1] + by->cost[1]}},
        .before = before,
        .way = way};
}

/* Of the sums from `first` on those that no other beats, most gain first. */
static void keep_best(list *l, uint32_t first)
{
    uint32_t kept = first;
    qsort(&l->of[first], l->count - first, sizeof *l->of, most_gain_first);
    for (uint32_t i = first; i < l->count; i++) {
        if (kept == first || compare_costs(&l->of[i].sum, &l->of[kept - 1].sum) < 0) {
            l->of[kept++] = l->of[i];
        }
    }
    l->count = kept;
}

/* Of those that are close together the one of most gain. */
static void thin(list *l, uint32_t first, uint64_t need)
{
    const uint64_t width = need / GAL_COVER_SUMS_MAX + 1;
    uint32_t kept = first;
    for (uint32_t i = first; l->count - first > GAL_COVER_SUMS_MAX && i < l->count; i++) {
        if (kept == first || l->of[i].sum.gain / width != l->of[kept - 1].sum.gain / width) {
            l->of[kept++] = l->of[i];
        }
    }
    l->count = kept > first ? kept : l->count;
}

gal_code gal_least_cover(const gal_cover_item *item, uint32_t item_count, uint64_t need, uint32_t *chosen,
                         gal_cover_way *sum, bool *covers, gal_error *err)
{
    gal_code code = GAL_OK;
    list all = {0};
    uint32_t first = 0;
    GAL_TRY(make_room(&all, 1, err));
    all.of[all.count++] = (partial){.before = NONE, .way = NONE};
    for (uint32_t i = 0; i < item_count; i++) {
        const uint32_t end = all.count;
        GAL_TRY(make_room(&all, (uint64_t)(end - first) * item[i].way_count, err));
        for (uint32_t before = first; before < end; before++) {
            for (uint32_t way = 0; way < item[i].way_count; way++) {
                all.of[all.count++] = follow(&all, before, &item[i], way, need);
            }
        }
        first = end;
        keep_best(&all, first);
        thin(&all, first, need);
    }
    *covers = all.of[first].sum.gain >= need; /* the first has the most */
    if (*covers) {
        *sum = all.of[first].sum;
        for (uint32_t i = item_count, at = first; i-- > 0; at = all.of[at].before) {
            chosen[i] = all.of[at].way;
        }
    }
cleanup:
    free(all.of);
    return code;
}
