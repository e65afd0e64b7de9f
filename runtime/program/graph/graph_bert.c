/* BERT for masked language modelling: LayerNorm behind every sum, so that a block's sum takes its input as it is and
 * the first linear reads that input too. In the head every device of a tensor-parallel group transforms its rows whole;
 * the table is split over the vocabulary. Public names: BertForMaskedLM. Source: J. Devlin et al., "BERT", arXiv
 * 1810.04805, section 3. */
#include "runtime/program/graph/graph_encoder.h"

enum { WORDS, POSITIONS, TYPES, EMBEDDING_GAIN, EMBEDDING_SHIFT, EMBEDDING_NUMBERS };
enum { TRANSFORM, TRANSFORM_BIAS, HEAD_GAIN, HEAD_SHIFT, HEAD_TABLE, HEAD_BIAS };

static const char table_name[] = "bert.embeddings.word_embeddings.weight";

static void embedding(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden;
    uint8_t table_unit = gal_graph_unit(g, "words", false, m->tied_embeddings);
    uint8_t position_unit = gal_graph_unit(g, "positions", false, false);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t table = gal_graph_matrix(g, table_unit, table_name, WORDS, gal_model_padded_vocabulary(m), h);
    g->tensor[table].split_used = m->vocabulary;
    uint8_t positions = gal_graph_tensor(g, position_unit, "bert.embeddings.position_embeddings.weight", POSITIONS, 1,
                                         m->sequence_length, h, false, true, GAL_INITIAL_NORMAL);
    uint8_t types = gal_graph_tensor(g, position_unit, "bert.embeddings.token_type_embeddings.weight", TYPES, 1,
                                     m->type_count, h, false, true, GAL_INITIAL_NORMAL);
    g->tensor[types].columns = h;
    uint8_t gain = gal_graph_vector(g, vectors, "bert.embeddings.LayerNorm.weight", EMBEDDING_GAIN, h, GAL_INITIAL_ONE);
    uint8_t shift =
        gal_graph_vector(g, vectors, "bert.embeddings.LayerNorm.bias", EMBEDDING_SHIFT, h, GAL_INITIAL_ZERO);
    uint8_t tokens = gal_graph_integers(g, "tokens");
    gal_graph_node(g, GAL_NODE_LOAD, "tokens", GAL_NO_VALUE, tokens);
    gal_node *n = gal_graph_node(g, GAL_NODE_EMBED, "embed", tokens, gal_graph_value(g, "e", h));
    n->role = GAL_ROLE_ROW;
    n->backward_name = "dw embed";
    n->weight = table;
    n = gal_graph_node(g, GAL_NODE_POSITION, "position", n->out[0], gal_graph_value(g, "s", h));
    n->backward_name = "d position";
    n->weight = positions;
    n->bias = types;
    n->types = m->type_count;
    g->y = gal_graph_norm(g, "norm e", "d norm e", n->out[0], gain, shift, h);
    if (m->residual_dropout > 0) {
        const uint8_t a = g->y;
        g->y = gal_graph_value(g, "y", h);
        gal_graph_node(g, GAL_NODE_DROPOUT, "dropout", a, g->y)->backward_name = "d dropout";
    }
}

/* y = norm(x + dropout(o + bias)) */
static void sum_and_norm(const gal_model *m, gal_graph *g, uint8_t o, uint8_t vectors, const char *const names[3])
{
    uint8_t gain = gal_graph_vector(g, vectors, names[0], GAL_ENCODER_GAIN, m->hidden, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, names[1], GAL_ENCODER_SHIFT, m->hidden, GAL_INITIAL_ZERO);
    uint8_t bias = gal_graph_vector(g, vectors, names[2], GAL_ENCODER_OUTPUT_BIAS, m->hidden, GAL_INITIAL_ZERO);
    gal_graph_residual(g, "add", "d add", g->x, o, bias, m->hidden);
    g->y = gal_graph_norm(g, "norm", "d norm", g->y, gain, shift, m->hidden);
}

static void attention(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight"},
        {"attention.self.query.bias", "attention.self.key.bias", "attention.self.value.bias"},
        "attention.output.dense.weight"};
    static const char *const vector_names[3] = {"attention.output.LayerNorm.weight", "attention.output.LayerNorm.bias",
                                                "attention.output.dense.bias"};
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    g->x = gal_graph_value(g, "x", m->hidden);
    const uint8_t lengths = gal_graph_lengths(g, m);
    sum_and_norm(m, g, gal_graph_encoder_attention(g, &names, g->x, GAL_NO_VALUE, lengths, u1, u2), vectors,
                 vector_names);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"intermediate.dense.weight"}, {"intermediate.dense.bias"}, "output.dense.weight"};
    static const char *const vector_names[3] = {"output.LayerNorm.weight", "output.LayerNorm.bias",
                                                "output.dense.bias"};
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "fc", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    g->x = gal_graph_value(g, "x", m->hidden);
    sum_and_norm(m, g, gal_graph_encoder_ffn(g, &names, g->x, u1, u2), vectors, vector_names);
}

static void head(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, v = gal_model_padded_vocabulary(m);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t transform_unit = gal_graph_unit(g, "transform", false, false);
    uint8_t table_unit = gal_graph_unit(g, m->tied_embeddings ? "words" : "head", false, m->tied_embeddings);
    uint8_t bias_unit = gal_graph_unit(g, "bias", true, false);
    uint8_t transform_bias =
        gal_graph_vector(g, vectors, "cls.predictions.transform.dense.bias", TRANSFORM_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t gain =
        gal_graph_vector(g, vectors, "cls.predictions.transform.LayerNorm.weight", HEAD_GAIN, h, GAL_INITIAL_ONE);
    uint8_t shift =
        gal_graph_vector(g, vectors, "cls.predictions.transform.LayerNorm.bias", HEAD_SHIFT, h, GAL_INITIAL_ZERO);
    uint8_t transform = gal_graph_tensor(g, transform_unit, "cls.predictions.transform.dense.weight", TRANSFORM, 1, h,
                                         h, false, true, GAL_INITIAL_NORMAL);
    uint8_t table = gal_graph_matrix(g, table_unit, m->tied_embeddings ? table_name : "cls.predictions.decoder.weight",
                                     HEAD_TABLE, v, h);
    g->tensor[table].split_used = m->vocabulary;
    uint8_t bias = gal_graph_split_bias(g, bias_unit, "cls.predictions.bias", HEAD_BIAS, v);
    g->tensor[bias].split_used = m->vocabulary;
    g->x = gal_graph_value(g, "x", h);
    const gal_linear_names names = {"transform", "d transform", "dw transform"};
    uint8_t u =
        gal_graph_linear_transposed(g, GAL_ROLE_WHOLE, names, g->x, "u", transform, transform_bias, h, h)->out[0];
    uint8_t act = gal_graph_value(g, "g", h);
    gal_graph_node(g, GAL_NODE_ACTIVATION, "activation", u, act)->backward_name = "d activation";
    gal_graph_loss(g, m, gal_graph_norm(g, "norm f", "d norm f", act, gain, shift, h), table, bias);
}

const gal_graph_family gal_graph_bert = {.layer_prefix = "bert.encoder.layer.",
                                         .embedding_tensor_numbers = EMBEDDING_NUMBERS,
                                         .block_tensor_numbers = GAL_ENCODER_NUMBERS,
                                         .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                   [GAL_BLOCK_ATTENTION] = attention,
                                                   [GAL_BLOCK_FFN] = ffn,
                                                   [GAL_BLOCK_HEAD] = head}};
