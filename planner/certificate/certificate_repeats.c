/* Strategies that are another one's item again: their prices are one. Of all orders of a strategy's axes in which its
 * groups lie alike there is one price (costmodel/price.h), so of thousands of strategies hundreds differ. */
#include <stdlib.h>

#include "planner/certificate/certificate_prices.h"

typedef struct priced {
    const gal_block_price *price;
    uint32_t class, strategy;
} priced;

static int by_price(const void *x, const void *y)
{
    const priced *a = x;
    const priced *b = y;
    if (a->price != b->price) {
        return (uintptr_t)a->price < (uintptr_t)b->price ? -1 : 1;
    }
    if (a->class != b->class) {
        return a->class < b->class ? -1 : 1;
    }
    return a->strategy < b->strategy ? -1 : a->strategy > b->strategy;
}

/* The first of equal price and class is not one; which is first does not depend on where prices lie. */
static void mark(const gal_cert_prices *v, const gal_block_price *const *price, bool any_class, priced *own,
                 bool *repeats)
{
    for (uint32_t s = 0; s < v->strategy_count; s++) {
        own[s] = (priced){price[s], any_class ? 0 : v->class[s], s};
    }
    qsort(own, v->strategy_count, sizeof *own, by_price);
    for (uint32_t i = 1; i < v->strategy_count; i++) {
        repeats[own[i].strategy] = own[i].price == own[i - 1].price && own[i].class == own[i - 1].class;
    }
}

const bool *gal_cert_repeats(gal_cert_prices *v, uint32_t place, uint32_t type, bool any_class)
{
    const size_t at = ((size_t)any_class * v->place_count + place) * v->types.type_count + type;
    if (v->repeats[at] == NULL) {
        bool *repeats = gal_heap_take(&v->heap, v->strategy_count, sizeof *repeats);
        priced *own = malloc(((size_t)v->strategy_count + 1) * sizeof *own);
        if (repeats != NULL && own != NULL) { /* else none is known to be one, which is no less true */
            mark(v, v->price + ((size_t)place * v->types.type_count + type) * v->strategy_count, any_class, own,
                 repeats);
        }
        free(own);
        v->repeats[at] = repeats;
    }
    return v->repeats[at];
}
