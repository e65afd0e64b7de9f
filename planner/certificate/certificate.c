#include "planner/certificate/certificate.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "planner/certificate/certificate_cuts.h"

/* Of a device: more than any plan takes. */
static const uint64_t unlimited_bytes = UINT64_C(1) << 56;

enum { BANDS = 8, CHARGES = 3, SLOPES = 40, TIGHTENINGS = 60, WEIGHTS = 9, CONVERSION_WORK = 10000 };

typedef gal_cert_choice choice;

static const choice nothing = {0.0, 0.0, 0.0}, none = {HUGE_VAL, HUGE_VAL, 0.0};

typedef gal_cert_chain chain;

/* What is tried in turn: blocks without what converts their rows, with that, whole ones. */
typedef enum effort { BLOCKS, CONVERSIONS, WHOLE } effort;

/* What is known of the chains of a kind of stage. */
typedef struct table {
    double *least, ends_seconds; /* gal_cert_menus */
    uint32_t band_count;         /* equal parts of the turns; 0: prices are not known yet */
    double price[BANDS];         /* best seconds per byte of an even share of the blocks */
    double limit[BANDS];         /* bytes */
    double *best;                /* [position][type][charge][band] cost of a block */
    double **row; /* [end][blocks - 1] seconds at least; [end][all blocks + blocks - 1] whether that is exact; all of
                     the first stage in [0] */
    uint32_t *filled, age; /* [end] the age of what is in the row; now */
} table;

typedef struct prover {
    gal_cert_prices t;
    double rounds;             /* how often the slowest stage counts */
    double weight, good, most; /* of the first stage's tail; a bound is not raised beyond; slower stages are no use */
    double best_weight;        /* that showed most by less effort; 0: none yet */
    double limit_bytes, top, limit; /* of the open menus items above are left out, so many bytes are left */
    effort effort;
    uint64_t work;                       /* blocks looked at, times the ways between their classes */
    uint32_t classes;                    /* one where conversions cost nothing */
    uint32_t *order;                     /* [class] the cheapest rest first, of the block behind */
    choice *best;                        /* [position][type][class] at the price at hand */
    choice *rest;                        /* [block][class] of the chain at hand: cheapest from there to its end */
    double *on;                          /* likewise: cost of what comes behind the block */
    gal_cert_list *list, arrival, spare; /* [2][class], and two more */
    table (*table)[GAL_CERT_TABLES];     /* [kind] */
    uint32_t tables;                     /* one where they are the same, or added is all: kernels, one stage */
    gal_cert_cuts cuts;
    chain *cut;            /* [stage] of the cheapest; of the one at hand */
    double *before, ahead; /* [block] of the chain at hand: what those before it cost at least, those behind */
} prover;

static table *table_of(const prover *v, uint32_t kind, uint32_t of)
{
    return &v->table[kind][of % v->tables];
}

/* To price a conversion takes at least as long as to look at so many blocks. */
static bool is_spent(const prover *v)
{
    return v->work + CONVERSION_WORK * v->t.asked_count > v->t.cell->work_limit;
}

/* ---- a price per byte ---- */

static choice *best_of(const prover *v, gal_cert_position at, uint32_t type)
{
    return &v->best[((size_t)at * v->t.types.type_count + type) * v->classes];
}

/* Between the classes, in front of the block. Once all is spent one that nobody has asked for counts as nothing. */
static double conversion(prover *v, uint32_t block, uint32_t from, uint32_t to)
{
    const uint32_t pair = v->t.types.pair_of[block];
    return is_spent(v) && !gal_cert_conversion_is_known(&v->t, pair, from, to)
               ? 0.0
               : gal_cert_conversion(&v->t, pair, from, to);
}

