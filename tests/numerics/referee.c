/* The same training as PyTorch: referee FILE... under mpirun with 4 ranks.
 *
 * Each file (referee/make_referee.py) holds a model, tokens, and what PyTorch found in fp64: the losses and gradient
 * norms of 10 steps, all gradients of the first step and all weights after the last. They are compared with a run on
 * one rank and with one over 4 ranks: two stages, two microbatches, ZeRO, tensor and sequence parallelism side by side.
 */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/train.h"
#include "schemas/plan_check.h"
#include "tests/support/numerics_trial.h"

enum { STEPS = 10, SAMPLES_MAX = 16, TOKENS_MAX = 1 << 16, VALUES_MAX = 4096, RANKS = 4 };

/* Both sides sum in fp64, in other orders: sums of at most 3000 terms, errors of some 1e-14. Measured: 3e-14 for
 * gradients. Adam divides by sqrt(v), so an entry whose gradient is mostly rounding may move its weight by
 * learning_rate * (its relative error), hence the wider bound for weights; losses feel that only in second order. */
static const double loss_bound = 1e-11;
static const double gradient_bound = 1e-11;
static const double weight_bound = 1e-8;

typedef struct summary {
    uint32_t count;           /* of values */
    double value[VALUES_MAX]; /* every stride-th element */
    double square_sum, projection;
} summary;

typedef struct referee {
    gal_model model;
    uint64_t seed;
    uint32_t sample_count;
    uint32_t row_length;        /* sequence_length, and one more where targets follow; of an encoder-decoder source and
                                 * target */
    int32_t token[TOKENS_MAX];  /* [STEPS][sample][row_length] */
    int32_t target[TOKENS_MAX]; /* of bert [STEPS][sample][sequence_length], -1: none; of images [STEPS][sample] */
    int32_t length[STEPS * SAMPLES_MAX];        /* of samples that are padded, [STEPS][sample] */
    int32_t target_length[STEPS * SAMPLES_MAX]; /* likewise; of an encoder-decoder its targets' own */
    int32_t pixel[TOKENS_MAX];                  /* [STEPS][sample][row][column][channel] */
    double loss[STEPS], norm[STEPS];
    uint32_t tensor_count;
    char name[GAL_TRIAL_TENSORS_MAX][GAL_PARAMETER_NAME_BYTES];
    uint64_t elements[GAL_TRIAL_TENSORS_MAX];
    summary gradient[GAL_TRIAL_TENSORS_MAX], weight[GAL_TRIAL_TENSORS_MAX];
} referee;

/* ---- the document ---- */

static void read_summary(const gal_json_cursor *tensor, const char *key, summary *out)
{
    const gal_json_cursor at = gal_json_object(tensor, key);
    const gal_json_cursor values = gal_json_array(&at, "values", 1, VALUES_MAX, &out->count);
    for (uint32_t i = 0; i < out->count; i++) {
        out->value[i] = gal_json_element_f64(&values, i, -1e9, 1e9);
    }
    out->square_sum = gal_json_f64(&at, "square_sum", 0.0, 1e9);
    out->projection = gal_json_f64(&at, "projection", -1e9, 1e9);
}

static void read_steps(const gal_json_cursor *root, const char *key, double *out)
{
    uint32_t count = 0;
    const gal_json_cursor array = gal_json_array(root, key, STEPS, STEPS, &count);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = gal_json_element_f64(&array, i, 0.0, 1e9);
    }
}

static void read_numbers(const gal_json_cursor *root, const char *key, uint32_t per_sample, int32_t least,
                         uint32_t most, referee *with, int32_t *out)
{
    uint32_t count = 0;
    const gal_json_cursor array = gal_json_array(root, key, 1, TOKENS_MAX, &count);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (int32_t)gal_json_element_f64(&array, i, least, most);
    }
    if (count != STEPS * with->sample_count * per_sample) {
        gal_json_error(&array, "must hold %d steps", STEPS);
    }
}

