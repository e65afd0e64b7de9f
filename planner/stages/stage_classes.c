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

/* What one block costs: of a type, or as the first one or the last one of the stage, with what ends add. */
typedef struct row {
    uint32_t block_count; /* 0: what follows is not known */
    reached *best;        /* [class] */
    double least;         /* cost of any class */
    uint32_t *open;       /* [open_count] classes that are looked at and may be on a path of interest */
    uint32_t open_count;
} row;

/* A class of the block before. */
typedef struct before {
    double cost;
    uint32_t class;
} before;

struct gal_stage_classes {
    const gal_class_query *query;
    double price;
    uint32_t class_count;
    row *row; /* [row_count] of types, and behind them of the first block and of the last one */
    uint32_t row_count;
    double *sum;  /* [class] */
    double known; /* cost of a path, of all blocks in one class at first: one that costs more is none of interest */
    double all, ahead;   /* least cost of all blocks, of those behind the one at hand, conversions left out */
    bool *looked_at;     /* [class] */
    reached *best;       /* [row][class], and behind it now and past */
    uint32_t *from;      /* [block][class]: that of the block before on the way; behind it what is open of rows */
    reached *now, *past; /* [class] of the block at hand, of the one before; none of those that are not open */
    before *order;       /* of the block before, the cheapest first */
};

gal_code gal_stage_classes_create(uint32_t block_count, uint32_t type_count, uint32_t class_count,
                                  gal_stage_classes **out, gal_error *err)
{
    const size_t classes = (size_t)class_count + 1;
    const size_t rows = (size_t)type_count + 2;
    gal_stage_classes *room = calloc(1, sizeof *room);
    if (room != NULL) {
        *room = (gal_stage_classes){.class_count = class_count,
                                    .row_count = type_count + 2,
                                    .row = malloc(rows * sizeof *room->row),
                                    .sum = malloc(classes * sizeof *room->sum),
                                    .looked_at = malloc(classes * sizeof *room->looked_at),
                                    .order = malloc(classes * sizeof *room->order),
                                    .best = malloc((rows + 2) * classes * sizeof *room->best),
                                    .from = malloc((rows + block_count) * classes * sizeof *room->from)};
    }
    if (room == NULL || room->best == NULL || room->from == NULL || room->row == NULL || room->sum == NULL ||
        room->looked_at == NULL || room->order == NULL) {
        gal_stage_classes_free(room);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t i = 0; i < rows; i++) {
        room->row[i] = (row){.best = room->best + i * classes, .open = room->from + (i + block_count) * classes};
    }
    room->now = room->best + rows * classes;
    room->past = room->now + classes;
    *out = room;
    return GAL_OK;
}

void gal_stage_classes_free(gal_stage_classes *room)
{
    if (room != NULL) {
        free(room->from);
        free(room->best);
        free(room->order);
        free(room->looked_at);
        free(room->sum);
        free(room->row);
        free(room);
    }
}

/* ---- what classes cost ---- */

static bool comes_converted(const gal_stage_classes *r, uint32_t class)
{
    return r->query->begin > 0 && r->query->class_before < r->class_count && r->query->class_before != class;
}

static row *row_of(const gal_stage_classes *r, uint32_t block)
{
    const gal_block_types *types = r->query->stage->types;
    return &r->row[block == r->query->begin     ? types->type_count
                   : block + 1 == r->query->end ? types->type_count + 1
                                                : types->type_of[block]];
}

static void price_row(const gal_stage_classes *r, row *own, uint32_t type, bool first, bool last)
{
    const gal_mix_stage *stage = r->query->stage;
    for (uint32_t class = 0; class < r->class_count; class ++) {
        own->best[class] = none;
    }
    own->least = HUGE_VAL;
    for (uint32_t i = 0; i < stage->menu[type].count; i++) {
        const gal_mix_item *item = &stage->menu[type].item[i];
        const double seconds = item->seconds + (first ? item->first_seconds : 0.0) + (last ? item->last_seconds : 0.0);
        const double bytes = item->bytes + (first ? stage->first_bytes[item->class] : 0.0) +
                             (last ? stage->last_bytes[item->class] : 0.0);
        const double cost = seconds + r->price * bytes;
        reached *best = &own->best[item->class];
        if (item->turn_bytes <= r->query->top_bytes &&
            (cost < best->cost || (cost == best->cost && bytes < best->bytes))) {
            *best = (reached){cost, seconds, bytes};
            own->least = cost < own->least ? cost : own->least;
        }
    }
}

