#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "schemas/plan_check.h"

/* 12 heads, ffn 48, vocabulary 90 padded to 96, sequence 24. */
static gal_model small_model(void)
{
    gal_model model;
    gal_model_defaults(&model);
    model.layer_count = 2;
    model.hidden = 24;
    model.head_count = 12;
    model.ffn_hidden = 48;
    model.sequence_length = 24;
    model.vocabulary = 90;
    model.vocabulary_multiple = 32;
    return model;
}

static gal_strategy two_axes(gal_axis_kind inner, uint32_t inner_degree, gal_axis_kind outer, uint32_t outer_degree)
{
    return (gal_strategy){
        .axis_count = 2, .axis = {{inner, inner_degree}, {outer, outer_degree}}, .zero_stage = outer == GAL_AXIS_SDP};
}

static gal_strategy one_axis(gal_axis_kind kind, uint32_t degree)
{
    return (gal_strategy){.axis_count = 1, .axis = {{kind, degree}}, .zero_stage = kind == GAL_AXIS_SDP};
}

static void expect_rule(const gal_strategy *strategy, gal_block_kind kind, uint32_t device_count, uint32_t samples,
                        const char *rule)
{
    gal_model model = small_model();
    const char *broken = gal_strategy_rule_broken(&model, kind, strategy, device_count, samples);
    if (rule == NULL) {
        if (broken != NULL) {
            fail_msg("%s", broken);
        }
    } else {
        assert_non_null(broken);
        assert_string_equal(broken, rule);
    }
}

#define ATOMS_RULE "axes must cover whole prime factors of the devices of a stage, ascending from the innermost"

/* 12 = 2 * 2 * 3, innermost first: the borders between atoms are after 2, 4 and 12 devices. */
static void test_atoms_of_twelve(void **state)
{
    (void)state;
    for (uint32_t inner = 2; inner <= 6; inner++) {
        if (12 % inner != 0) {
            continue;
        }
        gal_strategy s = two_axes(GAL_AXIS_TP, inner, GAL_AXIS_DP, 12 / inner);
        bool is_border = inner == 2 || inner == 4;
        expect_rule(&s, GAL_BLOCK_ATTENTION, 12, 12, is_border ? NULL : ATOMS_RULE);
    }
    gal_strategy s = one_axis(GAL_AXIS_DP, 12);
    expect_rule(&s, GAL_BLOCK_FFN, 12, 24, NULL);
}

/* Against a second way to say it: the cumulative degree is a product of the first k prime factors. */
static void test_atoms_by_enumeration(void **state)
{
    (void)state;
    for (uint32_t devices = 2; devices <= 64; devices++) {
        bool is_border[65] = {false};
        uint32_t product = 1;
        uint32_t rest = devices;
        for (uint32_t factor = 2; rest > 1;) {
            if (rest % factor != 0) {
                factor++;
                continue;
            }
            product *= factor;
            rest /= factor;
            is_border[product] = true;
        }
        for (uint32_t inner = 2; inner < devices; inner++) {
            if (devices % inner == 0) {
                gal_strategy s = two_axes(GAL_AXIS_DP, inner, GAL_AXIS_SDP, devices / inner);
                expect_rule(&s, GAL_BLOCK_FFN, devices, devices, is_border[inner] ? NULL : ATOMS_RULE);
            }
        }
    }
}

static void test_axis_rules(void **state)
{
    (void)state;
    gal_strategy s = {0};
    expect_rule(&s, GAL_BLOCK_FFN, 1, 1, NULL);
    expect_rule(&s, GAL_BLOCK_FFN, 2, 2, "axis degrees must multiply to the devices of a stage");
    s = two_axes(GAL_AXIS_DP, 2, GAL_AXIS_DP, 2);
    expect_rule(&s, GAL_BLOCK_FFN, 4, 4, "no axis kind may come twice");
    s = one_axis(GAL_AXIS_DP, 1);
    expect_rule(&s, GAL_BLOCK_FFN, 1, 1, "axis degrees must be at least 2");
    s = one_axis(GAL_AXIS_DP, 4);
    expect_rule(&s, GAL_BLOCK_FFN, 2, 4, "axis degrees must multiply to the devices of a stage");
    s = two_axes(GAL_AXIS_DP, 65536, GAL_AXIS_TP, 65536); /* 2^32 is not 0 */
    expect_rule(&s, GAL_BLOCK_FFN, 4, 4, "axis degrees must multiply to the devices of a stage");
    s = one_axis((gal_axis_kind)7, 2);
    expect_rule(&s, GAL_BLOCK_FFN, 2, 2, "unknown axis kind");
    s = (gal_strategy){.axis_count = GAL_AXES_MAX + 1};
    expect_rule(&s, GAL_BLOCK_FFN, 2, 2, "too many axes");
}