static void read_data(const gal_json_cursor *root, referee *out)
{
    const gal_model *m = &out->model;
    const uint32_t highest = m->vocabulary - 1;
    if (gal_model_sees_images(m)) {
        read_numbers(root, "pixels", m->image_size * m->image_size * m->channel_count, 0, 255, out, out->pixel);
        read_numbers(root, "targets", 1, 0, highest, out, out->target);
    } else if (m->family == GAL_FAMILY_BERT) {
        out->row_length = m->sequence_length;
        read_numbers(root, "tokens", m->sequence_length, 0, highest, out, out->token);
        read_numbers(root, "targets", m->sequence_length, -1, highest, out, out->target);
    } else {
        out->row_length = m->sequence_length + (m->family == GAL_FAMILY_T5 ? m->decoder_sequence_length : 1);
        read_numbers(root, "tokens", out->row_length, 0, highest, out, out->token);
    }
    if (m->padding) {
        read_numbers(root, "lengths", 1, 1, m->sequence_length, out, out->length);
        memcpy(out->target_length, out->length, sizeof out->length);
        if (m->family == GAL_FAMILY_T5) {
            read_numbers(root, "target_lengths", 1, 1, m->decoder_sequence_length, out, out->target_length);
        }
    }
}

static void read_document(gal_json_doc *doc, referee *out)
{
    char version[32];
    const gal_json_cursor root = gal_json_root(doc);
    gal_json_expect_document(&root, "referee", 1);
    gal_json_string(&root, "torch", version, sizeof version);
    out->seed = gal_json_u64(&root, "seed", 0, UINT32_MAX);
    const gal_json_cursor model = gal_json_object(&root, "model");
    gal_model_read_at(&model, &out->model);
    out->sample_count = out->model.global_batch_samples;
    read_data(&root, out);
    read_steps(&root, "losses", out->loss);
    read_steps(&root, "gradient_norms", out->norm);
    const gal_json_cursor tensors = gal_json_array(&root, "tensors", 1, GAL_TRIAL_TENSORS_MAX, &out->tensor_count);
    for (uint32_t t = 0; t < out->tensor_count; t++) {
        const gal_json_cursor tensor = gal_json_element(&tensors, t);
        gal_json_string(&tensor, "name", out->name[t], sizeof out->name[t]);
        out->elements[t] = gal_json_u64(&tensor, "elements", 1, TOKENS_MAX);
        read_summary(&tensor, "gradient", &out->gradient[t]);
        read_summary(&tensor, "weight", &out->weight[t]);
    }
    gal_json_reject_unknown(&root);
}

static gal_code read_referee(const char *path, referee *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_doc *doc = NULL;
    GAL_TRY(gal_json_open(path, &doc, err));
    read_document(doc, out);
    GAL_TRY(gal_json_status(doc, err));
cleanup:
    gal_json_close(doc);
    return code;
}

static gal_code fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)err;
    const referee *with = context;
    const size_t length = request->sequence_length;
    const gal_family family = with->model.family;
    const bool apart = family == GAL_FAMILY_BERT || gal_model_sees_images(&with->model);
    const bool second = family == GAL_FAMILY_T5 && (request->targets || request->decoder);
    for (uint32_t s = 0; s < request->sample_count; s++) {
        const size_t row = request->batch * with->sample_count + request->samples[s];
        const int32_t *from = apart && request->targets ? with->target + row * length
                                                        : with->token + row * with->row_length +
                                                              (second ? with->model.sequence_length : request->targets);
        for (size_t p = 0; p < length; p++) {
            const bool none = request->targets && with->model.padding && p >= (size_t)with->target_length[row];
            out[s * length + p] = none ? -1 : !request->decoder ? from[p] : p == 0 ? 0 : from[p - 1];
        }
    }
    return GAL_OK;
}

static gal_code fill_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)err;
    const referee *with = context;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        out[s] = with->length[request->batch * with->sample_count + request->samples[s]];
    }
    return GAL_OK;
}

static gal_code count_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err)
{
    (void)err;
    (void)evaluation;
    const referee *with = context;
    const size_t length = with->model.sequence_length;
    *out = 0;
    for (size_t row = batch * with->sample_count; row < (batch + 1) * with->sample_count; row++) {
        for (size_t p = 0; p < (size_t)with->target_length[row]; p++) {
            *out += with->model.family != GAL_FAMILY_BERT || with->target[row * length + p] >= 0;
        }
    }
    return GAL_OK;
}

