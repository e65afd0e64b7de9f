#include "planner/bound/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/mixture_ways.h"
#include "planner/bound/slope.h"

/* ---- a level under a price ---- */

typedef struct choice {
    double seconds, bytes;
} choice;

/* Costs at the price at hand: of half a block, of a whole one that begins a stage, that ends one, with what that adds.
 * Of each [type][class] the least; infinite: there is none. */
enum { HALF, FIRST, LAST, COST_COUNT };

/* Lines of a level: without a price, at its own, and of bytes. */
enum { NO_PRICE, OWN_PRICE, BYTES_ALONE, LINE_COUNT };

typedef struct level {
    const gal_mix_stage *stage;
    double top_bytes;           /* items above it may not be taken */
    double limit_bytes;         /* less what the level charges */
    const bool *changed;        /* [type] whose items differ from those of a bound that lines are of; NULL: all */
    bool needed[GAL_TYPES_MAX]; /* those, and their neighbours */
    bool at_end[GAL_TYPES_MAX]; /* the types that may begin or end a stage */
    double rate, price;         /* at hand: what a second and a byte cost */
    choice *best;               /* [type][class] of the least HALF */
    uint32_t *open;             /* [2 * class] room */
    double *cost[COST_COUNT];   /* FIRST and LAST: of lines that are filled */
    double *all;                /* room for costs of all lines of all levels */
    gal_mix_line *line;         /* where those are written that are tried */
} level;

static double least_of(double a, double b) /* fmin, inlined: no NaN comes here */
{
    return a < b ? a : b;
}

static size_t row_of(const level *l, uint32_t type)
{
    return (size_t)type * l->stage->class_count;
}

static bool is_changed(const level *l, uint32_t pair)
{
    const gal_block_types *types = l->stage->types;
    const uint32_t block = types->pair_first[pair];
    return l->changed == NULL || l->changed[types->type_of[block - 1]] || l->changed[types->type_of[block]];
}

static void find_needed(level *l)
{
    const gal_block_types *types = l->stage->types;
    const bool any = !l->stage->begins_chain || !l->stage->ends_chain;
    for (uint32_t type = 0; type < types->type_count; type++) {
        l->needed[type] = l->changed == NULL || l->changed[type];
        l->at_end[type] = any || type == types->type_of[0] || type == types->type_of[types->block_count - 1];
    }
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        const uint32_t block = types->pair_first[pair];
        const bool own = is_changed(l, pair);
        l->needed[types->type_of[block - 1]] = l->needed[types->type_of[block - 1]] || own;
        l->needed[types->type_of[block]] = l->needed[types->type_of[block]] || own;
    }
}

static void price_items(level *l, double rate, double price)
{
    const uint32_t types = l->stage->types->type_count;
    l->rate = rate;
    l->price = price;
    for (size_t i = 0; i < types * (size_t)l->stage->class_count; i++) {
        l->cost[HALF][i] = HUGE_VAL;
    }
    for (uint32_t type = 0; type < types; type++) {
        choice *best = &l->best[row_of(l, type)];
        double *half = &l->cost[HALF][row_of(l, type)];
        for (uint32_t i = 0; i < l->stage->menu[type].count && l->needed[type]; i++) {
            const gal_mix_item *item = &l->stage->menu[type].item[i];
            const double cost = 0.5 * (rate * item->seconds + price * item->bytes);
            const uint32_t own = item->class;
            if (item->turn_bytes <= l->top_bytes &&
                (cost < half[own] || (cost == half[own] && item->bytes < best[own].bytes))) {
                half[own] = cost;
                best[own] = (choice){item->seconds, item->bytes};
            }
        }
    }
}

/* A stage of one block begins and ends with it. */
static bool may_be_alone(const gal_mix_stage *stage, uint32_t type)
{
    const gal_block_types *types = stage->types;
    return (!stage->begins_chain || type == types->type_of[0]) &&
           (!stage->ends_chain || type == types->type_of[types->block_count - 1]);
}

/* ---- the costs of all levels ---- */

/* Levels by their tops, the lowest first: whoever may take an item of so many turn_bytes is one of the last. */
typedef struct level_list {
    uint32_t count;
    uint32_t level[GAL_MIX_LEVELS];
    double top[GAL_MIX_LEVELS], price[GAL_MIX_LEVELS];
} level_list;