static void test_switch_rules(void **state)
{
    (void)state;
    gal_strategy s = one_axis(GAL_AXIS_SDP, 2);
    for (uint32_t zero_stage = 0; zero_stage <= 4; zero_stage++) {
        s.zero_stage = zero_stage;
        bool is_legal = zero_stage >= 1 && zero_stage <= 3;
        expect_rule(&s, GAL_BLOCK_FFN, 2, 2, is_legal ? NULL : "zero_stage must be 1, 2 or 3 with an sdp axis");
    }
    s = one_axis(GAL_AXIS_DP, 2);
    s.zero_stage = 1;
    expect_rule(&s, GAL_BLOCK_FFN, 2, 2, "zero_stage must be 0 without an sdp axis");
    s.zero_stage = 0;
    s.sequence_parallel = true;
    expect_rule(&s, GAL_BLOCK_FFN, 2, 2, "sequence_parallel needs a tp axis");
    s.sequence_parallel = false;
    s.recompute = (gal_recompute)9;
    expect_rule(&s, GAL_BLOCK_FFN, 2, 2, "unknown recompute");
}

/* 4 devices are 2 x 2, 8 are 2 x 2 x 2 deep, 36 are 6 x 6: but 6 does not end at a border of 2 2 3 3. */
static void test_grids(void **state)
{
    (void)state;
    gal_strategy s = one_axis(GAL_AXIS_TP, 4);
    s.tp_mode = GAL_TP_2D;
    expect_rule(&s, GAL_BLOCK_ATTENTION, 4, 2, NULL);
    expect_rule(&s, GAL_BLOCK_FFN, 4, 3,
                "dp degree times sdp degree times what a tp grid divides samples into must divide the samples of a "
                "microbatch");
    s.tp_depth = 2;
    expect_rule(&s, GAL_BLOCK_FFN, 4, 2, "depth must be at least 2 in mode 2.5d, and is of no other");
    s = one_axis(GAL_AXIS_TP, 8);
    s.tp_mode = GAL_TP_2D;
    expect_rule(&s, GAL_BLOCK_FFN, 8, 8, "in mode 2d the tp degree must be a square");
    s.tp_mode = GAL_TP_2P5D;
    expect_rule(&s, GAL_BLOCK_FFN, 8, 8, "depth must be at least 2 in mode 2.5d, and is of no other");
    s.tp_depth = 2;
    expect_rule(&s, GAL_BLOCK_FFN, 8, 4, NULL);
    s.sequence_parallel = true;
    expect_rule(&s, GAL_BLOCK_FFN, 8, 4, "sequence_parallel needs tp of mode 1d");
    s = two_axes(GAL_AXIS_TP, 4, GAL_AXIS_RING, 2);
    expect_rule(&s, GAL_BLOCK_FFN, 8, 8, NULL);
    s.tp_mode = GAL_TP_2D;
    expect_rule(&s, GAL_BLOCK_FFN, 8, 8, "a ulysses or ring axis needs tp of mode 1d");
    s = one_axis(GAL_AXIS_TP, 36);
    s.tp_mode = GAL_TP_2D;
    expect_rule(&s, GAL_BLOCK_FFN, 36, 6, ATOMS_RULE);
    s = one_axis(GAL_AXIS_TP, 25); /* 5 divides neither 96 nor 48 */
    s.tp_mode = GAL_TP_2D;
    expect_rule(&s, GAL_BLOCK_FFN, 25, 5, "tp degree must divide ffn_hidden");
    s = one_axis(GAL_AXIS_DP, 4);
    s.tp_mode = GAL_TP_2D;
    expect_rule(&s, GAL_BLOCK_FFN, 4, 4, "a mode of tp needs a tp axis");
}

