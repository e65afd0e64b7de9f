/* The plan document: who computes what. Self-contained: it carries its model and its cluster whole.
 *
 * The world is pp_degree stages of device_count / pp_degree devices each; rank = stage * D + device. The chain of
 * blocks is cut in pp_degree * chunk_count pieces and piece c lies on stage c mod pp_degree (D. Narayanan et al.,
 * "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2); without
 * interleaving chunk_count is 1 and a piece is a stage. The document lists pieces, in the order of the chain, as
 * "stages": so blocks stay consecutive whatever the schedule, and a plan that is not interleaved needs no further
 * level. In a stage every block has a mesh, the ordered axes of its strategy, innermost (fastest-varying device number)
 * first; their degrees multiply to D. A microbatch has global_batch_samples / microbatch_count samples, split evenly
 * over the DP and SDP axes of each block. */
#ifndef GAL_SCHEMAS_PLAN_H
#define GAL_SCHEMAS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/options.h"
#include "schemas/base/status.h"
#include "schemas/cluster.h"
#include "schemas/constants.h"
#include "schemas/framework.h"
#include "schemas/model.h"

enum { GAL_RING_DEGREE_MAX = 64 }; /* a block has so many steps of attention, and instructions for each */
/* Of storage: what transfers begin and end at, as devices and file systems without a cache want it; and of a moment
 * what is moved at a time, large enough for the rate of any device. */
enum { GAL_STORAGE_BLOCK_BYTES = 4096, GAL_STORAGE_PART_BYTES = 1 << 24, GAL_STORAGE_PART_BYTES_MAX = 1 << 30 };
enum { GAL_PLAN_VERSION = 1, GAL_AXES_MAX = 8, GAL_PLAN_CHUNKS_MAX = 32, GAL_COMMUNICATION_CTAS_MAX = 64 };

#define GAL_AXIS_KINDS(X)                                                                                              \
    X(GAL_AXIS_DP, "dp")           /* replicas of the parameters */                                                    \
    X(GAL_AXIS_SDP, "sdp")         /* replicas whose states are sharded by zero_stage */                               \
    X(GAL_AXIS_TP, "tp")           /* tensor parallel, by tp_mode */                                                   \
    X(GAL_AXIS_ULYSSES, "ulysses") /* sequence parallel: positions split, attention by heads */                        \
    X(GAL_AXIS_RING, "ring")       /* positions split, keys and values pass round in attention */                      \
    X(GAL_AXIS_ZIGZAG, "zigzag")   /* a ring of which every device has, in attention, an early and a late part */

/* How the devices of a TP axis divide a block (Colossal-AI section III-A). A grid divides both the rows and the
 * features of every activation, and every weight in both directions:
 *     2d    q x q devices: SUMMA (Optimus)
 *     2.5d  depth x q x q: a 2d grid for each part of the samples (Tesseract)
 *     3d    l x l x l: also weights, inputs and outputs along an axis each */
#define GAL_TP_MODES(X)                                                                                                \
    X(GAL_TP_1D, "1d")                                                                                                 \
    X(GAL_TP_2D, "2d")                                                                                                 \
    X(GAL_TP_2P5D, "2.5d")                                                                                             \
    X(GAL_TP_3D, "3d")

/* What backward computes again. selective: attention alone. full: what it needs of a block, from the block's input.
 * repeat: all of a block's forward, what nobody needs too: the last product and the collectives behind it, as PyTorch's
 * checkpoints do and so Megatron-LM (Oases, section 2); no search proposes it. */
#define GAL_RECOMPUTES(X)                                                                                              \
    X(GAL_RECOMPUTE_NONE, "none")                                                                                      \
    X(GAL_RECOMPUTE_SELECTIVE, "selective")                                                                            \
    X(GAL_RECOMPUTE_FULL, "full")                                                                                      \
    X(GAL_RECOMPUTE_REPEAT, "repeat")

