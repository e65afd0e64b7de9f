#include "planner/bound/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/mixture_lines.h"

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

static void begin_level(gal_mix_bound *bound, gal_mix_level *l, uint32_t at, double bottom, double top)
{
    bound->turns[at][0] = bottom;
    bound->turns[at][1] = l->top_bytes = top;
    l->limit_bytes = l->stage->limit_bytes - bottom;
    lay_level(l->stage->types, bound, at);
    l->line = &bound->seconds[at][1];
}

/* Lines of the bound's levels at their prices. */
static void fill_lines(gal_mix_bound *bound, gal_mix_level *l, double turns[][2], const double *price, uint32_t count)
{
    gal_mix_price_levels(l, turns, price, count);
    for (uint32_t i = 0; i < count; i++) {
        gal_mix_line *const lines = bound->seconds[i];
        begin_level(bound, l, i, turns[i][0], turns[i][1]);
        gal_mix_write_line(l, i, price[i] > 0.0 ? GAL_MIX_OWN_PRICE : GAL_MIX_NO_PRICE, 1.0, price[i], &lines[1]);
        if (price[i] > 0.0) {
            gal_mix_write_line(l, i, GAL_MIX_NO_PRICE, 1.0, 0.0, &lines[0]);
        } else {
            memcpy(lines[0].pair, lines[1].pair, line_room(l->stage->types) * sizeof *lines[0].pair);
            lines[0].constant = lines[1].constant;
        }
        gal_mix_write_line(l, i, GAL_MIX_BYTES_ALONE, 0.0, 1.0, &bound->bytes[i]);
        bound->price[i] = price[i];
    }
}

static gal_priced_choice write_priced(void *context, double price)
{
    gal_mix_level *l = context;
    return gal_mix_write_pairs(l, 1.0, price, l->line);
}

/* Finds the band's best price; infinite seconds: nothing fits. */
static void price_band(gal_mix_bound *bound, gal_mix_level *l, const double *turn, uint32_t at, turn_band *band)
{
    const gal_block_types *types = l->stage->types;
    begin_level(bound, l, at, turn[band->bottom], turn[band->top]);
    const gal_slope slope = gal_best_slope(write_priced, l, l->limit_bytes);
    band->price = slope.price;
    band->least = slope.best.seconds + slope.price * (slope.best.bytes - l->limit_bytes);
    (void)gal_mix_write_pairs(l, 0.0, 1.0, l->line);
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

static void fill_levels(gal_mix_bound *bound, gal_mix_level *l, const double *turn, uint32_t turn_count)
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
static void widen_level(const gal_mix_level *l, const gal_mix_bound *like, uint32_t at, double turns[2])
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

static void fill_levels_like(gal_mix_bound *bound, gal_mix_level *l, const gal_mix_bound *like, double scale)
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
            bound->least[type] = gal_mix_least_of(bound->least[type], item->seconds);
            first = gal_mix_least_of(first, item->first_seconds);
            last = gal_mix_least_of(last, item->last_seconds);
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
    size_t items = 1;
    gal_code code = GAL_OK;
    gal_mix_level l = {.stage = NULL};
    for (uint32_t type = 0; type < types->type_count; type++) {
        items += stage->menu[type].count;
    }
    *out = (gal_mix_bound){.pair_count = types->pair_count,
                           .memory = malloc((lines + types->type_count + items) * sizeof(double))};
    if (out->memory == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(gal_mix_level_create(stage, changed, &l, err));
    out->least = out->memory + lines;
    note_least(stage, out);
    if (like == NULL) {
        double *turn = out->least + types->type_count;
        const uint32_t turns = list_turns(stage, turn);
        fill_levels(out, &l, turn, turns);
    } else {
        fill_levels_like(out, &l, like, scale);
    }
cleanup:
    gal_mix_level_free(&l);
    return code;
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
