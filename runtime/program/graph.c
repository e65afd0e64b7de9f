#include "runtime/program/graph.h"

#include <string.h>

const uint8_t gal_node_backward_needs[GAL_NODE_COUNT] = {
#define X(enumerator, needs) needs,
    GAL_NODES(X)
#undef X
};

static uint8_t value(gal_graph *g, const char *name, uint32_t features)
{
    GAL_ASSERT(g->value_count < GAL_GRAPH_MAX);
    g->value[g->value_count] = (gal_value){name, features, false, false};
    return (uint8_t)g->value_count++;
}

static uint8_t integers(gal_graph *g, const char *name)
{
    uint8_t v = value(g, name, 1);
    g->value[v].int32 = true;
    return v;
}

static uint8_t unit(gal_graph *g, const char *name, bool persistent, bool tied)
{
    g->unit[g->unit_count] = (gal_block_unit){name, persistent, tied};
    return (uint8_t)g->unit_count++;
}

static uint8_t tensor(gal_graph *g, uint8_t unit_index, const char *suffix, uint32_t number, uint64_t outer,
                      uint64_t split, uint64_t inner, bool is_split, bool decays, gal_initial initial)
{
    GAL_ASSERT(g->tensor_count < GAL_BLOCK_TENSORS);
    g->tensor[g->tensor_count] =
        (gal_tensor){suffix, unit_index, number, outer, split, inner, split, is_split, decays, initial};
    return (uint8_t)g->tensor_count++;
}

/* A vector that every device of a tensor-parallel group holds whole. */
static uint8_t vector(gal_graph *g, uint8_t unit_index, const char *suffix, uint32_t number, uint32_t n,
                      gal_initial initial)
{
    return tensor(g, unit_index, suffix, number, 1, n, 1, false, false, initial);
}

static gal_node *node(gal_graph *g, gal_node_kind kind, const char *name, uint8_t in0, uint8_t out0)
{
    GAL_ASSERT(g->node_count < GAL_GRAPH_MAX);
    gal_node *n = &g->node[g->node_count++];
    *n = (gal_node){.kind = kind,
                    .name = name,
                    .in = {in0, GAL_NO_VALUE},
                    .out = {out0, GAL_NO_VALUE},
                    .weight = GAL_NO_VALUE,
                    .bias = GAL_NO_VALUE};
    return n;
}

static uint8_t linear(gal_graph *g, gal_role role, const char *name, const char *backward, const char *gradient,
                      uint8_t x, const char *y_name, uint8_t weight, uint8_t bias, uint32_t in, uint32_t out)
{
    uint8_t y = value(g, y_name, out);
    gal_node *n = node(g, GAL_NODE_LINEAR, name, x, y);
    n->role = role;
    n->backward_name = backward;
    n->weight_gradient_name = gradient;
    n->weight = weight;
    n->bias = bias;
    n->in_features = in;
    n->out_features = out;
    return y;
}

static uint8_t norm(gal_graph *g, const char *name, const char *backward, uint8_t x, uint8_t gain, uint8_t bias,
                    uint32_t hidden)
{
    uint8_t a = value(g, "a", hidden);
    gal_node *n = node(g, GAL_NODE_NORM, name, x, a);
    n->backward_name = backward;
    n->out[1] = value(g, "stats", 2);
    n->weight = gain;
    n->bias = bias;
    return a;
}

static void residual(gal_graph *g, const char *name, const char *backward, uint8_t x, uint8_t o, uint8_t bias,
                     uint32_t hidden)
{
    g->y = value(g, "y", hidden);
    gal_node *n = node(g, GAL_NODE_RESIDUAL, name, x, g->y);
    n->in[1] = o;
    n->backward_name = backward;
    n->weight_gradient_name = "db";
    n->bias = bias;
}

