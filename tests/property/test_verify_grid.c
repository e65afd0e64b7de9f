/* Programs of grids that are wrong on purpose: every place where a mistake can be made gets it once, alone, and the
 * types must refuse it. GPT-2's kind on 2 x 2 devices, two of them deep (2.5d) or beside another layout, tied or not;
 * and on 2 x 2 x 2 (3d), there Llama's too, whose queries, keys and values are tensors that are read as one. T5 with
 * its carried tensor and Swin with a merge on both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/verify/verify.h"
#include "schemas/plan_check.h"

enum { DEVICES = 8 };

/* Atoms of 8 devices: the axis is innermost. Of a cube those of weights, inputs and outputs. */
enum { ROW = 1, COLUMN = 2, DEPTH = 4, ALL = 7 };

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
    const bool grows = at->in->group != ALL;
    at->in->group = ALL;
    return grows;
}

/* Along the next side of a cube, or the one before. */
static bool turns_group(const place *at)
{
    const gal_group was = at->in->group;
    at->in->group = (was << 1 & ALL) | was >> 2;
    return was != GAL_GROUP_NONE && was < ALL;
}

static bool turns_group_back(const place *at)
{
    return turns_group(at) && turns_group(at);
}

static bool has_other_root(const place *at)
{
    at->shape->dims[1] = 1 - at->shape->dims[1];
    return true;
}

/* The first of the sums is not the first, or the last one forgets those before. */
static bool forgets_others(const place *at)
{
    at->operand[1].access = at->operand[1].access == GAL_WRITE ? GAL_UPDATE : GAL_WRITE;
    return true;
}

static bool loses_row(const place *at)
{
    const bool has = (at->in->group & ROW) != 0;
    at->in->group &= ~(gal_group)ROW;
    return has;
}

/* Where several tensors are gathered to one matrix, or scattered from one: the place of the first. */
static bool takes_first_place(const place *at, uint32_t k)
{
    const bool other = at->operand[k].offset_bytes > 0;
    at->operand[k].offset_bytes = 0;
    return other;
}

static bool gathers_first_tensor(const place *at)
{
    return takes_first_place(at, 0);
}

