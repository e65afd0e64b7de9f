/* Swin for image classification. Every device of a 1d tensor-parallel group embeds its rows' patches whole, and merges
 * them whole: a merge is one matrix with nothing to pair it with; a grid splits its features as any others. With
 * sequence parallelism a device's chunk is rows of the grid, an even number where they merge, so neighbours are on one
 * device. The table of relative positions of an attention block is split by heads. The head classifies by the mean of
 * all normed rows. Public names: SwinForImageClassification. Source: Z. Liu et al., "Swin Transformer: hierarchical
 * vision Transformer using shifted windows", arXiv 2103.14030, section 3. */
#include "runtime/program/graph/graph_encoder.h"

enum { PROJECTION, PROJECTION_BIAS, EMBEDDING_GAIN, EMBEDDING_SHIFT, EMBEDDING_NUMBERS };
enum { TABLE = GAL_ENCODER_NUMBERS, NUMBERS };
enum { HEAD_GAIN, HEAD_SHIFT, CLASSIFIER, CLASSIFIER_BIAS };
enum { MERGE_GAIN, MERGE_SHIFT, REDUCTION };

static void set_prefix(gal_graph *g)
{
    static const char *const prefixes[GAL_LEVELS_MAX] = {
        "swin.encoder.layers.0.blocks.", "swin.encoder.layers.1.blocks.", "swin.encoder.layers.2.blocks.",
        "swin.encoder.layers.3.blocks.", "swin.encoder.layers.4.blocks.", "swin.encoder.layers.5.blocks."};
    g->layer_prefix = prefixes[g->shape.level];
}

/* The mean and the variance taken out of rows of a value. */
static uint8_t norm(gal_graph *g, uint8_t vectors, const char *gain_name, const char *shift_name, uint32_t number,
                    uint8_t x)
{
    const uint32_t features = g->value[x].features;
    uint8_t gain = gal_graph_vector(g, vectors, gain_name, number, features, GAL_INITIAL_ONE);
    uint8_t shift = gal_graph_vector(g, vectors, shift_name, number + 1, features, GAL_INITIAL_ZERO);
    return gal_graph_norm(g, "norm", "d norm", x, gain, shift, features);
}

static void embedding(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden, features = gal_model_patch_features(m);
    uint8_t projection_unit = gal_graph_unit(g, "patches", false, false);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t projection = gal_graph_tensor(g, projection_unit, "swin.embeddings.patch_embeddings.projection.weight",
                                          PROJECTION, 1, h, features, false, true, GAL_INITIAL_NORMAL);
    g->tensor[projection].columns = features;
    g->tensor[projection].window = m->patch_size;
    uint8_t bias = gal_graph_vector(g, projection_unit, "swin.embeddings.patch_embeddings.projection.bias",
                                    PROJECTION_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t patches = gal_graph_value(g, "patches", features);
    gal_graph_node(g, GAL_NODE_LOAD_PATCHES, "patches", GAL_NO_VALUE, patches);
    const gal_linear_names names = {"embed", "", "dw embed"};
    uint8_t e =
        gal_graph_linear_transposed(g, GAL_ROLE_WHOLE, names, patches, "e", projection, bias, features, h)->out[0];
    g->y = norm(g, vectors, "swin.embeddings.norm.weight", "swin.embeddings.norm.bias", EMBEDDING_GAIN, e);
    if (m->residual_dropout > 0) {
        uint8_t y = gal_graph_value(g, "y", h);
        gal_graph_node(g, GAL_NODE_DROPOUT, "dropout", g->y, y)->backward_name = "d dropout";
        g->y = y;
    }
}

static void attention(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight"},
        {"attention.self.query.bias", "attention.self.key.bias", "attention.self.value.bias"},
        "attention.output.dense.weight"};
    const uint32_t h = g->shape.in.features, offsets = 2 * g->shape.window - 1;
    (void)m;
    set_prefix(g);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "qkv", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    uint8_t u3 = gal_graph_unit(g, "bias", true, false);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = norm(g, vectors, "layernorm_before.weight", "layernorm_before.bias", GAL_ENCODER_GAIN, g->x);
    uint8_t bias =
        gal_graph_vector(g, vectors, "attention.output.dense.bias", GAL_ENCODER_OUTPUT_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t table = gal_graph_tensor(g, u3, "attention.self.relative_position_bias_table", TABLE, offsets * offsets,
                                     g->shape.head_count, 1, true, false, GAL_INITIAL_NORMAL);
    g->tensor[table].columns = g->shape.head_count;
    uint8_t o = gal_graph_encoder_attention(g, &names, a, table, GAL_NO_VALUE, u1, u2);
    gal_graph_residual(g, "add1", "d add1", g->x, o, bias, h);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"intermediate.dense.weight"}, {"intermediate.dense.bias"}, "output.dense.weight"};
    const uint32_t h = g->shape.in.features;
    (void)m;
    set_prefix(g);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t u1 = gal_graph_unit(g, "fc", false, false);
    uint8_t u2 = gal_graph_unit(g, "proj", false, false);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = norm(g, vectors, "layernorm_after.weight", "layernorm_after.bias", GAL_ENCODER_GAIN, g->x);
    uint8_t bias = gal_graph_vector(g, vectors, "output.dense.bias", GAL_ENCODER_OUTPUT_BIAS, h, GAL_INITIAL_ZERO);
    uint8_t z = gal_graph_encoder_ffn(g, &names, a, u1, u2);
    gal_graph_residual(g, "add2", "d add2", g->x, z, bias, h);
}

