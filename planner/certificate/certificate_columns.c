/* Prices of what is cheapest, where one stage is all: as columns are generated in linear programs. With what prices are
 * at least for the rest a bound is as good as with all prices once what it takes is priced, and few strategies are. */
#include <math.h>

#include "planner/certificate/certificate_prices.h"

void gal_cert_note(gal_cert_prices *v, bool shown, double tail_weight, double price, double top)
{
    if (!shown && v->source == GAL_CERT_FLOORS && v->note_count < GAL_CERT_NOTES) {
        v->note[v->note_count++] = (gal_cert_note_of){tail_weight, price, top};
    }
}

/* Where in the stage blocks of the type are, but for what is the same of all its strategies. */
static gal_cert_position position_of(const gal_cert_prices *v, uint32_t type)
{
    return type == v->types.type_of[0]               ? GAL_CERT_FIRST
           : type == v->types.type_of[v->blocks - 1] ? GAL_CERT_LAST
                                                     : GAL_CERT_INSIDE;
}

/* At a note; infinity: it takes too many bytes in turn. */
static double cost_of(const gal_cert_prices *v, uint32_t type, const gal_cert_row *row, const gal_cert_note_of *note)
{
    const gal_cert_position at = position_of(v, type);
    const gal_cert_item item = gal_cert_item_of(v, &v->kind[0], type, row, GAL_CERT_ADDED, note->tail_weight);
    return item.turn_bytes <= note->top ? item.seconds[at] + note->price * item.bytes[at] : HUGE_VAL;
}

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

/* Until the cheapest one is priced. cost: room for all rows. */
static gal_code price_cheapest(gal_cert_prices *v, uint32_t type, const gal_cert_note_of *note, double *cost,
                               bool *more)
{
    gal_code code = GAL_OK;
    const gal_cert_rows *rows = gal_cert_rows_of(v, 0, type);
    for (uint32_t i = 0; i < rows->count; i++) {
        cost[i] = cost_of(v, type, &rows->row[i], note);
    }
    uint32_t best = least_of(cost, rows->count);
    while (code == GAL_OK && best < rows->count &&
           !v->exact[(size_t)type * v->strategy_count + rows->row[best].strategy]) {
        code = price_row(v, type, &rows->row[best]);
        cost[best] = cost_of(v, type, &rows->row[best], note);
        best = least_of(cost, rows->count);
        *more = true;
    }
    return code;
}

bool gal_cert_prices_more(gal_cert_prices *v)
{
    bool more = false;
    double *cost = gal_heap_take_room(&v->heap, v->strategy_count, sizeof *cost);
    for (uint32_t i = 0; cost != NULL && i < v->note_count; i++) {
        for (uint32_t type = 0; type < v->types.type_count && v->heap.code == GAL_OK; type++) {
            v->heap.code = price_cheapest(v, type, &v->note[i], cost, &more);
        }
    }
    v->note_count = 0;
    v->priced_count++;
    return more && v->heap.code == GAL_OK;
}
