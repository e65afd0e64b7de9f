#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schemas/base/size.h"

typedef struct example {
    const char *text;
    uint64_t bytes;
} example;

static void test_forms(void **state)
{
    (void)state;
    static const example examples[] = {
        {"1048576", 1048576},
        {"80GB", UINT64_C(80000000000)},
        {"80G", UINT64_C(80000000000)},
        {"80g", UINT64_C(80000000000)},
        {"80gib", UINT64_C(85899345920)}, /* 80 x 2^30 */
        {"80 GiB", UINT64_C(85899345920)},
        {" 80\tGiB ", UINT64_C(85899345920)},
        {"0.5TiB", UINT64_C(549755813888)}, /* 2^39 */
        {".5TiB", UINT64_C(549755813888)},
        {"1e9", UINT64_C(1000000000)},
        {"1E+9", UINT64_C(1000000000)},
        {"2.5e3KiB", 2560000},
        {"512MiB", 536870912},
        {"3kb", 3000},
        {"3KiB", 3072},
        {"7B", 7},
        {"7.", 7},
        {"0", 0},
        {"000000000000000000000012", 12},
        {"1PiB", UINT64_C(1125899906842624)}, /* 2^50 */
        {"16383PiB", UINT64_C(16383) << 50},
        {"1000000000000000000e1", UINT64_C(10000000000000000000)},
        {"1e-3MB", 1000},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        uint64_t bytes = 0;
        assert_true(gal_size_parse(examples[i].text, &bytes));
        assert_true(bytes == examples[i].bytes);
    }
}

/* 0.3 x 1024 = 307.2; 1.1 x 2^30 = 1181116006.4; 0.9999999999999999999 x 2^50 is 1.1e-4 below 2^50. */
static void test_rounds_down(void **state)
{
    (void)state;
    static const example examples[] = {{"0.3KiB", 307},   {"1.1GiB", 1181116006},
                                       {"0.5", 0},        {"1e-99", 0},
                                       {"1.5e-1KB", 150}, {"0.9999999999999999999PiB", (UINT64_C(1) << 50) - 1}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        uint64_t bytes = 99;
        assert_true(gal_size_parse(examples[i].text, &bytes));
        assert_true(bytes == examples[i].bytes);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        " ",
                                        "GB",
                                        "-1",
                                        "+1",
                                        "80GBB",
                                        "80 G B",
                                        "80GiBs",
                                        "1e",
                                        "1e+",
                                        "0x10",
                                        "1,5GB",
                                        "16384PiB" /* 2^64 */,
                                        "1e20",
                                        "1e100",
                                        "inf",
                                        "nan",
                                        ".",
                                        ".GB",
                                        "1..5",
                                        "80 GB of",
                                        "80giga",
                                        "80i",
                                        "80ib",
                                        "12345678901234567890"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t bytes = 99;
        assert_false(gal_size_parse(wrong[i], &bytes));
        assert_true(bytes == 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_rounds_down),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
