#include "planner/certificate_chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BANDS = 64, SLOPES = 40, SUMS = 1 << 20, LIST = 1 << 15 };

typedef struct list {
    uint32_t count;
    gal_cert_choice *sum;
} list;

/* ---- a chain under a price ---- */

static void take_less(gal_cert_choice *least, gal_cert_choice own)
{
    if (own.cost < least->cost || (own.cost == least->cost && own.bytes < least->bytes)) {
        *least = own;
    }
}

static gal_cert_choice choice_of(double share, const gal_cert_item *i, double more_seconds, double more_bytes,
                                 double rate, double price)
{
    const double seconds = share * i->seconds + more_seconds;
    const double bytes = share * i->bytes + more_bytes;
    return (gal_cert_choice){rate * seconds + price * bytes, seconds, bytes};
}

/* rate: what a second costs, 1 or 0. */
static void price_menus(const gal_cert_chains *v, const gal_cert_table *t, double rate, double price, double top)
{
    const gal_cert_choice none = {.cost = HUGE_VAL};
    for (uint32_t of = 0; of < v->t->sort_count; of++) {
        gal_cert_choice *best = &v->best[(size_t)of * v->t->class_count];
        v->least[of] = v->first[of] = v->last[of] = v->one[of] = none;
        for (uint32_t class = 0; class < v->t->class_count; class ++) {
            best[class] = none;
        }
        for (uint32_t j = 0; j < t->menu[of].count; j++) {
            const gal_cert_item *i = &t->menu[of].item[j];
            if (i->turn_bytes <= top) {
                const gal_cert_choice own = choice_of(1.0, i, 0.0, 0.0, rate, price);
                take_less(&best[i->class], own);
                take_less(&v->least[of], own);
                take_less(&v->first[of], choice_of(0.5, i, i->first_seconds, i->first_bytes, rate, price));
                take_less(&v->last[of], choice_of(0.5, i, i->last_seconds, i->last_bytes, rate, price));
                take_less(&v->one[of], choice_of(1.0, i, i->first_seconds + i->last_seconds, 0.0, rate, price));
            }
        }
    }
}

static gal_cert_choice half_pair(const gal_cert_choice *a, const gal_cert_choice *b, double rate, double seconds)
{
    return (gal_cert_choice){0.5 * (a->cost + b->cost) + rate * seconds, 0.5 * (a->seconds + b->seconds) + seconds,
                             0.5 * (a->bytes + b->bytes)};
}

static gal_cert_choice cheapest_pair(gal_cert_chains *v, const gal_cert_kind *k, const gal_cert_table *t, uint32_t pair,
                                     double rate)
{
    const double rounds = t == &k->added && v->t->stages == 1 ? v->t->cell->microbatch_count : 1.0;
    const uint32_t behind = v->t->sort_of[v->t->pair_first[pair]];
    const gal_cert_choice *from = &v->best[(size_t)v->t->sort_of[v->t->pair_first[pair] - 1] * v->t->class_count];
    const gal_cert_choice *to = &v->best[(size_t)behind * v->t->class_count];
    gal_cert_choice least = {.cost = HUGE_VAL};
    for (uint32_t a = 0; a < v->t->class_count; a++) {
        take_less(&least, half_pair(&from[a], &to[a], rate, 0.0));
    }
    for (uint32_t a = 0; a < v->t->class_count; a++) {
        for (uint32_t b = 0; b < v->t->class_count && from[a].cost + v->least[behind].cost < 2.0 * least.cost; b++) {
            if (a != b && from[a].cost + to[b].cost < 2.0 * least.cost) {
                const double seconds = rounds * gal_cert_conversion(v->t, k->place, pair, a, b, &v->code);
                if (seconds < HUGE_VAL) {
                    take_less(&least, half_pair(&from[a], &to[b], rate, seconds));
                }
            }
        }
    }
    return least;
}

static void add(gal_cert_choice *sum, double count, const gal_cert_choice *own)
{
    sum->cost += count * own->cost;
    sum->seconds += count * own->seconds;
    sum->bytes += count * own->bytes;
}

