/* Llama and its kin (Mistral, Qwen2): RMSNorm, rotary positions, a gated FFN, heads of queries that share keys and
 * values. Weights are stored [out][in], under the public names; those that read one input lie one behind another in
 * their unit, so that one GEMM serves them: its output's features are theirs, side by side. Sources: H. Touvron et al.,
 * "LLaMA", arXiv 2302.13971, section 2.2; J. Ainslie et al., "GQA", arXiv 2305.13245. */
#include "runtime/program/graph/graph.h"

/* Numbers of tensors within a block: keys of their initial weights. */
enum { GAIN, QUERY, KEY, VALUE, QUERY_BIAS, KEY_BIAS, VALUE_BIAS, OUTPUT, NUMBERS };
enum { GATE = QUERY, UP = KEY, DOWN = OUTPUT };

static void embedding(const gal_model *m, gal_graph *g)
{
    uint8_t table_unit = gal_graph_unit(g, "embed_tokens", false, m->tied_embeddings);
    uint8_t table = gal_graph_tensor(g, table_unit, "model.embed_tokens.weight", 0, 1, gal_model_padded_vocabulary(m),
                                     m->hidden, true, true, GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    uint8_t tokens = gal_graph_integers(g, "tokens");
    gal_graph_node(g, GAL_NODE_LOAD, "tokens", GAL_NO_VALUE, tokens);
    g->y = gal_graph_value(g, "y", m->hidden);
    gal_node *n = gal_graph_node(g, GAL_NODE_EMBED, "embed", tokens, g->y);
    n->role = GAL_ROLE_ROW;
    n->backward_name = "dw embed";
    n->weight = table;
}

static void attention(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, dim = gal_model_head_dim(m);
    const uint32_t q_features = m->head_count * dim, kv_features = gal_model_kv_head_count(m) * dim;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, "input_layernorm.weight", GAIN, h, GAL_INITIAL_ONE);
    uint8_t w1 = gal_graph_matrix(g, u1, "self_attn.q_proj.weight", QUERY, q_features, h);
    gal_graph_matrix(g, u1, "self_attn.k_proj.weight", KEY, kv_features, h);
    gal_graph_matrix(g, u1, "self_attn.v_proj.weight", VALUE, kv_features, h);
    g->tensor[w1].joined = 2;
    uint8_t b1 = GAL_NO_VALUE;
    if (m->qkv_bias) {
        b1 = gal_graph_split_bias(g, u1, "self_attn.q_proj.bias", QUERY_BIAS, q_features);
        gal_graph_split_bias(g, u1, "self_attn.k_proj.bias", KEY_BIAS, kv_features);
        gal_graph_split_bias(g, u1, "self_attn.v_proj.bias", VALUE_BIAS, kv_features);
        g->tensor[b1].joined = 2;
    }
    uint8_t w2 = gal_graph_row_matrix(g, u2, "self_attn.o_proj.weight", OUTPUT, h, q_features);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm1", "d norm1", g->x, gain, GAL_NO_VALUE, h);
    const gal_linear_names qkv_names = {"qkv", "d qkv", "dw qkv"};
    uint8_t qkv =
        gal_graph_linear_transposed(g, GAL_ROLE_COLUMN, qkv_names, a, "qkv", w1, b1, h, q_features + 2 * kv_features)
            ->out[0];
    uint8_t turned = gal_graph_value(g, "turned", q_features + 2 * kv_features);
    gal_graph_node(g, GAL_NODE_ROTARY, "rotary", qkv, turned)->backward_name = "d rotary";
    gal_node *n = gal_graph_node(g, GAL_NODE_ATTENTION, "attention", turned, gal_graph_value(g, "ctx", q_features));
    n->backward_name = "d attention";
    n->attention_flags = GAL_ATTENTION_CAUSAL;
    n->out[1] = gal_graph_sums(g, "lse", m->head_count);
    const gal_linear_names proj_names = {"proj", "d proj", "dw proj"};
    uint8_t o =
        gal_graph_linear_transposed(g, GAL_ROLE_ROW, proj_names, n->out[0], "o", w2, GAL_NO_VALUE, q_features, h)
            ->out[0];
    gal_graph_residual(g, "add1", "d add1", g->x, o, GAL_NO_VALUE, h);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, f = m->ffn_hidden;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "gate_up", false, false);
    uint8_t u2 = gal_graph_unit(g, "down", false, false);
    uint8_t gain = gal_graph_vector(g, vectors, "post_attention_layernorm.weight", GAIN, h, GAL_INITIAL_ONE);
    uint8_t w1 = gal_graph_matrix(g, u1, "mlp.gate_proj.weight", GATE, f, h);
    gal_graph_matrix(g, u1, "mlp.up_proj.weight", UP, f, h);
    g->tensor[w1].joined = 1;
    uint8_t w2 = gal_graph_row_matrix(g, u2, "mlp.down_proj.weight", DOWN, h, f);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = gal_graph_norm(g, "norm2", "d norm2", g->x, gain, GAL_NO_VALUE, h);
    const gal_linear_names up_names = {"ffn1", "d ffn1", "dw ffn1"};
    uint8_t u = gal_graph_linear_transposed(g, GAL_ROLE_COLUMN, up_names, a, "u", w1, GAL_NO_VALUE, h, 2 * f)->out[0];
    uint8_t act = gal_graph_value(g, "g", f);
    gal_graph_node(g, GAL_NODE_GATED_ACTIVATION, "activation", u, act)->backward_name = "d activation";
    const gal_linear_names down_names = {"ffn2", "d ffn2", "dw ffn2"};
    uint8_t z = gal_graph_linear_transposed(g, GAL_ROLE_ROW, down_names, act, "z", w2, GAL_NO_VALUE, f, h)->out[0];
    gal_graph_residual(g, "add2", "d add2", g->x, z, GAL_NO_VALUE, h);
}

static void head(const gal_model *m, gal_graph *g)
{
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t table_unit = gal_graph_unit(g, m->tied_embeddings ? "embed_tokens" : "head", false, m->tied_embeddings);
    uint8_t gain = gal_graph_vector(g, vectors, "model.norm.weight", GAIN, m->hidden, GAL_INITIAL_ONE);
    uint8_t table =
        gal_graph_tensor(g, table_unit, m->tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight", QUERY, 1,
                         gal_model_padded_vocabulary(m), m->hidden, true, true, GAL_INITIAL_NORMAL);
    g->tensor[table].split_used = m->vocabulary;
    g->x = gal_graph_value(g, "x", m->hidden);
    gal_graph_loss(g, m, gal_graph_norm(g, "norm f", "d norm f", g->x, gain, GAL_NO_VALUE, m->hidden), table,
                   GAL_NO_VALUE);
}

const gal_graph_family gal_graph_llama = {.layer_prefix = "model.layers.",
                                          .embedding_tensor_numbers = 2,
                                          .block_tensor_numbers = NUMBERS,
                                          .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                    [GAL_BLOCK_ATTENTION] = attention,
                                                    [GAL_BLOCK_FFN] = ffn,
                                                    [GAL_BLOCK_HEAD] = head}};
