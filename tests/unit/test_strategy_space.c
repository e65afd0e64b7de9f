/* The decision tree of strategies, counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planner/strategy_space.h"
#include "schemas/plan_check.h"

static gal_strategy strategies[GAL_SPACE_MAX];

static uint32_t count(const char *words, uint32_t device_count)
{
    gal_space space;
    gal_error err = {0};
    gal_space_all(&space);
    assert_true(words == NULL || gal_space_parse(words, &space, &err) == GAL_OK);
    return gal_space_strategies(&space, device_count, strategies);
}

static void test_everything(void **state)
{
    (void)state;
    /* One axis: dp 1, sdp 3 (ZeRO stages), tp 2 (sequence parallel or not): 6. An ordered pair of kinds with given
     * degrees: 2 (3 + 2 + 3 x 2) = 22. All three kinds: 6 orders x 3 x 2 = 36. All times 3 for recompute. */
    assert_int_equal(count(NULL, 1), 3);
    assert_int_equal(count(NULL, 2), 3 * 6);
    assert_int_equal(count(NULL, 4), 3 * (6 + 22));
    assert_int_equal(count(NULL, 6), 3 * (6 + 2 * 22));      /* 2 x 3 and 3 x 2 */
    assert_int_equal(count(NULL, 8), 3 * (6 + 2 * 22 + 36)); /* 2 x 4 and 4 x 2; 2 x 2 x 2 */
}

static void test_restricted(void **state)
{
    (void)state;
    assert_int_equal(count("dp", 8), 1);
    assert_int_equal(count("dp,recompute", 8), 2);
    assert_int_equal(count("dp,recompute,selective", 8), 3);
    assert_int_equal(count("tp", 4), 1);
    assert_int_equal(count("tp,sp", 4), 2);
    assert_int_equal(count("sdp", 4), 3);
    assert_int_equal(count("zero3", 4), 1);
    assert_int_equal(count("dp,tp", 4), 2 + 2);
    assert_int_equal(count("dp,zero2,zero3", 4), 1 + 2 + 2 * 2);
    assert_int_equal(count("sp", 4), 0); /* no axis to fill four devices */
    assert_int_equal(count("sp", 1), 1);
}

static void test_no_two_are_equal_and_a_recomputed_one_follows_its_plain_one(void **state)
{
    (void)state;
    const uint32_t n = count(NULL, 8);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            assert_false(gal_strategy_equal(&strategies[i], &strategies[j]));
        }
        if (strategies[i].recompute != GAL_RECOMPUTE_NONE) {
            gal_strategy before = strategies[i];
            before.recompute = (gal_recompute)(before.recompute - 1);
            assert_true(i > 0 && gal_strategy_equal(&strategies[i - 1], &before));
        }
    }
}

static uint32_t count_legal(uint32_t device_count)
{
    gal_model model;
    uint32_t legal = 0;
    gal_model_defaults(&model);
    model.layer_count = 1;
    model.hidden = 48;
    model.head_count = 24;
    model.ffn_hidden = 96;
    model.sequence_length = 48;
    model.vocabulary = 96;
    model.vocabulary_multiple = 48;
    const uint32_t n = count(NULL, device_count);
    for (uint32_t i = 0; i < n; i++) {
        legal += gal_strategy_rule_broken(&model, GAL_BLOCK_ATTENTION, &strategies[i], device_count, 48) == NULL;
    }
    return legal;
}

static void test_legality(void **state)
{
    (void)state;
    assert_int_equal(count_legal(1), 3);
    assert_int_equal(count_legal(4), 84);
    assert_int_equal(count_legal(8), 258);
    assert_int_equal(count_legal(6), 3 * (6 + 22)); /* 3 inside 2: the factors must ascend from the inside */
}

static void test_words(void **state)
{
    (void)state;
    gal_space space = {0};
    gal_error err = {0};
    assert_int_equal(gal_space_parse("dp,fsdp", &space, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text,
                        "--space: unknown axis 'fsdp' (known: dp, sdp, zero1, zero2, zero3, tp, sp, recompute, "
                        "selective)");
    assert_false(space.axis[GAL_AXIS_DP]); /* left alone */
    gal_error empty = {0};
    assert_int_equal(gal_space_parse("", &space, &empty), GAL_ERR_USAGE);
    gal_error comma = {0};
    assert_int_equal(gal_space_parse("dp,", &space, &comma), GAL_ERR_USAGE);
    gal_error none = {0};
    assert_int_equal(gal_space_parse("sdp,zero2", &space, &none), GAL_OK);
    assert_true(space.axis[GAL_AXIS_SDP] && space.zero_stage[2] && !space.zero_stage[1] && !space.zero_stage[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_restricted),
        cmocka_unit_test(test_no_two_are_equal_and_a_recomputed_one_follows_its_plain_one),
        cmocka_unit_test(test_legality),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
