/* A Swin whose programs are wrong on purpose where only a Swin can be: windows, merges, the mean, the table of offsets.
 * Each must be refused by its types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/verify/verify.h"
#include "tests/support/mutate.h"

typedef struct fixture {
    gal_plan plan;
    gal_plan_stage stage;
    gal_plan_run run;
    gal_program *program;
} fixture;

/* 8 x 8 positions in shifted windows of 4, then 4 x 4 and 2 x 2; 2 devices, tensor-parallel. */
static void lower(bool sequence_parallel, fixture *out)
{
    gal_error err = {GAL_OK, ""};
    memset(out, 0, sizeof *out);
    gal_model *model = &out->plan.model;
    if (gal_model_read("tests/fixtures/valid/model_swin.json", model, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    out->stage = (gal_plan_stage){.first_run = 0, .run_count = 1};
    out->run = (gal_plan_run){.block_count = gal_model_block_count(model)};
    out->run.strategy.axis_count = 1;
    out->run.strategy.axis[0] = (gal_axis){GAL_AXIS_TP, 2};
    out->run.strategy.sequence_parallel = sequence_parallel;
    out->plan.global_batch_samples = 4;
    out->plan.microbatch_count = 2;
    out->plan.pp_degree = out->plan.stage_count = out->plan.run_count = 1;
    out->plan.schedule = GAL_SCHEDULE_1F1B;
    out->plan.prefetch_depth = 1;
    out->plan.stage = &out->stage;
    out->plan.run = &out->run;
    out->plan.cluster.device_count = 2;
    if (gal_lower_plan(&out->plan, &out->program, &err) != GAL_OK || gal_verify(&out->program, 1, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

/* The first instruction of the kind gets another dimension; refused with the rule. */
static void expect_refused(const fixture *f, gal_op op, uint32_t dim, uint32_t value, const char *rule)
{
    gal_program *p = gal_program_clone(f->program);
    gal_error err = {GAL_OK, ""};
    uint32_t i = 0;
    assert_non_null(p);
    while (i < p->instruction_count && p->instruction[i].op != op) {
        i++;
    }
    assert_true(i < p->instruction_count);
    gal_shape *shape = &p->shape[p->instruction[i].shape];
    assert_int_not_equal(shape->dims[dim], value);
    shape->dims[dim] = value;
    assert_int_equal(gal_verify_types(&p, 1, &err), GAL_NO);
    if (strstr(err.text, rule) == NULL) {
        fail_msg("refused otherwise: %s", err.text);
    }
    gal_program_free(p);
}

static void wrong_grids(void **state)
{
    (void)state;
    for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
        fixture f;
        lower(sequence_parallel != 0, &f);
        expect_refused(&f, GAL_OP_WINDOW_ATTENTION, 4, 4, "its windows do not divide the grid");
        expect_refused(&f, GAL_OP_WINDOW_ATTENTION, 5, 3, "its windows do not divide the grid");
        expect_refused(&f, GAL_OP_WINDOW_ATTENTION_BACKWARD, 6, 8, "its windows do not divide the grid");
        expect_refused(&f, GAL_OP_MERGE, 3, 64, "merges rows that are elsewhere");
        expect_refused(&f, GAL_OP_MERGE_BACKWARD, 3, 7, "merges rows that are elsewhere");
        expect_refused(&f, GAL_OP_MEAN_POSITION, 3, 5, "another number of positions");
        expect_refused(&f, GAL_OP_MEAN_POSITION_BACKWARD, 3, 1, "another number of positions");
        gal_program_free(f.program);
    }
}

/* A table that every device has whole, and one whose gradient is summed over devices that have other heads. */
static void wrong_tables(void **state)
{
    (void)state;
    fixture f;
    gal_error err = {GAL_OK, ""};
    lower(false, &f);
    gal_parameter *bias = NULL;
    for (uint32_t i = 0; i < f.program->parameter_count && bias == NULL; i++) {
        const gal_unit *unit = &f.program->unit[f.program->parameter[i].unit];
        bias = strcmp(unit->name, "bias") == 0 ? &f.program->parameter[i] : NULL;
    }
    assert_non_null(bias);
    const gal_group split = bias->split_group;
    assert_int_not_equal(split, GAL_GROUP_NONE);
    bias->split_group = GAL_GROUP_NONE;
    assert_int_equal(gal_verify_types(&f.program, 1, &err), GAL_NO);
    bias->split_group = split;
    assert_int_equal(gal_verify_types(&f.program, 1, &err), GAL_OK);
    gal_program_free(f.program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_grids), cmocka_unit_test(wrong_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
