/* Gradients that lie where their weights were (Colossal-AI, Figure 10): the update from there, and the bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program/verify/verify.h"
#include "schemas/plan_check.h"
#include "tests/support/ops_case.h"

static const gal_ops *const ops = &gal_ops_host_fp64;

enum { COUNT = 6, DECAYING = 4 };

/* The same numbers as Adam on weights beside their gradient, at the place of the weights and in the masters. */
static void test_update(void **state)
{
    (void)state;
    ops_case at;
    ops_case_init(&at);
    double w[COUNT], g[COUNT], m[COUNT], v[COUNT], place[COUNT], master[COUNT], m2[COUNT], v2[COUNT];
    double norm[2] = {4.0, 1.0};
    ops_randomize(w, COUNT, 1);
    ops_randomize(g, COUNT, 2);
    ops_randomize(m, COUNT, 3);
    for (int i = 0; i < COUNT; i++) {
        v[i] = v2[i] = m[i] * m[i];
        m2[i] = m[i];
        master[i] = w[i];
    }
    OPS(&at, ops, GAL_OP_KEEP_GRADIENT, DIMS(COUNT), g, place);
    assert_memory_equal(place, g, sizeof g);
    OPS(&at, ops, GAL_OP_ADAM, DIMS(COUNT, DECAYING), w, g, m, v, norm);
    OPS(&at, ops, GAL_OP_ADAM_IN_PLACE, DIMS(COUNT, DECAYING), place, m2, v2, norm, master);
    assert_memory_equal(place, w, sizeof w);
    assert_memory_equal(master, w, sizeof w);
    assert_memory_equal(m2, m, sizeof m);
    assert_memory_equal(v2, v, sizeof v);
}

/* A skipped update must give the weights back all the same: their place holds a gradient. */
static void test_skipped(void **state)
{
    (void)state;
    ops_case at;
    ops_case_init(&at);
    for (int which = 0; which < 2; which++) {
        double norm[2] = {1.0, 1.0}, place[COUNT], m[COUNT] = {1.0}, v[COUNT] = {2.0}, master[COUNT], before[COUNT];
        norm[which] = NAN;
        ops_randomize(place, COUNT, 4);
        ops_randomize(master, COUNT, 5);
        memcpy(before, master, sizeof before);
        OPS(&at, ops, GAL_OP_ADAM_IN_PLACE, DIMS(COUNT, DECAYING), place, m, v, norm, master);
        assert_memory_equal(place, before, sizeof before);
        assert_memory_equal(master, before, sizeof before);
        assert_true(m[0] == 1.0 && v[0] == 2.0);
    }
}

/* One layer on 4 devices, ZeRO 1 over all. */
static gal_program *lower(bool reuses, gal_dtype dtype)
{
    gal_plan_run run = {4, {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 4}}, .zero_stage = 1}};
    gal_plan_stage stage = {.run_count = 1};
    gal_plan plan = {.global_batch_samples = 4,
                     .microbatch_count = 1,
                     .pp_degree = 1,
                     .schedule = GAL_SCHEDULE_1F1B,
                     .prefetch_depth = 1,
                     .gradient_reuses_parameter = reuses,
                     .stage_count = 1,
                     .stage = &stage,
                     .run_count = 1,
                     .run = &run};
    gal_model_defaults(&plan.model);
    plan.model.layer_count = 1;
    plan.model.hidden = 64;
    plan.model.head_count = 4;
    plan.model.ffn_hidden = 256;
    plan.model.sequence_length = 32;
    plan.model.vocabulary = 256;
    plan.model.tied_embeddings = false;
    plan.model.compute_dtype = dtype;
    plan.cluster.device_count = 4;
    gal_program *program = NULL;
    gal_error err = {GAL_OK, ""};
    assert_int_equal(gal_plan_check(&plan, "plan", &err), GAL_OK);
    assert_int_equal(gal_lower(&plan, 0, &program, &err), GAL_OK);
    assert_int_equal(gal_verify(&program, 1, &err), GAL_OK);
    return program;
}

/* Of all units but those of vectors, what so many bytes for each of a device's elements take. */
static uint64_t matrix_bytes(const gal_program *program, bool shards, uint64_t item_bytes)
{
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < program->unit_count; u++) {
        const gal_unit *unit = &program->unit[u];
        bytes += unit->reuses ? gal_align((shards ? unit->shard_elements : unit->elements) * item_bytes) : 0;
    }
    return bytes;
}

static uint64_t class_bytes(const gal_program *program, gal_class class)
{
    return program->arena[class].item_bytes * program->arena[class].count;
}

/* fp32: a whole gradient of 4 bytes an element goes, a master of 4 comes, of which each of 4 devices has a quarter.
 * bf16: the masters were there before. */
static void expect_bytes(gal_dtype dtype, uint64_t master_bytes)
{
    gal_program *own = lower(false, dtype), *shared = lower(true, dtype);
    const uint64_t gone = class_bytes(own, GAL_CLASS_GRADIENT) - class_bytes(shared, GAL_CLASS_GRADIENT);
    const uint64_t come = class_bytes(shared, GAL_CLASS_STATE) - class_bytes(own, GAL_CLASS_STATE);
    assert_int_equal(gone, matrix_bytes(shared, false, 4));
    assert_int_equal(come, matrix_bytes(shared, true, master_bytes));
    assert_true(gone > 12 * 64 * 64 * 4);
    assert_true(shared->arena_bytes < own->arena_bytes);
    gal_program_free(own);
    gal_program_free(shared);
}

static void test_bytes(void **state)
{
    (void)state;
    expect_bytes(GAL_FP32, 4);
    expect_bytes(GAL_BF16, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_update), cmocka_unit_test(test_skipped),
                                       cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
