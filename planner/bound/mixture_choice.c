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

/* All blocks take the smallest item of their group; false: one has none, or they do not fit. */
static bool start(filler *f, double limit_bytes)
{
    f->sum = (gal_mix_sum){0.0, 0.0, 0.0};
    for (const gal_mix_group *group = f->group; group < f->group + f->group_count; group++) {
        uint32_t least = group->item_count;
        memset(group->taken, 0, group->item_count * sizeof *group->taken);
        for (uint32_t i = 0; i < group->item_count; i++) {
            if (may_take(f, &group->item[i]) &&
                (least == group->item_count || group->item[i].bytes < group->item[least].bytes)) {
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

/* Of those of which one block fits at least. */
static bool best_step(const filler *f, step *out)
{
    out->rate = 0.0;
    for (const gal_mix_group *group = f->group; group < f->group + f->group_count; group++) {
        for (uint32_t i = 0; i < group->item_count; i++) {
            for (uint32_t j = 0; j < group->item_count && group->taken[i] > 0; j++) {
                const double seconds = group->item[i].seconds - group->item[j].seconds;
                const double bytes = group->item[j].bytes - group->item[i].bytes;
                if (seconds > 0.0 && bytes <= f->spare_bytes && may_take(f, &group->item[j]) &&
                    seconds > out->rate * fmax(bytes, 1e-3)) {
                    *out = (step){group, i, j, seconds / fmax(bytes, 1e-3)};
                }
            }
        }
    }
    return out->rate > 0.0;
}

static void fill(filler *f)
{
    step s;
    while (best_step(f, &s)) {
        const double bytes = s.group->item[s.to].bytes - s.group->item[s.from].bytes;
        const uint32_t all = s.group->taken[s.from];
        const double fit = bytes > 0.0 ? floor(f->spare_bytes / bytes) : all;
        move(f, s.group, s.from, s.to, fit < all ? (uint32_t)fit : all);
        f->sum.rate = fit < all ? s.rate : f->sum.rate;
    }
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

bool gal_mix_choose(const gal_mix_group *group, uint32_t group_count, double limit_bytes, gal_mix_sum *out)
{
    filler f = {.group = group, .group_count = group_count};
    double best_top = 0.0;
    out->seconds = HUGE_VAL;
    for (f.top_bytes = next_top(&f, -1.0); f.top_bytes < HUGE_VAL; f.top_bytes = next_top(&f, f.top_bytes)) {
        if (start(&f, limit_bytes)) {
            fill(&f);
            if (f.sum.seconds < out->seconds) {
                *out = f.sum;
                best_top = f.top_bytes;
            }
        }
    }
    f.top_bytes = best_top;
    if (out->seconds < HUGE_VAL && start(&f, limit_bytes)) { /* the best once more, for what is taken */
        fill(&f);
    }
    return out->seconds < HUGE_VAL;
}
