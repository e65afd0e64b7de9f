/* The model document: what is trained, with which optimizer, in which arithmetic.
 *
 * A model is a chain of blocks, the unit of graph, strategy, price and search: one embedding block, then an
 * attention block and an FFN block per layer, then one head block (final norm, projection on the vocabulary, loss).
 * Block b of a decoder with L layers: 0 embedding; 1 + 2l attention of layer l; 2 + 2l FFN of layer l; 2L + 1 head.
 *
 * An encoder-decoder is a chain too: embedding of the source | attention, FFN of each encoder layer | bridge |
 * attention, cross-attention, FFN of each decoder layer | head. The bridge ends the encoder's stream with its final
 * norm and starts the decoder's with the embedding of the target, shifted. What the norm gives, the carried tensor,
 * flows beside the stream from there to the last cross-attention. So two couplings are off the chain: the carried
 * tensor, and tensors that several blocks hold (gal_shared).
 *
 * A Swin is a chain of levels: embedding of patches | attention, FFN of each layer | merge | attention, FFN of each
 * layer | ... | head. A merge makes one position of 2 x 2 neighbours, of twice the features. */
#ifndef GAL_SCHEMAS_MODEL_H
#define GAL_SCHEMAS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/dtype.h"
#include "schemas/base/json.h"
#include "schemas/base/status.h"

enum { GAL_NAME_BYTES = 64, GAL_MODEL_VERSION = 1, GAL_LEVELS_MAX = 6 };

/* X(enumerator, document name) */
/* decoder: GPT-2's blocks. llama: RMSNorm, rotary positions, gated FFN, shared keys and values; no dropout of rows.
 * bert: norms behind the sums, a masked-LM head. vit: patches of images and a class token; its vocabulary are labels.
 * t5: encoder-decoder with relative positions. swin: patches attend within windows, on grids that halve. */
#define GAL_FAMILIES(X)                                                                                                \
    X(GAL_FAMILY_DECODER, "decoder")                                                                                   \
    X(GAL_FAMILY_LLAMA, "llama")                                                                                       \
    X(GAL_FAMILY_BERT, "bert")                                                                                         \
    X(GAL_FAMILY_VIT, "vit")                                                                                           \
    X(GAL_FAMILY_T5, "t5")                                                                                             \
    X(GAL_FAMILY_SWIN, "swin")

#define GAL_ACTIVATIONS(X)                                                                                             \
    X(GAL_ACTIVATION_GELU_TANH, "gelu_tanh")                                                                           \
    X(GAL_ACTIVATION_GELU_ERF, "gelu_erf")                                                                             \
    X(GAL_ACTIVATION_RELU, "relu")                                                                                     \
    X(GAL_ACTIVATION_SILU, "silu")

/* How the frequencies of rotary positions are lowered for sequences longer than those first trained on. */
#define GAL_ROTARY_SCALINGS(X)                                                                                         \
    X(GAL_ROTARY_SCALING_NONE, "none")                                                                                 \
    X(GAL_ROTARY_SCALING_LINEAR, "linear")                                                                             \
    X(GAL_ROTARY_SCALING_LLAMA3, "llama3")

#define GAL_OPTIMIZERS(X)                                                                                              \
    X(GAL_OPTIMIZER_ADAM, "adam")                                                                                      \
    X(GAL_OPTIMIZER_ADAMW, "adamw")

#define GAL_BLOCK_KINDS(X)                                                                                             \
    X(GAL_BLOCK_EMBEDDING, "embedding")                                                                                \
    X(GAL_BLOCK_ATTENTION, "attention")                                                                                \
    X(GAL_BLOCK_FFN, "ffn")                                                                                            \
    X(GAL_BLOCK_HEAD, "head")                                                                                          \
    X(GAL_BLOCK_BRIDGE, "bridge")                                                                                      \
    X(GAL_BLOCK_CROSS_ATTENTION, "cross_attention")                                                                    \
    X(GAL_BLOCK_MERGE, "merge")

#define X(enumerator, name) enumerator,
typedef enum gal_family { GAL_FAMILIES(X) GAL_FAMILY_COUNT } gal_family;
typedef enum gal_activation { GAL_ACTIVATIONS(X) GAL_ACTIVATION_COUNT } gal_activation;
typedef enum gal_rotary_scaling_kind { GAL_ROTARY_SCALINGS(X) GAL_ROTARY_SCALING_COUNT } gal_rotary_scaling_kind;
typedef enum gal_optimizer_kind { GAL_OPTIMIZERS(X) GAL_OPTIMIZER_COUNT } gal_optimizer_kind;
typedef enum gal_block_kind { GAL_BLOCK_KINDS(X) GAL_BLOCK_KIND_COUNT } gal_block_kind;
#undef X