static void list_level(level_list *list, uint32_t number, double top, double price)
{
    uint32_t at = list->count++;
    for (; at > 0 && list->top[at - 1] > top; at--) {
        list->level[at] = list->level[at - 1];
        list->top[at] = list->top[at - 1];
        list->price[at] = list->price[at - 1];
    }
    list->level[at] = number;
    list->top[at] = top;
    list->price[at] = price;
}

static uint32_t lowest_of(const level_list *list, double turn_bytes)
{
    uint32_t at = 0;
    while (at < list->count && list->top[at] < turn_bytes) {
        at++;
    }
    return at;
}

/* Of a line of a level: [cost][type][class], and behind them the least of a block alone, [type]. */
static size_t costs_room(const gal_mix_stage *stage)
{
    return stage->types->type_count * (COST_COUNT * (size_t)stage->class_count + 1);
}

static double *costs_of(const level *l, uint32_t number, uint32_t line)
{
    return l->all + (LINE_COUNT * (size_t)number + line) * costs_room(l->stage);
}

/* The least costs of one class, ONE of a whole type: by the place of the level in its list. */
enum { ONE = COST_COUNT, LEAST_COUNT };

typedef struct least_costs {
    double at[LINE_COUNT][LEAST_COUNT][GAL_MIX_LEVELS];
} least_costs;

static void clear_least(least_costs *least, uint32_t first, uint32_t end, uint32_t levels)
{
    for (uint32_t line = 0; line < LINE_COUNT; line++) {
        for (uint32_t i = first; i < end; i++) {
            for (uint32_t k = 0; k < levels; k++) {
                least->at[line][i][k] = HUGE_VAL;
            }
        }
    }
}

/* What an item costs as half a block and, with what ends add, as a whole one: at a rate and at the prices of some
 * levels. */
static void add_item(const gal_mix_stage *stage, const gal_mix_item *item, bool at_end, double rate,
                     const double *price, uint32_t first, uint32_t end, double least[LEAST_COUNT][GAL_MIX_LEVELS])
{
    const double begins = rate * item->first_seconds;
    const double ends = rate * item->last_seconds;
    const double first_bytes = stage->first_bytes[item->class];
    const double last_bytes = stage->last_bytes[item->class];
    for (uint32_t k = first; k < end; k++) {
        const double cost = rate * item->seconds + price[k] * item->bytes;
        least[HALF][k] = least_of(0.5 * cost, least[HALF][k]);
    }
    for (uint32_t k = first; k < end && at_end; k++) {
        const double cost = rate * item->seconds + price[k] * item->bytes;
        least[FIRST][k] = least_of(cost + begins + price[k] * first_bytes, least[FIRST][k]);
        least[LAST][k] = least_of(cost + ends + price[k] * last_bytes, least[LAST][k]);
        least[ONE][k] = least_of(cost + begins + ends, least[ONE][k]);
    }
}

/* Where the price is the same for all levels an item is noted at the lowest one: those above may take it too. */
static void write_least(const level *l, const level_list *list, uint32_t line, const least_costs *least, uint32_t from,
                        uint32_t cost, size_t place)
{
    double below = HUGE_VAL;
    for (uint32_t k = 0; k < list->count; k++) {
        const double own = least->at[line][from][k];
        below = line == OWN_PRICE ? own : least_of(own, below);
        costs_of(l, list->level[k], line)[(size_t)cost * l->stage->types->type_count * l->stage->class_count + place] =
            below;
    }
}

