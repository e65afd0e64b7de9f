/* The vocabulary of instructions: one table for documents, programs, kernels, prices and checks.
 *
 * A shape is (kind, dtype, dims[]): it fixes a kernel's work and is the key of a profile's operator table. Rows of an
 * activation are ordered [position][sample]; T = positions * samples. Operands are of the shape's dtype, but tokens and
 * targets int32, loss and norm fp64, and, where the dtype is bf16 or fp16, fp32: statistics, reciprocals, lse, max,
 * sums, gradients of weights and what the optimizer keeps (gal_operand_dtype). Operand order and access (r read, w
 * write, u read-write, a accumulate: write in a call's first microbatch, add afterwards) are part of the contract:
 *
 * kind                 dims                                               operands
 * load_tokens          samples, sequence                                  w int32[samples][sequence]
 * load_targets         samples, sequence                              w int32[samples][sequence]; -1: not in the loss
 * load_patches         samples, positions_local, features             w x[T][features]: an image's patches, of a
 *                                                                     model with a class token behind zeros for it
 * load_decoder_tokens  samples, sequence                              w int32[samples][sequence]: the targets, one
 *                                                                     position later, behind token 0
 * load_lengths         samples, sequence                              w int32[samples]: the positions of each sample
 *                                                                     that are not padding, 1 to sequence
 * embed                samples, sequence, hidden, vocabulary_local    r tokens, r table[vocabulary_local][hidden],
 *                                                                     w e[T][hidden] (0 where the id is elsewhere)
 * embed_backward       samples, sequence, hidden, vocabulary_local        r tokens, r de, a|u dtable
 * position             samples, positions_local, hidden, sequence,        r e, r table[sequence][hidden], w y (dropout)
 *                      types, class_token (0|1)                           [, r type[types][hidden]: row 0 is added too]
 *                                                                     [, r class[hidden]: instead of e at position 0]
 * position_backward    as position                                    r dy, w de, a dtable[sequence][hidden]
 *                                                                     [, a dtype] [, a dclass]
 * layer_norm           rows, hidden                                       r x, r gain, r bias, w y, w stats[2][rows]
 *                                                                         (means, then reciprocal deviations)
 * layer_norm_backward  rows, hidden, addend (0|1)                         r dy, r x, r gain, r stats, w dx, a dgain,
 *                                                                         a dbias [, r addend]: dx = addend + norm'(dy)
 * rms_norm             rows, hidden                                       r x, r gain, w y, w reciprocals[rows]
 *                                                                         (of the root of mean x^2 + epsilon)
 * rms_norm_backward    rows, hidden, addend (0|1)                         r dy, r x, r gain, r reciprocals, w dx,
 *                                                                         a dgain [, r addend]
 * norm_sums            rows, features                                 r x, w moments[2][rows]: of the features here the
 *                                                                     mean, and the sum of squared deviations from it
 * norm_by_sums         rows, features, parts, centred (0|1)           r x, r gain, r moments[parts][2][rows] of all
 *                                                                     parts of the rows, features each, w y, w stats
 *                                                                     as layer_norm (centred) or rms_norm has them
 *                                                                     [, r bias: centred]
 * norm_sums_backward   rows, features, centred                        r dy, r x, r gain, r stats, w sums[2][rows]: of
 *                                                                     d = dy gain and of d xhat, a dgain
 *                                                                     [, a dbias: centred]
 * norm_by_sums_backward rows, features, parts, centred, addend (0|1)  r dy, r x, r gain, r stats, r sums[2][rows] over
 *                                                                     all parts, w dx [, r addend]
 * add_bias             rows, features                                 u x, r bias
 * gemm                 m, n, k, flags (GAL_GEMM_*)                        r a, r b, w|a|u c[m][n] [, r bias[n]]
 *                                                                         c = op(a)[m][k] op(b)[k][n] (+ bias);
 *                                                                         FP32_C: c is a gradient of weights
 * bias_gradient        rows, features                                     r dy, a dbias: column sums
 * rotary               samples, sequence, heads, head_dim, row_features,  u x[T][row_features], of a row the first
 *                      inverse (0|1)                                      heads*head_dim turned by their position
 * attention            samples, sequence, heads_local, head_dim,          r qkv[T][heads_local + 2 kv_heads_local]
 *                      kv_heads_local, flags (GAL_ATTENTION_*)            [head_dim]: queries, then keys, then values;
 *                                                                         w ctx[T][heads_local*head_dim],
 *                                                                         w lse[samples][heads_local][sequence]
 *                                                                     [, r lengths[samples]: keys from there on are
 *                                                                     not seen; the shape says nothing of them, so a
 *                                                                     padded attention has the price of a whole one.
 *                                                                     Not of causal ones: a query that counts sees
 *                                                                     no key behind its own]
 * attention_backward   as attention                                   r dctx, r qkv, r ctx, r lse, w dqkv
 *                                                                     [, r lengths]
 * relative_attention   samples, sequence, heads_local, head_dim,      as attention, every head with its own keys, not
 *                      causal (0|1), buckets, max_distance            divided by sqrt(head_dim): r qkv, r bias[buckets]
 *                                                                     [heads of the group], w ctx, w lse; a score is
 *                                                                     q k + bias[bucket(key - query)] [, r lengths]
 * relative_attention_backward as relative_attention                   r dctx, r qkv, r ctx, r lse, r bias, w dqkv,
 *                                                                     a dbias: zeros for the heads of others, here and
 *                                                                     in windows [, r lengths]
 * window_attention     samples, sequence, heads_local, head_dim,      r qkv[T][3 heads_local][head_dim], r bias[(2
 *                      side, window, shift                            window - 1)^2][heads of the table's part: those
 *                                                                     of `within` together], w ctx, w lse as
 *                                                                     attention. Positions are a grid [side][side],
 *                                                                     turned by shift: (y, x) is at (y - shift, x -
 *                                                                     shift), modulo side. A query sees the positions
 *                                                                     of its window. A score is q k / sqrt(head_dim) +
 *                                                                     bias[(dy + window - 1) (2 window - 1) + dx +
 *                                                                     window - 1], dy and dx the query's row and column
 *                                                                     less the key's; less 100 where only the turn made
 *                                                                     neighbours of them
 * window_attention_backward as window_attention                       r dctx, r qkv, r ctx, r lse, r bias, w dqkv,
 *                                                                     a dbias
 * cross_attention      samples, queries, heads_local, head_dim, keys  r q[queries samples][heads_local*head_dim],
 *                                                                     r kv[keys samples][2 heads_local][head_dim],
 *                                                                     w ctx, w lse; not divided, nothing masked but
 *                                                                     [, r lengths: of the keys]
 * cross_attention_backward as cross_attention                         r dctx, r q, r kv, r ctx, r lse, w dq, w dkv
 *                                                                     [, r lengths]
 * take_keys            rows, heads_local, kv_heads_local, head_dim    r qkv as attention, w kv[rows][2 kv_heads_local]
 *                                                                     [head_dim]: keys, then values
 * attention_step       samples, positions_local, heads_local,         as attention, of the queries of a chunk of the
 *                      head_dim, kv_heads_local, flags, step,         positions and the keys of the chunk `step` chunks
 *                      chunks                                         back, counted round: r qkv, r kv of those keys,
 *                                                                     w|u ctx (wide), w|u lse: those of all steps so
 *                                                                     far; step 0 writes
 * attention_step_backward as attention_step                           r dctx, r qkv, r kv, r ctx, r lse of all steps,
 *                                                                     w|u dq[rows][heads_local][head_dim] (wide),
 *                                                                     w dkv (wide) of this step
 * join_gradients       rows, heads_local, kv_heads_local, head_dim    r dq (wide), r dkv (wide), w dqkv as qkv
 * narrow               elements                                       r source (wide), w target: rounded
 * scale                elements, divisor                              u a: a / sqrt(divisor)
 * activation           elements, activation                           r u, w g
 * activation_backward  elements, activation                           r dg, r u, w du; du may be dg
 * gated_activation     rows, features, activation                         r u[rows][2][features], w g[rows][features]
 *                                                                         g = activation(u[0]) u[1]
 * gated_activation_backward rows, features, activation                    r dg, r u, w du
 * residual             samples, positions_local, hidden, bias (0|1)       r x, r o, w y [, r bias[hidden]]
 *                                                                         y = x + dropout(o + bias)
 * dropout              samples, positions_local, hidden                   r x, w y: the mask of residual's dropout. Of
 *                                                                         gradients: the backward of both
 * first_position       samples, positions_local, features                 r x, w y[samples][features]: the rows of
 *                                                                     position 0, zeros where it is elsewhere
 * first_position_backward samples, positions_local, features          r dy[samples][features], w dx: zeros but there
 * mean_position        samples, positions_local, features, sequence   r x, w y[samples][features]: the sum of the local
 *                                                                     rows, divided by all positions of a sample
 * mean_position_backward as mean_position                             r dy[samples][features], w dx
 * merge                samples, positions_local, features, side       r x[T][features], w y[T / 4][4][features]: of a
 *                                                                     grid [rows_local][side] every 2 by 2 positions as
 *                                                                     one: upper left, lower left, upper right, lower
 *                                                                     right
 * merge_backward       as merge                                       r dy, w dx
 * cross_entropy_max    rows, vocabulary_local, vocabulary             r logits, w max[rows]; padding masked
 * cross_entropy_sum    samples, sequence, vocabulary_local, vocabulary
 *                                                                     r logits, r max, r targets, w sums[2][rows] (sum
 *                                                                     of exp(z - max); z of the target - max; zeros
 *                                                                     where the target is -1)
 * cross_entropy_loss   rows                                               r sums, a loss: fp64[2], over rows of sum > 0
 *                                                                         += sum of log(sum) - target; count of those
 *                                                                         with target 0: no logit is larger
 * cross_entropy_backward samples, sequence, vocabulary_local, vocabulary  u logits -> dlogits, r max, r sums, r targets
 * deal_features        rows, members, part0, part1, part2             r x[rows][part0 + part1 + part2], w y[members]
 *                                                                     [rows][(part0 + part1 + part2) / members]: of
 *                                                                     every part the member's chunk; unused parts 0
 * collect_features     as deal_features                               r y, w x
 * permute              row_elements, count0..count4, stride0..stride4     r source, w target: target[c0..c4][row] =
 *                                                                         source row sum(c_i stride_i), strides in rows
 * add                  elements                                           r source, a|w|u target
 * fill                 elements                                           w target: zeros
 * norm_start           replicas                                           [r loss,] w norm fp64[2] = {0, loss/replicas}
 * sum_squares          elements, replicas                                 r gradient, u norm: [0] += sum / replicas
 * adam                 elements, decay_elements                           u w, r g, u m, u v, r norm [, u master];
 *                                                                         this rank's range is elements
 *                                                                         [index*elements, ...) of a unit whose first
 *                                                                         decay_elements decay. bf16, fp16: master is
 *                                                                         updated, w is it rounded. Norm or loss not
 *                                                                         finite: nothing is written
 * keep_gradient        elements                                           r gradient, w the place of the weights,
 *                                                                         rounded: this rank's range, as of adam
 * adam_in_place        elements, decay_elements                           u w, u m, u v, r norm, u master: as adam, but
 *                                                                         w has the gradient and gets the weights, also
 *                                                                         where norm or loss is not finite: old ones
 * host_adam            elements, decay_elements                           adam's, of buffers in the host's memory, by
 *                                                                     the host: w is a shard there
 * host_adam_part       elements, decay_elements, shard, first             host_adam's, of a part of this rank's range
 *                                                                     of shard elements, from its first one on
 * storage_read         elements, element_bytes                            r source in a file, w target on the host
 * storage_write        elements, element_bytes                            r source on the host, w target in a file
 * copy_out             elements, element_bytes                        r source on the device, w target on the host
 * copy_in              elements, element_bytes                        r source on the host, w target on the device
 * all_reduce           elements, reduce (GAL_REDUCE_*)                    u buffer
 * all_gather           elements (per rank), in_place (0|1)                r shard, w whole | u whole
 * reduce_scatter       elements (per rank), in_place (0|1)                r whole, w shard | u whole
 * all_to_all           elements (per pair)                                r source[n][elements], w target[n][elements]
 * broadcast            elements, root (index in the group)            r source, w target: the source of the root
 * reduce               elements, root (index in the group)            r source, w target: of the root the sum of all
 *                                                                     sources; of others as it was
 * rotate               elements                                       r source, w target: the source of the member
 *                                                                     before this one, counted round
 * mirror               elements                                       r source[2][elements], w target[2][elements]: the
 *                                                                     first half of the source, and the second half of
 *                                                                     that of the member as far from the last one as
 *                                                                     this one is from the first
 * send                 elements                                           r buffer
 * receive              elements                                           w buffer
 */