/* Puts the classes in order, which nearly is that of the block before. */
static void sort_classes(prover *v, const choice *rest)
{
    for (uint32_t i = 1; i < v->classes; i++) {
        const uint32_t own = v->order[i];
        uint32_t at = i;
        for (; at > 0 && rest[own].cost < rest[v->order[at - 1]].cost; at--) {
            v->order[at] = v->order[at - 1];
        }
        v->order[at] = own;
    }
}

/* From the class into the block and on to the end. */
static choice cheapest_on(prover *v, uint32_t block, uint32_t class, const choice *rest, double rate)
{
    choice least = rest[class];
    for (uint32_t i = 0; i < v->classes && rest[v->order[i]].cost < least.cost; i++) {
        const uint32_t to = v->order[i];
        if (to != class) {
            const double seconds = rate > 0.0 ? conversion(v, block, class, to) : 0.0;
            least = gal_cert_cheaper(least, gal_cert_joined(&(choice){rate * seconds, seconds, 0.0}, &rest[to]));
        }
    }
    return least;
}

/* The cheapest choice of the chain's blocks, backwards, without classes whose chains are `beyond` one of one class. */
static choice cheapest_chain(prover *v, const chain *c, double rate, double price, double beyond)
{
    const uint32_t classes = v->classes;
    choice least = none;
    if (classes == 1) {
        const bool whole = v->effort == WHOLE;
        v->work += c->end - c->begin;
        return gal_cert_chain_of_cheapest(&v->t, c, rate, price, v->top, whole ? v->rest : NULL, whole ? v->on : NULL);
    }
    gal_cert_menus_price(&v->t, rate, price, v->top, classes, v->best);
    const double most = gal_cert_menus_limit(&v->t, classes, v->best, c->begin, c->end, v->before) + beyond;
    v->ahead = 0.0;
    v->work += (uint64_t)(c->end - c->begin) * classes * classes;
    for (uint32_t block = c->end; block-- > c->begin;) {
        const bool last = block + 1 == c->end;
        const choice *own = best_of(v, last ? GAL_CERT_LAST : GAL_CERT_INSIDE, v->t.types.type_of[block]);
        const choice *first = best_of(v, last ? GAL_CERT_ALONE : GAL_CERT_FIRST, v->t.types.type_of[block]);
        choice *rest = &v->rest[(size_t)block * classes];
        for (uint32_t class = 0; class < classes; class ++) {
            const double here = gal_cert_lesser(own[class].cost, first[class].cost);
            const bool had = own[class].cost < HUGE_VAL && v->before[block] + here + v->ahead <= most;
            const choice next = last ? nothing : had ? cheapest_on(v, block + 1, class, rest + classes, rate) : none;
            v->on[(size_t)block * classes + class] = next.cost;
            rest[class] =
                v->before[block] + own[class].cost + next.cost <= most ? gal_cert_joined(&own[class], &next) : none;
            least = had && block == c->begin ? gal_cert_cheaper(least, gal_cert_joined(&first[class], &next)) : least;
        }
        sort_classes(v, rest);
        v->ahead = rest[v->order[0]].cost;
    }
    return least;
}

/* What the best price proves, and that price; infinity: nothing fits. */
static double relax(prover *v, const chain *c, double *price)
{
    choice large = cheapest_chain(v, c, 1.0, 0.0, 0.0);
    double least = large.cost;
    *price = 0.0;
    if (large.cost == HUGE_VAL || large.bytes <= v->limit) {
        return least;
    }
    choice small = cheapest_chain(v, c, 0.0, 1.0, 0.0);
    for (uint32_t i = 0; i < SLOPES && large.bytes > small.bytes && !is_spent(v); i++) {
        const double slope = fmax((small.seconds - large.seconds) / (large.bytes - small.bytes), 0.0);
        const choice between = cheapest_chain(v, c, 1.0, slope, 0.0);
        *price = between.cost - slope * v->limit > least ? slope : *price;
        least = fmax(least, between.cost - slope * v->limit);
        if (between.cost >= (large.seconds + slope * large.bytes) * (1.0 - 1e-12)) {
            break;
        }
        *(between.bytes > v->limit ? &large : &small) = between;
    }
    return small.bytes > v->limit + 1e-9 * fabs(v->limit) ? HUGE_VAL : least;
}

