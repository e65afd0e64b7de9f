/* Menus that are listed again and again (planner/stages/stage_items.h) against all items, pruned
 * (tests/support/pruned_menu.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planner/stages/stage_items.h"
#include "tests/support/pruned_menu.h"
#include "tests/support/random_plan.h"

enum { TRIALS = 500, STRATEGIES = 200, LISTINGS = 12 };

/* Of few values, so that items are equal in some numbers and beat each other in all. */
static double draw(uint64_t *state, uint32_t values)
{
    return 0.1 * gal_random_below(state, values);
}

static gal_screened_item draw_item(uint64_t *state, uint32_t values)
{
    return (gal_screened_item){.forward_seconds = draw(state, values),
                               .backward_seconds = draw(state, values),
                               .tail_seconds = draw(state, values),
                               .update_seconds = draw(state, values),
                               .enter_seconds = draw(state, 3) - 0.1,
                               .leave_seconds = draw(state, 3) - 0.1,
                               .enter_tail_seconds = draw(state, 2),
                               .bytes = draw(state, values),
                               .saved_bytes = draw(state, values),
                               .turn_bytes = draw(state, 3)};
}

/* Half of the trials have none. */
static void draw_hidden(uint64_t *state, gal_screened_item *item)
{
    item->gathers = gal_random_below(state, 2) == 0;
    if (item->gathers) {
        item->hidden_before = (gal_pass_seconds){draw(state, 2), draw(state, 3)};
        item->hidden_behind = (gal_pass_seconds){draw(state, 2), draw(state, 3)};
    }
}

typedef struct trial {
    gal_screened_item item[STRATEGIES];
    uint32_t class[STRATEGIES], strategy[STRATEGIES];
    double more[STRATEGIES];
    bool may_take[STRATEGIES];
    uint32_t count;
    gal_stage_items items;
} trial;

/* Classes one after the other, of each the strategies in any order. */
static void create(uint64_t *state, trial *t)
{
    gal_error err = {0};
    const uint32_t classes = 1 + gal_random_below(state, 5);
    const uint32_t values = 2 + gal_random_below(state, 9);
    const bool hides = gal_random_below(state, 2) == 0;
    t->count = gal_random_below(state, STRATEGIES + 1);
    for (uint32_t i = 0; i < t->count; i++) {
        t->strategy[i] = i;
        t->class[i] = i * classes / t->count;
        t->item[i] = draw_item(state, values);
        if (hides) {
            draw_hidden(state, &t->item[i]);
        }
        t->more[i] = draw(state, 3);
    }
    for (uint32_t i = 1; i < t->count; i++) {
        const uint32_t k = gal_random_below(state, i + 1);
        const uint32_t own = t->strategy[i];
        if (t->class[t->strategy[k]] == t->class[own]) {
            t->strategy[i] = t->strategy[k];
            t->strategy[k] = own;
        }
    }
    assert_int_equal(gal_stage_items_create(t->item, t->class, t->strategy, t->count, &t->items, &err), GAL_OK);
    for (uint32_t i = 0; i < t->count; i++) {
        t->items.number[GAL_ITEM_TRANSFER][i] = draw(state, 3);
    }
}

static gal_item_weights draw_weights(uint64_t *state, trial *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        t->may_take[i] = gal_random_below(state, 3) > 0;
    }
    return (gal_item_weights){.rates = {1.0, 1.0 - draw(state, 3), draw(state, 3)},
                              .update = draw(state, 3),
                              .in_flight = 1.0 + gal_random_below(state, 3),
                              .sent = 1.0 + gal_random_below(state, 2),
                              .hidden_share = 0.5,
                              .not_hidden_share = 0.5 * gal_random_below(state, 2),
                              .enters = gal_random_below(state, 2) > 0,
                              .leaves = gal_random_below(state, 2) > 0,
                              .more = gal_random_below(state, 2) > 0 ? t->more : NULL,
                              .may_take = gal_random_below(state, 3) == 0 ? t->may_take : NULL,
                              .order = gal_random_below(state, 2)};
}

static gal_mix_item item_of(const trial *t, const gal_item_weights *w, uint32_t at)
{
    const gal_screened_item *own = &t->item[t->strategy[at]];
    const gal_mix_rates rates = w->rates;
    const double more = w->more == NULL ? 0.0 : w->more[t->strategy[at]];
    const gal_pass_seconds *before = &own->hidden_before, *behind = &own->hidden_behind;
    const double not_hidden =
        rates.backward * w->not_hidden_share * (before->backward_seconds + behind->backward_seconds);
    const double late = rates.backward * w->hidden_share;
    return (gal_mix_item){
        .seconds = rates.forward * own->forward_seconds + rates.backward * own->backward_seconds +
                   rates.tail * own->tail_seconds + w->update * own->update_seconds + not_hidden + more,
        .before_seconds = rates.forward * before->forward_seconds + late * before->backward_seconds,
        .behind_seconds = rates.forward * behind->forward_seconds + late * behind->backward_seconds,
        .gathers = own->gathers,
        .bytes = own->bytes + w->in_flight * own->saved_bytes,
        .turn_bytes = own->turn_bytes,
        .first_seconds = w->enters ? rates.forward * own->enter_seconds + rates.tail * own->enter_tail_seconds : 0.0,
        .last_seconds =
            w->leaves ? rates.backward * own->leave_seconds + w->sent * t->items.number[GAL_ITEM_TRANSFER][at] : 0.0,
        .class = t->class[t->strategy[at]],
        .strategy = t->strategy[at]};
}

static void assert_same_item(const gal_mix_item *a, const gal_mix_item *b)
{
    assert_true(a->seconds == b->seconds && a->bytes == b->bytes && a->turn_bytes == b->turn_bytes &&
                a->first_seconds == b->first_seconds && a->last_seconds == b->last_seconds &&
                a->before_seconds == b->before_seconds && a->behind_seconds == b->behind_seconds &&
                a->gathers == b->gathers);
    assert_int_equal(a->class, b->class);
    assert_int_equal(a->strategy, b->strategy);
}

/* Whatever was listed before. Returns how many items were beaten. */
static uint32_t check_menu(uint64_t *state, trial *t, gal_item_room *room)
{
    gal_mix_item all[STRATEGIES + 1];
    gal_mix_item listed[STRATEGIES + 1];
    const gal_item_weights w = draw_weights(state, t);
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (w.may_take == NULL || w.may_take[i]) {
            all[count++] = item_of(t, &w, i);
        }
    }
    const uint32_t kept = gal_prune_menu(all, count);
    assert_int_equal(gal_stage_items_list(&t->items, &w, room), kept);
    gal_stage_items_write(&t->items, room, kept, listed);
    for (uint32_t i = 0; i < kept; i++) {
        assert_same_item(&listed[i], &all[i]);
    }
    return count - kept;
}

static void test_menus_are_pruned(void **context)
{
    (void)context;
    gal_error err = {0};
    gal_item_room room = {0};
    uint64_t beaten = 0;
    uint64_t all = 0;
    assert_int_equal(gal_item_room_create(STRATEGIES, &room, &err), GAL_OK);
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        uint64_t state = seed;
        static trial t;
        create(&state, &t);
        for (uint32_t i = 0; i < LISTINGS; i++) {
            beaten += check_menu(&state, &t, &room);
            all += t.count;
        }
        gal_stage_items_free(&t.items);
    }
    gal_item_room_free(&room);
    assert_true(beaten > all / 10 && beaten < all - all / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_menus_are_pruned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
