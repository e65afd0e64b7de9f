#include "planner/bound/mixture_exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/slope.h"

/* ENTRIES_MAX, SUMS_MAX: a level that needs more is left to its relaxation. 64 times as many raised no bound of 36
 * searches and took four fifths of one of 1,024 layers. */
enum { BANDS = 4096, FEW = 512, ENTRIES_MAX = 1 << 10, SUMS_AT_FIRST = 1 << 12, SUMS_MAX = 1 << 14 };

/* What some blocks take together: over is how far its seconds, bytes at their price, are above the least. */
typedef struct entry {
    double over, bytes;
} entry;

typedef struct list {
    uint32_t count;
    entry *entry; /* by rising `over` */
} list;

typedef struct group {
    const gal_mix_item *item; /* of the type's menu; the ends of a stage have their own numbers added */
    uint32_t item_count, block_count;
    const gal_mix_item *best; /* at the last level's price, of the items that may be taken; NULL: none */
    double least;             /* what it costs */
} group;

/* An item, by what it uses in turn. */
typedef struct turn {
    double bytes;
    uint32_t group;
    const gal_mix_item *item;
} turn;

typedef struct search {
    const gal_mix_stage *stage;
    group group[GAL_TYPES_MAX + 2];
    uint32_t group_count;
    gal_mix_item *ends; /* the items of the first and of the last block */
    turn *turn;         /* [turn_count] of all groups, ascending; owned */
    size_t turn_count, taken_count;
    double top_bytes;   /* items above it may not be taken: those behind taken_count */
    double limit_bytes; /* less that */
    double price;       /* seconds per byte */
    double least;       /* the relaxation at that price */
    double reach;       /* entries further above it are left out */
    entry *sum;         /* [sum_capacity] room for sums; owned */
    uint32_t sum_capacity;
    list total, power;
    bool too_long, no_memory;
} search;

static double cost_of(const search *s, const gal_mix_item *item, double rate, double price)
{
    return item->turn_bytes <= s->top_bytes ? rate * item->seconds + price * item->bytes : HUGE_VAL;
}

/* ---- the relaxation ---- */

/* rate: what a second costs, 1 or 0. Infinite seconds: a group has nothing to take. */
static gal_priced_choice take_cheapest(const search *s, double rate, double price)
{
    gal_priced_choice sum = {0.0, 0.0};
    for (uint32_t g = 0; g < s->group_count; g++) {
        const gal_mix_item *best = NULL;
        double least = HUGE_VAL;
        for (uint32_t i = 0; i < s->group[g].item_count; i++) {
            const gal_mix_item *item = &s->group[g].item[i];
            const double cost = cost_of(s, item, rate, price);
            if (cost < least || (cost == least && best != NULL && item->bytes < best->bytes)) {
                least = cost;
                best = item;
            }
        }
        if (best == NULL) {
            return (gal_priced_choice){HUGE_VAL, HUGE_VAL};
        }
        sum.seconds += s->group[g].block_count * best->seconds;
        sum.bytes += s->group[g].block_count * best->bytes;
    }
    return sum;
}

static gal_priced_choice take_priced(void *context, double price)
{
    return take_cheapest(context, 1.0, price);
}

/* One more item may be taken. */
static void offer(const search *s, group *g, const gal_mix_item *item)
{
    const double cost = item->seconds + s->price * item->bytes;
    if (g->best == NULL || cost < g->least || (cost == g->least && item->bytes < g->best->bytes)) {
        g->least = cost;
        g->best = item;
    }
}

/* The next level: all items that use up to as much in turn as the least of those that were too large. False: there are
 * none. */
static bool raise_top(search *s)
{
    const size_t before = s->taken_count;
    while (s->taken_count < s->turn_count &&
           (s->taken_count == before || s->turn[s->taken_count].bytes == s->top_bytes)) {
        const turn *own = &s->turn[s->taken_count++];
        s->top_bytes = own->bytes;
        offer(s, &s->group[own->group], own->item);
    }
    return s->taken_count > before;
}

/* At another price. */
static void offer_again(search *s)
{
    for (uint32_t g = 0; g < s->group_count; g++) {
        s->group[g].best = NULL;
    }
    for (size_t i = 0; i < s->taken_count; i++) {
        offer(s, &s->group[s->turn[i].group], s->turn[i].item);
    }
}

/* No choice takes less, by the price that was the last level's best: a look at the new items instead of a dozen at
 * all. */
static double least_at_last_price(const search *s)
{
    double sum = -s->price * s->limit_bytes;
    for (uint32_t g = 0; g < s->group_count; g++) {
        sum += s->group[g].best == NULL ? HUGE_VAL : s->group[g].block_count * s->group[g].least;
    }
    return sum;
}

/* False: nothing fits. */
static bool relax(search *s)
{
    if (take_cheapest(s, 0.0, 1.0).bytes > s->limit_bytes * (1.0 + 1e-9)) {
        return false;
    }
    const gal_slope slope = gal_best_slope(take_priced, s, s->limit_bytes);
    s->price = slope.price;
    s->least = slope.best.seconds + slope.price * (slope.best.bytes - s->limit_bytes);
    offer_again(s);
    return true;
}

