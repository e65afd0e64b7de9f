#include "planner/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/slope.h"

/* ---- menus ---- */

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
           a->first_seconds <= b->first_seconds && a->last_seconds <= b->last_seconds;
}

uint32_t gal_mix_prune(gal_mix_item *item, uint32_t count)
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

/* ---- a level under a price ---- */

typedef struct choice {
    double seconds, bytes, cost;
} choice;

typedef struct level {
    const gal_mix_stage *stage;
    double top_bytes;            /* items above it may not be taken */
    double limit_bytes;          /* less what the level charges */
    choice *best;                /* [type][class] at the price at hand; cost infinite: none */
    double *least;               /* [type] of them */
    double *first, *last, *one;  /* [type] least cost of half a block that begins, ends a stage; of one that is all */
    double gain;                 /* least cost of what the ends add, bytes left out */
    gal_mix_line *free, *priced; /* where lines without and with a price are written */
} level;

static choice *best_of(const level *l, uint32_t type)
{
    return &l->best[(size_t)type * l->stage->class_count];
}

static double least_of(double a, double b) /* fmin, inlined: no NaN comes here */
{
    return a < b ? a : b;
}

/* rate: what a second costs, 1 or 0. */
static void price_items(level *l, double rate, double price)
{
    double gain[2] = {0.0, 0.0};
    for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
        choice *best = best_of(l, type);
        l->least[type] = HUGE_VAL;
        l->first[type] = l->last[type] = l->one[type] = HUGE_VAL;
        for (uint32_t class = 0; class < l->stage->class_count; class ++) {
            best[class].cost = HUGE_VAL;
        }
        for (uint32_t i = 0; i < l->stage->menu[type].count; i++) {
            const gal_mix_item *item = &l->stage->menu[type].item[i];
            const double cost = rate * item->seconds + price * item->bytes;
            choice *own = &best[item->class];
            if (item->turn_bytes > l->top_bytes) {
                continue;
            }
            if (cost < own->cost || (cost == own->cost && item->bytes < own->bytes)) {
                *own = (choice){item->seconds, item->bytes, cost};
            }
            const double first = rate * item->first_seconds + price * l->stage->first_bytes[item->class];
            const double last = rate * item->last_seconds + price * l->stage->last_bytes[item->class];
            gain[0] = least_of(gain[0], rate * item->first_seconds);
            gain[1] = least_of(gain[1], rate * item->last_seconds);
            l->least[type] = least_of(l->least[type], cost);
            l->first[type] = least_of(l->first[type], 0.5 * cost + first);
            l->last[type] = least_of(l->last[type], 0.5 * cost + last);
            l->one[type] = least_of(l->one[type], cost + rate * (item->first_seconds + item->last_seconds));
        }
    }
    l->gain = gain[0] + gain[1];
}

static choice half_of(const choice *a, const choice *b, double conversion)
{
    return (choice){0.5 * (a->seconds + b->seconds) + conversion, 0.5 * (a->bytes + b->bytes),
                    0.5 * (a->cost + b->cost) + conversion};
}

/* The cheapest half of two neighbours, converted between them where classes differ. */
static choice cheapest_pair(const level *l, uint32_t pair, double rate)
{
    const gal_block_types *types = l->stage->types;
    const uint32_t block = types->pair_first[pair];
    const choice *from = best_of(l, types->type_of[block - 1]);
    const choice *to = best_of(l, types->type_of[block]);
    const double least_to = l->least[types->type_of[block]];
    choice best = {.cost = HUGE_VAL};
    for (uint32_t class = 0; class < l->stage->class_count; class ++) {
        if (from[class].cost + to[class].cost < 2.0 * best.cost) {
            best = half_of(&from[class], &to[class], 0.0);
        }
    }
    for (uint32_t a = 0; a < l->stage->class_count; a++) {
        for (uint32_t b = 0; b < l->stage->class_count && from[a].cost + least_to < 2.0 * best.cost; b++) {
            if (a != b && from[a].cost + to[b].cost < 2.0 * best.cost) {
                const double conversion = rate > 0.0 ? l->stage->conversion(l->stage->context, pair, a, b) : 0.0;
                const choice own = half_of(&from[a], &to[b], rate * conversion);
                best = own.cost < best.cost ? own : best;
            }
        }
    }
    return best;
}