/* How the collectives of a block's TP axis run beside its kernels (Oases, sections 2, 3 and 5.1). That concerns the
 * blocks that have such collectives between their kernels, attention and FFN; others do the same under every kind.
 *     intra_op    a product whose result a collective sums is cut in two by rows, and so is the collective: that of the
 *                 first half runs beside the product of the second (S. Wang et al., "Overlap communication with
 *                 dependent computation via decomposition", ASPLOS 2023). Not with sequence parallelism, where what a
 *                 collective gives to one device are not the rows of one half
 * The others cut the samples of a microbatch in two sub-batches: whenever one starts a collective the other goes on.
 *     in_pass     forward, recompute and backward each for itself (Merak); recompute runs all of forward again
 *     cross_pass  recompute and backward of all blocks together (section 3.1)
 *     fine        as cross_pass, and recompute starts behind the collective in front of it, which so is not repeated
 *                 (section 3.2). Without overlap nothing is repeated either
 * Without full recompute there is one pass, so there is one kind: in_pass. */
#define GAL_OVERLAPS(X)                                                                                                \
    X(GAL_OVERLAP_NONE, "none")                                                                                        \
    X(GAL_OVERLAP_INTRA_OP, "intra_op")                                                                                \
    X(GAL_OVERLAP_IN_PASS, "in_pass")                                                                                  \
    X(GAL_OVERLAP_CROSS_PASS, "cross_pass")                                                                            \
    X(GAL_OVERLAP_FINE, "fine")

/* What is sharded, gathered and reduced at once: norms and row biases apart, which every device keeps whole, and tables
 * that several blocks hold, which are units by themselves.
 *     matrix  a matrix with its bias
 *     bucket  all matrices of a block
 *     chunk   matrices of consecutive blocks of one strategy in a piece, in the order of their first use, up to
 *             chunk_elements of a device; one that is larger stands alone. Embeddings, bridges and heads are buckets
 *             (Colossal-AI, section III-B; J. Fang et al., "PatrickStar", section 6.1, where chunks have one size: here
 * a chunk ends with its last matrix, so nothing is lost behind it) */
#define GAL_SHARD_UNITS(X)                                                                                             \
    X(GAL_SHARD_MATRIX, "matrix")                                                                                      \
    X(GAL_SHARD_BUCKET, "bucket")                                                                                      \
    X(GAL_SHARD_CHUNK, "chunk")

#define GAL_SCHEDULES(X)                                                                                               \
    X(GAL_SCHEDULE_GPIPE, "gpipe")                                                                                     \
    X(GAL_SCHEDULE_1F1B, "1f1b")                                                                                       \
    X(GAL_SCHEDULE_INTERLEAVED, "interleaved") /* 1F1B with chunk_count >= 2 */                                        \
    X(GAL_SCHEDULE_ZERO_BUBBLE, "zero_bubble") /* backward in two parts: ZB-H1 */

#define X(enumerator, name) enumerator,
typedef enum gal_axis_kind { GAL_AXIS_KINDS(X) GAL_AXIS_KIND_COUNT } gal_axis_kind;
typedef enum gal_tp_mode { GAL_TP_MODES(X) GAL_TP_MODE_COUNT } gal_tp_mode;
typedef enum gal_recompute { GAL_RECOMPUTES(X) GAL_RECOMPUTE_COUNT } gal_recompute;
typedef enum gal_overlap { GAL_OVERLAPS(X) GAL_OVERLAP_COUNT } gal_overlap;
typedef enum gal_shard_unit { GAL_SHARD_UNITS(X) GAL_SHARD_UNIT_COUNT } gal_shard_unit;
typedef enum gal_schedule { GAL_SCHEDULES(X) GAL_SCHEDULE_COUNT } gal_schedule;
#undef X