/* ---- lists ---- */

static int nearer_first(const void *x, const void *y)
{
    const entry *a = x;
    const entry *b = y;
    if (a->over != b->over) {
        return a->over < b->over ? -1 : 1;
    }
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int fewer_bytes_first(const void *x, const void *y)
{
    const entry *a = x;
    const entry *b = y;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    return a->over < b->over ? -1 : a->over > b->over;
}

/* Seconds, of which `over` counts the bytes too. */
static double seconds_of(const search *s, const entry *e)
{
    return e->over - s->price * e->bytes;
}

/* By bytes in bands of equal width: drops what is beaten by something in a band of fewer bytes. Returns how many are
 * left; to sort these is most of the work. */
static uint32_t drop_beaten(search *s, uint32_t count)
{
    double least[BANDS]; /* seconds of a band; then of it and all before */
    const uint32_t bands = count < 4 * FEW ? FEW : BANDS;
    double low = HUGE_VAL;
    double high = -HUGE_VAL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        low = s->sum[i].bytes < low ? s->sum[i].bytes : low;
        high = s->sum[i].bytes > high ? s->sum[i].bytes : high;
    }
    const double bands_per_byte = high > low ? (bands - 1) / (high - low) : 0.0;
    for (uint32_t band = 0; band < bands; band++) {
        least[band] = HUGE_VAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        double *own = &least[(uint32_t)((s->sum[i].bytes - low) * bands_per_byte)];
        const double seconds = seconds_of(s, &s->sum[i]);
        *own = seconds < *own ? seconds : *own;
    }
    for (uint32_t band = 1; band < bands; band++) {
        least[band] = least[band] < least[band - 1] ? least[band] : least[band - 1];
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t band = (uint32_t)((s->sum[i].bytes - low) * bands_per_byte);
        if (band == 0 || seconds_of(s, &s->sum[i]) < least[band - 1]) {
            s->sum[kept++] = s->sum[i];
        }
    }
    return kept;
}

/* Leaves what no other beats in seconds and bytes, and sorts it. */
static void keep_best(search *s, uint32_t count, list *out)
{
    uint32_t kept = 0;
    double least = HUGE_VAL;
    count = count > FEW ? drop_beaten(s, count) : count;
    qsort(s->sum, count, sizeof *s->sum, fewer_bytes_first);
    for (uint32_t i = 0; i < count; i++) {
        if (seconds_of(s, &s->sum[i]) < least) {
            least = seconds_of(s, &s->sum[i]);
            s->sum[kept++] = s->sum[i];
        }
    }
    if (kept > ENTRIES_MAX) {
        s->too_long = true;
        kept = ENTRIES_MAX;
    }
    qsort(s->sum, kept, sizeof *s->sum, nearer_first);
    memcpy(out->entry, s->sum, kept * sizeof *s->sum);
    out->count = kept;
}

/* One more of `count` sums; false: there is no room for it. */
static bool add_sum(search *s, uint32_t count, entry own)
{
    if (count == s->sum_capacity && count < SUMS_MAX) {
        entry *grown = realloc(s->sum, 4 * (size_t)count * sizeof *grown);
        s->no_memory = grown == NULL;
        s->sum = grown == NULL ? s->sum : grown;
        s->sum_capacity *= grown == NULL ? 1 : 4;
    }
    s->too_long = s->too_long || count == s->sum_capacity;
    if (!s->too_long) {
        s->sum[count] = own;
    }
    return !s->too_long;
}

/* out = all sums of an entry of each; out may be one of them. Of a list and itself each two are met once. */
static void add(search *s, const list *a, const list *b, list *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count && !s->too_long; i++) {
        for (uint32_t j = a == b ? i : 0;
             j < b->count && !s->too_long && a->entry[i].over + b->entry[j].over <= s->reach; j++) {
            const entry own = {a->entry[i].over + b->entry[j].over, a->entry[i].bytes + b->entry[j].bytes};
            count += add_sum(s, count, own);
        }
    }
    keep_best(s, count, out);
}

/* One block. */
static void begin_power(search *s, const group *g)
{
    uint32_t count = 0;
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < g->item_count; i++) {
        least = fmin(least, cost_of(s, &g->item[i], 1.0, s->price));
    }
    for (uint32_t i = 0; i < g->item_count; i++) {
        const double over = cost_of(s, &g->item[i], 1.0, s->price) - least;
        count += over <= s->reach && add_sum(s, count, (entry){over, g->item[i].bytes});
    }
    keep_best(s, count, &s->power);
}

/* All blocks of the group, by doubling. */
static void add_group(search *s, const group *g)
{
    begin_power(s, g);
    for (uint32_t left = g->block_count; left > 0 && !s->too_long; left /= 2) {
        if (left % 2 == 1) {
            add(s, &s->total, &s->power, &s->total);
        }
        if (left > 1) {
            add(s, &s->power, &s->power, &s->power);
        }
    }
}

