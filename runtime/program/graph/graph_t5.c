/* T5: encoder and decoder of self-attention with relative positions, cross-attention, RMSNorm, no biases, no division
 * by the root of a head's features. Weights are stored [out][in], under the public names; those that read one input lie
 * one behind another in their unit. Source: C. Raffel et al., "Exploring the limits of transfer learning with a unified
 * text-to-text Transformer", JMLR 21 (2020), section 2.1; version 1.1 has a gated FFN (N. Shazeer, arXiv 2002.05202)
 * and a head of its own. Dropout is of rows behind every sub-layer and of attention; not of embeddings and inside the
 * FFN.
 *
 * The relative bias of a stack is one table that all its self-attentions read. Their strategies may differ, so a device
 * keeps it whole and reads the columns of its heads: then its gradient is a partial sum over all devices of a stage,
 * whatever the strategy. */
#include "runtime/program/graph/graph.h"

/* Numbers of tensors within a block: keys of their initial weights. */
enum { GAIN, QUERY, KEY, VALUE, OUTPUT, NUMBERS };
enum { GATE = QUERY, UP = KEY, DECODER_BIAS = QUERY };

/* Suffixes of a layer's tensors. */
typedef struct layer_names {
    const char *norm, *query, *key, *value, *output;
} layer_names;

static const layer_names self_names = {"layer.0.layer_norm.weight", "layer.0.SelfAttention.q.weight",
                                       "layer.0.SelfAttention.k.weight", "layer.0.SelfAttention.v.weight",
                                       "layer.0.SelfAttention.o.weight"};
static const layer_names cross_names = {"layer.1.layer_norm.weight", "layer.1.EncDecAttention.q.weight",
                                        "layer.1.EncDecAttention.k.weight", "layer.1.EncDecAttention.v.weight",
                                        "layer.1.EncDecAttention.o.weight"};

typedef struct ffn_names {
    const char *norm, *in, *gate, *up, *out;
} ffn_names;

static const ffn_names encoder_ffn = {"layer.1.layer_norm.weight", "layer.1.DenseReluDense.wi.weight",
                                      "layer.1.DenseReluDense.wi_0.weight", "layer.1.DenseReluDense.wi_1.weight",
                                      "layer.1.DenseReluDense.wo.weight"};
static const ffn_names decoder_ffn = {"layer.2.layer_norm.weight", "layer.2.DenseReluDense.wi.weight",
                                      "layer.2.DenseReluDense.wi_0.weight", "layer.2.DenseReluDense.wi_1.weight",
                                      "layer.2.DenseReluDense.wo.weight"};

static void set_prefix(gal_graph *g)
{
    g->layer_prefix = g->shape.decodes ? "decoder.block." : "encoder.block.";
}