#ifndef GAL_SCHEMAS_OPERATOR_H
#define GAL_SCHEMAS_OPERATOR_H

#include <stdint.h>

#include "schemas/base/dtype.h"

/* X(enumerator, name, number of dims, is_collective (communicates)) */
#define GAL_OPERATORS(X)                                                                                               \
    X(GAL_OP_LOAD_TOKENS, "load_tokens", 2, 0)                                                                         \
    X(GAL_OP_LOAD_TARGETS, "load_targets", 2, 0)                                                                       \
    X(GAL_OP_LOAD_PATCHES, "load_patches", 3, 0)                                                                       \
    X(GAL_OP_LOAD_DECODER_TOKENS, "load_decoder_tokens", 2, 0)                                                         \
    X(GAL_OP_LOAD_LENGTHS, "load_lengths", 2, 0)                                                                       \
    X(GAL_OP_EMBED, "embed", 4, 0)                                                                                     \
    X(GAL_OP_EMBED_BACKWARD, "embed_backward", 4, 0)                                                                   \
    X(GAL_OP_POSITION, "position", 6, 0)                                                                               \
    X(GAL_OP_POSITION_BACKWARD, "position_backward", 6, 0)                                                             \
    X(GAL_OP_LAYER_NORM, "layer_norm", 2, 0)                                                                           \
    X(GAL_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", 3, 0)                                                         \
    X(GAL_OP_RMS_NORM, "rms_norm", 2, 0)                                                                               \
    X(GAL_OP_RMS_NORM_BACKWARD, "rms_norm_backward", 3, 0)                                                             \
    X(GAL_OP_NORM_SUMS, "norm_sums", 2, 0)                                                                             \
    X(GAL_OP_NORM_BY_SUMS, "norm_by_sums", 4, 0)                                                                       \
    X(GAL_OP_NORM_SUMS_BACKWARD, "norm_sums_backward", 3, 0)                                                           \
    X(GAL_OP_NORM_BY_SUMS_BACKWARD, "norm_by_sums_backward", 5, 0)                                                     \
    X(GAL_OP_ADD_BIAS, "add_bias", 2, 0)                                                                               \
    X(GAL_OP_GEMM, "gemm", 4, 0)                                                                                       \
    X(GAL_OP_BIAS_GRADIENT, "bias_gradient", 2, 0)                                                                     \
    X(GAL_OP_ROTARY, "rotary", 6, 0)                                                                                   \
    X(GAL_OP_ATTENTION, "attention", 6, 0)                                                                             \
    X(GAL_OP_ATTENTION_BACKWARD, "attention_backward", 6, 0)                                                           \
    X(GAL_OP_RELATIVE_ATTENTION, "relative_attention", 7, 0)                                                           \
    X(GAL_OP_RELATIVE_ATTENTION_BACKWARD, "relative_attention_backward", 7, 0)                                         \
    X(GAL_OP_WINDOW_ATTENTION, "window_attention", 7, 0)                                                               \
    X(GAL_OP_WINDOW_ATTENTION_BACKWARD, "window_attention_backward", 7, 0)                                             \
    X(GAL_OP_CROSS_ATTENTION, "cross_attention", 5, 0)                                                                 \
    X(GAL_OP_CROSS_ATTENTION_BACKWARD, "cross_attention_backward", 5, 0)                                               \
    X(GAL_OP_TAKE_KEYS, "take_keys", 4, 0)                                                                             \
    X(GAL_OP_ATTENTION_STEP, "attention_step", 8, 0)                                                                   \
    X(GAL_OP_ATTENTION_STEP_BACKWARD, "attention_step_backward", 8, 0)                                                 \
    X(GAL_OP_JOIN_GRADIENTS, "join_gradients", 4, 0)                                                                   \
    X(GAL_OP_NARROW, "narrow", 1, 0)                                                                                   \
    X(GAL_OP_SCALE, "scale", 2, 0)                                                                                     \
    X(GAL_OP_ACTIVATION, "activation", 2, 0)                                                                           \
    X(GAL_OP_ACTIVATION_BACKWARD, "activation_backward", 2, 0)                                                         \
    X(GAL_OP_GATED_ACTIVATION, "gated_activation", 3, 0)                                                               \
    X(GAL_OP_GATED_ACTIVATION_BACKWARD, "gated_activation_backward", 3, 0)                                             \
    X(GAL_OP_RESIDUAL, "residual", 4, 0)                                                                               \
    X(GAL_OP_DROPOUT, "dropout", 3, 0)                                                                                 \
    X(GAL_OP_FIRST_POSITION, "first_position", 3, 0)                                                                   \
    X(GAL_OP_FIRST_POSITION_BACKWARD, "first_position_backward", 3, 0)                                                 \
    X(GAL_OP_MEAN_POSITION, "mean_position", 4, 0)                                                                     \
    X(GAL_OP_MEAN_POSITION_BACKWARD, "mean_position_backward", 4, 0)                                                   \
    X(GAL_OP_MERGE, "merge", 4, 0)                                                                                     \
    X(GAL_OP_MERGE_BACKWARD, "merge_backward", 4, 0)                                                                   \
    X(GAL_OP_CROSS_ENTROPY_MAX, "cross_entropy_max", 3, 0)                                                             \
    X(GAL_OP_CROSS_ENTROPY_SUM, "cross_entropy_sum", 4, 0)                                                             \
    X(GAL_OP_CROSS_ENTROPY_LOSS, "cross_entropy_loss", 1, 0)                                                           \
    X(GAL_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", 4, 0)                                                   \
    X(GAL_OP_DEAL_FEATURES, "deal_features", 5, 0)                                                                     \
    X(GAL_OP_COLLECT_FEATURES, "collect_features", 5, 0)                                                               \
    X(GAL_OP_PERMUTE, "permute", 11, 0)                                                                                \
    X(GAL_OP_ADD, "add", 1, 0)                                                                                         \
    X(GAL_OP_FILL, "fill", 1, 0)                                                                                       \
    X(GAL_OP_NORM_START, "norm_start", 1, 0)                                                                           \
    X(GAL_OP_SUM_SQUARES, "sum_squares", 2, 0)                                                                         \
    X(GAL_OP_ADAM, "adam", 2, 0)                                                                                       \
    X(GAL_OP_KEEP_GRADIENT, "keep_gradient", 1, 0)                                                                     \
    X(GAL_OP_ADAM_IN_PLACE, "adam_in_place", 2, 0)                                                                     \
    X(GAL_OP_HOST_ADAM, "host_adam", 2, 0)                                                                             \
    X(GAL_OP_HOST_ADAM_PART, "host_adam_part", 4, 0)                                                                   \
    X(GAL_OP_STORAGE_READ, "storage_read", 2, 0)                                                                       \
    X(GAL_OP_STORAGE_WRITE, "storage_write", 2, 0)                                                                     \
    X(GAL_OP_COPY_OUT, "copy_out", 2, 0)                                                                               \
    X(GAL_OP_COPY_IN, "copy_in", 2, 0)                                                                                 \
    X(GAL_OP_ALL_REDUCE, "all_reduce", 2, 1)                                                                           \
    X(GAL_OP_ALL_GATHER, "all_gather", 2, 1)                                                                           \
    X(GAL_OP_REDUCE_SCATTER, "reduce_scatter", 2, 1)                                                                   \
    X(GAL_OP_ALL_TO_ALL, "all_to_all", 1, 1)                                                                           \
    X(GAL_OP_BROADCAST, "broadcast", 2, 1)                                                                             \
    X(GAL_OP_REDUCE, "reduce", 2, 1)                                                                                   \
    X(GAL_OP_ROTATE, "rotate", 1, 1)                                                                                   \
    X(GAL_OP_MIRROR, "mirror", 1, 1)                                                                                   \
    X(GAL_OP_SEND, "send", 1, 1)                                                                                       \
    X(GAL_OP_RECEIVE, "receive", 1, 1)

