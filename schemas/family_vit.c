/* ViT for image classification: patches and a class token with learned positions, LayerNorm in front of every block,
 * attention to all positions; the head classifies by the class token. The vocabulary are the labels.
 * Source: A. Dosovitskiy et al., "An image is worth 16x16 words", arXiv 2010.11929, section 3.1. */
#include "schemas/model_family.h"

static void read(const gal_json_cursor *at, gal_model *out)
{
    gal_family_read_images(at, out);
    out->norm_epsilon = gal_json_f64(at, "layer_norm_epsilon", GAL_POSITIVE_MIN, 1.0);
    out->embedding_dropout = gal_json_f64(at, "embedding_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->attention_dropout = gal_json_f64(at, "attention_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = gal_json_f64(at, "residual_dropout", 0.0, GAL_JSON_BELOW_ONE);
}

static void write(gal_json_writer *out, const gal_model *model)
{
    gal_family_write_images(out, model);
    gal_json_put_f64(out, "layer_norm_epsilon", model->norm_epsilon);
    gal_json_put_f64(out, "embedding_dropout", model->embedding_dropout);
    gal_json_put_f64(out, "attention_dropout", model->attention_dropout);
    gal_json_put_f64(out, "residual_dropout", model->residual_dropout);
}

static void check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    gal_family_check_heads(at, model, keys);
    if (!gal_family_check_images(at, model)) {
        return;
    }
    const uint64_t side = model->image_size / model->patch_size;
    if (model->sequence_length != side * side + 1) {
        gal_json_error(at, "sequence_length must be the class token and %llu patches, got %u",
                       (unsigned long long)(side * side), model->sequence_length);
    }
}

static uint64_t parameter_count(const gal_model *model)
{
    const uint64_t hidden = model->hidden, ffn = model->ffn_hidden, norm = 2 * hidden;
    const uint64_t patches = hidden * gal_model_patch_features(model) + hidden;
    const uint64_t embedding = hidden + hidden * model->sequence_length + patches;
    const uint64_t attention = norm + 4 * (hidden * hidden + hidden);
    const uint64_t feed_forward = norm + hidden * ffn + ffn + ffn * hidden + hidden;
    const uint64_t head = norm + hidden * model->vocabulary + model->vocabulary;
    return embedding + model->layer_count * (attention + feed_forward) + head;
}

static uint32_t loss_positions(uint32_t positions)
{
    (void)positions;
    return 1;
}

const gal_model_family gal_family_vit = {.read = read,
                                         .write = write,
                                         .check = check,
                                         .parameter_count = parameter_count,
                                         .block_count = gal_family_chain_count,
                                         .block = gal_family_chain_block,
                                         .type_count = gal_family_chain_type_count,
                                         .first_of_type = gal_family_chain_first,
                                         .loss_positions = loss_positions};