/* The classes of the least sums, the first of equals. */
static void look_at_best(const gal_stage_classes *r)
{
    for (uint32_t rank = 0; rank < BEST_OF_TYPE; rank++) {
        uint32_t best = r->class_count;
        for (uint32_t class = 0; class < r->class_count; class ++) {
            best = r->sum[class] < HUGE_VAL && (best == r->class_count || r->sum[class] < r->sum[best]) ? class : best;
        }
        if (best == r->class_count) {
            break;
        }
        r->looked_at[best] = true;
        r->sum[best] = HUGE_VAL;
    }
}

/* Of all blocks of some rows: what they cost in each class. */
static void sum_classes(const gal_stage_classes *r, uint32_t first, uint32_t end)
{
    memset(r->sum, 0, r->class_count * sizeof *r->sum);
    for (const row *own = r->row + first; own < r->row + end; own++) {
        for (uint32_t class = 0; class < r->class_count && own->block_count > 0; class ++) {
            r->sum[class] += own->block_count * own->best[class].cost;
        }
    }
}

/* Those that suit a type best, or all blocks together. */
static void choose_classes(gal_stage_classes *r)
{
    memset(r->looked_at, 0, r->class_count * sizeof *r->looked_at);
    for (uint32_t i = 0; i < r->row_count; i++) {
        if (r->row[i].block_count > 0) {
            sum_classes(r, i, i + 1);
            look_at_best(r);
        }
    }
    sum_classes(r, 0, r->row_count);
    look_at_best(r);
}

/* What paths of interest may cost, from now on; a little more is what sums are off by rounding. */
static void note_known(gal_stage_classes *r, double cost)
{
    const double most = cost + 1e-9 * fabs(cost);
    r->known = most < r->known ? most : r->known;
}

/* The class that is best for all blocks, and what each costs at least by itself. */
static void price_alike(gal_stage_classes *r)
{
    const gal_class_query *q = r->query;
    const gal_mix_stage *stage = q->stage;
    uint32_t best = 0;
    sum_classes(r, 0, r->row_count);
    for (uint32_t class = 1; class < r->class_count; class ++) {
        best = r->sum[class] < r->sum[best] ? class : best;
    }
    r->known = HUGE_VAL;
    if (r->sum[best] < HUGE_VAL) {
        note_known(r, r->sum[best] + (comes_converted(r, best)
                                          ? gal_mix_ask(stage, stage->types->pair_of[q->begin], q->class_before, best)
                                          : 0.0));
    }
    r->all = 0.0;
    for (const row *own = r->row; own < r->row + r->row_count; own++) {
        r->all += own->block_count > 0 ? own->block_count * own->least : 0.0;
    }
}

/* A class with which its block costs so much more than at its least is on no path of interest, whatever the others'
 * are. */
static void open_classes(const gal_stage_classes *r)
{
    for (row *own = r->row; own < r->row + r->row_count; own++) {
        own->open_count = 0;
        for (uint32_t class = 0; class < r->class_count && own->block_count > 0; class ++) {
            const double cost = own->best[class].cost;
            if (r->looked_at[class] && cost < HUGE_VAL && r->all - own->least + cost <= r->known) {
                own->open[own->open_count++] = class;
            }
        }
    }
}

static void price_stage(gal_stage_classes *r)
{
    const gal_class_query *q = r->query;
    const gal_block_types *types = q->stage->types;
    for (row *own = r->row; own < r->row + r->row_count; own++) {
        own->block_count = 0;
    }
    for (uint32_t block = q->begin; block < q->end; block++) {
        row *own = row_of(r, block);
        if (own->block_count++ == 0) {
            price_row(r, own, types->type_of[block], block == q->begin, block + 1 == q->end);
        }
    }
    price_alike(r);
}

/* ---- the path ---- */

/* What is not known is hoped to be nothing. */
static double conversion(const gal_stage_classes *r, uint32_t block, uint32_t from, uint32_t to)
{
    const gal_mix_stage *stage = r->query->stage;
    const double known = from == to ? 0.0 : gal_mix_known(stage, stage->types->pair_of[block], from, to);
    return isnan(known) ? 0.0 : known;
}

static reached behind(const reached *past, double seconds, const reached *own)
{
    return (reached){past->cost + seconds + own->cost, past->seconds + seconds + own->seconds,
                     past->bytes + own->bytes};
}

static void begin(gal_stage_classes *r)
{
    static const reached start = {0.0, 0.0, 0.0};
    const gal_class_query *q = r->query;
    const row *own = row_of(r, q->begin);
    for (uint32_t class = 0; class < r->class_count; class ++) {
        r->now[class] = r->past[class] = none;
    }
    r->ahead = r->all - own->least;
    for (uint32_t i = 0; i < own->open_count; i++) {
        const uint32_t class = own->open[i];
        const double seconds = comes_converted(r, class) ? conversion(r, q->begin, q->class_before, class) : 0.0;
        r->now[class] = behind(&start, seconds, &own->best[class]);
    }
}

