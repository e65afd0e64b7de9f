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

/* Writes them behind into's own. Returns how many. */
static uint32_t join(gal_cert_list *into, const gal_cert_list *from, const gal_cert_choice *more, double price,
                     double most)
{
    gal_cert_label *out = into->label + into->count;
    uint32_t count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        const double seconds = from->label[i].seconds + more->seconds, bytes = from->label[i].bytes + more->bytes;
        out[count] = (gal_cert_label){seconds, bytes};
        count += seconds + price * bytes <= most;
    }
    return count;
}

/* Of labels those that take less than all before them and `least`. Returns the count with them. */
static uint32_t copy_faster(const gal_cert_label *from, const gal_cert_label *end, double least, uint32_t count,
                            gal_cert_label *out)
{
    for (; from < end; from++) {
        out[count] = *from;
        count += from->seconds < least;
        least = gal_cert_lesser(from->seconds, least);
    }
    return count;
}

/* Of [0, middle) and of [middle, end) those that no other beats. */
static uint32_t take_unbeaten(const gal_cert_label *own, uint32_t middle, uint32_t end, gal_cert_label *out)
{
    double least = HUGE_VAL;
    uint32_t count = 0, i = 0, j = middle;
    while (i < middle && j < end) { /* no branch on which comes first: it could not be predicted */
        const uint32_t is_own = own[i].bytes <= own[j].bytes;
        const gal_cert_label next = own[j ^ ((i ^ j) & (0U - is_own))];
        out[count] = next;
        count += next.seconds < least;
        least = gal_cert_lesser(next.seconds, least);
        i += is_own;
        j += 1U - is_own;
    }
    count = copy_faster(own + i, own + middle, least, count, out);
    return copy_faster(own + j, own + end, least, count, out);
}

void gal_cert_merge(gal_cert_list *into, const gal_cert_list *from, const gal_cert_choice *more, double price,
                    double most, gal_cert_list *spare)
{
    const uint32_t joined = join(into, from, more, price, most);
    gal_cert_label *out = spare->label;
    if (joined == 0) {
        return;
    }
    uint32_t count = take_unbeaten(into->label, into->count, into->count + joined, out);
    if (count > GAL_CERT_LABELS) {
        for (uint32_t i = 0; 2 * i < count; i++) {
            const uint32_t next = 2 * i + 1 < count ? 2 * i + 1 : 2 * i;
            out[i] = (gal_cert_label){out[next].seconds, out[2 * i].bytes};
        }
        count = (count + 1) / 2;
    }
    spare->label = into->label;
    *into = (gal_cert_list){count, out};
}

gal_cert_list *gal_cert_lists_take(gal_heap *heap, size_t count)
{
    gal_cert_list *list = gal_heap_take(heap, count, sizeof *list);
    for (size_t i = 0; i < count && heap->code == GAL_OK; i++) {
        list[i].label = gal_heap_take_room(heap, 2 * (GAL_CERT_LABELS + 1), sizeof *list[i].label);
    }
    return heap->code == GAL_OK ? list : NULL;
}

double gal_cert_list_least(const gal_cert_list *list, double price)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < list->count; i++) {
        least = gal_cert_lesser(least, list->label[i].seconds + price * list->label[i].bytes);
    }
    return least;
}

double gal_cert_list_fastest(const gal_cert_list *list, double limit_bytes)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < list->count; i++) {
        const bool fits = list->label[i].bytes <= limit_bytes + 1e-12 * fabs(limit_bytes);
        least = fits ? fmin(least, list->label[i].seconds) : least;
    }
    return least;
}