/* Cuts patches as the definition says: position row of patches * side + column, behind a class token of zeros if there
 * is one; [channel][row][column]. */
static gal_code fill_patches(void *context, const gal_patch_request *request, void *out, gal_error *err)
{
    (void)err;
    const referee *with = context;
    const gal_model *m = &with->model;
    const uint32_t side = m->image_size / m->patch_size, area = m->patch_size * m->patch_size;
    const uint32_t tokens = m->sequence_length - side * side;
    double *value = out;
    for (uint32_t p = request->position_begin; p < request->position_begin + request->position_count; p++) {
        for (uint32_t s = 0; s < request->sample_count; s++) {
            const size_t image = request->batch * with->sample_count + request->samples[s];
            for (uint32_t f = 0; f < request->features; f++) {
                const uint32_t patch = p < tokens ? 0 : p - tokens;
                const uint32_t y = patch / side * m->patch_size + f % area / m->patch_size;
                const uint32_t x = patch % side * m->patch_size + f % m->patch_size;
                const size_t at = ((image * m->image_size + y) * m->image_size + x) * m->channel_count + f / area;
                *value++ = p < tokens ? 0.0 : (with->pixel[at] / 255.0 - m->pixel_mean) / m->pixel_standard_deviation;
            }
        }
    }
    return GAL_OK;
}

/* ---- the plan over 4 ranks ---- */

static gal_strategy one_axis(gal_axis_kind kind, uint32_t zero_stage, bool sequence_parallel, gal_recompute recompute)
{
    gal_strategy s;
    memset(&s, 0, sizeof s);
    s.axis_count = 1;
    s.axis[0] = (gal_axis){kind, 2};
    s.zero_stage = zero_stage;
    s.sequence_parallel = sequence_parallel;
    s.recompute = recompute;
    return s;
}

/* Stage 0: embedding, attention, FFN, attention; stage 1: FFN and head. Tensor parallelism splits the attention of an
 * even number of heads, not that of 3; the tied table has the same axes on both stages. */
static void mixed_plan(const referee *with, gal_plan *out)
{
    static gal_plan_stage stage[2];
    static gal_plan_run run[6];
    const gal_strategy tp_sp = one_axis(GAL_AXIS_TP, 0, true, GAL_RECOMPUTE_FULL);
    const gal_strategy zero_3 = one_axis(GAL_AXIS_SDP, 3, false, GAL_RECOMPUTE_NONE);
    const bool even_heads = gal_model_kv_head_count(&with->model) % 2 == 0;
    memset(out, 0, sizeof *out);
    run[0] = (gal_plan_run){1, one_axis(GAL_AXIS_TP, 0, false, GAL_RECOMPUTE_NONE)};
    run[1] = (gal_plan_run){1, even_heads ? tp_sp : zero_3};
    run[2] = (gal_plan_run){1, tp_sp};
    run[3] = (gal_plan_run){1, zero_3};
    run[4] = (gal_plan_run){1, one_axis(GAL_AXIS_SDP, 2, false, GAL_RECOMPUTE_FULL)};
    run[5] = (gal_plan_run){1, one_axis(GAL_AXIS_TP, 0, false, GAL_RECOMPUTE_NONE)};
    stage[0] = (gal_plan_stage){.first_run = 0, .run_count = 4};
    stage[1] = (gal_plan_stage){.first_run = 4, .run_count = 2};
    *out = (gal_plan){.model = with->model,
                      .global_batch_samples = with->sample_count,
                      .microbatch_count = 2,
                      .pp_degree = 2,
                      .schedule = GAL_SCHEDULE_1F1B,
                      .prefetch_depth = 2,
                      .stage_count = 2,
                      .stage = stage,
                      .run_count = 6,
                      .run = run};
    out->cluster.device_count = RANKS;
}

/* Of 13 blocks: the encoder, the bridge and the first cross-attention on stage 0; the second cross-attention, on stage
 * 1, wants other rows of the carried tensor than stage 0 sends. */
