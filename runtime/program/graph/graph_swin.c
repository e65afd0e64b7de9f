/* Swin for image classification. Every device of a 1d tensor-parallel group embeds its rows' patches whole, and merges
 * them whole: a merge is one matrix with nothing to pair it with; a grid splits its features as any others. With
 * sequence parallelism a device's chunk is rows of the grid, an even number where they merge, so neighbours are on one
 * device. The table of relative positions of an attention block is split by heads. The head classifies by the mean of
 * all normed rows. Public names: SwinForImageClassification. Source: Z. Liu et al., "Swin Transformer: hierarchical
 * vision Transformer using shifted windows", arXiv 2103.14030, section 3. */
#include "runtime/program/graph/graph_encoder.h"

enum { EMBEDDING_GAIN = 2, EMBEDDING_SHIFT, EMBEDDING_NUMBERS }; /* behind those of the patches */
enum { NUMBERS = GAL_ENCODER_NUMBERS + 1 };                      /* the table of relative positions */
enum { MERGE_GAIN, MERGE_SHIFT, REDUCTION };

static void set_prefix(gal_graph *g)
{
    static const char *const prefixes[GAL_LEVELS_MAX] = {
        "swin.encoder.layers.0.blocks.", "swin.encoder.layers.1.blocks.", "swin.encoder.layers.2.blocks.",
        "swin.encoder.layers.3.blocks.", "swin.encoder.layers.4.blocks.", "swin.encoder.layers.5.blocks."};
    g->layer_prefix = prefixes[g->shape.level];
}

static void embedding(const gal_model *m, gal_graph *g)
{
    uint8_t e = gal_graph_patches(m, g, "swin.embeddings.patch_embeddings.projection.weight",
                                  "swin.embeddings.patch_embeddings.projection.bias");
    uint8_t vectors = gal_graph_unit(g, "vectors", true, false);
    g->y =
        gal_graph_image_norm(g, vectors, "swin.embeddings.norm.weight", "swin.embeddings.norm.bias", EMBEDDING_GAIN, e);
    if (m->residual_dropout > 0) {
        uint8_t y = gal_graph_value(g, "y", m->hidden);
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
    (void)m;
    set_prefix(g);
    gal_graph_image_attention(g, &names);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    (void)m;
    set_prefix(g);
    gal_graph_image_ffn(g);
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
    static const gal_image_head parts = {"swin.layernorm.weight", "swin.layernorm.bias", GAL_NODE_MEAN_POSITION, "mean",
                                         "d mean"};
    gal_graph_image_head(m, g, &parts);
}

const gal_graph_family gal_graph_swin = {.layer_prefix = "swin.encoder.layers.",
                                         .embedding_tensor_numbers = EMBEDDING_NUMBERS,
                                         .block_tensor_numbers = NUMBERS,
                                         .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                   [GAL_BLOCK_ATTENTION] = attention,
                                                   [GAL_BLOCK_FFN] = ffn,
                                                   [GAL_BLOCK_MERGE] = merge,
                                                   [GAL_BLOCK_HEAD] = head}};
