/* What is measured, each with the candidates' calls on random data. For the profiler alone. Everything here is
 * collective over the bench's world. */
#ifndef GAL_PROFILER_MEASURE_H
#define GAL_PROFILER_MEASURE_H

#include "profiler/bench.h"
#include "profiler/candidates.h"
#include "runtime/channels.h"
#include "runtime/engine/engine.h"
#include "schemas/profile.h"

/* ---- data ---- */

typedef struct gal_pool_settings {
    gal_dtype dtype;        /* of the models; the device has kernels of it */
    uint64_t bytes;         /* of each of the three areas */
    uint64_t token_bytes;   /* of the tokens to read */
    uint64_t staging_bytes; /* of the largest load; 0: none is measured */
    uint32_t vocabulary;    /* tokens are below it */
    uint32_t samples_max;   /* of a microbatch */
    uint64_t cold_bytes;    /* copies of a cold operand fill this much together: more than the caches hold */
} gal_pool_settings;

/* Memory of the device that operands are cut from: random numbers to read (normal, deviation 1/2; positive ones in
 * [0.5, 1.5); tokens), and one area to write. Never zeros, and nothing that a kernel writes is read as input by the
 * next. And what kernels of the device need besides. Sizes are multiples of GAL_ALIGNMENT_BYTES. */
typedef struct gal_pools {
    const gal_bench *bench; /* borrowed */
    const gal_ops *ops;
    gal_pool_settings settings;
    gal_memory normal, positive, written, tokens;
    gal_memory samples;     /* 0, 1, 2, ...: the sample map */
    uint32_t *host_samples; /* the same on the host */
    /* Of a device with queues. */
    void *context;   /* of the table */
    gal_memory step; /* of the kernels prepared last */
    gal_memory workspace[GAL_LANE_COUNT];
    uint64_t workspace_bytes; /* the most that was asked for */
    void *staging;
} gal_pools;

/* *out holds what was made also on failure: GAL_ERR_SYSTEM without memory, GAL_ERR_DEVICE. The type's kernels must
 * exist. */
gal_code gal_pools_create(const gal_bench *bench, const gal_pool_settings *settings, gal_pools *out, gal_error *err);
void gal_pools_free(gal_pools *pools); /* accepts a zeroed one */

/* For hosts: more than the private caches of present cores. */
#define GAL_COLD_BYTES_HOST (UINT64_C(16) << 20)
enum { GAL_COLD_COPIES_MAX = 16, GAL_WARM_COPIES = 2 };

/* Bytes of `normal`, `positive` or `written` that the kernel's operands take at most, its copies included. */
uint64_t gal_operator_bytes(const gal_candidate_operator *candidate, uint64_t cold_bytes);
uint64_t gal_collective_bytes(const gal_candidate_collective *candidate, uint64_t cold_bytes);

/* Tokens of a step, as good as random; what sessions here train on. */
gal_code gal_random_tokens(void *context, const gal_token_request *request, int32_t *out, gal_error *err);

/* Of models that pad: samples as long as the sequence, and a count of targets that keeps gradients of any batch small.
 */
gal_code gal_whole_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err);
gal_code gal_many_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err);

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
    gal_pools *pools;
    gal_lane lane;       /* as prepared: the compute lane; may be changed */
    uint64_t load_bytes; /* of the kinds that load */
    char *base[GAL_KERNEL_OPERANDS_MAX];
    uint64_t stride[GAL_KERNEL_OPERANDS_MAX];
    uint32_t copies[GAL_KERNEL_OPERANDS_MAX];
    uint32_t next;
} gal_operator_run;

/* The pools' written area is filled anew. On a device kernels may be timed against each other and allocate here, so
 * that they do not later; what runs together is of one model. */
gal_code gal_operator_prepare(const gal_candidate_operator *candidate, gal_pools *pools, gal_operator_run *out,
                              gal_error *err);
gal_code gal_operator_repeat(void *operator_run, uint32_t count, gal_error *err); /* gal_timed */

/* Peak rates with all ranks busy: large GEMMs in all types that the device computes in, copies beyond the caches. Of a
 * type without kernels the rate stays what it is. Of a device with queues also what next to nothing takes. dtype: of
 * the models; out: its memory_bytes are read. */
gal_code gal_measure_peaks(gal_bench *bench, gal_dtype dtype, gal_device *out, gal_error *err);

/* measure_storage.c: what a file in the directory is read and written at, each way alone and all ranks at once, and
 * this rank's share of the room there. slowdown: factor on either way while both go on; left alone where nothing was to
 * be measured. Collective. GAL_ERR_SYSTEM: no directory, no room, or it fails. */
gal_code gal_measure_storage(gal_bench *bench, const char *directory, gal_device *out, double *slowdown,
                             gal_error *err);

/* ---- collectives ---- */

