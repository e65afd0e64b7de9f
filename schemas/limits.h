/* Bounds on what documents may say. They are far beyond any machine; their purpose is that sums and products of
 * checked numbers fit: parameters of a model < 2^53, tokens of a batch < 2^31, bytes of any buffer < 2^62. */
#ifndef GAL_SCHEMAS_LIMITS_H
#define GAL_SCHEMAS_LIMITS_H

#include <float.h>

enum {
    GAL_LAYERS_MAX = 4096,
    GAL_HIDDEN_MAX = 1 << 18,
    GAL_HEAD_DIM_MAX = 1 << 13,
    GAL_FFN_HIDDEN_MAX = 1 << 20,
    GAL_SEQUENCE_LENGTH_MAX = 1 << 22,
    GAL_RELATIVE_BUCKETS_MAX = 1 << 12,
    GAL_VOCABULARY_MAX = 1 << 24,
    GAL_VOCABULARY_MULTIPLE_MAX = 1 << 16,
    GAL_TOKEN_TYPES_MAX = 1 << 10,
    GAL_IMAGE_SIZE_MAX = 1 << 14,
    GAL_PATCH_SIZE_MAX = 1 << 10,
    GAL_CHANNELS_MAX = 16,
    GAL_WINDOW_SIZE_MAX = 1 << 9,
    GAL_BATCH_SAMPLES_MAX = 1 << 24,
    GAL_BATCH_TOKENS_MAX = 1 << 30, /* global_batch_samples * sequence_length */
    GAL_STAGE_MICROBATCHES_MAX =
        1 << 20, /* pp_degree * chunks * microbatch_count: calls that verifier and simulator expand */
    GAL_STEPS_MAX = 1000000000,
    GAL_DEVICES_MAX = 1 << 20,
    GAL_PROBLEM_STRATEGIES_MAX = 1024,
    GAL_PROBLEM_STAGES_MAX = 1024,
    GAL_NUMA_NODE_MAX = 1 << 20 /* a number of one */
};

#define GAL_BYTES_MAX (UINT64_C(1) << 53)
#define GAL_SECONDS_MAX 1e9
#define GAL_SECONDS_PER_BYTE_MIN 1e-24 /* a thousandth of a picosecond for a GiB */
#define GAL_RATE_MAX 1e21              /* flops or bytes per second */
#define GAL_ROTARY_FACTOR_MAX 1e6
#define GAL_POSITIVE_MIN DBL_MIN /* "> 0" in errors */

#endif
