#include "planner/bound/mixture_ways.h"

#include <math.h>

enum { HOPES = 32 }; /* that one look at all ways keeps */

/* Ways whose conversions are not known: those that would be least at no cost, the least first, of equals the one met
 * first. */
typedef struct hopes {
    uint32_t count;
    gal_mix_way way[HOPES];
} hopes;

gal_mix_way gal_mix_cheapest_apart(const gal_mix_stage *stage, const double *from, const double *to)
{
    gal_mix_way best = {0, 0, 0.0, HUGE_VAL};
    for (uint32_t class = 1; class < stage->class_count; class ++) {
        best.from = from[class] < from[best.from] ? class : best.from;
        best.to = to[class] < to[best.to] ? class : best.to;
    }
    best.cost = from[best.from] + to[best.to];
    return best;
}

/* Where nothing is converted. */
static gal_mix_way cheapest_alike(const gal_mix_stage *stage, const double *from, const double *to)
{
    gal_mix_way best = {0, 0, 0.0, HUGE_VAL};
    for (uint32_t class = 0; class < stage->class_count; class ++) {
        if (from[class] + to[class] < best.cost) {
            best = (gal_mix_way){class, class, 0.0, from[class] + to[class]};
        }
    }
    return best;
}

static void add_hope(hopes *h, uint32_t from, uint32_t to, double apart)
{
    if (h->count == HOPES && apart >= h->way[HOPES - 1].cost) {
        return;
    }
    uint32_t at = h->count < HOPES ? h->count++ : HOPES - 1;
    for (; at > 0 && apart < h->way[at - 1].cost; at--) {
        h->way[at] = h->way[at - 1];
    }
    h->way[at] = (gal_mix_way){from, to, 0.0, apart};
}

/* The classes that may be on a way below the best, the other block at its least. Returns how many. */
static uint32_t list_open(const double *cost, double least_other, double best, uint32_t classes, uint32_t *out)
{
    uint32_t count = 0;
    for (uint32_t class = 0; class < classes; class ++) {
        if (cost[class] + least_other < best) {
            out[count++] = class;
        }
    }
    return count;
}

/* Improves best by conversions that are known; h: of the others. */
static void improve(const gal_mix_stage *stage, uint32_t pair, const double *from, const double *to, uint32_t *room,
                    gal_mix_way *best, hopes *h)
{
    const uint32_t classes = stage->class_count;
    const gal_mix_way apart = gal_mix_cheapest_apart(stage, from, to);
    uint32_t *const open_to = room + classes;
    const uint32_t froms = list_open(from, to[apart.to], best->cost, classes, room);
    const uint32_t tos = list_open(to, from[apart.from], best->cost, classes, open_to);
    h->count = 0;
    for (uint32_t i = 0; i < froms; i++) {
        const uint32_t a = room[i];
        for (uint32_t k = 0; k < tos && from[a] + to[apart.to] < best->cost; k++) {
            const uint32_t b = open_to[k];
            const double cost = from[a] + to[b];
            if (a == b || cost >= best->cost) {
                continue;
            }
            const double conversion = gal_mix_known(stage, pair, a, b);
            if (cost + conversion < best->cost) {
                *best = (gal_mix_way){a, b, conversion, cost + conversion};
            } else if (isnan(conversion)) {
                add_hope(h, a, b, cost);
            }
        }
    }
}

/* Asks for what is hoped for, the least first, as long as it may be below the best; true: there may be more. */
static bool ask_hopes(const gal_mix_stage *stage, uint32_t pair, const hopes *h, gal_mix_way *best)
{
    uint32_t i = 0;
    for (; i < h->count && h->way[i].cost < best->cost; i++) {
        gal_mix_way own = h->way[i];
        own.conversion = gal_mix_ask(stage, pair, own.from, own.to);
        own.cost += own.conversion;
        *best = own.cost < best->cost ? own : *best;
    }
    return i == HOPES;
}

gal_mix_way gal_mix_cheapest_way(const gal_mix_stage *stage, uint32_t pair, const double *from, const double *to,
                                 uint32_t *room)
{
    gal_mix_way best = cheapest_alike(stage, from, to);
    hopes h;
    do {
        improve(stage, pair, from, to, room, &best, &h);
    } while (ask_hopes(stage, pair, &h, &best));
    return best;
}
