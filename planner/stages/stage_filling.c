#include "planner/stages/stage_filling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/path.h"
#include "planner/stages/stage_classes.h"

/* REFITS: how often a choice is tried for less, where what it uses in turn has not fitted. */
enum { PARTS = 8, TIES_TRIED = 4, REFITS = 4 };

static const double aside =
    1e-6; /* share of a price by which it is left for a path that is larger, and a smaller one */

/* How a stage is filled. */
typedef struct filled {
    double seconds; /* as GAL_TABLE_STEP counts; infinity: it does not fit */
    double rate;
    uint32_t *class; /* [block], from the stage's first */
    uint32_t *taken; /* [type][item] */
} filled;

typedef struct filler {
    gal_stage_tables *t;
    const gal_cut *cut;
    gal_stage_classes *classes;
    uint32_t stage, begin, end;
    uint32_t class_before; /* of the last block of the stage before; class_count: there is none */
    gal_mix_stage menus;
    filled best, now;
    uint32_t *path[2];    /* as filled.class: large and small */
    uint32_t *blocks;     /* [type][class] of the choice at hand; else 0 */
    gal_mix_group *group; /* [type and class] */
    uint32_t *type_of_group;
    double price[GAL_STAGES_MAX]; /* per byte, that bounds the stage most; of ties too, which move it little */
} filler;

static uint32_t *taken_of(const filler *f, const filled *fill, uint32_t type)
{
    return fill->taken + (size_t)type * f->t->s->strategy_count;
}

/* Items of the class in the type's menu, whose classes ascend; returns the first. */
static uint32_t range_of(const gal_mix_menu *menu, uint32_t class, uint32_t *count)
{
    uint32_t first = 0;
    uint32_t end = menu->count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (menu->item[middle].class < class) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    *count = 0;
    while (first + *count < menu->count && menu->item[first + *count].class == class) {
        ++*count;
    }
    return first;
}

/* Of blocks that are alike in type and class; returns how many. */
static uint32_t list_groups(filler *f)
{
    const gal_block_types *types = f->t->s->types;
    uint32_t count = 0;
    for (uint32_t block = f->begin; block < f->end; block++) {
        f->blocks[(size_t)types->type_of[block] * f->t->class_count + f->now.class[block - f->begin]]++;
    }
    for (uint32_t block = f->begin; block < f->end; block++) {
        const uint32_t type = types->type_of[block];
        const uint32_t class = f->now.class[block - f->begin];
        uint32_t *blocks = &f->blocks[(size_t)type * f->t->class_count + class];
        if (*blocks > 0) {
            uint32_t items = 0;
            const uint32_t first = range_of(&f->menus.menu[type], class, &items);
            f->type_of_group[count] = type;
            f->group[count++] =
                (gal_mix_group){f->menus.menu[type].item + first, items, *blocks, taken_of(f, &f->now, type) + first};
            *blocks = 0;
        }
    }
    return count;
}

/* Of the stage, less what its ends take. */
static double limit_bytes(const filler *f)
{
    return f->menus.limit_bytes - f->t->first_bytes[f->now.class[0]] -
           f->t->last_bytes[f->now.class[f->end - f->begin - 1]] - f->cut->spare_bytes[f->stage];
}

static double conversion_into(const filler *f, uint32_t block, uint32_t from_class, uint32_t to_class)
{
    return block == 0 || from_class == to_class || from_class == f->t->class_count
               ? 0.0
               : gal_mix_ask(&f->menus, f->t->s->types->pair_of[block], from_class, to_class);
}

/* Of the choice at hand, with what its last block adds: items of a class send alike. */
static double conversions(const filler *f)
{
    const gal_mix_menu *menu = &f->menus.menu[f->t->s->types->type_of[f->end - 1]];
    uint32_t before = f->class_before;
    uint32_t items = 0;
    const uint32_t last = range_of(menu, f->now.class[f->end - f->begin - 1], &items);
    double sum = items > 0 ? menu->item[last].last_seconds : 0.0;
    for (uint32_t block = f->begin; block < f->end; block++) {
        const uint32_t own = f->now.class[block - f->begin];
        sum += conversion_into(f, block, before, own);
        before = own;
    }
    return sum;
}

/* What the items taken use in turn: of each kind the most of any. */
static double turn_bytes(const filler *f, uint32_t group_count)
{
    const gal_screened *s = f->t->s;
    gal_shared_bytes most = {0};
    for (uint32_t i = 0; i < group_count; i++) {
        const gal_screened_item *own = &s->item[(size_t)f->type_of_group[i] * s->strategy_count];
        for (uint32_t j = 0; j < f->group[i].item_count; j++) {
            if (f->group[i].taken[j] > 0) {
                const gal_shared_bytes one =
                    gal_cell_shared_of(own[f->group[i].item[j].strategy].memory, s->spec.prefetch_depth,
                                       gal_cell_work_sides(s->spec.space, s->types, f->type_of_group[i]));
                gal_shared_join(&most, &one);
            }
        }
    }
    return (double)gal_shared_sum(&most);
}