static gal_cert_choice cheapest_chain(gal_cert_chains *v, const gal_cert_kind *k, const gal_cert_table *t,
                                      const gal_cert_chain *c, double rate, double price, double top)
{
    price_menus(v, t, rate, price, top);
    if (c->end - c->begin == 1) {
        return v->one[v->t->sort_of[c->begin]];
    }
    gal_cert_choice sum = v->first[v->t->sort_of[c->begin]];
    add(&sum, 1.0, &v->last[v->t->sort_of[c->end - 1]]);
    for (uint32_t pair = 0; pair < v->t->pair_count && sum.cost < HUGE_VAL; pair++) {
        const uint32_t count = gal_cert_pairs(v->t, c->begin, c->end, pair);
        if (count > 0) {
            const gal_cert_choice own = cheapest_pair(v, k, t, pair, rate);
            add(&sum, count, &own);
        }
    }
    return sum;
}

/* Of items whose turn_bytes are in a band; infinity: none fits. */
static double band_least(gal_cert_chains *v, const gal_cert_kind *k, const gal_cert_table *t, const gal_cert_chain *c,
                         double bottom, double top)
{
    const double limit = v->t->limit_bytes - bottom;
    gal_cert_choice large = cheapest_chain(v, k, t, c, 1.0, 0.0, top);
    if (large.cost == HUGE_VAL || large.bytes <= limit) {
        return large.cost;
    }
    gal_cert_choice small = cheapest_chain(v, k, t, c, 0.0, 1.0, top);
    if (small.bytes > limit + 1e-9 * fabs(limit)) {
        return HUGE_VAL;
    }
    double least = large.seconds;
    for (uint32_t i = 0; i < SLOPES && large.bytes > small.bytes; i++) {
        const double price = fmax((small.seconds - large.seconds) / (large.bytes - small.bytes), 0.0);
        const gal_cert_choice between = cheapest_chain(v, k, t, c, 1.0, price, top);
        least = fmax(least, between.cost - price * limit);
        if (between.cost >= (large.seconds + price * large.bytes) * (1.0 - 1e-12)) {
            break;
        }
        *(between.bytes > limit ? &large : &small) = between;
    }
    return least;
}

/* ---- bands of turn_bytes ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of the blocks of a chain, each once; returns how many. */
static uint32_t list_turns(const gal_cert_chains *v, const gal_cert_table *t, const gal_cert_chain *c)
{
    uint32_t count = 0;
    uint32_t kept = 0;
    for (uint32_t of = 0; of < v->t->sort_count; of++) {
        bool here = false;
        for (uint32_t b = c->begin; b < c->end && !here; b++) {
            here = v->t->sort_of[b] == of;
        }
        for (uint32_t i = 0; i < t->menu[of].count && here; i++) {
            v->turn[count++] = t->menu[of].item[i].turn_bytes;
        }
    }
    qsort(v->turn, count, sizeof *v->turn, ascending);
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || v->turn[i] != v->turn[kept - 1]) {
            v->turn[kept++] = v->turn[i];
        }
    }
    return kept;
}

typedef struct band {
    uint32_t bottom, top;
    double least;
} band;

static double priced_least(gal_cert_chains *v, const gal_cert_kind *k, const gal_cert_table *t, const gal_cert_chain *c)
{
    band bands[BANDS];
    const uint32_t turns = list_turns(v, t, c);
    uint32_t count = 1;
    band *least = bands;
    if (turns == 0) {
        return HUGE_VAL;
    }
    bands[0] = (band){0, turns - 1, band_least(v, k, t, c, v->turn[0], v->turn[turns - 1])};
    while (count < BANDS && least->top > least->bottom && least->least < HUGE_VAL) {
        const uint32_t middle = (least->bottom + least->top) / 2;
        band *upper = &bands[count++];
        *upper = (band){middle + 1, least->top, band_least(v, k, t, c, v->turn[middle + 1], v->turn[least->top])};
        least->top = middle;
        least->least = band_least(v, k, t, c, v->turn[least->bottom], v->turn[middle]);
        for (uint32_t i = 0; i < count; i++) {
            least = bands[i].least < least->least ? &bands[i] : least;
        }
    }
    return least->least;
}

