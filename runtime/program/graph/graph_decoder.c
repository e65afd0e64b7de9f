/* GPT-2: learned positions, LayerNorm, GELU, biases everywhere. Weights are stored [in][out], under the public names.
 * Source: A. Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3. */
#include "runtime/program/graph/graph.h"

static void embedding(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint8_t table_unit = gal_graph_unit(g, "wte", false, m->tied_embeddings);
    uint8_t position_unit = gal_graph_unit(g, "wpe", false, false);
    uint8_t table = gal_graph_tensor(g, table_unit, "wte.weight", 0, 1, gal_model_padded_vocabulary(m), h, true, true,
                                     GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    uint8_t positions =
        gal_graph_tensor(g, position_unit, "wpe.weight", 1, 1, m->sequence_length, h, false, true, GAL_INITIAL_NORMAL);
    uint8_t tokens = gal_graph_integers(g, "tokens");
    gal_graph_node(g, GAL_NODE_LOAD, "tokens", GAL_NO_VALUE, tokens);
    uint8_t e = gal_graph_value(g, "e", h);
    gal_node *n = gal_graph_node(g, GAL_NODE_EMBED, "embed", tokens, e);
    n->role = GAL_ROLE_ROW;
    n->backward_name = "dw embed";
    n->weight = table;
    g->y = gal_graph_value(g, "y", h);
    n = gal_graph_node(g, GAL_NODE_POSITION, "position", e, g->y);
    n->backward_name = "d position";
    n->weight = positions;
}

static void attention(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, "ln_1.weight", 0, h, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, "ln_1.bias", 1, h, GAL_INITIAL_ZERO);
    uint8_t row_bias = gal_graph_vector(g, vectors, "attn.c_proj.bias", 5, h, GAL_INITIAL_ZERO);
    /* [in][3][heads]: a device holds the queries, keys and values of its own heads */
    uint8_t w1 =
        gal_graph_tensor(g, u1, "attn.c_attn.weight", 2, (uint64_t)h * 3, h, 1, true, true, GAL_INITIAL_NORMAL);
    uint8_t b1 = gal_graph_tensor(g, u1, "attn.c_attn.bias", 3, 3, h, 1, true, false, GAL_INITIAL_ZERO);
    g->tensor[w1].columns = (uint64_t)h * 3; /* [in][3 heads] and [3 heads] in public */
    g->tensor[b1].columns = 0;
    uint8_t w2 = gal_graph_tensor(g, u2, "attn.c_proj.weight", 4, 1, h, h, true, true, GAL_INITIAL_NORMAL_RESIDUAL);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm1", "d norm1", g->x, gain, shift, h);
    uint8_t qkv =
        gal_graph_linear(g, GAL_ROLE_COLUMN, (gal_linear_names){"qkv", "d qkv", "dw qkv"}, a, "qkv", w1, b1, h, 3 * h)
            ->out[0];
    uint8_t ctx = gal_graph_value(g, "ctx", h);
    gal_node *n = gal_graph_node(g, GAL_NODE_ATTENTION, "attention", qkv, ctx);
    n->backward_name = "d attention";
    n->attention_flags = GAL_ATTENTION_CAUSAL;
    n->out[1] = gal_graph_sums(g, "lse", m->head_count);
    uint8_t o = gal_graph_linear(g, GAL_ROLE_ROW, (gal_linear_names){"proj", "d proj", "dw proj"}, ctx, "o", w2,
                                 GAL_NO_VALUE, h, h)
                    ->out[0];
    gal_graph_residual(g, "add1", "d add1", g->x, o, row_bias, h);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint32_t f = m->ffn_hidden;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "fc", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, "ln_2.weight", 0, h, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, "ln_2.bias", 1, h, GAL_INITIAL_ZERO);
    uint8_t row_bias = gal_graph_vector(g, vectors, "mlp.c_proj.bias", 5, h, GAL_INITIAL_ZERO);
    uint8_t w1 = gal_graph_tensor(g, u1, "mlp.c_fc.weight", 2, h, f, 1, true, true, GAL_INITIAL_NORMAL);
    uint8_t b1 = gal_graph_tensor(g, u1, "mlp.c_fc.bias", 3, 1, f, 1, true, false, GAL_INITIAL_ZERO);
    uint8_t w2 = gal_graph_tensor(g, u2, "mlp.c_proj.weight", 4, 1, f, h, true, true, GAL_INITIAL_NORMAL_RESIDUAL);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm2", "d norm2", g->x, gain, shift, h);
    uint8_t u =
        gal_graph_linear(g, GAL_ROLE_COLUMN, (gal_linear_names){"ffn1", "d ffn1", "dw ffn1"}, a, "u", w1, b1, h, f)
            ->out[0];
    uint8_t act = gal_graph_value(g, "g", f);
    gal_graph_node(g, GAL_NODE_ACTIVATION, "activation", u, act)->backward_name = "d activation";
    uint8_t z = gal_graph_linear(g, GAL_ROLE_ROW, (gal_linear_names){"ffn2", "d ffn2", "dw ffn2"}, act, "z", w2,
                                 GAL_NO_VALUE, f, h)
                    ->out[0];
    gal_graph_residual(g, "add2", "d add2", g->x, z, row_bias, h);
}

static void head(const gal_model *m, gal_graph *g)
{
    uint32_t h = m->hidden;
    uint32_t v = gal_model_padded_vocabulary(m);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t table_unit = gal_graph_unit(g, m->tied_embeddings ? "wte" : "head", false, m->tied_embeddings);
    uint8_t gain = gal_graph_vector(g, vectors, "ln_f.weight", 0, h, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, "ln_f.bias", 1, h, GAL_INITIAL_ZERO);
    uint8_t table = gal_graph_tensor(g, table_unit, m->tied_embeddings ? "wte.weight" : "lm_head.weight", 2, 1, v, h,
                                     true, true, GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm f", "d norm f", g->x, gain, shift, h);
    gal_graph_loss(g, m, a, table, GAL_NO_VALUE);
}

const gal_graph_family gal_graph_decoder = {.layer_prefix = "h.",
                                            .embedding_tensor_numbers = 2,
                                            .block_tensor_numbers = 6,
                                            .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                      [GAL_BLOCK_ATTENTION] = attention,
                                                      [GAL_BLOCK_FFN] = ffn,
                                                      [GAL_BLOCK_HEAD] = head}};
