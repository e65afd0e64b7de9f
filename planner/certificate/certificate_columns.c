/* Prices of what is cheapest, where one stage is all: as columns are generated in linear programs. With kernels, or
 * what prices are at least, for the rest a bound is as good as with all prices once what it takes is priced, and few
 * strategies are. */
#include <math.h>

#include "planner/certificate/certificate_prices.h"

void gal_cert_note(gal_cert_prices *v, bool shown, double tail_weight, double price, double top)
{
    if (!shown && v->source != GAL_CERT_PRICED && v->notes.count < GAL_CERT_NOTES) {
        v->notes.of[v->notes.count++] = (gal_cert_note_of){tail_weight, price, top};
    }
}

/* Where in the stage blocks of the type are, but for what is the same of all its strategies. */
static gal_cert_position position_of(const gal_cert_prices *v, uint32_t type)
{
    return type == v->types.type_of[0]               ? GAL_CERT_FIRST
           : type == v->types.type_of[v->blocks - 1] ? GAL_CERT_LAST
                                                     : GAL_CERT_INSIDE;
}

/* What is known of a type, under a weight of the tail. */
typedef struct columns {
    uint32_t type;
    const gal_cert_rows *rows;
    uint32_t count;      /* the rows', and what has become known since they were made */
    gal_cert_item *item; /* [count] */
    double *cost;        /* [count] at a note */
} columns;

static gal_cert_item item_of(const gal_cert_prices *v, uint32_t type, const gal_cert_row *row, double tail_weight)
{
    return gal_cert_item_of(v, &v->kind[0], type, row, GAL_CERT_ADDED, tail_weight);
}

/* At a note; infinity: it takes too many bytes in turn. */
static double cost_of(const gal_cert_prices *v, uint32_t type, const gal_cert_item *item, const gal_cert_note_of *note)
{
    const gal_cert_position at = position_of(v, type);
    return item->turn_bytes <= note->top ? item->seconds[at] + note->price * item->bytes[at] : HUGE_VAL;
}

/* ---- from kernels to what prices are at least ---- */

static gal_code open_split(gal_cert_prices *v, columns *c, uint32_t split, double tail_weight)
{
    gal_code code = GAL_OK;
    const size_t first = (size_t)c->type * v->strategy_count;
    v->kernels[(size_t)c->type * v->split_count + split].opened = true;
    v->rows[c->type].known = false;
    for (uint32_t s = 0; s < v->strategy_count && code == GAL_OK; s++) {
        if (v->split_of[s] == split && gal_cert_may_take_for(v, c->type, &v->strategy[s], v->samples)) {
            gal_cert_row row = {.class = 0};
            code = gal_cert_price_strategy(v, 0, c->type, s, true, v->heap.err);
            gal_cert_row_price(v, v->price[first + s], &row);
            c->item[c->count++] = item_of(v, c->type, &row, tail_weight);
        }
    }
    return code;
}

/* The closed split of least kernels, if they are less than that; else the count. */
static uint32_t cheapest_closed(const gal_cert_prices *v, uint32_t type, const gal_cert_note_of *note, double least)
{
    uint32_t cheapest = v->split_count;
    for (uint32_t split = 0; split < v->split_count; split++) {
        if (gal_cert_is_closed(v, type, split)) {
            const gal_cert_item item = gal_cert_kernel_item(v, &v->kind[0], type, split, GAL_CERT_ADDED);
            const double own = cost_of(v, type, &item, note);
            cheapest = own < least ? split : cheapest;
            least = gal_cert_lesser(least, own);
        }
    }
    return cheapest;
}

/* Until what is cheapest is not kernels. */
static gal_code open_cheapest(gal_cert_prices *v, columns *c, const gal_cert_note_of *note, bool *more)
{
    gal_code code = GAL_OK;
    double least = HUGE_VAL;
    for (uint32_t i = 0;;) {
        for (; i < c->count; i++) {
            least = gal_cert_lesser(least, cost_of(v, c->type, &c->item[i], note));
        }
        const uint32_t cheapest = cheapest_closed(v, c->type, note, least);
        if (cheapest == v->split_count || code != GAL_OK) {
            return code;
        }
        code = open_split(v, c, cheapest, note->tail_weight);
        *more = true;
    }
}