/* ---- whole blocks ---- */

/* Blocks of a stage that choose from the same items. */
typedef struct group {
    const gal_cert_item *item;
    uint32_t item_count, block_count;
} group;

typedef struct choosing {
    group group[GAL_CERT_SORTS_MAX + 2];
    uint32_t group_count;
    double top, limit, price, relaxed; /* of a turn: items above it may not be had */
    double reach;                      /* sums further above the relaxation are left out */
    bool too_long;
    gal_cert_choice *room;
    list total, power;
} choosing;

static void add_end(const gal_cert_chains *v, const gal_cert_table *t, uint32_t block, bool first, gal_cert_item *room,
                    choosing *s)
{
    const gal_cert_menu *menu = &t->menu[v->t->sort_of[block]];
    for (uint32_t i = 0; i < menu->count; i++) {
        room[i] = menu->item[i];
        room[i].seconds += first ? room[i].first_seconds : room[i].last_seconds;
        room[i].bytes += first ? room[i].first_bytes : room[i].last_bytes;
    }
    s->group[s->group_count++] = (group){room, menu->count, 1};
}

static void list_groups(const gal_cert_chains *v, const gal_cert_table *t, const gal_cert_chain *c, choosing *s)
{
    add_end(v, t, c->begin, true, v->end_item, s);
    add_end(v, t, c->end - 1, false, v->end_item + v->t->strategy_count, s);
    for (uint32_t of = 0; of < v->t->sort_count; of++) {
        uint32_t count = 0;
        for (uint32_t b = c->begin + 1; b + 1 < c->end; b++) {
            count += v->t->sort_of[b] == of;
        }
        if (count > 0) {
            s->group[s->group_count++] = (group){t->menu[of].item, t->menu[of].count, count};
        }
    }
}

static gal_cert_choice cheapest_item(const choosing *s, const group *g, double rate, double price)
{
    gal_cert_choice least = {.cost = HUGE_VAL};
    for (uint32_t i = 0; i < g->item_count; i++) {
        if (g->item[i].turn_bytes <= s->top) {
            take_less(&least, choice_of(1.0, &g->item[i], 0.0, 0.0, rate, price));
        }
    }
    return least;
}

static gal_cert_choice cheapest_groups(const choosing *s, double rate, double price)
{
    gal_cert_choice sum = {0.0, 0.0, 0.0};
    for (uint32_t g = 0; g < s->group_count; g++) {
        const gal_cert_choice own = cheapest_item(s, &s->group[g], rate, price);
        add(&sum, s->group[g].block_count, &own);
    }
    return sum;
}

/* The best price, and what it proves; false: nothing fits. */
static bool relax(choosing *s)
{
    gal_cert_choice large = cheapest_groups(s, 1.0, 0.0);
    gal_cert_choice small = cheapest_groups(s, 0.0, 1.0);
    s->price = 0.0;
    s->relaxed = large.seconds;
    if (large.cost == HUGE_VAL || small.bytes > s->limit + 1e-9 * fabs(s->limit)) {
        return false;
    }
    for (uint32_t i = 0; i < SLOPES && large.bytes > s->limit && large.bytes > small.bytes; i++) {
        const double price = fmax((small.seconds - large.seconds) / (large.bytes - small.bytes), 0.0);
        const gal_cert_choice between = cheapest_groups(s, 1.0, price);
        if (between.cost - price * s->limit > s->relaxed) {
            s->relaxed = between.cost - price * s->limit;
            s->price = price;
        }
        if (between.cost >= (large.seconds + price * large.bytes) * (1.0 - 1e-12)) {
            break;
        }
        *(between.bytes > s->limit ? &large : &small) = between;
    }
    return true;
}

