#include "planner/space/chunk_size.h"

#include <stdlib.h>

gal_chunk_packing gal_chunk_pack(const gal_chunk_unit *unit, uint32_t count, uint64_t chunk_elements,
                                 uint32_t shard_count)
{
    gal_chunk_packing out = {0};
    uint64_t used = 0, all = 0;
    for (uint32_t i = 0; i <= count; i++) {
        const bool ends = i == count || unit[i].begins || used + unit[i].elements > chunk_elements;
        if (i > 0 && ends) {
            const uint64_t padded = (used + shard_count - 1) / shard_count * shard_count;
            out.largest_elements = padded > out.largest_elements ? padded : out.largest_elements;
            out.fullest_elements = used > out.fullest_elements ? used : out.fullest_elements;
            out.chunk_count++;
            all += used;
            used = 0;
        }
        used += i < count ? unit[i].elements : 0;
    }
    out.waste_elements = out.chunk_count * out.largest_elements - all;
    return out;
}

typedef struct sums {
    uint64_t *value;
    size_t count, capacity;
} sums;

static bool add_sum(sums *list, uint64_t value)
{
    if (list->count == list->capacity) {
        const size_t capacity = 64 + 2 * list->capacity;
        uint64_t *grown = realloc(list->value, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        list->value = grown;
        list->capacity = capacity;
    }
    list->value[list->count++] = value;
    return true;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of neighbours, each once and in order, from `least` to `most`. */
static bool list_sums(const gal_chunk_unit *unit, uint32_t count, uint64_t least, uint64_t most, sums *out)
{
    bool ok = true;
    for (uint32_t first = 0; first < count && ok; first++) {
        uint64_t sum = 0;
        for (uint32_t i = first; i < count && ok && (i == first || !unit[i].begins); i++) {
            sum += unit[i].elements;
            if (sum > most) {
                break;
            }
            ok = sum < least || add_sum(out, sum);
        }
    }
    size_t kept = 0;
    if (ok && out->count > 0) {
        qsort(out->value, out->count, sizeof *out->value, ascending);
    }
    for (size_t i = 0; i < out->count; i++) {
        if (kept == 0 || out->value[kept - 1] != out->value[i]) {
            out->value[kept++] = out->value[i];
        }
    }
    out->count = kept;
    return ok;
}

/* The longest that there is: all neighbours that may be in one chunk. */
static uint64_t longest_run(const gal_chunk_unit *unit, uint32_t count)
{
    uint64_t longest = 0, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum = unit[i].begins ? unit[i].elements : sum + unit[i].elements;
        longest = sum > longest ? sum : longest;
    }
    return longest;
}

static uint64_t largest_unit(const gal_chunk_unit *unit, uint32_t count)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        largest = unit[i].elements > largest ? unit[i].elements : largest;
    }
    return largest;
}

gal_code gal_chunk_size(const gal_chunk_unit *unit, uint32_t count, const gal_chunk_rule *rule, uint64_t *out,
                        gal_error *err)
{
    sums list = {0};
    const uint64_t unit_elements = largest_unit(unit, count), longest = longest_run(unit, count);
    uint64_t least = rule->least_elements > unit_elements ? rule->least_elements : unit_elements;
    least = least < longest ? least : longest;
    const uint64_t most = rule->most_elements / 2 < least ? rule->most_elements : 2 * least;
    uint64_t best_waste = UINT64_MAX;
    *out = 0;
    if (!list_sums(unit, count, least, most, &list)) {
        free(list.value);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: chunk sizes");
    }
    for (size_t i = 0; i < list.count; i++) {
        const gal_chunk_packing packing = gal_chunk_pack(unit, count, list.value[i], rule->shard_count);
        if (packing.fullest_elements >= least && packing.waste_elements < best_waste) {
            best_waste = packing.waste_elements;
            *out = list.value[i];
        }
    }
    free(list.value);
    return GAL_OK;
}
