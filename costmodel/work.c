#include "costmodel/work.h"

#include <stddef.h>

typedef struct work {
    double flops;
    double elements; /* of the shape's dtype */
    double wide;     /* of gal_dtype_wide() of it: statistics, sums, gradients of weights, moments */
    double integers; /* 4 bytes each: tokens and targets */
    double doubles;  /* 8 bytes each: loss and norm */
} work;

enum {
    POSITION_FLOPS = 2,
    NORM_FLOPS = 8,
    NORM_BACKWARD_FLOPS = 13,
    RMS_NORM_FLOPS = 4,
    RMS_NORM_BACKWARD_FLOPS = 9,
    ROTARY_FLOPS = 3,
    ACTIVATION_FLOPS = 12,
    ACTIVATION_BACKWARD_FLOPS = 20,
    ADAM_FLOPS = 12
};

static double dim(const gal_shape *shape, uint32_t i)
{
    return (double)shape->dims[i];
}

/* Rows of an activation: the first two dims of most shapes. */
static double rows(const gal_shape *shape)
{
    return dim(shape, 0) * dim(shape, 1);
}

static work work_tokens(const gal_shape *s)
{
    return (work){.integers = rows(s)};
}

static work work_lengths(const gal_shape *s)
{
    return (work){.integers = dim(s, 0)};
}

/* Bytes of pixels in, numbers out. */
static work work_patches(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2);
    return (work){.flops = 2 * entries, .elements = entries, .integers = entries / 4};
}

/* Gathers hidden entries per token: the table's untouched rows are not read. */
static work work_embed(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2);
    return (work){.elements = 2 * entries, .integers = rows(s)};
}

static work work_embed_backward(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2);
    return (work){.flops = entries, .elements = entries, .wide = 2 * entries, .integers = rows(s)};
}

/* A type's or the class token's. */
static double more_rows(const gal_shape *s)
{
    return s->dims[4] != 0 || s->dims[5] != 0 ? 1 : 0;
}

static work work_position(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2);
    const double more = dim(s, 4) > 0 ? entries : 0;
    return (work){.flops = POSITION_FLOPS * entries + more,
                  .elements = 2 * entries + (dim(s, 1) + more_rows(s)) * dim(s, 2)};
}

static work work_position_backward(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2);
    const double more = dim(s, 4) > 0 ? entries : 0;
    return (work){.flops = POSITION_FLOPS * entries + more,
                  .elements = 2 * entries + more,
                  .wide = 2 * (dim(s, 1) + more_rows(s)) * dim(s, 2)};
}

static work work_norm(const gal_shape *s)
{
    return (work){.flops = NORM_FLOPS * rows(s), .elements = 2 * rows(s) + 2 * dim(s, 1), .wide = 2 * dim(s, 0)};
}

static work work_norm_backward(const gal_shape *s)
{
    const double addend = dim(s, 2);
    return (work){.flops = (NORM_BACKWARD_FLOPS + addend) * rows(s),
                  .elements = (3 + addend) * rows(s) + dim(s, 1),
                  .wide = 2 * dim(s, 0) + 4 * dim(s, 1)};
}

static work work_rms_norm(const gal_shape *s)
{
    return (work){.flops = RMS_NORM_FLOPS * rows(s), .elements = 2 * rows(s) + dim(s, 1), .wide = dim(s, 0)};
}

static work work_rms_norm_backward(const gal_shape *s)
{
    const double addend = dim(s, 2);
    return (work){.flops = (RMS_NORM_BACKWARD_FLOPS + addend) * rows(s),
                  .elements = (3 + addend) * rows(s) + dim(s, 1),
                  .wide = dim(s, 0) + 2 * dim(s, 1)};
}

static work work_norm_sums(const gal_shape *s)
{
    return (work){.flops = RMS_NORM_FLOPS * rows(s), .elements = rows(s), .wide = 2 * dim(s, 0)};
}

static work work_norm_by_sums(const gal_shape *s)
{
    return (work){.flops = RMS_NORM_FLOPS * rows(s),
                  .elements = 2 * rows(s) + 2 * dim(s, 1),
                  .wide = 2 * (dim(s, 2) + 1) * dim(s, 0)};
}

static work work_norm_sums_backward(const gal_shape *s)
{
    return (work){.flops = RMS_NORM_BACKWARD_FLOPS * rows(s),
                  .elements = 2 * rows(s) + dim(s, 1),
                  .wide = 4 * dim(s, 0) + 4 * dim(s, 1)};
}

