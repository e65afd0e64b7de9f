/* The host kernels of one element type, for table.c, and the parts that several of them share. */
#ifndef GAL_RUNTIME_OPS_HOST_KERNELS_H
#define GAL_RUNTIME_OPS_HOST_KERNELS_H

#include "runtime/ops/host/parallel.h"
#include "runtime/ops/host/philox.h"
#include "runtime/ops/host/real.h"
#include "runtime/ops/ops.h"

/* X(enumerator, name): what this folder serves */
#define GAL_HOST_KERNELS(X)                                                                                            \
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
    X(GAL_OP_GEMM, gemm)                                                                                               \
    X(GAL_OP_BIAS_GRADIENT, bias_gradient)                                                                             \
    X(GAL_OP_ROTARY, rotary)                                                                                           \
    X(GAL_OP_ATTENTION, attention)                                                                                     \
    X(GAL_OP_ATTENTION_BACKWARD, attention_backward)                                                                   \
    X(GAL_OP_RELATIVE_ATTENTION, relative_attention)                                                                   \
    X(GAL_OP_RELATIVE_ATTENTION_BACKWARD, relative_attention_backward)                                                 \
    X(GAL_OP_WINDOW_ATTENTION, window_attention)                                                                       \
    X(GAL_OP_WINDOW_ATTENTION_BACKWARD, window_attention_backward)                                                     \
    X(GAL_OP_CROSS_ATTENTION, cross_attention)                                                                         \
    X(GAL_OP_CROSS_ATTENTION_BACKWARD, cross_attention_backward)                                                       \
    X(GAL_OP_TAKE_KEYS, take_keys)                                                                                     \
    X(GAL_OP_ATTENTION_STEP, attention_step)                                                                           \
    X(GAL_OP_ATTENTION_STEP_BACKWARD, attention_step_backward)                                                         \
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
    X(GAL_OP_ADAM, adam)                                                                                               \
    X(GAL_OP_HOST_ADAM, host_adam)                                                                                     \
    X(GAL_OP_HOST_ADAM_PART, host_adam_part)                                                                           \
    X(GAL_OP_COPY_OUT, copy_out)                                                                                       \
    X(GAL_OP_COPY_IN, copy_in)

#define GAL_KERNEL(name) GAL_REAL(gal_host_##name)

#define X(enumerator, name) gal_code GAL_KERNEL(name)(const gal_kernel_call *call, gal_error *err);
GAL_HOST_KERNELS(X)
#undef X

/* What a part of a kernel is given: the call, and how its rows, columns or elements are cut. */
typedef struct gal_split {
    const gal_kernel_call *call;
    gal_cut cut;
} gal_split;

/* Elements that a thread treats while it would otherwise be woken. */
enum { GAL_PART_ELEMENTS = 1 << 14 };
/* Columns begin at a multiple of so many: two threads do not write to one cache line. */
enum { GAL_COLUMN_UNIT = 16 };

/* Cuts `count` rows or columns of `each` elements at multiples of `unit` and runs work(gal_split, part) for the parts.
 */
GAL_INLINE void gal_split_run(const gal_kernel_call *call, size_t count, size_t unit, size_t each, gal_part work)
{
    const gal_split split = {.call = call, .cut = gal_cut_for_threads(count, unit, GAL_PART_ELEMENTS / (each + 1) + 1)};
    gal_parallel(split.cut.part_count, work, &split);
}

enum { GAL_DROPOUT_CHUNK = 256 }; /* elements masked at a time */

/* The dropout of one call. active false: none, and nothing else is set. */
typedef struct gal_dropout {
    bool active;
    uint32_t drop_max;   /* an element is dropped when its lane is <= drop_max, that is < probability * 2^32 */
    gal_real keep_scale; /* 1 / (1 - probability) */
    uint64_t key;
    uint32_t site, step;
} gal_dropout;

/* site  0 rows, 1 attention probabilities */
#define gal_dropout_of GAL_REAL(gal_host_dropout_of)
gal_dropout gal_dropout_of(const gal_kernel_call *call, double probability, uint32_t site);

/* factor[count] = keep_scale or 0 of the elements with global indices first_index ...; count <= GAL_DROPOUT_CHUNK. */
#define gal_dropout_factors GAL_REAL(gal_host_dropout_factors)
void gal_dropout_factors(const gal_dropout *dropout, uint64_t first_index, size_t count, gal_real *factor);

/* Global index of the first local feature of local row [position][sample] for dropout of rows; of rows whose features
 * are split `hidden` are here, the index-th part of a group. */
GAL_INLINE uint64_t gal_dropout_row(const gal_kernel_call *call, uint32_t position, uint32_t sample, uint32_t hidden)
{
    const uint64_t row = (uint64_t)call->sample_map[sample] * gal_model_longest_sequence(call->step->model) +
                         (uint64_t)call->position_begin + position;
    return (row * call->group_count + call->group_index) * hidden;
}

/* to = from * dropout factors for one local row; to == from allowed. */
#define gal_dropout_apply_row GAL_REAL(gal_host_dropout_apply_row)
void gal_dropout_apply_row(const gal_dropout *dropout, uint64_t first_index, size_t count, const gal_real *from,
                           gal_real *to);

#endif
