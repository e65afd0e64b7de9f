#include "schemas/model.h"

#include <string.h>

#include "schemas/document.h"
#include "schemas/limits.h"
#include "schemas/model_source.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_family_names[GAL_FAMILY_COUNT] = {GAL_FAMILIES(X)};
const char *const gal_activation_names[GAL_ACTIVATION_COUNT] = {GAL_ACTIVATIONS(X)};
const char *const gal_rotary_scaling_names[GAL_ROTARY_SCALING_COUNT] = {GAL_ROTARY_SCALINGS(X)};
const char *const gal_optimizer_names[GAL_OPTIMIZER_COUNT] = {GAL_OPTIMIZERS(X)};
const char *const gal_block_kind_names[GAL_BLOCK_KIND_COUNT] = {GAL_BLOCK_KINDS(X)};
#undef X

void gal_model_defaults(gal_model *out)
{
    *out = (gal_model){
        .family = GAL_FAMILY_DECODER,
        .vocabulary_multiple = 128,
        .activation = GAL_ACTIVATION_GELU_TANH,
        .tied_embeddings = true,
        .norm_epsilon = 1e-5,
        .initial_standard_deviation = 0.02,
        .compute_dtype = GAL_FP32,
        .global_batch_samples = 32,
        .optimizer = {.kind = GAL_OPTIMIZER_ADAMW,
                      .learning_rate = 6e-4,
                      .minimum_learning_rate = 6e-5,
                      .warmup_steps = 100,
                      .decay_steps = 0,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .gradient_clip_norm = 1.0},
    };
    memcpy(out->name, "gpt2", sizeof "gpt2");
}

static void read_optimizer(const gal_json_cursor *at, gal_optimizer *out)
{
    out->kind = (gal_optimizer_kind)gal_json_enum(at, "kind", gal_optimizer_names, GAL_OPTIMIZER_COUNT);
    out->learning_rate = gal_json_f64(at, "learning_rate", GAL_POSITIVE_MIN, 1000.0);
    out->minimum_learning_rate = gal_json_f64(at, "minimum_learning_rate", 0.0, 1000.0);
    out->warmup_steps = gal_json_u32(at, "warmup_steps", 0, GAL_STEPS_MAX);
    out->decay_steps = gal_json_u32(at, "decay_steps", 0, GAL_STEPS_MAX);
    out->beta1 = gal_json_f64(at, "beta1", 0.0, GAL_JSON_BELOW_ONE);
    out->beta2 = gal_json_f64(at, "beta2", 0.0, GAL_JSON_BELOW_ONE);
    out->epsilon = gal_json_f64(at, "epsilon", GAL_POSITIVE_MIN, 1.0);
    out->weight_decay = gal_json_f64(at, "weight_decay", 0.0, 1000.0);
    out->gradient_clip_norm = gal_json_f64(at, "gradient_clip_norm", 0.0, 1e9);
    gal_json_reject_unknown(at);
    if (out->minimum_learning_rate > out->learning_rate) {
        gal_json_member_error(at, "minimum_learning_rate", "must be at most learning_rate %g", out->learning_rate);
    }
}

static const gal_model_family *const families[GAL_FAMILY_COUNT] = {
    [GAL_FAMILY_DECODER] = &gal_family_decoder, [GAL_FAMILY_LLAMA] = &gal_family_llama,
    [GAL_FAMILY_BERT] = &gal_family_bert,       [GAL_FAMILY_VIT] = &gal_family_vit,
    [GAL_FAMILY_T5] = &gal_family_t5,           [GAL_FAMILY_SWIN] = &gal_family_swin};

void gal_model_check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    families[model->family]->check(at, model, keys);
    const uint32_t positions = gal_model_longest_sequence(model);
    if ((uint64_t)model->global_batch_samples * positions > GAL_BATCH_TOKENS_MAX) {
        gal_json_error(at, "global_batch_samples times the sequence length must be at most %d tokens, got %llu",
                       GAL_BATCH_TOKENS_MAX, (unsigned long long)model->global_batch_samples * positions);
    }
}

