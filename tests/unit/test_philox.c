/* Philox 4x32-10 against the known answers of Random123 (kat_vectors), and the moments of the normal numbers. */
#include <math.h>

#include "runtime/ops/host/philox.h"
#include "tests/support/ops_case.h"

static void known_answer(uint64_t key, uint64_t quad, uint32_t site, uint32_t step, const uint32_t expected[4])
{
    uint32_t lanes[4], many[4];
    gal_philox(key, quad, site, step, lanes);
    assert_memory_equal(lanes, expected, sizeof lanes);
    gal_philox_many(key, quad, site, step, 1, many);
    assert_memory_equal(many, expected, sizeof many);
}

static void known_answers(void **state)
{
    (void)state;
    known_answer(0, 0, 0, 0, (const uint32_t[]){0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
    known_answer(UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX,
                 (const uint32_t[]){0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU});
    /* counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0, least significant word first */
    known_answer(0x299f31d0a4093822U, 0x85a308d3243f6a88U, 0x13198a2eU, 0x03707344U,
                 (const uint32_t[]){0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U});
}

/* 37 in one go, over a carry of the counter's low word, are the 37 one by one. */
static void many_are_one_by_one(void **state)
{
    (void)state;
    enum { COUNT = 37 };
    const uint64_t first = 0x1FFFFFFF0U;
    uint32_t many[4 * COUNT], lanes[4];
    gal_philox_many(99, first, 5, 6, COUNT, many);
    for (uint32_t i = 0; i < COUNT; i++) {
        gal_philox(99, first + i, 5, 6, lanes);
        assert_memory_equal(many + 4 * i, lanes, sizeof lanes);
    }
}

/* n = 200000 numbers of N(0, 1): the mean has deviation 1/sqrt n = 0.0022, the second moment sqrt(2/n) = 0.0032, the
 * third sqrt(15/n) = 0.0087, the fourth sqrt(96/n) = 0.022, the product of neighbours 1/sqrt n; all within five. */
static void normal_moments(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    double sum[5] = {0}, previous = 0.0, product = 0.0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = gal_initial_normal(7, 3, i);
        double power = 1.0;
        for (int k = 0; k < 5; k++, power *= x) {
            sum[k] += power / COUNT;
        }
        product += x * previous / COUNT;
        previous = x;
    }
    assert_true(fabs(sum[1]) < 0.0112);
    assert_true(fabs(sum[2] - 1.0) < 0.0158);
    assert_true(fabs(sum[3]) < 0.0433);
    assert_true(fabs(sum[4] - 3.0) < 0.11);
    assert_true(fabs(product) < 0.0112);
}

static void normal_is_a_function_of_its_arguments(void **state)
{
    (void)state;
    assert_true(gal_initial_normal(1, 2, 3) == gal_initial_normal(1, 2, 3));
    assert_true(gal_initial_normal(1, 2, 3) != gal_initial_normal(1, 2, 2));
    assert_true(gal_initial_normal(1, 2, 3) != gal_initial_normal(1, 3, 3));
    assert_true(gal_initial_normal(1, 2, 3) != gal_initial_normal(2, 2, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(many_are_one_by_one),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(normal_is_a_function_of_its_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
