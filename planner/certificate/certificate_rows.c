/* Rows: what prices say of blocks, in the form in which menus ask for it, once for all kinds of stages. A price has
 * much more, and lies anywhere. Strategies that are another one's item again have none of their own: of all orders of a
 * strategy's axes in which its groups lie alike there is one price (costmodel/price.h), so of thousands of strategies
 * hundreds differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/certificate/certificate_prices.h"

/* A strategy that can be had. */
typedef struct priced {
    const gal_block_price *price;
    uint32_t strategy;
} priced;

static int by_price(const void *x, const void *y)
{
    const priced *a = x;
    const priced *b = y;
    if (a->price != b->price) {
        return (uintptr_t)a->price < (uintptr_t)b->price ? -1 : 1;
    }
    return a->strategy < b->strategy ? -1 : a->strategy > b->strategy;
}

static double largest(const gal_ring_turns *turns)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        most = turns->bytes[i] > most ? turns->bytes[i] : most;
    }
    return (double)most;
}

static double turn_bytes(const gal_cert_prices *v, const gal_block_memory *m)
{
    const double gathers =
        fmax(largest(&m->gathers_forward), fmax(largest(&m->gathers_backward), largest(&m->gathers_evaluate)));
    return v->cell->prefetch_depth * gathers + 2.0 * largest(&m->buckets) + (double)m->bytes.scratch +
           (double)m->bytes.work + (m->halved ? (double)m->bytes.boundary : 0.0);
}

void gal_cert_row_price(const gal_cert_prices *v, const gal_block_price *price, gal_cert_row *row)
{
    if (price == NULL) {
        row->pass_seconds = HUGE_VAL;
        return;
    }
    const gal_block_bytes *bytes = &price->memory->bytes;
    const double hidden = price->hidden_before.backward_seconds + price->hidden_behind.backward_seconds;
    const double backward = price->backward_seconds - gal_price_hidden_share(v->cell->microbatch_count) * hidden;
    gal_cert_row own = {.class = row->class,
                        .strategy = row->strategy,
                        .repeats = row->repeats,
                        .pass_seconds = gal_price_least_forward(price) + backward,
                        .enter_seconds = price->enter_seconds,
                        .leave_seconds = price->leave_seconds,
                        .tail_seconds = price->tail_seconds,
                        .saved_bytes = (double)bytes->saved,
                        .input_bytes = (double)bytes->input,
                        .turn_bytes = turn_bytes(v, price->memory),
                        .boundary_bytes = bytes->boundary,
                        .stages_input = bytes->staged_input > 0};
    memcpy(own.link_share, price->link_share, sizeof own.link_share);
    for (uint32_t pays = 0; pays < 2; pays++) {
        double update_seconds = price->update_seconds + price->once_seconds; /* once: of one stage alone */
        own.held_bytes[pays] = (double)(bytes->state + bytes->gradient);
        for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
            if (shared != GAL_SHARED_TABLE || pays == 0) { /* another block brings it */
                update_seconds -= price->shared_update_seconds[shared];
                own.held_bytes[pays] -= (double)price->memory->shared_bytes[shared];
            }
        }
        own.update_seconds[pays] = update_seconds;
        own.sync_seconds[pays] = price->lag_seconds - (pays == 1 ? 0.0 : price->table_sync_seconds);
    }
    *row = own;
}

/* The same price and class as one before it. */
static bool is_double(const gal_cert_prices *v, const priced *own, uint32_t at)
{
    bool is = false;
    for (uint32_t i = at; i-- > 0 && own[i].price == own[at].price && !is;) {
        is = v->class[own[i].strategy] == v->class[own[at].strategy];
    }
    return is;
}

static uint32_t list_priced(const gal_cert_prices *v, const gal_block_price *const *price, priced *own)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < v->strategy_count; s++) {
        if (price[s] != NULL) {
            own[count++] = (priced){price[s], s};
        }
    }
    return count;
}

/* Rows are read as prices lie, and in the order of strategies they do not depend on where that is.
 * slot  [strategy] zeroed */
static void make_rows(gal_cert_prices *v, const gal_block_price *const *price, priced *own, uint32_t *slot,
                      gal_cert_rows *out)
{
    const uint32_t count = list_priced(v, price, own);
    qsort(own, count, sizeof *own, by_price);
    for (uint32_t i = 0; i < count; i++) {
        slot[own[i].strategy] = !is_double(v, own, i);
    }
    for (uint32_t s = 0; s < v->strategy_count; s++) { /* behind so many */
        const uint32_t has = slot[s];
        slot[s] = out->count;
        out->count += has;
    }
    out->row = gal_heap_take(&v->heap, out->count, sizeof *out->row);
    out->count = out->row != NULL ? out->count : 0;
    for (uint32_t i = 0; i < count && out->count > 0; i++) {
        if (!is_double(v, own, i)) {
            gal_cert_row *row = &out->row[slot[own[i].strategy]];
            row->class = v->class[own[i].strategy];
            row->strategy = own[i].strategy;
            row->repeats = i > 0 && own[i].price == own[i - 1].price;
            gal_cert_row_price(v, own[i].price, row);
        }
    }
}

const gal_cert_rows *gal_cert_rows_of(gal_cert_prices *v, uint32_t place, uint32_t type)
{
    const size_t at = (size_t)place * v->types.type_count + type;
    gal_cert_rows *rows = &v->rows[at];
    if (!rows->known) {
        priced *own = gal_heap_take_room(&v->heap, v->strategy_count, sizeof *own);
        uint32_t *slot = gal_heap_take(&v->heap, v->strategy_count, sizeof *slot);
        if (own != NULL && slot != NULL) {
            rows->count = 0;
            make_rows(v, &v->price[at * v->strategy_count], own, slot, rows);
        }
        rows->known = true;
    }
    return rows;
}