static work work_norm_by_sums_backward(const gal_shape *s)
{
    const double addend = dim(s, 4);
    return (work){.flops = (RMS_NORM_FLOPS + addend) * rows(s),
                  .elements = (3 + addend) * rows(s) + dim(s, 1),
                  .wide = 4 * dim(s, 0)};
}

static work work_add_bias(const gal_shape *s)
{
    return (work){.flops = rows(s), .elements = 2 * rows(s) + dim(s, 1)};
}

static work work_rotary(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2) * dim(s, 3);
    return (work){.flops = ROTARY_FLOPS * entries, .elements = 2 * entries};
}

static work work_gemm(const gal_shape *s)
{
    const double m = dim(s, 0);
    const double n = dim(s, 1);
    const double k = dim(s, 2);
    const double bias = (s->dims[3] & GAL_GEMM_BIAS) != 0 ? n : 0;
    const bool wide = (s->dims[3] & GAL_GEMM_FP32_C) != 0;
    return (work){
        .flops = 2 * m * n * k, .elements = m * k + k * n + (wide ? 0 : m * n) + bias, .wide = wide ? m * n : 0};
}

static work work_bias_gradient(const gal_shape *s)
{
    return (work){.flops = rows(s), .elements = rows(s), .wide = 2 * dim(s, 1)};
}

/* Of the keys or the values, which several heads may share. */
static double kv_entries(const gal_shape *s)
{
    return rows(s) * dim(s, 4) * dim(s, 3);
}

bool gal_attention_has_diagonal(const gal_shape *s)
{
    const bool later = (s->op == GAL_OP_ATTENTION_STEP || s->op == GAL_OP_ATTENTION_STEP_BACKWARD) && s->dims[6] > 0;
    return (s->dims[5] & GAL_ATTENTION_CAUSAL) != 0 && !later;
}

/* Causal: position i looks at i + 1 positions; in a later step of a ring the last chunk looks at all of it, zig-zag
 * every one at half: all queries at the early half of the keys, or the late half of the queries at all keys. */
double gal_attention_pairs(const gal_shape *s)
{
    const double positions = dim(s, 1);
    const bool zigzag = (s->dims[5] & GAL_ATTENTION_ZIGZAG) != 0;
    const double keys = gal_attention_has_diagonal(s) ? (positions + 1) / 2 : zigzag ? positions / 2 : positions;
    return dim(s, 0) * dim(s, 2) * positions * keys;
}

/* Two products of head_dim per pair, four operations for the softmax. */
static work work_attention(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2);
    const double pairs = gal_attention_pairs(s);
    const double entries = heads * dim(s, 1) * dim(s, 3);
    return (work){
        .flops = pairs * (4 * dim(s, 3) + 4), .elements = 2 * entries + 2 * kv_entries(s), .wide = heads * dim(s, 1)};
}

/* Five products per pair: scores again, dV, dP, dQ, dK. */
static work work_attention_backward(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2);
    const double pairs = gal_attention_pairs(s);
    const double entries = heads * dim(s, 1) * dim(s, 3);
    return (work){
        .flops = pairs * (10 * dim(s, 3) + 7), .elements = 4 * entries + 4 * kv_entries(s), .wide = heads * dim(s, 1)};
}

/* Sums of earlier steps are read and written again. */
static work work_attention_step(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), entries = heads * dim(s, 1) * dim(s, 3);
    return (work){.flops = gal_attention_pairs(s) * (4 * dim(s, 3) + 4),
                  .elements = entries + 2 * kv_entries(s),
                  .wide = (s->dims[6] > 0 ? 2 : 1) * (entries + heads * dim(s, 1))};
}

static work work_attention_step_backward(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), entries = heads * dim(s, 1) * dim(s, 3);
    return (work){.flops = gal_attention_pairs(s) * (10 * dim(s, 3) + 7),
                  .elements = 3 * entries + 2 * kv_entries(s),
                  .wide = (s->dims[6] > 0 ? 2 : 1) * entries + 2 * kv_entries(s) + heads * dim(s, 1)};
}

static work work_take_keys(const gal_shape *s)
{
    return (work){.elements = 4 * dim(s, 0) * dim(s, 2) * dim(s, 3)};
}

