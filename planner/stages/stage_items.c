#include "planner/stages/stage_items.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 24, GROUP = 8 }; /* runs that are put in order one by one; kept items that are looked at together */

/* ---- create ---- */

static void note(gal_stage_items *items, uint32_t at, const gal_screened_item *item)
{
    const double number[GAL_ITEM_NUMBERS] = {[GAL_ITEM_FORWARD] = item->forward_seconds,
                                             [GAL_ITEM_BACKWARD] = item->backward_seconds,
                                             [GAL_ITEM_TAIL] = item->tail_seconds,
                                             [GAL_ITEM_UPDATE] = item->update_seconds,
                                             [GAL_ITEM_BYTES] = item->bytes,
                                             [GAL_ITEM_SAVED] = item->saved_bytes,
                                             [GAL_ITEM_TURN] = item->turn_bytes,
                                             [GAL_ITEM_ENTER] = item->enter_seconds,
                                             [GAL_ITEM_LEAVE] = item->leave_seconds,
                                             [GAL_ITEM_ENTER_TAIL] = item->enter_tail_seconds};
    for (int i = 0; i < GAL_ITEM_NUMBERS; i++) {
        items->number[i][at] = number[i];
    }
}

gal_code gal_stage_items_create(const gal_screened_item *item, const uint32_t *class, const uint32_t *strategy,
                                uint32_t count, gal_stage_items *out, gal_error *err)
{
    const size_t room = (size_t)count + 1;
    double *number = malloc(room * (GAL_ITEM_NUMBERS * sizeof(double) + 6 * sizeof(uint32_t)));
    gal_stage_items items = {.count = count, .strategy = strategy, .memory = number};
    if (number == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (int i = 0; i < GAL_ITEM_NUMBERS; i++, number += room) {
        items.number[i] = number;
    }
    items.class = (uint32_t *)(void *)number;
    items.sent = items.class + room;
    items.carried = items.sent + room;
    items.beater = items.carried + room;
    items.order[0] = items.beater + room;
    items.order[1] = items.order[0] + room;
    for (uint32_t i = 0; i < count; i++) {
        note(&items, i, &item[strategy[i]]);
        items.class[i] = class[strategy[i]];
        items.sent[i] = items.carried[i] = 0;
        items.beater[i] = count;
        items.order[0][i] = items.order[1][i] = i;
    }
    *out = items;
    return GAL_OK;
}

void gal_stage_items_free(gal_stage_items *items)
{
    free(items->memory);
    *items = (gal_stage_items){0};
}

/* ---- room ---- */

/* What items are worth on the stage, and those at hand as they are compared, one number after the other. */
enum { SECONDS, BYTES, FIRST, LAST, KEPT_BYTES, KEPT_TURN, KEPT_FIRST, KEPT_LAST, VALUES };

/* An item that is not beaten yet. */
typedef struct key {
    double seconds;
    uint32_t strategy, place;
} key;

gal_code gal_item_room_create(uint32_t count, gal_item_room *out, gal_error *err)
{
    const size_t one = VALUES * sizeof(double) + 2 * sizeof(key);
    *out = (gal_item_room){malloc(((size_t)count + 1) * one), count};
    return out->value != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

void gal_item_room_free(gal_item_room *room)
{
    free(room->value);
    *room = (gal_item_room){0};
}

static double *values_of(const gal_item_room *room, int which)
{
    return room->value + (size_t)which * room->count;
}

static key *keys_of(const gal_item_room *room)
{
    return (key *)values_of(room, VALUES);
}

/* ---- what items are worth ---- */

static void weigh_seconds(const gal_stage_items *items, const gal_item_weights *w, double *restrict seconds)
{
    const double *restrict forward = items->number[GAL_ITEM_FORWARD];
    const double *restrict backward = items->number[GAL_ITEM_BACKWARD];
    const double *restrict tail = items->number[GAL_ITEM_TAIL];
    const double *restrict update = items->number[GAL_ITEM_UPDATE];
    const gal_mix_rates rates = w->rates;
    const double updated = w->update;
    for (uint32_t i = 0; i < items->count; i++) {
        seconds[i] =
            rates.forward * forward[i] + rates.backward * backward[i] + rates.tail * tail[i] + updated * update[i];
    }
    for (uint32_t i = 0; i < items->count && w->more != NULL; i++) {
        seconds[i] += w->more[items->strategy[i]];
    }
}

static void weigh_bytes(const gal_stage_items *items, const gal_item_weights *w, double *restrict bytes)
{
    const double *restrict once = items->number[GAL_ITEM_BYTES];
    const double *restrict saved = items->number[GAL_ITEM_SAVED];
    const double in_flight = w->in_flight;
    for (uint32_t i = 0; i < items->count; i++) {
        bytes[i] = once[i] + in_flight * saved[i];
    }
}

static void weigh_ends(const gal_stage_items *items, const gal_item_weights *w, double *restrict first,
                       double *restrict last)
{
    const double *restrict enter = items->number[GAL_ITEM_ENTER];
    const double *restrict enter_tail = items->number[GAL_ITEM_ENTER_TAIL];
    const double *restrict leave = items->number[GAL_ITEM_LEAVE];
    const double *restrict transfer = items->number[GAL_ITEM_TRANSFER];
    const gal_mix_rates rates = w->rates;
    const double sent = w->sent;
    for (uint32_t i = 0; i < items->count; i++) {
        first[i] = w->enters ? rates.forward * enter[i] + rates.tail * enter_tail[i] : 0.0;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        last[i] = w->leaves ? rates.backward * leave[i] + sent * transfer[i] : 0.0;
    }
}

/* ---- what is not beaten ---- */

static bool is_quicker(const key *a, const key *b)
{
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->strategy < b->strategy);
}

/* By one that beat it before: what that beats none need look at. To be beaten goes on from item to item, so what is
 * left is beaten by what is left, or by none. */
static bool is_beaten_again(const gal_stage_items *items, const gal_item_weights *w, const gal_item_room *room,
                            const key *own)
{
    const uint32_t at = own->place;
    const uint32_t by = items->beater[at];
    if (by == items->count || (w->may_take != NULL && !w->may_take[by])) {
        return false;
    }
    const double *turn = items->number[GAL_ITEM_TURN];
    const key other = {values_of(room, SECONDS)[by], items->strategy[by], by};
    const double *bytes = values_of(room, BYTES);
    const double *first = values_of(room, FIRST);
    const double *last = values_of(room, LAST);
    return is_quicker(&other, own) && bytes[by] <= bytes[at] && turn[by] <= turn[at] && first[by] <= first[at] &&
           last[by] <= last[at];
}

static void insert_each(key *own, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const key at = own[i];
        uint32_t k = i;
        for (; k > 0 && is_quicker(&at, &own[k - 1]); k--) {
            own[k] = own[k - 1];
        }
        own[k] = at;
    }
}