static void embedding(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint8_t table_unit = unit(g, "wte", false, m->tied_embeddings);
    uint8_t position_unit = unit(g, "wpe", false, false);
    uint8_t table =
        tensor(g, table_unit, "wte.weight", 0, 1, gal_model_padded_vocabulary(m), h, true, true, GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    uint8_t positions =
        tensor(g, position_unit, "wpe.weight", 1, 1, m->sequence_length, h, false, true, GAL_INITIAL_NORMAL);
    uint8_t tokens = integers(g, "tokens");
    node(g, GAL_NODE_LOAD, "tokens", GAL_NO_VALUE, tokens);
    uint8_t e = value(g, "e", h);
    gal_node *n = node(g, GAL_NODE_EMBED, "embed", tokens, e);
    n->role = GAL_ROLE_ROW;
    n->backward_name = "dw embed";
    n->weight = table;
    g->y = value(g, "y", h);
    n = node(g, GAL_NODE_POSITION, "position", e, g->y);
    n->backward_name = "d position";
    n->weight = positions;
}

static void attention(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint8_t vectors = unit(g, "vectors", true, false);
    uint8_t u1 = unit(g, "qkv", false, false);
    uint8_t u2 = unit(g, "proj", false, false);
    uint8_t gain = vector(g, vectors, "ln_1.weight", 0, h, GAL_INITIAL_ONE);
    uint8_t shift = vector(g, vectors, "ln_1.bias", 1, h, GAL_INITIAL_ZERO);
    uint8_t row_bias = vector(g, vectors, "attn.c_proj.bias", 5, h, GAL_INITIAL_ZERO);
    /* [in][3][heads]: a device holds the queries, keys and values of its own heads */
    uint8_t w1 = tensor(g, u1, "attn.c_attn.weight", 2, (uint64_t)h * 3, h, 1, true, true, GAL_INITIAL_NORMAL);
    uint8_t b1 = tensor(g, u1, "attn.c_attn.bias", 3, 3, h, 1, true, false, GAL_INITIAL_ZERO);
    uint8_t w2 = tensor(g, u2, "attn.c_proj.weight", 4, 1, h, h, true, true, GAL_INITIAL_NORMAL_RESIDUAL);
    g->x = value(g, "x", h);
    uint8_t a = norm(g, "norm1", "d norm1", g->x, gain, shift, h);
    uint8_t qkv = linear(g, GAL_ROLE_COLUMN, "qkv", "d qkv", "dw qkv", a, "qkv", w1, b1, h, 3 * h);
    uint8_t ctx = value(g, "ctx", h);
    gal_node *n = node(g, GAL_NODE_ATTENTION, "attention", qkv, ctx);
    n->backward_name = "d attention";
    n->out[1] = value(g, "lse", m->head_count);
    uint8_t o = linear(g, GAL_ROLE_ROW, "proj", "d proj", "dw proj", ctx, "o", w2, GAL_NO_VALUE, h, h);
    residual(g, "add1", "d add1", g->x, o, row_bias, h);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint32_t f = m->ffn_hidden;
    uint8_t vectors = unit(g, "vectors", true, false);
    uint8_t u1 = unit(g, "fc", false, false);
    uint8_t u2 = unit(g, "proj", false, false);
    uint8_t gain = vector(g, vectors, "ln_2.weight", 0, h, GAL_INITIAL_ONE);
    uint8_t shift = vector(g, vectors, "ln_2.bias", 1, h, GAL_INITIAL_ZERO);
    uint8_t row_bias = vector(g, vectors, "mlp.c_proj.bias", 5, h, GAL_INITIAL_ZERO);
    uint8_t w1 = tensor(g, u1, "mlp.c_fc.weight", 2, h, f, 1, true, true, GAL_INITIAL_NORMAL);
    uint8_t b1 = tensor(g, u1, "mlp.c_fc.bias", 3, 1, f, 1, true, false, GAL_INITIAL_ZERO);
    uint8_t w2 = tensor(g, u2, "mlp.c_proj.weight", 4, 1, f, h, true, true, GAL_INITIAL_NORMAL_RESIDUAL);
    g->x = value(g, "x", h);
    uint8_t a = norm(g, "norm2", "d norm2", g->x, gain, shift, h);
    uint8_t u = linear(g, GAL_ROLE_COLUMN, "ffn1", "d ffn1", "dw ffn1", a, "u", w1, b1, h, f);
    uint8_t act = value(g, "g", f);
    node(g, GAL_NODE_ACTIVATION, "activation", u, act)->backward_name = "d activation";
    uint8_t z = linear(g, GAL_ROLE_ROW, "ffn2", "d ffn2", "dw ffn2", act, "z", w2, GAL_NO_VALUE, f, h);
    residual(g, "add2", "d add2", g->x, z, row_bias, h);
}

static void head(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint32_t v = gal_model_padded_vocabulary(m);
    uint8_t vectors = unit(g, "vectors", true, false);
    uint8_t table_unit = unit(g, m->tied_embeddings ? "wte" : "head", false, m->tied_embeddings);
    uint8_t gain = vector(g, vectors, "ln_f.weight", 0, h, GAL_INITIAL_ONE);
    uint8_t shift = vector(g, vectors, "ln_f.bias", 1, h, GAL_INITIAL_ZERO);
    uint8_t table = tensor(g, table_unit, m->tied_embeddings ? "wte.weight" : "lm_head.weight", 2, 1, v, h, true, true,
                           GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    g->x = value(g, "x", h);
    uint8_t a = norm(g, "norm f", "d norm f", g->x, gain, shift, h);
    uint8_t logits = linear(g, GAL_ROLE_COLUMN, "head", "d head", "dw head", a, "logits", table, GAL_NO_VALUE, h, v);
    g->node[g->node_count - 1].weight_transposed = true;
    uint8_t targets = integers(g, "targets");
    node(g, GAL_NODE_LOAD, "targets", GAL_NO_VALUE, targets);
    uint8_t max = value(g, "max", 1);
    gal_node *n = node(g, GAL_NODE_CROSS_ENTROPY, "loss", logits, max);
    n->in[1] = targets;
    n->out[1] = value(g, "sums", 2);
    n->backward_name = "d loss";
    g->head = true;
}

void gal_graph_of(const gal_model *model, gal_block_kind kind, gal_graph *out)
{
    static void (*const build[GAL_BLOCK_KIND_COUNT])(const gal_model *,
                                                     gal_graph *) = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                                     [GAL_BLOCK_ATTENTION] = attention,
                                                                     [GAL_BLOCK_FFN] = ffn,
                                                                     [GAL_BLOCK_HEAD] = head};
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->x = GAL_NO_VALUE;
    out->y = GAL_NO_VALUE;
    out->tp_degree = 1;
    build[kind](model, out);
}