static work work_join_gradients(const gal_shape *s)
{
    const double entries = dim(s, 0) * (dim(s, 1) + 2 * dim(s, 2)) * dim(s, 3);
    return (work){.elements = entries, .wide = entries};
}

static work work_narrow(const gal_shape *s)
{
    return (work){.elements = dim(s, 0), .wide = dim(s, 0)};
}

/* Pairs of a query and a key that it sees, of all heads. */
static double relative_pairs(const gal_shape *s)
{
    const double keys = s->dims[4] != 0 ? (dim(s, 1) + 1) / 2 : dim(s, 1);
    return dim(s, 0) * dim(s, 2) * dim(s, 1) * keys;
}

/* As attention, with the bias of every score; its table is small. */
static work work_relative_attention(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), entries = heads * dim(s, 1) * dim(s, 3);
    return (work){.flops = relative_pairs(s) * (4 * dim(s, 3) + 5), .elements = 4 * entries, .wide = heads * dim(s, 1)};
}

static work work_relative_attention_backward(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), entries = heads * dim(s, 1) * dim(s, 3);
    return (work){
        .flops = relative_pairs(s) * (10 * dim(s, 3) + 9), .elements = 8 * entries, .wide = heads * dim(s, 1)};
}

/* Every query sees its window. */
static double window_pairs(const gal_shape *s)
{
    return dim(s, 0) * dim(s, 2) * dim(s, 1) * dim(s, 5) * dim(s, 5);
}

static work work_window_attention(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), entries = heads * dim(s, 1) * dim(s, 3);
    return (work){.flops = window_pairs(s) * (4 * dim(s, 3) + 5), .elements = 4 * entries, .wide = heads * dim(s, 1)};
}

static work work_window_attention_backward(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), entries = heads * dim(s, 1) * dim(s, 3);
    return (work){.flops = window_pairs(s) * (10 * dim(s, 3) + 9), .elements = 8 * entries, .wide = heads * dim(s, 1)};
}

/* Every query sees every key. */
static work work_cross_attention(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), pairs = heads * dim(s, 1) * dim(s, 4);
    return (work){.flops = pairs * (4 * dim(s, 3) + 4),
                  .elements = heads * dim(s, 3) * 2 * (dim(s, 1) + dim(s, 4)),
                  .wide = heads * dim(s, 1)};
}

static work work_cross_attention_backward(const gal_shape *s)
{
    const double heads = dim(s, 0) * dim(s, 2), pairs = heads * dim(s, 1) * dim(s, 4);
    return (work){.flops = pairs * (10 * dim(s, 3) + 7),
                  .elements = heads * dim(s, 3) * 4 * (dim(s, 1) + dim(s, 4)),
                  .wide = heads * dim(s, 1)};
}

static work work_scale(const gal_shape *s)
{
    return (work){.flops = dim(s, 0), .elements = 2 * dim(s, 0)};
}

static work work_activation(const gal_shape *s)
{
    return (work){.flops = ACTIVATION_FLOPS * dim(s, 0), .elements = 2 * dim(s, 0)};
}

static work work_activation_backward(const gal_shape *s)
{
    return (work){.flops = ACTIVATION_BACKWARD_FLOPS * dim(s, 0), .elements = 3 * dim(s, 0)};
}

static work work_gated_activation(const gal_shape *s)
{
    return (work){.flops = (ACTIVATION_FLOPS + 1) * rows(s), .elements = 3 * rows(s)};
}

static work work_gated_activation_backward(const gal_shape *s)
{
    return (work){.flops = (ACTIVATION_FLOPS + ACTIVATION_BACKWARD_FLOPS + 2) * rows(s), .elements = 5 * rows(s)};
}

static work work_residual(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2), bias = dim(s, 3);
    return (work){.flops = (1 + bias) * entries, .elements = 3 * entries + bias * dim(s, 2)};
}

static work work_dropout(const gal_shape *s)
{
    const double entries = rows(s) * dim(s, 2);
    return (work){.flops = entries, .elements = 2 * entries};
}

static work work_first_position(const gal_shape *s)
{
    return (work){.elements = 2 * dim(s, 0) * dim(s, 2)};
}

static work work_first_position_backward(const gal_shape *s)
{
    return (work){.elements = (dim(s, 1) + 1) * dim(s, 0) * dim(s, 2)};
}

