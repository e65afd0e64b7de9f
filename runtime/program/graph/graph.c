#include "runtime/program/graph/graph.h"

#include <string.h>

const uint8_t gal_node_backward_needs[GAL_NODE_COUNT] = {
#define X(enumerator, needs) needs,
    GAL_NODES(X)
#undef X
};

uint8_t gal_graph_producer(const gal_graph *graph, uint8_t value)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].out[0] == value || graph->node[i].out[1] == value) {
            return (uint8_t)i;
        }
    }
    return GAL_NO_VALUE;
}

uint8_t gal_graph_value(gal_graph *g, const char *name, uint32_t features)
{
    GAL_ASSERT(g->value_count < GAL_GRAPH_MAX);
    g->value[g->value_count] = (gal_value){.name = name, .features = features};
    return (uint8_t)g->value_count++;
}

uint8_t gal_graph_integers(gal_graph *g, const char *name)
{
    uint8_t v = gal_graph_value(g, name, 1);
    g->value[v].int32 = true;
    return v;
}

uint8_t gal_graph_sums(gal_graph *g, const char *name, uint32_t features)
{
    uint8_t v = gal_graph_value(g, name, features);
    g->value[v].wide = true;
    return v;
}

uint8_t gal_graph_unit(gal_graph *g, const char *name, bool persistent, bool tied)
{
    GAL_ASSERT(g->unit_count < GAL_BLOCK_UNITS);
    g->unit[g->unit_count] = (gal_block_unit){name, persistent, tied ? GAL_SHARED_TABLE : GAL_SHARED_COUNT, false};
    return (uint8_t)g->unit_count++;
}

uint8_t gal_graph_tensor(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t outer,
                         uint64_t split, uint64_t inner, bool is_split, bool decays, gal_initial initial)
{
    GAL_ASSERT(g->tensor_count < GAL_BLOCK_TENSORS);
    g->tensor[g->tensor_count] = (gal_tensor){.suffix = suffix,
                                              .unit = unit,
                                              .number = number,
                                              .outer = outer,
                                              .split = split,
                                              .inner = inner,
                                              .split_used = split,
                                              .columns = inner > 1   ? inner
                                                         : outer > 1 ? split
                                                                     : 0,
                                              .is_split = is_split,
                                              .decays = decays,
                                              .initial = initial};
    return (uint8_t)g->tensor_count++;
}

uint8_t gal_graph_vector(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint32_t n,
                         gal_initial initial)
{
    return gal_graph_tensor(g, unit, suffix, number, 1, n, 1, false, false, initial);
}

uint8_t gal_graph_matrix(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t rows, uint64_t in)
{
    return gal_graph_tensor(g, unit, suffix, number, 1, rows, in, true, true, GAL_INITIAL_NORMAL);
}

uint8_t gal_graph_row_matrix(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t rows,
                             uint64_t in)
{
    return gal_graph_tensor(g, unit, suffix, number, rows, in, 1, true, true, GAL_INITIAL_NORMAL_RESIDUAL);
}

uint8_t gal_graph_split_bias(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t n)
{
    return gal_graph_tensor(g, unit, suffix, number, 1, n, 1, true, false, GAL_INITIAL_ZERO);
}

gal_node *gal_graph_node(gal_graph *g, gal_node_kind kind, const char *name, uint8_t in0, uint8_t out0)
{
    GAL_ASSERT(g->node_count < GAL_GRAPH_MAX);
    gal_node *n = &g->node[g->node_count++];
    *n = (gal_node){.kind = kind,
                    .name = name,
                    .in = {in0, GAL_NO_VALUE, GAL_NO_VALUE},
                    .out = {out0, GAL_NO_VALUE},
                    .weight = GAL_NO_VALUE,
                    .bias = GAL_NO_VALUE};
    return n;
}

gal_node *gal_graph_linear(gal_graph *g, gal_role role, gal_linear_names names, uint8_t x, const char *y_name,
                           uint8_t weight, uint8_t bias, uint32_t in, uint32_t out)
{
    gal_node *n = gal_graph_node(g, GAL_NODE_LINEAR, names.forward, x, gal_graph_value(g, y_name, out));
    n->role = role;
    n->backward_name = names.backward;
    n->weight_gradient_name = names.gradient;
    n->weight = weight;
    n->bias = bias;
    n->in_features = in;
    n->out_features = out;
    return n;
}