extern const char *const gal_axis_kind_names[GAL_AXIS_KIND_COUNT];
extern const char *const gal_tp_mode_names[GAL_TP_MODE_COUNT];
extern const char *const gal_recompute_names[GAL_RECOMPUTE_COUNT];
extern const char *const gal_overlap_names[GAL_OVERLAP_COUNT];
extern const char *const gal_shard_unit_names[GAL_SHARD_UNIT_COUNT];
extern const char *const gal_schedule_names[GAL_SCHEDULE_COUNT];

typedef struct gal_axis {
    gal_axis_kind kind;
    uint32_t degree; /* >= 2 */
} gal_axis;

typedef struct gal_strategy {
    uint32_t axis_count;         /* 0 on one device */
    gal_axis axis[GAL_AXES_MAX]; /* innermost first; no kind twice */
    uint32_t zero_stage;         /* 1, 2 or 3 with an SDP axis; 0 to 3 with an axis that splits positions, which shards
                                  * along; 1 or 2 with keep_weights; else 0 */
    bool sequence_parallel;      /* Megatron sequence parallelism; needs a TP axis */
    gal_recompute recompute;
    gal_tp_mode tp_mode; /* of the TP axis; 1d without one */
    uint32_t tp_depth;   /* with 2.5d >= 2, else 0 */
    gal_overlap overlap; /* none without a TP axis of mode 1d */
    bool keep_panels;    /* of a grid: inputs of products are kept as gathered, and not gathered again in backward */
    bool keep_weights; /* of a cube: weights stay as gathered along its first side, over which zero_stage, 1 or 2, then
                        * shards gradients and optimizer as over SDP */
    bool stepped;      /* of a square: products step by step, with prefetch_depth parts of each factor at a time */
    uint32_t offload_optimizer_percent;  /* so much of the block's parameters, whole units in their order, has its
                                          * optimizer's data in the host's memory and is updated there */
    uint32_t offload_storage_percent;    /* so much of them, of those on the host, has its moments on storage */
    bool offload_storage_masters;        /* and the masters of these too: only of 16 bits, which have such */
    uint32_t offload_parameters_percent; /* so much of them, of those on the host but for norms and row biases, has its
                                          * weights there alone: they are copied in before each use. Only with
                                          * zero_stage 0 or 3 */
    uint32_t offload_storage_parameters_percent; /* so much of them, of those whose moments are on storage and whose
                                                  * weights are on the host alone, has these there as well: they are
                                                  * read before each use, and updated in parts as the moments are */
    uint32_t offload_activations_percent; /* so much of what forward keeps for backward, by bytes of a microbatch: the
                                           * block's input, then whole values in the order in which they are made; to
                                           * the host behind its forward, in again before its backward. Of embeddings
                                           * and heads nothing is. Not beside overlap and a zero_bubble schedule */
    uint32_t offload_storage_activations_percent; /* so much of it, of what goes to the host, goes on to a file */
    gal_shard_unit shard_unit;
    uint32_t chunk_elements; /* with GAL_SHARD_CHUNK, else 0 */
} gal_strategy;

/* Consecutive blocks of one piece under one strategy. */
typedef struct gal_plan_run {
    uint32_t block_count; /* >= 1 */
    gal_strategy strategy;
} gal_plan_run;

typedef struct gal_plan_stage {
    uint32_t first_run, run_count;    /* into gal_plan.run */
    uint64_t predicted_bytes;         /* arena bytes per device of the stage, with all its pieces, + the profile's fixed
                                       * bytes: the same for each of these pieces; 0: not known */
    uint64_t predicted_host_bytes;    /* likewise in the host's memory; 0: none, or not known */
    uint64_t predicted_storage_bytes; /* likewise in a file */
} gal_plan_stage;

/* Of a searched plan a chunk has no more elements of a device: by then latencies are some thousandths of a message. */
#define GAL_CHUNK_ELEMENTS_MOST (UINT32_C(1) << 28)

