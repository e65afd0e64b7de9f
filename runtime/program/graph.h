/* A block as a graph: forward nodes over values, before and after sharding. For runtime/program alone.
 *
 * graph.c writes the nodes of each block kind, whole (as on one device). A shard pass (shard_<mode>.c) divides features
 * over its devices and inserts the nodes that communicate; each of them has a backward, like any other node, so
 * nothing else knows the mode. emit.c turns nodes into instructions, forward and backward. */
#ifndef GAL_RUNTIME_PROGRAM_GRAPH_H
#define GAL_RUNTIME_PROGRAM_GRAPH_H

#include "runtime/program/program.h"

enum { GAL_GRAPH_MAX = 24, GAL_NODE_VALUES = 4, GAL_NO_VALUE = 255, GAL_BLOCK_TENSORS = 8, GAL_BLOCK_UNITS = 4 };

/* What a node's backward reads of the forward: bits of in[0], in[1], out[0], out[1]. */
enum { GAL_NEEDS_IN0 = 1, GAL_NEEDS_IN1 = 2, GAL_NEEDS_OUT0 = 4, GAL_NEEDS_OUT1 = 8 };

/* X(enumerator, values its backward reads) */
#define GAL_NODES(X)                                                                                                   \
    X(GAL_NODE_LOAD, 0)                              /* -> tokens or targets */                                        \
    X(GAL_NODE_EMBED, GAL_NEEDS_IN0)                 /* tokens -> e; vocabulary split: partial */                      \
    X(GAL_NODE_POSITION, 0)                          /* e -> y, adds positions, dropout */                             \
    X(GAL_NODE_NORM, GAL_NEEDS_IN0 | GAL_NEEDS_OUT1) /* x -> a, stats */                                               \
    X(GAL_NODE_LINEAR, GAL_NEEDS_IN0)                /* x -> x W + b */                                                \
    X(GAL_NODE_ATTENTION, GAL_NEEDS_IN0 | GAL_NEEDS_OUT0 | GAL_NEEDS_OUT1) /* qkv -> ctx, lse */                       \
    X(GAL_NODE_ACTIVATION, GAL_NEEDS_IN0)                                  /* u -> g */                                \
    X(GAL_NODE_RESIDUAL, 0)                                                /* x, o -> x + dropout(o + b) */            \
    X(GAL_NODE_CROSS_ENTROPY, GAL_NEEDS_IN0 | GAL_NEEDS_IN1 | GAL_NEEDS_OUT0 | GAL_NEEDS_OUT1)                         \
    /* logits, targets -> max, sums; the loss */                                                                       \
    X(GAL_NODE_SPLIT, 0)            /* forward nothing; backward all_reduce */                                         \
    X(GAL_NODE_REDUCE, 0)           /* forward all_reduce; backward nothing */                                         \
    X(GAL_NODE_GATHER_SEQUENCE, 0)  /* forward all_gather; backward reduce_scatter */                                  \
    X(GAL_NODE_SCATTER_SEQUENCE, 0) /* forward reduce_scatter; backward all_gather */

typedef enum gal_node_kind {
#define X(enumerator, needs) enumerator,
    GAL_NODES(X)
#undef X
        GAL_NODE_COUNT
} gal_node_kind;

extern const uint8_t gal_node_backward_needs[GAL_NODE_COUNT];

/* How a node with weights is divided: column keeps its output's features split, row sums partial outputs. */
typedef enum gal_role { GAL_ROLE_WHOLE, GAL_ROLE_COLUMN, GAL_ROLE_ROW } gal_role;

typedef struct gal_value {
    const char *name;
    uint32_t features; /* elements per row, on this device */
    bool chunk;        /* rows are a chunk of the positions (sequence parallel) */
    bool int32;
} gal_value;

typedef struct gal_node {
    gal_node_kind kind;
    gal_role role;
    const char *name, *backward_name, *weight_gradient_name;
    uint8_t in[2], out[2];
    uint8_t weight, bias;               /* tensors of the block, GAL_NO_VALUE: none */
    bool weight_transposed;             /* stored [out][in] */
    uint32_t in_features, out_features; /* of a linear, on this device */
} gal_node;

/* Tensors of a block, grouped in units (gal_unit). */
typedef struct gal_tensor {
    const char *suffix; /* of the public name */
    uint8_t unit;
    uint32_t number;                          /* within the block: key of initial weights */
    uint64_t outer, split, inner, split_used; /* global */
    bool is_split;                            /* over tp by the shard pass */
    bool decays;
    gal_initial initial;
} gal_tensor;

typedef struct gal_block_unit {
    const char *name;
    bool persistent; /* norms and row biases: never sharded by ZeRO */
    bool tied;       /* the token table */
} gal_block_unit;

typedef struct gal_graph {
    gal_block_kind kind;
    uint32_t value_count, node_count, tensor_count, unit_count;
    gal_value value[GAL_GRAPH_MAX];
    gal_node node[GAL_GRAPH_MAX];
    gal_tensor tensor[GAL_BLOCK_TENSORS];
    gal_block_unit unit[GAL_BLOCK_UNITS];
    uint8_t x, y;       /* the block's input and output; GAL_NO_VALUE: none */
    uint32_t tp_degree; /* set by the shard pass */
    bool head;          /* forward runs inside backward */
} gal_graph;

/* The forward nodes of a block on one device. */
void gal_graph_of(const gal_model *model, gal_block_kind kind, gal_graph *out);

/* 1D tensor parallelism, with or without Megatron sequence parallelism. Rewrites the graph in place. */
void gal_shard_1d(gal_graph *graph, uint32_t tp_degree, bool sequence_parallel);

#endif