static bool gathers_to_first_place(const place *at)
{
    return takes_first_place(at, 1);
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

static bool cuts_along_outputs(const place *at)
{
    at->operand[0].view = DEPTH;
    return true;
}

static bool cuts_closer(const place *at)
{
    at->operand[0].view_stride_bytes /= 2;
    return true;
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

static const mistake mistakes_2p5d[] = {
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
    {"a relative bias of other heads", NULL, GAL_OP_RELATIVE_ATTENTION, swaps_group},
    {"windows of other heads", NULL, GAL_OP_WINDOW_ATTENTION, swaps_group},
    {"heads of the column, of two stacks", NULL, GAL_OP_CROSS_ATTENTION, swaps_group},
    {"a look-up in a part of the vocabulary", NULL, GAL_OP_EMBED, swaps_group},
    {"replicas of the loss", NULL, GAL_OP_NORM_START, has_other_first_dim},
    {"labels of other samples", NULL, GAL_OP_LOAD_TARGETS, loads_other_rows},
    {"features gathered along the column", "gather x", GAL_OP_ALL_GATHER, swaps_group},
    {"features cut over others", "slice", GAL_OP_PERMUTE, cuts_over_others},
    {"parts of rows joined in another order", "permute", GAL_OP_PERMUTE, joins_in_other_order},
};

static const mistake mistakes_stepped[] = {
    {"X spread along the column", "spread a", GAL_OP_BROADCAST, swaps_group},
    {"X spread over all", "spread a", GAL_OP_BROADCAST, adds_to_group},
    {"another device's X", "spread a", GAL_OP_BROADCAST, has_other_root},
    {"weights spread along the row", "spread w", GAL_OP_BROADCAST, swaps_group},
    {"another device's weights", "spread w", GAL_OP_BROADCAST, has_other_root},
    {"dX summed along the column", "sum da", GAL_OP_REDUCE, swaps_group},
    {"dX summed to another device", "sum da", GAL_OP_REDUCE, has_other_root},
    {"dX of the last device alone", "sum da", GAL_OP_REDUCE, forgets_others},
    {"dW summed along the row", "sum dw", GAL_OP_REDUCE, swaps_group},
    {"dW summed over the depth too", "sum dw", GAL_OP_REDUCE, adds_to_group},
    {"dW summed to another device", "sum dw", GAL_OP_REDUCE, has_other_root},
    {"dW of the last device alone", "sum dw", GAL_OP_REDUCE, forgets_others},
    {"logits summed along the column", "sum y", GAL_OP_REDUCE, swaps_group},
    {"logits summed to another device", "sum y", GAL_OP_REDUCE, has_other_root},
    {"gradients of logits of another device", "spread dy", GAL_OP_BROADCAST, has_other_root},
    {"a sum begun again, or never", NULL, GAL_OP_GEMM, begins_again},
    {"depth left out of a sum of gradients", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
};

static const mistake mistakes_3d[] = {
    {"rows of X gathered along the outputs", "gather a", GAL_OP_ALL_GATHER, turns_group},
    {"rows of X gathered along the weights", "gather a", GAL_OP_ALL_GATHER, turns_group_back},
    {"X gathered over all", "gather a", GAL_OP_ALL_GATHER, adds_to_group},
    {"weights gathered along the inputs", "gather w", GAL_OP_ALL_GATHER, turns_group},
    {"weights gathered along the outputs", "gather w", GAL_OP_ALL_GATHER, turns_group_back},
    {"keys or values gathered from queries", "gather w", GAL_OP_ALL_GATHER, gathers_first_tensor},
    {"keys or values gathered upon queries", "gather w", GAL_OP_ALL_GATHER, gathers_to_first_place},
    {"sums scattered along the weights", "scatter y", GAL_OP_REDUCE_SCATTER, turns_group},
    {"sums scattered along the inputs", "scatter y", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"dY gathered along the weights", "gather dy", GAL_OP_ALL_GATHER, turns_group},
    {"dY gathered along the inputs", "gather dy", GAL_OP_ALL_GATHER, turns_group_back},
    {"dX scattered along the outputs", "scatter da", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dX scattered along the weights", "scatter da", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"dW scattered along the inputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dW scattered along the outputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"gradients of keys or values from queries", "scatter dw", GAL_OP_REDUCE_SCATTER, gathers_first_tensor},
    {"weights left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_row},
    {"inputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_column},
    {"outputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
    {"a gradient summed over all", "reduce dw", GAL_OP_ALL_REDUCE, adds_to_group},
    {"a gradient summed along other sides", "reduce dw", GAL_OP_ALL_REDUCE, turns_group},
    {"moments gathered along the weights", "gather moments", GAL_OP_ALL_GATHER, turns_group},
    {"moments gathered along the inputs", "gather moments", GAL_OP_ALL_GATHER, turns_group_back},
    {"sums of a norm over the weights", "reduce sums", GAL_OP_ALL_REDUCE, turns_group},
    {"a norm of another number of parts", NULL, GAL_OP_NORM_BY_SUMS, has_other_parts},
    {"the largest logits of the outputs", "reduce max", GAL_OP_ALL_REDUCE, turns_group},
    {"the largest logits of the weights", "reduce max", GAL_OP_ALL_REDUCE, turns_group_back},
    {"a product that adds to what is there, or begins", NULL, GAL_OP_GEMM, begins_again},
    {"a row's features taken for whole ones", NULL, GAL_OP_RESIDUAL, forgets_group},
    {"a mask of other features", NULL, GAL_OP_DROPOUT, turns_group},
    {"a mask of other samples", NULL, GAL_OP_DROPOUT, loads_other_rows},
    {"positions of other features", NULL, GAL_OP_POSITION, turns_group},
    {"heads of the outputs", NULL, GAL_OP_ATTENTION, turns_group},
    {"attention to rows that are not turned", NULL, GAL_OP_ATTENTION, loads_other_rows},
    {"a relative bias of other heads", NULL, GAL_OP_RELATIVE_ATTENTION, turns_group},
    {"windows of other heads", NULL, GAL_OP_WINDOW_ATTENTION, turns_group},
    {"windows of rows that are not turned", NULL, GAL_OP_WINDOW_ATTENTION, loads_other_rows},
    {"heads of the outputs, of two stacks", NULL, GAL_OP_CROSS_ATTENTION, turns_group},
    {"two stacks of rows that are not turned", NULL, GAL_OP_CROSS_ATTENTION, loads_other_rows},
    {"neighbours of turned rows merged", NULL, GAL_OP_MERGE, loads_other_rows},
    {"queries turned by other positions", NULL, GAL_OP_ROTARY, loads_other_rows},
    {"a look-up in a part of the vocabulary", NULL, GAL_OP_EMBED, swaps_group},
    {"tokens of other samples", NULL, GAL_OP_LOAD_TOKENS, loads_other_rows},
    {"tokens of the target of other samples", NULL, GAL_OP_LOAD_DECODER_TOKENS, loads_other_rows},
    {"labels of rows that are not turned", NULL, GAL_OP_LOAD_TARGETS, loads_other_rows},
    {"rows to be turned gathered along the outputs", "gather turned", GAL_OP_ALL_GATHER, turns_group},
    {"rows to be turned gathered along the weights", "gather turned", GAL_OP_ALL_GATHER, turns_group_back},
    {"exchanged along the weights", "exchange turned", GAL_OP_ALL_TO_ALL, turns_group},
    {"exchanged along the inputs", "exchange turned", GAL_OP_ALL_TO_ALL, turns_group_back},
    {"the part of another side taken", "turn", GAL_OP_PERMUTE, cuts_along_outputs},
    {"half of a part taken", "turn", GAL_OP_PERMUTE, cuts_closer},
    {"replicas of the loss", NULL, GAL_OP_NORM_START, has_other_first_dim},
    {"features gathered along the weights", "gather x", GAL_OP_ALL_GATHER, turns_group},
    {"features cut over others", "slice", GAL_OP_PERMUTE, cuts_over_others},
    {"parts of rows joined in another order", "permute", GAL_OP_PERMUTE, joins_in_other_order},
};

/* What the stage of ZeRO says, where the weights' side is data parallelism; and what the square does of its own. */
static const mistake mistakes_3d_kept[] = {
    {"dW scattered along the inputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dW scattered along the outputs", "scatter dw", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"dW scattered over all", "scatter dw", GAL_OP_REDUCE_SCATTER, adds_to_group},
    {"updated weights gathered along the inputs", "gather w", GAL_OP_ALL_GATHER, turns_group},
    {"updated weights gathered along the outputs", "gather w", GAL_OP_ALL_GATHER, turns_group_back},
    {"updated weights gathered over all", "gather w", GAL_OP_ALL_GATHER, adds_to_group},
    {"rows of X gathered along the weights", "gather a", GAL_OP_ALL_GATHER, turns_group_back},
    {"sums scattered along the weights", "scatter y", GAL_OP_REDUCE_SCATTER, turns_group},
    {"dY gathered along the weights", "gather dy", GAL_OP_ALL_GATHER, turns_group},
    {"dX scattered along the weights", "scatter da", GAL_OP_REDUCE_SCATTER, turns_group_back},
    {"weights left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_row},
    {"inputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_column},
    {"outputs left out of a sum of vectors", "reduce dw", GAL_OP_ALL_REDUCE, loses_depth},
    {"a gradient summed over all", "reduce dw", GAL_OP_ALL_REDUCE, adds_to_group},
};

#define COUNT_OF(array) (sizeof array / sizeof array[0])
enum {
    MISTAKES_MAX =
        COUNT_OF(mistakes_2p5d) + COUNT_OF(mistakes_stepped) + COUNT_OF(mistakes_3d) + COUNT_OF(mistakes_3d_kept),
    OPERANDS = GAL_INSTRUCTION_OPERANDS_MAX
};

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

static void make_all(const fixture *f, const mistake *mistakes, uint32_t count, uint32_t *made)
{
    for (uint32_t m = 0; m < count; m++) {
        for (uint32_t i = 0; i < f->program->instruction_count; i++) {
            gal_instruction *in = &f->program->instruction[i];
            const bool here =
                in->op == mistakes[m].op && (mistakes[m].name == NULL || strcmp(in->name, mistakes[m].name) == 0);
            made[m] += here && make_one(f, &mistakes[m], in);
        }
    }
}

static void check_mistakes(gal_tp_mode mode, form how, const mistake *mistakes, uint32_t count)
{
    uint32_t made[MISTAKES_MAX] = {0};
    for (uint32_t what = 0; what < (mode == GAL_TP_3D ? KINDS : TURNED); what++) {
        fixture f;
        lower(mode, how, (kind)what, &f);
        make_all(&f, mistakes, count, made);
        gal_error err = {GAL_OK, ""};
        assert_int_equal(gal_verify_types(&f.program, 1, &err), GAL_OK); /* all taken back */
        gal_program_free(f.program);
    }
    for (uint32_t m = 0; m < count; m++) {
        printf("%-48s %3u refused\n", mistakes[m].text, made[m]);
        assert_true(made[m] > 0);
    }
}

static void test_mistakes_2p5d(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_2P5D, GATHERED, mistakes_2p5d, COUNT_OF(mistakes_2p5d));
}

static void test_mistakes_stepped(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_2P5D, STEPPED, mistakes_stepped, COUNT_OF(mistakes_stepped));
}

static void test_mistakes_3d(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_3D, GATHERED, mistakes_3d, COUNT_OF(mistakes_3d));
}

static void test_mistakes_3d_kept(void **state)
{
    (void)state;
    check_mistakes(GAL_TP_3D, KEPT, mistakes_3d_kept, COUNT_OF(mistakes_3d_kept));
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
            *group[g] = (kept << 1 & ALL) | kept >> 2;
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
    for (uint32_t i = 0; i < 2 * COUNT_OF(cubes); i++) {
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
