/* What is measured, each with the candidates' calls on random data. For the profiler alone. Everything here is
 * collective over the bench's world. */
#ifndef GAL_PROFILER_MEASURE_H
#define GAL_PROFILER_MEASURE_H

#include "profiler/bench.h"
#include "profiler/candidates.h"
#include "runtime/engine.h"
#include "schemas/profile.h"

/* ---- data ---- */

/* Memory that operands are cut from: random numbers to read (normal, deviation 1/2; positive ones in [0.5, 1.5);
 * tokens), and one area to write. Never zeros, and nothing that a kernel writes is read as input by the next. */
typedef struct gal_pools {
    gal_dtype dtype;
    uint64_t bytes; /* of each */
    void *normal, *positive, *written;
    int32_t *tokens;
    uint64_t token_bytes;
} gal_pools;

/* GAL_ERR_SYSTEM without memory. vocabulary: tokens are below it. */
gal_code gal_pools_create(gal_dtype dtype, uint64_t bytes, uint64_t token_bytes, uint32_t vocabulary, gal_pools *out,
                          gal_error *err);
void gal_pools_free(gal_pools *pools); /* accepts a zeroed one */

/* Copies of a cold operand fill this much together, more than the private caches of present cores. */
#define GAL_COLD_BYTES (UINT64_C(16) << 20)
enum { GAL_COLD_COPIES_MAX = 16, GAL_WARM_COPIES = 2 };

/* Bytes of `normal`, `positive` or `written` that the kernel's operands take at most, its copies included. */
uint64_t gal_operator_bytes(const gal_candidate_operator *candidate);
uint64_t gal_collective_bytes(const gal_candidate_collective *candidate);

/* Tokens of a step, as good as random; what sessions here train on. */
gal_code gal_random_tokens(void *context, const gal_token_request *request, int32_t *out, gal_error *err);

/* Images as good as random. */
gal_code gal_random_patches(void *context, const gal_patch_request *request, void *out, gal_error *err);

/* ---- kernels ---- */

/* One kernel with its operands, ready to run: cold operands walk through copies that together exceed the private
 * caches, as a model's weights do, the others through two. */
typedef struct gal_operator_run {
    gal_kernel kernel;
    gal_kernel_step step;
    gal_kernel_call call;
    gal_token_request tokens; /* of the kinds that load */
    gal_op op;
    gal_dtype dtype;
    char *base[GAL_KERNEL_OPERANDS_MAX];
    uint64_t stride[GAL_KERNEL_OPERANDS_MAX];
    uint32_t copies[GAL_KERNEL_OPERANDS_MAX];
    uint32_t next;
} gal_operator_run;

/* sample_map [candidates' samples_max]: 0, 1, 2, ... The pools' written area is filled anew. */
void gal_operator_prepare(const gal_candidate_operator *candidate, const gal_pools *pools, const uint32_t *sample_map,
                          gal_operator_run *out);
gal_code gal_operator_repeat(void *operator_run, uint32_t count, gal_error *err); /* gal_timed */

/* Peak rates with all ranks busy: large GEMMs in both types, copies beyond the caches. */
gal_code gal_measure_peaks(gal_bench *bench, gal_device *out, gal_error *err);

/* ---- collectives ---- */

/* Communicators of the candidates' places: channel 2 p of place p, channel 2 p + 1 the same members on another stream.
 */
typedef struct gal_links {
    gal_comm *comm;    /* NULL: one rank */
    uint32_t *index;   /* [place]: this rank's number in its group */
    uint32_t *channel; /* [place][2]; GAL_NO_CHANNEL: this rank is in no group there */
    uint32_t place_count;
    double deadline_seconds; /* of a collective */
} gal_links;

gal_code gal_links_create(const gal_bench *bench, const gal_candidates *candidates, gal_links *out, gal_error *err);
void gal_links_free(gal_links *links); /* accepts a zeroed one */

typedef struct gal_collective_run {
    gal_comm *comm;
    gal_comm_request request;
    bool takes_part;
    double deadline_seconds;
    gal_comm_patience patience; /* of the one in flight */
    const char *source;
    char *target;
    uint64_t stride;
    uint32_t copies, next;
} gal_collective_run;

/* Weights and gradients walk through copies as cold operands do, rows alternate between two.
 * second: on the other channel of its place, and on other buffers. */
void gal_collective_prepare(const gal_candidate_collective *candidate, const gal_candidates *candidates,
                            const gal_links *links, const gal_pools *pools, bool second, gal_collective_run *out);
/* Starts the next one, and tests it: GAL_ERR_DEVICE, or the end of all ranks, when it is not complete after the
 * deadline.
 */
gal_code gal_collective_start(gal_collective_run *run, uint32_t *handle, gal_error *err);
gal_code gal_collective_test(gal_collective_run *run, uint32_t handle, bool *done, gal_error *err);
gal_code gal_collective_repeat(void *collective_run, uint32_t count, gal_error *err); /* gal_timed */

/* ---- together ---- */

typedef struct gal_overlap_settings {
    const gal_model *model;
    double until_seconds;                    /* of the bench's elapsed ones: no further collective is tried then */
    uint32_t rank_count, microbatch_samples; /* the kernels that run beside collectives are of this microbatch, split
                                              * over all ranks */
    const gal_candidates *candidates;
    const gal_links *links;
    const gal_pools *pools;
    const uint32_t *sample_map;
} gal_overlap_settings;

/* The slowdown matrix: the kernels of two blocks' backward beside the collectives that take most of the time. One rank
 * has no collectives: the factors of communication are 1. */
gal_code gal_measure_overlap(gal_bench *bench, const gal_overlap_settings *settings,
                             double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err);

/* ---- whole steps ---- */

/* One training session of a model of few layers, one strategy on all blocks, over all ranks. */
typedef struct gal_session_report {
    gal_profile_block block[GAL_BLOCK_KIND_COUNT]; /* operator seconds are 0 where an entry is missing */
    double fixed_step_seconds;
    uint64_t fixed_bytes;
} gal_session_report;

typedef struct gal_session_settings {
    const gal_model *model;
    uint32_t layer_count; /* of the model at most so many are kept */
    uint32_t tp_degree;   /* divides the ranks; the others are replicas */
    uint32_t microbatch_samples;
    uint64_t memory_bytes;      /* of a rank; 0: any */
    double budget_seconds;      /* no step begins after these, but the one that is needed */
    const gal_profile *profile; /* operators sorted, instruction_seconds: what block entries are set against */
} gal_session_settings;

/* *fits: false if it would not fit in memory_bytes or breaks a rule; nothing has been run then. */
gal_code gal_measure_session(gal_bench *bench, const gal_session_settings *settings, bool *fits,
                             gal_session_report *out, gal_error *err);

/* Seconds of the engine per instruction beside the kernels: a step of tiny ones, every rank by itself. */
gal_code gal_measure_instruction(gal_bench *bench, const gal_model *model, double *seconds, gal_error *err);

#endif
