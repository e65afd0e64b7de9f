/* Lists and ranges of batches and microbatch counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "planner/space/ranges.h"

typedef gal_code parser(const char *option, const char *text, gal_u32_list *out, gal_error *err);

static void gives(parser *parse, const char *text, uint32_t count, const uint32_t *values)
{
    gal_u32_list list = {0};
    gal_error err = {0};
    assert_int_equal(parse("batch", text, &list, &err), GAL_OK);
    assert_int_equal(list.count, count);
    assert_memory_equal(list.value, values, count * sizeof *values);
}

static void refuses(parser *parse, const char *text, const char *message)
{
    gal_u32_list list = {.count = 7};
    gal_error err = {0};
    assert_int_equal(parse("batch", text, &list, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, message);
    assert_int_equal(list.count, 7); /* left alone */
}

static void test_lists_and_ranges(void **state)
{
    (void)state;
    gives(gal_parse_batches, "8", 1, (uint32_t[]){8});
    gives(gal_parse_batches, "24,8,16", 3, (uint32_t[]){24, 8, 16});
    gives(gal_parse_batches, "8:64", 4, (uint32_t[]){8, 16, 32, 64});
    gives(gal_parse_batches, "8:60", 3, (uint32_t[]){8, 16, 32});
    gives(gal_parse_batches, "8:24:8", 3, (uint32_t[]){8, 16, 24});
    gives(gal_parse_batches, "1:30:x3", 4, (uint32_t[]){1, 3, 9, 27});
    gives(gal_parse_batches, "5:5", 1, (uint32_t[]){5});
    gives(gal_parse_batches, "4294967295", 1, (uint32_t[]){UINT32_MAX});
    gives(gal_parse_batches, "2147483648:4294967295", 1, (uint32_t[]){UINT32_C(2147483648)}); /* no wrap around */
    gives(gal_parse_microbatches, "max:8", 4, (uint32_t[]){1, 2, 4, 8});
    gives(gal_parse_microbatches, "max:7", 3, (uint32_t[]){1, 2, 4});
    gives(gal_parse_microbatches, "3,6", 2, (uint32_t[]){3, 6});
}

static void test_refusals(void **state)
{
    (void)state;
    const char *numbers = "--batch: must be whole numbers from 1 to 4294967295, got";
    char message[128];
    const char *const bad[] = {"",   "0",     "-1",     "x",  "4294967296", "99999999999999999999999", "8,", "8,,16",
                               "8:", "8:16:", "8:16:x", " 8", "+8"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(message, sizeof message, "%s '%s'", numbers, bad[i]);
        refuses(gal_parse_batches, bad[i], message);
    }
    refuses(gal_parse_batches, "1.5", "--batch: must be a list 8,16 or a range A:B, A:B:STEP, A:B:xF, got '1.5'");
    refuses(gal_parse_batches, "16:8", "--batch: a range A:B needs A <= B, a factor at least 2, got '16:8'");
    refuses(gal_parse_batches, "1:8:x1", "--batch: a range A:B needs A <= B, a factor at least 2, got '1:8:x1'");
    refuses(gal_parse_batches, "1:8,9", "--batch: must end after the range, got '1:8,9'");
    refuses(gal_parse_batches, "1:1000:1", "--batch: at most 64 values, got '1:1000:1'");
    refuses(gal_parse_microbatches, "max:", "--batch: must be whole numbers from 1 to 4294967295, got 'max:'");
    refuses(gal_parse_microbatches, "max:8,16", "--batch: must be max:N, got 'max:8,16'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_ranges),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
