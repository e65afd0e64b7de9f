/* Whole steps in 16 bits, by the CUDA kernels on emulated threads: losses, weights, moments and masters have the same
 * bits wherever moments and masters lie, in the host's memory or in a file, and every byte of either is as planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/plan_check.h"
#include "tests/support/emulated/kernels.h"
#include "tests/support/numerics_bytes.h"
#include "tests/support/numerics_trial.h"

enum { STEPS = 3, SEED = 1 };

static const gal_trial_on on_bf16 = {
    .name = "emulated", .device = &gal_device_host, .ops = &gal_ops_emulated_bf16, .wide_ops = &gal_ops_emulated_fp32};
static const gal_trial_on on_fp16 = {
    .name = "emulated", .device = &gal_device_host, .ops = &gal_ops_emulated_fp16, .wide_ops = &gal_ops_emulated_fp32};

/* Where the optimizer's data is. */
typedef enum place { ON_HOST, MOMENTS_STORED, MASTERS_STORED, PLACES } place;

/* A layer of a few thousand parameters, whose matrices are two parts each: kernels take a second. */
static void make_plan(const gal_trial_on *on, place where, gal_plan *out)
{
    gal_error err = {0};
    if (gal_plan_read("tests/fixtures/valid/plan_serial.json", out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_model *m = &out->model;
    m->layer_count = 1;
    m->hidden = 32;
    m->head_count = 2;
    m->ffn_hidden = 64;
    m->sequence_length = 8;
    m->vocabulary = 128;
    m->compute_dtype = on->ops->dtype;
    out->global_batch_samples = m->global_batch_samples = 4;
    out->storage_part_bytes = GAL_STORAGE_BLOCK_BYTES;
    out->run[0].block_count = gal_model_block_count(m);
    gal_strategy *s = &out->run[0].strategy;
    s->offload_optimizer_percent = 100;
    s->offload_storage_percent = where == ON_HOST ? 0 : 100;
    s->offload_storage_masters = where == MASTERS_STORED;
    if (gal_plan_check(out, NULL, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void check_same_state(const gal_trial *a, const gal_trial *b)
{
    for (uint32_t u = 0; u < a->program->unit_count; u++) {
        uint32_t kept[2][GAL_UNIT_KEPT_MAX];
        const uint32_t count = gal_unit_kept(&a->program->unit[u], kept[0]);
        assert_int_equal(count, gal_unit_kept(&b->program->unit[u], kept[1]));
        for (uint32_t k = 0; k < count; k++) {
            const gal_trial *of[2] = {a, b};
            char *content[2];
            const uint64_t bytes = a->program->buffer[kept[0][k]].bytes;
            for (uint32_t i = 0; i < 2; i++) {
                const gal_buffer *buffer = &of[i]->program->buffer[kept[i][k]];
                assert_int_equal(buffer->bytes, bytes);
                content[i] = malloc(bytes);
                assert_non_null(content[i]);
                gal_device_host.read(gal_engine_memory(of[i]->engine),
                                     of[i]->program->arena[buffer->arena].offset + buffer->offset, content[i], bytes);
            }
            assert_memory_equal(content[0], content[1], bytes);
            free(content[0]);
            free(content[1]);
        }
    }
}

static void check_places(const gal_trial_on *on)
{
    gal_plan plan[PLACES];
    gal_trial trial[PLACES];
    gal_error err = {0};
    for (uint32_t p = 0; p < PLACES; p++) {
        make_plan(on, (place)p, &plan[p]);
        if (gal_trial_create_on(on, &plan[p], SEED, NULL, &trial[p], &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
    }
    for (uint64_t t = 0; t < STEPS; t++) {
        gal_step_result result[PLACES];
        for (uint32_t p = 0; p < PLACES; p++) {
            const gal_step_settings settings = {.step = t, .seed = SEED, .learning_rate = 0.01};
            if (gal_engine_step(trial[p].engine, &settings, &result[p], &err) != GAL_OK) {
                fail_msg("%s", err.text);
            }
            assert_memory_equal(&result[0], &result[p], sizeof result[p]);
            check_same_state(&trial[0], &trial[p]);
        }
        assert_true(result[0].loss > 0.0 && result[0].gradient_norm > 0.0);
    }
    for (uint32_t p = 0; p < PLACES; p++) {
        char text[256] = "";
        if (!gal_arena_as_planned(trial[p].program, gal_engine_memory(trial[p].engine), text, sizeof text)) {
            fail_msg("place %u: %s", p, text);
        }
    }
    const gal_program *less = trial[MASTERS_STORED].program, *more = trial[MOMENTS_STORED].program;
    assert_true(less->host_bytes < more->host_bytes);
    assert_int_equal(2 * less->storage_bytes, 3 * more->storage_bytes);
    for (uint32_t p = 0; p < PLACES; p++) {
        gal_trial_free(&trial[p]);
        gal_plan_free(&plan[p]);
    }
}

static void test_bf16(void **unused)
{
    (void)unused;
    check_places(&on_bf16);
}

static void test_fp16(void **unused)
{
    (void)unused;
    check_places(&on_fp16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16), cmocka_unit_test(test_fp16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