/* The least of a level whose relaxation is below `cutoff`; that itself where what is cheapest fits: it is whole. */
static double solve_level(search *s, double cutoff)
{
    double least = cutoff;
    if (s->price == 0.0) {
        return s->least;
    }
    s->reach = cutoff - s->least;
    s->too_long = false;
    s->total.entry[0] = (entry){0.0, 0.0};
    s->total.count = 1;
    for (uint32_t g = 0; g < s->group_count && !s->too_long; g++) {
        add_group(s, &s->group[g]);
    }
    if (s->too_long) {
        return s->least;
    }
    for (uint32_t i = 0; i < s->total.count; i++) {
        const entry *e = &s->total.entry[i];
        if (e->bytes <= s->limit_bytes * (1.0 + 1e-12)) {
            least = fmin(least, s->least + s->price * s->limit_bytes + seconds_of(s, e));
        }
    }
    return least;
}

/* ---- all of it ---- */

/* A block at an end of the stage, with what that adds. */
static void add_end(search *s, uint32_t type, bool first, gal_mix_item *own)
{
    const gal_mix_menu *menu = &s->stage->menu[type];
    for (uint32_t i = 0; i < menu->count; i++) {
        own[i] = menu->item[i];
        own[i].seconds += first ? own[i].first_seconds : own[i].last_seconds;
        own[i].bytes += (first ? s->stage->first_bytes : s->stage->last_bytes)[own[i].class];
    }
    s->group[s->group_count++] = (group){.item = own, .item_count = menu->count, .block_count = 1};
}

static void list_groups(search *s, uint32_t begin, uint32_t end)
{
    const gal_block_types *types = s->stage->types;
    const uint32_t first = types->type_of[begin];
    uint32_t count[GAL_TYPES_MAX] = {0};
    for (uint32_t block = begin + 1; block + 1 < end; block++) {
        count[types->type_of[block]]++;
    }
    add_end(s, first, true, s->ends);
    add_end(s, types->type_of[end - 1], false, s->ends + s->stage->menu[first].count);
    for (uint32_t type = 0; type < types->type_count; type++) {
        if (count[type] > 0) {
            s->group[s->group_count++] = (group){.item = s->stage->menu[type].item,
                                                 .item_count = s->stage->menu[type].count,
                                                 .block_count = count[type]};
        }
    }
}

static int fewer_in_turn_first(const void *x, const void *y)
{
    const turn *a = x;
    const turn *b = y;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* False: there is no memory. */
static bool list_turns(search *s)
{
    size_t count = 0;
    for (uint32_t g = 0; g < s->group_count; g++) {
        count += s->group[g].item_count;
    }
    s->turn = malloc((count + 1) * sizeof *s->turn);
    for (uint32_t g = 0; g < s->group_count && s->turn != NULL; g++) {
        for (uint32_t i = 0; i < s->group[g].item_count; i++) {
            const gal_mix_item *item = &s->group[g].item[i];
            s->turn[s->turn_count++] = (turn){item->turn_bytes, g, item};
        }
    }
    if (s->turn != NULL) {
        qsort(s->turn, s->turn_count, sizeof *s->turn, fewer_in_turn_first);
    }
    return s->turn != NULL;
}

/* Level by level of what the largest item uses in turn. */
static double solve_levels(search *s, double cutoff)
{
    double least = cutoff;
    while (raise_top(s)) {
        s->limit_bytes = s->stage->limit_bytes - s->top_bytes;
        if (least_at_last_price(s) < least && relax(s) && s->least < least) {
            least = fmin(least, solve_level(s, least));
        }
    }
    return least * (1.0 - 1e-12);
}

gal_code gal_mix_exact(const gal_mix_stage *stage, uint32_t begin, uint32_t end, double cutoff_seconds, double *least,
                       gal_error *err)
{
    const gal_block_types *types = stage->types;
    const size_t ends = (size_t)stage->menu[types->type_of[begin]].count + stage->menu[types->type_of[end - 1]].count;
    search s = {.stage = stage,
                .ends = malloc((ends + 1) * sizeof *s.ends),
                .sum = malloc(SUMS_AT_FIRST * sizeof *s.sum),
                .sum_capacity = SUMS_AT_FIRST};
    s.total.entry = malloc(2 * (size_t)ENTRIES_MAX * sizeof *s.total.entry);
    s.no_memory = s.ends == NULL || s.sum == NULL || s.total.entry == NULL;
    if (!s.no_memory) {
        s.power.entry = s.total.entry + ENTRIES_MAX;
        list_groups(&s, begin, end);
        s.no_memory = !list_turns(&s);
    }
    if (!s.no_memory) {
        *least = solve_levels(&s, cutoff_seconds);
    }
    free(s.turn);
    free(s.total.entry);
    free(s.sum);
    free(s.ends);
    return !s.no_memory ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}
