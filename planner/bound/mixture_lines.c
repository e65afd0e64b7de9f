#include "planner/bound/mixture_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/mixture_ways.h"

/* ---- a level under a price ---- */

static size_t row_of(const gal_mix_level *l, uint32_t type)
{
    return (size_t)type * l->stage->class_count;
}

static bool is_changed(const gal_mix_level *l, uint32_t pair)
{
    const gal_block_types *types = l->stage->types;
    const uint32_t block = types->pair_first[pair];
    return l->changed == NULL || l->changed[types->type_of[block - 1]] || l->changed[types->type_of[block]];
}

static void find_needed(gal_mix_level *l)
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

/* Whether to look at what neighbours that gather do not hide of each other. */
static void find_crowds(gal_mix_level *l)
{
    for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
        for (uint32_t i = 0; i < l->stage->menu[type].count; i++) {
            const gal_mix_item *item = &l->stage->menu[type].item[i];
            l->crowds = l->crowds || item->before_seconds > 0.0 || item->behind_seconds > 0.0;
        }
    }
}

static uint32_t halves_of(const gal_mix_level *l)
{
    return l->crowds ? GAL_MIX_HALVES : 1;
}

/* Of both halves of an item, with what one of that kind takes more, twice; infinite: it has none of the kind. */
static double half_seconds(const gal_mix_item *item, uint32_t half)
{
    const double more = half == GAL_MIX_BEFORE   ? item->before_seconds
                        : half == GAL_MIX_BEHIND ? item->behind_seconds
                                                 : 0.0;
    return half == GAL_MIX_OPEN && item->gathers ? HUGE_VAL : item->seconds + 2.0 * more;
}

static gal_priced_choice *best_of(const gal_mix_level *l, uint32_t half, uint32_t type)
{
    return &l->best[((size_t)half * l->stage->types->type_count + type) * l->stage->class_count];
}

static inline void take_half(const gal_mix_item *item, double seconds, double cost, double *half,
                             gal_priced_choice *best)
{
    const uint32_t own = item->class;
    if (cost < half[own] || (cost == half[own] && item->bytes < best[own].bytes)) {
        half[own] = cost;
        best[own] = (gal_priced_choice){seconds, item->bytes};
    }
}

/* Of all items, and of those that gather nothing. */
static void price_type_halves(gal_mix_level *l, uint32_t type)
{
    double *half = &l->cost[GAL_MIX_HALF][row_of(l, type)], *open = &l->cost[GAL_MIX_OPEN][row_of(l, type)];
    for (uint32_t i = 0; i < l->stage->menu[type].count; i++) {
        const gal_mix_item *item = &l->stage->menu[type].item[i];
        const double cost = 0.5 * (l->rate * item->seconds + l->price * item->bytes);
        if (item->turn_bytes <= l->top_bytes) {
            take_half(item, item->seconds, cost, half, best_of(l, GAL_MIX_HALF, type));
            if (l->crowds && !item->gathers) {
                take_half(item, item->seconds, cost, open, best_of(l, GAL_MIX_OPEN, type));
            }
        }
    }
}

static void clear_half(gal_mix_level *l, uint32_t kind)
{
    for (size_t i = 0; i < l->stage->types->type_count * (size_t)l->stage->class_count; i++) {
        l->cost[kind][i] = HUGE_VAL;
    }
}

static void price_items(gal_mix_level *l, double rate, double price)
{
    l->rate = rate;
    l->price = price;
    l->crowds_priced = false;
    clear_half(l, GAL_MIX_HALF);
    if (l->crowds) {
        clear_half(l, GAL_MIX_OPEN);
    }
    for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
        if (l->needed[type]) {
            price_type_halves(l, type);
        }
    }
}