static int fewer_bytes(const void *x, const void *y)
{
    const gal_cert_choice *a = x;
    const gal_cert_choice *b = y;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    return a->seconds < b->seconds ? -1 : a->seconds > b->seconds;
}

static int less_cost(const void *x, const void *y)
{
    const gal_cert_choice *a = x;
    const gal_cert_choice *b = y;
    return a->cost < b->cost ? -1 : a->cost > b->cost;
}

/* Of `count` sums in the room those that no other beats, by rising cost: what they are above the relaxation. */
static void keep_best(choosing *s, uint32_t count, list *out)
{
    uint32_t kept = 0;
    double least = HUGE_VAL;
    qsort(s->room, count, sizeof *s->room, fewer_bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (s->room[i].seconds < least) {
            least = s->room[i].seconds;
            s->room[kept++] = s->room[i];
        }
    }
    s->too_long = s->too_long || kept > LIST;
    out->count = kept > LIST ? LIST : kept;
    qsort(s->room, kept, sizeof *s->room, less_cost);
    memcpy(out->sum, s->room, out->count * sizeof *out->sum);
}

static void add_lists(choosing *s, const list *a, const list *b, list *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count && !s->too_long; i++) {
        for (uint32_t j = 0; j < b->count && a->sum[i].cost + b->sum[j].cost <= s->reach; j++) {
            if (count == SUMS) {
                s->too_long = true;
                break;
            }
            s->room[count] = a->sum[i];
            add(&s->room[count++], 1.0, &b->sum[j]);
        }
    }
    keep_best(s, count, out);
}

/* All blocks of the group, by doubling. */
static void add_group(choosing *s, const group *g)
{
    const double least = cheapest_item(s, g, 1.0, s->price).cost;
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->item_count; i++) {
        gal_cert_choice own = choice_of(1.0, &g->item[i], 0.0, 0.0, 1.0, s->price);
        own.cost -= least;
        if (g->item[i].turn_bytes <= s->top && own.cost <= s->reach) {
            s->room[count++] = own;
        }
    }
    keep_best(s, count, &s->power);
    for (uint32_t left = g->block_count; left > 0 && !s->too_long; left /= 2) {
        if (left % 2 == 1) {
            add_lists(s, &s->total, &s->power, &s->total);
        }
        if (left > 1) {
            add_lists(s, &s->power, &s->power, &s->power);
        }
    }
}

/* Up to the cutoff. */
static double turn_least(choosing *s, double cutoff)
{
    double least = cutoff;
    s->reach = cutoff - s->relaxed;
    s->too_long = false;
    s->total.count = 1;
    s->total.sum[0] = (gal_cert_choice){0.0, 0.0, 0.0};
    for (uint32_t g = 0; g < s->group_count && !s->too_long; g++) {
        add_group(s, &s->group[g]);
    }
    for (uint32_t i = 0; i < s->total.count; i++) {
        const bool fits = s->total.sum[i].bytes <= s->limit + 1e-12 * fabs(s->limit);
        least = fits ? fmin(least, s->total.sum[i].seconds) : least;
    }
    return s->too_long ? s->relaxed : least;
}

/* Of a chain of several blocks, conversions left out; up to the cutoff. */
static gal_code whole_least(gal_cert_chains *v, const gal_cert_table *t, const gal_cert_chain *c, double cutoff,
                            double *least)
{
    choosing s = {0};
    const uint32_t turns = list_turns(v, t, c);
    if (v->sum == NULL) {
        v->sum = malloc((SUMS + 2 * (size_t)LIST) * sizeof *v->sum);
        if (v->sum == NULL) {
            return gal_fail(v->t->err, GAL_ERR_SYSTEM, "not enough memory to verify");
        }
    }
    s.room = v->sum;
    s.total.sum = v->sum + SUMS;
    s.power.sum = s.total.sum + LIST;
    list_groups(v, t, c, &s);
    *least = cutoff;
    for (uint32_t i = 0; i < turns; i++) {
        s.top = v->turn[i];
        s.limit = v->t->limit_bytes - s.top;
        if (relax(&s) && s.relaxed < *least) {
            *least = fmin(*least, turn_least(&s, *least));
        }
    }
    return GAL_OK;
}

