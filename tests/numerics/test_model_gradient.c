/* The gradient of a whole 2-layer model against differences of its loss, through the engine's training path, in fp64.
 *
 * The loss is that of a step with learning rate 0, which leaves the weights as they are to the bit (w - 0 w - 0 u = w),
 * with the same dropout masks each time: seed and step number are the same. The five-point difference f' = (f(-2h) - 8
 * f(-h) + 8 f(h) - f(2h)) / 12h is off by h^4 f5 / 30 (h = 1e-3: 3e-14 f5) and by rounding, about 1.5 eps |L| / h =
 * 9e-13 for a loss near 2.6. Gradients here have entries of 1e-3 to 1e-1 in every tensor: the bound, 1e-7 of the
 * largest of the tensor, leaves room for fifth derivatives of a million times the gradient: a
 * root mean square of rows of 0.2 has some. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/numerics_trial.h"

enum { SAMPLES_PER_TENSOR = 24 };
static const double h = 1e-3;
static const double relative_bound = 1e-7;
static const uint64_t seed = 11;

static void small_model(gal_model *model, bool tied, gal_activation activation, double dropout)
{
    gal_model_defaults(model);
    model->layer_count = 2;
    model->hidden = 16;
    model->head_count = 2;
    model->ffn_hidden = 32;
    model->sequence_length = 8;
    model->vocabulary = 13;
    model->vocabulary_multiple = 8;
    model->activation = activation;
    model->tied_embeddings = tied;
    model->embedding_dropout = model->attention_dropout = model->residual_dropout = dropout;
    model->initial_standard_deviation = 0.2; /* far from linear */
    model->compute_dtype = GAL_FP64;
}

/* Two microbatches, so that gradients accumulate; the second run of blocks is recomputed. */
static void one_rank(const gal_model *model, gal_plan *out, gal_plan_stage *stage, gal_plan_run run[2])
{
    memset(run, 0, 2 * sizeof *run);
    run[0].block_count = 3;
    run[1].block_count = gal_model_block_count(model) - 3;
    run[1].strategy.recompute = GAL_RECOMPUTE_FULL;
    *stage = (gal_plan_stage){.first_run = 0, .run_count = 2};
    *out = (gal_plan){.model = *model,
                      .global_batch_samples = 4,
                      .microbatch_count = 2,
                      .pp_degree = 1,
                      .schedule = GAL_SCHEDULE_1F1B,
                      .prefetch_depth = 1,
                      .stage_count = 1,
                      .stage = stage,
                      .run_count = 2,
                      .run = run};
    out->cluster.device_count = 1;
}

static double loss_of(const gal_trial *trial)
{
    const gal_step_settings settings = {0, seed, 0.0};
    gal_step_result result = {0.0, 0.0};
    gal_error err = {GAL_OK, ""};
    assert_int_equal(gal_engine_step(trial->engine, &settings, &result, &err), GAL_OK);
    return result.loss;
}

static double difference(const gal_trial *trial, double *weight)
{
    static const double factor[] = {1.0, -8.0, 8.0, -1.0};
    static const double at[] = {-2.0, -1.0, 1.0, 2.0};
    const double kept = *weight;
    double sum = 0.0;
    for (int i = 0; i < 4; i++) {
        *weight = kept + at[i] * h;
        sum += factor[i] * loss_of(trial);
    }
    *weight = kept;
    return sum / (12.0 * h);
}

static double *weight_of(const gal_trial *trial, const gal_parameter *p)
{
    const gal_program *program = trial->program;
    const gal_buffer *buffer = &program->buffer[program->unit[p->unit].weight];
    char *base = gal_engine_memory(trial->engine)->base;
    return (double *)(void *)(base + program->arena[buffer->class].offset + buffer->offset) + p->offset_elements;
}

static void check_tensor(const gal_trial *trial, const gal_parameter *p, const double *gradient, uint64_t elements)
{
    double *weight = weight_of(trial, p);
    double largest = 0.0;
    for (uint64_t i = 0; i < elements; i++) {
        largest = fmax(largest, fabs(gradient[i]));
    }
    if (gal_trial_has_no_gradient(p->name)) {
        assert_true(largest < 1e-12);
        return;
    }
    assert_true(largest > 1e-4);
    /* One rank holds tensors whole; padded rows of a table come last, so indices agree with the global tensor's. */
    for (uint64_t i = 0; i < elements; i += 1 + elements / SAMPLES_PER_TENSOR) {
        const double found = difference(trial, weight + i);
        if (!(fabs(found - gradient[i]) <= relative_bound * largest)) {
            print_error("%s[%llu]: gradient %.17g, difference %.17g, largest %.3g\n", p->name, (unsigned long long)i,
                        gradient[i], found, largest);
            fail();
        }
    }
}