/* A line, and what it is made of for the counts that prices are made for. */
static gal_priced_choice write_line(level *l, double rate, double price, gal_mix_line *line)
{
    const gal_block_types *types = l->stage->types;
    gal_priced_choice sum = {0.0, 0.0};
    price_items(l, rate, price);
    line->constant = -price * l->limit_bytes;
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        const double count = l->stage->pair_counts[pair];
        const choice own = cheapest_pair(l, pair, rate);
        line->pair[pair] = own.cost;
        if (count > 0.0) {
            sum.seconds += count * own.seconds;
            sum.bytes += count * own.bytes;
        }
    }
    memcpy(line->first, l->first, types->type_count * sizeof *line->first);
    memcpy(line->last, l->last, types->type_count * sizeof *line->last);
    memcpy(line->one, l->one, types->type_count * sizeof *line->one);
    for (uint32_t type = 0; type < types->type_count; type++) {
        line->half[type] = 0.5 * l->least[type];
    }
    line->gain = l->gain;
    return sum;
}

static gal_priced_choice write_priced(void *context, double price)
{
    level *l = context;
    return write_line(l, 1.0, price, price > 0.0 ? l->priced : l->free);
}

/* ---- levels ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The turn_bytes of all items, ascending, each once; returns how many. */
static uint32_t list_turns(const gal_mix_stage *stage, double *out)
{
    uint32_t count = 0;
    uint32_t kept = 0;
    for (uint32_t type = 0; type < stage->types->type_count; type++) {
        for (uint32_t i = 0; i < stage->menu[type].count; i++) {
            out[count++] = stage->menu[type].item[i].turn_bytes;
        }
    }
    qsort(out, count, sizeof *out, ascending);
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || out[i] != out[kept - 1]) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* Items whose turn_bytes are among these. */
typedef struct turn_band {
    uint32_t bottom, top; /* of the list of turns */
    double least;         /* seconds of the counts that prices are made for */
} turn_band;

static void fill_level(gal_mix_bound *bound, level *l, const double *turn, uint32_t at, turn_band *band)
{
    const gal_block_types *types = l->stage->types;
    const size_t line = (size_t)types->pair_count + 4 * types->type_count;
    gal_mix_line *const lines[] = {&bound->seconds[at][0], &bound->seconds[at][1], &bound->bytes[at]};
    l->top_bytes = turn[band->top];
    l->limit_bytes = l->stage->limit_bytes - turn[band->bottom];
    for (uint32_t i = 0; i < 3; i++) {
        lines[i]->pair = bound->memory + (3 * at + i) * line;
        lines[i]->first = lines[i]->pair + types->pair_count;
        lines[i]->last = lines[i]->first + types->type_count;
        lines[i]->one = lines[i]->last + types->type_count;
        lines[i]->half = lines[i]->one + types->type_count;
    }
    l->free = lines[0];
    l->priced = lines[1];
    const gal_slope slope = gal_best_slope(write_priced, l, l->limit_bytes);
    band->least = slope.best.seconds + slope.price * (slope.best.bytes - l->limit_bytes);
    if (!(slope.price > 0.0)) {
        memcpy(lines[1]->pair, lines[0]->pair, line * sizeof *lines[0]->pair);
        lines[1]->constant = lines[0]->constant;
        lines[1]->gain = lines[0]->gain;
    }
    (void)write_line(l, 0.0, 1.0, lines[2]);
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        if (l->stage->pair_counts[pair] > 0.0 && lines[2]->pair[pair] == HUGE_VAL) {
            band->least = HUGE_VAL;
        }
    }
}

/* The band to be split: the least, if it is more than one turn. */
static uint32_t loosest(const turn_band *band, uint32_t count)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < count; i++) {
        least = band[i].least < band[least].least ? i : least;
    }
    return band[least].top > band[least].bottom ? least : count;
}