/* own[half] on, in order as its first half is, between the items of that. */
static void merge(key *own, uint32_t half, uint32_t count, key *room)
{
    const key *a = room;
    const key *const a_end = room + half;
    const key *b = own + half;
    const key *const b_end = own + count;
    memcpy(room, own, half * sizeof *room);
    while (a < a_end && b < b_end) {
        *own++ = is_quicker(b, a) ? *b++ : *a++;
    }
    memcpy(own, a, (size_t)(a_end - a) * sizeof *a);
}

/* The quickest first; what is nearly in order, as it is from one stage to the next, takes little. */
static void sort(key *own, uint32_t count, key *room)
{
    for (uint32_t i = 0; i < count; i += SHORT) {
        insert_each(own + i, count - i < SHORT ? count - i : SHORT);
    }
    for (uint32_t run = SHORT; run < count; run *= 2) {
        for (uint32_t i = 0; i + run < count; i += 2 * run) {
            if (is_quicker(&own[i + run], &own[i + run - 1])) {
                merge(own + i, run, count - i < 2 * run ? count - i : 2 * run, room);
            }
        }
    }
}

/* What is compared beside seconds. */
typedef struct rest {
    double bytes, turn, first, last;
} rest;

/* [kept] the same of those that are not beaten. */
typedef struct kept_items {
    uint32_t count;
    double *bytes, *turn, *first, *last;
} kept_items;

static bool is_beaten_by(const kept_items *kept, uint32_t by, const rest *own)
{
    return kept->bytes[by] <= own->bytes && kept->turn[by] <= own->turn && kept->first[by] <= own->first &&
           kept->last[by] <= own->last;
}

/* Two at once, as every processor of 64 bits has it. */
typedef double pair __attribute__((vector_size(2 * sizeof(double))));
typedef int64_t answers __attribute__((vector_size(2 * sizeof(int64_t))));

static answers are_no_more(const double *kept, double own)
{
    pair at;
    memcpy(&at, kept, sizeof at);
    return at <= (pair){own, own};
}