/* ---- what is known of chains ---- */

void gal_cert_chain_line(gal_cert_chains *v, const gal_cert_kind *k, gal_cert_table *t)
{
    if (t->lined) {
        return;
    }
    price_menus(v, t, 1.0, 0.0, HUGE_VAL);
    for (uint32_t of = 0; of < v->t->sort_count; of++) {
        t->first[of] = v->first[of].cost;
        t->last[of] = v->last[of].cost;
        t->one[of] = v->one[of].cost;
        t->any[of] = v->least[of].cost;
    }
    for (uint32_t pair = 0; pair < v->t->pair_count; pair++) {
        t->pair[pair] = cheapest_pair(v, k, t, pair, 1.0).cost;
    }
    t->lined = true;
}

static double free_least(gal_cert_chains *v, const gal_cert_kind *k, gal_cert_table *t, const gal_cert_chain *c)
{
    gal_cert_chain_line(v, k, t);
    const uint32_t begin = v->t->sort_of[c->begin];
    double sum = t->first[begin] + t->last[v->t->sort_of[c->end - 1]];
    for (uint32_t pair = 0; pair < v->t->pair_count; pair++) {
        const uint32_t count = gal_cert_pairs(v->t, c->begin, c->end, pair);
        sum += count > 0 ? count * t->pair[pair] : 0.0;
    }
    return c->end - c->begin == 1 ? t->one[begin] : sum;
}

double gal_cert_chain_least(gal_cert_chains *v, const gal_cert_kind *k, gal_cert_table *t, uint32_t chain,
                            gal_cert_proof enough)
{
    if (t->proof[chain] < GAL_CERT_FREE) {
        t->least[chain] = free_least(v, k, t, &v->t->chain[chain]);
        t->proof[chain] = GAL_CERT_FREE;
    }
    if (t->proof[chain] < GAL_CERT_PRICED && enough >= GAL_CERT_PRICED && t->least[chain] < HUGE_VAL) {
        t->least[chain] = fmax(t->least[chain], priced_least(v, k, t, &v->t->chain[chain]));
        t->proof[chain] = GAL_CERT_PRICED;
    }
    return t->least[chain];
}

gal_code gal_cert_chain_tighten(gal_cert_chains *v, gal_cert_table *table, uint32_t chain, double cutoff_seconds)
{
    double least = 0.0;
    const gal_code code = whole_least(v, table, &v->t->chain[chain], cutoff_seconds, &least);
    if (code == GAL_OK) {
        const bool more = least >= cutoff_seconds && least > table->least[chain];
        table->proof[chain] = more ? GAL_CERT_PRICED : GAL_CERT_WHOLE;
        table->least[chain] = fmax(table->least[chain], least);
    }
    return code;
}

gal_code gal_cert_chains_create(gal_cert_tables *t, gal_cert_chains *out)
{
    gal_cert_chains v = {.t = t,
                         .best = malloc(((size_t)t->sort_count * (t->class_count + 4) + 1) * sizeof *v.best),
                         .turn = malloc(((size_t)t->sort_count * t->strategy_count + 1) * sizeof *v.turn),
                         .end_item = malloc((2 * (size_t)t->strategy_count + 1) * sizeof *v.end_item)};
    if (v.best == NULL || v.turn == NULL || v.end_item == NULL) {
        gal_cert_chains_free(&v);
        return gal_fail(t->err, GAL_ERR_SYSTEM, "not enough memory to verify");
    }
    v.least = v.best + (size_t)t->sort_count * t->class_count;
    v.first = v.least + t->sort_count;
    v.last = v.first + t->sort_count;
    v.one = v.last + t->sort_count;
    *out = v;
    return GAL_OK;
}

void gal_cert_chains_free(gal_cert_chains *chains)
{
    free(chains->sum);
    free(chains->end_item);
    free(chains->turn);
    free(chains->best);
    *chains = (gal_cert_chains){0};
}
