/* What BERT, ViT and Swin have in common: attention that is not causal with separate queries, keys and values, all with
 * biases, and an FFN with one activation. Weights are stored [out][in]; those that read one input lie one behind
 * another. */
#include "runtime/program/graph/graph_encoder.h"

uint8_t gal_graph_encoder_attention(gal_graph *g, const gal_encoder_names *names, uint8_t a, uint8_t table,
                                    uint8_t lengths, uint8_t weights, uint8_t output_unit)
{
    const uint32_t h = g->shape.in.features;
    uint8_t w1 = gal_graph_matrix(g, weights, names->weight[0], GAL_ENCODER_WEIGHT, h, h);
    gal_graph_matrix(g, weights, names->weight[1], GAL_ENCODER_WEIGHT + 1, h, h);
    gal_graph_matrix(g, weights, names->weight[2], GAL_ENCODER_WEIGHT + 2, h, h);
    uint8_t b1 = gal_graph_split_bias(g, weights, names->bias[0], GAL_ENCODER_BIAS, h);
    gal_graph_split_bias(g, weights, names->bias[1], GAL_ENCODER_BIAS + 1, h);
    gal_graph_split_bias(g, weights, names->bias[2], GAL_ENCODER_BIAS + 2, h);
    g->tensor[w1].joined = g->tensor[b1].joined = 2;
    uint8_t w2 = gal_graph_row_matrix(g, output_unit, names->output_weight, GAL_ENCODER_OUTPUT, h, h);
    g->tensor[w2].initial = GAL_INITIAL_NORMAL;
    const gal_linear_names qkv_names = {"qkv", "d qkv", "dw qkv"};
    uint8_t qkv = gal_graph_linear_transposed(g, GAL_ROLE_COLUMN, qkv_names, a, "qkv", w1, b1, h, 3 * h)->out[0];
    gal_node *n = gal_graph_node(g, GAL_NODE_ATTENTION, "attention", qkv, gal_graph_value(g, "ctx", h));
    n->backward_name = "d attention";
    n->weight = table;
    n->in[2] = lengths;
    n->out[1] = gal_graph_sums(g, "lse", g->shape.head_count);
    const gal_linear_names proj_names = {"proj", "d proj", "dw proj"};
    return gal_graph_linear_transposed(g, GAL_ROLE_ROW, proj_names, n->out[0], "o", w2, GAL_NO_VALUE, h, h)->out[0];
}

uint8_t gal_graph_encoder_ffn(gal_graph *g, const gal_encoder_names *names, uint8_t a, uint8_t weights,
                              uint8_t output_unit)
{
    const uint32_t h = g->shape.in.features, f = g->shape.ffn_hidden;
    uint8_t w1 = gal_graph_matrix(g, weights, names->weight[0], GAL_ENCODER_WEIGHT, f, h);
    uint8_t b1 = gal_graph_split_bias(g, weights, names->bias[0], GAL_ENCODER_BIAS, f);
    uint8_t w2 = gal_graph_row_matrix(g, output_unit, names->output_weight, GAL_ENCODER_OUTPUT, h, f);
    g->tensor[w2].initial = GAL_INITIAL_NORMAL;
    const gal_linear_names up_names = {"ffn1", "d ffn1", "dw ffn1"};
    uint8_t u = gal_graph_linear_transposed(g, GAL_ROLE_COLUMN, up_names, a, "u", w1, b1, h, f)->out[0];
    uint8_t act = gal_graph_value(g, "g", f);
    gal_graph_node(g, GAL_NODE_ACTIVATION, "activation", u, act)->backward_name = "d activation";
    const gal_linear_names down_names = {"ffn2", "d ffn2", "dw ffn2"};
    return gal_graph_linear_transposed(g, GAL_ROLE_ROW, down_names, act, "z", w2, GAL_NO_VALUE, f, h)->out[0];
}
