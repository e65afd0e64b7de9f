/* Numbers as people read and write them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/answers/figure_text.h"
#include "planner/answers/training.h"

static void test_figures(void **state)
{
    (void)state;
    char text[GAL_FIGURE_TEXT_BYTES];
    assert_string_equal(gal_figure_text(13628.6, text), "13,629");
    assert_string_equal(gal_figure_text(1234567.0, text), "1,234,567");
    assert_string_equal(gal_figure_text(999.96, text), "1,000");
    assert_string_equal(gal_figure_text(701.84, text), "701.8");
    assert_string_equal(gal_figure_text(0.00041072, text), "0.0004107");
    assert_string_equal(gal_figure_text(0.0, text), "0");
}

static void test_memory(void **state)
{
    (void)state;
    char text[GAL_FIGURE_TEXT_BYTES];
    assert_string_equal(gal_memory_text(79720817152, text), "79.7 GB");
    assert_string_equal(gal_memory_text(1000000000, text), "1.0 GB");
    assert_string_equal(gal_memory_text(729000000, text), "729.0 MB");
    assert_string_equal(gal_memory_text(999999, text), "1000.0 kB");
    assert_string_equal(gal_memory_of_text(74200000000, 80000000000, text), "74.2 of 80.0 GB");
    assert_string_equal(gal_memory_of_text(4000000, 80000000000, text), "4.0 MB of 80.0 GB");
    assert_string_equal(gal_memory_of_text(4000000, 8000000, text), "4.0 of 8.0 MB");
}

static void test_tokens_text(void **state)
{
    (void)state;
    char text[GAL_FIGURE_TEXT_BYTES];
    assert_string_equal(gal_tokens_text(15e12, text), "15 T");
    assert_string_equal(gal_tokens_text(1.5e9, text), "1.5 B");
    assert_string_equal(gal_tokens_text(300.0, text), "300");
}

static double tokens_of(const char *text)
{
    double tokens = 0.0;
    gal_error err = {0};
    return gal_training_read_tokens(text, &tokens, &err) == GAL_OK ? tokens : -1.0;
}

static void test_tokens(void **state)
{
    (void)state;
    assert_true(tokens_of("1T") == 1e12 && tokens_of("15t") == 15e12 && tokens_of("300B") == 300e9);
    assert_true(tokens_of("1e12") == 1e12 && tokens_of("1.5M") == 1.5e6 && tokens_of("20k") == 20e3);
    static const char *const wrong[] = {"",    "T",   "0",  "-1T",  "1TB", "1 T", "0x10",
                                        "nan", "inf", "1P", "1e19", "+1",  " 1",  "1e999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(tokens_of(wrong[i]) == -1.0);
    }
}

/* 8 devices at 100,000 tokens/s: 1 T takes 10^7 s, 115.74 days, 22,222 device hours. */
static void test_training(void **state)
{
    (void)state;
    const gal_figures figures = {.tokens_per_second = 100000.0};
    gal_training training;
    gal_training_of(1e12, &figures, 8, &training);
    assert_true(training.tokens == 1e12);
    assert_true(fabs(training.days - 115.7407) < 1e-3);
    assert_true(fabs(training.device_hours - 22222.22) < 1e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures), cmocka_unit_test(test_memory),   cmocka_unit_test(test_tokens_text),
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
