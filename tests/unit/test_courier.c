/* The second thread looks while the first one is away, never while it has the turn, and sleeps when there is nothing to
 * look after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "runtime/engine/courier.h"
#include "schemas/base/clock.h"

static const double limit_seconds = 20.0;

/* `turn` is neither atomic nor locked: a look beside the first thread's turn is a race, which the thread sanitizer sees
 * too. */
typedef struct watched {
    uint64_t turn;
    atomic_uint looks;
    gal_courier_found found;
} watched;

static gal_courier_found look(void *context, double *due_seconds)
{
    watched *w = context;
    w->turn++;
    atomic_fetch_add(&w->looks, 1);
    (void)due_seconds;
    return w->found;
}

static void nap(double seconds)
{
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

static void wait_for_looks(watched *w, unsigned count)
{
    const double end_seconds = gal_now_seconds() + limit_seconds;
    while (atomic_load(&w->looks) < count && gal_now_seconds() < end_seconds) {
        nap(1e-4);
    }
    assert_true(atomic_load(&w->looks) >= count);
}

static gal_courier *start(watched *w)
{
    gal_error err = {GAL_OK, ""};
    gal_courier *courier = NULL;
    assert_int_equal(gal_courier_create(look, w, &courier, &err), GAL_OK);
    return courier;
}

static void test_looks_while_the_first_is_away(void **unused)
{
    (void)unused;
    watched w = {.found = GAL_COURIER_WAITS};
    gal_courier *courier = start(&w);
    gal_courier_leave(courier, true);
    wait_for_looks(&w, 3);
    gal_courier_return(courier);
    gal_courier_free(courier);
}

static void test_takes_turns(void **unused)
{
    (void)unused;
    watched w = {.found = GAL_COURIER_MOVED};
    gal_courier *courier = start(&w);
    for (uint32_t i = 0; i < 200; i++) {
        gal_courier_leave(courier, true);
        nap(1e-4);
        gal_courier_return(courier);
        const uint64_t mine = ++w.turn;
        nap(1e-4); /* longer than the second thread sleeps */
        assert_int_equal(w.turn, mine);
    }
    assert_true(atomic_load(&w.looks) > 0);
    gal_courier_free(courier);
}

/* One look finds nothing; then there is none until something is in flight again. */
static void test_sleeps_when_there_is_nothing(void **unused)
{
    (void)unused;
    watched w = {.found = GAL_COURIER_NOTHING};
    gal_courier *courier = start(&w);
    gal_courier_leave(courier, false);
    nap(5e-3);
    assert_int_equal(atomic_load(&w.looks), 0);
    gal_courier_return(courier);
    gal_courier_leave(courier, true);
    wait_for_looks(&w, 1);
    nap(5e-3);
    gal_courier_return(courier);
    assert_int_equal(atomic_load(&w.looks), 1);
    gal_courier_leave(courier, true);
    wait_for_looks(&w, 2);
    gal_courier_return(courier);
    gal_courier_free(courier);
}

static void test_none_is_accepted(void **unused)
{
    (void)unused;
    gal_courier_leave(NULL, true);
    gal_courier_return(NULL);
    gal_courier_rest(NULL);
    gal_courier_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_while_the_first_is_away), cmocka_unit_test(test_takes_turns),
        cmocka_unit_test(test_sleeps_when_there_is_nothing), cmocka_unit_test(test_none_is_accepted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
