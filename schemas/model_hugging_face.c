/* Hugging Face config.json: gpt2, llama, mistral, qwen2, bert, vit, t5, swin. Keys that change nothing here are passed
 * over; those that ask for a variant that is not supported are refused. Defaults are those of the type's configuration
 * class.
 */
#include <math.h>
#include <stdio.h>

#include "schemas/limits.h"
#include "schemas/model_family.h"
#include "schemas/model_source.h"

static const char *const activation_names[] = {"gelu_new", "gelu", "relu", "gelu_pytorch_tanh", "silu"};
static const gal_activation activation_of[] = {GAL_ACTIVATION_GELU_TANH, GAL_ACTIVATION_GELU_ERF, GAL_ACTIVATION_RELU,
                                               GAL_ACTIVATION_GELU_TANH, GAL_ACTIVATION_SILU};
/* [MASK] of the published WordPiece vocabularies; labels where a file names none. */
static const uint32_t wordpiece_mask = 103;
enum { IMAGENET_LABELS = 1000, SEQUENCE_DEFAULT = 8192 };
enum { ACTIVATIONS = sizeof activation_names / sizeof activation_names[0] };

static bool is_given(const gal_json_cursor *at, const char *key)
{
    return gal_json_has(at, key) && !gal_json_is_null(at, key);
}

static void refuse_variant(const gal_json_cursor *root, const char *key, bool refused)
{
    if (gal_json_has(root, key) && gal_json_bool(root, key) == refused) {
        gal_json_member_error(root, key, "must be %s: the other variant is not supported", refused ? "false" : "true");
    }
}

static double optional_f64(const gal_json_cursor *at, const char *key, double otherwise, double min, double max)
{
    return gal_json_has(at, key) ? gal_json_f64(at, key, min, max) : otherwise;
}

static uint32_t optional_u32(const gal_json_cursor *at, const char *key, uint32_t otherwise, uint32_t max)
{
    return is_given(at, key) ? gal_json_u32(at, key, 1, max) : otherwise;
}

static bool optional_bool(const gal_json_cursor *at, const char *key, bool otherwise)
{
    return gal_json_has(at, key) ? gal_json_bool(at, key) : otherwise;
}

static void read_activation(const gal_json_cursor *root, const char *key, gal_model *out)
{
    if (gal_json_has(root, key)) {
        out->activation = activation_of[gal_json_enum(root, key, activation_names, ACTIVATIONS)];
    }
}

/* ---- gpt2 ---- */