static void check_model(const gal_model *model)
{
    gal_plan plan;
    gal_plan_stage stage;
    gal_plan_run run[2];
    gal_trial trial;
    gal_tensor_table table;
    gal_error err = {GAL_OK, ""};
    one_rank(model, &plan, &stage, run);
    assert_int_equal(gal_trial_create(&plan, seed, NULL, &trial, &err), GAL_OK);
    gal_tensor_table_of(trial.program, &table);
    double *gradient = calloc(table.offset[table.count], sizeof *gradient);
    assert_non_null(gradient);
    const double loss = loss_of(&trial);
    gal_trial_read(&trial, GAL_STATE_GRADIENT, &table, gradient);
    for (uint32_t i = 0; i < trial.program->parameter_count; i++) {
        const gal_parameter *p = &trial.program->parameter[i];
        check_tensor(&trial, p, gradient + table.offset[p->tensor],
                     table.offset[p->tensor + 1] - table.offset[p->tensor]);
    }
    assert_true(loss_of(&trial) == loss); /* nothing but the perturbed entries ever moved */
    free(gradient);
    gal_trial_free(&trial);
}

static void test_llama(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        gal_model model;
        small_model(&model, tied != 0, GAL_ACTIVATION_SILU, 0.0);
        model.family = GAL_FAMILY_LLAMA;
        model.head_count = 4;
        model.kv_head_count = 2;
        model.head_dim = 6;
        model.rotary_base = 10.0;
        model.qkv_bias = true;
        model.attention_dropout = tied != 0 ? 0.2 : 0.0;
        check_model(&model);
    }
}

/* Targets longer and shorter than the source; the second run begins inside the encoder. */
static void test_t5(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        gal_model model;
        small_model(&model, tied != 0, tied != 0 ? GAL_ACTIVATION_GELU_ERF : GAL_ACTIVATION_GELU_TANH, 0.0);
        model.family = GAL_FAMILY_T5;
        model.decoder_layer_count = 2;
        model.decoder_sequence_length = tied != 0 ? 5 : 11;
        model.head_dim = 6;
        model.relative_bucket_count = 6;
        model.relative_max_distance = 7;
        model.gated = tied == 0;
        model.attention_dropout = tied != 0 ? 0.2 : 0.0;
        model.residual_dropout = tied != 0 ? 0.1 : 0.0;
        check_model(&model);
    }
}

static void test_bert(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        gal_model model;
        small_model(&model, tied != 0, GAL_ACTIVATION_GELU_ERF, tied != 0 ? 0.2 : 0.0);
        model.family = GAL_FAMILY_BERT;
        model.type_count = 2;
        model.mask_token = 12;
        model.embedding_dropout = 0.0;
        check_model(&model);
    }
}

static void test_vit(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        gal_model model;
        small_model(&model, false, GAL_ACTIVATION_GELU_ERF, with != 0 ? 0.2 : 0.0);
        model.family = GAL_FAMILY_VIT;
        model.image_size = 6;
        model.patch_size = 2;
        model.channel_count = 1;
        model.sequence_length = 10;
        check_model(&model);
    }
}

/* 4 x 4 positions in shifted windows of 2, then one window; the second run begins inside the first level. */
static void test_swin(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        gal_model model;
        small_model(&model, false, GAL_ACTIVATION_GELU_ERF, with != 0 ? 0.2 : 0.0);
        model.family = GAL_FAMILY_SWIN;
        model.hidden = 8;
        model.ffn_hidden = 16;
        model.embedding_dropout = 0.0;
        model.image_size = 8;
        model.patch_size = 2;
        model.channel_count = 1;
        model.sequence_length = 16;
        model.window_size = 2;
        model.level_count = 2;
        model.level_layer_count[0] = 2;
        model.level_layer_count[1] = 1;
        model.layer_count = 3;
        model.level_head_count[0] = model.head_count;
        model.level_head_count[1] = 2 * model.head_count;
        check_model(&model);
    }
}

static void test_tied_with_dropout(void **state)
{
    (void)state;
    gal_model model;
    small_model(&model, true, GAL_ACTIVATION_GELU_TANH, 0.2);
    check_model(&model);
}

static void test_untied_without_dropout(void **state)
{
    (void)state;
    gal_model model;
    small_model(&model, false, GAL_ACTIVATION_GELU_ERF, 0.0);
    check_model(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_bert),
        cmocka_unit_test(test_vit),
        cmocka_unit_test(test_t5),
        cmocka_unit_test(test_swin),
        cmocka_unit_test(test_tied_with_dropout),
        cmocka_unit_test(test_untied_without_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