/* Beside one that gathers: asked for where a pair of two that do looks least. */
static void price_crowds(gal_mix_level *l)
{
    for (uint32_t kind = GAL_MIX_BEFORE; kind <= GAL_MIX_BEHIND && !l->crowds_priced; kind++) {
        clear_half(l, kind);
        for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
            for (uint32_t i = 0; i < l->stage->menu[type].count && l->needed[type]; i++) {
                const gal_mix_item *item = &l->stage->menu[type].item[i];
                const double seconds = half_seconds(item, kind);
                const double cost = 0.5 * (l->rate * seconds + l->price * item->bytes);
                if (item->turn_bytes <= l->top_bytes) {
                    take_half(item, seconds, cost, &l->cost[kind][row_of(l, type)], best_of(l, kind, type));
                }
            }
        }
    }
    l->crowds_priced = true;
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
    return stage->types->type_count * (GAL_MIX_COST_COUNT * (size_t)stage->class_count + 1);
}

static double *costs_of(const gal_mix_level *l, uint32_t number, uint32_t line)
{
    return l->all + (GAL_MIX_LINE_COUNT * (size_t)number + line) * costs_room(l->stage);
}

/* The least costs of one class, ONE of a whole type: by the place of the level in its list. */
enum { ONE = GAL_MIX_COST_COUNT, LEAST_COUNT };

typedef struct least_costs {
    double at[GAL_MIX_LINE_COUNT][LEAST_COUNT][GAL_MIX_LEVELS];
} least_costs;

static void clear_least(least_costs *least, uint32_t first, uint32_t end, uint32_t levels)
{
    for (uint32_t line = 0; line < GAL_MIX_LINE_COUNT; line++) {
        for (uint32_t i = first; i < end; i++) {
            for (uint32_t k = 0; k < levels; k++) {
                least->at[line][i][k] = HUGE_VAL;
            }
        }
    }
}

/* What an item costs as half a block and, with what ends add, as a whole one: at a rate and at the prices of some
 * levels. */
static void add_item(const gal_mix_stage *stage, const gal_mix_item *item, uint32_t halves, bool at_end, double rate,
                     const double *price, uint32_t first, uint32_t end, double least[LEAST_COUNT][GAL_MIX_LEVELS])
{
    const double begins = rate * item->first_seconds;
    const double ends = rate * item->last_seconds;
    const double first_bytes = stage->first_bytes[item->class];
    const double last_bytes = stage->last_bytes[item->class];
    for (uint32_t kind = 0; kind < halves; kind++) {
        const double seconds = half_seconds(item, kind);
        for (uint32_t k = first; k < end && seconds < HUGE_VAL; k++) {
            const double cost = rate * seconds + price[k] * item->bytes;
            least[kind][k] = gal_mix_least_of(0.5 * cost, least[kind][k]);
        }
    }
    for (uint32_t k = first; k < end && at_end; k++) {
        const double cost = rate * item->seconds + price[k] * item->bytes;
        least[GAL_MIX_FIRST][k] = gal_mix_least_of(cost + begins + price[k] * first_bytes, least[GAL_MIX_FIRST][k]);
        least[GAL_MIX_LAST][k] = gal_mix_least_of(cost + ends + price[k] * last_bytes, least[GAL_MIX_LAST][k]);
        least[ONE][k] = gal_mix_least_of(cost + begins + ends, least[ONE][k]);
    }
}

/* Where the price is the same for all levels an item is noted at the lowest one: those above may take it too. */
static void write_least(const gal_mix_level *l, const level_list *list, uint32_t line, const least_costs *least,
                        uint32_t from, uint32_t cost, size_t place)
{
    double below = HUGE_VAL;
    for (uint32_t k = 0; k < list->count; k++) {
        const double own = least->at[line][from][k];
        below = line == GAL_MIX_OWN_PRICE ? own : gal_mix_least_of(own, below);
        costs_of(l, list->level[k], line)[(size_t)cost * l->stage->types->type_count * l->stage->class_count + place] =
            below;
    }
}

