/* Which chains of blocks are alike, how far they reach, and lists of their choices. */
#include <math.h>

#include "planner/certificate/certificate_prices.h"

/* Improves what an end has in common with one behind it, none of which has more if the next block before is the last of
 * its type: so it is where layers are alike. */
static void find_like(gal_cert_prices *v, uint32_t end, const uint32_t *last)
{
    const uint32_t *type = v->types.type_of;
    gal_cert_like own = v->like[end];
    for (uint32_t other = v->blocks; other > end; other--) {
        uint32_t common = own.common;
        if (common == end || last[type[end - 1 - common]] == end - 1 - common) {
            break;
        }
        if (type[other - 1 - common] == type[end - 1 - common]) {
            for (common = 0; common < end && type[other - 1 - common] == type[end - 1 - common]; common++) {
            }
            own = common > own.common ? (gal_cert_like){other, common} : own;
        }
    }
    while (own.common > 0 && v->like[own.end].common >= own.common) { /* the last of all alike */
        own.end = v->like[own.end].end;
    }
    v->like[end] = own;
}

void gal_cert_number_likes(gal_cert_prices *v)
{
    if (v->like != NULL) {
        return;
    }
    uint32_t *last = gal_heap_take(&v->heap, v->types.type_count, sizeof *last); /* [type] its last block */
    v->like = gal_heap_take(&v->heap, v->blocks + 1, sizeof *v->like);
    for (uint32_t block = 0; v->heap.code == GAL_OK && block < v->blocks; block++) {
        last[v->types.type_of[block]] = block;
    }
    for (uint32_t end = v->blocks; v->heap.code == GAL_OK && end > 0; end--) {
        const gal_cert_like *behind = end < v->blocks ? &v->like[end + 1] : NULL;
        v->like[end] = behind != NULL && behind->common > 1 ? (gal_cert_like){behind->end - 1, behind->common - 1}
                                                            : (gal_cert_like){end, 0};
        find_like(v, end, last);
    }
}

void gal_cert_reach(const gal_cert_prices *v, const double *least, double ends_seconds, double most, double *sum,
                    uint32_t *far)
{
    const uint32_t *type = v->types.type_of;
    const double beyond = most + 1e-9 * fabs(most); /* a sum less another is off by rounding */
    double less = ends_seconds;                     /* of those that take less than nothing */
    sum[0] = 0.0;
    for (uint32_t b = 0; b < v->blocks; b++) {
        const double own = least[type[b]];
        less += fmin(own, 0.0);
        sum[b + 1] = sum[b] + (own < HUGE_VAL ? fmax(own, 0.0) : 0.0);
    }
    for (uint32_t b = 0, e = 0; b < v->blocks; b++) {
        e = e > b ? e : b;
        while (e < v->blocks && least[type[e]] < HUGE_VAL && sum[e + 1] - sum[b] + less < beyond) {
            e++;
        }
        far[b] = e;
    }
}

uint32_t gal_cert_merge(const gal_cert_choice *a, uint32_t a_count, const gal_cert_choice *b, uint32_t b_count,
                        const gal_cert_choice *more, double price, double most, gal_cert_choice *out)
{
    static const gal_cert_choice none = {HUGE_VAL, HUGE_VAL, 0.0};
    double least = HUGE_VAL;
    uint32_t count = 0;
    for (uint32_t i = 0, j = 0; i < a_count || j < b_count;) {
        gal_cert_choice next = j < b_count ? gal_cert_joined(&b[j], more) : none;
        if (j == b_count || (i < a_count && a[i].bytes <= next.bytes)) {
            next = a[i++];
        } else {
            j++;
            next.seconds = next.seconds + price * next.bytes <= most ? next.seconds : HUGE_VAL;
        }
        if (next.seconds < least) {
            least = next.seconds;
            out[count++] = next;
        }
    }
    for (uint32_t i = 0; count > GAL_CERT_LABELS && 2 * i < count; i++) {
        const uint32_t next = 2 * i + 1 < count ? 2 * i + 1 : 2 * i;
        out[i] = (gal_cert_choice){0.0, out[next].seconds, out[2 * i].bytes};
    }
    return count > GAL_CERT_LABELS ? (count + 1) / 2 : count;
}

gal_cert_list *gal_cert_lists_take(gal_heap *heap, size_t count)
{
    gal_cert_list *list = gal_heap_take(heap, count, sizeof *list);
    for (size_t i = 0; i < count && heap->code == GAL_OK; i++) {
        list[i].choice = gal_heap_take(heap, 2 * (GAL_CERT_LABELS + 1), sizeof *list[i].choice);
    }
    return heap->code == GAL_OK ? list : NULL;
}

double gal_cert_list_least(const gal_cert_list *list, double price)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < list->count; i++) {
        least = gal_cert_lesser(least, list->choice[i].seconds + price * list->choice[i].bytes);
    }
    return least;
}