/* 8 devices are 2 x 2 x 2: 4 parts of the samples, and 4 of the rows of weights. 216 are 6 x 6 x 6, and 2 2 2 3 3 3. */
static void test_cubes(void **state)
{
    (void)state;
    gal_strategy s = one_axis(GAL_AXIS_TP, 8);
    s.tp_mode = GAL_TP_3D;
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 4, NULL);
    s.keep_panels = true;
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 4, NULL);
    s.recompute = GAL_RECOMPUTE_FULL;
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 4, "keep_panels must not stand beside full recompute");
    s.recompute = GAL_RECOMPUTE_SELECTIVE;
    s.tp_mode = GAL_TP_1D;
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 4, "keep_panels needs tp of mode 2d, 2.5d or 3d");
    s = one_axis(GAL_AXIS_TP, 8);
    s.tp_mode = GAL_TP_3D;
    expect_rule(&s, GAL_BLOCK_FFN, 8, 2,
                "dp degree times sdp degree times what a tp grid divides samples into must divide the samples of a "
                "microbatch");
    s = one_axis(GAL_AXIS_TP, 4);
    s.tp_mode = GAL_TP_3D;
    expect_rule(&s, GAL_BLOCK_FFN, 4, 4, "in mode 3d the tp degree must be a cube");
    s = one_axis(GAL_AXIS_TP, 216);
    s.tp_mode = GAL_TP_3D;
    expect_rule(&s, GAL_BLOCK_FFN, 216, 36, ATOMS_RULE);
    s = one_axis(GAL_AXIS_TP, 27); /* 3 divides 24, 9 does not */
    s.tp_mode = GAL_TP_3D;
    expect_rule(&s, GAL_BLOCK_FFN, 27, 9,
                "in mode 3d the square of the side must divide hidden, ffn_hidden and the features of all heads");
    s.keep_weights = true;
    expect_rule(&s, GAL_BLOCK_FFN, 27, 9, "keep_weights needs zero_stage 1 or 2");
    s.zero_stage = 2; /* rows of weights are cut once */
    expect_rule(&s, GAL_BLOCK_FFN, 27, 9, NULL);
    s.zero_stage = 3;
    expect_rule(&s, GAL_BLOCK_FFN, 27, 9, "keep_weights needs zero_stage 1 or 2");
    s = one_axis(GAL_AXIS_TP, 4);
    s.tp_mode = GAL_TP_2D;
    s.keep_weights = true;
    s.zero_stage = 2;
    expect_rule(&s, GAL_BLOCK_FFN, 4, 2, "keep_weights needs tp of mode 3d");
}

static void test_divisibility(void **state)
{
    (void)state;
    gal_strategy s = one_axis(GAL_AXIS_DP, 4);
    expect_rule(&s, GAL_BLOCK_FFN, 4, 6, "dp degree times sdp degree must divide the samples of a microbatch");
    s = two_axes(GAL_AXIS_DP, 2, GAL_AXIS_SDP, 2);
    expect_rule(&s, GAL_BLOCK_FFN, 4, 6, "dp degree times sdp degree must divide the samples of a microbatch");
    s = one_axis(GAL_AXIS_TP, 8); /* 8 divides 48 and 96 and 24, not 12 */
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 1, "tp degree must divide head_count");
    expect_rule(&s, GAL_BLOCK_FFN, 8, 1, NULL);
    expect_rule(&s, GAL_BLOCK_HEAD, 8, 1, NULL);
    expect_rule(&s, GAL_BLOCK_EMBEDDING, 8, 1, NULL);
    s = one_axis(GAL_AXIS_TP, 32); /* divides 96, not 48 and not 24 */
    expect_rule(&s, GAL_BLOCK_FFN, 32, 1, "tp degree must divide ffn_hidden");
    expect_rule(&s, GAL_BLOCK_HEAD, 32, 1, NULL);
    s.sequence_parallel = true;
    expect_rule(&s, GAL_BLOCK_HEAD, 32, 1, "tp degree must divide sequence_length with sequence_parallel");
    s = one_axis(GAL_AXIS_TP, 5);
    expect_rule(&s, GAL_BLOCK_EMBEDDING, 5, 1, "tp degree must divide the padded vocabulary");
}

