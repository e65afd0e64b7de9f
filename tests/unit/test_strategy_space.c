/* The decision tree of strategies, counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planner/space/strategy_space.h"
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
    gal_space all, words = {0};
    gal_error err = {0};
    gal_space_all(&all);
    assert_int_equal(gal_space_parse(GAL_SPACE_ALL_WORDS, &words, &err), GAL_OK);
    assert_memory_equal(&all, &words, sizeof all);
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

/* ZeRO goes with SDP, or with Ulysses alone, where none is a choice too; Megatron's chunks not beside Ulysses. */
static void test_ulysses(void **state)
{
    (void)state;
    assert_int_equal(count("ulysses", 4), 1);
    assert_int_equal(count("ulysses,sdp", 2), 1 + 3 + 3);
    assert_int_equal(count("ulysses,zero3", 4), (1 + 1) + 1 + 2);
    assert_int_equal(count("ulysses,tp,sp", 4), 1 + 2 + 2);
    assert_int_equal(count("dp,ulysses,tp", 8), 3 + 2 * 6 + 6);
    assert_int_equal(count("ring,zero3", 4), (1 + 1) + 1 + 2);
    assert_int_equal(count("ring,ulysses", 4), 2); /* never both */
}

/* Of 4 devices those with TP: tp4, tp2-dp2 and dp2-tp2, each with every kind of recompute, stand once more, behind the
 * same without overlap. */
static void test_overlap_is_an_axis(void **state)
{
    (void)state;
    assert_int_equal(count("dp,tp,overlap", 4), 4 + 3);
    assert_int_equal(count("dp,tp,recompute,selective,overlap", 4), 3 * (4 + 3));
    assert_int_equal(count("dp,overlap", 4), 1);
    const uint32_t all = count("dp,tp,recompute,overlap", 4);
    for (uint32_t i = 0; i < all; i++) {
        gal_strategy without = strategies[i];
        uint32_t twin = 0;
        without.overlap = GAL_OVERLAP_NONE;
        while (twin < all && !gal_strategy_equal(&strategies[twin], &without)) {
            twin++;
        }
        assert_true(strategies[i].overlap == GAL_OVERLAP_NONE ? twin == i : twin < i);
        assert_true(strategies[i].overlap == GAL_OVERLAP_NONE ||
                    (strategies[i].overlap == GAL_OVERLAP_FINE) == (strategies[i].recompute == GAL_RECOMPUTE_FULL));
    }
}

/* ---- as Galvatron-BMW counts (planner/space/strategy_space.h says how) ---- */

static uint32_t count_of(const gal_space *space, uint32_t device_count)
{
    return gal_space_strategies(space, device_count, strategies);
}

/* The trees of pipeline degrees 1, 2, 4, 8 on 8 devices. */
static uint32_t count_trees(const gal_space *space)
{
    return count_of(space, 8) + count_of(space, 4) + count_of(space, 2) + count_of(space, 1);
}

static void test_candidates_of_the_paper(void **state)
{
    (void)state;
    /* Without takeaway 3: on 8 devices 3 single axes, 6 ordered pairs in 2 shares, 6 orders of all three: 21; on 4 3 +
     * 6; on 2 3; on 1 one. With it the pairs are 4 and there is no triple: 3 + 8, 3 + 4, 3, 1. */
    gal_space space = {.axis = {true, true, true}, .zero_stage = {[3] = true}};
    assert_int_equal(count_of(&space, 8), 21);
    assert_int_equal(count_trees(&space), 34);
    space.recompute = true;
    assert_int_equal(count_trees(&space), 68);
    space.takeaway[3] = true;
    assert_int_equal(count_trees(&space), 44);
    space.recompute = false;
    assert_int_equal(count_of(&space, 8), 11);
    assert_int_equal(count_trees(&space), 22);
    space.takeaway[2] = true; /* nothing: 8 is a power of two */
    assert_int_equal(count_trees(&space), 22);
}

static void test_two_axes_of_the_paper(void **state)
{
    (void)state;
    gal_space dp = {.axis = {[GAL_AXIS_DP] = true}};
    gal_space dp_tp = {.axis = {[GAL_AXIS_DP] = true, [GAL_AXIS_TP] = true}};
    bool has_degree[9] = {false};
    assert_int_equal(count_trees(&dp), 4);
    assert_int_equal(count_of(&dp_tp, 8), 6); /* with the order of 2 x 4 and 4 x 2 */
    for (uint32_t i = 0; i < 6; i++) {
        has_degree[gal_strategy_degree(&strategies[i], GAL_AXIS_TP)] = true;
    }
    uint32_t unordered = 0;
    for (uint32_t degree = 0; degree < 9; degree++) {
        unordered += has_degree[degree];
    }
    assert_int_equal(unordered, 4);
}