static work work_mean_position(const gal_shape *s)
{
    const double row = dim(s, 0) * dim(s, 2);
    return (work){.flops = (dim(s, 1) + 1) * row, .elements = (dim(s, 1) + 1) * row};
}

static work work_merge(const gal_shape *s)
{
    return (work){.elements = 2 * rows(s) * dim(s, 2)};
}

static work work_cross_entropy_max(const gal_shape *s)
{
    return (work){.flops = rows(s), .elements = rows(s), .wide = dim(s, 0)};
}

static work work_cross_entropy_sum(const gal_shape *s)
{
    const double logits = rows(s) * dim(s, 2);
    return (work){.flops = 3 * logits, .elements = logits, .wide = 3 * rows(s), .integers = rows(s)};
}

static work work_cross_entropy_loss(const gal_shape *s)
{
    return (work){.flops = 3 * dim(s, 0), .elements = 2 * dim(s, 0), .doubles = 4};
}

static work work_cross_entropy_backward(const gal_shape *s)
{
    const double logits = rows(s) * dim(s, 2);
    return (work){.flops = 4 * logits, .elements = 2 * logits, .wide = 3 * rows(s), .integers = rows(s)};
}

static work work_permute(const gal_shape *s)
{
    double entries = dim(s, 0);
    for (uint32_t i = 1; i <= 5; i++) {
        entries *= dim(s, i);
    }
    return (work){.elements = 2 * entries};
}

static work work_features(const gal_shape *s)
{
    return (work){.elements = 2 * dim(s, 0) * (dim(s, 2) + dim(s, 3) + dim(s, 4))};
}

static work work_add(const gal_shape *s)
{
    return (work){.flops = dim(s, 0), .elements = 3 * dim(s, 0)};
}

static work work_fill(const gal_shape *s)
{
    return (work){.elements = dim(s, 0)};
}

static work work_norm_start(const gal_shape *s)
{
    (void)s;
    return (work){.flops = 1, .doubles = 3};
}

static work work_sum_squares(const gal_shape *s)
{
    return (work){.flops = 2 * dim(s, 0), .elements = dim(s, 0), .doubles = 2};
}

/* Reads weight, gradient and two moments, writes weight and moments; beside a master the weight is written alone. */
static work work_adam(const gal_shape *s)
{
    const double narrow = gal_dtype_is_narrow(s->dtype) ? dim(s, 0) : 0;
    return (work){.flops = ADAM_FLOPS * dim(s, 0), .elements = narrow, .wide = 7 * dim(s, 0), .doubles = 2};
}

/* The gradient is read and the weights written as the kernels read them; masters and moments are wide. */
static work work_adam_in_place(const gal_shape *s)
{
    return (work){.flops = ADAM_FLOPS * dim(s, 0), .elements = 2 * dim(s, 0), .wide = 6 * dim(s, 0), .doubles = 2};
}

static work work_copy(const gal_shape *s)
{
    return (work){.elements = 2 * dim(s, 0)};
}

