/* A block as a graph: forward nodes over values, before and after sharding. For runtime/program alone.
 *
 * graph_<family>.c writes the nodes of each block kind, whole (as on one device), from the parts of graph.c. A shard
 * pass (shard_<mode>.c) divides features over its devices and inserts the nodes that communicate; each of them has a
 * backward, like any other node, so nothing else knows the mode. emit.c turns nodes into instructions, forward and
 * backward. */
#ifndef GAL_RUNTIME_PROGRAM_GRAPH_GRAPH_H
#define GAL_RUNTIME_PROGRAM_GRAPH_GRAPH_H

#include "runtime/program/program.h"

enum { GAL_GRAPH_MAX = 24, GAL_NODE_INPUTS = 3, GAL_NO_VALUE = 255, GAL_BLOCK_TENSORS = 11, GAL_BLOCK_UNITS = 5 };

/* What a node's backward reads of the forward: bits of in[0], in[1], out[0], out[1], in[2]. */
enum { GAL_NEEDS_IN0 = 1, GAL_NEEDS_IN1 = 2, GAL_NEEDS_OUT0 = 4, GAL_NEEDS_OUT1 = 8, GAL_NEEDS_IN2 = 16 };

/* X(enumerator, values its backward reads) */
#define GAL_NODES(X)                                                                                                   \
    X(GAL_NODE_LOAD, 0)                              /* -> tokens or targets */                                        \
    X(GAL_NODE_LOAD_PATCHES, 0)                      /* -> patches of images */                                        \
    X(GAL_NODE_LOAD_LENGTHS, 0)                      /* -> lengths of samples */                                       \
    X(GAL_NODE_EMBED, GAL_NEEDS_IN0)                 /* tokens -> e; vocabulary split: partial */                      \
    X(GAL_NODE_POSITION, 0)                          /* e -> y, adds positions (and a type) */                         \
    X(GAL_NODE_NORM, GAL_NEEDS_IN0 | GAL_NEEDS_OUT1) /* x -> a, stats; without a bias by the root mean square */       \
    X(GAL_NODE_LINEAR, GAL_NEEDS_IN0)                /* x -> x W + b */                                                \
    X(GAL_NODE_ROTARY, 0)                            /* qkv: queries and keys turned, in place */                      \
    /* qkv [, -, lengths of the keys] -> ctx, lse; with weight: biased */                                              \
    X(GAL_NODE_ATTENTION, GAL_NEEDS_IN0 | GAL_NEEDS_IN2 | GAL_NEEDS_OUT0 | GAL_NEEDS_OUT1)                             \
    /* q, kv [, lengths of the keys] -> ctx, lse */                                                                    \
    X(GAL_NODE_CROSS_ATTENTION, GAL_NEEDS_IN0 | GAL_NEEDS_IN1 | GAL_NEEDS_IN2 | GAL_NEEDS_OUT0 | GAL_NEEDS_OUT1)       \
    X(GAL_NODE_SCALE, 0)                        /* a -> a / sqrt(features of the stream), in place */                  \
    X(GAL_NODE_ACTIVATION, GAL_NEEDS_IN0)       /* u -> g */                                                           \
    X(GAL_NODE_GATED_ACTIVATION, GAL_NEEDS_IN0) /* u: gate and up -> g */                                              \
    X(GAL_NODE_RESIDUAL, 0)                     /* x, o -> x + dropout(o (+ b)) */                                     \
    X(GAL_NODE_DROPOUT, 0)                      /* x -> y */                                                           \
    X(GAL_NODE_FIRST_POSITION, 0)               /* x -> its rows of position 0 */                                      \
    X(GAL_NODE_MEAN_POSITION, 0)                /* x -> the mean of a sample's rows */                                 \
    X(GAL_NODE_MERGE, 0)                        /* x -> 2 by 2 neighbours of the grid as one row */                    \
    X(GAL_NODE_CROSS_ENTROPY, GAL_NEEDS_IN0 | GAL_NEEDS_IN1 | GAL_NEEDS_OUT0 | GAL_NEEDS_OUT1)                         \
    /* logits, targets -> max, sums; the loss */                                                                       \
    X(GAL_NODE_SPLIT, 0)            /* forward nothing; backward all_reduce */                                         \
    X(GAL_NODE_REDUCE, 0)           /* forward all_reduce; backward nothing */                                         \
    X(GAL_NODE_GATHER_SEQUENCE, 0)  /* forward all_gather; backward reduce_scatter: chunks of positions, or features   \
                                     * to a panel */                                                                   \
    X(GAL_NODE_SCATTER_SEQUENCE, 0) /* forward reduce_scatter; backward all_gather: likewise */                        \
    X(GAL_NODE_DEAL_HEADS, 0)       /* all heads of a chunk of the positions -> all positions of own heads */          \
    X(GAL_NODE_COLLECT_HEADS, 0)    /* the reverse; each the other's backward */                                       \
    X(GAL_NODE_MIRROR, 0)           /* the second half of the positions from the device as far from the other end;     \
                                     * its own backward */                                                             \
    X(GAL_NODE_RING_ATTENTION, GAL_NEEDS_IN0 | GAL_NEEDS_OUT0 | GAL_NEEDS_OUT1) /* attention; keys pass round */       \
    X(GAL_NODE_TURN, 0)                                                         /* behind a product of a 3d grid: rows \
                                                                                 * and features as before it */        \
    X(GAL_NODE_ADD_BIAS, 0)                                                     /* x -> x + b, in place */

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
    bool single;       /* one row per sample */
    bool carried;      /* positions are those of the carried tensor, not the block's */
    bool merged;       /* positions are a quarter of the block's: those behind its merge */
    bool dealt;        /* all positions of own heads: between the exchanges around attention */
    bool int32;
    bool wide;           /* statistics and sums of rows: fp32 beside narrower activations */
    bool turned;         /* on a 3d grid: rows and features as behind a block's first product (gal_layout_turn) */
    uint32_t row_blocks; /* rows of so many devices, one device's behind another's; 0: its own */
} gal_value;