static int cheaper_first(const void *x, const void *y)
{
    const before *a = x;
    const before *b = y;
    return a->cost != b->cost ? (a->cost < b->cost ? -1 : 1) : a->class < b->class ? -1 : a->class > b->class;
}

/* Those of the block before that cost up to `most`. Returns how many. */
static uint32_t list_before(const gal_stage_classes *r, const row *own, double most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own->open_count; i++) {
        const double cost = r->past[own->open[i]].cost;
        if (cost <= most && cost < HUGE_VAL) {
            r->order[count++] = (before){cost, own->open[i]};
        }
    }
    qsort(r->order, count, sizeof *r->order, cheaper_first);
    return count;
}

static void follow(gal_stage_classes *r, uint32_t block)
{
    const row *own = row_of(r, block);
    const row *last = row_of(r, block - 1);
    uint32_t *from = r->from + (size_t)(block - r->query->begin) * r->class_count;
    reached *const now = r->past;
    r->past = r->now;
    r->now = now;
    r->ahead -= own->least;
    const uint32_t count = list_before(r, last, r->known - own->least - r->ahead);
    for (uint32_t i = 0; i < own->open_count; i++) {
        const uint32_t class = own->open[i];
        const double most = r->known - own->best[class].cost - r->ahead;
        uint32_t best = class;
        double least = r->past[class].cost;
        double converts = 0.0;
        for (uint32_t k = 0; k < count && r->order[k].cost < least && r->order[k].cost <= most; k++) {
            const double seconds = conversion(r, block, r->order[k].class, class);
            if (r->order[k].cost + seconds < least) {
                least = r->order[k].cost + seconds;
                converts = seconds;
                best = r->order[k].class;
            }
        }
        now[class] = least < HUGE_VAL ? behind(&r->past[best], converts, &own->best[class]) : none;
        from[class] = best;
    }
    for (uint32_t i = 0; i < last->open_count; i++) {
        r->past[last->open[i]] = none;
    }
}

/* Returns the last block's class; class_count: there is no path. */
static uint32_t find_path(gal_stage_classes *r)
{
    const row *last = row_of(r, r->query->end - 1);
    uint32_t best = r->class_count;
    begin(r);
    for (uint32_t block = r->query->begin + 1; block < r->query->end; block++) {
        follow(r, block);
    }
    for (uint32_t i = 0; i < last->open_count; i++) {
        const double cost = r->now[last->open[i]].cost;
        best = cost < (best < r->class_count ? r->now[best].cost : HUGE_VAL) ? last->open[i] : best;
    }
    return best;
}

/* In front of the block; *more: what it costs, if it was not known. True: it was not. */
static bool ask(const gal_stage_classes *r, uint32_t block, uint32_t from, uint32_t to, double *more)
{
    const gal_mix_stage *stage = r->query->stage;
    const uint32_t pair = stage->types->pair_of[block];
    const bool known = from == to || !isnan(gal_mix_known(stage, pair, from, to));
    *more += known ? 0.0 : gal_mix_ask(stage, pair, from, to);
    return !known;
}

/* The conversions of the path that ends with `last`, and so what it costs; true: not all of them were known. */
static bool ask_path(gal_stage_classes *r, uint32_t last)
{
    const gal_class_query *q = r->query;
    double cost = r->now[last].cost;
    bool new = false;
    for (uint32_t block = q->end - 1; block > q->begin; block--) {
        const uint32_t past = r->from[(size_t)(block - q->begin) * r->class_count + last];
        new = ask(r, block, past, last, &cost) || new;
        last = past;
    }
    new = (comes_converted(r, last) && ask(r, q->begin, q->class_before, last, &cost)) || new;
    note_known(r, cost);
    return new;
}

/* Among the classes that are looked at: the last one of the least path, all of whose conversions are known. */
static uint32_t find_known_path(gal_stage_classes *r)
{
    uint32_t best;
    do {
        open_classes(r);
        best = find_path(r);
    } while (best < r->class_count && ask_path(r, best));
    return best;
}

/* Those that suit the types best are looked at first: the path through them spares most of the others. */
gal_priced_choice gal_stage_classes_find(gal_stage_classes *r, const gal_class_query *query, double price,
                                         uint32_t *class)
{
    r->query = query;
    r->price = price;
    price_stage(r);
    choose_classes(r);
    uint32_t best = find_known_path(r);
    if (query->all) {
        memset(r->looked_at, true, r->class_count * sizeof *r->looked_at);
        best = find_known_path(r);
    }
    if (best == r->class_count) {
        return (gal_priced_choice){HUGE_VAL, HUGE_VAL};
    }
    const gal_priced_choice sum = {r->now[best].seconds, r->now[best].bytes};
    for (uint32_t block = query->end; block-- > query->begin && class != NULL;) {
        class[block - query->begin] = best;
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