extern const char *const gal_family_names[GAL_FAMILY_COUNT];
extern const char *const gal_activation_names[GAL_ACTIVATION_COUNT];
extern const char *const gal_rotary_scaling_names[GAL_ROTARY_SCALING_COUNT];
extern const char *const gal_optimizer_names[GAL_OPTIMIZER_COUNT];
extern const char *const gal_block_kind_names[GAL_BLOCK_KIND_COUNT];

/* Adam (L2 term added to the gradient) or AdamW (decoupled). Decay applies to matrices, not to biases and norms.
 * Learning rate: linear warm-up over warmup_steps, then cosine from learning_rate to minimum_learning_rate over
 * decay_steps, then constant; decay_steps 0 means constant after warm-up. */
typedef struct gal_optimizer {
    gal_optimizer_kind kind;
    double learning_rate;
    double minimum_learning_rate;
    uint32_t warmup_steps;
    uint32_t decay_steps;
    double beta1, beta2, epsilon;
    double weight_decay;
    double gradient_clip_norm; /* clip by the global 2-norm; 0: off */
} gal_optimizer;

/* linear: every frequency divided by factor. llama3: those of wavelengths above original_positions /
 * low_frequency_factor are, those below original_positions / high_frequency_factor are not, and between them the share
 * goes linearly with the number of turns in original_positions. Source: Llama 3.1's configuration, rope_scaling. */
typedef struct gal_rotary_scaling {
    gal_rotary_scaling_kind kind;
    double factor;
    double low_frequency_factor, high_frequency_factor; /* llama3, else 0 */
    uint32_t original_positions;                        /* likewise */
} gal_rotary_scaling;

/* What a Hugging Face configuration left to its reader or says beside a model document's members. Never written; all
 * zero after a model document, which says everything. */
typedef struct gal_model_reading {
    bool dtype_assumed, sequence_assumed;
    bool training_assumed;         /* batch and optimizer */
    uint32_t configured_positions; /* its max_position_embeddings, where sequence_length is less */
    uint32_t window_positions;     /* its sliding window: attention is whole up to so many positions; 0: none */
} gal_model_reading;

typedef struct gal_model {
    char name[GAL_NAME_BYTES];
    gal_family family;
    uint32_t layer_count;
    uint32_t hidden;
    uint32_t head_count; /* of queries; decoder: divides hidden */
    uint32_t ffn_hidden;
    uint32_t sequence_length;     /* tokens per sample; decoder: = learned positions */
    uint32_t vocabulary;          /* real entries: what files hold */
    uint32_t vocabulary_multiple; /* padded up to this multiple in memory; padded logits are masked */
    /* Of the family llama alone, else 0: ask gal_model_kv_head_count and gal_model_head_dim. */
    uint32_t kv_head_count; /* heads of keys and values; divides head_count */
    uint32_t head_dim;      /* even; also of t5, there any */
    double rotary_base;
    gal_rotary_scaling rotary_scaling;
    bool qkv_bias; /* queries, keys and values have biases (Qwen2) */
    /* Of the family bert alone. */
    uint32_t type_count; /* token types; all tokens here are of type 0 */
    uint32_t mask_token; /* below vocabulary */
    /* Of the families vit and swin: positions are (image_size / patch_size)^2 patches, of vit behind a class token. */
    uint32_t image_size, patch_size, channel_count; /* pixels of a side, of a patch's side; colours */
    double pixel_mean, pixel_standard_deviation;    /* of pixels in [0, 1]: both map them to what the model sees */
    /* Of the family t5 alone, else 0; there layer_count and sequence_length are the encoder's, head_dim is any. */
    uint32_t decoder_layer_count;
    uint32_t decoder_sequence_length; /* of the target */
    uint32_t relative_bucket_count;   /* even, at least 4 */
    uint32_t relative_max_distance;   /* above half the buckets; all farther positions share a bucket */
    bool gated;                       /* FFN with a gate (v1.1) */
    /* Of the family swin alone, else 0. layer_count is the sum over the levels; sequence_length, hidden, head_count and
     * ffn_hidden are the first level's; positions are a quarter, hidden and ffn_hidden double from each to the next. */
    uint32_t window_size; /* positions of a window's side; where the grid is not larger, the window is the grid */
    uint32_t level_count;
    uint32_t level_layer_count[GAL_LEVELS_MAX], level_head_count[GAL_LEVELS_MAX];
    gal_activation activation;
    bool tied_embeddings;
    bool padding; /* samples may be shorter than the sequence: what is behind their ends is not attended to and not in
                   * the loss. Not of vit and swin */
    double norm_epsilon;
    double embedding_dropout, attention_dropout, residual_dropout; /* probabilities in [0, 1) */
    double initial_standard_deviation;
    gal_dtype compute_dtype;       /* of activations and the weights that kernels read; GAL_FP16 at most */
    uint32_t global_batch_samples; /* samples per optimizer step unless the command says otherwise */
    gal_optimizer optimizer;
    gal_model_reading reading;
} gal_model;