/* The strategies that a search may give to blocks: of which axes (planner/space/strategy_space.h). */
typedef struct gal_space {
    bool axis[GAL_AXIS_KIND_COUNT];
    bool zero_stage[4]; /* [1..3] */
    bool sequence_parallel;
    bool recompute, selective;       /* full; of attention alone */
    bool takeaway[4];                /* [1..3], applied */
    bool tp_grid[GAL_TP_MODE_COUNT]; /* [GAL_TP_2D ...]; mode 1d is axis[GAL_AXIS_TP] */
    bool keep_panels;                /* of grids, besides those that gather again; of cubes those of weights too */
    bool stepped;                    /* of squares, besides those that gather */
    bool overlap;                    /* of plain TP, besides those without: fine with full recompute, else in_pass */
    bool offload;                    /* to the host's memory, in some ways (planner/space/strategy_space.c) */
    bool store_activations;          /* of what is kept there half and all of it on storage, besides nothing: in a
                                      * certificate host.activations says so */
    bool store_weights;              /* likewise of weights: host.weights */
    bool store_moments;              /* likewise of what the optimizer has there: of no certificate */
    bool bucket;                     /* of all matrices of a block, besides a matrix each, where data parallel */
    bool chunk;                /* of those of consecutive blocks, likewise; of any size (GAL_CHUNK_ELEMENTS_MOST) */
    uint32_t offload_left_out; /* of these ways the last ones (planner/search/host_limit.h): of no certificate */
} gal_space;

/* What is minimised, by name and version: a change of a formula is a new name. */
#define GAL_OBJECTIVES(X)                                                                                              \
    X(GAL_OBJECTIVE_PIPELINE_SUM, "pipeline_sum_1") /* costmodel/objective.h */                                        \
    X(GAL_OBJECTIVE_FRAMEWORK, "framework_1")       /* costmodel/framework.h, over plans of one strategy */

#define X(enumerator, name) enumerator,
typedef enum gal_objective { GAL_OBJECTIVES(X) GAL_OBJECTIVE_COUNT } gal_objective;
#undef X

/* A limit of the host's memory that lower_bound_seconds is about, and the price of a byte there by which it is proved
 * (costmodel/price_charged.c). */
typedef struct gal_host_charge {
    uint64_t host_memory_bytes; /* of a device; 0: the bound is of plans that take any */
    double seconds_per_byte;    /* > 0 with a limit */
    bool storage;               /* it is of plans with moments on storage, too, in any shares */
    bool masters;               /* with storage: and with masters there */
    bool weights;               /* with storage: and with half or all of a block's weights there */
    bool activations;           /* with storage: and with half or all of what a block keeps there */
} gal_host_charge;

/* What a search has looked through, for its lower bound to be proved again: every plan of the plan's batch and schedule
 * whose numbers are on these lists. */
typedef struct gal_certificate {
    bool present;
    gal_objective objective; /* GAL_OBJECTIVE_FRAMEWORK if and only if the plan has a pricing */
    uint64_t memory_bytes;   /* per device, with the profile's fixed bytes; less what a risk keeps free */
    gal_space space;
    gal_u32_list microbatch_counts, pp_degrees;
    double searched_bound_seconds; /* what the search closed beyond lower_bound_seconds, by means that nobody repeats,
                                    * with storage of plans whose ring fits at its most (planner/search/host_joint.h);
                                    * 0: nothing */
    gal_host_charge host;
} gal_certificate;

/* A plan that was searched for at a quantile of what its seconds may be (`galplan search --risk`): objective_seconds
 * and its bound are at that quantile; simulated_seconds is not. */
typedef struct gal_risk {
    bool present;
    double quantile;         /* GAL_RISK_MIN to GAL_RISK_MAX */
    double quantile_seconds; /* of a step: what simulated_seconds, or the framework's seconds, are at it */
    uint64_t memory_bytes;   /* per device: what there is */
    double memory_chance;    /* that a device needs more; at most 1 - quantile */
} gal_risk;

#define GAL_RISK_MIN 0.5
#define GAL_RISK_MAX 0.999

