#include "costmodel/collective_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/interval.h"

gal_code gal_collective_table_create(const gal_profile *profile, gal_collective_table *out, gal_error *err)
{
    out->entry = calloc((size_t)profile->collective_count + 1, sizeof *out->entry);
    if (out->entry == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
    }
    for (uint32_t i = 0; i < profile->collective_count; i++) {
        gal_profile_collective *to = &out->entry[out->count];
        *to = profile->collectives[i];
        for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
            to->level_counts[level] += to->level_counts[level] == 0;
        }
        out->count += to->seconds > 0.0 && to->bytes > 0;
    }
    qsort(out->entry, out->count, sizeof *out->entry, gal_collective_compare);
    return GAL_OK;
}

void gal_collective_table_free(gal_collective_table *table)
{
    free(table->entry);
}

static uint32_t member_count(const uint32_t *level_counts)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        count *= level_counts[i];
    }
    return count;
}

/* The entries of the key's op and level_counts are [*first, *end). */
static bool find_range(const gal_collective_table *table, const gal_profile_collective *key, uint32_t *first,
                       uint32_t *end)
{
    uint32_t low = 0;
    for (uint32_t high = table->count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        if (gal_collective_key_compare(key, &table->entry[middle]) > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *first = low;
    while (low < table->count && gal_collective_key_compare(key, &table->entry[low]) == 0) {
        low++;
    }
    *end = low;
    return *end > *first;
}

static double between(const gal_profile_collective *a, const gal_profile_collective *b, double bytes)
{
    const double share = (log(bytes) - log((double)a->bytes)) / (log((double)b->bytes) - log((double)a->bytes));
    return exp(log(a->seconds) + share * (log(b->seconds) - log(a->seconds)));
}

static double beyond(const gal_cluster *cluster, const gal_profile_collective *nearest, uint64_t bytes)
{
    const double there = gal_collective_analytic_seconds(cluster, nearest->op, nearest->level_counts, nearest->bytes);
    const double here = gal_collective_analytic_seconds(cluster, nearest->op, nearest->level_counts, bytes);
    return there > 0.0 && isfinite(there) ? nearest->seconds * here / there : nearest->seconds;
}

static gal_origin of_entry(const gal_profile_collective *entry, gal_source source)
{
    return gal_origin_of_repeats(source, entry->seconds, entry->spread_seconds);
}

double gal_collective_table_seconds(const gal_collective_table *table, const gal_cluster *cluster, gal_op op,
                                    const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t bytes, gal_origin *from)
{
    const gal_op either = op == GAL_OP_RECEIVE ? GAL_OP_SEND : op;
    *from = (gal_origin){GAL_SOURCE_ANALYTIC, 0.0};
    if (table->count == 0) {
        return gal_collective_analytic_seconds(cluster, either, level_counts, bytes);
    }
    gal_profile_collective key = {.op = either};
    memcpy(key.level_counts, level_counts, sizeof key.level_counts);
    uint32_t first = 0;
    uint32_t end = 0;
    if (member_count(level_counts) <= 1 || bytes == 0 || !find_range(table, &key, &first, &end)) {
        return gal_collective_analytic_seconds(cluster, key.op, level_counts, bytes);
    }
    const gal_profile_collective *less = NULL, *more = NULL;
    for (uint32_t i = first; i < end && more == NULL; i++) {
        const gal_profile_collective *entry = &table->entry[i];
        if (entry->bytes == bytes) {
            *from = of_entry(entry, entry->source);
            return entry->seconds;
        }
        if (entry->source != GAL_SOURCE_ANALYTIC && entry->bytes < bytes) {
            less = entry;
        } else if (entry->source != GAL_SOURCE_ANALYTIC) {
            more = entry;
        }
    }
    if (less == NULL && more == NULL) {
        return gal_collective_analytic_seconds(cluster, key.op, level_counts, bytes);
    }
    if (less == NULL || more == NULL) {
        *from = (gal_origin){GAL_SOURCE_FITTED, gal_interval_log_deviation(GAL_INTERVAL_ANALYTIC)};
        return beyond(cluster, less != NULL ? less : more, bytes);
    }
    const gal_origin low = of_entry(less, GAL_SOURCE_FITTED), high = of_entry(more, GAL_SOURCE_FITTED);
    *from = low.log_deviation > high.log_deviation ? low : high;
    return between(less, more, (double)bytes);
}

bool gal_collective_table_has_measurements(const gal_collective_table *table)
{
    bool any = false;
    for (uint32_t i = 0; i < table->count && !any; i++) {
        any = table->entry[i].source != GAL_SOURCE_ANALYTIC;
    }
    return any;
}