/* ---- whole blocks ---- */

static void merge(prover *v, gal_cert_list *into, const gal_cert_list *from, const choice *more, double price,
                  double most)
{
    gal_cert_merge(into, from, more, price, most, &v->spare);
    v->work += into->count;
}

/* Every way into the block's class, with the rest that was priced last. */
static void arrive(prover *v, const chain *c, uint32_t block, uint32_t class, double price, double most)
{
    const gal_cert_list *before = v->list + ((block + 1) % 2) * (size_t)v->classes;
    const double rest = v->rest[(size_t)block * v->classes + class].cost;
    v->arrival.count = block == c->begin ? 1 : 0;
    v->arrival.label[0] = (gal_cert_label){0.0, 0.0};
    for (uint32_t from = 0; from < v->classes && block > c->begin && rest < HUGE_VAL; from++) {
        if (gal_cert_list_least(&before[from], price) <= most - rest) { /* else not even for nothing */
            const choice more = {0.0, conversion(v, block, from, class), 0.0};
            merge(v, &v->arrival, &before[from], &more, price, most - rest);
        }
    }
}

/* Of every choice of the chain's blocks that takes less than the cutoff. */
static double whole_least(prover *v, const chain *c, double price, double cutoff)
{
    const double most = cutoff + price * v->limit;
    double least = cutoff;
    if (v->list == NULL) { /* two for each class, and two more; most cells are proved without */
        v->list = gal_cert_lists_take(&v->t.heap, 2 * (size_t)v->t.class_count + 2);
        v->arrival = v->list != NULL ? v->list[2 * v->t.class_count] : v->arrival;
        v->spare = v->list != NULL ? v->list[2 * v->t.class_count + 1] : v->spare;
    }
    for (uint32_t block = c->begin; block < c->end && v->t.heap.code == GAL_OK; block++) {
        const gal_cert_menu *menu = &v->t.menus.of[v->t.types.type_of[block]];
        const uint32_t at = (block == c->begin ? GAL_CERT_FIRST : 0U) + (block + 1 == c->end ? GAL_CERT_LAST : 0U);
        for (uint32_t class = 0; class < v->classes; class ++) {
            gal_cert_list *now = v->list + (block % 2) * (size_t)v->classes + class;
            const double on = v->on[(size_t)block * v->classes + class];
            now->count = 0;
            arrive(v, c, block, class, price, most);
            const double least_so_far = gal_cert_list_least(&v->arrival, price);
            for (uint32_t j = 0; j < menu->count; j++) {
                if (menu->item[j].class == class && menu->item[j].turn_bytes <= v->top) {
                    const choice more = gal_cert_choice_of(&menu->item[j], at, 1.0, price);
                    if (least_so_far + more.cost <= most - on) { /* else not even behind the cheapest arrival */
                        merge(v, now, &v->arrival, &more, price, most - on);
                    }
                }
            }
            least = block + 1 == c->end ? fmin(least, gal_cert_list_fastest(now, v->limit)) : least;
        }
    }
    return least;
}

/* By the menus at hand, items of these turns; up to the cutoff. */
static double chain_least(prover *v, const chain *c, uint32_t bottom, uint32_t top, double cutoff)
{
    const uint32_t middle = bottom + (top - bottom) / 2;
    double price = 0.0;
    v->top = v->t.menus.turn[top];
    v->limit = v->limit_bytes - v->t.menus.turn[bottom];
    const double relaxed = relax(v, c, &price);
    const bool shown = relaxed >= fmin(cutoff, v->good);
    if (shown || (bottom == top && v->effort < WHOLE) || is_spent(v)) {
        gal_cert_note(&v->t, shown, v->weight, price, v->top);
        return fmin(relaxed, cutoff);
    }
    if (bottom == top) {
        (void)cheapest_chain(v, c, 1.0, price, HUGE_VAL);
        return fmax(whole_least(v, c, price, cutoff), relaxed); /* two neighbours' least may be less than both */
    }
    return chain_least(v, c, middle + 1, top, chain_least(v, c, bottom, middle, cutoff));
}