static void price_type(const gal_mix_level *l, const level_list *all, const level_list *priced, uint32_t type)
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
        add_item(stage, item, halves_of(l), l->at_end[type], 1.0, none, lowest, end, least.at[GAL_MIX_NO_PRICE]);
        add_item(stage, item, halves_of(l), l->at_end[type], 0.0, one, lowest, end, least.at[GAL_MIX_BYTES_ALONE]);
        add_item(stage, item, halves_of(l), l->at_end[type], 1.0, priced->price, lowest_of(priced, item->turn_bytes),
                 priced->count, least.at[GAL_MIX_OWN_PRICE]);
        if (i + 1 == menu->count || menu->item[i + 1].class != item->class) {
            for (uint32_t line = 0; line < GAL_MIX_LINE_COUNT; line++) {
                for (uint32_t cost = 0; cost < GAL_MIX_COST_COUNT; cost++) {
                    write_least(l, line == GAL_MIX_OWN_PRICE ? priced : all, line, &least, cost, cost,
                                row_of(l, type) + item->class);
                }
            }
            clear_least(&least, 0, GAL_MIX_COST_COUNT, all->count);
        }
    }
    if (!alone) {
        clear_least(&least, ONE, LEAST_COUNT, all->count);
    }
    for (uint32_t line = 0; line < GAL_MIX_LINE_COUNT; line++) {
        write_least(l, line == GAL_MIX_OWN_PRICE ? priced : all, line, &least, ONE, GAL_MIX_COST_COUNT, type);
    }
}

void gal_mix_price_levels(gal_mix_level *l, double turns[][2], const double *price, uint32_t count)
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
    for (size_t i = 0; i < GAL_MIX_LINE_COUNT * count * costs; i++) {
        l->all[i] = HUGE_VAL;
    }
    for (uint32_t type = 0; type < l->stage->types->type_count; type++) {
        if (l->needed[type]) {
            price_type(l, &all, &priced, type);
        }
    }
}

/* At the costs at hand. */
static gal_mix_way cheapest_way(const gal_mix_level *l, uint32_t pair, int from_cost, int to_cost)
{
    const gal_block_types *types = l->stage->types;
    const uint32_t block = types->pair_first[pair];
    const double *from = &l->cost[from_cost][row_of(l, types->type_of[block - 1])];
    const double *to = &l->cost[to_cost][row_of(l, types->type_of[block])];
    return l->rate == 0.0 ? gal_mix_cheapest_apart(l->stage, from, to)
                          : gal_mix_cheapest_way(l->stage, pair, from, to, l->open);
}

/* Two halves: of which kind, and in which classes. */
typedef struct pair_way {
    uint32_t from_half, to_half;
    gal_mix_way way;
} pair_way;

static void try_halves(const gal_mix_level *l, uint32_t pair, uint32_t from_half, uint32_t to_half, pair_way *best)
{
    const gal_mix_way own = cheapest_way(l, pair, (int)from_half, (int)to_half);
    if (own.cost < best->way.cost) {
        *best = (pair_way){from_half, to_half, own};
    }
}

/* Of two blocks one gathers nothing, or neither hides anything of the other. */
static pair_way cheapest_pair(gal_mix_level *l, uint32_t pair)
{
    const gal_block_types *types = l->stage->types;
    const uint32_t block = types->pair_first[pair];
    const size_t from = row_of(l, types->type_of[block - 1]), to = row_of(l, types->type_of[block]);
    pair_way best = {GAL_MIX_HALF, GAL_MIX_HALF, cheapest_way(l, pair, GAL_MIX_HALF, GAL_MIX_HALF)};
    const bool both = l->crowds && l->rate > 0.0 && best.way.cost < HUGE_VAL &&
                      l->cost[GAL_MIX_HALF][from + best.way.from] < l->cost[GAL_MIX_OPEN][from + best.way.from] &&
                      l->cost[GAL_MIX_HALF][to + best.way.to] < l->cost[GAL_MIX_OPEN][to + best.way.to];
    if (both) {
        price_crowds(l);
        best.way.cost = HUGE_VAL;
        try_halves(l, pair, GAL_MIX_BEHIND, GAL_MIX_BEFORE, &best);
        try_halves(l, pair, GAL_MIX_OPEN, GAL_MIX_HALF, &best);
        try_halves(l, pair, GAL_MIX_HALF, GAL_MIX_OPEN, &best);
    }
    return best;
}