static uint8_t table_of(const gal_model *m, gal_graph *g, uint8_t unit, const char *name, uint32_t number)
{
    uint8_t table = gal_graph_tensor(g, unit, name, number, 1, gal_model_padded_vocabulary(m), m->hidden, true, true,
                                     GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    return table;
}

/* Tokens of the source or of the target, as rows of the shared table. */
static void embed(const gal_model *m, gal_graph *g)
{
    uint8_t table = table_of(m, g, gal_graph_unit(g, "shared", false, true), "shared.weight", 0);
    uint8_t tokens = gal_graph_integers(g, "tokens");
    gal_graph_node(g, GAL_NODE_LOAD, "tokens", GAL_NO_VALUE, tokens);
    g->y = gal_graph_value(g, "y", m->hidden);
    gal_node *n = gal_graph_node(g, GAL_NODE_EMBED, "embed", tokens, g->y);
    n->role = GAL_ROLE_ROW;
    n->backward_name = "dw embed";
    n->weight = table;
}

/* [rows][in], rows split over the devices of a tensor-parallel group. */
static uint8_t matrix(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t rows, uint64_t in)
{
    return gal_graph_tensor(g, unit, suffix, number, 1, rows, in, true, true, GAL_INITIAL_NORMAL);
}

/* [hidden][in], `in` split. */
static uint8_t row_matrix(gal_graph *g, uint8_t unit, const char *suffix, uint32_t hidden, uint64_t in)
{
    return gal_graph_tensor(g, unit, suffix, OUTPUT, hidden, in, 1, true, true, GAL_INITIAL_NORMAL_RESIDUAL);
}

static uint8_t linear(gal_graph *g, gal_role role, gal_linear_names names, uint8_t x, const char *y_name,
                      uint8_t weight, uint32_t in, uint32_t out)
{
    gal_node *n = gal_graph_linear(g, role, names, x, y_name, weight, GAL_NO_VALUE, in, out);
    n->weight_transposed = true;
    return n->out[0];
}

static uint8_t relative_bias(const gal_model *m, gal_graph *g)
{
    const bool decodes = g->shape.decodes;
    uint8_t unit = gal_graph_unit(g, "bias", true, false);
    g->unit[unit].shared = decodes ? GAL_SHARED_DECODER_BIAS : GAL_SHARED_ENCODER_BIAS;
    g->unit[unit].by_heads = true;
    const char *name = decodes ? "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
                               : "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    /* The numbers of a shared tensor are those of the model: 1 is free in the embedding, and one in the bridge. */
    const uint32_t number = decodes ? 2 + NUMBERS * 2 * m->layer_count + DECODER_BIAS : 1;
    return gal_graph_tensor(g, unit, name, number, m->relative_bucket_count, m->head_count, 1, false, false,
                            GAL_INITIAL_NORMAL);
}

static void attention(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, features = m->head_count * m->head_dim;
    set_prefix(g);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, self_names.norm, GAIN, h, GAL_INITIAL_ONE);
    uint8_t w1 = matrix(g, u1, self_names.query, QUERY, features, h);
    matrix(g, u1, self_names.key, KEY, features, h);
    matrix(g, u1, self_names.value, VALUE, features, h);
    g->tensor[w1].joined = 2;
    uint8_t w2 = row_matrix(g, u2, self_names.output, h, features);
    uint8_t bias = relative_bias(m, g);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm1", "d norm1", g->x, gain, GAL_NO_VALUE, h);
    uint8_t qkv =
        linear(g, GAL_ROLE_COLUMN, (gal_linear_names){"qkv", "d qkv", "dw qkv"}, a, "qkv", w1, h, 3 * features);
    const uint8_t lengths = g->shape.decodes ? GAL_NO_VALUE : gal_graph_lengths(g, m);
    gal_node *n = gal_graph_node(g, GAL_NODE_ATTENTION, "attention", qkv, gal_graph_value(g, "ctx", features));
    n->in[2] = lengths;
    n->backward_name = "d attention";
    n->out[1] = gal_graph_sums(g, "lse", m->head_count);
    n->weight = bias;
    uint8_t o =
        linear(g, GAL_ROLE_ROW, (gal_linear_names){"proj", "d proj", "dw proj"}, n->out[0], "o", w2, features, h);
    gal_graph_residual(g, "add1", "d add1", g->x, o, GAL_NO_VALUE, h);
}

