/* A choice of items by greed: from the smallest ones on whatever gains most seconds per byte, which is the best there
 * is as long as blocks can be divided; then single blocks as long as they fit. */
#include <math.h>
#include <string.h>

#include "planner/bound/mixture.h"

typedef struct filler {
    const gal_mix_group *group;
    uint32_t group_count;
    double top_bytes, spare_bytes;
    gal_mix_sum sum;
} filler;

static bool may_take(const filler *f, const gal_mix_item *item)
{
    return item->turn_bytes <= f->top_bytes;
}

static void move(filler *f, const gal_mix_group *group, uint32_t from, uint32_t to, uint32_t blocks)
{
    const double bytes = blocks * (group->item[to].bytes - group->item[from].bytes);
    group->taken[from] -= blocks;
    group->taken[to] += blocks;
    f->sum.seconds += blocks * (group->item[to].seconds - group->item[from].seconds);
    f->sum.bytes += bytes;
    f->spare_bytes -= bytes;
}

static bool is_smaller(const gal_mix_item *a, const gal_mix_item *b)
{
    return a->bytes < b->bytes;
}

static bool is_quicker(const gal_mix_item *a, const gal_mix_item *b)
{
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->bytes < b->bytes);
}

/* All blocks take the item of their group that is before all others; false: one has none, or they do not fit. */
static bool start(filler *f, bool (*is_before)(const gal_mix_item *a, const gal_mix_item *b), double limit_bytes)
{
    f->sum = (gal_mix_sum){0.0, 0.0, 0.0};
    for (const gal_mix_group *group = f->group; group < f->group + f->group_count; group++) {
        uint32_t least = group->item_count;
        memset(group->taken, 0, group->item_count * sizeof *group->taken);
        for (uint32_t i = 0; i < group->item_count; i++) {
            if (may_take(f, &group->item[i]) &&
                (least == group->item_count || is_before(&group->item[i], &group->item[least]))) {
                least = i;
            }
        }
        if (least == group->item_count) {
            return false;
        }
        group->taken[least] = group->block_count;
        f->sum.seconds += group->block_count * group->item[least].seconds;
        f->sum.bytes += group->block_count * group->item[least].bytes;
    }
    f->spare_bytes = limit_bytes - f->top_bytes - f->sum.bytes;
    return f->spare_bytes >= 0.0;
}

typedef struct step {
    const gal_mix_group *group;
    uint32_t from, to;
    double rate; /* seconds gained per byte */
} step;

/* From one item of a group to those before it, which are quicker. */
static void best_step_from(const filler *f, const gal_mix_group *group, uint32_t from, step *out)
{
    const gal_mix_item own = group->item[from];
    for (uint32_t to = 0; to < from; to++) {
        const gal_mix_item *item = &group->item[to];
        const double seconds = own.seconds - item->seconds;
        const double more = item->bytes - own.bytes;
        const double bytes = more > 1e-3 ? more : 1e-3;
        if (seconds > out->rate * bytes && more <= f->spare_bytes && may_take(f, item)) {
            *out = (step){group, from, to, seconds / bytes};
        }
    }
}

/* Of those of which one block fits at least. */
static bool best_step(const filler *f, step *out)
{
    out->rate = 0.0;
    for (const gal_mix_group *group = f->group; group < f->group + f->group_count; group++) {
        for (uint32_t i = 0; i < group->item_count; i++) {
            if (group->taken[i] > 0) {
                best_step_from(f, group, i, out);
            }
        }
    }
    return out->rate > 0.0;
}

double gal_mix_choice_floor(const gal_mix_group *group, uint32_t group_count, double limit_bytes, double top_bytes,
                            double price)
{
    double sum = price > 0.0 ? -price * limit_bytes : 0.0;
    for (const gal_mix_group *g = group; g < group + group_count; g++) {
        double least = HUGE_VAL;
        for (uint32_t i = 0; i < g->item_count; i++) {
            const double own = g->item[i].seconds + price * g->item[i].bytes;
            least = own < least && g->item[i].turn_bytes <= top_bytes ? own : least;
        }
        sum += g->block_count * least;
    }
    return price > 0.0 ? sum - 1e-12 * fabs(sum) : sum;
}

/* False: nothing fits, or by the price nothing takes less than `enough_seconds`. */
static bool fill(filler *f, double limit_bytes, double price, double enough_seconds)
{
    const double left_bytes = limit_bytes - f->top_bytes;
    step s;
    if (start(f, is_quicker, limit_bytes)) { /* there is nothing to gain */
        return true;
    }
    if (price > 0.0 &&
        gal_mix_choice_floor(f->group, f->group_count, left_bytes, f->top_bytes, price) >= enough_seconds) {
        return false;
    }
    if (!start(f, is_smaller, limit_bytes)) {
        return false;
    }
    while (best_step(f, &s)) {
        const double bytes = s.group->item[s.to].bytes - s.group->item[s.from].bytes;
        const uint32_t all = s.group->taken[s.from];
        const double fit = bytes > 0.0 ? floor(f->spare_bytes / bytes) : all;
        move(f, s.group, s.from, s.to, fit < all ? (uint32_t)fit : all);
        f->sum.rate = fit < all ? s.rate : f->sum.rate;
    }
    return true;
}

/* The least turn_bytes above `below`; infinity: there are none. */
static double next_top(const filler *f, double below)
{
    double top = HUGE_VAL;
    for (const gal_mix_group *group = f->group; group < f->group + f->group_count; group++) {
        for (uint32_t i = 0; i < group->item_count; i++) {
            const double own = group->item[i].turn_bytes;
            top = own > below && own < top ? own : top;
        }
    }
    return top;
}

bool gal_mix_choose(const gal_mix_group *group, uint32_t group_count, double limit_bytes, double price,
                    double enough_seconds, gal_mix_sum *out)
{
    filler f = {.group = group, .group_count = group_count};
    double best_top = 0.0;
    out->seconds = HUGE_VAL;
    for (f.top_bytes = next_top(&f, -1.0); f.top_bytes < HUGE_VAL; f.top_bytes = next_top(&f, f.top_bytes)) {
        if (fill(&f, limit_bytes, price, fmin(enough_seconds, out->seconds)) && f.sum.seconds < out->seconds) {
            *out = f.sum;
            best_top = f.top_bytes;
        }
    }
    f.top_bytes = best_top;
    return out->seconds < HUGE_VAL && fill(&f, limit_bytes, 0.0, HUGE_VAL); /* the best once more, for what is taken */
}