/* ---- all chains of a stage ---- */

static double *best_cost(const prover *v, const table *t, gal_cert_position at, uint32_t type)
{
    return &t->best[((size_t)at * v->t.types.type_count + type) * CHARGES * BANDS];
}

/* By what is charged: seconds; bytes as well, at the best price; bytes alone. */
static void price_bands(prover *v, uint32_t kind, gal_cert_table of)
{
    table *t = table_of(v, kind, of);
    gal_cert_menus_open(&v->t, kind, of, v->weight, true);
    const uint32_t stage = v->t.kind[kind].stage, turns = v->t.menus.turn_count;
    const chain share = {v->t.blocks * stage / v->t.stages, v->t.blocks * (stage + 1) / v->t.stages};
    v->classes = 1;
    t->band_count = turns < BANDS ? turns : BANDS;
    for (uint32_t i = 0; i < CHARGES * t->band_count; i++) {
        const uint32_t band = i / CHARGES, charge = i % CHARGES;
        v->top = v->t.menus.turn[turns * (band + 1) / t->band_count - 1];
        t->limit[band] = v->limit = v->limit_bytes - v->t.menus.turn[turns * band / t->band_count];
        if (charge == 0) {
            (void)relax(v, &share, &t->price[band]);
        }
        gal_cert_menus_price(&v->t, charge < 2 ? 1.0 : 0.0, charge < 2 ? charge * t->price[band] : 1.0, v->top, 1,
                             v->best);
        for (uint32_t j = 0; j < GAL_CERT_POSITIONS * v->t.types.type_count; j++) {
            t->best[(j * CHARGES + charge) * BANDS + band] = v->best[j].cost;
        }
    }
}

/* From costs[charge][band]: the least of any band, none whose fewest bytes do not fit. */
static double least_of_bands(const table *t, const double *cost)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < t->band_count; i++) {
        const double priced = cost[BANDS + i] - t->price[i] * t->limit[i];
        const double own = cost[i] > priced ? cost[i] : priced;
        const bool fits = cost[2 * BANDS + i] <= t->limit[i] + 1e-9 * fabs(t->limit[i]);
        least = fits && own < least ? own : least;
    }
    return least;
}

/* The first stage's chains, or those that end there, block by block: without a price, or at the band's. */
static void fill_row(prover *v, uint32_t kind, gal_cert_table of, uint32_t end)
{
    table *t = table_of(v, kind, of);
    double rest[CHARGES * BANDS] = {0.0}, cost[CHARGES * BANDS];
    if (t->band_count == 0) {
        price_bands(v, kind, of);
    }
    double *row =
        t->row[end] != NULL ? t->row[end] : gal_heap_take_room(&v->t.heap, 2 * (size_t)v->t.blocks, sizeof *row);
    t->filled[end] = t->age;
    t->row[end] = row;
    for (uint32_t n = 0; row != NULL && n < v->t.blocks; n++) {
        const uint32_t block = kind == 0 ? n : end - 1 - n, begin = kind == 0 ? 0 : block; /* wraps beyond the first */
        row[n] = HUGE_VAL;
        row[v->t.blocks + n] = 0.0;
        if (block >= v->t.blocks || (n > 0 && v->cuts.far[(size_t)kind * v->t.blocks + begin] < begin + n + 1)) {
            continue;
        }
        const uint32_t type = v->t.types.type_of[block];
        const gal_cert_position here = kind == 0 ? GAL_CERT_FIRST : GAL_CERT_LAST, there = GAL_CERT_ALONE - here;
        const double *own = best_cost(v, t, n == 0 ? here : GAL_CERT_INSIDE, type);
        const double *outer = best_cost(v, t, n == 0 ? GAL_CERT_ALONE : there, type);
        for (uint32_t i = 0; i < CHARGES * BANDS; i++) {
            cost[i] = outer[i] + rest[i];
            rest[i] += own[i];
        }
        row[n] = least_of_bands(t, cost);
        v->work += CHARGES * t->band_count;
    }
}