static void read_gpt2(const gal_json_cursor *root, gal_model *out)
{
    const char *positions = gal_json_has(root, "n_positions") || !gal_json_has(root, "n_ctx") ? "n_positions" : "n_ctx";
    out->layer_count = gal_json_u32(root, "n_layer", 1, GAL_LAYERS_MAX);
    out->hidden = gal_json_u32(root, "n_embd", 1, GAL_HIDDEN_MAX);
    out->head_count = gal_json_u32(root, "n_head", 1, GAL_HIDDEN_MAX);
    out->sequence_length = gal_json_u32(root, positions, 1, GAL_SEQUENCE_LENGTH_MAX);
    out->vocabulary = gal_json_u32(root, "vocab_size", 1, GAL_VOCABULARY_MAX);
    out->ffn_hidden = optional_u32(root, "n_inner", 4 * out->hidden, GAL_FFN_HIDDEN_MAX);
    read_activation(root, "activation_function", out);
    out->norm_epsilon = optional_f64(root, "layer_norm_epsilon", out->norm_epsilon, GAL_POSITIVE_MIN, 1.0);
    out->embedding_dropout = optional_f64(root, "embd_pdrop", out->embedding_dropout, 0.0, GAL_JSON_BELOW_ONE);
    out->attention_dropout = optional_f64(root, "attn_pdrop", out->attention_dropout, 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = optional_f64(root, "resid_pdrop", out->residual_dropout, 0.0, GAL_JSON_BELOW_ONE);
    out->tied_embeddings = optional_bool(root, "tie_word_embeddings", out->tied_embeddings);
    refuse_variant(root, "scale_attn_weights", false);
    refuse_variant(root, "scale_attn_by_inverse_layer_idx", true);
    refuse_variant(root, "add_cross_attention", true);
}

/* ---- llama and its kin ---- */

/* max_position_embeddings is the longest sequence that a model is offered for, not the one it is trained on: samples
 * are so long only up to SEQUENCE_DEFAULT. Attention to a window of late positions is whole attention for sequences
 * that fit in the window, so they are no longer than that either. */
static void read_positions(const gal_json_cursor *root, gal_model *out)
{
    const uint32_t most = gal_json_u32(root, "max_position_embeddings", 1, GAL_SEQUENCE_LENGTH_MAX);
    out->sequence_length = most;
    if (is_given(root, "sliding_window") && optional_bool(root, "use_sliding_window", true)) {
        out->reading.window_positions = gal_json_u32(root, "sliding_window", 1, GAL_SEQUENCE_LENGTH_MAX);
        if (out->reading.window_positions < most) {
            out->sequence_length = out->reading.window_positions;
        }
    }
    if (out->sequence_length > SEQUENCE_DEFAULT) {
        out->sequence_length = SEQUENCE_DEFAULT;
        out->reading.sequence_assumed = true;
        out->reading.configured_positions = most;
    }
}

/* Older files say "type" for "rope_type". */
static void read_rope_scaling(const gal_json_cursor *at, gal_rotary_scaling *out)
{
    static const char *const names[] = {"default", "linear", "llama3"};
    out->kind = (gal_rotary_scaling_kind)gal_json_enum(at, gal_json_has(at, "rope_type") ? "rope_type" : "type", names,
                                                       GAL_ROTARY_SCALING_COUNT);
    if (out->kind != GAL_ROTARY_SCALING_NONE) {
        out->factor = gal_json_f64(at, "factor", 1.0, GAL_ROTARY_FACTOR_MAX);
    }
    if (out->kind == GAL_ROTARY_SCALING_LLAMA3) {
        out->low_frequency_factor = gal_json_f64(at, "low_freq_factor", GAL_POSITIVE_MIN, GAL_ROTARY_FACTOR_MAX);
        out->high_frequency_factor = gal_json_f64(at, "high_freq_factor", GAL_POSITIVE_MIN, GAL_ROTARY_FACTOR_MAX);
        out->original_positions = gal_json_u32(at, "original_max_position_embeddings", 1, GAL_SEQUENCE_LENGTH_MAX);
    }
    gal_json_accept_unknown(at);
}

/* transformers 5 writes the base and its scaling into one object, rope_parameters; before, they were rope_theta and
 * rope_scaling. */
static void read_rotary(const gal_json_cursor *root, gal_model *out)
{
    const bool together = is_given(root, "rope_parameters"), apart = is_given(root, "rope_theta");
    const char *key = together ? "rope_parameters" : "rope_scaling";
    out->rotary_base = optional_f64(root, "rope_theta", 10000.0, 1.0, 1e12);
    if (!is_given(root, key)) {
        return;
    }
    const gal_json_cursor scaling = gal_json_object(root, key);
    read_rope_scaling(&scaling, &out->rotary_scaling);
    const double base = together ? optional_f64(&scaling, "rope_theta", out->rotary_base, 1.0, 1e12) : out->rotary_base;
    if (apart && base != out->rotary_base) {
        gal_json_member_error(root, "rope_theta", "must be equal to /rope_parameters/rope_theta");
    }
    if (optional_f64(&scaling, "partial_rotary_factor", 1.0, 0.0, 1.0) != 1.0) {
        gal_json_member_error(&scaling, "partial_rotary_factor", "must be 1: positions turn whole heads here");
    }
    out->rotary_base = base;
}

static void read_llama(const gal_json_cursor *root, gal_model *out)
{
    out->family = GAL_FAMILY_LLAMA;
    out->layer_count = gal_json_u32(root, "num_hidden_layers", 1, GAL_LAYERS_MAX);
    out->hidden = gal_json_u32(root, "hidden_size", 1, GAL_HIDDEN_MAX);
    out->head_count = gal_json_u32(root, "num_attention_heads", 1, GAL_HIDDEN_MAX);
    out->kv_head_count = optional_u32(root, "num_key_value_heads", out->head_count, GAL_HIDDEN_MAX);
    if (is_given(root, "head_dim")) {
        out->head_dim = gal_json_u32(root, "head_dim", 1, GAL_HEAD_DIM_MAX);
    } else if (out->head_count != 0 && out->hidden % out->head_count == 0) {
        out->head_dim = out->hidden / out->head_count;
    } else {
        gal_json_member_error(root, "num_attention_heads", "must divide the hidden size %u", out->hidden);
    }
    out->ffn_hidden = gal_json_u32(root, "intermediate_size", 1, GAL_FFN_HIDDEN_MAX);
    read_positions(root, out);
    out->vocabulary = gal_json_u32(root, "vocab_size", 1, GAL_VOCABULARY_MAX);
    out->activation = GAL_ACTIVATION_SILU;
    read_activation(root, "hidden_act", out);
    out->norm_epsilon = optional_f64(root, "rms_norm_eps", 1e-6, GAL_POSITIVE_MIN, 1.0);
    read_rotary(root, out);
    out->attention_dropout = optional_f64(root, "attention_dropout", 0.0, 0.0, GAL_JSON_BELOW_ONE);
    out->tied_embeddings = optional_bool(root, "tie_word_embeddings", false);
    refuse_variant(root, "attention_bias", true);
    refuse_variant(root, "mlp_bias", true);
}

static void read_qwen2(const gal_json_cursor *root, gal_model *out)
{
    read_llama(root, out);
    out->qkv_bias = true;
}

/* ---- bert and vit ---- */

static void read_encoder(const gal_json_cursor *root, gal_model *out)
{
    out->layer_count = gal_json_u32(root, "num_hidden_layers", 1, GAL_LAYERS_MAX);
    out->hidden = gal_json_u32(root, "hidden_size", 1, GAL_HIDDEN_MAX);
    out->head_count = gal_json_u32(root, "num_attention_heads", 1, GAL_HIDDEN_MAX);
    out->ffn_hidden = gal_json_u32(root, "intermediate_size", 1, GAL_FFN_HIDDEN_MAX);
    out->activation = GAL_ACTIVATION_GELU_ERF;
    read_activation(root, "hidden_act", out);
    out->norm_epsilon = optional_f64(root, "layer_norm_eps", 1e-12, GAL_POSITIVE_MIN, 1.0);
}

static void read_bert(const gal_json_cursor *root, gal_model *out)
{
    static const char *const positions[] = {"absolute"};
    out->family = GAL_FAMILY_BERT;
    read_encoder(root, out);
    out->vocabulary = gal_json_u32(root, "vocab_size", 1, GAL_VOCABULARY_MAX);
    out->sequence_length = optional_u32(root, "max_position_embeddings", 512, GAL_SEQUENCE_LENGTH_MAX);
    out->type_count = optional_u32(root, "type_vocab_size", 2, GAL_TOKEN_TYPES_MAX);
    out->mask_token = out->vocabulary > wordpiece_mask ? wordpiece_mask : out->vocabulary > 0 ? out->vocabulary - 1 : 0;
    out->residual_dropout = optional_f64(root, "hidden_dropout_prob", 0.1, 0.0, GAL_JSON_BELOW_ONE);
    out->attention_dropout = optional_f64(root, "attention_probs_dropout_prob", 0.1, 0.0, GAL_JSON_BELOW_ONE);
    out->tied_embeddings = optional_bool(root, "tie_word_embeddings", true);
    if (gal_json_has(root, "position_embedding_type")) {
        (void)gal_json_enum(root, "position_embedding_type", positions, 1);
    }
    refuse_variant(root, "is_decoder", true);
    refuse_variant(root, "add_cross_attention", true);
}

static void read_image_size(const gal_json_cursor *root, uint32_t patch_size, gal_model *out)
{
    out->image_size = optional_u32(root, "image_size", 224, GAL_IMAGE_SIZE_MAX);
    out->patch_size = optional_u32(root, "patch_size", patch_size, GAL_PATCH_SIZE_MAX);
    out->channel_count = optional_u32(root, "num_channels", 3, GAL_CHANNELS_MAX);
}

static void read_labels(const gal_json_cursor *root, gal_model *out)
{
    out->vocabulary = IMAGENET_LABELS;
    if (gal_json_has(root, "id2label")) {
        const gal_json_cursor labels = gal_json_object(root, "id2label");
        out->vocabulary = gal_json_member_count(&labels);
        if (out->vocabulary == 0) {
            gal_json_member_error(root, "id2label", "must name at least one label");
        }
    }
}

static void read_vit(const gal_json_cursor *root, gal_model *out)
{
    out->family = GAL_FAMILY_VIT;
    read_encoder(root, out);
    read_image_size(root, 16, out);
    out->pixel_mean = 0.5;
    out->pixel_standard_deviation = 0.5;
    read_labels(root, out);
    out->tied_embeddings = false;
    if (out->patch_size != 0) {
        const uint32_t side = out->image_size / out->patch_size;
        out->sequence_length = side * side + 1;
    }
    out->embedding_dropout = optional_f64(root, "hidden_dropout_prob", 0.0, 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = out->embedding_dropout;
    out->attention_dropout = optional_f64(root, "attention_probs_dropout_prob", 0.0, 0.0, GAL_JSON_BELOW_ONE);
    refuse_variant(root, "qkv_bias", false);
}

/* ---- swin ---- */

/* Training draws which residuals a sample skips, by drop_path_rate; that is not applied here. */
static void read_swin(const gal_json_cursor *root, gal_model *out)
{
    out->family = GAL_FAMILY_SWIN;
    read_image_size(root, 4, out);
    out->pixel_mean = 0.449; /* of ImageNet, the mean of its colours' */
    out->pixel_standard_deviation = 0.226;
    read_labels(root, out);
    out->tied_embeddings = false;
    out->hidden = gal_json_u32(root, "embed_dim", 1, GAL_HIDDEN_MAX);
    gal_family_read_levels(root, "depths", "num_heads", out);
    out->window_size = optional_u32(root, "window_size", 7, GAL_WINDOW_SIZE_MAX);
    const double ffn_hidden = optional_f64(root, "mlp_ratio", 4.0, GAL_POSITIVE_MIN, GAL_FFN_HIDDEN_MAX) * out->hidden;
    out->ffn_hidden = ffn_hidden <= GAL_FFN_HIDDEN_MAX ? (uint32_t)ffn_hidden : 0;
    if (out->ffn_hidden == 0 || ffn_hidden != floor(ffn_hidden)) {
        gal_json_member_error(root, "mlp_ratio", "must give a whole number of features up to %d", GAL_FFN_HIDDEN_MAX);
    }
    for (uint32_t level = 0; level < out->level_count; level++) {
        out->layer_count += out->level_layer_count[level];
    }
    if (out->layer_count > GAL_LAYERS_MAX) {
        gal_json_member_error(root, "depths", "must be at most %d layers together", GAL_LAYERS_MAX);
    }
    out->head_count = out->level_head_count[0];
    const uint32_t side = out->patch_size > 0 ? out->image_size / out->patch_size : 0;
    out->sequence_length = side * side;
    out->activation = GAL_ACTIVATION_GELU_ERF;
    read_activation(root, "hidden_act", out);
    out->norm_epsilon = optional_f64(root, "layer_norm_eps", 1e-5, GAL_POSITIVE_MIN, 1.0);
    out->residual_dropout = optional_f64(root, "hidden_dropout_prob", 0.0, 0.0, GAL_JSON_BELOW_ONE);
    out->attention_dropout = optional_f64(root, "attention_probs_dropout_prob", 0.0, 0.0, GAL_JSON_BELOW_ONE);
    refuse_variant(root, "qkv_bias", false);
    refuse_variant(root, "use_absolute_embeddings", true);
}

/* ---- t5 ---- */

static const char *const projection_names[] = {"relu", "gated-gelu", "gated-silu", "gated-relu"};
static const struct projection {
    gal_activation activation;
    bool gated;
} projections[] = {{GAL_ACTIVATION_RELU, false},
                   {GAL_ACTIVATION_GELU_TANH, true},
                   {GAL_ACTIVATION_SILU, true},
                   {GAL_ACTIVATION_RELU, true}};

/* The file says no lengths of sequences; n_positions, which nothing there reads, is how long they were in training.
 * dropout_rate is taken for attention and residual rows. */
static void read_t5(const gal_json_cursor *root, gal_model *out)
{
    out->family = GAL_FAMILY_T5;
    out->layer_count = gal_json_u32(root, "num_layers", 1, GAL_LAYERS_MAX);
    out->decoder_layer_count = optional_u32(root, "num_decoder_layers", out->layer_count, GAL_LAYERS_MAX);
    out->hidden = gal_json_u32(root, "d_model", 1, GAL_HIDDEN_MAX);
    out->head_count = gal_json_u32(root, "num_heads", 1, GAL_HIDDEN_MAX);
    out->head_dim = gal_json_u32(root, "d_kv", 1, GAL_HEAD_DIM_MAX);
    out->ffn_hidden = gal_json_u32(root, "d_ff", 1, GAL_FFN_HIDDEN_MAX);
    out->vocabulary = gal_json_u32(root, "vocab_size", 1, GAL_VOCABULARY_MAX);
    out->sequence_length = optional_u32(root, "n_positions", 512, GAL_SEQUENCE_LENGTH_MAX);
    out->decoder_sequence_length = out->sequence_length;
    out->relative_bucket_count = optional_u32(root, "relative_attention_num_buckets", 32, GAL_RELATIVE_BUCKETS_MAX);
    out->relative_max_distance = optional_u32(root, "relative_attention_max_distance", 128, GAL_SEQUENCE_LENGTH_MAX);
    out->activation = GAL_ACTIVATION_RELU;
    if (gal_json_has(root, "feed_forward_proj")) {
        const uint32_t which =
            gal_json_enum(root, "feed_forward_proj", projection_names, sizeof projections / sizeof projections[0]);
        out->activation = projections[which].activation;
        out->gated = projections[which].gated;
    }
    out->norm_epsilon = optional_f64(root, "layer_norm_epsilon", 1e-6, GAL_POSITIVE_MIN, 1.0);
    out->residual_dropout = optional_f64(root, "dropout_rate", 0.1, 0.0, GAL_JSON_BELOW_ONE);
    out->attention_dropout = out->residual_dropout;
    out->tied_embeddings = optional_bool(root, "tie_word_embeddings", true);
    refuse_variant(root, "is_encoder_decoder", false);
    if (out->relative_bucket_count < 4) {
        gal_json_member_error(root, "relative_attention_num_buckets", "must be >= 4");
    }
}

/* ---- what is trained, in which arithmetic ---- */

/* Newer files say "dtype" for "torch_dtype". */
static void read_dtype(const gal_json_cursor *root, gal_model *out)
{
    static const char *const names[] = {"float32", "bfloat16", "float16"};
    static const gal_dtype dtypes[] = {GAL_FP32, GAL_BF16, GAL_FP16};
    const char *key = is_given(root, "dtype") ? "dtype" : "torch_dtype";
    out->reading.dtype_assumed = !is_given(root, key);
    if (is_given(root, key)) {
        out->compute_dtype = dtypes[gal_json_enum(root, key, names, sizeof names / sizeof names[0])];
    }
}

/* ---- types ---- */

static const char *const type_names[] = {"gpt2", "llama", "mistral", "qwen2", "bert", "vit", "t5", "swin"};
static const struct type {
    void (*read)(const gal_json_cursor *root, gal_model *out);
    gal_model_keys keys;
} types[] = {{read_gpt2, {"n_head", NULL}},
             {read_llama, {"num_attention_heads", "num_key_value_heads"}},
             {read_llama, {"num_attention_heads", "num_key_value_heads"}},
             {read_qwen2, {"num_attention_heads", "num_key_value_heads"}},
             {read_bert, {"num_attention_heads", NULL}},
             {read_vit, {"num_attention_heads", NULL}},
             {read_t5, {"num_heads", NULL}},
             {read_swin, {"num_heads", NULL}}};

void gal_model_read_hugging_face(const gal_json_cursor *root, gal_model *out)
{
    const uint32_t type = gal_json_enum(root, "model_type", type_names, sizeof types / sizeof types[0]);
    gal_model_defaults(out);
    (void)snprintf(out->name, sizeof out->name, "%s", type_names[type]);
    if (is_given(root, "quantization_config")) {
        gal_json_member_error(root, "quantization_config", "must be left out: quantized weights are not trained");
    }
    types[type].read(root, out);
    out->initial_standard_deviation =
        optional_f64(root, "initializer_range", out->initial_standard_deviation, GAL_POSITIVE_MIN, 10.0);
    read_dtype(root, out);
    out->reading.training_assumed = true;
    gal_json_accept_unknown(root);
    gal_model_check(root, out, &types[type].keys);
}