/* 12 heads, 24 positions, ffn 48. */
static void test_ulysses(void **state)
{
    (void)state;
    gal_strategy s = one_axis(GAL_AXIS_ULYSSES, 8); /* divides 24, not 12 */
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 1, "tp degree times ulysses degree must divide head_count");
    expect_rule(&s, GAL_BLOCK_FFN, 8, 1, NULL);
    s = one_axis(GAL_AXIS_ULYSSES, 16);
    expect_rule(&s, GAL_BLOCK_FFN, 16, 1, "ulysses degree must divide sequence_length");
    s = two_axes(GAL_AXIS_TP, 2, GAL_AXIS_ULYSSES, 3);
    expect_rule(&s, GAL_BLOCK_ATTENTION, 6, 1, NULL);
    s = two_axes(GAL_AXIS_TP, 2, GAL_AXIS_ULYSSES, 4); /* 8 heads */
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 1, "tp degree times ulysses degree must divide head_count");
    s = two_axes(GAL_AXIS_TP, 2, GAL_AXIS_ULYSSES, 2);
    s.sequence_parallel = true;
    expect_rule(&s, GAL_BLOCK_FFN, 4, 1, "sequence_parallel must not stand beside a ulysses, ring or zigzag axis");
    s = two_axes(GAL_AXIS_DP, 3, GAL_AXIS_ULYSSES, 3); /* samples are split over DP alone */
    expect_rule(&s, GAL_BLOCK_ATTENTION, 9, 3, NULL);
    expect_rule(&s, GAL_BLOCK_ATTENTION, 9, 4, "dp degree times sdp degree must divide the samples of a microbatch");
}

static void test_ring(void **state)
{
    (void)state;
    gal_strategy s = one_axis(GAL_AXIS_RING, 8); /* heads do not matter */
    expect_rule(&s, GAL_BLOCK_ATTENTION, 8, 1, NULL);
    s = one_axis(GAL_AXIS_RING, 16);
    expect_rule(&s, GAL_BLOCK_FFN, 16, 1, "ring degree must divide sequence_length");
    s = one_axis(GAL_AXIS_RING, 96);
    expect_rule(&s, GAL_BLOCK_FFN, 96, 1, "ring degree must be at most 64");
    s = one_axis(GAL_AXIS_ZIGZAG, 12); /* 24 positions: halves of one each */
    expect_rule(&s, GAL_BLOCK_FFN, 12, 1, NULL);
    s = one_axis(GAL_AXIS_ZIGZAG, 8);
    expect_rule(&s, GAL_BLOCK_FFN, 8, 1, "twice the zigzag degree must divide sequence_length");
    s = two_axes(GAL_AXIS_TP, 2, GAL_AXIS_RING, 2);
    s.sequence_parallel = true;
    expect_rule(&s, GAL_BLOCK_FFN, 4, 1, "sequence_parallel must not stand beside a ulysses, ring or zigzag axis");
    s = two_axes(GAL_AXIS_ULYSSES, 2, GAL_AXIS_RING, 2);
    expect_rule(&s, GAL_BLOCK_FFN, 4, 1, "of the ulysses, ring and zigzag axes one must stand alone");
}

static void test_ring_and_padding(void **state)
{
    (void)state;
    gal_model model = small_model();
    const gal_strategy zigzag = one_axis(GAL_AXIS_ZIGZAG, 2);
    const gal_strategy ring = one_axis(GAL_AXIS_RING, 2), ulysses = one_axis(GAL_AXIS_ULYSSES, 2);
    model.padding = true; /* a causal model reads no lengths */
    assert_null(gal_strategy_rule_broken(&model, GAL_BLOCK_ATTENTION, &ring, 2, 1));
    model.family = GAL_FAMILY_BERT;
    model.type_count = 1;
    assert_string_equal(gal_strategy_rule_broken(&model, GAL_BLOCK_ATTENTION, &ring, 2, 1),
                        "attention to all positions of padded samples has no ring");
    assert_null(gal_strategy_rule_broken(&model, GAL_BLOCK_ATTENTION, &ulysses, 2, 1));
    model.padding = false;
    assert_null(gal_strategy_rule_broken(&model, GAL_BLOCK_ATTENTION, &ring, 2, 1));
    assert_string_equal(gal_strategy_rule_broken(&model, GAL_BLOCK_ATTENTION, &zigzag, 2, 1),
                        "attention to all positions has no zigzag: a ring is balanced");
}

static void test_zero_along_ulysses(void **state)
{
    (void)state;
    char name[GAL_STRATEGY_NAME_BYTES];
    gal_strategy s = two_axes(GAL_AXIS_DP, 2, GAL_AXIS_ULYSSES, 2);
    for (s.zero_stage = 0; s.zero_stage <= 4; s.zero_stage++) {
        expect_rule(&s, GAL_BLOCK_FFN, 4, 2, s.zero_stage > 3 ? "zero_stage must be at most 3" : NULL);
        assert_int_equal(gal_strategy_shards(&s), s.zero_stage == 0 ? 1 : 2);
    }
    s.zero_stage = 0;
    assert_string_equal(gal_strategy_name(&s, name), "dp2-ulysses2");
    s.zero_stage = 3;
    assert_string_equal(gal_strategy_name(&s, name), "dp2-ulysses2.z3");
    s.axis[0].kind = GAL_AXIS_SDP; /* the states are cut over both */
    assert_int_equal(gal_strategy_shards(&s), 4);
    assert_string_equal(gal_strategy_name(&s, name), "sdp2.z3-ulysses2");
}