typedef enum gal_op {
#define X(enumerator, name, dims, collective) enumerator,
    GAL_OPERATORS(X)
#undef X
        GAL_OP_COUNT
} gal_op;

enum { GAL_SHAPE_DIMS = 11, GAL_FEATURE_PARTS = 3 };
/* FP32_C: of 16-bit a and b, the result is fp32. */
enum { GAL_GEMM_TRANSPOSE_A = 1, GAL_GEMM_TRANSPOSE_B = 2, GAL_GEMM_BIAS = 4, GAL_GEMM_FP32_C = 8 };
/* CAUSAL: a query sees its own position and those before; else all. ZIGZAG, of a step with CAUSAL: the second half of a
 * chunk's positions is that of the chunk as far from the last one as it is from the first (mirror). */
enum { GAL_ATTENTION_CAUSAL = 1, GAL_ATTENTION_ZIGZAG = 2 };
enum { GAL_REDUCE_SUM = 0, GAL_REDUCE_MAX = 1 };

typedef struct gal_shape {
    gal_op op;
    gal_dtype dtype;
    uint32_t dims[GAL_SHAPE_DIMS]; /* unused ones 0 */
} gal_shape;

/* What takes rows from the token source. */
static inline int gal_op_loads(gal_op op)
{
    return op == GAL_OP_LOAD_TOKENS || op == GAL_OP_LOAD_TARGETS || op == GAL_OP_LOAD_DECODER_TOKENS ||
           op == GAL_OP_LOAD_PATCHES || op == GAL_OP_LOAD_LENGTHS;
}

/* Of the operand'th operand of an instruction. */
gal_dtype gal_operand_dtype(const gal_shape *shape, uint32_t operand);

extern const char *const gal_op_names[GAL_OP_COUNT];
extern const uint8_t gal_op_dim_count[GAL_OP_COUNT];
extern const uint8_t gal_op_is_collective[GAL_OP_COUNT];

#endif
