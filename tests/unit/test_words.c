#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "planner/space/words.h"

static void test_meaning(void **state)
{
    (void)state;
    assert_string_equal(gal_words_meaning(GAL_VOCABULARY_SPACE, "FSDP"), "zero3");
    assert_string_equal(gal_words_meaning(GAL_VOCABULARY_COLUMN, "micro-batch-size"), "microbatch");
    assert_string_equal(gal_words_meaning(GAL_VOCABULARY_COLUMN, "GBS"), "global_batch");
    assert_string_equal(gal_words_meaning(GAL_VOCABULARY_SCHEDULE, "vpp"), "interleaved");
    assert_string_equal(gal_words_meaning(GAL_VOCABULARY_COLUMN, "vpp"), "chunks");
    assert_null(gal_words_meaning(GAL_VOCABULARY_SPACE, "zero3")); /* galplan's own word */
    assert_null(gal_words_meaning(GAL_VOCABULARY_SPACE, ""));
}

static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};

static void test_find(void **state)
{
    (void)state;
    assert_int_equal(gal_words_find(GAL_VOCABULARY_SCHEDULE, "1F1B", names, 4), 1);
    assert_int_equal(gal_words_find(GAL_VOCABULARY_SCHEDULE, "Zero_Bubble", names, 4), 3);
    assert_int_equal(gal_words_find(GAL_VOCABULARY_SCHEDULE, "ZB-H1", names, 4), 3);
    assert_int_equal(gal_words_find(GAL_VOCABULARY_SCHEDULE, "zb", names, 3), 3); /* not among these names */
    assert_int_equal(gal_words_find(GAL_VOCABULARY_SCHEDULE, "dualpipe", names, 4), 4);
}

static void test_suggest(void **state)
{
    (void)state;
    char text[128];
    gal_words_suggest(GAL_VOCABULARY_SCHEDULE, "G-Pip", names, 4, text, sizeof text);
    assert_string_equal(text, "did you mean \"gpipe\"? known: gpipe, 1f1b, interleaved, zero-bubble");
    gal_words_suggest(GAL_VOCABULARY_SCHEDULE, "pipedream-flsh", names, 4, text, sizeof text);
    assert_string_equal(text, "did you mean \"pipedream-flush\"? known: gpipe, 1f1b, interleaved, zero-bubble");
    gal_words_suggest(GAL_VOCABULARY_SCHEDULE, "xylophone", names, 4, text, sizeof text);
    assert_string_equal(text, "known: gpipe, 1f1b, interleaved, zero-bubble");
    gal_words_suggest(GAL_VOCABULARY_SCHEDULE, "xylophone", names, 4, text, 12);
    assert_string_equal(text, "known: gpip");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_suggest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