/* What is known of a chain: behind it the seconds of longer ones (gal_cert_known), far behind whether it is exact. */
static double *known_of(prover *v, uint32_t stage, gal_cert_table of, const chain *c)
{
    const uint32_t kind = v->t.kind_of[stage], blocks = c->end - c->begin;
    const uint32_t end = kind == 0 ? 0 : v->t.like[c->end].common >= blocks ? v->t.like[c->end].end : c->end;
    table *t = table_of(v, kind, of);
    if (t->filled[end] != t->age) {
        fill_row(v, kind, of, end);
    }
    return t->row[end] == NULL ? v->cuts.sum : &t->row[end][blocks - 1]; /* without memory: any */
}

static const double *known(void *v, uint32_t stage, gal_cert_table of, const chain *c)
{
    return known_of(v, stage, of, c);
}

/* ---- cuts ---- */

/* How far stages reach that are less than `most` slow: what is known of chains is known so far. */
static void reach(prover *v, double most)
{
    if (most <= v->most) {
        return;
    }
    v->most = most;
    const uint32_t blocks = v->t.blocks;
    for (uint32_t kind = 0; kind < v->t.kind_count; kind++) {
        table *t = v->table[kind];
        t[GAL_CERT_ROUND].age++, t[GAL_CERT_ADDED].age++;
        gal_cert_reach(&v->t, t->least, t->ends_seconds, most, v->cuts.sum, &v->cuts.far[(size_t)kind * blocks]);
    }
}

/* Up to enough_seconds, and the cut that takes it. Less than `wanted`: some cut takes no more, so the least may be less
 * still. Every cut that is found rules out all that are as slow or slower. */
static double least_cut(prover *v, double wanted, double enough_seconds)
{
    double least = enough_seconds, most = v->most, sum = gal_cert_cuts_least(&v->cuts, most);
    while (sum < least && least >= wanted && v->t.heap.code == GAL_OK) {
        chain *cut = v->cut + v->t.stages;
        double slowest = 0.0;
        gal_cert_cuts_read(&v->cuts, most, cut);
        for (uint32_t p = 0; p < v->t.stages; p++) {
            slowest = fmax(slowest, *known_of(v, p, GAL_CERT_ROUND, &cut[p]));
        }
        if (v->rounds * slowest + sum < least) {
            least = v->rounds * slowest + sum;
            memcpy(v->cut, cut, v->t.stages * sizeof *cut);
        }
        most = fmin(slowest, (least - sum) / v->rounds);
        sum = v->rounds > 0.0 && slowest > 0.0 ? gal_cert_cuts_least(&v->cuts, most) : HUGE_VAL;
    }
    return least;
}

/* Counts the whole blocks of the cut's slowest stage, and of all like it. False: all of them are known. */
static bool tighten(prover *v, double lacking)
{
    const uint32_t blocks = v->t.blocks;
    uint32_t slowest = v->t.stages;
    double most = -1.0;
    for (uint32_t p = 0; p < v->t.stages; p++) {
        const double *known = known_of(v, p, v->rounds > 0.0 ? GAL_CERT_ROUND : GAL_CERT_ADDED, &v->cut[p]);
        slowest = known[blocks] == 0.0 && *known > most ? p : slowest;
        most = slowest == p ? *known : most;
    }
    for (gal_cert_table of = GAL_CERT_ROUND; of < GAL_CERT_TABLES && slowest < v->t.stages; of++) {
        double *known = known_of(v, slowest, of, &v->cut[slowest]);
        const double cutoff = *known + 1.1 * lacking / (of == GAL_CERT_ROUND ? fmax(v->rounds, 1.0) : 1.0);
        gal_cert_menus_open(&v->t, v->t.kind_of[slowest], of, v->weight, false);
        v->classes = v->t.class_count;
        *known = fmax(*known, chain_least(v, &v->cut[slowest], 0, v->t.menus.turn_count - 1, cutoff));
        known[blocks] = *known < cutoff ? 1.0 : 0.0;
    }
    return slowest < v->t.stages;
}

