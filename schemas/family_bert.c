/* BERT for masked language modelling: learned positions and token types, LayerNorm behind every sum, attention to all
 * positions; the head is a transform and the token table with a bias of its own.
 * Source: J. Devlin et al., "BERT", arXiv 1810.04805, sections 3 and 3.1 (15 % of the positions). */
#include "schemas/model_family.h"

static void read(const gal_json_cursor *at, gal_model *out)
{
    out->type_count = gal_json_u32(at, "type_count", 1, GAL_TOKEN_TYPES_MAX);
    out->mask_token = gal_json_u32(at, "mask_token", 0, GAL_VOCABULARY_MAX - 1);
    out->norm_epsilon = gal_json_f64(at, "layer_norm_epsilon", GAL_POSITIVE_MIN, 1.0);
    out->attention_dropout = gal_json_f64(at, "attention_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = gal_json_f64(at, "residual_dropout", 0.0, GAL_JSON_BELOW_ONE);
}

static void write(gal_json_writer *out, const gal_model *model)
{
    gal_json_put_u64(out, "type_count", model->type_count);
    gal_json_put_u64(out, "mask_token", model->mask_token);
    gal_json_put_f64(out, "layer_norm_epsilon", model->norm_epsilon);
    gal_json_put_f64(out, "attention_dropout", model->attention_dropout);
    gal_json_put_f64(out, "residual_dropout", model->residual_dropout);
}

static void check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    gal_family_check_heads(at, model, keys);
    if (model->mask_token >= model->vocabulary) {
        gal_json_member_error(at, "mask_token", "must be below the vocabulary %u", model->vocabulary);
    }
}

static uint64_t parameter_count(const gal_model *model)
{
    const uint64_t hidden = model->hidden, ffn = model->ffn_hidden, norm = 2 * hidden;
    const uint64_t tables = (model->tied_embeddings ? 1 : 2) * hidden * model->vocabulary;
    const uint64_t embedding = tables + hidden * (model->sequence_length + (uint64_t)model->type_count) + norm;
    const uint64_t attention = 4 * (hidden * hidden + hidden) + norm;
    const uint64_t feed_forward = hidden * ffn + ffn + ffn * hidden + hidden + norm;
    const uint64_t head = hidden * hidden + hidden + norm + model->vocabulary;
    return embedding + model->layer_count * (attention + feed_forward) + head;
}

static uint32_t loss_positions(uint32_t positions)
{
    const uint32_t masked = (uint32_t)(((uint64_t)positions * 15 + 50) / 100);
    return masked > 0 ? masked : 1;
}

const gal_model_family gal_family_bert = {.read = read,
                                          .write = write,
                                          .check = check,
                                          .parameter_count = parameter_count,
                                          .block_count = gal_family_chain_count,
                                          .block = gal_family_chain_block,
                                          .type_count = gal_family_chain_type_count,
                                          .first_of_type = gal_family_chain_first,
                                          .loss_positions = loss_positions};
