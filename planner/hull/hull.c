#include "planner/hull/hull.h"

#include <math.h>
#include <stdlib.h>

static int fewer_bytes_first(const void *x, const void *y)
{
    const gal_hull_point *a = x, *b = y;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    if (a->seconds != b->seconds) {
        return a->seconds < b->seconds ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Whether b lies on or above the line from a to c; bytes rise from each to the next. */
static bool is_above(const gal_hull_point *a, const gal_hull_point *b, const gal_hull_point *c)
{
    const double gain_to_b = (a->seconds - b->seconds) * (double)(c->bytes - b->bytes);
    const double gain_behind = (b->seconds - c->seconds) * (double)(b->bytes - a->bytes);
    return gain_to_b <= gain_behind;
}

uint32_t gal_hull_keep(gal_hull_point *point, uint32_t count)
{
    uint32_t kept = 0;
    qsort(point, count, sizeof *point, fewer_bytes_first);
    for (uint32_t i = 0; i < count; i++) {
        const gal_hull_point next = point[i];
        if (kept > 0 && next.seconds >= point[kept - 1].seconds) {
            continue;
        }
        while (kept >= 2 && is_above(&point[kept - 2], &point[kept - 1], &next)) {
            kept--;
        }
        point[kept++] = next;
    }
    return kept;
}

/* What a byte gains on the next step of a part; negative behind its last point. */
static double gain_of(const gal_hull_part *part, const gal_hull_mix *mix)
{
    if (part->layer_count == 0 || mix->low + 1 >= part->point_count) {
        return -1.0;
    }
    const gal_hull_point *from = &part->point[mix->low];
    return (from[0].seconds - from[1].seconds) / (double)(from[1].bytes - from[0].bytes);
}

static uint32_t best_gain(const gal_hull_part *part, uint32_t part_count, const gal_hull_mix *mix, double *gain)
{
    uint32_t best = 0;
    *gain = -1.0;
    for (uint32_t i = 0; i < part_count; i++) {
        const double own = gain_of(&part[i], &mix[i]);
        if (own > *gain) {
            *gain = own;
            best = i;
        }
    }
    return best;
}

gal_hull_fill gal_hull_share(const gal_hull_part *part, uint32_t part_count, int64_t limit_bytes, gal_hull_mix *mix)
{
    gal_hull_fill fill = {0.0, 0.0};
    int64_t left = limit_bytes;
    for (uint32_t i = 0; i < part_count; i++) {
        mix[i] = (gal_hull_mix){0, 0.0};
        left -= part[i].layer_count * part[i].point[0].bytes;
        fill.seconds += part[i].layer_count * part[i].point[0].seconds;
    }
    if (left < 0) {
        return (gal_hull_fill){INFINITY, 0.0};
    }
    for (;;) {
        double gain = 0.0;
        const uint32_t at = best_gain(part, part_count, mix, &gain);
        if (gain < 0.0) {
            return fill;
        }
        const gal_hull_point *from = &part[at].point[mix[at].low];
        const int64_t layer_bytes = from[1].bytes - from[0].bytes;
        const double layers = fmin((double)left / (double)layer_bytes, part[at].layer_count);
        fill.seconds -= layers * (from[0].seconds - from[1].seconds);
        if (layers < part[at].layer_count) {
            mix[at].high_layers = layers;
            fill.seconds_per_byte = gain;
            return fill;
        }
        left -= part[at].layer_count * layer_bytes;
        mix[at].low++;
    }
}