/* ---- a cell ---- */

/* What blocks take wherever they are, and ends of stages. */
static double least_anywhere(const prover *v, gal_cert_table of)
{
    double sum = 0.0;
    for (uint32_t b = 0; b < v->t.blocks; b++) {
        double least = HUGE_VAL;
        for (uint32_t kind = 0; kind < v->t.kind_count; kind++) {
            least = gal_cert_lesser(least, table_of(v, kind, of)->least[v->t.types.type_of[b]]);
        }
        sum += least + (b < v->t.stages ? table_of(v, v->t.kind_of[b], of)->ends_seconds : 0.0);
    }
    return sum;
}

/* Prices of all stages, or of what the weight is of. */
static void weigh(prover *v, double weight)
{
    const bool one = v->t.stages == 1; /* whose chain is looked at by these menus */
    v->weight = weight;
    v->most = weight == 0.0 ? -HUGE_VAL : v->most;
    v->table[0][GAL_CERT_ROUND].age++; /* what was counted */
    for (uint32_t i = weight == 0.0 ? 0 : v->tables - 1; i < v->tables * (weight == 0.0 ? v->t.kind_count : 1); i++) {
        table *t = table_of(v, i / v->tables, i % v->tables);
        gal_cert_menus_open(&v->t, i / v->tables, one ? GAL_CERT_ADDED : i % v->tables, weight,
                            !one || v->effort == BLOCKS);
        memcpy(t->least, v->t.menus.least, v->t.types.type_count * sizeof *t->least);
        t->age++;
        t->ends_seconds = v->t.menus.ends_seconds;
        t->band_count = 0;
    }
}

/* Under one weight of the first stage's tail; up to enough. Less than `wanted`: no bound, but one would be as low. */
static double prove(prover *v, double weight, double wanted, double enough)
{
    weigh(v, weight);
    const double added = gal_rounds_of_stage(&v->cuts.added, 0) * least_anywhere(v, GAL_CERT_ADDED);
    const double mean = fmax(least_anywhere(v, GAL_CERT_ROUND), 0.0) / v->t.stages;
    double least = v->rounds > 0.0 ? v->rounds * mean + added : added;
    if (least >= enough) {
        return least;
    }
    if (v->t.stages == 1) {
        v->classes = v->effort == BLOCKS ? 1 : v->t.class_count;
        return fmax(least, chain_least(v, &(chain){0, v->t.blocks}, 0, v->t.menus.turn_count - 1, enough));
    }
    gal_cert_number_likes(&v->t);
    reach(v, v->rounds > 0.0 ? (enough - added) / v->rounds : HUGE_VAL);
    for (uint32_t i = 0; i < TIGHTENINGS && least < enough && v->t.heap.code == GAL_OK; i++) {
        const double own = least_cut(v, v->effort == BLOCKS ? wanted : -HUGE_VAL, enough);
        least = fmax(least, own);
        if (least >= enough || v->effort < WHOLE || is_spent(v) || !tighten(v, enough - own)) {
            break;
        }
    }
    return least;
}

/* Under the best of some weights; where some types have kernels alone, those of 0. What a plan takes is linear in the
 * weight, so the least of all plans is concave: beyond a neighbour that is less there is no more. Of 0 and 1 first what
 * showed more by less effort, which rarely leaves anything to the other; of several stages 0, by which all their tables
 * are opened. */