/* Of the groups. The choice charges the largest sum of one item for what is used in turn; together items may use more,
 * which is then left free: by this choice alone, others may be of items that do not. */
static bool choose(const filler *f, uint32_t group_count, double enough_seconds, gal_mix_sum *sum)
{
    const double limit = limit_bytes(f);
    double free_bytes = 0.0;
    for (uint32_t i = 0; i < REFITS; i++) {
        if (!gal_mix_choose(f->group, group_count, limit - free_bytes, f->price[f->stage], enough_seconds, sum)) {
            return false;
        }
        const double over = sum->bytes + turn_bytes(f, group_count) - limit;
        if (over <= 0.0) {
            break;
        }
        free_bytes += over;
    }
    return true;
}

/* Keeps the choice at hand if it is the best so far; true if so. */
static bool try_classes(filler *f)
{
    gal_mix_sum sum;
    const uint32_t count = list_groups(f);
    const double quickest = gal_mix_choice_floor(f->group, count, HUGE_VAL, HUGE_VAL, 0.0);
    const double more = quickest < f->best.seconds ? conversions(f) : 0.0;
    const double most = f->best.seconds - more;
    if (quickest >= most ||
        gal_mix_choice_floor(f->group, count, limit_bytes(f), HUGE_VAL, f->price[f->stage]) >= most ||
        !choose(f, count, most, &sum)) {
        return false;
    }
    const double seconds = sum.seconds + more;
    const bool better = seconds < f->best.seconds;
    if (better) {
        const filled swap = f->best;
        f->best = f->now;
        f->now = swap;
        f->best.seconds = seconds;
        f->best.rate = sum.rate;
    }
    return better;
}

static void try_one_class(filler *f, uint32_t class)
{
    for (uint32_t i = 0; i < f->end - f->begin; i++) {
        f->now.class[i] = class;
    }
    (void)try_classes(f);
}

/* The first blocks by one of the two paths, the rest by the other. */
static bool try_border(filler *f, uint32_t order, uint32_t middle)
{
    const uint32_t blocks = f->end - f->begin;
    memcpy(f->now.class, f->path[order], middle * sizeof *f->now.class);
    memcpy(f->now.class + middle, f->path[1 - order] + middle, (blocks - middle) * sizeof *f->now.class);
    return try_classes(f);
}

/* Both paths, and between them borders far apart first, then around the best. */
static void try_borders(filler *f)
{
    const uint32_t blocks = f->end - f->begin;
    const bool two = memcmp(f->path[0], f->path[1], blocks * sizeof *f->path[0]) != 0;
    (void)try_border(f, 0, blocks);
    for (uint32_t order = 0; order < 2 && two; order++) {
        uint32_t step = blocks / PARTS < 1 ? 1 : blocks / PARTS;
        uint32_t center = blocks;
        for (uint32_t middle = 0; middle < blocks; middle += step) {
            center = try_border(f, order, middle) ? middle : center;
        }
        while (step > 1 && center < blocks) {
            const uint32_t around = center;
            step /= 2;
            center = around > step && try_border(f, order, around - step) ? around - step : center;
            center = around + step < blocks && try_border(f, order, around + step) ? around + step : center;
        }
    }
}

typedef struct at_price {
    const filler *f;
    const gal_class_query *query;
} at_price;

static gal_priced_choice find_path(void *context, double price)
{
    const at_price *at = context;
    return gal_stage_classes_find(at->f->classes, at->query, price, at->f->path[0]);
}

/* The shortest paths on both sides of the price that bounds the stage most; false: there is none. tied: it is known. */
static bool find_paths(filler *f, bool tied)
{
    const double *turns = f->cut->turns[f->stage];
    const double limit = f->menus.limit_bytes - turns[0] - f->cut->spare_bytes[f->stage];
    const gal_class_query query = {&f->menus, f->begin, f->end, f->class_before, turns[1], false};
    at_price at = {f, &query};
    f->price[f->stage] = tied ? f->price[f->stage] : gal_best_slope(find_path, &at, limit).price;
    const double price = f->price[f->stage];
    (void)gal_stage_classes_find(f->classes, &query, price * (1.0 + aside), f->path[1]);
    return gal_stage_classes_find(f->classes, &query, price * (1.0 - aside), f->path[0]).seconds < HUGE_VAL;
}

