/* Programs of grids that are wrong on purpose: every place where a mistake can be made gets it once, alone, and the
 * types must refuse it. GPT-2's kind on 2 x 2 devices, two of them deep (2.5d) or beside another layout, tied or not;
 * and on 2 x 2 x 2 (3d), there Llama's too, whose queries, keys and values are tensors that are read as one. T5 with
 * its carried tensor and Swin with a merge on both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/verify/verify.h"
#include "schemas/plan_check.h"
#include "tests/support/grid_mistakes.h"

enum { DEVICES = 8 };

typedef struct fixture {
    gal_plan plan;
    gal_plan_stage stage;
    gal_plan_run run[2];
    gal_program *program;
} fixture;

static void make_model(bool tied, gal_model *model)
{
    gal_model_defaults(model);
    model->layer_count = 2;
    model->hidden = 32;
    model->ffn_hidden = 64;
    model->head_count = 4;
    model->sequence_length = 8;
    model->vocabulary = 61;
    model->vocabulary_multiple = 16;
    model->tied_embeddings = tied;
    model->residual_dropout = 0.1;
}

static void turn_to_llama(gal_model *model)
{
    model->family = GAL_FAMILY_LLAMA;
    model->activation = GAL_ACTIVATION_SILU;
    model->kv_head_count = 4;
    model->head_dim = 8;
    model->rotary_base = 100.0;
    model->qkv_bias = true;
    model->residual_dropout = 0.0;
}

static void turn_to_bert(gal_model *model)
{
    model->family = GAL_FAMILY_BERT;
    model->activation = GAL_ACTIVATION_GELU_ERF;
    model->type_count = 2;
    model->mask_token = 3;
}

static void turn_to_t5(gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->activation = GAL_ACTIVATION_RELU;
    model->layer_count = model->decoder_layer_count = 1;
    model->decoder_sequence_length = 4;
    model->head_dim = 6;
    model->relative_bucket_count = 6;
    model->relative_max_distance = 8;
}

/* Two levels: 8 x 8 and, merged, 4 x 4. */
static void turn_to_swin(gal_model *model)
{
    model->family = GAL_FAMILY_SWIN;
    model->activation = GAL_ACTIVATION_GELU_ERF;
    model->image_size = 16;
    model->patch_size = 2;
    model->channel_count = 3;
    model->sequence_length = 64;
    model->window_size = 4;
    model->pixel_mean = model->pixel_standard_deviation = 0.5;
    model->level_count = 2;
    for (uint32_t level = 0; level < 2; level++) {
        model->level_head_count[level] = 4;
        model->level_layer_count[level] = 2 - level;
    }
    model->layer_count = 3;
}

/* turned: BERT, of a head with a product whose rows are turned back; on cubes. */
typedef enum kind { UNTIED, TIED, CONVERTED, ENCODED, MERGED, TURNED, KINDS } kind;

/* kept: weights, of cubes. */
typedef enum form { GATHERED, STEPPED, KEPT } form;

