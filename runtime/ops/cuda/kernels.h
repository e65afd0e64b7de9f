/* The CUDA kernels: one table per element type of activations and weights.
 *
 * The contract is schemas/operator.h, with these types in the tables of bf16 and fp16:
 *   activations, weights, logits                        the table's type; arithmetic and sums in fp32
 *   statistics, reciprocals, max, sums, lse             fp32
 *   gradients of weights (dtable, dgain, dbias, ...)    fp32
 *   loss, norm                                          fp64
 *   adam                                                u w, r g fp32, u m fp32, u v fp32, r norm, u master fp32:
 *                                                       w becomes master rounded
 *   keep_gradient                                       r fp32, w the table's type
 *   adam_in_place                                       u w, u m fp32, u v fp32, r norm, u master fp32
 * Gradients of fp16 programs are multiplied by gal_cuda_step.gradient_scale from the loss on, until sum_squares and
 * adam divide by it. Buffers of fp32 in such programs (fill, add, permute of gradients) go to the fp32 table: a shape's
 * dtype says which.
 *
 * All kernels give the same bits each time, on any device: no floating-point atomics, and partial sums are cut by the
 * shape alone. They queue on call->stream, allocate nothing and wait for nothing, so they can be captured: what changes
 * between two steps is read from the gal_cuda_step at call->device_step. GAL_ERR_DEVICE: a launch was refused, or
 * call->workspace_bytes is less than gal_cuda_workspace_bytes(). */
#ifndef GAL_RUNTIME_OPS_CUDA_KERNELS_H
#define GAL_RUNTIME_OPS_CUDA_KERNELS_H

#include <stdint.h>

#include "runtime/ops/ops.h"

/* X(enumerator, name): kernels of this folder's .cu files that stand on no library */
#define GAL_CUDA_KERNELS(X)                                                                                            \
    X(GAL_OP_EMBED, embed)                                                                                             \
    X(GAL_OP_EMBED_BACKWARD, embed_backward)                                                                           \
    X(GAL_OP_POSITION, position)                                                                                       \
    X(GAL_OP_POSITION_BACKWARD, position_backward)                                                                     \
    X(GAL_OP_LAYER_NORM, layer_norm)                                                                                   \
    X(GAL_OP_LAYER_NORM_BACKWARD, layer_norm_backward)                                                                 \
    X(GAL_OP_RMS_NORM, rms_norm)                                                                                       \
    X(GAL_OP_RMS_NORM_BACKWARD, rms_norm_backward)                                                                     \
    X(GAL_OP_NORM_SUMS, norm_sums)                                                                                     \
    X(GAL_OP_NORM_BY_SUMS, norm_by_sums)                                                                               \
    X(GAL_OP_NORM_SUMS_BACKWARD, norm_sums_backward)                                                                   \
    X(GAL_OP_NORM_BY_SUMS_BACKWARD, norm_by_sums_backward)                                                             \
    X(GAL_OP_ADD_BIAS, add_bias)                                                                                       \
    X(GAL_OP_ROTARY, rotary)                                                                                           \
    X(GAL_OP_TAKE_KEYS, take_keys)                                                                                     \
    X(GAL_OP_JOIN_GRADIENTS, join_gradients)                                                                           \
    X(GAL_OP_NARROW, narrow)                                                                                           \
    X(GAL_OP_SCALE, scale)                                                                                             \
    X(GAL_OP_ACTIVATION, activation)                                                                                   \
    X(GAL_OP_ACTIVATION_BACKWARD, activation_backward)                                                                 \
    X(GAL_OP_GATED_ACTIVATION, gated_activation)                                                                       \
    X(GAL_OP_GATED_ACTIVATION_BACKWARD, gated_activation_backward)                                                     \
    X(GAL_OP_RESIDUAL, residual)                                                                                       \
    X(GAL_OP_DROPOUT, dropout)                                                                                         \
    X(GAL_OP_FIRST_POSITION, first_position)                                                                           \
    X(GAL_OP_FIRST_POSITION_BACKWARD, first_position_backward)                                                         \
    X(GAL_OP_MEAN_POSITION, mean_position)                                                                             \
    X(GAL_OP_MEAN_POSITION_BACKWARD, mean_position_backward)                                                           \
    X(GAL_OP_MERGE, merge)                                                                                             \
    X(GAL_OP_MERGE_BACKWARD, merge_backward)                                                                           \
    X(GAL_OP_CROSS_ENTROPY_MAX, cross_entropy_max)                                                                     \
    X(GAL_OP_CROSS_ENTROPY_SUM, cross_entropy_sum)                                                                     \
    X(GAL_OP_CROSS_ENTROPY_LOSS, cross_entropy_loss)                                                                   \
    X(GAL_OP_CROSS_ENTROPY_BACKWARD, cross_entropy_backward)                                                           \
    X(GAL_OP_DEAL_FEATURES, deal_features)                                                                             \
    X(GAL_OP_COLLECT_FEATURES, collect_features)                                                                       \
    X(GAL_OP_PERMUTE, permute)                                                                                         \
    X(GAL_OP_ADD, add)                                                                                                 \
    X(GAL_OP_FILL, fill)                                                                                               \
    X(GAL_OP_NORM_START, norm_start)                                                                                   \
    X(GAL_OP_SUM_SQUARES, sum_squares)                                                                                 \
    X(GAL_OP_KEEP_GRADIENT, keep_gradient)                                                                             \
    X(GAL_OP_ADAM_IN_PLACE, adam_in_place)                                                                             \
    X(GAL_OP_ADAM, adam)