static void price_type(const level *l, const level_list *all, const level_list *priced, uint32_t type)
{
    static const double none[GAL_MIX_LEVELS] = {0.0};
    static const double one[GAL_MIX_LEVELS] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
                                               1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
    _Static_assert((int)GAL_MIX_LEVELS == 16, "as many ones");
    const gal_mix_stage *stage = l->stage;
    const gal_mix_menu *menu = &stage->menu[type];
    const bool alone = l->at_end[type] && may_be_alone(stage, type);
    least_costs least;
    clear_least(&least, 0, LEAST_COUNT, all->count);
    for (uint32_t i = 0; i < menu->count; i++) {
        const gal_mix_item *item = &menu->item[i];
        const uint32_t lowest = lowest_of(all, item->turn_bytes);
        const uint32_t end = lowest < all->count ? lowest + 1 : lowest;
        add_item(stage, item, l->at_end[type], 1.0, none, lowest, end, least.at[NO_PRICE]);
        add_item(stage, item, l->at_end[type], 0.0, one, lowest, end, least.at[BYTES_ALONE]);
        add_item(stage, item, l->at_end[type], 1.0, priced->price, lowest_of(priced, item->turn_bytes), priced->count,
                 least.at[OWN_PRICE]);
        if (i + 1 == menu->count || menu->item[i + 1].class != item->class) {
            for (uint32_t line = 0; line < LINE_COUNT; line++) {
                for (uint32_t cost = 0; cost < COST_COUNT; cost++) {
                    write_least(l, line == OWN_PRICE ? priced : all, line, &least, cost, cost,
                                row_of(l, type) + item->class);
                }
            }
            clear_least(&least, 0, COST_COUNT, all->count);
        }
    }
    if (!alone) {
        clear_least(&least, ONE, LEAST_COUNT, all->count);
    }
    for (uint32_t line = 0; line < LINE_COUNT; line++) {
        write_least(l, line == OWN_PRICE ? priced : all, line, &least, ONE, COST_COUNT, type);
    }
}

/* All items once. Lines at a price of 0 are those without one. */
static void price_levels(level *l, double turns[][2], const double *price, uint32_t count)
{
    const size_t costs = costs_room(l->stage);
    level_list all = {0};
    level_list priced = {0};
    for (uint32_t i = 0; i < count; i++) {
        list_level(&all, i, turns[i][1], 0.0);
        if (price[i] > 0.0) {
            list_level(&priced, i, turns[i][1], price[i]);
        }
    }
    for (size_t i = 0; i < LINE_COUNT * count * costs; i++) {
        l->all[i] = HUGE_VAL;
    }
    for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
        if (l->needed[type]) {
            price_type(l, &all, &priced, type);
        }
    }
}

/* At the costs at hand. */
static gal_mix_way cheapest_way(const level *l, uint32_t pair, int from_cost, int to_cost)
{
    const gal_block_types *types = l->stage->types;
    const uint32_t block = types->pair_first[pair];
    const double *from = &l->cost[from_cost][row_of(l, types->type_of[block - 1])];
    const double *to = &l->cost[to_cost][row_of(l, types->type_of[block])];
    return l->rate == 0.0 ? gal_mix_cheapest_apart(l->stage, from, to)
                          : gal_mix_cheapest_way(l->stage, pair, from, to, l->open);
}

/* The pairs of a line, and what they are made of for the counts that prices are made for. */
static gal_priced_choice write_pairs(level *l, double rate, double price, gal_mix_line *line)
{
    const gal_block_types *types = l->stage->types;
    gal_priced_choice sum = {0.0, 0.0};
    price_items(l, rate, price);
    line->constant = -price * l->limit_bytes;
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        if (!is_changed(l, pair)) {
            continue;
        }
        const double count = l->stage->pair_counts[pair];
        const uint32_t block = types->pair_first[pair];
        const gal_mix_way own = cheapest_way(l, pair, HALF, HALF);
        line->pair[pair] = own.cost;
        if (count > 0.0 && own.cost < HUGE_VAL) {
            const choice *from = &l->best[row_of(l, types->type_of[block - 1]) + own.from];
            const choice *to = &l->best[row_of(l, types->type_of[block]) + own.to];
            sum.seconds += count * (0.5 * (from->seconds + to->seconds) + own.conversion);
            sum.bytes += count * 0.5 * (from->bytes + to->bytes);
        } else if (count > 0.0) {
            sum = (gal_priced_choice){HUGE_VAL, HUGE_VAL};
        }
    }
    return sum;
}

/* ---- ends ---- */

/* Whether `behind` may follow `before` in a chain. */
static bool may_follow(const gal_block_types *types, uint32_t before, uint32_t behind)
{
    return types->type_of[types->pair_first[before]] == types->type_of[types->pair_first[behind] - 1];
}