/* Items that take longer first, which are those that run again: later blocks may then turn to backward at once. */
static void write_stage(const filler *f, uint32_t *strategy)
{
    for (uint32_t block = f->begin; block < f->end; block++) {
        const uint32_t type = f->t->s->types->type_of[block];
        uint32_t items = 0;
        const uint32_t first = range_of(&f->menus.menu[type], f->best.class[block - f->begin], &items);
        uint32_t *taken = taken_of(f, &f->best, type);
        uint32_t item = first + items;
        while (taken[item - 1] == 0) {
            item--;
        }
        taken[item - 1]--;
        strategy[block] = f->menus.menu[type].item[item - 1].strategy;
    }
}

/* ways: NULL, or how the holders of the token table may keep it. False: it cannot be filled. */
static bool fill_stage(filler *f, uint32_t stage, const bool *ways, uint32_t class_before, uint32_t *strategy)
{
    const gal_screened *s = f->t->s;
    f->stage = stage;
    f->begin = f->cut->first[stage];
    f->end = stage + 1 < s->spec.pp_degree ? f->cut->first[stage + 1] : s->types->block_count;
    f->class_before = class_before;
    f->menus = gal_stage_tables_fill(f->t, stage, GAL_TABLE_STEP, ways);
    f->best.seconds = HUGE_VAL;
    if (find_paths(f, ways != NULL)) {
        try_borders(f);
    }
    for (uint32_t class = 0; class < f->t->class_count; class ++) {
        try_one_class(f, class);
    }
    if (f->best.seconds < HUGE_VAL) {
        write_stage(f, strategy);
    }
    return f->best.seconds < HUGE_VAL;
}

static uint32_t last_class(const filler *f)
{
    return f->best.class[f->end - f->begin - 1];
}

/* ---- the token table ---- */

typedef struct tie {
    uint32_t way;
    double cost; /* infinity: of another class, or not for all holders */
} tie;

static int cheaper_first(const void *x, const void *y)
{
    const tie *a = x;
    const tie *b = y;
    if (a->cost != b->cost) {
        return a->cost < b->cost ? -1 : 1;
    }
    return a->way < b->way ? -1 : a->way > b->way;
}

/* Ways of embeddings of the class. */
static void list_ties(const gal_stage_tables *t, uint32_t class, tie *out)
{
    const gal_screened *s = t->s;
    const bool *legal = &s->legal[(size_t)s->types->type_of[0] * s->strategy_count];
    for (uint32_t way = 0; way < t->ways.count; way++) {
        out[way] = (tie){way, HUGE_VAL};
    }
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        if (legal[i] && t->class[i] == class) {
            out[t->ways.of[i]].cost = 0.0;
        }
    }
}

/* What a holder of the table costs at least on the stage, for each way; least[way]. */
static void price_ways(const gal_stage_tables *t, uint32_t type, uint32_t stage, double rate, double *least)
{
    const gal_screened *s = t->s;
    for (uint32_t way = 0; way < t->ways.count; way++) {
        least[way] = HUGE_VAL;
    }
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        const size_t at = (size_t)type * s->strategy_count + i;
        const gal_screened_item *item = &s->item[at];
        if (s->legal[at] && t->ways.of[i] != GAL_NO_WAY) {
            const double bytes = item->bytes + gal_screen_in_flight(&s->spec, stage) * item->saved_bytes;
            const double seconds = gal_stage_tables_seconds(t, item, stage, GAL_TABLE_STEP) +
                                   gal_stage_tables_reduction(t, type, i, stage);
            least[t->ways.of[i]] = fmin(least[t->ways.of[i]], seconds + rate * bytes);
        }
    }
}

static bool stage_holds_table(const filler *f, uint32_t stage)
{
    const gal_screened *s = f->t->s;
    const uint32_t end = stage + 1 < s->spec.pp_degree ? f->cut->first[stage + 1] : s->types->block_count;
    bool holds = false;
    for (uint32_t block = f->cut->first[stage]; block < end; block++) {
        holds = holds || gal_holds_table(s->types, s->types->type_of[block]);
    }
    return holds;
}

/* Stages that hold the table filled anew; the sum of their seconds, infinity: one cannot be. */
static double fill_holders(filler *f, const bool *ways, uint32_t *strategy)
{
    double sum = 0.0;
    for (uint32_t p = 0; p < f->t->s->spec.pp_degree && sum < HUGE_VAL; p++) {
        if (stage_holds_table(f, p)) {
            const uint32_t before = p == 0 ? f->t->class_count : f->t->class[strategy[f->cut->first[p] - 1]];
            (void)fill_stage(f, p, ways, before, strategy);
            sum += f->best.seconds;
        }
    }
    return sum;
}

