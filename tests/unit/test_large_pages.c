/* A reserved heap is addresses, not memory, and hands out what any heap does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "schemas/base/large_pages.h"

static long resident_kilobytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* One large page for what is touched, one for what the allocator writes behind it. */
static void test_addresses_alone(void **state)
{
    (void)state;
    const long before = resident_kilobytes();
    gal_large_pages_reserve();
    char *block = malloc(1 << 20);
    assert_non_null(block);
    memset(block, 1, 1 << 20);
    assert_true(resident_kilobytes() - before <= 2 * 2048);
    free(block);
}

/* More addresses than are reserved, in blocks whose ends alone are written. */
static void test_more_than_reserved(void **state)
{
    (void)state;
    enum { BLOCKS = 10, BYTES = 256 << 20 };
    static char *block[BLOCKS];
    gal_large_pages_reserve();
    for (uint32_t i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BYTES);
        assert_non_null(block[i]);
        block[i][0] = block[i][BYTES - 1] = (char)(i + 1);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(block[i][0], (char)(i + 1));
        assert_int_equal(block[i][BYTES - 1], (char)(i + 1));
        free(block[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_alone),
        cmocka_unit_test(test_more_than_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
