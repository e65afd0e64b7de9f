#include "schemas/operator.h"

#include <string.h>

#define X(enumerator, name, dims, collective) [enumerator] = name,
const char *const gal_op_names[GAL_OP_COUNT] = {GAL_OPERATORS(X)};
#undef X

#define X(enumerator, name, dims, collective) [enumerator] = dims,
const uint8_t gal_op_dim_count[GAL_OP_COUNT] = {GAL_OPERATORS(X)};
#undef X

#define X(enumerator, name, dims, collective) [enumerator] = collective,
const uint8_t gal_op_is_collective[GAL_OP_COUNT] = {GAL_OPERATORS(X)};
#undef X

/* A letter per operand: e the shape's dtype, w wide beside it, c wide or not by a GEMM's flags, i int32, d fp64. */
static const char *const operand_types[GAL_OP_COUNT] = {
    [GAL_OP_LOAD_TOKENS] = "i",
    [GAL_OP_LOAD_TARGETS] = "i",
    [GAL_OP_LOAD_PATCHES] = "e",
    [GAL_OP_LOAD_DECODER_TOKENS] = "i",
    [GAL_OP_LOAD_LENGTHS] = "i",
    [GAL_OP_EMBED] = "iee",
    [GAL_OP_EMBED_BACKWARD] = "iew",
    [GAL_OP_POSITION] = "eeee",
    [GAL_OP_POSITION_BACKWARD] = "eeww",
    [GAL_OP_LAYER_NORM] = "eeeew",
    [GAL_OP_LAYER_NORM_BACKWARD] = "eeewewwe",
    [GAL_OP_RMS_NORM] = "eeew",
    [GAL_OP_RMS_NORM_BACKWARD] = "eeewewe",
    [GAL_OP_NORM_SUMS] = "ew",
    [GAL_OP_NORM_BY_SUMS] = "eewewe",
    [GAL_OP_NORM_SUMS_BACKWARD] = "eeewwww",
    [GAL_OP_NORM_BY_SUMS_BACKWARD] = "eeewwee",
    [GAL_OP_ADD_BIAS] = "ee",
    [GAL_OP_GEMM] = "eece",
    [GAL_OP_BIAS_GRADIENT] = "ew",
    [GAL_OP_ROTARY] = "e",
    [GAL_OP_ATTENTION] = "eewi",
    [GAL_OP_ATTENTION_BACKWARD] = "eeewei",
    [GAL_OP_RELATIVE_ATTENTION] = "eeewi",
    [GAL_OP_RELATIVE_ATTENTION_BACKWARD] = "eeeweewi",
    [GAL_OP_WINDOW_ATTENTION] = "eeew",
    [GAL_OP_WINDOW_ATTENTION_BACKWARD] = "eeeweew",
    [GAL_OP_CROSS_ATTENTION] = "eeewi",
    [GAL_OP_CROSS_ATTENTION_BACKWARD] = "eeeeweei",
    [GAL_OP_TAKE_KEYS] = "ee",
    [GAL_OP_ATTENTION_STEP] = "eeww",
    [GAL_OP_ATTENTION_STEP_BACKWARD] = "eeeewww",
    [GAL_OP_JOIN_GRADIENTS] = "wwe",
    [GAL_OP_NARROW] = "we",
    [GAL_OP_SCALE] = "e",
    [GAL_OP_ACTIVATION] = "ee",
    [GAL_OP_ACTIVATION_BACKWARD] = "eee",
    [GAL_OP_GATED_ACTIVATION] = "ee",
    [GAL_OP_GATED_ACTIVATION_BACKWARD] = "eee",
    [GAL_OP_RESIDUAL] = "eeee",
    [GAL_OP_DROPOUT] = "ee",
    [GAL_OP_FIRST_POSITION] = "ee",
    [GAL_OP_FIRST_POSITION_BACKWARD] = "ee",
    [GAL_OP_MEAN_POSITION] = "ee",
    [GAL_OP_MEAN_POSITION_BACKWARD] = "ee",
    [GAL_OP_MERGE] = "ee",
    [GAL_OP_MERGE_BACKWARD] = "ee",
    [GAL_OP_CROSS_ENTROPY_MAX] = "ew",
    [GAL_OP_CROSS_ENTROPY_SUM] = "ewiw",
    [GAL_OP_CROSS_ENTROPY_LOSS] = "ed",
    [GAL_OP_CROSS_ENTROPY_BACKWARD] = "ewwi",
    [GAL_OP_DEAL_FEATURES] = "ee",
    [GAL_OP_COLLECT_FEATURES] = "ee",
    [GAL_OP_PERMUTE] = "ee",
    [GAL_OP_ADD] = "ee",
    [GAL_OP_FILL] = "e",
    [GAL_OP_NORM_START] = "dd",
    [GAL_OP_SUM_SQUARES] = "ed",
    [GAL_OP_ADAM] = "ewwwdw",
    [GAL_OP_KEEP_GRADIENT] = "we",
    [GAL_OP_ADAM_IN_PLACE] = "ewwdw",
    [GAL_OP_HOST_ADAM] = "ewwwdw",
    [GAL_OP_HOST_ADAM_PART] = "ewwwdw",
    [GAL_OP_STORAGE_READ] = "ee",
    [GAL_OP_STORAGE_WRITE] = "ee",
    [GAL_OP_COPY_OUT] = "ee",
    [GAL_OP_COPY_IN] = "ee",
    [GAL_OP_ALL_REDUCE] = "e",
    [GAL_OP_ALL_GATHER] = "ee",
    [GAL_OP_REDUCE_SCATTER] = "ee",
    [GAL_OP_ALL_TO_ALL] = "ee",
    [GAL_OP_BROADCAST] = "ee",
    [GAL_OP_REDUCE] = "ee",
    [GAL_OP_ROTATE] = "ee",
    [GAL_OP_MIRROR] = "ee",
    [GAL_OP_SEND] = "e",
    [GAL_OP_RECEIVE] = "e",
};

gal_dtype gal_operand_dtype(const gal_shape *shape, uint32_t operand)
{
    const char *types = operand_types[shape->op];
    GAL_ASSERT(operand < strlen(types));
    switch (types[operand]) {
    case 'i':
        return GAL_I32;
    case 'd':
        return GAL_FP64;
    case 'w':
        return gal_dtype_wide(shape->dtype);
    case 'c':
        return (shape->dims[3] & GAL_GEMM_FP32_C) != 0 ? GAL_FP32 : shape->dtype;
    default:
        return shape->dtype;
    }
}