gal_node *gal_graph_linear_transposed(gal_graph *g, gal_role role, gal_linear_names names, uint8_t x,
                                      const char *y_name, uint8_t weight, uint8_t bias, uint32_t in, uint32_t out)
{
    gal_node *n = gal_graph_linear(g, role, names, x, y_name, weight, bias, in, out);
    n->weight_transposed = true;
    return n;
}

uint8_t gal_graph_norm(gal_graph *g, const char *name, const char *backward, uint8_t x, uint8_t gain, uint8_t bias,
                       uint32_t hidden)
{
    uint8_t a = gal_graph_value(g, "a", hidden);
    gal_node *n = gal_graph_node(g, GAL_NODE_NORM, name, x, a);
    n->backward_name = backward;
    n->out[1] = gal_graph_sums(g, "stats", bias == GAL_NO_VALUE ? 1 : 2);
    n->weight = gain;
    n->bias = bias;
    return a;
}

void gal_graph_residual(gal_graph *g, const char *name, const char *backward, uint8_t x, uint8_t o, uint8_t bias,
                        uint32_t hidden)
{
    g->y = gal_graph_value(g, "y", hidden);
    gal_node *n = gal_graph_node(g, GAL_NODE_RESIDUAL, name, x, g->y);
    n->in[1] = o;
    n->backward_name = backward;
    n->weight_gradient_name = "db";
    n->bias = bias;
}

uint8_t gal_graph_lengths(gal_graph *g, const gal_model *m)
{
    if (!m->padding) {
        return GAL_NO_VALUE;
    }
    const uint8_t lengths = gal_graph_integers(g, "lengths");
    g->value[lengths].single = true;
    gal_graph_node(g, GAL_NODE_LOAD_LENGTHS, "lengths", GAL_NO_VALUE, lengths);
    return lengths;
}

void gal_graph_loss(gal_graph *g, const gal_model *m, uint8_t a, uint8_t table, uint8_t bias)
{
    const gal_linear_names names = {"head", "d head", "dw head"};
    const bool single = g->value[a].single;
    const uint8_t logits = gal_graph_linear_transposed(g, GAL_ROLE_COLUMN, names, a, "logits", table, bias,
                                                       g->value[a].features, gal_model_padded_vocabulary(m))
                               ->out[0];
    uint8_t targets = gal_graph_integers(g, "targets");
    gal_graph_node(g, GAL_NODE_LOAD, "targets", GAL_NO_VALUE, targets);
    gal_node *n = gal_graph_node(g, GAL_NODE_CROSS_ENTROPY, "loss", logits, gal_graph_sums(g, "max", 1));
    n->in[1] = targets;
    n->out[1] = gal_graph_sums(g, "sums", 2);
    n->backward_name = "d loss";
    g->value[logits].single = g->value[targets].single = single;
    g->value[n->out[0]].single = g->value[n->out[1]].single = single;
    g->head = true;
}

void gal_graph_of(const gal_model *model, const gal_block_shape *shape, gal_graph *out)
{
    static const gal_graph_family *const families[GAL_FAMILY_COUNT] = {
        [GAL_FAMILY_DECODER] = &gal_graph_decoder, [GAL_FAMILY_LLAMA] = &gal_graph_llama,
        [GAL_FAMILY_BERT] = &gal_graph_bert,       [GAL_FAMILY_VIT] = &gal_graph_vit,
        [GAL_FAMILY_T5] = &gal_graph_t5,           [GAL_FAMILY_SWIN] = &gal_graph_swin};
    const gal_graph_family *family = families[model->family];
    memset(out, 0, sizeof *out);
    out->shape = *shape;
    out->layer_prefix = family->layer_prefix;
    out->embedding_tensor_numbers = family->embedding_tensor_numbers;
    out->block_tensor_numbers = family->block_tensor_numbers;
    out->x = GAL_NO_VALUE;
    out->y = GAL_NO_VALUE;
    out->carried_in = GAL_NO_VALUE;
    out->carried_out = GAL_NO_VALUE;
    out->tp_degree = 1;
    out->sequence_degree = 1;
    out->head_degree = 1;
    out->feature_parts = 1;
    family->build[shape->kind](model, out);
}