/* As gal_document_read and gal_document_write (schemas/document.h); nothing is owned. Read takes a model document, or a
 * Hugging Face config.json (or the folder that holds it) of gpt2, llama, mistral, qwen2, bert, vit, t5 or swin (told by
 * its "model_type"; what that file does not hold takes the defaults of gal_model_defaults and of the type's own
 * configuration class). There torch_dtype or dtype is the compute_dtype; samples are max_position_embeddings long, but
 * of llama, mistral and qwen2 at most 8192. The member reading says what was assumed. */
gal_code gal_model_read(const char *path, gal_model *out, gal_error *err);
gal_code gal_model_write(const char *path, const gal_model *model, gal_error *err);

/* From and to a place inside a larger document: errors stick in the document, the members go into an object that is
 * begun. */
void gal_model_read_at(const gal_json_cursor *at, gal_model *out);
void gal_model_write_at(gal_json_writer *out, const gal_model *model);

/* GPT-2's defaults for everything but the sizes: AdamW (0.9, 0.95, 1e-8), decay 0.1, clip 1, fp32, no dropout. */
void gal_model_defaults(gal_model *out);

/* What flows between two blocks, per sample. */
typedef struct gal_flow {
    uint32_t positions, features;
} gal_flow;

/* Tensors that more than one block holds; each block that does says so. Copies on different stages are kept equal.
 *   table         the token table: embedding, bridge, and head if it is tied
 *   encoder_bias, decoder_bias   the relative position bias of a stack: all its self-attentions */
#define GAL_SHARED(X)                                                                                                  \
    X(GAL_SHARED_TABLE, "table")                                                                                       \
    X(GAL_SHARED_ENCODER_BIAS, "encoder_bias")                                                                         \
    X(GAL_SHARED_DECODER_BIAS, "decoder_bias")

#define X(enumerator, name) enumerator,
typedef enum gal_shared { GAL_SHARED(X) GAL_SHARED_COUNT } gal_shared;
#undef X

/* A block by its numbers, whole (as on one device). Blocks of one type differ in nothing but their weights, and in
 * whether the carried tensor goes on behind them. */
typedef struct gal_block_shape {
    gal_block_kind kind;
    uint32_t type;      /* below gal_model_type_count */
    uint32_t layer;     /* as its tensors' public names count; 0 outside layers */
    gal_flow in, out;   /* zero where nothing enters or leaves */
    uint32_t positions; /* that it works on, per sample */
    uint32_t head_count, kv_head_count, head_dim, ffn_hidden;
    uint32_t level;               /* of a Swin; else 0 */
    uint32_t side, window, shift; /* there: positions are side * side; attention sees windows of window * window, of the
                                   * grid turned by shift rows and columns; a window divides the side. Else 0 */
    bool decodes;                 /* behind the bridge: attention is causal */
    gal_flow carried_in, carried_out; /* what flows beside the stream: in front of it, and behind it */
    uint32_t shared;                  /* bit s: holds tensor s of gal_shared */
} gal_block_shape;

uint32_t gal_model_block_count(const gal_model *model);
void gal_model_block(const gal_model *model, uint32_t block, gal_block_shape *out);
/* The types of a family's blocks, in the order of their first blocks; the shape is that of the first block. */
enum { GAL_TYPES_MAX = 128 };
uint32_t gal_model_type_count(const gal_model *model);
void gal_model_type(const gal_model *model, uint32_t type, gal_block_shape *out);
gal_block_kind gal_model_block_kind(const gal_model *model, uint32_t block);
uint32_t gal_model_block_type(const gal_model *model, uint32_t block);
uint32_t gal_model_kv_head_count(const gal_model *model);
uint32_t gal_model_head_dim(const gal_model *model);
uint32_t gal_model_padded_vocabulary(const gal_model *model);
/* An FFN with a gate has three matrices in place of two. */
bool gal_model_ffn_is_gated(const gal_model *model);
/* Leaves at most so many layers in every stack or level. */
void gal_model_keep_layers(gal_model *model, uint32_t layer_count);
/* The most positions that a row of any block has. */
uint32_t gal_model_longest_sequence(const gal_model *model);

/* Positions of a sample that are in the loss: all; of bert the masked 15 %, rounded, at least one (a fixed count, so
 * that the mean over a batch needs no count of every rank); of vit the class token, of swin the mean position; of t5
 * those of the target. */
uint32_t gal_model_loss_positions(const gal_model *model);
/* Of a sample that has so many positions (of t5: whose target has), at least 1. */
uint32_t gal_model_loss_positions_of(const gal_model *model, uint32_t positions);
/* vit and swin: whether samples are images and targets labels; numbers of a patch, [channel][row][column]. */
bool gal_model_sees_images(const gal_model *model);
uint32_t gal_model_patch_features(const gal_model *model);

/* Trainable parameters as published: without padding, a tied head not counted twice. */
uint64_t gal_model_parameter_count(const gal_model *model);

#endif
