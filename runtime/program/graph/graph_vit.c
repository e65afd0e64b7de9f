/* ViT for image classification. Every device of a tensor-parallel group embeds its rows' patches whole; the class token
 * is position 0, where the patches are zeros and what the linear makes of them is not read: so all blocks have the same
 * positions. The head norms all rows, takes those of the class token and classifies; labels are split like a
 * vocabulary. Public names: ViTForImageClassification.
 * Source: A. Dosovitskiy et al., "An image is worth 16x16 words", arXiv 2010.11929, section 3.1. */
#include "runtime/program/graph/graph_encoder.h"

enum { POSITIONS = 2, CLASS_TOKEN, EMBEDDING_NUMBERS }; /* behind those of the patches */

static void embedding(const gal_model *m, gal_graph *g)
{
    const uint32_t h = m->hidden;
    uint8_t e = gal_graph_patches(m, g, "vit.embeddings.patch_embeddings.projection.weight",
                                  "vit.embeddings.patch_embeddings.projection.bias");
    uint8_t unit = gal_graph_unit(g, "positions", false, false);
    uint8_t positions = gal_graph_tensor(g, unit, "vit.embeddings.position_embeddings", POSITIONS, 1,
                                         m->sequence_length, h, false, true, GAL_INITIAL_NORMAL);
    g->tensor[positions].columns = h;
    g->tensor[positions].leading_ones = 1;
    uint8_t class_token = gal_graph_vector(g, unit, "vit.embeddings.cls_token", CLASS_TOKEN, h, GAL_INITIAL_NORMAL);
    g->tensor[class_token].leading_ones = 2;
    g->y = gal_graph_value(g, "y", h);
    gal_node *n = gal_graph_node(g, GAL_NODE_POSITION, "position", e, g->y);
    n->backward_name = "d position";
    n->weight = positions;
    n->bias = class_token;
}

static void attention(const gal_model *m, gal_graph *g)
{
    static const gal_encoder_names names = {
        {"attention.attention.query.weight", "attention.attention.key.weight", "attention.attention.value.weight"},
        {"attention.attention.query.bias", "attention.attention.key.bias", "attention.attention.value.bias"},
        "attention.output.dense.weight"};
    (void)m;
    gal_graph_image_attention(g, &names);
}

static void ffn(const gal_model *m, gal_graph *g)
{
    (void)m;
    gal_graph_image_ffn(g);
}

static void head(const gal_model *m, gal_graph *g)
{
    static const gal_image_head parts = {"vit.layernorm.weight", "vit.layernorm.bias", GAL_NODE_FIRST_POSITION,
                                         "class token", "d class token"};
    gal_graph_image_head(m, g, &parts);
}

const gal_graph_family gal_graph_vit = {.layer_prefix = "vit.encoder.layer.",
                                        .embedding_tensor_numbers = EMBEDDING_NUMBERS,
                                        .block_tensor_numbers = GAL_ENCODER_NUMBERS,
                                        .build = {[GAL_BLOCK_EMBEDDING] = embedding,
                                                  [GAL_BLOCK_ATTENTION] = attention,
                                                  [GAL_BLOCK_FFN] = ffn,
                                                  [GAL_BLOCK_HEAD] = head}};