static void mixed_t5_plan(const referee *with, gal_plan *out)
{
    static gal_plan_stage stage[2];
    static gal_plan_run run[10];
    const gal_strategy tp = one_axis(GAL_AXIS_TP, 0, false, GAL_RECOMPUTE_NONE);
    const gal_strategy tp_sp = one_axis(GAL_AXIS_TP, 0, true, GAL_RECOMPUTE_FULL);
    const gal_strategy zero_3 = one_axis(GAL_AXIS_SDP, 3, false, GAL_RECOMPUTE_SELECTIVE);
    run[0] = (gal_plan_run){1, tp};     /* embedding */
    run[1] = (gal_plan_run){2, tp_sp};  /* attention, FFN */
    run[2] = (gal_plan_run){2, zero_3}; /* attention, FFN */
    run[3] = (gal_plan_run){1, tp};     /* bridge */
    run[4] = (gal_plan_run){1, tp_sp};  /* attention */
    run[5] = (gal_plan_run){1, zero_3}; /* cross-attention */
    run[6] = (gal_plan_run){1, one_axis(GAL_AXIS_SDP, 2, false, GAL_RECOMPUTE_FULL)};
    run[7] = (gal_plan_run){1, tp};    /* attention */
    run[8] = (gal_plan_run){2, tp_sp}; /* cross-attention, FFN */
    run[9] = (gal_plan_run){1, tp};    /* head */
    stage[0] = (gal_plan_stage){.first_run = 0, .run_count = 6};
    stage[1] = (gal_plan_stage){.first_run = 6, .run_count = 4};
    out->stage = stage;
    out->run = run;
    out->run_count = 10;
    GAL_ASSERT(with->model.layer_count == 2 && with->model.decoder_layer_count == 2);
}

enum { SWIN_BLOCKS_MAX = 24 };

/* Block by block, the cut inside the second level: of five strategies in turn the first that the block allows, ending
 * with ZeRO, which every block does. */
static void mixed_swin_plan(const referee *with, gal_plan *out)
{
    static gal_plan_stage stage[2];
    static gal_plan_run run[SWIN_BLOCKS_MAX];
    const gal_strategy wanted[] = {
        one_axis(GAL_AXIS_TP, 0, true, GAL_RECOMPUTE_FULL), one_axis(GAL_AXIS_TP, 0, true, GAL_RECOMPUTE_NONE),
        one_axis(GAL_AXIS_TP, 0, false, GAL_RECOMPUTE_SELECTIVE), one_axis(GAL_AXIS_SDP, 2, false, GAL_RECOMPUTE_FULL),
        one_axis(GAL_AXIS_SDP, 3, false, GAL_RECOMPUTE_SELECTIVE)};
    const uint32_t last = sizeof wanted / sizeof wanted[0] - 1, blocks = gal_model_block_count(&with->model);
    GAL_ASSERT(blocks <= SWIN_BLOCKS_MAX);
    for (uint32_t i = 0; i < blocks; i++) {
        gal_block_shape block;
        uint32_t which = i % (last + 1);
        gal_model_block(&with->model, i, &block);
        while (which < last && gal_strategy_block_rule_broken(&with->model, &block, &wanted[which], 2, 2) != NULL) {
            which++;
        }
        run[i] = (gal_plan_run){1, wanted[which]};
    }
    const uint32_t cut = 2 + 2 * with->model.level_layer_count[0] + 1; /* behind an attention block */
    stage[0] = (gal_plan_stage){.first_run = 0, .run_count = cut};
    stage[1] = (gal_plan_stage){.first_run = cut, .run_count = blocks - cut};
    out->stage = stage;
    out->run = run;
    out->run_count = blocks;
}

/* ---- training ---- */

typedef struct found {
    gal_tensor_table table;
    double loss[STEPS], norm[STEPS];
    double *gradient, *weight; /* owned; -infinity where no rank has a value */
} found;

