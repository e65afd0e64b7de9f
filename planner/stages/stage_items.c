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
                                             [GAL_ITEM_ENTER_TAIL] = item->enter_tail_seconds,
                                             [GAL_ITEM_BEFORE_FORWARD] = item->hidden_before.forward_seconds,
                                             [GAL_ITEM_BEFORE_BACKWARD] = item->hidden_before.backward_seconds,
                                             [GAL_ITEM_BEHIND_FORWARD] = item->hidden_behind.forward_seconds,
                                             [GAL_ITEM_BEHIND_BACKWARD] = item->hidden_behind.backward_seconds,
                                             [GAL_ITEM_GATHERS] = item->gathers ? 1.0 : 0.0};
    for (int i = 0; i < GAL_ITEM_NUMBERS; i++) {
        items->number[i][at] = number[i];
    }
    for (int i = GAL_ITEM_BEFORE_FORWARD; i <= GAL_ITEM_BEHIND_BACKWARD; i++) {
        items->crowds = items->crowds || number[i] > 0.0;
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
enum { REST_COUNT = 7 }; /* numbers beside seconds that are compared */
enum { SECONDS, BYTES, FIRST, LAST, BEFORE, BEHIND, KEPT, VALUES = KEPT + REST_COUNT };

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
    const double *restrict before = items->number[GAL_ITEM_BEFORE_BACKWARD];
    const double *restrict behind = items->number[GAL_ITEM_BEHIND_BACKWARD];
    const double not_hidden = rates.backward * w->not_hidden_share;
    for (uint32_t i = 0; i < items->count && items->crowds && not_hidden > 0.0; i++) {
        seconds[i] += not_hidden * (before[i] + behind[i]);
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

static void weigh_crowds(const gal_stage_items *items, const gal_item_weights *w, gal_item_number forward_number,
                         gal_item_number backward_number, double *restrict out)
{
    const double *restrict forward = items->number[forward_number];
    const double *restrict backward = items->number[backward_number];
    const double rate = w->rates.forward, backward_rate = w->rates.backward * w->hidden_share;
    for (uint32_t i = 0; i < items->count; i++) {
        out[i] = rate * forward[i] + backward_rate * backward[i];
    }
}

/* ---- what is not beaten ---- */

static bool is_quicker(const key *a, const key *b)
{
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->strategy < b->strategy);
}

/* What is compared beside seconds: of items that take no more beside any neighbour the first ones. */
enum { REST_BYTES, REST_TURN, REST_FIRST, REST_LAST, REST_CALM, REST_BEFORE = REST_CALM, REST_BEHIND, REST_GATHERS };

typedef struct rest {
    double of[REST_COUNT];
} rest;

static rest rest_of(const gal_stage_items *items, const gal_item_room *room, uint32_t at)
{
    return (rest){{[REST_BYTES] = values_of(room, BYTES)[at],
                   [REST_TURN] = items->number[GAL_ITEM_TURN][at],
                   [REST_FIRST] = values_of(room, FIRST)[at],
                   [REST_LAST] = values_of(room, LAST)[at],
                   [REST_BEFORE] = items->crowds ? values_of(room, BEFORE)[at] : 0.0,
                   [REST_BEHIND] = items->crowds ? values_of(room, BEHIND)[at] : 0.0,
                   [REST_GATHERS] = items->number[GAL_ITEM_GATHERS][at]}};
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
    const key other = {values_of(room, SECONDS)[by], items->strategy[by], by};
    if (!is_quicker(&other, own)) {
        return false;
    }
    const rest mine = rest_of(items, room, at), its = rest_of(items, room, by);
    bool is = true;
    for (int i = 0; i < (items->crowds ? REST_COUNT : REST_CALM) && is; i++) {
        is = its.of[i] <= mine.of[i];
    }
    return is;
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

/* [kept] the same of those that are not beaten. */
typedef struct kept_items {
    uint32_t count;
    double *of[REST_COUNT];
} kept_items;

static bool is_beaten_by(const kept_items *kept, uint32_t by, const rest *own, int compared)
{
    bool is = true;
    for (int i = 0; i < compared && is; i++) {
        is = kept->of[i][by] <= own->of[i];
    }
    return is;
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
static inline bool is_beaten_by_any(const kept_items *kept, uint32_t begin, const rest *own, int compared)
{
    answers any = {0, 0};
    for (uint32_t at = begin; at < begin + GROUP; at += 2) {
        answers all = are_no_more(kept->of[0] + at, own->of[0]);
        for (int i = 1; i < compared; i++) {
            all &= are_no_more(kept->of[i] + at, own->of[i]);
        }
        any |= all;
    }
    return (any[0] | any[1]) != 0;
}

/* The first that beats it; kept->count: none does. */
static inline uint32_t find_beater(const kept_items *kept, const rest *own, int compared)
{
    uint32_t by = 0;
    while (kept->count - by >= GROUP && !is_beaten_by_any(kept, by, own, compared)) {
        by += GROUP;
    }
    while (by < kept->count && !is_beaten_by(kept, by, own, compared)) {
        by++;
    }
    return by;
}

/* Leaves of a class, the quickest first, what none before it beats: what beat the one before often beats the next.
 * Returns how many. */
static inline uint32_t leave_unbeaten(gal_stage_items *items, const gal_item_room *room, key *keys, uint32_t count,
                                      int compared)
{
    kept_items kept = {.count = 0};
    uint32_t by = 0;
    for (int i = 0; i < compared; i++) {
        kept.of[i] = values_of(room, KEPT + i);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = keys[i].place;
        const rest own = rest_of(items, room, at);
        if (by == kept.count || !is_beaten_by(&kept, by, &own, compared)) {
            by = find_beater(&kept, &own, compared);
        }
        if (by < kept.count) {
            items->beater[at] = keys[by].place;
            continue;
        }
        keys[kept.count] = keys[i];
        for (int k = 0; k < compared; k++) {
            kept.of[k][kept.count] = own.of[k];
        }
        kept.count++;
    }
    return kept.count;
}

static uint32_t leave_best(gal_stage_items *items, const gal_item_room *room, key *keys, uint32_t count)
{
    return items->crowds ? leave_unbeaten(items, room, keys, count, REST_COUNT)
                         : leave_unbeaten(items, room, keys, count, REST_CALM);
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
    uint32_t *const others = (uint32_t *)(void *)values_of(room, KEPT);
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
    if (items->crowds) {
        weigh_crowds(items, w, GAL_ITEM_BEFORE_FORWARD, GAL_ITEM_BEFORE_BACKWARD, values_of(room, BEFORE));
        weigh_crowds(items, w, GAL_ITEM_BEHIND_FORWARD, GAL_ITEM_BEHIND_BACKWARD, values_of(room, BEHIND));
    }
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
                                .before_seconds = items->crowds ? values_of(room, BEFORE)[at] : 0.0,
                                .behind_seconds = items->crowds ? values_of(room, BEHIND)[at] : 0.0,
                                .gathers = items->number[GAL_ITEM_GATHERS][at] > 0.0,
                                .class = items->class[at],
                                .strategy = own[i].strategy};
    }
}