static void cross_attention(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, features = m->head_count * m->head_dim;
    set_prefix(g);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "q", false, false);
    uint8_t u2 = gal_graph_unit(g, "kv", false, false);
    uint8_t u3 = gal_graph_unit(g, "proj", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, cross_names.norm, GAIN, h, GAL_INITIAL_ONE);
    uint8_t w1 = matrix(g, u1, cross_names.query, QUERY, features, h);
    uint8_t w2 = matrix(g, u2, cross_names.key, KEY, features, h);
    matrix(g, u2, cross_names.value, VALUE, features, h);
    g->tensor[w2].joined = 1;
    uint8_t w3 = row_matrix(g, u3, cross_names.output, h, features);
    g->x = gal_graph_value(g, "x", h);
    g->carried_in = gal_graph_value(g, "carried", h);
    g->value[g->carried_in].carried = true;
    uint8_t a = gal_graph_norm(g, "norm2", "d norm2", g->x, gain, GAL_NO_VALUE, h);
    uint8_t q = linear(g, GAL_ROLE_COLUMN, (gal_linear_names){"q", "d q", "dw q"}, a, "q", w1, h, features);
    uint8_t kv =
        linear(g, GAL_ROLE_COLUMN, (gal_linear_names){"kv", "d kv", "dw kv"}, g->carried_in, "kv", w2, h, 2 * features);
    g->value[kv].carried = true;
    const uint8_t lengths = gal_graph_lengths(g, m);
    gal_node *n = gal_graph_node(g, GAL_NODE_CROSS_ATTENTION, "cross", q, gal_graph_value(g, "ctx", features));
    n->in[1] = kv;
    n->in[2] = lengths;
    n->backward_name = "d cross";
    n->out[1] = gal_graph_sums(g, "lse", m->head_count);
    uint8_t o =
        linear(g, GAL_ROLE_ROW, (gal_linear_names){"proj", "d proj", "dw proj"}, n->out[0], "o", w3, features, h);
    gal_graph_residual(g, "add2", "d add2", g->x, o, GAL_NO_VALUE, h);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, f = m->ffn_hidden;
    const ffn_names *names = g->shape.decodes ? &decoder_ffn : &encoder_ffn;
    set_prefix(g);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "wi", false, false);
    uint8_t u2 = gal_graph_unit(g, "wo", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, names->norm, GAIN, h, GAL_INITIAL_ONE);
    uint8_t w1 = matrix(g, u1, m->gated ? names->gate : names->in, GATE, f, h);
    if (m->gated) {
        matrix(g, u1, names->up, UP, f, h);
        g->tensor[w1].joined = 1;
    }
    uint8_t w2 = row_matrix(g, u2, names->out, h, f);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm3", "d norm3", g->x, gain, GAL_NO_VALUE, h);
    uint8_t u = linear(g, GAL_ROLE_COLUMN, (gal_linear_names){"ffn1", "d ffn1", "dw ffn1"}, a, "u", w1, h,
                       m->gated ? 2 * f : f);
    uint8_t act = gal_graph_value(g, "g", f);
    gal_graph_node(g, m->gated ? GAL_NODE_GATED_ACTIVATION : GAL_NODE_ACTIVATION, "activation", u, act)->backward_name =
        "d activation";
    uint8_t z = linear(g, GAL_ROLE_ROW, (gal_linear_names){"ffn2", "d ffn2", "dw ffn2"}, act, "z", w2, f, h);
    gal_graph_residual(g, "add3", "d add3", g->x, z, GAL_NO_VALUE, h);
}

static void bridge(const gal_model *m, gal_graph *g)
{
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t gain = gal_graph_vector(g, vectors, "encoder.final_layer_norm.weight", GAIN, m->hidden, GAL_INITIAL_ONE);
    g->x = gal_graph_value(g, "x", m->hidden);
    g->value[g->x].carried = true;
    g->carried_out = gal_graph_norm(g, "norm e", "d norm e", g->x, gain, GAL_NO_VALUE, m->hidden);
    const gal_node *norm = &g->node[g->node_count - 1];
    g->value[norm->out[0]].carried = true;
    g->value[norm->out[1]].carried = true;
    embed(m, g);
}

static void head(const gal_model *m, gal_graph *g)
{
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t unit = gal_graph_unit(g, m->tied_embeddings ? "shared" : "head", false, m->tied_embeddings);
    uint8_t gain = gal_graph_vector(g, vectors, "decoder.final_layer_norm.weight", GAIN, m->hidden, GAL_INITIAL_ONE);
    uint8_t table = table_of(m, g, unit, m->tied_embeddings ? "shared.weight" : "lm_head.weight", QUERY);
    g->x = gal_graph_value(g, "x", m->hidden);
    uint8_t a = gal_graph_norm(g, "norm d", "d norm d", g->x, gain, GAL_NO_VALUE, m->hidden);
    if (m->tied_embeddings) { /* a table that also embeds has larger entries than a head's */
        uint8_t scaled = gal_graph_value(g, "scaled", m->hidden);
        gal_graph_node(g, GAL_NODE_SCALE, "scale", a, scaled)->backward_name = "d scale";
        a = scaled;
    }
    gal_graph_loss(g, m, a, table, GAL_NO_VALUE);
}

const gal_graph_family gal_graph_t5 = {.layer_prefix = "encoder.block.",
                                       .embedding_tensor_numbers = 2,
                                       .block_tensor_numbers = NUMBERS,
                                       .build = {[GAL_BLOCK_EMBEDDING] = embed,
                                                 [GAL_BLOCK_ATTENTION] = attention,
                                                 [GAL_BLOCK_FFN] = ffn,
                                                 [GAL_BLOCK_BRIDGE] = bridge,
                                                 [GAL_BLOCK_CROSS_ATTENTION] = cross_attention,
                                                 [GAL_BLOCK_HEAD] = head}};