/* Communicators of the candidates' places: channel 2 p of place p, channel 2 p + 1 the same members on another stream.
 */
typedef struct gal_links {
    const gal_bench *bench; /* borrowed */
    gal_comm *comm;         /* NULL: one rank */
    gal_channels channels;  /* its specs; ranks is the storage of their lists */
    uint32_t *index;        /* [place]: this rank's number in its group */
    uint32_t *channel;      /* [place][2]; GAL_NO_CHANNEL: this rank is in no group there */
    uint32_t place_count;
    double deadline_seconds; /* of a collective */
} gal_links;

typedef struct gal_links_settings {
    const gal_candidate_place *place; /* [place_count] */
    uint32_t place_count;
    gal_dtype dtype;
    uint64_t bytes_max;           /* of a collective */
    uint32_t ctas;                /* of a device: multiprocessors of one operation; 0: the library's choice */
    double slow_bytes_per_second; /* gal_connection.slow_bytes_per_second */
} gal_links_settings;

gal_code gal_links_create(const gal_bench *bench, const gal_links_settings *settings, gal_links *out, gal_error *err);
void gal_links_free(gal_links *links); /* accepts a zeroed one */

typedef struct gal_collective_run {
    const gal_bench *bench;
    gal_comm *comm;
    gal_comm_request request;
    bool takes_part;
    gal_lane lane; /* as prepared: the compute lane; may be changed */
    double deadline_seconds;
    gal_comm_patience patience; /* of the one in flight */
    uint32_t handle;            /* of the one that is kept in flight (gal_back_of_collective) */
    const char *source;
    char *target;
    uint64_t stride;
    uint32_t copies, next;
} gal_collective_run;

/* Weights and gradients walk through copies as cold operands do, rows alternate between two.
 * second: on the other channel of its place, and on other buffers. */
void gal_collective_prepare(const gal_candidate_collective *candidate, const gal_links *links, const gal_pools *pools,
                            bool second, gal_collective_run *out);
/* Starts the next one, and tests it: GAL_ERR_DEVICE, or the end of all ranks, when it is not complete after the
 * deadline.
 */
gal_code gal_collective_start(gal_collective_run *run, uint32_t *handle, gal_error *err);
gal_code gal_collective_test(gal_collective_run *run, uint32_t handle, bool *done, gal_error *err);
gal_code gal_collective_repeat(void *collective_run, uint32_t count, gal_error *err); /* gal_timed */
/* gal_comm_ops.watch of a communicator that has it; 0: no longer. */
void gal_links_watch(const gal_links *links, double deadline_seconds);
/* gal_bench_time of it, watched. */
gal_code gal_collective_time(gal_bench *bench, const gal_links *links, gal_collective_run *run, gal_timing *out,
                             gal_error *err);

/* ---- together ---- */

typedef struct gal_overlap_settings {
    const gal_model *model;
    double until_seconds;                    /* of the bench's elapsed ones: no further collective is tried then */
    uint32_t rank_count, microbatch_samples; /* the kernels that run beside collectives are of this microbatch, split
                                              * over all ranks */
    uint64_t message_bytes_max;              /* of collectives; 0: any */
    const gal_candidates *candidates;
    const gal_links *links;
    gal_pools *pools;
} gal_overlap_settings;

enum { GAL_SEQUENCE_MAX = 64 };

/* The kernels of two blocks' backward, in their order, again and again. */
typedef struct gal_sequence {
    gal_operator_run run[GAL_SEQUENCE_MAX];
    uint32_t count, next;
} gal_sequence;
gal_code gal_sequence_choose(const gal_overlap_settings *settings, gal_sequence *out, gal_error *err);
/* gal_timed: all of them, `count` times. */
gal_code gal_sequence_repeat(void *sequence, uint32_t count, gal_error *err);

enum { GAL_OVERLAP_COLLECTIVES = 5 };
/* Of each operation on each stream what takes most of the time among the collectives that run beside compute; returns
 * their count. */
uint32_t gal_overlap_collectives(const gal_overlap_settings *settings,
                                 const gal_candidate_collective *out[GAL_OVERLAP_COLLECTIVES]);

/* measure_together.c: on ranks that are processors. What goes on behind the first thread's work, one after the other.
 * start NULL: this rank has no part in it. due and rest may be NULL: when it will be complete, if that is known; gives
 * others the core while it is waited for. */
typedef struct gal_back {
    gal_code (*start)(void *run, gal_error *err);
    gal_code (*test)(void *run, bool *done, gal_error *err);
    double (*due)(void *run);
    void (*rest)(void *run);
    void *run;
} gal_back;
gal_back gal_back_of_collective(gal_collective_run *run);

