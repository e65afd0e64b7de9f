/* Parts of the encoder families' blocks (graph_bert.c, graph_vit.c, graph_swin.c). For runtime/program alone. */
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

#endif
