/* What families over patches of images, ViT and Swin, have in common: how patches become rows, blocks whose norm is in
 * front (attention within windows has a table of relative positions), and a classifier of one row per sample, whose
 * labels are split like a vocabulary. */
#include "runtime/program/graph/graph_encoder.h"

enum { PROJECTION, PROJECTION_BIAS };
enum { CLASSIFIER = GAL_ENCODER_SHIFT + 1, CLASSIFIER_BIAS };

uint8_t gal_graph_patches(const gal_model *m, gal_graph *g, const char *weight_name, const char *bias_name)
{
    const uint32_t h = m->hidden, features = gal_model_patch_features(m);
    uint8_t unit = gal_graph_unit(g, "patches", false, false);
    uint8_t projection =
        gal_graph_tensor(g, unit, weight_name, PROJECTION, 1, h, features, false, true, GAL_INITIAL_NORMAL);
    g->tensor[projection].columns = features;
    g->tensor[projection].window = m->patch_size;
    uint8_t bias = gal_graph_vector(g, unit, bias_name, PROJECTION_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t patches = gal_graph_value(g, "patches", features);
    gal_graph_node(g, GAL_NODE_LOAD_PATCHES, "patches", GAL_NO_VALUE, patches);
    const gal_linear_names names = {"embed", "", "dw embed"};
    return gal_graph_linear_transposed(g, GAL_ROLE_WHOLE, names, patches, "e", projection, bias, features, h)->out[0];
}

uint8_t gal_graph_image_norm(gal_graph *g, uint8_t vectors, const char *gain_name, const char *shift_name,
                             uint32_t number, uint8_t x)
{
    const uint32_t features = g->value[x].features;
    uint8_t gain = gal_graph_vector(g, vectors, gain_name, number, features, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, shift_name, number + 1, features, GAL_INITIAL_ZERO);
    return gal_graph_norm(g, "norm", "d norm", x, gain, shift, features);
}

/* Offsets between two positions of a window; every head has a column. */
static uint8_t relative_positions(gal_graph *g, uint8_t unit)
{
    const uint32_t offsets = 2 * g->shape.window - 1, heads = g->shape.head_count;
    uint8_t table = gal_graph_tensor(g, unit, "attention.self.relative_position_bias_table", GAL_ENCODER_NUMBERS,
                                     offsets * offsets, heads, 1, true, false, GAL_INITIAL_NORMAL);
    g->tensor[table].columns = heads;
    return table;
}

void gal_graph_image_attention(gal_graph *g, const gal_encoder_names *names)
{
    const uint32_t h = g->shape.in.features;
    const bool windows = g->shape.window > 0;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t u3 = windows ? gal_graph_unit(g, "bias", true, false) : GAL_NO_VALUE;
    g->x = gal_graph_value(g, "x", h);
    uint8_t a =
        gal_graph_image_norm(g, vectors, "layernorm_before.weight", "layernorm_before.bias", GAL_ENCODER_GAIN, g->x);
    uint8_t bias =
        gal_graph_vector(g, vectors, "attention.output.dense.bias", GAL_ENCODER_OUTPUT_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t table = windows ? relative_positions(g, u3) : GAL_NO_VALUE;
    uint8_t o = gal_graph_encoder_attention(g, names, a, table, GAL_NO_VALUE, u1, u2);
    gal_graph_residual(g, "add1", "d add1", g->x, o, bias, h);
}

void gal_graph_image_ffn(gal_graph *g)
{
    static const gal_encoder_names names = {
        {"intermediate.dense.weight"}, {"intermediate.dense.bias"}, "output.dense.weight"};
    const uint32_t h = g->shape.in.features;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "fc", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a =
        gal_graph_image_norm(g, vectors, "layernorm_after.weight", "layernorm_after.bias", GAL_ENCODER_GAIN, g->x);
    uint8_t bias = gal_graph_vector(g, vectors, "output.dense.bias", GAL_ENCODER_OUTPUT_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t z = gal_graph_encoder_ffn(g, &names, a, u1, u2);
    gal_graph_residual(g, "add2", "d add2", g->x, z, bias, h);
}

void gal_graph_image_head(const gal_model *m, gal_graph *g, const gal_image_head *head)
{
    const uint32_t h = g->shape.in.features, labels = gal_model_padded_vocabulary(m);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t unit = gal_graph_unit(g, "classifier", false, false);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_image_norm(g, vectors, head->gain, head->shift, GAL_ENCODER_GAIN, g->x);
    uint8_t classifier = gal_graph_matrix(g, unit, "classifier.weight", CLASSIFIER, labels, h);
    uint8_t bias = gal_graph_split_bias(g, unit, "classifier.bias", CLASSIFIER_BIAS, labels);
    g->tensor[classifier].split_used = g->tensor[bias].split_used = m->vocabulary;
    uint8_t row = gal_graph_value(g, "c", h);
    g->value[row].single = true;
    gal_graph_node(g, head->kind, head->name, a, row)->backward_name = head->backward_name;
    gal_graph_loss(g, m, row, classifier, bias);
}
