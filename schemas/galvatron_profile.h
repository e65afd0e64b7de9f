/* The galvatron_profile document: what Hetu-Galvatron measured of hardware and model, in base units, and how its cost
 * formulas are to read it. `galplan import` makes it from that project's files; the price provider `galvatron`
 * (costmodel/galvatron.h) and `galplan reproduce` read it.
 *
 * Tables of plain rows; the order of rows is that of the files, and where several answer a question the first does.
 * Source: github.com/PKU-DAIR/Hetu-Galvatron, main of 2026-06, and the forms of its release 2.4.0. */
#ifndef GAL_SCHEMAS_GALVATRON_PROFILE_H
#define GAL_SCHEMAS_GALVATRON_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"
#include "schemas/model.h"

enum { GAL_GALVATRON_PROFILE_VERSION = 1, GAL_GALVATRON_ROWS_MAX = 1 << 16 };

/* Which times of a layer the formulas take.
 *   static    the first row, by samples
 *   batch     a line through seconds * samples over samples, of the rows of its sequence length
 *   sequence  a parabola through the rows of one sample over sequence length (outside the layers a line) */
#define GAL_GALVATRON_TIME_MODES(X)                                                                                    \
    X(GAL_GALVATRON_TIME_STATIC, "static")                                                                             \
    X(GAL_GALVATRON_TIME_BATCH, "batch")                                                                               \
    X(GAL_GALVATRON_TIME_SEQUENCE, "sequence")

/* Which bytes.
 *   static    the rows of its sequence length
 *   sequence  parameters of the shortest, activations of the longest one in proportion, states of the longest */
#define GAL_GALVATRON_MEMORY_MODES(X)                                                                                  \
    X(GAL_GALVATRON_MEMORY_STATIC, "static")                                                                           \
    X(GAL_GALVATRON_MEMORY_SEQUENCE, "sequence")

/* Where embedding and head lie: both on the one stage, or one each on the first and the last. */
#define GAL_GALVATRON_PLACES(X)                                                                                        \
    X(GAL_GALVATRON_ONLY_STAGE, "only_stage")                                                                          \
    X(GAL_GALVATRON_FIRST_STAGE, "first_stage")                                                                        \
    X(GAL_GALVATRON_LAST_STAGE, "last_stage")

#define GAL_GALVATRON_COLLECTIVES(X)                                                                                   \
    X(GAL_GALVATRON_ALL_REDUCE, "all_reduce")                                                                          \
    X(GAL_GALVATRON_ALL_TO_ALL, "all_to_all")

#define GAL_GALVATRON_DTYPES(X)                                                                                        \
    X(GAL_GALVATRON_FP32, "fp32")                                                                                      \
    X(GAL_GALVATRON_FP16, "fp16")                                                                                      \
    X(GAL_GALVATRON_BF16, "bf16")

#define X(enumerator, name) enumerator,
typedef enum gal_galvatron_time_mode {
    GAL_GALVATRON_TIME_MODES(X) GAL_GALVATRON_TIME_MODE_COUNT
} gal_galvatron_time_mode;
typedef enum gal_galvatron_memory_mode {
    GAL_GALVATRON_MEMORY_MODES(X) GAL_GALVATRON_MEMORY_MODE_COUNT
} gal_galvatron_memory_mode;
typedef enum gal_galvatron_place { GAL_GALVATRON_PLACES(X) GAL_GALVATRON_PLACE_COUNT } gal_galvatron_place;
typedef enum gal_galvatron_collective {
    GAL_GALVATRON_COLLECTIVES(X) GAL_GALVATRON_COLLECTIVE_COUNT
} gal_galvatron_collective;
typedef enum gal_galvatron_dtype { GAL_GALVATRON_DTYPES(X) GAL_GALVATRON_DTYPE_COUNT } gal_galvatron_dtype;
#undef X

extern const char *const gal_galvatron_time_mode_names[GAL_GALVATRON_TIME_MODE_COUNT];
extern const char *const gal_galvatron_memory_mode_names[GAL_GALVATRON_MEMORY_MODE_COUNT];
extern const char *const gal_galvatron_dtype_names[GAL_GALVATRON_DTYPE_COUNT];