static void test_degrees_are_powers_of_two(void **state)
{
    (void)state;
    gal_space space = {.axis = {[GAL_AXIS_DP] = true, [GAL_AXIS_TP] = true}};
    assert_int_equal(count_of(&space, 6), 2 + 4); /* 6; 2 x 3 and 3 x 2 in both orders */
    space.takeaway[2] = true;
    assert_int_equal(count_of(&space, 6), 0);
    assert_int_equal(count_of(&space, 4), 2 + 2);
}

/* Of 8 devices 2 x 2, alone or two deep, are the grids: 2d beside DP in both orders; of 2.5d, 2 x 2 two deep is 2d-dp
 * again, which is left out where that is in the space. */
static void test_grids(void **state)
{
    (void)state;
    gal_space space = {.axis = {[GAL_AXIS_DP] = true}, .tp_grid = {[GAL_TP_2D] = true}};
    assert_int_equal(count_of(&space, 8), 1 + 2); /* dp8; tp4.2d-dp2 and dp2-tp4.2d */
    space.tp_grid[GAL_TP_2P5D] = true;
    assert_int_equal(count_of(&space, 8), 1 + 2);
    space.tp_grid[GAL_TP_2D] = false;
    assert_int_equal(count_of(&space, 8), 1 + 1); /* dp8, tp8.2.5d.d2 */
    space.axis[GAL_AXIS_TP] = true;
    assert_int_equal(count_of(&space, 8), 6 + 1);
    space = (gal_space){.tp_grid = {[GAL_TP_2D] = true}};
    assert_int_equal(count_of(&space, 16), 1);
    assert_int_equal(count_of(&space, 8), 0);
    space.tp_grid[GAL_TP_3D] = true;
    assert_int_equal(count_of(&space, 8), 1);
    assert_int_equal(count_of(&space, 64), 2); /* 8 x 8 and 4 x 4 x 4 */
    space.axis[GAL_AXIS_DP] = true;
    assert_int_equal(count_of(&space, 24), 1 + 2 + 2); /* dp24; tp8.3d or tp4.2d, with DP on either side */
    space.keep_panels = true;                          /* of cubes inputs, weights, both */
    assert_int_equal(count_of(&space, 24), 1 + 8 + 4);
    space.zero_stage[1] = true; /* gradients of weights that stay, summed once a step too */
    assert_int_equal(count_of(&space, 24), 1 + 12 + 4);
    space.zero_stage[1] = false;
    space.recompute = true; /* as well as keeping inputs, not with it */
    assert_int_equal(count_of(&space, 24), 2 + 12 + 6);
    space.stepped = true; /* squares have both forms, with recompute or not */
    assert_int_equal(count_of(&space, 24), 2 + 12 + 6 + 4);
    space = (gal_space){.axis = {[GAL_AXIS_SDP] = true},
                        .tp_grid = {[GAL_TP_3D] = true},
                        .zero_stage = {false, true, true, true},
                        .keep_panels = true};
    assert_int_equal(count_of(&space, 16),
                     3 + 2 * (3 * 2 + 2 * 2)); /* sdp16; tp8.3d and SDP, weights kept in 1 and 2 */
}

/* Half of the optimizer, all of it, half and all of the weights too; half of the activations and all of them, alone and
 * beside the last three. Weights go with zero_stage 0 and 3 alone, half of the activations with no full recompute. */
static void test_offload(void **state)
{
    (void)state;
    gal_space space = {.axis = {[GAL_AXIS_DP] = true}, .offload = true};
    assert_int_equal(count_of(&space, 8), 13);
    space.offload_left_out = 6;
    assert_int_equal(count_of(&space, 8), 7);
    space.offload_left_out = 11;
    assert_int_equal(count_of(&space, 8), 2);
    space = (gal_space){
        .axis = {[GAL_AXIS_SDP] = true}, .zero_stage = {false, true, true, true}, .recompute = true, .offload = true};
    assert_int_equal(count_of(&space, 8), 2 * (7 + 5) + 13 + 9);
    space = (gal_space){.tp_grid = {[GAL_TP_2D] = true}, .offload = true};
    assert_int_equal(count_of(&space, 4), 13);
}

/* On storage half or all of what is on the host, as far as it reaches. Of activations (0, 50, 100) 6 in place of 3, of
 * weights likewise, beside which all moments are: with none, with half of the optimizer, with all of it 1 + 1 + 6, the
 * first and the last of them with activations too. Of moments alone 2 of half of the optimizer and 3 of all. */
static void test_storage(void **state)
{
    (void)state;
    gal_space space = {.axis = {[GAL_AXIS_DP] = true}, .offload = true, .store_activations = true};
    assert_int_equal(count_of(&space, 8), (1 + 1 + 3) + 5 + 3 * 5);
    space.store_weights = true;
    assert_int_equal(count_of(&space, 8), (1 + 1 + 6) + 5 + 6 * 5);
    space.store_activations = false;
    assert_int_equal(count_of(&space, 8), (1 + 1 + 6) + 2 + 6 * 2);
    space.store_weights = false;
    space.store_moments = true;
    assert_int_equal(count_of(&space, 8), (1 + 2 + 3 * 3) + 2 + 9 * 2);
    space = (gal_space){.axis = {[GAL_AXIS_DP] = true}, .offload = true, .store_weights = true, .store_moments = true};
    space.offload_left_out = GAL_SPACE_OFFLOADS - 3; /* the third: 3 without weights there, 2 with */
    assert_int_equal(count_of(&space, 8), 1 + 2 + 3 + 5);
}