void gal_model_read_at(const gal_json_cursor *at, gal_model *out)
{
    *out = (gal_model){0};
    gal_json_expect_document(at, "model", GAL_MODEL_VERSION);
    gal_json_string(at, "name", out->name, sizeof out->name);
    if (out->name[0] == '\0') {
        gal_json_member_error(at, "name", "must not be empty");
    }
    out->family = (gal_family)gal_json_enum(at, "family", gal_family_names, GAL_FAMILY_COUNT);
    out->layer_count = gal_json_u32(at, "layer_count", 1, GAL_LAYERS_MAX);
    out->hidden = gal_json_u32(at, "hidden", 1, GAL_HIDDEN_MAX);
    out->head_count = gal_json_u32(at, "head_count", 1, GAL_HIDDEN_MAX);
    out->ffn_hidden = gal_json_u32(at, "ffn_hidden", 1, GAL_FFN_HIDDEN_MAX);
    out->sequence_length = gal_json_u32(at, "sequence_length", 1, GAL_SEQUENCE_LENGTH_MAX);
    out->vocabulary = gal_json_u32(at, "vocabulary", 1, GAL_VOCABULARY_MAX);
    out->vocabulary_multiple = gal_json_u32(at, "vocabulary_multiple", 1, GAL_VOCABULARY_MULTIPLE_MAX);
    out->activation = (gal_activation)gal_json_enum(at, "activation", gal_activation_names, GAL_ACTIVATION_COUNT);
    out->tied_embeddings = gal_json_bool(at, "tied_embeddings");
    out->padding = gal_json_has(at, "padding") && gal_json_bool(at, "padding");
    families[out->family]->read(at, out);
    out->initial_standard_deviation = gal_json_f64(at, "initial_standard_deviation", GAL_POSITIVE_MIN, 10.0);
    out->compute_dtype = (gal_dtype)gal_json_enum(at, "compute_dtype", gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT);
    out->global_batch_samples = gal_json_u32(at, "global_batch_samples", 1, GAL_BATCH_SAMPLES_MAX);
    gal_json_cursor optimizer = gal_json_object(at, "optimizer");
    read_optimizer(&optimizer, &out->optimizer);
    gal_json_reject_unknown(at);
    gal_model_check(at, out, &(gal_model_keys){"head_count", "kv_head_count"});
}

/* ---- writing ---- */

static void write_optimizer(gal_json_writer *out, const gal_optimizer *optimizer)
{
    gal_json_begin_object(out, "optimizer");
    gal_json_put_string(out, "kind", gal_optimizer_names[optimizer->kind]);
    gal_json_put_f64(out, "learning_rate", optimizer->learning_rate);
    gal_json_put_f64(out, "minimum_learning_rate", optimizer->minimum_learning_rate);
    gal_json_put_u64(out, "warmup_steps", optimizer->warmup_steps);
    gal_json_put_u64(out, "decay_steps", optimizer->decay_steps);
    gal_json_put_f64(out, "beta1", optimizer->beta1);
    gal_json_put_f64(out, "beta2", optimizer->beta2);
    gal_json_put_f64(out, "epsilon", optimizer->epsilon);
    gal_json_put_f64(out, "weight_decay", optimizer->weight_decay);
    gal_json_put_f64(out, "gradient_clip_norm", optimizer->gradient_clip_norm);
    gal_json_end_object(out);
}

void gal_model_write_at(gal_json_writer *out, const gal_model *model)
{
    gal_json_put_string(out, "document", "model");
    gal_json_put_u64(out, "version", GAL_MODEL_VERSION);
    gal_json_put_string(out, "name", model->name);
    gal_json_put_string(out, "family", gal_family_names[model->family]);
    gal_json_put_u64(out, "layer_count", model->layer_count);
    gal_json_put_u64(out, "hidden", model->hidden);
    gal_json_put_u64(out, "head_count", model->head_count);
    gal_json_put_u64(out, "ffn_hidden", model->ffn_hidden);
    gal_json_put_u64(out, "sequence_length", model->sequence_length);
    gal_json_put_u64(out, "vocabulary", model->vocabulary);
    gal_json_put_u64(out, "vocabulary_multiple", model->vocabulary_multiple);
    gal_json_put_string(out, "activation", gal_activation_names[model->activation]);
    gal_json_put_bool(out, "tied_embeddings", model->tied_embeddings);
    if (model->padding) {
        gal_json_put_bool(out, "padding", true);
    }
    families[model->family]->write(out, model);
    gal_json_put_f64(out, "initial_standard_deviation", model->initial_standard_deviation);
    gal_json_put_string(out, "compute_dtype", gal_dtype_names[model->compute_dtype]);
    gal_json_put_u64(out, "global_batch_samples", model->global_batch_samples);
    write_optimizer(out, &model->optimizer);
}