/* By one of a group that is kept from `begin` on: without a branch. */
static bool is_beaten_by_any(const kept_items *kept, uint32_t begin, const rest *own)
{
    answers any = {0, 0};
    for (uint32_t at = begin; at < begin + GROUP; at += 2) {
        any |= are_no_more(kept->bytes + at, own->bytes) & are_no_more(kept->turn + at, own->turn) &
               are_no_more(kept->first + at, own->first) & are_no_more(kept->last + at, own->last);
    }
    return (any[0] | any[1]) != 0;
}

/* The first that beats it; kept->count: none does. */
static uint32_t find_beater(const kept_items *kept, const rest *own)
{
    uint32_t by = 0;
    while (kept->count - by >= GROUP && !is_beaten_by_any(kept, by, own)) {
        by += GROUP;
    }
    while (by < kept->count && !is_beaten_by(kept, by, own)) {
        by++;
    }
    return by;
}

/* Leaves of a class, the quickest first, what none before it beats: what beat the one before often beats the next.
 * Returns how many. */
static uint32_t leave_best(gal_stage_items *items, const gal_item_room *room, key *keys, uint32_t count)
{
    kept_items kept = {0, values_of(room, KEPT_BYTES), values_of(room, KEPT_TURN), values_of(room, KEPT_FIRST),
                       values_of(room, KEPT_LAST)};
    uint32_t by = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = keys[i].place;
        const rest own = {values_of(room, BYTES)[at], items->number[GAL_ITEM_TURN][at], values_of(room, FIRST)[at],
                          values_of(room, LAST)[at]};
        if (by == kept.count || !is_beaten_by(&kept, by, &own)) {
            by = find_beater(&kept, &own);
        }
        if (by < kept.count) {
            items->beater[at] = keys[by].place;
            continue;
        }
        keys[kept.count] = keys[i];
        kept.bytes[kept.count] = own.bytes;
        kept.turn[kept.count] = own.turn;
        kept.first[kept.count] = own.first;
        kept.last[kept.count++] = own.last;
    }
    return kept.count;
}

/* Of the class that begins at this place in the order; *end: the next one does. Its places are put in order: those
 * that are looked at the quickest first, the others behind them. */
static uint32_t list_class(gal_stage_items *items, const gal_item_weights *w, const gal_item_room *room, uint32_t begin,
                           uint32_t *end, key *out)
{
    uint32_t *order = items->order[w->order];
    const double *seconds = values_of(room, SECONDS);
    const uint32_t class = items->class[order[begin]];
    key *const sorted = keys_of(room) + room->count; /* room */
    uint32_t *const others = (uint32_t *)(void *)values_of(room, KEPT_BYTES);
    uint32_t other_count = 0;
    uint32_t count = 0;
    uint32_t i = begin;
    for (; i < items->count && items->class[order[i]] == class; i++) {
        const uint32_t at = order[i];
        const key own = {seconds[at], items->strategy[at], at};
        if ((w->may_take != NULL && !w->may_take[at]) || is_beaten_again(items, w, room, &own)) {
            others[other_count++] = at;
        } else {
            out[count++] = own;
        }
    }
    *end = i;
    sort(out, count, sorted);
    for (uint32_t k = 0; k < count; k++) {
        order[begin + k] = out[k].place;
    }
    memcpy(order + begin + count, others, other_count * sizeof *others);
    return leave_best(items, room, out, count);
}

uint32_t gal_stage_items_list(gal_stage_items *items, const gal_item_weights *w, gal_item_room *room)
{
    uint32_t count = 0;
    weigh_seconds(items, w, values_of(room, SECONDS));
    weigh_bytes(items, w, values_of(room, BYTES));
    weigh_ends(items, w, values_of(room, FIRST), values_of(room, LAST));
    for (uint32_t begin = 0, end = 0; begin < items->count; begin = end) {
        count += list_class(items, w, room, begin, &end, keys_of(room) + count);
    }
    return count;
}

void gal_stage_items_write(const gal_stage_items *items, const gal_item_room *room, uint32_t count, gal_mix_item *out)
{
    const key *own = keys_of(room);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = own[i].place;
        out[i] = (gal_mix_item){.seconds = own[i].seconds,
                                .bytes = values_of(room, BYTES)[at],
                                .turn_bytes = items->number[GAL_ITEM_TURN][at],
                                .first_seconds = values_of(room, FIRST)[at],
                                .last_seconds = values_of(room, LAST)[at],
                                .class = items->class[at],
                                .strategy = own[i].strategy};
    }
}