static double prove_best(prover *v, double wanted, double enough)
{
    static const double weight[WEIGHTS] = {0.0, 1.0, 0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875};
    static const double near[WEIGHTS] = {1.0, 1.0, 1.0, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125};
    static const uint32_t count[GAL_CERT_SOURCES] = {1, 2, WEIGHTS};
    const bool again = v->t.priced_count > 0; /* of floors, which showed by which weight more is to be had */
    const bool by_tail = (v->t.source == GAL_CERT_FLOORS && !again) || v->best_weight >= 0.5;
    const double begin = v->t.stages == 1 && by_tail ? 1.0 : 0.0;
    double least = -HUGE_VAL, best = 0.0;
    for (uint32_t i = 0; i < (again ? 1 : count[v->t.source]) && least < v->good && (i < 2 || !is_spent(v)); i++) {
        const double tried = i < 2 ? fabs(begin - weight[i]) : weight[i];
        const double own = fabs(tried - best) <= near[i] ? prove(v, tried, fmax(least, wanted), enough) : -HUGE_VAL;
        best = own > least ? tried : best;
        least = fmax(least, own);
    }
    v->best_weight = v->t.source == GAL_CERT_KERNELS ? 0.0 : best;
    return least;
}

/* ---- all of it ---- */

static gal_code create(prover *v)
{
    gal_heap *h = &v->t.heap;
    const size_t types = v->t.types.type_count, blocks = v->t.blocks;
    const size_t classes = v->t.class_count > 0 ? v->t.class_count : 1;
    v->best = gal_heap_take_room(h, GAL_CERT_POSITIONS * types * classes, sizeof *v->best);
    v->rest = gal_heap_take_room(h, (blocks + 1) * classes, sizeof *v->rest);
    v->on = gal_heap_take_room(h, blocks * classes, sizeof *v->on);
    v->before = gal_heap_take_room(h, blocks + 1, sizeof *v->before);
    v->order = gal_heap_take_room(h, classes, sizeof *v->order);
    for (uint32_t class = 0; v->order != NULL && class < classes; class ++) {
        v->order[class] = class;
    }
    v->table = gal_heap_take(h, v->t.kind_count, sizeof *v->table);
    gal_cert_cuts_create(h, &v->cuts);
    v->cut = gal_heap_take(h, 2 * (size_t)v->t.stages, sizeof *v->cut);
    for (size_t i = 0; i < v->t.kind_count * (size_t)GAL_CERT_TABLES && h->code == GAL_OK; i++) {
        table *t = &v->table[i / GAL_CERT_TABLES][i % GAL_CERT_TABLES];
        t->least = gal_heap_take(h, types, sizeof *t->least);
        t->best = gal_heap_take(h, GAL_CERT_POSITIONS * types * CHARGES * BANDS, sizeof *t->best);
        t->row = gal_heap_take(h, blocks + 1, sizeof *t->row);
        t->filled = gal_heap_take(h, blocks + 1, sizeof *t->filled);
    }
    return h->code;
}