typedef struct whole_plan {
    gal_plan plan;
    gal_plan_stage stage[2];
    gal_plan_run run[3];
} whole_plan;

/* 2 stages of 2 devices; 6 blocks as 2 + 3 | 1. */
static void make_plan(whole_plan *out)
{
    *out = (whole_plan){0};
    out->plan.model = small_model();
    out->plan.cluster.device_count = 4;
    out->plan.global_batch_samples = 8;
    out->plan.microbatch_count = 2;
    out->plan.pp_degree = 2;
    out->plan.prefetch_depth = 1;
    out->plan.stage_count = 2;
    out->plan.stage = out->stage;
    out->plan.run_count = 3;
    out->plan.run = out->run;
    out->stage[0] = (gal_plan_stage){.first_run = 0, .run_count = 2};
    out->stage[1] = (gal_plan_stage){.first_run = 2, .run_count = 1};
    out->run[0] = (gal_plan_run){.block_count = 2, .strategy = one_axis(GAL_AXIS_DP, 2)};
    out->run[1] = (gal_plan_run){.block_count = 3, .strategy = one_axis(GAL_AXIS_TP, 2)};
    out->run[2] = (gal_plan_run){.block_count = 1, .strategy = one_axis(GAL_AXIS_DP, 2)};
}

static void expect_plan(const whole_plan *w, const char *expected)
{
    gal_error err = {0};
    gal_code code = gal_plan_check(&w->plan, "p: ", &err);
    assert_string_equal(err.text, expected == NULL ? "" : expected);
    assert_int_equal(code, expected == NULL ? GAL_OK : GAL_ERR_DOCUMENT);
}

static void test_whole_plans(void **state)
{
    (void)state;
    whole_plan w;
    make_plan(&w);
    expect_plan(&w, NULL);
    w.plan.pp_degree = 3;
    expect_plan(&w, "p: /pp_degree: must divide device_count 4, got 3");
    w.plan.pp_degree = 0;
    expect_plan(&w, "p: /pp_degree: must divide device_count 4, got 0");
    w.plan.pp_degree = 4;
    expect_plan(&w, "p: /stages: must be pp_degree 4 stages, got 2");
    make_plan(&w);
    w.plan.microbatch_count = 3;
    expect_plan(&w, "p: /microbatch_count: must divide global_batch_samples 8, got 3");
    make_plan(&w);
    w.plan.prefetch_depth = 0;
    expect_plan(&w, "p: /prefetch_depth: must be 1 or 2, got 0");
    make_plan(&w);
    w.run[1].block_count = 2;
    expect_plan(&w, "p: /stages: must cover the model's 6 blocks once, got 5");
    make_plan(&w);
    w.run[1].block_count = UINT32_MAX;
    w.run[2].block_count = 5; /* the sum is 6 modulo 2^32 */
    w.run[0].block_count = 2;
    expect_plan(&w, "p: /stages: must cover the model's 6 blocks once, got 4294967302");
    make_plan(&w);
    w.stage[1].first_run = 1;
    expect_plan(&w, "p: /stages/1: runs must follow those of the stage before");
    make_plan(&w);
    w.stage[1].run_count = 0;
    expect_plan(&w, "p: /stages/1: must have at least one block");
    make_plan(&w);
    w.stage[1].run_count = 2;
    expect_plan(&w, "p: /stages/1: runs must follow those of the stage before");
    make_plan(&w);
    w.run[2].block_count = 0;
    expect_plan(&w, "p: /stages/1/runs/0/block_count: must be >= 1, got 0");
}

