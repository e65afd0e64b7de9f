/* The line that says how far long work is, and the estimate of what a search still takes. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_pipe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
