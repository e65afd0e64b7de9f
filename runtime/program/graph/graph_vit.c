/* ViT for image classification. Every device of a tensor-parallel group embeds its rows' patches whole; the class token
 * is position 0, where the patches are zeros and what the linear makes of them is not read: so all blocks have the same
 * positions. The head norms all rows, takes those of the class token and classifies; labels are split like a
 * vocabulary. Public names: ViTForImageClassification.
 * Source: A. Dosovitskiy et al., "An image is worth 16x16 words", arXiv 2010.11929, section 3.1. */
#include "runtime/program/graph/graph_encoder.h"

enum { PROJECTION, PROJECTION_BIAS, POSITIONS, CLASS_TOKEN, EMBEDDING_NUMBERS };
enum { HEAD_GAIN, HEAD_SHIFT, CLASSIFIER, CLASSIFIER_BIAS };

static void embedding(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, features = gal_model_patch_features(m);
    uint8_t projection_unit = gal_graph_unit(g, "patches", false, false);
    uint8_t position_unit = gal_graph_unit(g, "positions", false, false);
    uint8_t projection = gal_graph_tensor(g, projection_unit, "vit.embeddings.patch_embeddings.projection.weight",
                                          PROJECTION, 1, h, features, false, true, GAL_INITIAL_NORMAL);
    g->tensor[projection].columns = features;
    g->tensor[projection].window = m->patch_size;
    uint8_t bias = gal_graph_vector(g, projection_unit, "vit.embeddings.patch_embeddings.projection.bias",
                                    PROJECTION_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t positions = gal_graph_tensor(g, position_unit, "vit.embeddings.position_embeddings", POSITIONS, 1,
                                         m->sequence_length, h, false, true, GAL_INITIAL_NORMAL);
    g->tensor[positions].columns = h;
    g->tensor[positions].leading_ones = 1;
    uint8_t class_token =
        gal_graph_vector(g, position_unit, "vit.embeddings.cls_token", CLASS_TOKEN, h, GAL_INITIAL_NORMAL);
    g->tensor[class_token].leading_ones = 2;
    uint8_t patches = gal_graph_value(g, "patches", features);
    gal_graph_node(g, GAL_NODE_LOAD_PATCHES, "patches", GAL_NO_VALUE, patches);
    const gal_linear_names names = {"embed", "", "dw embed"};
    uint8_t e =
        gal_graph_linear_transposed(g, GAL_ROLE_WHOLE, names, patches, "e", projection, bias, features, h)->out[0];
    g->y = gal_graph_value(g, "y", h);
    gal_node *n = gal_graph_node(g, GAL_NODE_POSITION, "position", e, g->y);
    n->backward_name = "d position";
    n->weight = positions;
    n->bias = class_token;
}

static uint8_t norm(const gal_model *m, gal_graph *g, uint8_t vectors, const char *gain_name, const char *shift_name)
{
    uint8_t gain = gal_graph_vector(g, vectors, gain_name, GAL_ENCODER_GAIN, m->hidden, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, shift_name, GAL_ENCODER_SHIFT, m->hidden, GAL_INITIAL_ZERO);
    g->x = gal_graph_value(g, "x", m->hidden);
    return gal_graph_norm(g, "norm", "d norm", g->x, gain, shift, m->hidden);
}

static void attention(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"attention.attention.query.weight", "attention.attention.key.weight", "attention.attention.value.weight"},
        {"attention.attention.query.bias", "attention.attention.key.bias", "attention.attention.value.bias"},
        "attention.output.dense.weight"};
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t a = norm(m, g, vectors, "layernorm_before.weight", "layernorm_before.bias");
    uint8_t bias = gal_graph_vector(g, vectors, "attention.output.dense.bias", GAL_ENCODER_OUTPUT_BIAS, m->hidden,
                                    GAL_INITIAL_ZERO);
    uint8_t o = gal_graph_encoder_attention(g, &names, a, GAL_NO_VALUE, GAL_NO_VALUE, u1, u2);
    gal_graph_residual(g, "add1", "d add1", g->x, o, bias, m->hidden);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"intermediate.dense.weight"}, {"intermediate.dense.bias"}, "output.dense.weight"};
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "fc", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t a = norm(m, g, vectors, "layernorm_after.weight", "layernorm_after.bias");
    uint8_t bias =
        gal_graph_vector(g, vectors, "output.dense.bias", GAL_ENCODER_OUTPUT_BIAS, m->hidden, GAL_INITIAL_ZERO);
    uint8_t z = gal_graph_encoder_ffn(g, &names, a, u1, u2);
    gal_graph_residual(g, "add2", "d add2", g->x, z, bias, m->hidden);
}

static void head(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, labels = gal_model_padded_vocabulary(m);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t classifier_unit = gal_graph_unit(g, "classifier", false, false);
    uint8_t a = norm(m, g, vectors, "vit.layernorm.weight", "vit.layernorm.bias");
    uint8_t classifier = gal_graph_matrix(g, classifier_unit, "classifier.weight", CLASSIFIER, labels, h);
    uint8_t bias = gal_graph_split_bias(g, classifier_unit, "classifier.bias", CLASSIFIER_BIAS, labels);
    g->tensor[classifier].split_used = g->tensor[bias].split_used = m->vocabulary;
    uint8_t first = gal_graph_value(g, "c", h);
    g->value[first].single = true;
    gal_graph_node(g, GAL_NODE_FIRST_POSITION, "class token", a, first)->backward_name = "d class token";
    gal_graph_loss(g, m, first, classifier, bias);
}

const gal_graph_family gal_graph_vit = {.layer_prefix = "vit.encoder.layer.",
                                        .embedding_tensor_numbers = EMBEDDING_NUMBERS,
                                        .block_tensor_numbers = GAL_ENCODER_NUMBERS,
                                        .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                  [GAL_BLOCK_ATTENTION] = attention,
                                                  [GAL_BLOCK_FFN] = ffn,
                                                  [GAL_BLOCK_HEAD] = head}};