/* Ties of the class, the least of what all holders cost first; returns how many there are. least[way]: room. */
static uint32_t rank_ties(const filler *f, uint32_t class, const double *rate, tie *ties, double *least)
{
    const gal_screened *s = f->t->s;
    const uint32_t ways = f->t->ways.count;
    uint32_t count = 0;
    list_ties(f->t, class, ties);
    for (uint32_t p = 0, block = 0; block < s->types->block_count; block++) {
        p += p + 1 < s->spec.pp_degree && block == f->cut->first[p + 1];
        if (gal_holds_table(s->types, s->types->type_of[block])) {
            price_ways(f->t, s->types->type_of[block], p, rate[p], least);
            for (uint32_t way = 0; way < ways; way++) {
                ties[way].cost += least[way];
            }
        }
    }
    qsort(ties, ways, sizeof *ties, cheaper_first);
    while (count < ways && ties[count].cost < HUGE_VAL) {
        count++;
    }
    return count;
}

/* Under the ties that look best, of both classes. */
static gal_code fill_tied(filler *f, const uint32_t *class, const double *rate, uint32_t *strategy, bool *found,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t ways = (size_t)f->t->ways.count + 1;
    double least = HUGE_VAL;
    uint32_t best = 0;
    tie *ties = malloc(ways * sizeof *ties);
    double *room = malloc(ways * sizeof *room);
    bool *allowed = calloc(ways, sizeof *allowed);
    if (ties == NULL || room == NULL || allowed == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t k = 0; k < (class[0] == class[1] ? 1 : 2); k++) {
        const uint32_t count = rank_ties(f, class[k], rate, ties, room);
        for (uint32_t i = 0; i < count && i < TIES_TRIED; i++) {
            allowed[ties[i].way] = true;
            const double seconds = fill_holders(f, allowed, strategy);
            allowed[ties[i].way] = false;
            best = seconds < least ? ties[i].way : best;
            least = fmin(least, seconds);
        }
    }
    allowed[best] = true;
    *found = least < HUGE_VAL && fill_holders(f, allowed, strategy) < HUGE_VAL;
cleanup:
    free(allowed);
    free(room);
    free(ties);
    return code;
}

/* Of the stage at hand: the first block's class, and the one that most blocks have: where a few blocks alone are best
 * in another class, a table that is held as theirs costs the rest more than it gains. */
static void note_classes(const filler *f, uint32_t *class)
{
    uint32_t *alike = f->blocks; /* [class]: room, which is left as it is found */
    uint32_t most = 0;
    class[0] = f->best.class[0];
    for (uint32_t i = 0; i < f->end - f->begin; i++) {
        alike[f->best.class[i]]++;
    }
    for (uint32_t i = 0; i < f->end - f->begin; i++) {
        uint32_t *own = &alike[f->best.class[i]];
        class[1] = *own > most ? f->best.class[i] : class[1];
        most = *own > most ? *own : most;
        *own = 0;
    }
}

gal_code gal_stages_fill(gal_stage_tables *tables, const gal_cut *cut, uint32_t *strategy, bool *found, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_screened *s = tables->s;
    const size_t types = s->types->type_count;
    const size_t blocks = s->types->block_count;
    double rate[GAL_STAGES_MAX];
    uint32_t class = tables->class_count;
    uint32_t first_classes[2] = {0};
    uint32_t *room =
        calloc(5 * blocks + types * (2 * (size_t)s->strategy_count + tables->class_count) + 1, sizeof *room);
    filler f = {.t = tables, .cut = cut, .group = calloc(blocks, sizeof *f.group)};
    if (room == NULL || f.group == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    f.best.class = room;
    f.now.class = f.best.class + blocks;
    f.path[0] = f.now.class + blocks;
    f.path[1] = f.path[0] + blocks;
    f.type_of_group = f.path[1] + blocks;
    f.best.taken = f.type_of_group + blocks;
    f.now.taken = f.best.taken + types * s->strategy_count;
    f.blocks = f.now.taken + types * s->strategy_count;
    GAL_TRY(
        gal_stage_classes_create(s->types->block_count, s->types->type_count, tables->class_count, &f.classes, err));
    *found = true;
    for (uint32_t p = 0; p < s->spec.pp_degree && *found; p++) {
        *found = fill_stage(&f, p, NULL, class, strategy);
        rate[p] = f.best.rate;
        class = *found ? last_class(&f) : class;
        if (p == 0 && *found) {
            note_classes(&f, first_classes);
        }
    }
    if (*found && s->types->table_shared) {
        GAL_TRY(fill_tied(&f, first_classes, rate, strategy, found, err));
    }
    GAL_TRY(tables->code);
cleanup:
    gal_stage_classes_free(f.classes);
    free(f.group);
    free(room);
    return code;
}
