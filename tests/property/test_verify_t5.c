/* What couples the blocks of an encoder-decoder off the chain, left out on purpose: sums that are forgotten, and parts
 * that are forgotten. Each must be refused, and by the check that is meant for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/verify/verify.h"
#include "tests/support/mutate.h"

enum { STAGES = 3 };

typedef struct fixture {
    gal_plan plan;
    gal_plan_stage stage[STAGES];
    gal_plan_run run[STAGES];
    gal_program *program[STAGES];
} fixture;

/* 2 + 2 layers on 3 stages of 2 devices: cut behind the first encoder layer and behind the first cross-attention. */
static void lower_model(gal_axis_kind axis, uint32_t zero_stage, bool sequence_parallel, bool padding, fixture *out)
{
    static const uint32_t blocks[STAGES] = {3, 5, 5};
    gal_error err = {GAL_OK, ""};
    memset(out, 0, sizeof *out);
    gal_model *model = &out->plan.model;
    gal_model_defaults(model);
    model->family = GAL_FAMILY_T5;
    model->layer_count = model->decoder_layer_count = 2;
    model->hidden = 16;
    model->head_count = 2;
    model->head_dim = 4;
    model->ffn_hidden = 32;
    model->sequence_length = 8;
    model->decoder_sequence_length = 4;
    model->relative_bucket_count = 8;
    model->relative_max_distance = 16;
    model->vocabulary = 61;
    model->vocabulary_multiple = 8;
    model->tied_embeddings = true;
    model->padding = padding;
    for (uint32_t s = 0; s < STAGES; s++) {
        out->stage[s] = (gal_plan_stage){.first_run = s, .run_count = 1};
        out->run[s].block_count = blocks[s];
        out->run[s].strategy.axis_count = 1;
        out->run[s].strategy.axis[0] = (gal_axis){axis, 2};
        out->run[s].strategy.zero_stage = zero_stage;
        out->run[s].strategy.sequence_parallel = sequence_parallel;
    }
    out->plan.global_batch_samples = 4;
    out->plan.microbatch_count = 2;
    out->plan.pp_degree = out->plan.stage_count = out->plan.run_count = STAGES;
    out->plan.schedule = GAL_SCHEDULE_1F1B;
    out->plan.prefetch_depth = 1;
    out->plan.stage = out->stage;
    out->plan.run = out->run;
    out->plan.cluster.device_count = 2 * STAGES;
    if (gal_lower_plan(&out->plan, out->program, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    if (gal_verify(out->program, STAGES, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void lower(gal_axis_kind axis, uint32_t zero_stage, bool sequence_parallel, fixture *out)
{
    lower_model(axis, zero_stage, sequence_parallel, false, out);
}

static void release(fixture *f)
{
    for (uint32_t s = 0; s < STAGES; s++) {
        gal_program_free(f->program[s]);
    }
}

static gal_instruction *instruction_of(gal_program *p, gal_fragment_kind fragment, uint32_t position)
{
    return &p->instruction[p->fragment[fragment].first + position];
}

/* Positions behind it move up by one; waits for instructions of this fragment are renumbered. */
static void remove_at(gal_program *p, gal_fragment_kind fragment, uint32_t position)
{
    gal_instruction *list = instruction_of(p, fragment, 0);
    const uint32_t count = --p->fragment[fragment].count;
    memmove(&list[position], &list[position + 1], (count - position) * sizeof *list);
    for (uint32_t i = position; i < count; i++) {
        for (uint32_t w = 0; w < list[i].wait_count; w++) {
            gal_wait *wait = &p->wait[list[i].first_wait + w];
            if (wait->kind == GAL_WAIT_INSTRUCTION && wait->target >= position && wait->target > 0) {
                wait->target--;
            }
        }
    }
}

static const char *buffer_name(const gal_program *p, const gal_instruction *in, uint32_t operand)
{
    return p->buffer[p->operand[in->first_operand + operand].buffer].name;
}

typedef bool (*chooser)(const gal_program *p, const gal_instruction *list, uint32_t position, uint32_t count);

/* Leaves the first chosen instruction out, in both backward fragments or wherever it is; refused by types. */
static void expect_refused(fixture *f, uint32_t stage, chooser chosen, const char *rule)
{
    gal_program *programs[STAGES];
    gal_error err = {GAL_OK, ""};
    uint32_t removed = 0;
    for (uint32_t s = 0; s < STAGES; s++) {
        programs[s] = s == stage ? gal_program_clone(f->program[s]) : f->program[s];
    }
    gal_program *p = programs[stage];
    for (uint32_t fragment = 0; fragment < GAL_FRAGMENT_COUNT; fragment++) {
        const gal_instruction *list = instruction_of(p, (gal_fragment_kind)fragment, 0);
        for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
            if (chosen(p, list, i, p->fragment[fragment].count)) {
                remove_at(p, (gal_fragment_kind)fragment, i);
                removed++;
                break;
            }
        }
    }
    assert_true(removed > 0);
    assert_int_equal(gal_verify_types(programs, STAGES, &err), GAL_NO);
    if (strstr(err.text, rule) == NULL) {
        fail_msg("refused otherwise: %s", err.text);
    }
    gal_program_free(p);
}

/* The sum over tensor-parallel devices of a block's part of the carried gradient. */
static bool sums_carried(const gal_program *p, const gal_instruction *list, uint32_t position, uint32_t count)
{
    const gal_instruction *in = &list[position];
    const bool sums = in->op == GAL_OP_ALL_REDUCE || in->op == GAL_OP_REDUCE_SCATTER;
    const uint32_t result = in->first_operand + (in->op == GAL_OP_REDUCE_SCATTER ? 1 : 0);
    for (uint32_t i = position + 1; sums && i < count; i++) {
        if (list[i].op == GAL_OP_ADD && strcmp(buffer_name(p, &list[i], 1), "dcarried") == 0 &&
            p->operand[list[i].first_operand].buffer == p->operand[result].buffer) {
            return true;
        }
    }
    return false;
}

static bool sums_bias_inside(const gal_program *p, const gal_instruction *list, uint32_t position, uint32_t count)
{
    const gal_instruction *in = &list[position];
    (void)count;
    for (uint32_t u = 0; in->op == GAL_OP_ALL_REDUCE && u < p->unit_count; u++) {
        if (strcmp(p->unit[u].name, "bias") == 0 && (in->group & GAL_GROUP_RELATION) == 0 &&
            p->operand[in->first_operand].buffer == p->unit[u].gradient) {
            return true;
        }
    }
    return false;
}

static bool is_over(const gal_instruction *in, gal_group group)
{
    return in->op == GAL_OP_ALL_REDUCE && in->group == group;
}

static bool sums_encoder_bias(const gal_program *p, const gal_instruction *list, uint32_t position, uint32_t count)
{
    (void)p;
    (void)count;
    return is_over(&list[position], GAL_GROUP_ENCODER_BIAS);
}

static bool sums_decoder_bias(const gal_program *p, const gal_instruction *list, uint32_t position, uint32_t count)
{
    (void)p;
    (void)count;
    return is_over(&list[position], GAL_GROUP_DECODER_BIAS);
}

static bool sums_table(const gal_program *p, const gal_instruction *list, uint32_t position, uint32_t count)
{
    (void)p;
    (void)count;
    return is_over(&list[position], GAL_GROUP_TIED);
}

static void forgotten_sum_of_carried_gradient(void **state)
{
    (void)state;
    for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
        fixture f;
        lower(GAL_AXIS_TP, 0, sequence_parallel != 0, &f);
        for (uint32_t stage = 1; stage < STAGES; stage++) {
            expect_refused(&f, stage, sums_carried,
                           sequence_parallel != 0 ? "reads what no instruction wrote"
                           : stage == 1           ? "adds values of different types"
                                                  : "sends a sum that is still partial");
        }
        release(&f);
    }
}

static void forgotten_sum_of_bias(void **state)
{
    (void)state;
    static const gal_axis_kind axes[] = {GAL_AXIS_TP, GAL_AXIS_DP, GAL_AXIS_SDP};
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        fixture f;
        lower(axes[i], axes[i] == GAL_AXIS_SDP ? 3 : 0, false, &f);
        expect_refused(&f, 0, sums_bias_inside, "partial");
        expect_refused(&f, 0, sums_encoder_bias, "partial");
        expect_refused(&f, 1, sums_decoder_bias, "partial");
        expect_refused(&f, 2, sums_table, "partial");
        release(&f);
    }
}

/* A stage that does not say that others hold its copy too, or not which. */
static void copies_that_are_not_marked(void **state)
{
    (void)state;
    fixture f;
    gal_error err = {GAL_OK, ""};
    lower(GAL_AXIS_DP, 0, false, &f);
    for (uint32_t u = 0; u < f.program[1]->unit_count; u++) {
        const gal_group kept = f.program[1]->unit[u].copies;
        if (kept != GAL_GROUP_NONE) {
            f.program[1]->unit[u].copies = GAL_GROUP_NONE;
            assert_int_equal(gal_verify_types(f.program, STAGES, &err), GAL_NO);
            assert_non_null(strstr(err.text, "a tensor on several stages must be tied over just these"));
            f.program[1]->unit[u].copies = kept;
        }
    }
    f.program[0]->holders[GAL_SHARED_TABLE] = (gal_stage_set){2, {{0, 1}, {2, 3}}};
    assert_int_equal(gal_verify_types(f.program, STAGES, &err), GAL_NO);
    release(&f);
}

static void expect_broken(const fixture *f, const char *rule)
{
    gal_error err = {GAL_OK, ""};
    assert_int_equal(gal_verify_types(f->program, STAGES, &err), GAL_NO);
    if (strstr(err.text, rule) == NULL) {
        fail_msg("%s", err.text);
    }
}

static bool reads_lengths(gal_op op)
{
    return op == GAL_OP_RELATIVE_ATTENTION || op == GAL_OP_RELATIVE_ATTENTION_BACKWARD ||
           op == GAL_OP_CROSS_ATTENTION || op == GAL_OP_CROSS_ATTENTION_BACKWARD;
}

/* Of all attentions of a padded model but causal ones, one reads no lengths, or those of another sequence. */
static void forgotten_lengths(void **state)
{
    (void)state;
    fixture f;
    gal_error err = {GAL_OK, ""};
    uint32_t attentions = 0, loads = 0;
    lower_model(GAL_AXIS_TP, 0, true, true, &f);
    assert_int_equal(gal_verify_types(f.program, STAGES, &err), GAL_OK);
    for (uint32_t s = 0; s < STAGES; s++) {
        gal_program *p = f.program[s];
        for (uint32_t i = 0; i < p->instruction_count; i++) {
            gal_instruction *in = &p->instruction[i];
            uint32_t *dims = p->shape[in->shape].dims;
            const bool causal = in->op <= GAL_OP_RELATIVE_ATTENTION_BACKWARD && dims[4] != 0;
            if (reads_lengths((gal_op)in->op) && !causal) {
                attentions++;
                in->operand_count--;
                expect_broken(&f, "another number of operands");
                in->operand_count++;
            } else if (in->op == GAL_OP_LOAD_LENGTHS) {
                loads++;
                dims[1]--;
                expect_broken(&f, "reads the lengths of another sequence");
                dims[1]++;
            }
        }
    }
    /* four blocks; forward, evaluation, two backwards: loaded in the first two, as they stay until the backward */
    assert_int_equal(attentions, 16);
    assert_int_equal(loads, 8);
    assert_int_equal(gal_verify_types(f.program, STAGES, &err), GAL_OK);
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgotten_sum_of_carried_gradient),
        cmocka_unit_test(forgotten_sum_of_bias),
        cmocka_unit_test(copies_that_are_not_marked),
        cmocka_unit_test(forgotten_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
