/* T5: encoder and decoder with relative positions, RMSNorm, no biases. Source: C. Raffel et al., "Exploring the limits
 * of transfer learning with a unified text-to-text Transformer", JMLR 21 (2020), section 2.1. */
#include "schemas/model_family.h"

enum { EMBEDDING, ATTENTION, FFN, BRIDGE, DECODER_ATTENTION, CROSS_ATTENTION, DECODER_FFN, HEAD, TYPES };

static void read(const gal_json_cursor *at, gal_model *out)
{
    out->decoder_layer_count = gal_json_u32(at, "decoder_layer_count", 1, GAL_LAYERS_MAX);
    out->decoder_sequence_length = gal_json_u32(at, "decoder_sequence_length", 1, GAL_SEQUENCE_LENGTH_MAX);
    out->head_dim = gal_json_u32(at, "head_dim", 1, GAL_HEAD_DIM_MAX);
    out->relative_bucket_count = gal_json_u32(at, "relative_bucket_count", 4, GAL_RELATIVE_BUCKETS_MAX);
    out->relative_max_distance = gal_json_u32(at, "relative_max_distance", 3, GAL_SEQUENCE_LENGTH_MAX);
    out->gated = gal_json_bool(at, "gated");
    out->norm_epsilon = gal_json_f64(at, "rms_norm_epsilon", GAL_POSITIVE_MIN, 1.0);
    out->attention_dropout = gal_json_f64(at, "attention_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = gal_json_f64(at, "residual_dropout", 0.0, GAL_JSON_BELOW_ONE);
}

static void write(gal_json_writer *out, const gal_model *model)
{
    gal_json_put_u64(out, "decoder_layer_count", model->decoder_layer_count);
    gal_json_put_u64(out, "decoder_sequence_length", model->decoder_sequence_length);
    gal_json_put_u64(out, "head_dim", model->head_dim);
    gal_json_put_u64(out, "relative_bucket_count", model->relative_bucket_count);
    gal_json_put_u64(out, "relative_max_distance", model->relative_max_distance);
    gal_json_put_bool(out, "gated", model->gated);
    gal_json_put_f64(out, "rms_norm_epsilon", model->norm_epsilon);
    gal_json_put_f64(out, "attention_dropout", model->attention_dropout);
    gal_json_put_f64(out, "residual_dropout", model->residual_dropout);
}

static void check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    (void)keys;
    if ((uint64_t)model->head_count * model->head_dim > GAL_HIDDEN_MAX) {
        gal_json_error(at, "the heads' features together must be at most %d, got %llu", GAL_HIDDEN_MAX,
                       (unsigned long long)model->head_count * model->head_dim);
    }
    if (model->relative_bucket_count % 2 != 0) {
        gal_json_error(at, "the relative position buckets must be even, one half for each direction, got %u",
                       model->relative_bucket_count);
    }
    if (model->relative_max_distance <= model->relative_bucket_count / 2) {
        gal_json_error(at, "the relative maximum distance must be more than half the buckets %u, got %u",
                       model->relative_bucket_count, model->relative_max_distance);
    }
}

static uint64_t parameter_count(const gal_model *model)
{
    const uint64_t hidden = model->hidden, norm = hidden, heads = (uint64_t)model->head_count * model->head_dim;
    const uint64_t tables = (model->tied_embeddings ? 1 : 2) * hidden * model->vocabulary;
    const uint64_t biases = 2 * (uint64_t)model->relative_bucket_count * model->head_count;
    const uint64_t attention = norm + 4 * hidden * heads;
    const uint64_t feed_forward = norm + (model->gated ? 3 : 2) * hidden * model->ffn_hidden;
    return tables + biases + model->layer_count * (attention + feed_forward) +
           model->decoder_layer_count * (2 * attention + feed_forward) + 2 * norm;
}

static uint32_t bridge_of(const gal_model *model)
{
    return 1 + 2 * model->layer_count;
}

static uint32_t block_count(const gal_model *model)
{
    return bridge_of(model) + 1 + 3 * model->decoder_layer_count + 1;
}

static uint32_t type_count(const gal_model *model)
{
    (void)model;
    return TYPES;
}

static uint32_t first_of_type(const gal_model *model, uint32_t type)
{
    return type < BRIDGE ? type : type == HEAD ? block_count(model) - 1 : bridge_of(model) + type - BRIDGE;
}

static uint32_t type_of(const gal_model *model, uint32_t block)
{
    const uint32_t bridge = bridge_of(model);
    if (block == 0 || block == bridge || block + 1 == block_count(model)) {
        return block == 0 ? EMBEDDING : block == bridge ? BRIDGE : HEAD;
    }
    return block < bridge ? ATTENTION + (block - 1) % 2 : DECODER_ATTENTION + (block - bridge - 1) % 3;
}

static uint32_t shared_of(const gal_model *model, uint32_t type)
{
    switch (type) {
    case HEAD:
        return model->tied_embeddings ? 1U << GAL_SHARED_TABLE : 0;
    case EMBEDDING:
    case BRIDGE:
        return 1U << GAL_SHARED_TABLE;
    case ATTENTION:
        return 1U << GAL_SHARED_ENCODER_BIAS;
    case DECODER_ATTENTION:
        return 1U << GAL_SHARED_DECODER_BIAS;
    default:
        return 0;
    }
}

static void block(const gal_model *model, uint32_t index, gal_block_shape *out)
{
    static const gal_block_kind kinds[TYPES] = {GAL_BLOCK_EMBEDDING, GAL_BLOCK_ATTENTION, GAL_BLOCK_FFN,
                                                GAL_BLOCK_BRIDGE,    GAL_BLOCK_ATTENTION, GAL_BLOCK_CROSS_ATTENTION,
                                                GAL_BLOCK_FFN,       GAL_BLOCK_HEAD};
    const gal_flow none = {0, 0}, source = {model->sequence_length, model->hidden},
                   target = {model->decoder_sequence_length, model->hidden};
    const uint32_t type = type_of(model, index), bridge = bridge_of(model);
    const uint32_t last_cross = block_count(model) - 3;
    const bool encodes = index < bridge, in_layer = type != EMBEDDING && type != BRIDGE && type != HEAD;
    *out = (gal_block_shape){.kind = kinds[type],
                             .type = type,
                             .layer = !in_layer ? 0
                                      : encodes ? (index - 1) / 2
                                                : (index - bridge - 1) / 3,
                             .in = index == 0        ? none
                                   : index <= bridge ? source
                                                     : target,
                             .out = type == HEAD ? none
                                    : encodes    ? source
                                                 : target,
                             .positions = encodes ? model->sequence_length : model->decoder_sequence_length,
                             .head_count = model->head_count,
                             .kv_head_count = model->head_count,
                             .head_dim = model->head_dim,
                             .ffn_hidden = model->ffn_hidden,
                             .decodes = !encodes,
                             .carried_in = index > bridge && index <= last_cross ? source : none,
                             .carried_out = index >= bridge && index < last_cross ? source : none,
                             .shared = shared_of(model, type)};
}

const gal_model_family gal_family_t5 = {.read = read,
                                        .write = write,
                                        .check = check,
                                        .parameter_count = parameter_count,
                                        .block_count = block_count,
                                        .block = block,
                                        .type_count = type_count,
                                        .first_of_type = first_of_type};