/* ---- whole documents ---- */

static bool read_model(const gal_json_cursor *root, void *out)
{
    if (!gal_json_has(root, "document") && gal_json_has(root, "model_type")) {
        gal_model_read_hugging_face(root, out);
    } else {
        gal_model_read_at(root, out);
    }
    return true;
}

static void write_model(gal_json_writer *out, const void *model)
{
    gal_model_write_at(out, model);
}

const gal_document_form gal_model_form = {sizeof(gal_model), read_model, NULL, write_model, NULL};

gal_code gal_model_read(const char *path, gal_model *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_MODEL, path, out, err);
}

gal_code gal_model_write(const char *path, const gal_model *model, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_MODEL, path, model, err);
}

/* ---- what a model says ---- */

uint32_t gal_model_block_count(const gal_model *model)
{
    return families[model->family]->block_count(model);
}

void gal_model_block(const gal_model *model, uint32_t block, gal_block_shape *out)
{
    GAL_ASSERT(block < gal_model_block_count(model));
    families[model->family]->block(model, block, out);
}

uint32_t gal_model_type_count(const gal_model *model)
{
    return families[model->family]->type_count(model);
}

void gal_model_type(const gal_model *model, uint32_t type, gal_block_shape *out)
{
    gal_model_block(model, families[model->family]->first_of_type(model, type), out);
}

gal_block_kind gal_model_block_kind(const gal_model *model, uint32_t block)
{
    gal_block_shape shape;
    gal_model_block(model, block, &shape);
    return shape.kind;
}

uint32_t gal_model_block_type(const gal_model *model, uint32_t block)
{
    gal_block_shape shape;
    gal_model_block(model, block, &shape);
    return shape.type;
}

uint32_t gal_model_loss_positions(const gal_model *model)
{
    const bool decodes = model->decoder_sequence_length > 0;
    return gal_model_loss_positions_of(model, decodes ? model->decoder_sequence_length : model->sequence_length);
}

uint32_t gal_model_loss_positions_of(const gal_model *model, uint32_t positions)
{
    const gal_model_family *family = families[model->family];
    return family->loss_positions == NULL ? positions : family->loss_positions(positions);
}

bool gal_model_sees_images(const gal_model *model)
{
    return model->image_size > 0;
}

uint32_t gal_model_patch_features(const gal_model *model)
{
    return model->channel_count * model->patch_size * model->patch_size;
}

void gal_family_read_images(const gal_json_cursor *at, gal_model *out)
{
    out->image_size = gal_json_u32(at, "image_size", 1, GAL_IMAGE_SIZE_MAX);
    out->patch_size = gal_json_u32(at, "patch_size", 1, GAL_PATCH_SIZE_MAX);
    out->channel_count = gal_json_u32(at, "channel_count", 1, GAL_CHANNELS_MAX);
    out->pixel_mean = gal_json_f64(at, "pixel_mean", 0.0, 1.0);
    out->pixel_standard_deviation = gal_json_f64(at, "pixel_standard_deviation", 1e-6, 1e6);
}

void gal_family_write_images(gal_json_writer *out, const gal_model *model)
{
    gal_json_put_u64(out, "image_size", model->image_size);
    gal_json_put_u64(out, "patch_size", model->patch_size);
    gal_json_put_u64(out, "channel_count", model->channel_count);
    gal_json_put_f64(out, "pixel_mean", model->pixel_mean);
    gal_json_put_f64(out, "pixel_standard_deviation", model->pixel_standard_deviation);
}