/* A plan by the prices of a described framework: objective_seconds is by them, as is what fits. simulated_seconds and
 * the bytes of the stages stay those of its programs, which galrun carries out. */
typedef struct gal_pricing {
    bool present;
    gal_framework framework;
    gal_constants constants; /* row_count 0: nothing was fitted */
    uint64_t bytes;          /* of the fullest device, as the framework lays them out */
} gal_pricing;

typedef struct gal_plan {
    gal_model model;
    gal_cluster cluster;
    char profile_hash[GAL_HASH_BYTES]; /* "" : no profile */
    uint32_t global_batch_samples;
    uint32_t microbatch_count;
    uint32_t pp_degree;
    gal_schedule schedule;
    uint32_t prefetch_depth;     /* 1: gathers wait for the previous use, 2: one gather, or step, runs ahead */
    uint32_t communication_ctas; /* thread blocks, so multiprocessors, that one collective or transfer takes of a GPU;
                                  * 0: the library's choice. Nothing to ranks on the host */
    uint32_t storage_part_bytes; /* of a moment on storage, that are read, updated and written at a time at most, of its
                                  * master and weights there as many elements, which are read for use so, too; larger
                                  * where a unit would be more than 256 parts; a multiple of GAL_STORAGE_BLOCK_BYTES,
                                  * with weights of 16 bits there at least two; 0: GAL_STORAGE_PART_BYTES */
    bool gradient_reuses_parameter; /* gradients lie where their weights were (Colossal-AI, Figure 10): beside masters,
                                     * so with one backward per step */
    uint32_t chunk_count;  /* v >= 2, only with GAL_SCHEDULE_INTERLEAVED; else 0 or 1, and a piece is a stage */
    uint32_t stage_count;  /* = pp_degree */
    gal_plan_stage *stage; /* owned; [gal_plan_piece_count()]: the pieces in the order of the chain */
    uint32_t run_count;
    gal_plan_run *run;        /* owned; in block order */
    uint64_t fixed_bytes;     /* per device, from the profile: context, communicators */
    double objective_seconds; /* what the search minimised; 0: not known */
    double simulated_seconds;
    double simulated_low_seconds, simulated_high_seconds; /* its 90 % interval (costmodel/prediction.h); 0: not known */
    double lower_bound_seconds; /* of the objective, over what the certificate names; 0: not known */
    gal_certificate certificate;
    gal_risk risk;
    gal_pricing pricing;
} gal_plan;

/* As gal_document_read (with gal_plan_check) and gal_document_write. gal_plan_free releases what read or copy gave. */
gal_code gal_plan_read(const char *path, gal_plan *out, gal_error *err);
gal_code gal_plan_write(const char *path, const gal_plan *plan, gal_error *err);
void gal_plan_free(gal_plan *plan); /* the arrays and the fields; accepts a zeroed plan */

/* Copies the arrays too. GAL_ERR_SYSTEM without memory. */
gal_code gal_plan_copy(const gal_plan *from, gal_plan *out, gal_error *err);