/* X(enumerator, name): products and attention */
#define GAL_CUDA_MATH_KERNELS(X)                                                                                       \
    X(GAL_OP_GEMM, gemm)                                                                                               \
    X(GAL_OP_BIAS_GRADIENT, bias_gradient)                                                                             \
    X(GAL_OP_ATTENTION, attention)                                                                                     \
    X(GAL_OP_ATTENTION_BACKWARD, attention_backward)                                                                   \
    X(GAL_OP_RELATIVE_ATTENTION, relative_attention)                                                                   \
    X(GAL_OP_RELATIVE_ATTENTION_BACKWARD, relative_attention_backward)                                                 \
    X(GAL_OP_WINDOW_ATTENTION, window_attention)                                                                       \
    X(GAL_OP_WINDOW_ATTENTION_BACKWARD, window_attention_backward)                                                     \
    X(GAL_OP_CROSS_ATTENTION, cross_attention)                                                                         \
    X(GAL_OP_CROSS_ATTENTION_BACKWARD, cross_attention_backward)                                                       \
    X(GAL_OP_ATTENTION_STEP, attention_step)                                                                           \
    X(GAL_OP_ATTENTION_STEP_BACKWARD, attention_step_backward)

/* gal_cuda_<name>_fp32, _bf16, _fp16 */
#define X(enumerator, name)                                                                                            \
    gal_code gal_cuda_##name##_fp32(const gal_kernel_call *call, gal_error *err);                                      \
    gal_code gal_cuda_##name##_bf16(const gal_kernel_call *call, gal_error *err);                                      \
    gal_code gal_cuda_##name##_fp16(const gal_kernel_call *call, gal_error *err);
GAL_CUDA_KERNELS(X)
GAL_CUDA_MATH_KERNELS(X)
#undef X

/* A residual, and layer_norm or rms_norm of its y, as one kernel on the first's stream: all that both write, with the
 * same bits. is: whether a pair is that; its second's results may lie on nothing that the first reads. */
bool gal_cuda_is_residual_norm(const gal_kernel_pair *pair);
gal_code gal_cuda_residual_norm_fp32(const gal_kernel_pair *pair, gal_error *err);
gal_code gal_cuda_residual_norm_bf16(const gal_kernel_pair *pair, gal_error *err);
gal_code gal_cuda_residual_norm_fp16(const gal_kernel_pair *pair, gal_error *err);

extern const gal_ops gal_ops_cuda_fp32;
extern const gal_ops gal_ops_cuda_bf16;
extern const gal_ops gal_ops_cuda_fp16;

/* What differs from step to step. One in device memory per engine, copied there before a step's first kernel; never
 * while a step runs. */
typedef struct gal_cuda_step {
    uint64_t seed;
    uint32_t step;     /* low half of the step's number: what dropout counts by */
    uint32_t training; /* 0: dropout off */
    double loss_scale; /* of gal_kernel_step */
    double gradient_scale;
    float decoupled_rate; /* learning rate times decay; 0 unless AdamW */
    float corrected_rate; /* learning rate / (1 - beta1^t) */
    float v_correction;   /* 1 / sqrt(1 - beta2^t) */
    float unused;
} gal_cuda_step;

/* gradient_scale: 1 but for fp16, where it is that of gal_kernel_step. */
gal_cuda_step gal_cuda_step_of(const gal_kernel_step *step, double gradient_scale);

/* What a kernel of GAL_CUDA_KERNELS needs, by call->dims alone; 0 for most. */
uint64_t gal_cuda_workspace_bytes(gal_op op, const uint32_t *dims);

#endif