static void create_found(const gal_plan *serial, found *out)
{
    gal_program *program = NULL;
    memset(out, 0, sizeof *out);
    GAL_ASSERT(gal_lower(serial, 0, &program, NULL) == GAL_OK);
    gal_tensor_table_of(program, &out->table);
    gal_program_free(program);
    const uint64_t elements = out->table.offset[out->table.count];
    out->gradient = malloc(elements * sizeof *out->gradient);
    out->weight = malloc(elements * sizeof *out->weight);
    GAL_ASSERT(out->gradient != NULL && out->weight != NULL);
    for (uint64_t i = 0; i < elements; i++) {
        out->gradient[i] = out->weight[i] = -INFINITY;
    }
}

static gal_code train(const gal_plan *plan, referee *with, found *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_trial trial;
    const gal_token_source tokens = {with, fill, fill_patches, fill_lengths, count_targets};
    GAL_TRY(gal_trial_create(plan, with->seed, &tokens, &trial, err));
    for (uint64_t step = 0; step < STEPS; step++) {
        const gal_step_settings settings = {step, 0, gal_learning_rate(&plan->model.optimizer, step)};
        gal_step_result result;
        GAL_TRY(gal_engine_step(trial.engine, &settings, &result, err));
        out->loss[step] = result.loss;
        out->norm[step] = result.gradient_norm;
        if (step == 0) {
            gal_trial_read(&trial, GAL_STATE_GRADIENT, &out->table, out->gradient);
        }
    }
    gal_trial_read(&trial, GAL_STATE_WEIGHT, &out->table, out->weight);
cleanup:
    gal_trial_free(&trial);
    return code;
}

/* ---- verdicts, on rank 0 ---- */

static void widen(double *worst, double got, double want, double allowed)
{
    const double ratio = fabs(got - want) / allowed;
    *worst = isnan(ratio) ? INFINITY : fmax(*worst, ratio);
}

static double frac_weight(uint64_t i)
{
    return fmod(0.6180339887498949 * (double)i, 1.0) - 0.5;
}

/* The largest error of a tensor in units of the allowed one: bound * max(its largest entry, floor), by entry. The
 * square sum and the projection sum `elements` such errors, of random sign, times the entries' size; both are allowed
 * as if they all added up. */
static double tensor_error(const summary *want, const double *got, uint64_t elements, double bound, double floor_value)
{
    const uint64_t stride = (elements + want->count - 1) / want->count;
    double worst = 0.0, largest = floor_value, square_sum = 0.0, projection = 0.0;
    for (uint64_t i = 0; i < elements; i++) {
        largest = fmax(largest, fabs(got[i]));
        square_sum += got[i] * got[i];
        projection += got[i] * frac_weight(i);
    }
    for (uint64_t i = 0; i < elements; i += stride) {
        widen(&worst, got[i], want->value[i / stride], bound * largest);
    }
    const double allowed = bound * largest * (double)elements;
    widen(&worst, square_sum, want->square_sum, 2.0 * allowed * largest);
    widen(&worst, projection, want->projection, allowed);
    return worst;
}

static uint32_t tensor_named(const gal_tensor_table *table, const char *name)
{
    for (uint32_t t = 0; t < table->count; t++) {
        if (strcmp(table->name[t], name) == 0) {
            return t;
        }
    }
    return GAL_TRIAL_TENSORS_MAX;
}

static double all_tensors(const referee *with, const found *got, bool weights, const char *plan_name)
{
    const double *values = weights ? got->weight : got->gradient;
    double worst = 0.0, model = 0.0;
    for (uint64_t i = 0; i < got->table.offset[got->table.count]; i++) {
        model = fmax(model, fabs(values[i]));
    }
    for (uint32_t t = 0; t < with->tensor_count; t++) {
        const uint32_t at = tensor_named(&got->table, with->name[t]);
        const bool known =
            at < got->table.count && got->table.offset[at + 1] - got->table.offset[at] == with->elements[t];
        const double error =
            known ? tensor_error(weights ? &with->weight[t] : &with->gradient[t], values + got->table.offset[at],
                                 with->elements[t], weights ? weight_bound : gradient_bound,
                                 (gal_trial_has_no_gradient(with->name[t]) ? 1.0 : 1e-6) * model)
                  : INFINITY;
        if (!(error <= 1.0)) {
            (void)printf("%s, %s, %s of %s: %g times the allowed error\n", with->model.name, plan_name,
                         weights ? "weight" : "gradient", with->name[t], error);
        }
        worst = fmax(worst, error);
    }
    return worst;
}