static void check_degrees(const gal_space *space, uint32_t count, const uint32_t *expected)
{
    const gal_cluster cluster = {
        .device_count = 12, .level_count = 2, .level = {{.span_devices = 4}, {.span_devices = 12}}};
    const gal_u32_list all = {0};
    const gal_u32_list got = gal_space_pp_degrees(space, &cluster, &all, 256);
    assert_int_equal(got.count, count);
    assert_memory_equal(got.value, expected, count * sizeof *expected);
}

/* 12 devices in islands of 4: stages of 12, 6, 4, 3, 2, 1; 6 and a half island is none, nor is 3. */
static void test_stages_lie_along_islands(void **state)
{
    (void)state;
    gal_space space = {0};
    check_degrees(&space, 6, (const uint32_t[]){1, 2, 3, 4, 6, 12});
    space.takeaway[1] = true;
    check_degrees(&space, 4, (const uint32_t[]){1, 3, 6, 12});
    space.takeaway[2] = true;
    check_degrees(&space, 1, (const uint32_t[]){1});
    space.takeaway[1] = false;
    check_degrees(&space, 3, (const uint32_t[]){1, 2, 4});
}

static void test_what_two_spaces_allow(void **state)
{
    (void)state;
    gal_space a = {.axis = {[GAL_AXIS_DP] = true, [GAL_AXIS_SDP] = true},
                   .zero_stage = {[2] = true, [3] = true},
                   .recompute = true,
                   .takeaway = {[1] = true}};
    const gal_space b = {.axis = {[GAL_AXIS_SDP] = true, [GAL_AXIS_TP] = true},
                         .zero_stage = {[3] = true},
                         .recompute = true,
                         .selective = true,
                         .takeaway = {[3] = true}};
    const gal_space both = {.axis = {[GAL_AXIS_SDP] = true},
                            .zero_stage = {[3] = true},
                            .recompute = true,
                            .takeaway = {[1] = true, [3] = true}};
    gal_space_meet(&a, &b, &a);
    assert_memory_equal(&a, &both, sizeof a);
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
    assert_int_equal(gal_space_parse("dp,fsd", &space, &err), GAL_ERR_USAGE);
    assert_string_equal(
        err.text, "--space: unknown axis 'fsd'; did you mean \"fsdp\"? known: dp, sdp, zero1, zero2, zero3, tp, "
                  "sp, ulysses, ring, zigzag, recompute, selective, 2d, 2.5d, 3d, keep, stepped, overlap, bucket, "
                  "chunk, offload, pp; 'galplan search --help' says words of others");
    assert_false(space.axis[GAL_AXIS_DP]); /* left alone */
    gal_error empty = {0};
    assert_int_equal(gal_space_parse("", &space, &empty), GAL_ERR_USAGE);
    gal_error comma = {0};
    assert_int_equal(gal_space_parse("dp,", &space, &comma), GAL_ERR_USAGE);
    gal_error none = {0};
    assert_int_equal(gal_space_parse("sdp,zero2", &space, &none), GAL_OK);
    assert_true(space.axis[GAL_AXIS_SDP] && space.zero_stage[2] && !space.zero_stage[1] && !space.zero_stage[3]);
}

/* Words of others allow what the words that they stand for do. */
static void test_words_of_others(void **state)
{
    (void)state;
    static const char *const same[][2] = {{"fsdp", "zero3"},     {"FSDP2, ZeRO-1", "zero1,zero3"},
                                          {"zero", "sdp"},       {"DDP", "dp"},
                                          {"hsdp", "dp,zero3"},  {"cp", "ring,zigzag"},
                                          {"ckpt", "recompute"}, {"sac,tp,pp", "tp,selective"},
                                          {"pp,dp", "dp"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        gal_space a = {0}, b = {0};
        assert_int_equal(gal_space_parse(same[i][0], &a, NULL), GAL_OK);
        assert_int_equal(gal_space_parse(same[i][1], &b, NULL), GAL_OK);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap_is_an_axis),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_restricted),
        cmocka_unit_test(test_ulysses),
        cmocka_unit_test(test_candidates_of_the_paper),
        cmocka_unit_test(test_two_axes_of_the_paper),
        cmocka_unit_test(test_degrees_are_powers_of_two),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_storage),
        cmocka_unit_test(test_stages_lie_along_islands),
        cmocka_unit_test(test_what_two_spaces_allow),
        cmocka_unit_test(test_no_two_are_equal_and_a_recomputed_one_follows_its_plain_one),
        cmocka_unit_test(test_legality),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_words_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