static work (*const work_of[GAL_OP_COUNT])(const gal_shape *shape) = {
    [GAL_OP_LOAD_TOKENS] = work_tokens,
    [GAL_OP_LOAD_TARGETS] = work_tokens,
    [GAL_OP_LOAD_PATCHES] = work_patches,
    [GAL_OP_LOAD_DECODER_TOKENS] = work_tokens,
    [GAL_OP_LOAD_LENGTHS] = work_lengths,
    [GAL_OP_EMBED] = work_embed,
    [GAL_OP_EMBED_BACKWARD] = work_embed_backward,
    [GAL_OP_POSITION] = work_position,
    [GAL_OP_POSITION_BACKWARD] = work_position_backward,
    [GAL_OP_LAYER_NORM] = work_norm,
    [GAL_OP_LAYER_NORM_BACKWARD] = work_norm_backward,
    [GAL_OP_RMS_NORM] = work_rms_norm,
    [GAL_OP_RMS_NORM_BACKWARD] = work_rms_norm_backward,
    [GAL_OP_NORM_SUMS] = work_norm_sums,
    [GAL_OP_NORM_BY_SUMS] = work_norm_by_sums,
    [GAL_OP_NORM_SUMS_BACKWARD] = work_norm_sums_backward,
    [GAL_OP_NORM_BY_SUMS_BACKWARD] = work_norm_by_sums_backward,
    [GAL_OP_ADD_BIAS] = work_add_bias,
    [GAL_OP_GEMM] = work_gemm,
    [GAL_OP_BIAS_GRADIENT] = work_bias_gradient,
    [GAL_OP_ROTARY] = work_rotary,
    [GAL_OP_ATTENTION] = work_attention,
    [GAL_OP_ATTENTION_BACKWARD] = work_attention_backward,
    [GAL_OP_RELATIVE_ATTENTION] = work_relative_attention,
    [GAL_OP_RELATIVE_ATTENTION_BACKWARD] = work_relative_attention_backward,
    [GAL_OP_WINDOW_ATTENTION] = work_window_attention,
    [GAL_OP_WINDOW_ATTENTION_BACKWARD] = work_window_attention_backward,
    [GAL_OP_CROSS_ATTENTION] = work_cross_attention,
    [GAL_OP_CROSS_ATTENTION_BACKWARD] = work_cross_attention_backward,
    [GAL_OP_TAKE_KEYS] = work_take_keys,
    [GAL_OP_ATTENTION_STEP] = work_attention_step,
    [GAL_OP_ATTENTION_STEP_BACKWARD] = work_attention_step_backward,
    [GAL_OP_JOIN_GRADIENTS] = work_join_gradients,
    [GAL_OP_NARROW] = work_narrow,
    [GAL_OP_SCALE] = work_scale,
    [GAL_OP_ACTIVATION] = work_activation,
    [GAL_OP_ACTIVATION_BACKWARD] = work_activation_backward,
    [GAL_OP_GATED_ACTIVATION] = work_gated_activation,
    [GAL_OP_GATED_ACTIVATION_BACKWARD] = work_gated_activation_backward,
    [GAL_OP_RESIDUAL] = work_residual,
    [GAL_OP_DROPOUT] = work_dropout,
    [GAL_OP_FIRST_POSITION] = work_first_position,
    [GAL_OP_FIRST_POSITION_BACKWARD] = work_first_position_backward,
    [GAL_OP_MEAN_POSITION] = work_mean_position,
    [GAL_OP_MEAN_POSITION_BACKWARD] = work_mean_position,
    [GAL_OP_MERGE] = work_merge,
    [GAL_OP_MERGE_BACKWARD] = work_merge,
    [GAL_OP_CROSS_ENTROPY_MAX] = work_cross_entropy_max,
    [GAL_OP_CROSS_ENTROPY_SUM] = work_cross_entropy_sum,
    [GAL_OP_CROSS_ENTROPY_LOSS] = work_cross_entropy_loss,
    [GAL_OP_CROSS_ENTROPY_BACKWARD] = work_cross_entropy_backward,
    [GAL_OP_DEAL_FEATURES] = work_features,
    [GAL_OP_COLLECT_FEATURES] = work_features,
    [GAL_OP_PERMUTE] = work_permute,
    [GAL_OP_ADD] = work_add,
    [GAL_OP_FILL] = work_fill,
    [GAL_OP_NORM_START] = work_norm_start,
    [GAL_OP_SUM_SQUARES] = work_sum_squares,
    [GAL_OP_ADAM] = work_adam,
    [GAL_OP_KEEP_GRADIENT] = work_narrow,
    [GAL_OP_ADAM_IN_PLACE] = work_adam_in_place,
    [GAL_OP_HOST_ADAM] = work_adam,
    [GAL_OP_HOST_ADAM_PART] = work_adam,
    [GAL_OP_STORAGE_READ] = work_copy,
    [GAL_OP_STORAGE_WRITE] = work_copy,
    [GAL_OP_COPY_OUT] = work_copy,
    [GAL_OP_COPY_IN] = work_copy,
};

static work work_of_shape(const gal_shape *shape)
{
    return work_of[shape->op] == NULL ? (work){0} : work_of[shape->op](shape);
}

double gal_shape_flops(const gal_shape *shape)
{
    return work_of_shape(shape).flops;
}

double gal_shape_bytes(const gal_shape *shape)
{
    const work w = work_of_shape(shape);
    const double element_bytes = (double)gal_dtype_bytes(shape->dtype);
    const double wide_bytes = (double)gal_dtype_bytes(gal_dtype_wide(shape->dtype));
    return w.elements * element_bytes + w.wide * wide_bytes + w.integers * 4.0 + w.doubles * 8.0;
}