static bool verdict(const referee *with, const char *plan_name, const char *what, double worst)
{
    const bool good = worst <= 1.0;
    (void)printf("%s %s, %s: %s as in PyTorch (error %.2g of the allowed)\n", good ? "ok" : "not ok", with->model.name,
                 plan_name, what, worst);
    (void)fflush(stdout);
    return good;
}

static bool judge(const referee *with, const found *got, const char *plan_name)
{
    double loss = 0.0, norm = 0.0;
    uint32_t tensors = 0;
    for (uint32_t s = 0; s < STEPS; s++) {
        widen(&loss, got->loss[s], with->loss[s], loss_bound * with->loss[s]);
        widen(&norm, got->norm[s], with->norm[s], loss_bound * with->norm[s]);
    }
    for (uint32_t t = 0; t < got->table.count; t++) {
        tensors += got->table.offset[t + 1] > got->table.offset[t];
    }
    bool good = verdict(with, plan_name, "every tensor is there", tensors == with->tensor_count ? 0.0 : INFINITY);
    good &= verdict(with, plan_name, "10 losses", loss);
    good &= verdict(with, plan_name, "10 gradient norms", norm);
    good &= verdict(with, plan_name, "all gradients", all_tensors(with, got, false, plan_name));
    good &= verdict(with, plan_name, "all weights after 10 steps", all_tensors(with, got, true, plan_name));
    return good;
}

/* On rank 0 and, with a plan over all of them, on the others. */
static bool try_plan(referee *with, const gal_plan *plan, const gal_plan *serial, const char *name)
{
    gal_error err = {GAL_OK, ""};
    found got;
    bool good = true;
    const bool alone = gal_trial_world(plan) == 1;
    if (alone && gal_mpi_rank() > 0) {
        return true;
    }
    create_found(serial, &got);
    if (train(plan, with, &got, &err) != GAL_OK) {
        (void)fprintf(stderr, "rank %u: %s\n", gal_mpi_rank(), err.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (!alone) {
        const int elements = (int)got.table.offset[got.table.count];
        MPI_Allreduce(MPI_IN_PLACE, got.gradient, elements, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, got.weight, elements, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (gal_mpi_rank() == 0) {
        good = judge(with, &got, name);
    }
    free(got.gradient);
    free(got.weight);
    return good;
}

static bool try_file(const char *path)
{
    gal_error err = {GAL_OK, ""};
    gal_plan serial, mixed;
    referee *with = calloc(1, sizeof *with);
    GAL_ASSERT(with != NULL);
    if (read_referee(path, with, &err) != GAL_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        free(with);
        return false;
    }
    mixed_plan(with, &mixed);
    if (with->model.family == GAL_FAMILY_T5) {
        mixed_t5_plan(with, &mixed);
    } else if (with->model.family == GAL_FAMILY_SWIN) {
        mixed_swin_plan(with, &mixed);
    }
    if (gal_plan_check(&mixed, "the plan over 4 ranks: ", &err) != GAL_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        free(with);
        return false;
    }
    gal_trial_serial_plan(&mixed, &serial);
    bool good = try_plan(with, &serial, &serial, "one rank");
    good &= try_plan(with, &mixed, &serial, "4 ranks");
    gal_plan_free(&serial);
    free(with);
    return good;
}

int main(int argc, char **argv)
{
    gal_error err = {GAL_OK, ""};
    if (gal_mpi_init(&argc, &argv, &err) != GAL_OK || gal_mpi_world_size() != RANKS || argc < 2) {
        (void)fprintf(stderr, "mpirun -np %d referee FILE...: %s\n", RANKS, err.text);
        return 2;
    }
    int good = 1;
    for (int i = 1; i < argc; i++) {
        good &= try_file(argv[i]);
    }
    gal_mpi_finalize();
    return good ? 0 : 1;
}
