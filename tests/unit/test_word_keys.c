/* Results under keys of words: of one length and another, of equal beginnings, of as many as make the table grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/word_keys.h"

enum { MANY = 3000, LONGEST = 5000 };

static void keep(gal_word_keys *keys, const uint64_t *word, uint32_t count, uint32_t result)
{
    gal_error err = {0};
    assert_null(gal_word_keys_find(keys, word, count));
    assert_int_equal(gal_word_keys_keep(keys, word, count, &result, sizeof result, &err), GAL_OK);
}

static void assert_kept(const gal_word_keys *keys, const uint64_t *word, uint32_t count, uint32_t result)
{
    const uint32_t *found = gal_word_keys_find(keys, word, count);
    assert_non_null(found);
    assert_int_equal(*found, result);
}

static void lengths(void **unused)
{
    const uint64_t word[] = {7, 0, 0, 9};
    gal_word_keys keys = {0};
    (void)unused;
    for (uint32_t count = 1; count <= 4; count++) { /* 7 and 7 0 differ */
        keep(&keys, word, count, 100 + count);
    }
    for (uint32_t count = 1; count <= 4; count++) {
        assert_kept(&keys, word, count, 100 + count);
    }
    assert_null(gal_word_keys_find(&keys, word + 1, 1));
    gal_word_keys_free(&keys);
    assert_null(gal_word_keys_find(&keys, word, 1));
}

static void many(void **unused)
{
    gal_word_keys keys = {0};
    (void)unused;
    for (uint32_t i = 0; i < MANY; i++) {
        const uint64_t word[] = {i % 50, (uint64_t)i << 32};
        keep(&keys, word, 2, i);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const uint64_t word[] = {i % 50, (uint64_t)i << 32};
        assert_kept(&keys, word, 2, i);
    }
    assert_int_equal(keys.entry_count, MANY);
    gal_word_keys_free(&keys);
}

static void longer_than_a_page(void **unused)
{
    static uint64_t word[LONGEST];
    gal_word_keys keys = {0};
    (void)unused;
    keep(&keys, word, 1, 1);
    keep(&keys, word, LONGEST, 2);
    keep(&keys, word, 2, 3);
    assert_kept(&keys, word, LONGEST, 2);
    assert_kept(&keys, word, 2, 3);
    gal_word_keys_free(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),
        cmocka_unit_test(many),
        cmocka_unit_test(longer_than_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