/* converted: data parallel behind the second block. */
static void lower(gal_tp_mode mode, form how, kind what, fixture *out)
{
    gal_error err = {GAL_OK, ""};
    memset(out, 0, sizeof *out);
    make_model(what == TIED || what == TURNED || what == ENCODED, &out->plan.model);
    if (mode == GAL_TP_3D && what == CONVERTED) {
        turn_to_llama(&out->plan.model);
    }
    if (what == TURNED) {
        turn_to_bert(&out->plan.model);
    } else if (what == ENCODED) {
        turn_to_t5(&out->plan.model);
    } else if (what == MERGED) {
        turn_to_swin(&out->plan.model);
    }
    const uint32_t blocks = gal_model_block_count(&out->plan.model);
    const bool converts = what == CONVERTED;
    const gal_strategy grid = {.axis_count = 1,
                               .axis = {{GAL_AXIS_TP, DEVICES}},
                               .tp_mode = mode,
                               .tp_depth = mode == GAL_TP_2P5D ? 2 : 0,
                               .zero_stage = how == KEPT ? 2 : 0,
                               .keep_weights = how == KEPT,
                               .stepped = how == STEPPED};
    const gal_strategy data = {.axis_count = 1, .axis = {{GAL_AXIS_DP, DEVICES}}};
    out->run[0] = (gal_plan_run){converts ? 3 : blocks, grid};
    out->run[1] = (gal_plan_run){blocks - 3, data};
    out->plan.run_count = converts ? 2 : 1;
    out->stage = (gal_plan_stage){.first_run = 0, .run_count = out->plan.run_count};
    out->plan.global_batch_samples = 16;
    out->plan.microbatch_count = 2;
    out->plan.pp_degree = out->plan.stage_count = 1;
    out->plan.schedule = GAL_SCHEDULE_1F1B;
    out->plan.prefetch_depth = 2;
    out->plan.stage = &out->stage;
    out->plan.run = out->run;
    out->plan.cluster.device_count = DEVICES;
    if (gal_plan_check(&out->plan, NULL, &err) != GAL_OK || gal_lower_plan(&out->plan, &out->program, &err) != GAL_OK ||
        gal_verify(&out->program, 1, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

/* Makes the mistake in one instruction, verifies, and takes it back. True if there was room for it. */
static bool make_one(const fixture *f, const gal_mistake *what, gal_instruction *in)
{
    gal_error err = {GAL_OK, ""};
    gal_program *p = f->program;
    const gal_mistake_place at = {p, in, &p->operand[in->first_operand], &p->shape[in->shape]};
    const gal_instruction instruction = *in;
    const gal_shape shape = *at.shape;
    gal_operand operand[GAL_INSTRUCTION_OPERANDS_MAX];
    memcpy(operand, at.operand, in->operand_count * sizeof *operand);
    const bool made = what->make(&at);
    const gal_code code = made ? gal_verify_types(&f->program, 1, &err) : GAL_NO;
    *in = instruction;
    *at.shape = shape;
    memcpy(at.operand, operand, in->operand_count * sizeof *operand);
    if (code != GAL_NO) {
        char line[512];
        gal_instruction_print(p, (uint32_t)(in - p->instruction), line, sizeof line);
        fail_msg("%s: not refused at %s", what->text, line);
    }
    return made;
}

static void make_all(const fixture *f, const gal_mistakes *mistakes, uint32_t *made)
{
    for (uint32_t m = 0; m < mistakes->count; m++) {
        const gal_mistake *what = &mistakes->mistake[m];
        for (uint32_t i = 0; i < f->program->instruction_count; i++) {
            gal_instruction *in = &f->program->instruction[i];
            const bool here = in->op == what->op && (what->name == NULL || strcmp(in->name, what->name) == 0);
            made[m] += here && make_one(f, what, in);
        }
    }
}

static void check_mistakes(gal_tp_mode mode, form how, const gal_mistakes *mistakes)
{
    uint32_t made[GAL_MISTAKES_MAX] = {0};
    for (uint32_t what = 0; what < (mode == GAL_TP_3D ? KINDS : TURNED); what++) {
        fixture f;
        lower(mode, how, (kind)what, &f);
        make_all(&f, mistakes, made);
        gal_error err = {GAL_OK, ""};
        assert_int_equal(gal_verify_types(&f.program, 1, &err), GAL_OK); /* all taken back */
        gal_program_free(f.program);
    }
    for (uint32_t m = 0; m < mistakes->count; m++) {
        printf("%-48s %3u refused\n", mistakes->mistake[m].text, made[m]);
        assert_true(made[m] > 0);
    }
}

static void test_mistakes_2p5d(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_2P5D, GATHERED, &gal_mistakes_2p5d);
}

static void test_mistakes_stepped(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_2P5D, STEPPED, &gal_mistakes_stepped);
}

static void test_mistakes_3d(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_3D, GATHERED, &gal_mistakes_3d);
}

static void test_mistakes_3d_kept(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_3D, KEPT, &gal_mistakes_3d_kept);
}

/* A part of each factor at a time, where the gathered form has as many as the side. */
static void test_steps_take_less_memory(void **state)
{
    (void)state;
    for (uint32_t what = 0; what < TURNED; what++) {
        fixture gathered, stepped;
        lower(GAL_TP_2P5D, GATHERED, (kind)what, &gathered);
        lower(GAL_TP_2P5D, STEPPED, (kind)what, &stepped);
        const gal_program *a = gathered.program, *b = stepped.program;
        printf("gathered %llu bytes, in steps %llu\n", (unsigned long long)a->arena_bytes,
               (unsigned long long)b->arena_bytes);
        assert_true(b->arena[GAL_CLASS_GATHERED].item_bytes < a->arena[GAL_CLASS_GATHERED].item_bytes);
        assert_true(b->arena_bytes < a->arena_bytes);
        gal_program_free(gathered.program);
        gal_program_free(stepped.program);
    }
}