/* What ends add, no more than a further pair and what ends there. */
static void write_floors(const gal_block_types *types, gal_mix_line *line)
{
    const uint32_t pairs = types->pair_count;
    memcpy(line->first_floor, line->first, pairs * sizeof *line->first);
    memcpy(line->last_floor, line->last, pairs * sizeof *line->last);
    bool again = true;
    for (uint32_t pass = 0; pass < pairs && again; pass++) {
        again = false;
        for (uint32_t a = 0; a < pairs; a++) {
            for (uint32_t b = 0; b < pairs; b++) {
                const double first = line->pair[a] + line->first_floor[a];
                const double last = line->pair[b] + line->last_floor[b];
                if (may_follow(types, a, b) && (first < line->first_floor[b] || last < line->last_floor[a])) {
                    line->first_floor[b] = least_of(line->first_floor[b], first);
                    line->last_floor[a] = least_of(line->last_floor[a], last);
                    again = true;
                }
            }
        }
    }
    memcpy(line->one_floor, line->one, types->type_count * sizeof *line->one);
    for (uint32_t pair = 0; pair < pairs; pair++) {
        const uint32_t block = types->pair_first[pair];
        double *from = &line->one_floor[types->type_of[block - 1]];
        double *to = &line->one_floor[types->type_of[block]];
        line->two_floor[pair] =
            least_of(line->two[pair], line->pair[pair] + line->first_floor[pair] + line->last_floor[pair]);
        *from = least_of(*from, line->two_floor[pair]);
        *to = least_of(*to, line->two_floor[pair]);
    }
}

static void write_ends(level *l, gal_mix_line *line)
{
    const gal_mix_stage *stage = l->stage;
    const gal_block_types *types = stage->types;
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        const double own = line->pair[pair];
        const bool begins = !stage->begins_chain || pair == types->pair_of[1];
        const bool ends = !stage->ends_chain || pair == types->pair_of[types->block_count - 1];
        if (!is_changed(l, pair)) {
            continue;
        }
        line->first[pair] = line->last[pair] = line->two[pair] = HUGE_VAL;
        if (own == HUGE_VAL) { /* the pair says so */
            line->first[pair] = line->last[pair] = 0.0;
            continue;
        }
        if (begins) {
            line->first[pair] = cheapest_way(l, pair, FIRST, HALF).cost - own;
        }
        if (ends) {
            line->last[pair] = cheapest_way(l, pair, HALF, LAST).cost - own;
        }
        if (begins && ends) {
            line->two[pair] = cheapest_way(l, pair, FIRST, LAST).cost;
        }
    }
}

/* A line of a level by the costs of another one's, or its own (price_levels). */
static void write_line(level *l, uint32_t number, uint32_t of, double rate, double price, gal_mix_line *line)
{
    const gal_block_types *types = l->stage->types;
    const size_t places = types->type_count * (size_t)l->stage->class_count;
    double *const own[COST_COUNT] = {l->cost[HALF], l->cost[FIRST], l->cost[LAST]};
    const double *one = costs_of(l, number, of) + COST_COUNT * places;
    for (int i = 0; i < COST_COUNT; i++) {
        l->cost[i] = costs_of(l, number, of) + (size_t)i * places;
    }
    l->rate = rate;
    l->price = price;
    line->constant = -price * l->limit_bytes;
    for (uint32_t type = 0; type < types->type_count; type++) {
        line->one[type] = l->needed[type] ? one[type] : line->one[type];
    }
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        line->pair[pair] = is_changed(l, pair) ? cheapest_way(l, pair, HALF, HALF).cost : line->pair[pair];
    }
    write_ends(l, line);
    write_floors(types, line);
    memcpy(l->cost, own, sizeof own);
}

static gal_priced_choice write_priced(void *context, double price)
{
    level *l = context;
    return write_pairs(l, 1.0, price, l->line);
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
    double price;         /* best of the counts that prices are made for */
    double least;         /* their seconds at it */
} turn_band;

/* Doubles of a line. */
static size_t line_room(const gal_block_types *types)
{
    return 7 * (size_t)types->pair_count + 2 * (size_t)types->type_count;
}

static void lay_line(const gal_block_types *types, double *room, gal_mix_line *line)
{
    double **const of_pairs[] = {&line->pair,        &line->first,      &line->last,     &line->two,
                                 &line->first_floor, &line->last_floor, &line->two_floor};
    for (uint32_t i = 0; i < 7; i++, room += types->pair_count) {
        *of_pairs[i] = room;
    }
    line->one = room;
    line->one_floor = room + types->type_count;
}

static size_t lines_room(const gal_block_types *types)
{
    return 3 * (size_t)GAL_MIX_LEVELS * line_room(types);
}