/* What the first thread does: `count` units in turn, each by itself so long; or one that is started and tested. */
typedef struct gal_front {
    gal_timed run;          /* the next ones */
    void *context;          /* of run */
    const gal_back *polled; /* in place of both, count 1; NULL: none */
    uint32_t count, next;
    double alone_seconds[GAL_SEQUENCE_MAX];
} gal_front;
gal_front gal_front_of_kernels(gal_sequence *kernels);
/* Fills alone_seconds by run: few units are run beside one behind them, and they differ. */
gal_code gal_front_time(gal_bench *bench, gal_front *front, gal_error *err);

/* factors: on the front and on what is behind it, medians over rounds of some 20 ms of that, the most of all ranks. */
gal_code gal_measure_together(gal_bench *bench, gal_front *front, const gal_back *back, double back_alone_seconds,
                              double factors[2], gal_error *err);

/* The slowdown matrix: the kernels of two blocks' backward beside the collectives that take most of the time, each by
 * its share of a step's. One rank has no collectives: the factors of communication are 1. */
gal_code gal_measure_overlap(gal_bench *bench, const gal_overlap_settings *settings,
                             double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err);

/* Who slows copies, and whom they slow: [copy] and [][copy] of the matrix. On a device with queues, each way: beside
 * the kernels, beside what communicates in the matrix (collectives that are queued, one rank's stand-in), and the two
 * ways beside each other; by the slower way each. Where the host communicates, a message is such copies. On ranks that
 * are processors the first thread copies, between its kernels: beside them, beside the collective that takes most of
 * the time, and the two ways in turn. */
gal_code gal_measure_copy_slowdowns(gal_bench *bench, const gal_overlap_settings *settings,
                                    double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err);

gal_code gal_measure_host_copies(gal_bench *bench, const gal_overlap_settings *settings, gal_sequence *kernels,
                                 double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err);

/* On ranks that are processors, of [storage] and [][storage] all but what transfers are to each other: transfers of a
 * file in the directory, of parts as a plan's, beside the kernels, copies, and the collective that takes most of the
 * time. */
gal_code gal_measure_storage_slowdowns(gal_bench *bench, const gal_overlap_settings *settings, const char *directory,
                                       double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err);

/* On a device with queues, in place of the host's way: what runs beside kernels is the communicator's collectives where
 * it is queued, copies to the host where the host communicates, and one rank's stand-in for them (gpu.h). by_ctas: the
 * same by the multiprocessors that communication takes, and what a collective takes with so many; of one rank's
 * stand-in that says nothing of links. */
gal_code gal_measure_beside(gal_bench *bench, const gal_overlap_settings *settings, gal_sequence *kernels,
                            double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err);
gal_code gal_measure_ctas(gal_bench *bench, const gal_overlap_settings *settings, gal_profile_gpu *out, gal_error *err);

/* ---- the host ---- */

/* Copies of several sizes between the device and the host's memory, pinned of a GPU: of each of the nodes that are
 * listed, by all ranks on it at once. own_node: this rank's. */
gal_code gal_measure_copies(gal_bench *bench, const gal_pools *pools, uint32_t own_node, gal_profile_host *out,
                            gal_error *err);
/* measure_adam.c: Adam on the host by 1, 2, 4, ... threads of each rank up to threads_most, and by the
 * threads_per_rank that *out has. */
gal_code gal_measure_host_adam(const gal_bench *bench, uint32_t threads_most, gal_profile_host *out, gal_error *err);

/* What is copied and transferred beside others at a time. */
enum { GAL_BESIDE_BYTES = 1 << 20 };

/* On the host by its kernel, one place after the other of both areas; gal_host_copy_repeat is its gal_timed. */
typedef struct gal_host_copy {
    gal_kernel kernel;
    char *target, *source;
    uint64_t bytes, area_bytes, next_byte;
} gal_host_copy;
gal_code gal_host_copy_repeat(void *host_copy, uint32_t count, gal_error *err);

/* A copy of `bytes` between the pools' memory and pinned memory; gal_copy_repeat is its gal_timed. */
typedef struct gal_copy_run {
    const gal_bench *bench;
    void *target;
    const void *source;
    uint64_t bytes;
    gal_lane lane;
} gal_copy_run;
/* On a device with queues. */
gal_code gal_copy_repeat(void *copy_run, uint32_t count, gal_error *err);

/* ---- whole steps ---- */

/* One training session of a model of few layers, one strategy on all blocks, over all ranks. */
typedef struct gal_session_report {
    gal_profile_block block[GAL_BLOCK_KIND_COUNT]; /* operator seconds are 0 where an entry is missing */
    double fixed_step_seconds;
    uint64_t fixed_bytes;
    uint32_t communicator_count;
} gal_session_report;

typedef struct gal_session_settings {
    const gal_model *model;
    uint32_t layer_count;    /* of the model at most so many are kept */
    uint32_t tp_degree;      /* divides the ranks; the others are replicas */
    gal_recompute recompute; /* of all blocks */
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