/* A tensor that lies elsewhere than the program says. */
static void check_parameters(gal_tp_mode mode, form how)
{
    fixture f;
    lower(mode, how, UNTIED, &f);
    for (uint32_t i = 0; i < f.program->parameter_count; i++) {
        gal_parameter *p = &f.program->parameter[i];
        gal_group *const group[] = {&p->outer_group, &p->split_group, &p->inner_group};
        for (uint32_t g = 0; g < 3; g++) {
            const gal_group kept = *group[g];
            gal_error err = {GAL_OK, ""};
            *group[g] = (kept << 1 & GAL_GRID_ALL) | kept >> 2;
            if (kept != GAL_GROUP_NONE && gal_verify_types(&f.program, 1, &err) != GAL_NO) {
                fail_msg("%s cut over other devices is not refused", p->name);
            }
            *group[g] = kept;
        }
    }
    gal_program_free(f.program);
}

static void test_wrong_parameters(void **state)
{
    (void)state;
    check_parameters(GAL_TP_2P5D, GATHERED);
    check_parameters(GAL_TP_3D, GATHERED);
    check_parameters(GAL_TP_3D, KEPT);
}

/* Sides of 2, 3 and 4, alone and beside data parallelism of both kinds in either order, in both parts of a backward:
 * what ZeRO cuts is cut again, and panels are gathered from what is gathered. */
static void test_other_sides(void **state)
{
    (void)state;
    static const gal_strategy cubes[] = {
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 27}}},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 64}}},
        {.axis_count = 2, .axis = {{GAL_AXIS_SDP, 2}, {GAL_AXIS_TP, 8}}, .zero_stage = 1},
        {.axis_count = 2, .axis = {{GAL_AXIS_TP, 8}, {GAL_AXIS_SDP, 2}}, .zero_stage = 2},
        {.axis_count = 3, .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_TP, 8}, {GAL_AXIS_SDP, 2}}, .zero_stage = 3},
        {.axis_count = 2, .axis = {{GAL_AXIS_SDP, 2}, {GAL_AXIS_TP, 27}}, .zero_stage = 3},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 27}}, .zero_stage = 1, .keep_weights = true},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 64}}, .zero_stage = 2, .keep_weights = true, .keep_panels = true},
        {.axis_count = 2, .axis = {{GAL_AXIS_TP, 8}, {GAL_AXIS_SDP, 2}}, .zero_stage = 1, .keep_weights = true},
        {.axis_count = 3,
         .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_TP, 8}, {GAL_AXIS_SDP, 2}},
         .zero_stage = 2,
         .keep_weights = true}};
    for (uint32_t i = 0; i < 2 * sizeof cubes / sizeof cubes[0]; i++) {
        fixture f = {0};
        gal_error err = {GAL_OK, ""};
        f.run[0] = (gal_plan_run){0, cubes[i / 2]};
        f.run[0].strategy.tp_mode = GAL_TP_3D;
        f.stage = (gal_plan_stage){.first_run = 0, .run_count = 1};
        f.plan = (gal_plan){.global_batch_samples = 288,
                            .microbatch_count = 2,
                            .pp_degree = 1,
                            .stage_count = 1,
                            .run_count = 1,
                            .schedule = i % 2 == 0 ? GAL_SCHEDULE_1F1B : GAL_SCHEDULE_ZERO_BUBBLE,
                            .prefetch_depth = 2,
                            .stage = &f.stage,
                            .run = f.run};
        f.plan.cluster.device_count = 1;
        for (uint32_t a = 0; a < cubes[i / 2].axis_count; a++) {
            f.plan.cluster.device_count *= cubes[i / 2].axis[a].degree;
        }
        make_model(i % 2 == 0, &f.plan.model);
        turn_to_llama(&f.plan.model);
        f.plan.model.hidden = f.plan.model.vocabulary_multiple = 144;
        f.plan.model.ffn_hidden = 288;
        f.plan.model.head_count = f.plan.model.kv_head_count = 12;
        f.plan.model.head_dim = 12;
        f.run[0].block_count = gal_model_block_count(&f.plan.model);
        if (gal_plan_check(&f.plan, NULL, &err) != GAL_OK || gal_lower_plan(&f.plan, &f.program, &err) != GAL_OK ||
            gal_verify(&f.program, 1, &err) != GAL_OK) {
            char name[GAL_STRATEGY_NAME_BYTES];
            fail_msg("%s: %s", gal_strategy_name(&f.run[0].strategy, name), err.text);
        }
        gal_program_free(f.program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mistakes_2p5d),
                                       cmocka_unit_test(test_mistakes_3d),
                                       cmocka_unit_test(test_mistakes_3d_kept),
                                       cmocka_unit_test(test_mistakes_stepped),
                                       cmocka_unit_test(test_steps_take_less_memory),
                                       cmocka_unit_test(test_wrong_parameters),
                                       cmocka_unit_test(test_other_sides)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