static void lay_level(const gal_block_types *types, gal_mix_bound *bound, uint32_t at)
{
    gal_mix_line *const lines[] = {&bound->seconds[at][0], &bound->seconds[at][1], &bound->bytes[at]};
    for (uint32_t i = 0; i < 3; i++) {
        lay_line(types, bound->memory + (3 * at + i) * line_room(types), lines[i]);
    }
}

static void begin_level(gal_mix_bound *bound, level *l, uint32_t at, double bottom, double top)
{
    bound->turns[at][0] = bottom;
    bound->turns[at][1] = l->top_bytes = top;
    l->limit_bytes = l->stage->limit_bytes - bottom;
    lay_level(l->stage->types, bound, at);
    l->line = &bound->seconds[at][1];
}

/* Lines of the bound's levels at their prices. */
static void fill_lines(gal_mix_bound *bound, level *l, double turns[][2], const double *price, uint32_t count)
{
    price_levels(l, turns, price, count);
    for (uint32_t i = 0; i < count; i++) {
        gal_mix_line *const lines = bound->seconds[i];
        begin_level(bound, l, i, turns[i][0], turns[i][1]);
        write_line(l, i, price[i] > 0.0 ? OWN_PRICE : NO_PRICE, 1.0, price[i], &lines[1]);
        if (price[i] > 0.0) {
            write_line(l, i, NO_PRICE, 1.0, 0.0, &lines[0]);
        } else {
            memcpy(lines[0].pair, lines[1].pair, line_room(l->stage->types) * sizeof *lines[0].pair);
            lines[0].constant = lines[1].constant;
        }
        write_line(l, i, BYTES_ALONE, 0.0, 1.0, &bound->bytes[i]);
        bound->price[i] = price[i];
    }
}

/* Finds the band's best price; infinite seconds: nothing fits. */
static void price_band(gal_mix_bound *bound, level *l, const double *turn, uint32_t at, turn_band *band)
{
    const gal_block_types *types = l->stage->types;
    begin_level(bound, l, at, turn[band->bottom], turn[band->top]);
    const gal_slope slope = gal_best_slope(write_priced, l, l->limit_bytes);
    band->price = slope.price;
    band->least = slope.best.seconds + slope.price * (slope.best.bytes - l->limit_bytes);
    (void)write_pairs(l, 0.0, 1.0, l->line);
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        if (l->stage->pair_counts[pair] > 0.0 && l->line->pair[pair] == HUGE_VAL) {
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

static void fill_levels(gal_mix_bound *bound, level *l, const double *turn, uint32_t turn_count)
{
    turn_band bands[GAL_MIX_LEVELS];
    double turns[GAL_MIX_LEVELS][2];
    double price[GAL_MIX_LEVELS];
    uint32_t count = turn_count > 0 ? 1 : 0;
    if (turn_count > 0) {
        bands[0] = (turn_band){.top = turn_count - 1};
        price_band(bound, l, turn, 0, &bands[0]);
    }
    while (count > 0 && count < GAL_MIX_LEVELS) {
        const uint32_t at = loosest(bands, count);
        if (at == count) {
            break;
        }
        const uint32_t middle = (bands[at].bottom + bands[at].top) / 2;
        bands[count] = (turn_band){.bottom = middle + 1, .top = bands[at].top};
        bands[at].top = middle;
        price_band(bound, l, turn, at, &bands[at]);
        price_band(bound, l, turn, count, &bands[count]);
        count++;
    }
    bound->level_count = count;
    bound->least_seconds = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        turns[i][0] = turn[bands[i].bottom];
        turns[i][1] = turn[bands[i].top];
        price[i] = bands[i].price;
        if (bands[i].least < bound->least_seconds) {
            bound->least_seconds = bands[i].least;
            bound->least_level = i;
        }
    }
    fill_lines(bound, l, turns, price, count);
}

/* What other items had beaten in the menus that levels are of may be left in these: a level charges no more than the
 * least of such that no lower level has, and the highest takes all. */
static void widen_level(const level *l, const gal_mix_bound *like, uint32_t at, double turns[2])
{
    double below = -1.0; /* top of the next lower level */
    bool highest = true;
    memcpy(turns, like->turns[at], sizeof like->turns[at]);
    for (uint32_t i = 0; i < like->level_count; i++) {
        const double top = like->turns[i][1];
        below = top < turns[0] && top > below ? top : below;
        highest = highest && top <= turns[1];
    }
    for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
        for (uint32_t i = 0; i < l->stage->menu[type].count; i++) {
            const double own = l->stage->menu[type].item[i].turn_bytes;
            turns[0] = own > below && own < turns[0] ? own : turns[0];
        }
    }
    turns[1] = highest ? HUGE_VAL : turns[1];
}