typedef struct gal_node {
    gal_node_kind kind;
    gal_role role;
    const char *name, *backward_name, *weight_gradient_name;
    uint8_t in[GAL_NODE_INPUTS], out[2];
    uint8_t weight, bias;               /* tensors of the block, or the first of several joined; GAL_NO_VALUE: none */
    bool weight_transposed;             /* stored [out][in] */
    uint32_t attention_flags;           /* GAL_ATTENTION_* */
    uint32_t types;                     /* of a position node: rows of the table `bias`; 0: `bias` is a class token.
                                         * Of one unit with `weight`: a kernel adds to all its gradients or to none */
    uint32_t in_features, out_features; /* of a linear, on this device */
    uint32_t part[GAL_FEATURE_PARTS];   /* of an exchange of heads: features on this device of queries, keys, values */
    bool over_sequence;                 /* of a reduce: over the axis of the positions, not over tp */
    /* Of a linear: its input or output is a panel of so many matrices [rows][features], one behind another, each the
     * part of the features that one device of the group has; 0: a plain one. Its weight is gathered to as many. */
    uint32_t in_panel, out_panel;
    uint32_t steps; /* of a linear on a square: so many, each of a part of its input (emit_stepped.c); 0: gathered */
    bool steps_outputs; /* of its output instead */
    gal_group over;     /* of a gather or scatter: the devices; GAL_GROUP_NONE: tp */
} gal_node;

/* Tensors of a block, grouped in units (gal_unit). */
typedef struct gal_tensor {
    const char *suffix; /* of the public name */
    uint8_t unit;
    uint8_t joined;  /* tensors behind it that are read with it as one: outputs of one linear */
    uint32_t number; /* within the block: key of initial weights */
    uint64_t outer, split, inner, split_used; /* global */
    uint64_t columns;                         /* of the public matrix; 0: a vector */
    uint8_t leading_ones;                     /* as gal_parameter */
    uint32_t window;
    bool is_split;                                   /* over tp by the shard pass */
    gal_group outer_group, split_group, inner_group; /* set by the shard pass: as of gal_parameter */
    gal_group gather_group; /* of these the devices over which kernels read it gathered; GAL_GROUP_NONE: none */
    bool decays;
    gal_initial initial;
} gal_tensor;

typedef struct gal_block_unit {
    const char *name;
    bool persistent;   /* norms and row biases: never sharded by ZeRO */
    gal_shared shared; /* what it is of the tensors that several blocks hold; GAL_SHARED_COUNT: its own */
    bool by_heads;     /* every device holds it whole and reads the columns of its own heads: the gradient of the others
                        * is zero there, so it is a partial sum over a tensor-parallel group too */
} gal_block_unit;

typedef struct gal_graph {
    gal_block_shape shape;
    const char *layer_prefix;          /* of the public names of a layer's tensors: "h." */
    uint32_t embedding_tensor_numbers; /* of the first block's tensors: those below */
    uint32_t block_tensor_numbers;     /* by which numbers of a block's tensors differ from those of the next */
    uint32_t value_count, node_count, tensor_count, unit_count;
    gal_value value[GAL_GRAPH_MAX];
    gal_node node[GAL_GRAPH_MAX];
    gal_tensor tensor[GAL_BLOCK_TENSORS];
    gal_block_unit unit[GAL_BLOCK_UNITS];
    uint8_t x, y;                    /* the block's input and output; GAL_NO_VALUE: none */
    uint8_t carried_in, carried_out; /* the carried tensor that it reads or makes; GAL_NO_VALUE: none */
    uint32_t tp_degree;              /* set by the shard passes ... */
    uint32_t sequence_degree;        /* of the axis that splits positions */
    uint32_t head_degree;            /* devices that share the heads of attention */
    uint32_t feature_parts;          /* of rows between blocks, and of what their norms read */
    bool head;                       /* forward runs inside backward */
} gal_graph;

