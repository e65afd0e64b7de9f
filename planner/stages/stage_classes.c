#include "planner/stages/stage_classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEST_OF_TYPE = 6 }; /* classes that suit a type best */

static const double worth = 1e-3; /* share of a bound: what gains less at one price is not asked at others */

/* The cheapest item of a class, or a path up to a block. */
typedef struct reached {
    double cost; /* infinity: there is none */
    double seconds, bytes;
} reached;

static const reached none = {HUGE_VAL, HUGE_VAL, HUGE_VAL};

struct gal_stage_classes {
    const gal_class_query *query;
    double price;
    uint32_t class_count;
    reached *best;     /* [type][class]; behind all types, of the first block and of the last one, with what ends add */
    double *sum;       /* [class] */
    double known;      /* cost of all blocks in one class: a path that costs more is none of interest */
    double all, ahead; /* least cost of all blocks, of those behind the one at hand, conversions left out */
    uint32_t looked_at_count;
    uint32_t *looked_at;   /* [looked_at_count] classes; what follows is of them */
    uint32_t *from;        /* [block][]: where the block before is on the way */
    reached *now, *before; /* of the block at hand, of the one before */
    uint32_t *order;       /* of those before, the cheapest first */
};

gal_code gal_stage_classes_create(uint32_t block_count, uint32_t type_count, uint32_t class_count,
                                  gal_stage_classes **out, gal_error *err)
{
    const size_t classes = (size_t)class_count + 1;
    gal_stage_classes *room = calloc(1, sizeof *room);
    if (room != NULL) {
        room->class_count = class_count;
        room->best = malloc(((size_t)type_count + 4) * classes * sizeof *room->best);
        room->sum = malloc(classes * sizeof *room->sum);
        room->looked_at = malloc(((size_t)block_count + 2) * classes * sizeof *room->looked_at);
    }
    if (room == NULL || room->best == NULL || room->sum == NULL || room->looked_at == NULL) {
        gal_stage_classes_free(room);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    room->now = room->best + (type_count + 2) * (size_t)class_count;
    room->before = room->now + class_count;
    room->order = room->looked_at + class_count;
    room->from = room->order + class_count;
    *out = room;
    return GAL_OK;
}

void gal_stage_classes_free(gal_stage_classes *room)
{
    if (room != NULL) {
        free(room->looked_at);
        free(room->sum);
        free(room->best);
        free(room);
    }
}

/* ---- what classes cost ---- */

static reached *best_of(const gal_stage_classes *r, uint32_t row)
{
    return &r->best[(size_t)row * r->class_count];
}

static double least_of_row(const gal_stage_classes *r, uint32_t row)
{
    double least = HUGE_VAL;
    for (uint32_t class = 0; class < r->class_count; class ++) {
        least = fmin(least, best_of(r, row)[class].cost);
    }
    return least;
}

static bool comes_converted(const gal_stage_classes *r, uint32_t class)
{
    return r->query->begin > 0 && r->query->class_before < r->class_count && r->query->class_before != class;
}

static uint32_t row_of(const gal_stage_classes *r, uint32_t block)
{
    const gal_block_types *types = r->query->stage->types;
    return block == r->query->begin     ? types->type_count
           : block + 1 == r->query->end ? types->type_count + 1
                                        : types->type_of[block];
}

static void price_row(gal_stage_classes *r, uint32_t row, uint32_t type, bool first, bool last)
{
    const gal_mix_stage *stage = r->query->stage;
    reached *best = best_of(r, row);
    for (uint32_t class = 0; class < r->class_count; class ++) {
        best[class] = none;
    }
    for (uint32_t i = 0; i < stage->menu[type].count; i++) {
        const gal_mix_item *item = &stage->menu[type].item[i];
        const double seconds = item->seconds + (first ? item->first_seconds : 0.0) + (last ? item->last_seconds : 0.0);
        const double bytes = item->bytes + (first ? stage->first_bytes[item->class] : 0.0) +
                             (last ? stage->last_bytes[item->class] : 0.0);
        const double cost = seconds + r->price * bytes;
        reached *own = &best[item->class];
        if (item->turn_bytes <= r->query->top_bytes &&
            (cost < own->cost || (cost == own->cost && bytes < own->bytes))) {
            *own = (reached){cost, seconds, bytes};
        }
    }
}

static void look_at(gal_stage_classes *r, uint32_t class)
{
    bool known = false;
    for (uint32_t i = 0; i < r->looked_at_count; i++) {
        known = known || r->looked_at[i] == class;
    }
    if (!known) {
        r->looked_at[r->looked_at_count++] = class;
    }
}

/* The classes of the least sums, the first of equals. */
static void look_at_best(gal_stage_classes *r)
{
    for (uint32_t rank = 0; rank < BEST_OF_TYPE; rank++) {
        uint32_t best = r->class_count;
        for (uint32_t class = 0; class < r->class_count; class ++) {
            best = r->sum[class] < HUGE_VAL && (best == r->class_count || r->sum[class] < r->sum[best]) ? class : best;
        }
        if (best == r->class_count) {
            break;
        }
        look_at(r, best);
        r->sum[best] = HUGE_VAL;
    }
}

/* Those that suit a type best, or all blocks together. */
static void choose_classes(gal_stage_classes *r, const uint32_t *blocks, uint32_t rows)
{
    for (uint32_t row = 0; row <= rows; row++) {
        const bool every = row == rows;
        for (uint32_t class = 0; class < r->class_count; class ++) {
            r->sum[class] = 0.0;
            for (uint32_t i = every ? 0 : row; i < (every ? rows : row + 1); i++) {
                r->sum[class] += blocks[i] > 0 ? blocks[i] * best_of(r, i)[class].cost : 0.0;
            }
        }
        if (every || blocks[row] > 0) {
            look_at_best(r);
        }
    }
}

/* Of blocks of each row: the class that is best for all of them, and what each costs at least by itself. */
static void price_alike(gal_stage_classes *r, const uint32_t *blocks, uint32_t rows)
{
    const gal_class_query *q = r->query;
    const gal_mix_stage *stage = q->stage;
    uint32_t known = r->class_count;
    r->known = HUGE_VAL;
    for (uint32_t class = 0; class < r->class_count; class ++) {
        double sum = 0.0;
        for (uint32_t row = 0; row < rows; row++) {
            sum += blocks[row] > 0 ? blocks[row] * best_of(r, row)[class].cost : 0.0;
        }
        known = sum < r->known ? class : known;
        r->known = fmin(r->known, sum);
    }
    if (known < r->class_count && comes_converted(r, known)) {
        r->known += gal_mix_ask(stage, stage->types->pair_of[q->begin], q->class_before, known);
    }
    r->known += 1e-9 * fabs(r->known); /* what sums are off by rounding */
    r->all = 0.0;
    for (uint32_t row = 0; row < rows; row++) {
        r->all += blocks[row] > 0 ? blocks[row] * least_of_row(r, row) : 0.0;
    }
}

static void price_stage(gal_stage_classes *r)
{
    const gal_class_query *q = r->query;
    const gal_block_types *types = q->stage->types;
    uint32_t blocks[GAL_TYPES_MAX + 2] = {0};
    for (uint32_t block = q->begin; block < q->end; block++) {
        blocks[row_of(r, block)]++;
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        if (blocks[type] > 0) {
            price_row(r, type, type, false, false);
        }
    }
    price_row(r, types->type_count, types->type_of[q->begin], true, q->begin + 1 == q->end);
    if (blocks[types->type_count + 1] > 0) {
        price_row(r, types->type_count + 1, types->type_of[q->end - 1], false, true);
    }
    price_alike(r, blocks, types->type_count + 2);
    r->looked_at_count = 0;
    if (!q->all) {
        choose_classes(r, blocks, types->type_count + 2);
        return;
    }
    while (r->looked_at_count < r->class_count) {
        r->looked_at[r->looked_at_count] = r->looked_at_count;
        r->looked_at_count++;
    }
}

/* ---- the path ---- */

static reached sum_of(const reached *a, const reached *b)
{
    return a->cost < HUGE_VAL && b->cost < HUGE_VAL
               ? (reached){a->cost + b->cost, a->seconds + b->seconds, a->bytes + b->bytes}
               : none;
}

/* What is not known is hoped to be nothing. */
static double conversion(const gal_stage_classes *r, uint32_t block, uint32_t from, uint32_t to)
{
    const gal_mix_stage *stage = r->query->stage;
    const double known = from == to ? 0.0 : gal_mix_known(stage, stage->types->pair_of[block], from, to);
    return isnan(known) ? 0.0 : known;
}

static void begin(gal_stage_classes *r)
{
    const gal_class_query *q = r->query;
    const reached *own = best_of(r, row_of(r, q->begin));
    r->ahead = r->all - least_of_row(r, row_of(r, q->begin));
    for (uint32_t i = 0; i < r->looked_at_count; i++) {
        const uint32_t class = r->looked_at[i];
        const double seconds = own[class].cost < HUGE_VAL && comes_converted(r, class)
                                   ? conversion(r, q->begin, q->class_before, class)
                                   : 0.0;
        const reached before = {seconds, seconds, 0.0};
        r->now[i] = sum_of(&before, &own[class]);
        r->order[i] = i;
    }
}

/* By insertion: from one block to the next the order hardly changes. */
static void sort(gal_stage_classes *r)
{
    for (uint32_t i = 1; i < r->looked_at_count; i++) {
        const uint32_t own = r->order[i];
        uint32_t at = i;
        for (; at > 0 && r->before[r->order[at - 1]].cost > r->before[own].cost; at--) {
            r->order[at] = r->order[at - 1];
        }
        r->order[at] = own;
    }
}

static void follow(gal_stage_classes *r, uint32_t block)
{
    uint32_t *from = r->from + (size_t)(block - r->query->begin) * r->class_count;
    const reached *own = best_of(r, row_of(r, block));
    r->ahead -= least_of_row(r, row_of(r, block));
    memcpy(r->before, r->now, r->looked_at_count * sizeof *r->now);
    sort(r);
    for (uint32_t i = 0; i < r->looked_at_count; i++) {
        const uint32_t class = r->looked_at[i];
        reached best = r->before[i];
        from[i] = i;
        for (uint32_t k = 0; k < r->looked_at_count && own[class].cost < HUGE_VAL; k++) {
            const reached *before = &r->before[r->order[k]];
            if (before->cost >= best.cost || before->cost + own[class].cost + r->ahead > r->known) {
                break;
            }
            const double seconds = conversion(r, block, r->looked_at[r->order[k]], class);
            if (before->cost + seconds < best.cost) {
                best = (reached){before->cost + seconds, before->seconds + seconds, before->bytes};
                from[i] = r->order[k];
            }
        }
        r->now[i] = sum_of(&best, &own[class]);
    }
}

/* Of the classes that are looked at; returns the last one of the path. */
static uint32_t find_path(gal_stage_classes *r)
{
    uint32_t best = 0;
    begin(r);
    for (uint32_t block = r->query->begin + 1; block < r->query->end; block++) {
        follow(r, block);
    }
    for (uint32_t i = 1; i < r->looked_at_count; i++) {
        best = r->now[i].cost < r->now[best].cost ? i : best;
    }
    return best;
}

/* In front of the block; true: it was not known. */
static bool ask(const gal_stage_classes *r, uint32_t block, uint32_t from, uint32_t to)
{
    const gal_mix_stage *stage = r->query->stage;
    const uint32_t pair = stage->types->pair_of[block];
    const bool known = from == to || !isnan(gal_mix_known(stage, pair, from, to));
    if (!known) {
        (void)gal_mix_ask(stage, pair, from, to);
    }
    return !known;
}

/* The conversions of the path that ends with `last`; true: not all of them were known. */
static bool ask_path(const gal_stage_classes *r, uint32_t last)
{
    const gal_class_query *q = r->query;
    bool new = false;
    for (uint32_t block = q->end - 1; block > q->begin; block--) {
        const uint32_t before = r->from[(size_t)(block - q->begin) * r->class_count + last];
        new = ask(r, block, r->looked_at[before], r->looked_at[last]) || new;
        last = before;
    }
    return (comes_converted(r, r->looked_at[last]) && ask(r, q->begin, q->class_before, r->looked_at[last])) || new;
}

gal_priced_choice gal_stage_classes_find(gal_stage_classes *r, const gal_class_query *query, double price,
                                         uint32_t *class)
{
    r->query = query;
    r->price = price;
    price_stage(r);
    if (r->looked_at_count == 0) {
        return (gal_priced_choice){HUGE_VAL, HUGE_VAL};
    }
    uint32_t best = find_path(r);
    while (r->now[best].cost < HUGE_VAL && ask_path(r, best)) {
        best = find_path(r);
    }
    const gal_priced_choice sum = {r->now[best].seconds, r->now[best].bytes};
    for (uint32_t block = query->end; block-- > query->begin && class != NULL;) {
        class[block - query->begin] = r->looked_at[best];
        best = block > query->begin ? r->from[(size_t)(block - query->begin) * r->class_count + best] : best;
    }
    return sum;
}

/* ---- the bound ---- */

typedef struct at_level {
    gal_stage_classes *room;
    const gal_class_query *query;
} at_level;

static gal_priced_choice find_at(void *context, double price)
{
    const at_level *l = context;
    return gal_stage_classes_find(l->room, l->query, price, NULL);
}

/* At the price that was best for pairs of neighbours; at others too where paths are slower than pairs said. */
static double bound_level(at_level *at, double limit_bytes, double price, double loose_seconds, double enough_seconds)
{
    const gal_priced_choice choice = gal_stage_classes_find(at->room, at->query, price, NULL);
    const double own = choice.seconds + price * (choice.bytes - limit_bytes);
    if (!(own < HUGE_VAL)) {
        return HUGE_VAL;
    }
    if (own <= loose_seconds * (1.0 + worth) || own >= enough_seconds) {
        return own;
    }
    const gal_slope slope = gal_best_slope(find_at, at, limit_bytes);
    return fmax(own, slope.best.seconds + slope.price * (slope.best.bytes - limit_bytes));
}

double gal_stage_classes_bound(gal_stage_classes *room, const gal_mix_stage *stage, const gal_mix_bound *levels,
                               uint32_t begin, uint32_t end, double loose_seconds, double enough_seconds)
{
    gal_class_query query = {stage, begin, end, room->class_count, HUGE_VAL, true};
    at_level at = {room, &query};
    double least = HUGE_VAL;
    for (uint32_t rank = 0; rank < levels->level_count; rank++) { /* from the one that is likely to be the least on */
        const uint32_t i = (levels->least_level + rank) % levels->level_count;
        const double limit = stage->limit_bytes - levels->turns[i][0];
        query.top_bytes = levels->turns[i][1];
        const double price = limit > 0.0 ? -levels->seconds[i][1].constant / limit : 0.0;
        const double own = bound_level(&at, limit, price, loose_seconds, fmin(enough_seconds, least));
        least = own < least ? own : least;
    }
    return least * (1.0 - 1e-12);
}
