/* GPT-2: learned positions, LayerNorm, biases everywhere. */
#include "schemas/model_family.h"

static void read(const gal_json_cursor *at, gal_model *out)
{
    out->norm_epsilon = gal_json_f64(at, "layer_norm_epsilon", GAL_POSITIVE_MIN, 1.0);
    out->embedding_dropout = gal_json_f64(at, "embedding_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->attention_dropout = gal_json_f64(at, "attention_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = gal_json_f64(at, "residual_dropout", 0.0, GAL_JSON_BELOW_ONE);
}

static void write(gal_json_writer *out, const gal_model *model)
{
    gal_json_put_f64(out, "layer_norm_epsilon", model->norm_epsilon);
    gal_json_put_f64(out, "embedding_dropout", model->embedding_dropout);
    gal_json_put_f64(out, "attention_dropout", model->attention_dropout);
    gal_json_put_f64(out, "residual_dropout", model->residual_dropout);
}

static uint64_t parameter_count(const gal_model *model)
{
    const uint64_t hidden = model->hidden, ffn = model->ffn_hidden, norm = 2 * hidden;
    const uint64_t tables = (model->tied_embeddings ? 1 : 2) * hidden * model->vocabulary;
    const uint64_t attention = norm + 3 * hidden * hidden + 3 * hidden + hidden * hidden + hidden;
    const uint64_t feed_forward = norm + hidden * ffn + ffn + ffn * hidden + hidden;
    return tables + hidden * model->sequence_length + model->layer_count * (attention + feed_forward) + norm;
}

const gal_model_family gal_family_decoder = {.read = read,
                                             .write = write,
                                             .check = gal_family_check_heads,
                                             .parameter_count = parameter_count,
                                             .block_count = gal_family_chain_count,
                                             .block = gal_family_chain_block,
                                             .type_count = gal_family_chain_type_count,
                                             .first_of_type = gal_family_chain_first};