/* The forward nodes of a block on one device. */
void gal_graph_of(const gal_model *model, const gal_block_shape *shape, gal_graph *out);
/* The node that gives a value, or GAL_NO_VALUE for the block's input. */
uint8_t gal_graph_producer(const gal_graph *graph, uint8_t value);

/* A family: what writes the blocks; g->shape says which block, and a builder may set g->layer_prefix. */
typedef struct gal_graph_family {
    const char *layer_prefix;
    uint32_t embedding_tensor_numbers, block_tensor_numbers;
    void (*build[GAL_BLOCK_KIND_COUNT])(const gal_model *model, gal_graph *g);
} gal_graph_family;

extern const gal_graph_family gal_graph_decoder, gal_graph_llama, gal_graph_bert, gal_graph_vit, gal_graph_t5,
    gal_graph_swin;

/* The parts of which they write them. Values, units and tensors are named by their index. */
uint8_t gal_graph_value(gal_graph *g, const char *name, uint32_t features);
uint8_t gal_graph_integers(gal_graph *g, const char *name);
uint8_t gal_graph_sums(gal_graph *g, const char *name, uint32_t features); /* wide */
/* tied: it is the token table. */
uint8_t gal_graph_unit(gal_graph *g, const char *name, bool persistent, bool tied);
/* is_split: by the shard pass, over `split`. Tensors that decay are listed first in every unit. */
uint8_t gal_graph_tensor(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t outer,
                         uint64_t split, uint64_t inner, bool is_split, bool decays, gal_initial initial);
/* A vector that every device of a tensor-parallel group holds whole. */
uint8_t gal_graph_vector(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint32_t n,
                         gal_initial initial);
/* Of families that store weights [out][in]: the rows of one that a column-parallel linear reads are split, the columns
 * of one that a row-parallel linear reads; and the bias of the former. */
uint8_t gal_graph_matrix(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t rows, uint64_t in);
uint8_t gal_graph_row_matrix(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t rows,
                             uint64_t in);
uint8_t gal_graph_split_bias(gal_graph *g, uint8_t unit, const char *suffix, uint32_t number, uint64_t n);
gal_node *gal_graph_node(gal_graph *g, gal_node_kind kind, const char *name, uint8_t in0, uint8_t out0);
/* Names of a linear: forward, backward, weight gradient. */
typedef struct gal_linear_names {
    const char *forward, *backward, *gradient;
} gal_linear_names;
gal_node *gal_graph_linear(gal_graph *g, gal_role role, gal_linear_names names, uint8_t x, const char *y_name,
                           uint8_t weight, uint8_t bias, uint32_t in, uint32_t out);
/* The same with a weight that is stored [out][in]. */
gal_node *gal_graph_linear_transposed(gal_graph *g, gal_role role, gal_linear_names names, uint8_t x,
                                      const char *y_name, uint8_t weight, uint8_t bias, uint32_t in, uint32_t out);
/* bias GAL_NO_VALUE: by the root mean square. */
uint8_t gal_graph_norm(gal_graph *g, const char *name, const char *backward, uint8_t x, uint8_t gain, uint8_t bias,
                       uint32_t hidden);
/* The end of an inner block, or what its norm reads: gives the block's y. bias may be GAL_NO_VALUE. */
void gal_graph_residual(gal_graph *g, const char *name, const char *backward, uint8_t x, uint8_t o, uint8_t bias,
                        uint32_t hidden);
/* How many positions of each sample are keys, where the model pads: what attention to all positions reads. Else
 * GAL_NO_VALUE. */
uint8_t gal_graph_lengths(gal_graph *g, const gal_model *m);
/* The end of a head: logits of a [vocabulary][hidden] table, and of a bias or GAL_NO_VALUE, against targets. */
void gal_graph_loss(gal_graph *g, const gal_model *m, uint8_t a, uint8_t table, uint8_t bias);

/* Rewrite the graph in place. 1D tensor parallelism over tp, with or without Megatron sequence parallelism. */
void gal_shard_1d(gal_graph *graph, const gal_atoms *atoms, gal_group tp, bool sequence_parallel);
/* 2D (and within each part of the samples 2.5D) on rows and columns of equal size; products gathered or in steps. */
void gal_shard_2d(gal_graph *graph, const gal_atoms *atoms, gal_group row, gal_group column, bool stepped);
/* 3D, on a cube of the groups along which weights and inputs are gathered and outputs scattered. */
void gal_shard_3d(gal_graph *graph, const gal_atoms *atoms, gal_group weights, gal_group inputs, gal_group outputs);
/* Ulysses, a ring or a zigzag, behind 1D: positions split everywhere, in attention heads or rows that pass round. */
void gal_shard_sequence(gal_graph *graph, gal_axis_kind kind, uint32_t degree);

#endif
