/* Parts of the encoder families' blocks (graph_bert.c, graph_vit.c, graph_swin.c): of graph_encoder.c all, of
 * graph_image.c ViT and Swin. For runtime/program alone. */
#ifndef GAL_RUNTIME_PROGRAM_GRAPH_GRAPH_ENCODER_H
#define GAL_RUNTIME_PROGRAM_GRAPH_GRAPH_ENCODER_H

#include "runtime/program/graph/graph.h"

/* Numbers of tensors within a block: keys of their initial weights. WEIGHT and BIAS are three each. */
enum {
    GAL_ENCODER_GAIN,
    GAL_ENCODER_SHIFT,
    GAL_ENCODER_WEIGHT,
    GAL_ENCODER_BIAS = GAL_ENCODER_WEIGHT + 3,
    GAL_ENCODER_OUTPUT = GAL_ENCODER_BIAS + 3,
    GAL_ENCODER_OUTPUT_BIAS,
    GAL_ENCODER_NUMBERS
};

/* Suffixes of the public names: of attention queries, keys and values; of an FFN the first matrix alone. */
typedef struct gal_encoder_names {
    const char *weight[3], *bias[3], *output_weight;
} gal_encoder_names;

/* Heads, features and the stream's width are the block's (g->shape). table: of relative positions, a tensor, or
 * GAL_NO_VALUE; lengths: a value, likewise. From the block's normed or plain input `a` to what its sum adds, without
 * the bias of that. */
uint8_t gal_graph_encoder_attention(gal_graph *g, const gal_encoder_names *names, uint8_t a, uint8_t table,
                                    uint8_t lengths, uint8_t weights, uint8_t output_unit);
uint8_t gal_graph_encoder_ffn(gal_graph *g, const gal_encoder_names *names, uint8_t a, uint8_t weights,
                              uint8_t output_unit);

/* The first unit of an embedding, "patches", with the tensors of numbers 0 and 1: rows of so many features as the
 * stream has, from patches that are loaded. */
uint8_t gal_graph_patches(const gal_model *m, gal_graph *g, const char *weight_name, const char *bias_name);
/* The mean and the variance taken out of rows of a value; the gain has the number, the shift the next one. */
uint8_t gal_graph_image_norm(gal_graph *g, uint8_t vectors, const char *gain_name, const char *shift_name,
                             uint32_t number, uint8_t x);
/* Whole blocks. Attention to windows, if the block has such, has a tensor more: its number is GAL_ENCODER_NUMBERS. */
void gal_graph_image_attention(gal_graph *g, const gal_encoder_names *names);
void gal_graph_image_ffn(gal_graph *g);

/* Names of a head's norm, and the node that makes one row of a sample's. */
typedef struct gal_image_head {
    const char *gain, *shift;
    gal_node_kind kind;
    const char *name, *backward_name;
} gal_image_head;

void gal_graph_image_head(const gal_model *m, gal_graph *g, const gal_image_head *head);

#endif
