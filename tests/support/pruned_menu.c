#include "tests/support/pruned_menu.h"

#include <stdlib.h>

static int quicker_first(const void *x, const void *y)
{
    const gal_mix_item *a = x;
    const gal_mix_item *b = y;
    if (a->seconds != b->seconds) {
        return a->seconds < b->seconds ? -1 : 1;
    }
    return a->strategy < b->strategy ? -1 : a->strategy > b->strategy;
}

static bool beats(const gal_mix_item *a, const gal_mix_item *b)
{
    return a->seconds <= b->seconds && a->bytes <= b->bytes && a->turn_bytes <= b->turn_bytes &&
           a->first_seconds <= b->first_seconds && a->last_seconds <= b->last_seconds &&
           a->before_seconds <= b->before_seconds && a->behind_seconds <= b->behind_seconds && a->gathers <= b->gathers;
}

uint32_t gal_prune_menu(gal_mix_item *item, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t begin = 0, end = 0; begin < count; begin = end) {
        const uint32_t first = kept; /* of the class */
        while (end < count && item[end].class == item[begin].class) {
            end++;
        }
        qsort(&item[begin], end - begin, sizeof *item, quicker_first);
        for (uint32_t i = begin; i < end; i++) {
            bool beaten = false;
            for (uint32_t j = first; j < kept && !beaten; j++) {
                beaten = beats(&item[j], &item[i]);
            }
            if (!beaten) {
                item[kept++] = item[i];
            }
        }
    }
    return kept;
}