bool gal_family_check_images(const gal_json_cursor *at, const gal_model *model)
{
    if (model->tied_embeddings) {
        gal_json_member_error(at, "tied_embeddings", "must be false: images have no table");
    }
    if (model->padding) {
        gal_json_member_error(at, "padding", "must be false: images are whole");
    }
    if (model->patch_size == 0 || model->image_size % model->patch_size != 0) {
        gal_json_member_error(at, "patch_size", "must divide image_size %u", model->image_size);
        return false;
    }
    return true;
}

void gal_family_check_heads(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    if (model->head_count != 0 && model->hidden % model->head_count != 0) {
        gal_json_member_error(at, keys->head_count, "must divide the hidden size %u", model->hidden);
    }
}

uint32_t gal_family_chain_count(const gal_model *model)
{
    return 2 * model->layer_count + 2;
}

/* One type per kind. */
uint32_t gal_family_chain_type_count(const gal_model *model)
{
    (void)model;
    return GAL_BLOCK_HEAD + 1;
}

uint32_t gal_family_chain_first(const gal_model *model, uint32_t type)
{
    return type == GAL_BLOCK_HEAD ? gal_family_chain_count(model) - 1 : type;
}

void gal_family_chain_block(const gal_model *model, uint32_t block, gal_block_shape *out)
{
    const gal_flow rows = {model->sequence_length, model->hidden};
    const bool first = block == 0, last = block + 1 == gal_family_chain_count(model);
    const gal_block_kind kind = first            ? GAL_BLOCK_EMBEDDING
                                : last           ? GAL_BLOCK_HEAD
                                : block % 2 == 1 ? GAL_BLOCK_ATTENTION
                                                 : GAL_BLOCK_FFN;
    *out = (gal_block_shape){.kind = kind,
                             .type = kind,
                             .layer = first || last ? 0 : (block - 1) / 2,
                             .in = first ? (gal_flow){0, 0} : rows,
                             .out = last ? (gal_flow){0, 0} : rows,
                             .positions = model->sequence_length,
                             .head_count = model->head_count,
                             .kv_head_count = gal_model_kv_head_count(model),
                             .head_dim = gal_model_head_dim(model),
                             .ffn_hidden = model->ffn_hidden,
                             .shared = (first || last) && model->tied_embeddings ? 1U << GAL_SHARED_TABLE : 0U};
}

uint32_t gal_model_kv_head_count(const gal_model *model)
{
    return model->kv_head_count != 0 ? model->kv_head_count : model->head_count;
}

uint32_t gal_model_head_dim(const gal_model *model)
{
    return model->head_dim != 0 ? model->head_dim : model->hidden / model->head_count;
}

uint32_t gal_model_padded_vocabulary(const gal_model *model)
{
    uint32_t multiple = model->vocabulary_multiple;
    return (model->vocabulary + multiple - 1) / multiple * multiple;
}

bool gal_model_ffn_is_gated(const gal_model *model)
{
    return model->family == GAL_FAMILY_LLAMA || model->gated;
}

static uint32_t at_most(uint32_t count, uint32_t most)
{
    return count < most ? count : most;
}

void gal_model_keep_layers(gal_model *model, uint32_t layer_count)
{
    uint32_t of_levels = 0;
    for (uint32_t level = 0; level < model->level_count; level++) {
        model->level_layer_count[level] = at_most(model->level_layer_count[level], layer_count);
        of_levels += model->level_layer_count[level];
    }
    model->layer_count = model->level_count > 0 ? of_levels : at_most(model->layer_count, layer_count);
    model->decoder_layer_count = at_most(model->decoder_layer_count, layer_count);
}

uint32_t gal_model_longest_sequence(const gal_model *model)
{
    return model->decoder_sequence_length > model->sequence_length ? model->decoder_sequence_length
                                                                   : model->sequence_length;
}

/* Fits 64 bits by the bounds of schemas/limits.h. */
uint64_t gal_model_parameter_count(const gal_model *model)
{
    return families[model->family]->parameter_count(model);
}