static void fill_levels_like(gal_mix_bound *bound, level *l, const gal_mix_bound *like, double scale)
{
    memcpy(bound->memory, like->memory, lines_room(l->stage->types) * sizeof *bound->memory);
    double turns[GAL_MIX_LEVELS][2];
    double price[GAL_MIX_LEVELS];
    for (uint32_t i = 0; i < like->level_count; i++) {
        widen_level(l, like, i, turns[i]);
        price[i] = scale * like->price[i];
    }
    fill_lines(bound, l, turns, price, like->level_count);
    bound->level_count = like->level_count;
    bound->least_seconds = like->least_seconds;
    bound->least_level = like->least_level;
}

static void note_least(const gal_mix_stage *stage, gal_mix_bound *bound)
{
    double first = 0.0;
    double last = 0.0;
    for (uint32_t type = 0; type < stage->types->type_count; type++) {
        bound->least[type] = HUGE_VAL;
        for (uint32_t i = 0; i < stage->menu[type].count; i++) {
            const gal_mix_item *item = &stage->menu[type].item[i];
            bound->least[type] = least_of(bound->least[type], item->seconds);
            first = least_of(first, item->first_seconds);
            last = least_of(last, item->last_seconds);
        }
    }
    bound->gain = first + last;
}

/* like: NULL, or where levels and prices are from; changed: the types whose menus differ from its own. */
static gal_code create(const gal_mix_stage *stage, const gal_mix_bound *like, const bool *changed, double scale,
                       gal_mix_bound *out, gal_error *err)
{
    const gal_block_types *types = stage->types;
    const size_t lines = lines_room(types);
    const size_t places = (size_t)types->type_count * stage->class_count;
    size_t items = 1;
    for (uint32_t type = 0; type < types->type_count; type++) {
        items += stage->menu[type].count;
    }
    level l = {.stage = stage,
               .changed = changed,
               .best = malloc((places + 1) * sizeof *l.best),
               .open = malloc((2 * (size_t)stage->class_count + 1) * sizeof *l.open),
               .cost = {malloc((places + 1) * sizeof *l.cost[0])},
               .all = malloc(GAL_MIX_LEVELS * LINE_COUNT * costs_room(stage) * sizeof *l.all)};
    *out = (gal_mix_bound){.pair_count = types->pair_count,
                           .memory = malloc((lines + types->type_count + items) * sizeof(double))};
    const bool have = out->memory != NULL && l.best != NULL && l.open != NULL && l.cost[HALF] != NULL && l.all != NULL;
    if (have) {
        find_needed(&l);
        out->least = out->memory + lines;
        note_least(stage, out);
        if (like == NULL) {
            double *turn = out->least + types->type_count;
            const uint32_t turns = list_turns(stage, turn);
            fill_levels(out, &l, turn, turns);
        } else {
            fill_levels_like(out, &l, like, scale);
        }
    }
    free(l.all);
    free(l.cost[HALF]);
    free(l.open);
    free(l.best);
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

gal_code gal_mix_bound_create(const gal_mix_stage *stage, gal_mix_bound *out, gal_error *err)
{
    return create(stage, NULL, NULL, 1.0, out, err);
}

gal_code gal_mix_bound_create_like(const gal_mix_stage *stage, const gal_mix_bound *like, const bool *changed,
                                   double scale, gal_mix_bound *out, gal_error *err)
{
    return create(stage, like, changed, scale, out, err);
}

gal_code gal_mix_bound_copy(const gal_block_types *types, const gal_mix_bound *from, gal_mix_bound *out, gal_error *err)
{
    const size_t count = lines_room(types) + types->type_count;
    double *memory = malloc(count * sizeof *memory);
    if (memory == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    *out = *from;
    out->memory = memcpy(memory, from->memory, count * sizeof *memory);
    out->least = memory + lines_room(types);
    for (uint32_t i = 0; i < out->level_count; i++) {
        lay_level(types, out, i);
    }
    return GAL_OK;
}

void gal_mix_bound_free(gal_mix_bound *bound)
{
    free(bound->memory);
    *bound = (gal_mix_bound){0};
}