/* Layers that are alike; the model is the types in a row. */
typedef struct gal_galvatron_layer_type {
    uint32_t layer_count, hidden, sequence_length;
} gal_galvatron_layer_type;

/* Forward of one sample in a batch of so many, of one layer, on one device. */
typedef struct gal_galvatron_layer_time {
    uint32_t layer_type, batch_samples, sequence_length;
    double seconds;
} gal_galvatron_layer_time;

/* Parameters of a layer in fp32, whole; what a layer keeps of one sample under recompute, whole. */
typedef struct gal_galvatron_layer_size {
    uint32_t layer_type, sequence_length;
    double parameter_bytes, recompute_bytes;
} gal_galvatron_layer_size;

/* What a layer keeps of one sample on each of `degree` devices that split it by tensors or by Ulysses. */
typedef struct gal_galvatron_activation {
    uint32_t layer_type, sequence_length, degree;
    double bytes;
} gal_galvatron_activation;

/* The same for what is outside the layers: embedding, last norm and head together. */
typedef struct gal_galvatron_outside_time {
    uint32_t batch_samples, sequence_length;
    double seconds;
} gal_galvatron_outside_time;

/* states: parameters, gradients and moments on each of `degree` devices; activation: of one sample. */
typedef struct gal_galvatron_outside_size {
    uint32_t place; /* gal_galvatron_place */
    uint32_t sequence_length, degree;
    double state_bytes, activation_bytes;
} gal_galvatron_outside_size;

/* Bus bandwidth of an all-reduce: 2 (n - 1) / n * bytes / seconds. strided: its members are not neighbours. */
typedef struct gal_galvatron_all_reduce_rate {
    uint32_t group_size;
    bool strided;
    double bytes_per_second;
} gal_galvatron_all_reduce_rate;

/* Of a send between neighbours while all of stage_count stages send. */
typedef struct gal_galvatron_p2p_rate {
    uint32_t stage_count;
    double bytes_per_second;
} gal_galvatron_p2p_rate;

/* One collective among neighbours; message_bytes is the whole tensor. */
typedef struct gal_galvatron_message_time {
    uint32_t op; /* gal_galvatron_collective */
    uint32_t group_size;
    uint64_t message_bytes;
    double seconds;
} gal_galvatron_message_time;

typedef struct gal_galvatron_profile {
    char name[GAL_NAME_BYTES];
    gal_galvatron_dtype dtype; /* of computation and messages */
    uint32_t device_count;
    bool synchronous_reduce; /* gradients are reduced once at the end of a step, not as each microbatch ends */
    gal_galvatron_time_mode time_mode;
    gal_galvatron_memory_mode memory_mode;
    bool sequence_parallel;  /* Megatron's, wherever tensors are split */
    double overlap_slowdown; /* of compute and of communication, while both run */
    uint32_t layer_type_count, layer_time_count, layer_size_count, activation_count;
    uint32_t outside_time_count, outside_size_count;
    uint32_t all_reduce_rate_count, p2p_rate_count, message_time_count;
    /* Owned. */
    gal_galvatron_layer_type *layer_type;
    gal_galvatron_layer_time *layer_time;
    gal_galvatron_layer_size *layer_size;
    gal_galvatron_activation *activation;
    gal_galvatron_outside_time *outside_time;
    gal_galvatron_outside_size *outside_size;
    gal_galvatron_all_reduce_rate *all_reduce_rate;
    gal_galvatron_p2p_rate *p2p_rate;
    gal_galvatron_message_time *message_time;
} gal_galvatron_profile;

/* As gal_document_read and gal_document_write (schemas/document.h). */
gal_code gal_galvatron_profile_read(const char *path, gal_galvatron_profile *out, gal_error *err);
gal_code gal_galvatron_profile_write(const char *path, const gal_galvatron_profile *profile, gal_error *err);
void gal_galvatron_profile_free(gal_galvatron_profile *profile);

uint32_t gal_galvatron_layer_count(const gal_galvatron_profile *profile);

#endif