/* Where a grid splits features, a merged row has a part of each neighbour's: what is as wide as four of them is cut
 * within each, [4][features]. */
static void merge(const gal_model *m, gal_graph *g)
{
    const uint32_t in = g->shape.in.features, joined = 4 * in, out = g->shape.out.features;
    (void)m;
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t unit = gal_graph_unit(g, "reduction", false, false);
    g->x = gal_graph_value(g, "x", in);
    uint8_t four = gal_graph_value(g, "four", joined);
    gal_graph_node(g, GAL_NODE_MERGE, "merge", g->x, four)->backward_name = "d merge";
    uint8_t gain =
        gal_graph_tensor(g, vectors, "downsample.norm.weight", MERGE_GAIN, 4, in, 1, false, false, GAL_INITIAL_ONE);
    uint8_t shift =
        gal_graph_tensor(g, vectors, "downsample.norm.bias", MERGE_SHIFT, 4, in, 1, false, false, GAL_INITIAL_ZERO);
    uint8_t reduction = gal_graph_tensor(g, unit, "downsample.reduction.weight", REDUCTION, 4 * (uint64_t)out, in, 1,
                                         false, true, GAL_INITIAL_NORMAL);
    g->tensor[gain].columns = g->tensor[shift].columns = 0;
    g->tensor[reduction].columns = joined;
    uint8_t a = gal_graph_norm(g, "norm", "d norm", four, gain, shift, joined);
    const gal_linear_names names = {"reduce", "d reduce", "dw reduce"};
    g->y = gal_graph_linear_transposed(g, GAL_ROLE_WHOLE, names, a, "y", reduction, GAL_NO_VALUE, joined, out)->out[0];
    for (uint8_t v = four; v < g->value_count; v++) {
        g->value[v].merged = true;
    }
}

static void head(const gal_model *m, gal_graph *g)
{
    const uint32_t h = g->shape.in.features, labels = gal_model_padded_vocabulary(m);
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    uint8_t unit = gal_graph_unit(g, "classifier", false, false);
    g->x = gal_graph_value(g, "x", h);
    uint8_t a = norm(g, vectors, "swin.layernorm.weight", "swin.layernorm.bias", HEAD_GAIN, g->x);
    uint8_t classifier = gal_graph_matrix(g, unit, "classifier.weight", CLASSIFIER, labels, h);
    uint8_t bias = gal_graph_split_bias(g, unit, "classifier.bias", CLASSIFIER_BIAS, labels);
    g->tensor[classifier].split_used = g->tensor[bias].split_used = m->vocabulary;
    uint8_t mean = gal_graph_value(g, "c", h);
    g->value[mean].single = true;
    gal_graph_node(g, GAL_NODE_MEAN_POSITION, "mean", a, mean)->backward_name = "d mean";
    gal_graph_loss(g, m, mean, classifier, bias);
}

const gal_graph_family gal_graph_swin = {.layer_prefix = "swin.encoder.layers.",
                                         .embedding_tensor_numbers = EMBEDDING_NUMBERS,
                                         .block_tensor_numbers = NUMBERS,
                                         .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                   [GAL_BLOCK_ATTENTION] = attention,
                                                   [GAL_BLOCK_FFN] = ffn,
                                                   [GAL_BLOCK_MERGE] = merge,
                                                   [GAL_BLOCK_HEAD] = head}};