/* The rule of a block is found wherever in its run the block stands. */
static void test_run_with_both_kinds(void **state)
{
    (void)state;
    whole_plan w;
    make_plan(&w);
    w.plan.model.ffn_hidden = 49; /* blocks 2 and 4, in the run of blocks 2, 3, 4 */
    expect_plan(&w, "p: /stages/0/runs/1/strategy: tp degree must divide ffn_hidden (ffn block)");
    make_plan(&w);
    w.plan.model.hidden = 27;
    w.plan.model.head_count = 9; /* block 3 */
    expect_plan(&w, "p: /stages/0/runs/1/strategy: tp degree must divide head_count (attention block)");
    make_plan(&w);
    w.plan.pp_degree = w.plan.stage_count = w.plan.run_count = w.stage[0].run_count = 1;
    w.plan.cluster.device_count = 5; /* one run of all 6 blocks: the last one alone breaks no rule of the others */
    w.plan.model = small_model();
    w.plan.model.head_count = 5;
    w.plan.model.hidden = 25;
    w.plan.model.ffn_hidden = 50;
    w.run[0] = (gal_plan_run){.block_count = 6, .strategy = one_axis(GAL_AXIS_TP, 5)};
    expect_plan(&w, "p: /stages/0/runs/0/strategy: tp degree must divide the padded vocabulary (embedding block)");
}

static void test_tied(void **state)
{
    (void)state;
    static const char rule[] = "p: /stages/1/runs/0/strategy: with tied embeddings the first and the last block must "
                               "have equal axes, zero_stage and places of parameters and optimizer";
    whole_plan w;
    make_plan(&w);
    w.run[2].strategy = one_axis(GAL_AXIS_TP, 2);
    expect_plan(&w, rule);
    w.plan.model.tied_embeddings = false;
    expect_plan(&w, NULL);
    make_plan(&w);
    w.run[2].strategy.recompute = GAL_RECOMPUTE_FULL; /* not a matter of layout */
    expect_plan(&w, NULL);
    make_plan(&w);
    w.run[0].strategy = w.run[2].strategy = one_axis(GAL_AXIS_SDP, 2);
    expect_plan(&w, NULL);
    w.run[2].strategy.zero_stage = 2;
    expect_plan(&w, rule);
}

/* The levels of Swin have 3 and 6 heads, of 24 and 48 features: a square of 2 x 2 divides the second level alone, a
 * cube all but the heads of the first. */
static void test_swin_on_grids(void **state)
{
    (void)state;
    static const char *const heads = "tp degree must divide head_count";
    gal_model model = small_model();
    model.family = GAL_FAMILY_SWIN;
    model.level_count = 2;
    model.layer_count = 4;
    model.image_size = 8;
    model.patch_size = 2;
    model.window_size = 2;
    model.sequence_length = 16;
    for (uint32_t level = 0; level < 2; level++) {
        model.level_layer_count[level] = 2;
        model.level_head_count[level] = 3U << level;
    }
    for (uint32_t mode = GAL_TP_2D; mode <= GAL_TP_3D; mode++) {
        const uint32_t devices = mode == GAL_TP_2D ? 4 : 8;
        gal_strategy s = one_axis(GAL_AXIS_TP, devices);
        s.tp_mode = (gal_tp_mode)mode;
        s.tp_depth = mode == GAL_TP_2P5D ? 2 : 0;
        for (uint32_t b = 0; b < gal_model_block_count(&model); b++) {
            gal_block_shape shape;
            gal_model_block(&model, b, &shape);
            const char *rule = gal_strategy_block_rule_broken(&model, &shape, &s, devices, 4);
            if (shape.kind == GAL_BLOCK_ATTENTION && shape.level == 0) {
                assert_string_equal(rule, heads);
            } else {
                assert_null(rule);
            }
        }
    }
    gal_strategy s = one_axis(GAL_AXIS_TP, 27); /* 9 divides neither 24 nor 48 */
    s.tp_mode = GAL_TP_3D;
    gal_block_shape merge = {0};
    for (uint32_t b = 0; merge.kind != GAL_BLOCK_MERGE; b++) {
        gal_model_block(&model, b, &merge);
    }
    assert_string_equal(
        gal_strategy_block_rule_broken(&model, &merge, &s, 27, 9),
        "in mode 3d the square of the side must divide hidden, ffn_hidden and the features of all heads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_atoms_of_twelve),
        cmocka_unit_test(test_atoms_by_enumeration),
        cmocka_unit_test(test_axis_rules),
        cmocka_unit_test(test_switch_rules),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_cubes),
        cmocka_unit_test(test_swin_on_grids),
        cmocka_unit_test(test_divisibility),
        cmocka_unit_test(test_ulysses),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_ring_and_padding),
        cmocka_unit_test(test_zero_along_ulysses),
        cmocka_unit_test(test_whole_plans),
        cmocka_unit_test(test_run_with_both_kinds),
        cmocka_unit_test(test_tied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