static void fill_levels(gal_mix_bound *bound, level *l, const double *turn, uint32_t turns)
{
    turn_band bands[GAL_MIX_LEVELS];
    uint32_t count = turns > 0 ? 1 : 0;
    if (turns > 0) {
        bands[0] = (turn_band){.top = turns - 1};
        fill_level(bound, l, turn, 0, &bands[0]);
    }
    while (count > 0 && count < GAL_MIX_LEVELS) {
        const uint32_t at = loosest(bands, count);
        if (at == count) {
            break;
        }
        const uint32_t middle = (bands[at].bottom + bands[at].top) / 2;
        bands[count] = (turn_band){.bottom = middle + 1, .top = bands[at].top};
        bands[at].top = middle;
        fill_level(bound, l, turn, at, &bands[at]);
        fill_level(bound, l, turn, count, &bands[count]);
        count++;
    }
    bound->level_count = count;
    bound->least_seconds = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        if (bands[i].least < bound->least_seconds) {
            bound->least_seconds = bands[i].least;
            bound->least_level = i;
        }
        bound->turns[i][0] = turn[bands[i].bottom];
        bound->turns[i][1] = turn[bands[i].top];
    }
}

gal_code gal_mix_bound_create(const gal_mix_stage *stage, gal_mix_bound *out, gal_error *err)
{
    const gal_block_types *types = stage->types;
    const size_t lines = 3 * (size_t)GAL_MIX_LEVELS * (types->pair_count + 4 * types->type_count);
    size_t items = 1;
    for (uint32_t type = 0; type < types->type_count; type++) {
        items += stage->menu[type].count;
    }
    level l = {.stage = stage,
               .best = malloc((size_t)types->type_count * stage->class_count * sizeof *l.best),
               .least = malloc(4 * types->type_count * sizeof *l.least)};
    *out = (gal_mix_bound){.pair_count = types->pair_count, .memory = malloc((lines + items) * sizeof(double))};
    const bool have = out->memory != NULL && l.best != NULL && l.least != NULL;
    if (have) {
        l.first = l.least + types->type_count;
        l.last = l.first + types->type_count;
        l.one = l.last + types->type_count;
        double *turn = out->memory + lines;
        const uint32_t turns = list_turns(stage, turn);
        fill_levels(out, &l, turn, turns);
    }
    free(l.least);
    free(l.best);
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

void gal_mix_bound_free(gal_mix_bound *bound)
{
    free(bound->memory);
    *bound = (gal_mix_bound){0};
}

/* Of the pairs; *one: there are none. */
static double value_of_pairs(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count, bool *one)
{
    double sum = line->constant;
    *one = true;
    for (uint32_t pair = 0; pair < pair_count; pair++) {
        const uint32_t count = chain->behind[pair] - chain->before[pair];
        if (count > 0) {
            sum += count * line->pair[pair];
            *one = false;
        }
    }
    return sum;
}

static double value(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count)
{
    bool one;
    const double pairs = value_of_pairs(line, chain, pair_count, &one);
    return one ? line->constant + line->one[chain->first_type]
               : pairs + line->first[chain->first_type] + line->last[chain->last_type];
}

static double floor_of(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count)
{
    bool one;
    return value_of_pairs(line, chain, pair_count, &one) + line->half[chain->first_type] +
           line->half[chain->last_type] + line->gain;
}

/* Over the levels on which something fits. */
static double least_level(const gal_mix_bound *bound, const gal_mix_chain *chain,
                          double (*of)(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count))
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < bound->level_count; i++) {
        if (of(&bound->bytes[i], chain, bound->pair_count) <= 1e-9 * fabs(bound->bytes[i].constant)) {
            const double own = of(&bound->seconds[i][0], chain, bound->pair_count);
            const double priced = of(&bound->seconds[i][1], chain, bound->pair_count);
            least = least_of(least, own > priced ? own : priced);
        }
    }
    return least;
}

double gal_mix_least(const gal_mix_bound *bound, const gal_mix_chain *chain)
{
    return least_level(bound, chain, value);
}

double gal_mix_floor(const gal_mix_bound *bound, const gal_mix_chain *chain)
{
    return least_level(bound, chain, floor_of);
}