/* Raises the bound by so much. What converts rows is left to whole blocks where chains are cut. */
static gal_code raise_bound(const gal_certificate_sources *from, const gal_certificate_cell *cell,
                            gal_cert_source source, double enough, double good, gal_cert_notes *notes,
                            gal_certificate_proof *out, gal_error *err)
{
    const gal_round_counts rounds = gal_round_counts_of(cell->schedule, cell->pp_degree, cell->microbatch_count);
    prover v = {.rounds = cell->pp_degree == 1 ? 0.0 : rounds.slowest,
                .limit_bytes = (double)cell->arena_limit_bytes,
                .tables = source == GAL_CERT_KERNELS || cell->pp_degree == 1 ? 1 : GAL_CERT_TABLES};
    v.cuts = (gal_cert_cuts){.prices = &v.t, .known = known, .context = &v};
    if (source == GAL_CERT_KERNELS) { /* what tables of prices say has them in it */
        v.cuts.added = rounds;
    }
    const bool in_part = source == GAL_CERT_KERNELS; /* what they show in part others show better */
    double before = 0.0;
    bool more = true;
    gal_code code = gal_cert_prices_create(cell, from, source, &v.t, err);
    code = code == GAL_OK ? create(&v) : code;
    v.good = good - v.t.common_seconds;
    if (source == GAL_CERT_FLOORS && code == GAL_OK) {
        v.t.notes = *notes;
        (void)gal_cert_floors_more(&v.t);
    }
    while (more && v.effort <= (source == GAL_CERT_PRICED ? WHOLE : BLOCKS) && code == GAL_OK && out->seconds < good) {
        const double target = v.effort == BLOCKS ? enough : good;
        const double wanted = in_part ? target - v.t.common_seconds : -HUGE_VAL;
        const double own = prove_best(&v, wanted, target - v.t.common_seconds);
        code = v.t.heap.code;
        const bool all = own >= target - v.t.common_seconds;
        out->seconds = fmax(out->seconds, all ? target : in_part ? 0.0 : own + v.t.common_seconds);
        out->plain = v.effort == BLOCKS && out->seconds >= enough;
        /* some more prices, as long as they are likely to bring what is missing; all of them bring no less */
        const bool opened = source == GAL_CERT_FLOORS && out->seconds < good && gal_cert_floors_more(&v.t);
        more = source != GAL_CERT_FLOORS || opened ||
               (out->seconds < good && own - before >= 4.0 * (v.good - own) && gal_cert_prices_more(&v.t));
        before = opened ? before : own;
        v.effort += source == GAL_CERT_FLOORS ? 0 : cell->pp_degree == 1 ? 1 : WHOLE;
    }
    code = code == GAL_OK ? v.t.heap.code : code;
    *notes = v.t.notes;
    gal_cert_prices_free(&v.t);
    return code;
}

/* By every source in turn. */
static gal_code bound_cell(const gal_certificate_sources *from, const gal_certificate_cell *cell, double enough,
                           double good, gal_certificate_proof *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cert_notes notes = {0};
    for (gal_cert_source i = 0; i < GAL_CERT_SOURCES && code == GAL_OK && out->seconds < good; i++) {
        const bool skipped = i == GAL_CERT_FLOORS && cell->pp_degree > 1;
        code = skipped ? GAL_OK : raise_bound(from, cell, i, enough, good, &notes, out, err);
    }
    return code;
}

gal_code gal_certificate_bound(const gal_certificate_sources *from, const gal_certificate_cell *cell,
                               double enough_seconds, double good_seconds, gal_certificate_proof *out, gal_error *err)
{
    const bool divides = cell->device_count % cell->pp_degree == 0 &&
                         cell->global_batch_samples % cell->microbatch_count == 0 &&
                         cell->pp_degree <= gal_model_block_count(cell->model);
    const bool may_leave_out = cell->space->offload && !gal_price_cache_is_charged(from->cache);
    gal_code code = GAL_OK;
    *out = (gal_certificate_proof){divides ? 0.0 : HUGE_VAL, !divides};
    const bool on_devices = may_leave_out && cell->way != GAL_CERTIFICATE_AS_IT_IS;
    if (on_devices) {
        gal_space space = *cell->space;
        gal_certificate_cell without = *cell;
        space.offload = false;
        without.space = &space;
        without.arena_limit_bytes = unlimited_bytes;
        code = bound_cell(from, &without, enough_seconds, good_seconds, out, err);
    }
    return code == GAL_OK && !(on_devices && cell->way == GAL_CERTIFICATE_ON_DEVICES)
               ? bound_cell(from, cell, enough_seconds, good_seconds, out, err)
               : code;
}
