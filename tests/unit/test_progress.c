/* The line that says how far long work is, and the estimate of what a search still takes. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/joint_search.h"
#include "schemas/base/progress.h"

static void check_line(const char *expected, uint32_t done, uint32_t count, double work_seconds, double elapsed_seconds)
{
    char line[GAL_PROGRESS_COLUMNS + 1];
    gal_progress_line(line, sizeof line, "kernels", done, count, work_seconds, elapsed_seconds);
    assert_string_equal(line, expected);
}

static void test_line(void **state)
{
    (void)state;
    check_line("kernels: 30 of 120, 8 s, 18 s left", 30, 120, 6.0, 8.0);
    check_line("kernels: 120 of 120, 26 s, 0 s left", 120, 120, 24.0, 26.0);
    check_line("kernels: 0 of 120, 2 s", 0, 120, 0.0, 2.0); /* no part is done: nothing to go by */
    check_line("kernels, 3 s", 7, 0, 3.0, 3.0);
    char line[GAL_PROGRESS_COLUMNS + 1];
    gal_progress_line(line, 12, "kernels", 1, 2, 1.0, 1.0);
    assert_string_equal(line, "kernels: 1 ");
}

static void test_pipe(void **state)
{
    (void)state;
    gal_progress progress = {.terminal = false};
    gal_progress_show(&progress, "kernels", 1, 2, 1.0);
    assert_false(progress.shown);
    gal_progress_write(&progress, "kernels");
    assert_false(progress.shown);
    gal_progress_end(&progress); /* nothing was written: nothing is taken away */
}

static void check_left(double expected, const gal_search_progress *now, double elapsed_seconds, double at_hand_seconds)
{
    const double left = gal_search_seconds_left(now, elapsed_seconds, at_hand_seconds);
    if (!(fabs(left - expected) <= 8 * DBL_EPSILON * expected)) { /* four operations, each to half of an epsilon */
        fail_msg("expected %g, got %.17g", expected, left);
    }
}

static void test_search_seconds_left(void **state)
{
    (void)state;
    /* 40 of 100 parts took 8 s, 1/5 s each: 30 at hand 6 s, 30 after them 6 s. */
    gal_search_progress now = {.effort_done = 40.0, .effort_at_hand = 30.0, .effort_after = 30.0};
    check_left(12.0, &now, 8.0, 0.0);
    check_left(10.0, &now, 10.0, 2.0); /* 2 s of the 6 have gone */
    check_left(15.0, &now, 17.0, 9.0); /* 9 s instead of 6: 9 more */
    now.work = 90;
    now.work_limit = 120; /* 90 took 9 s: 3 s to the limit */
    check_left(9.0, &now, 17.0, 9.0);
    now.work = 150; /* beyond: at its end */
    check_left(6.0, &now, 17.0, 9.0);
    const gal_search_progress first = {.effort_at_hand = 30.0, .effort_after = 70.0};
    assert_true(gal_search_seconds_left(&first, 5.0, 5.0) == HUGE_VAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_pipe),
                                       cmocka_unit_test(test_search_seconds_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
