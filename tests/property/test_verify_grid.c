/* Programs of grids that are wrong on purpose: every place where a mistake can be made gets it once, alone, and the
 * types must refuse it. GPT-2's kind on 2 x 2 devices, two of them deep (2.5d) or beside another layout, tied or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/verify.h"
#include "schemas/plan_check.h"

enum { DEVICES = 8, BLOCKS = 6 };

/* Atoms of 8 devices: the axis is innermost. */
enum { ROW = 1, COLUMN = 2, DEPTH = 4 };

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

/* converts: data parallel behind the second block. */
static void lower(bool tied, bool converts, fixture *out)
{
    gal_error err = {GAL_OK, ""};
    memset(out, 0, sizeof *out);
    make_model(tied, &out->plan.model);
    const gal_strategy grid = {
        .axis_count = 1, .axis = {{GAL_AXIS_TP, DEVICES}}, .tp_mode = GAL_TP_2P5D, .tp_depth = 2};
    const gal_strategy data = {.axis_count = 1, .axis = {{GAL_AXIS_DP, DEVICES}}};
    out->run[0] = (gal_plan_run){converts ? 2 : BLOCKS, grid};
    out->run[1] = (gal_plan_run){BLOCKS - 2, data};
    out->plan.run_count = converts ? 2 : 1;
    out->stage = (gal_plan_stage){0, out->plan.run_count, 0};
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

/* ---- mistakes: false where the instruction leaves no room for one ---- */

typedef struct place {
    gal_program *program;
    gal_instruction *in;
    gal_operand *operand;
    gal_shape *shape;
} place;

static bool swaps_group(const place *at)
{
    at->in->group = at->in->group == ROW ? COLUMN : ROW;
    return true;
}

static bool adds_to_group(const place *at)
{
    const gal_group all = ROW | COLUMN | DEPTH;
    const bool grows = at->in->group != all;
    at->in->group = all;
    return grows;
}

static bool loses_depth(const place *at)
{
    const bool has = (at->in->group & DEPTH) != 0;
    at->in->group &= ~(gal_group)DEPTH;
    return has;
}

static bool loses_column(const place *at)
{
    const bool has = (at->in->group & COLUMN) != 0;
    at->in->group &= ~(gal_group)COLUMN;
    return has;
}

static bool forgets_group(const place *at)
{
    const bool had = at->in->group != GAL_GROUP_NONE;
    at->in->group = GAL_GROUP_NONE;
    return had;
}

/* The other part of a panel: of two, one more or one less. */
static bool takes_other_part(const place *at, uint32_t k)
{
    gal_operand *o = &at->operand[k];
    const gal_buffer *buffer = &at->program->buffer[o->buffer];
    if (buffer->bytes < 2 * o->bytes || o->offset_bytes % o->bytes != 0 || o->offset_bytes > o->bytes) {
        return false;
    }
    o->offset_bytes = o->bytes - o->offset_bytes;
    return true;
}

static bool is_over_rows(const place *at)
{
    return (at->shape->dims[3] & GAL_GEMM_TRANSPOSE_A) != 0;
}

static bool is_panel(const place *at, uint32_t k)
{
    return at->program->buffer[at->operand[k].buffer].bytes == 2 * at->operand[k].bytes;
}

/* Of weights; the ring may be larger than the panel. */
static bool takes_other_weights(const place *at)
{
    return !is_over_rows(at) && at->program->buffer[at->operand[1].buffer].class == GAL_CLASS_GATHERED &&
           takes_other_part(at, 1);
}

static bool takes_other_inputs(const place *at)
{
    return is_panel(at, 0) && takes_other_part(at, 0);
}

static bool takes_other_factor(const place *at)
{
    return is_over_rows(at) && is_panel(at, 1) && takes_other_part(at, 1);
}

static bool writes_other_part(const place *at)
{
    return (is_over_rows(at) || is_panel(at, 2)) && takes_other_part(at, 2);
}

/* The first term of a sum is lost, or what was there before stays. */
static bool begins_again(const place *at)
{
    const bool adds = at->operand[2].access == GAL_UPDATE;
    at->operand[2].access = adds ? GAL_WRITE : GAL_UPDATE;
    return !is_over_rows(at);
}

static bool has_other_parts(const place *at)
{
    at->shape->dims[2] *= 2;
    return true;
}

static bool has_other_first_dim(const place *at)
{
    at->shape->dims[0] *= 2;
    return true;
}

static bool loads_other_rows(const place *at)
{
    for (uint32_t i = 1; i < at->program->layout_count; i++) {
        if (i != at->in->layout) {
            at->in->layout = (uint16_t)i;
            return true;
        }
    }
    return false;
}

static bool cuts_over_others(const place *at)
{
    const bool cuts = at->operand[0].view != GAL_GROUP_NONE;
    at->operand[0].view = at->operand[0].view == ROW ? COLUMN : ROW;
    return cuts;
}

static bool joins_in_other_order(const place *at)
{
    uint32_t *count = at->shape->dims + 1, *stride = at->shape->dims + 6;
    const uint32_t parts = count[4], rows = count[3];
    if (at->operand[0].view != GAL_GROUP_NONE || parts != 2 || stride[4] != rows) {
        return false;
    }
    count[3] = parts; /* part by part, as they were delivered */
    count[4] = rows;
    stride[3] = rows;
    stride[4] = 1;
    return true;
}

typedef struct mistake {
    const char *text;
    const char *name; /* of the instructions; NULL: any */
    gal_op op;
    bool (*make)(const place *);
} mistake;

static const mistake mistakes[] = {
    {"rows of X gathered along the column", "gather a", GAL_OP_ALL_GATHER, swaps_group},
    {"X gathered over all", "gather a", GAL_OP_ALL_GATHER, adds_to_group},
    {"weights gathered along the row", "gather w", GAL_OP_ALL_GATHER, swaps_group},
    {"weights gathered over all", "gather w", GAL_OP_ALL_GATHER, adds_to_group},
    {"dX scattered along the column", "scatter da", GAL_OP_REDUCE_SCATTER, swaps_group},
    {"dW scattered along the row", "scatter dw", GAL_OP_REDUCE_SCATTER, swaps_group},
    {"logits scattered along the column", "scatter y", GAL_OP_REDUCE_SCATTER, swaps_group},
    {"gradients of logits gathered along the column", "gather dy", GAL_OP_ALL_GATHER, swaps_group},
    {"another part of the weights", NULL, GAL_OP_GEMM, takes_other_weights},
    {"another part of the inputs", NULL, GAL_OP_GEMM, takes_other_inputs},
    {"another part of a gradient", NULL, GAL_OP_GEMM, takes_other_factor},
    {"a part written elsewhere", NULL, GAL_OP_GEMM, writes_other_part},
    {"a sum begun again, or never", NULL, GAL_OP_GEMM, begins_again},
    {"depth left out of a sum of gradients", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
    {"the column left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_column},
    {"a gradient summed over all", "reduce dw", GAL_OP_ALL_REDUCE, adds_to_group},
    {"moments gathered along the column", "gather moments", GAL_OP_ALL_GATHER, swaps_group},
    {"sums of a norm over the column", "reduce sums", GAL_OP_ALL_REDUCE, swaps_group},
    {"a norm of another number of parts", NULL, GAL_OP_NORM_BY_SUMS, has_other_parts},
    {"its backward of another number of parts", NULL, GAL_OP_NORM_BY_SUMS_BACKWARD, has_other_parts},
    {"the largest logits of the column", "reduce max", GAL_OP_ALL_REDUCE, swaps_group},
    {"a row's features taken for whole ones", NULL, GAL_OP_RESIDUAL, forgets_group},
    {"a mask of other features", NULL, GAL_OP_DROPOUT, swaps_group},
    {"positions of other features", NULL, GAL_OP_POSITION, swaps_group},
    {"heads of the column", NULL, GAL_OP_ATTENTION, swaps_group},
    {"a look-up in a part of the vocabulary", NULL, GAL_OP_EMBED, swaps_group},
    {"replicas of the loss", NULL, GAL_OP_NORM_START, has_other_first_dim},
    {"labels of other samples", NULL, GAL_OP_LOAD_TARGETS, loads_other_rows},
    {"features gathered along the column", "gather x", GAL_OP_ALL_GATHER, swaps_group},
    {"features cut over others", "slice", GAL_OP_PERMUTE, cuts_over_others},
    {"parts of rows joined in another order", "permute", GAL_OP_PERMUTE, joins_in_other_order},
};
enum { MISTAKES = sizeof mistakes / sizeof mistakes[0], OPERANDS = GAL_INSTRUCTION_OPERANDS_MAX };

/* Makes the mistake in one instruction, verifies, and takes it back. True if there was room for it. */
static bool make_one(const fixture *f, const mistake *what, gal_instruction *in)
{
    gal_error err = {GAL_OK, ""};
    gal_program *p = f->program;
    const place at = {p, in, &p->operand[in->first_operand], &p->shape[in->shape]};
    const gal_instruction instruction = *in;
    const gal_shape shape = *at.shape;
    gal_operand operand[OPERANDS];
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

static void make_all(const fixture *f, uint32_t made[MISTAKES])
{
    for (uint32_t m = 0; m < MISTAKES; m++) {
        for (uint32_t i = 0; i < f->program->instruction_count; i++) {
            gal_instruction *in = &f->program->instruction[i];
            const bool here =
                in->op == mistakes[m].op && (mistakes[m].name == NULL || strcmp(in->name, mistakes[m].name) == 0);
            made[m] += here && make_one(f, &mistakes[m], in);
        }
    }
}

static void test_mistakes(void **state)
{
    (void)state;
    uint32_t made[MISTAKES] = {0};
    for (uint32_t kind = 0; kind < 3; kind++) { /* untied; tied; untied, with a conversion */
        fixture f;
        lower(kind == 1, kind == 2, &f);
        make_all(&f, made);
        gal_error err = {GAL_OK, ""};
        assert_int_equal(gal_verify_types(&f.program, 1, &err), GAL_OK); /* all taken back */
        gal_program_free(f.program);
    }
    for (uint32_t m = 0; m < MISTAKES; m++) {
        printf("%-48s %3u refused\n", mistakes[m].text, made[m]);
        assert_true(made[m] > 0);
    }
}

/* A tensor that lies elsewhere than the program says. */
static void test_wrong_parameters(void **state)
{
    (void)state;
    fixture f;
    lower(false, false, &f);
    for (uint32_t i = 0; i < f.program->parameter_count; i++) {
        gal_parameter *p = &f.program->parameter[i];
        gal_group *const group[] = {&p->outer_group, &p->split_group, &p->inner_group};
        for (uint32_t g = 0; g < 3; g++) {
            const gal_group kept = *group[g];
            gal_error err = {GAL_OK, ""};
            *group[g] = kept == ROW ? COLUMN : kept == COLUMN ? ROW : GAL_GROUP_NONE;
            if (kept != GAL_GROUP_NONE && gal_verify_types(&f.program, 1, &err) != GAL_NO) {
                fail_msg("%s cut over other devices is not refused", p->name);
            }
            *group[g] = kept;
        }
    }
    gal_program_free(f.program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mistakes), cmocka_unit_test(test_wrong_parameters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