uint32_t gal_plan_stage_devices(const gal_plan *plan); /* D */
uint32_t gal_plan_microbatch_samples(const gal_plan *plan);
uint32_t gal_plan_chunk_count(const gal_plan *plan); /* v: pieces of a stage, 1 unless interleaved */
uint32_t gal_plan_piece_count(const gal_plan *plan); /* stage_count * v */
uint32_t gal_plan_stage_block_count(const gal_plan *plan, uint32_t piece);
uint32_t gal_plan_stage_first_block(const gal_plan *plan, uint32_t piece);
const gal_strategy *gal_plan_block_strategy(const gal_plan *plan, uint32_t block);
bool gal_plan_stores_activations(const gal_plan *plan); /* some block has a share of them on storage */
bool gal_plan_stores(const gal_plan *plan); /* some block has a part of the optimizer or of activations on storage */
uint32_t gal_strategy_degree(const gal_strategy *strategy, gal_axis_kind kind); /* 1 if the axis is absent */
/* Of the axis that splits the positions everywhere; 1 without one. A strategy has at most one. */
uint32_t gal_strategy_sequence_degree(const gal_strategy *strategy);
static inline bool gal_axis_splits_positions(gal_axis_kind kind)
{
    return kind == GAL_AXIS_ULYSSES || kind == GAL_AXIS_RING || kind == GAL_AXIS_ZIGZAG;
}
/* That axis; GAL_AXIS_ULYSSES without one. */
gal_axis_kind gal_strategy_sequence_axis(const gal_strategy *strategy);
/* Of the axis that passes keys and values round, in order or zig-zag; 1 without one. */
uint32_t gal_strategy_ring_degree(const gal_strategy *strategy);
/* Devices that share the states: those of the axes that zero_stage shards over; 1 where it is 0. */
uint32_t gal_strategy_shards(const gal_strategy *strategy);
/* The side of the TP axis's grid: q, or l; 1 in mode 1d. 0: its degree is no such grid. */
uint32_t gal_strategy_grid_side(const gal_strategy *strategy);
/* Into how many parts the heads, the FFN and the vocabulary of a block are divided: tp degree in mode 1d, q, l. */
uint32_t gal_strategy_feature_parts(const gal_strategy *strategy);
static inline bool gal_strategy_offloads(const gal_strategy *strategy)
{
    return strategy->offload_optimizer_percent > 0 || strategy->offload_activations_percent > 0;
}
/* The same with all of it on the device. */
gal_strategy gal_strategy_on_device(const gal_strategy *strategy);
/* Into how many parts the samples of a microbatch are: DP, SDP and what a grid adds, q, depth q, l^2. */
uint32_t gal_strategy_sample_parts(const gal_strategy *strategy);
bool gal_strategy_equal(const gal_strategy *a, const gal_strategy *b);
/* Equal axes (with mode and depth), zero_stage and places of parameters and optimizer: every device holds the same part
 * of them. Sequence parallelism, recompute, overlap and where activations lie may differ. */
bool gal_strategy_same_shards(const gal_strategy *a, const gal_strategy *b);

/* The overlap that a block of this kind has under the strategy: none where it has no such collectives. */
gal_overlap gal_strategy_overlap_of(const gal_strategy *strategy, gal_block_kind kind);
/* Whether blocks of this kind work on two sub-batches under the strategy. */
bool gal_strategy_halves(const gal_strategy *strategy, gal_block_kind kind);

/* Whether a chunk may have weights of blocks of this kind. */
static inline bool gal_block_joins_chunks(gal_block_kind kind)
{
    return kind == GAL_BLOCK_ATTENTION || kind == GAL_BLOCK_CROSS_ATTENTION || kind == GAL_BLOCK_FFN ||
           kind == GAL_BLOCK_MERGE;
}

/* Room for the name of any legal strategy: four axes, of ten digits in all, take 33 letters, the rest 44 at most. */
enum { GAL_STRATEGY_NAME_BYTES = 96 };
/* A short name, innermost axis first: "tp2.sp-dp2", "sdp4.z3-ckpt", "tp4-dp2-ckpt-fine", "tp4.2d", "tp8.2.5d.d2",
 * "tp8.3d.keepw.z2", "ulysses2-dp2", "ulysses4.z3", "serial", "sdp2.z1-off50", "tp2-off100w50" (half of its weights
 * too), "dp2-off50a75s25" (three quarters of what forward keeps, one of them on storage), "dp2-off100s50m" (half of its
 * moments on storage, and their masters), "dp2-off100s100w100s50" (half of its weights too), "sdp4.z3-chunk". The stage
 * of ZeRO stands at the SDP axis, without one at that of the positions. buffer holds GAL_STRATEGY_NAME_BYTES. */
const char *gal_strategy_name(const gal_strategy *strategy, char *buffer);

#endif
