/* Sync on the only stage, by hand: how it is parted, and the queue that a path makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/lag.h"
#include "planner/cell/path.h"

static gal_block_price parted(double sync, double lag, bool alone, double borrowed)
{
    gal_block_price price = {.sync_seconds = sync, .lag_seconds = lag};
    gal_lag_part(alone, borrowed, &price);
    return price;
}

static void check_parts(const gal_block_price *price, double once, double lag)
{
    assert_true(price->once_seconds == once && price->lag_seconds == lag);
}

/* What a block slows counts in any case; what it leaves to be reduced, and what time it has to spare, is the rest. */
static void test_parts(void **state)
{
    (void)state;
    const gal_block_price lags = parted(3.0, 2.0, false, 0.0), spares = parted(0.5, -4.0, false, 0.0),
                          none = parted(0.0, -4.0, false, 0.0), more = parted(3.0, 5.0, false, 0.0);
    check_parts(&lags, 1.0, 1.0);
    check_parts(&spares, 0.5, -4.5);
    check_parts(&none, 0.0, -4.0);
    check_parts(&more, 0.0, 3.0); /* e is no more than sync */
    assert_true(gal_lag_of(0.0, &lags) == 2.0 && gal_lag_of(0.0, &spares) == -4.0 && gal_lag_of(0.0, &more) == 3.0);
}

static void test_alone_and_borrowed(void **state)
{
    (void)state;
    const gal_block_price alone = parted(3.0, -4.0, true, 0.0), gains = parted(-1.0, -4.0, true, 0.0),
                          borrows = parted(3.0, 1.0, false, 2.0);
    check_parts(&alone, 3.0, 0.0);
    check_parts(&gains, 0.0, -1.0);
    check_parts(&borrows, 0.0, 3.0); /* of its own 1, and the table's 2, which whoever does not bring it takes off */
    assert_true(gal_lag_of(2.0, &borrows) == 1.0);
}

static double queue(const double *tail, const bool *awaits, uint32_t count)
{
    gal_path path = {0};
    for (uint32_t i = 0; i < count; i++) {
        gal_path_add(&path, &(gal_cell_step){.tail_seconds = tail[i], .lags = true, .awaits = awaits[i]});
    }
    return path.exposed;
}

/* The largest sum over first blocks, whatever those behind have to spare: they run before. */
static void test_queue(void **state)
{
    (void)state;
    const double tail[] = {2.0, -3.0, 4.0, -9.0};
    const bool none[] = {false, false, false, false}, second[] = {false, true, false, false};
    assert_true(queue(tail, none, 1) == 2.0);
    assert_true(queue(tail, none, 2) == 2.0);
    assert_true(queue(tail, none, 3) == 3.0);
    assert_true(queue(tail, none, 4) == 3.0);
    assert_true(queue(tail + 1, none, 1) == 0.0);
    assert_true(queue(tail, second, 4) == 6.0); /* one that waits for the buffers hides nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_alone_and_borrowed),
        cmocka_unit_test(test_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