/* ---- from that to prices ---- */

/* The count: no row has less than infinity. */
static uint32_t least_of(const double *cost, uint32_t count)
{
    uint32_t best = count;
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        best = cost[i] < least ? i : best;
        least = gal_cert_lesser(least, cost[i]);
    }
    return best;
}

/* Prices the strategies of a row, which have one floor. Rows are made anew where that is not one price; till then the
 * row is taken to be its first one's. */
static gal_code price_row(gal_cert_prices *v, uint32_t type, gal_cert_row *row)
{
    const size_t first = (size_t)type * v->strategy_count;
    const gal_block_price *const floor = v->price[first + row->strategy];
    gal_code code = GAL_OK;
    for (uint32_t s = row->strategy; s < v->strategy_count && code == GAL_OK; s++) {
        if (v->price[first + s] == floor && !v->exact[first + s]) {
            v->exact[first + s] = true;
            code = gal_cert_price_strategy(v, 0, type, s, false, v->heap.err);
            v->rows[type].known = v->rows[type].known && v->price[first + s] != NULL &&
                                  v->price[first + s] == v->price[first + row->strategy];
        }
    }
    gal_cert_row_price(v, v->price[first + row->strategy], row);
    return code;
}

/* Until the cheapest one is priced. */
static gal_code price_cheapest(gal_cert_prices *v, columns *c, const gal_cert_note_of *note, bool *more)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < c->count; i++) {
        c->cost[i] = cost_of(v, c->type, &c->item[i], note);
    }
    uint32_t best = least_of(c->cost, c->count);
    while (code == GAL_OK && best < c->count &&
           !v->exact[(size_t)c->type * v->strategy_count + c->rows->row[best].strategy]) {
        code = price_row(v, c->type, &c->rows->row[best]);
        c->item[best] = item_of(v, c->type, &c->rows->row[best], note->tail_weight);
        c->cost[best] = cost_of(v, c->type, &c->item[best], note);
        best = least_of(c->cost, c->count);
        *more = true;
    }
    return code;
}

/* ---- at all notes ---- */

typedef gal_code learn(gal_cert_prices *v, columns *c, const gal_cert_note_of *note, bool *more);

/* Of the type as it is known by now. */
static void list(gal_cert_prices *v, columns *c, double tail_weight)
{
    c->rows = gal_cert_rows_of(v, 0, c->type);
    for (c->count = 0; c->count < c->rows->count; c->count++) {
        c->item[c->count] = item_of(v, c->type, &c->rows->row[c->count], tail_weight);
    }
}

/* Of every type. */
static bool learn_more(gal_cert_prices *v, learn *by)
{
    bool more = false;
    columns c = {.item = gal_heap_take_room(&v->heap, v->strategy_count, sizeof *c.item),
                 .cost = gal_heap_take_room(&v->heap, v->strategy_count, sizeof *c.cost)};
    for (c.type = 0; c.type < v->types.type_count && v->heap.code == GAL_OK; c.type++) {
        for (uint32_t n = 0; n < v->notes.count && v->heap.code == GAL_OK; n++) {
            const gal_cert_note_of *note = &v->notes.of[n];
            if (n == 0 || note->tail_weight != note[-1].tail_weight) {
                list(v, &c, note->tail_weight);
            }
            v->heap.code = by(v, &c, note, &more);
        }
    }
    v->notes.count = more || by == price_cheapest ? 0 : v->notes.count;
    v->changed_count += more;
    return more && v->heap.code == GAL_OK;
}

bool gal_cert_floors_more(gal_cert_prices *v)
{
    return learn_more(v, open_cheapest);
}

bool gal_cert_prices_more(gal_cert_prices *v)
{
    v->priced_count++;
    return learn_more(v, price_cheapest);
}