gal_priced_choice gal_mix_write_pairs(gal_mix_level *l, double rate, double price, gal_mix_line *line)
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
        const pair_way own = cheapest_pair(l, pair);
        line->pair[pair] = own.way.cost;
        if (count > 0.0 && own.way.cost < HUGE_VAL) {
            const gal_priced_choice *from = best_of(l, own.from_half, types->type_of[block - 1]) + own.way.from;
            const gal_priced_choice *to = best_of(l, own.to_half, types->type_of[block]) + own.way.to;
            sum.seconds += count * (0.5 * (from->seconds + to->seconds) + own.way.conversion);
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
                    line->first_floor[b] = gal_mix_least_of(line->first_floor[b], first);
                    line->last_floor[a] = gal_mix_least_of(line->last_floor[a], last);
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
            gal_mix_least_of(line->two[pair], line->pair[pair] + line->first_floor[pair] + line->last_floor[pair]);
        *from = gal_mix_least_of(*from, line->two_floor[pair]);
        *to = gal_mix_least_of(*to, line->two_floor[pair]);
    }
}

static void write_ends(gal_mix_level *l, gal_mix_line *line)
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
            line->first[pair] = cheapest_way(l, pair, GAL_MIX_FIRST, GAL_MIX_HALF).cost - own;
        }
        if (ends) {
            line->last[pair] = cheapest_way(l, pair, GAL_MIX_HALF, GAL_MIX_LAST).cost - own;
        }
        if (begins && ends) {
            line->two[pair] = cheapest_way(l, pair, GAL_MIX_FIRST, GAL_MIX_LAST).cost;
        }
    }
}

void gal_mix_write_line(gal_mix_level *l, uint32_t number, gal_mix_line_kind of, double rate, double price,
                        gal_mix_line *line)
{
    const gal_block_types *types = l->stage->types;
    const size_t places = types->type_count * (size_t)l->stage->class_count;
    double *own[GAL_MIX_COST_COUNT];
    memcpy(own, l->cost, sizeof own);
    const double *one = costs_of(l, number, of) + GAL_MIX_COST_COUNT * places;
    for (int i = 0; i < GAL_MIX_COST_COUNT; i++) {
        l->cost[i] = costs_of(l, number, of) + (size_t)i * places;
    }
    l->rate = rate;
    l->price = price;
    l->crowds_priced = true;
    line->constant = -price * l->limit_bytes;
    for (uint32_t type = 0; type < types->type_count; type++) {
        line->one[type] = l->needed[type] ? one[type] : line->one[type];
    }
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        line->pair[pair] = is_changed(l, pair) ? cheapest_pair(l, pair).way.cost : line->pair[pair];
    }
    write_ends(l, line);
    write_floors(types, line);
    memcpy(l->cost, own, sizeof own);
}

/* ---- its room ---- */

gal_code gal_mix_level_create(const gal_mix_stage *stage, const bool *changed, gal_mix_level *out, gal_error *err)
{
    const size_t places = (size_t)stage->types->type_count * stage->class_count;
    gal_mix_level l = {.stage = stage,
                       .changed = changed,
                       .best = malloc((GAL_MIX_HALVES * places + 1) * sizeof *l.best),
                       .open = malloc((2 * (size_t)stage->class_count + 1) * sizeof *l.open),
                       .cost = {malloc((GAL_MIX_HALVES * places + 1) * sizeof *l.cost[0])},
                       .all = malloc(GAL_MIX_LEVELS * GAL_MIX_LINE_COUNT * costs_room(stage) * sizeof *l.all)};
    *out = l;
    if (l.best == NULL || l.open == NULL || l.cost[GAL_MIX_HALF] == NULL || l.all == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t half = 1; half < GAL_MIX_HALVES; half++) {
        out->cost[half] = out->cost[0] + half * places;
    }
    find_needed(out);
    find_crowds(out);
    return GAL_OK;
}

void gal_mix_level_free(gal_mix_level *l)
{
    free(l->all);
    free(l->cost[GAL_MIX_HALF]);
    free(l->open);
    free(l->best);
    *l = (gal_mix_level){0};
}
