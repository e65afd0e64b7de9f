/* The program of a stage: what all its devices do in a step, lowered once and read by everybody.
 *
 * A program holds typed instructions over statically placed buffers on named streams with derived waits. All devices
 * of a stage share it; a rank enters only through its digits (operand views, group indices, layouts).
 *   fragments   lists of instructions, run per microbatch; a schedule is a list of calls (fragment, microbatch)
 *   chunks      the pieces of the chain of blocks that the stage holds; each has fragments of its own
 *   buffers     belong to classes, arenas of equal items; the item of a call is microbatch mod count, never stored
 *   waits       derived by one pass (waits.c): the list order alone says what reads what was written
 *   bytes       a property of the program (place.c)
 * Memory: everything is owned by the program and read-only for its readers. Same plan, same program. */
#ifndef GAL_RUNTIME_PROGRAM_PROGRAM_H
#define GAL_RUNTIME_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/program/atoms.h"
#include "schemas/base/status.h"
#include "schemas/operator.h"
#include "schemas/plan.h"

enum {
    GAL_ALIGNMENT_BYTES = 256,
    GAL_INSTRUCTION_OPERANDS_MAX = 8,
    GAL_SEGMENT_BUFFERS_MAX = 128,
    GAL_PARAMETER_NAME_BYTES = 96
};

/* What a buffer of so many bytes takes. */
static inline uint64_t gal_align(uint64_t bytes)
{
    return (bytes + GAL_ALIGNMENT_BYTES - 1) / GAL_ALIGNMENT_BYTES * GAL_ALIGNMENT_BYTES;
}
#define GAL_NO_BUFFER UINT32_MAX

/* X(enumerator, name). Each stream is an in-order queue; issue order of a fragment's list is the order of every
 * stream. One stream per direction of p2p: with fewer, 1F1B can deadlock. Copies to and from the host's memory have a
 * stream for each direction, and what the host itself computes has one; so have reads from storage and writes to it. */
#define GAL_STREAMS(X)                                                                                                 \
    X(GAL_STREAM_COMPUTE, "compute")                                                                                   \
    X(GAL_STREAM_TENSOR, "tensor")                                                                                     \
    X(GAL_STREAM_GATHER, "gather")                                                                                     \
    X(GAL_STREAM_REDUCE, "reduce")                                                                                     \
    X(GAL_STREAM_SEND_FORWARD, "send_f")                                                                               \
    X(GAL_STREAM_RECEIVE_FORWARD, "recv_f")                                                                            \
    X(GAL_STREAM_SEND_BACKWARD, "send_b")                                                                              \
    X(GAL_STREAM_RECEIVE_BACKWARD, "recv_b")                                                                           \
    X(GAL_STREAM_HOST_OUT, "host_out")                                                                                 \
    X(GAL_STREAM_HOST, "host")                                                                                         \
    X(GAL_STREAM_HOST_IN, "host_in")                                                                                   \
    X(GAL_STREAM_STORAGE_IN, "storage_in")                                                                             \
    X(GAL_STREAM_STORAGE_OUT, "storage_out")

/* Arenas and the number of their items. k = microbatches in flight: how many the chunk has between forward and
 * the last part of backward at most, w = between the two parts, found by playing the schedule (schedule.h). The classes
 * from saved to dx_out are there once per chunk, the others are shared by the chunks. */
#define GAL_CLASSES(X)                                                                                                 \
    X(GAL_CLASS_STATE, "state")           /* 1  weights, masters, moments, loss, norm */                               \
    X(GAL_CLASS_GRADIENT, "gradient")     /* 1 */                                                                      \
    X(GAL_CLASS_SAVED, "saved")           /* k  kept from forward to backward */                                       \
    X(GAL_CLASS_KEPT, "kept")             /* w  from the input part of backward to the weight part */                  \
    X(GAL_CLASS_X_IN, "x_in")             /* min(m, k + 1), or min(m, 2) where backward does not read it */            \
    X(GAL_CLASS_CARRIED, "carried")       /* min(m, k + 1)  the carried tensor as received, where blocks read it so */ \
    X(GAL_CLASS_Y_OUT, "y_out")           /* min(m, 2); also carried tensors that no block reads as they are */        \
    X(GAL_CLASS_DY_IN, "dy_in")           /* min(m, 2), or min(m, w + 1) where the weight part reads it */             \
    X(GAL_CLASS_DX_OUT, "dx_out")         /* min(m, 2) */                                                              \
    X(GAL_CLASS_HOST_SAVED, "host_saved") /* k  in the host's memory: what is kept there from forward to backward */   \
    X(GAL_CLASS_STORAGE_SAVED, "storage_saved") /* k  in a file, likewise; whole blocks */                             \
    X(GAL_CLASS_BOUNDARY, "boundary")           /* 1  dx between blocks: a ring of two buffers */                      \
    X(GAL_CLASS_DCARRIED, "dcarried") /* 1  the carried tensor's gradient, where it is neither received nor sent */    \
    X(GAL_CLASS_RELAYOUT, "relayout") /* 1  between the steps of a conversion */                                       \
    X(GAL_CLASS_CARRIED_RELAYOUT, "carried_relayout") /* 1  likewise of the carried tensor */                          \
    X(GAL_CLASS_GATHERED, "gathered") /* 1  ZeRO-3 weights, those copied in: a ring of prefetch_depth buffers; rows    \
                                       *    for weight parts: a ring of two */                                         \
    X(GAL_CLASS_BUCKET, "bucket")     /* 1  ZeRO-2/3 gradients before the scatter: a ring of two */                    \
    X(GAL_CLASS_SCRATCH, "scratch")   /* 1  after the scatter */                                                       \
    X(GAL_CLASS_STAGED, "staged")     /* 1  of what is kept there: on its way, rings of two */                         \
    X(GAL_CLASS_WORK, "work")         /* 1  placed per block, forward and backward apart */                            \
    X(GAL_CLASS_HOST, "host")         /* 1  in the host's memory: what the optimizer keeps of units whose update is    \
                                       *    there, their gradients and the norm as it reads them */                    \
    X(GAL_CLASS_STORED, "stored")     /* 1  in the host's memory: of what is on storage the parts that are on their    \
                                       *    way, a ring of three; whole blocks of storage, and at their addresses */   \
    X(GAL_CLASS_STORED_SAVED, "stored_saved") /* 1  likewise: of storage_saved the values that are on their way */     \
    X(GAL_CLASS_STORAGE, "storage") /* 1  in a file: moments, and where the plan says so masters and weights, of       \
                                     *    units whose update is on the host; whole blocks */

/* X(enumerator, name) */
#define GAL_FRAGMENTS(X)                                                                                               \
    X(GAL_FRAGMENT_FORWARD, "forward")                                                                                 \
    X(GAL_FRAGMENT_BACKWARD, "backward")           /* split: its input part, of every microbatch */                    \
    X(GAL_FRAGMENT_BACKWARD_SYNC, "backward+sync") /* of the last microbatch */                                        \
    X(GAL_FRAGMENT_UPDATE, "update")                                                                                   \
    X(GAL_FRAGMENT_EVALUATE, "evaluate")         /* forward without dropout, head and loss */                          \
    X(GAL_FRAGMENT_EVALUATE_END, "evaluate_end") /* loss to every rank */                                              \
    X(GAL_FRAGMENT_WEIGHT, "weight")             /* split: the weight part of backward */                              \
    X(GAL_FRAGMENT_WEIGHT_SYNC, "weight+sync")   /* of the last microbatch */

/* Of what is on storage one part is read while the one before it is updated and the one before that is written: of both
 * moments, and of the master and the weights where those are there too. */
enum {
    GAL_STORED_RING = 3,
    GAL_STORED_MOMENTS = 2,
    GAL_STORED_MASTER = GAL_STORED_MOMENTS,
    GAL_STORED_WEIGHT,
    GAL_STORED_KINDS
};

/* Chunks of a stage at most. */
enum { GAL_CHUNKS_MAX = GAL_PLAN_CHUNKS_MAX };

#define X(enumerator, name) enumerator,
typedef enum gal_stream { GAL_STREAMS(X) GAL_STREAM_COUNT } gal_stream;
typedef enum gal_class { GAL_CLASSES(X) GAL_CLASS_COUNT } gal_class;
typedef enum gal_fragment_kind { GAL_FRAGMENTS(X) GAL_FRAGMENT_COUNT } gal_fragment_kind;
#undef X

extern const char *const gal_stream_names[GAL_STREAM_COUNT];
extern const char *const gal_class_names[GAL_CLASS_COUNT];
extern const char *const gal_fragment_names[GAL_FRAGMENT_COUNT];

/* The fragments of a program are numbered chunk by chunk, kind by kind, so those of chunk 0 have their kinds as
 * numbers; update and evaluate_end, which are of the stage, are there. Arenas: the classes of chunk 0, then those that
 * every further chunk has for itself. */
enum {
    GAL_CHUNK_CLASSES = GAL_CLASS_BOUNDARY - GAL_CLASS_SAVED,
    GAL_FRAGMENTS_MAX = GAL_FRAGMENT_COUNT * GAL_CHUNKS_MAX,
    GAL_ARENAS_MAX = GAL_CLASS_COUNT + GAL_CHUNK_CLASSES * (GAL_CHUNKS_MAX - 1)
};

/* Where the arenas of a class lie. Their offsets count on from one to the next. */
typedef enum gal_medium { GAL_MEDIUM_DEVICE, GAL_MEDIUM_HOST, GAL_MEDIUM_STORAGE, GAL_MEDIUM_COUNT } gal_medium;

static inline gal_medium gal_class_medium(gal_class class)
{
    const bool stored = class == GAL_CLASS_STORAGE || class == GAL_CLASS_STORAGE_SAVED;
    const bool on_host = class == GAL_CLASS_HOST || class == GAL_CLASS_HOST_SAVED || class == GAL_CLASS_STORED ||
                         class == GAL_CLASS_STORED_SAVED;
    return stored ? GAL_MEDIUM_STORAGE : on_host ? GAL_MEDIUM_HOST : GAL_MEDIUM_DEVICE;
}

/* Whether buffers of the class are whole blocks of storage, at addresses of such: they are read or written as such. */
static inline bool gal_class_in_blocks(gal_class class)
{
    return gal_class_medium(class) == GAL_MEDIUM_STORAGE || class == GAL_CLASS_STORED ||
           class == GAL_CLASS_STORED_SAVED;
}

/* What a buffer of so many bytes takes in its class. */
static inline uint64_t gal_align_in(gal_class class, uint64_t bytes)
{
    return gal_class_in_blocks(class)
               ? (bytes + GAL_STORAGE_BLOCK_BYTES - 1) / GAL_STORAGE_BLOCK_BYTES * GAL_STORAGE_BLOCK_BYTES
               : gal_align(bytes);
}

static inline uint32_t gal_fragment_number(gal_fragment_kind kind, uint32_t chunk)
{
    return chunk * GAL_FRAGMENT_COUNT + (uint32_t)kind;
}

static inline gal_fragment_kind gal_fragment_kind_of(uint32_t fragment)
{
    return (gal_fragment_kind)(fragment % GAL_FRAGMENT_COUNT);
}

static inline uint32_t gal_fragment_chunk(uint32_t fragment)
{
    return fragment / GAL_FRAGMENT_COUNT;
}

static inline uint32_t gal_arena_number(gal_class class, uint32_t chunk)
{
    const bool shared = class < GAL_CLASS_SAVED || class >= GAL_CLASS_BOUNDARY || chunk == 0;
    return shared ? (uint32_t) class : GAL_CLASS_COUNT + (chunk - 1) * GAL_CHUNK_CLASSES + class - GAL_CLASS_SAVED;
}

static inline gal_class gal_arena_class(uint32_t arena)
{
    return (gal_class)(arena < GAL_CLASS_COUNT ? arena
                                               : GAL_CLASS_SAVED + (arena - GAL_CLASS_COUNT) % GAL_CHUNK_CLASSES);
}

static inline uint32_t gal_arena_chunk(uint32_t arena)
{
    return arena < GAL_CLASS_COUNT ? 0 : 1 + (arena - GAL_CLASS_COUNT) / GAL_CHUNK_CLASSES;
}

typedef enum gal_access {
    GAL_READ,
    GAL_WRITE,
    GAL_UPDATE,    /* reads and writes */
    GAL_ACCUMULATE /* writes in a call of microbatch 0, updates afterwards; on the gradient and loss buffers only */
} gal_access;

/* Address = base of the buffer's arena + (microbatch mod count) * item_bytes + buffer offset + offset_bytes
 *           + gal_group_index(view, device) * view_stride_bytes; `bytes` from there on are accessed. */
typedef struct gal_operand {
    uint32_t buffer;
    uint8_t access; /* gal_access */
    gal_group view; /* GAL_GROUP_NONE: no view */
    uint64_t offset_bytes;
    uint64_t view_stride_bytes;
    uint64_t bytes;
} gal_operand;

typedef struct gal_buffer {
    uint8_t class;      /* gal_class */
    uint16_t arena;     /* into gal_program.arena: gal_arena_number(class, its chunk) */
    uint32_t block;     /* index of the block within the stage, or GAL_NO_BUFFER for rings and state of the stage */
    const char *name;   /* static string */
    uint64_t bytes;     /* as accessed, unaligned */
    uint64_t cut_bytes; /* accesses to different parts of so many bytes are apart: waits.c; 0: it is one */
    uint64_t offset;    /* in the item; a multiple of GAL_ALIGNMENT_BYTES */
} gal_buffer;

/* A run of instructions whose work buffers are placed together from offset 0: a block's forward or backward. */
typedef struct gal_segment {
    uint32_t first, count; /* instructions */
    uint32_t fragment;
    uint32_t halved_block; /* of a block that works on two sub-batches, beside its neighbours: those of its instructions
                            * that are among these; GAL_NO_BUFFER: all. Neighbours' work lies apart (place.c) */
} gal_segment;

/* A work buffer's life: what waits guarantee, in compute instructions of its fragment and the gaps between them
 * (lives.c). Buffers of one segment whose lives do not meet may share bytes. */
typedef struct gal_life {
    uint32_t buffer, segment;
    uint32_t born, dead;
} gal_life;

typedef enum gal_wait_kind {
    GAL_WAIT_INSTRUCTION, /* target = number of an instruction in the same fragment, of another stream */
    GAL_WAIT_BUFFER,      /* target = buffer: the latest access of `stream` to the same item in an earlier call */
    GAL_WAIT_CALL         /* everything that `stream` was given in earlier calls */
} gal_wait_kind;

typedef struct gal_wait {
    uint8_t kind;   /* gal_wait_kind */
    uint8_t stream; /* who is waited for */
    uint32_t target;
} gal_wait;

typedef struct gal_instruction {
    uint8_t op;     /* gal_op */
    uint8_t stream; /* gal_stream */
    uint8_t operand_count;
    uint8_t only_last; /* of the backward (split: weight) list: only with sync */
    uint8_t sub_batch; /* 1, 2: of a block that works on two; 0: of whole microbatches */
    uint8_t repeats;   /* what forward made, for nobody: recompute that runs all of it again */
    uint16_t wait_count;
    uint16_t layout;        /* into gal_program.layout: rows of the op that needs global indices; 0: none needed */
    uint32_t block;         /* model block */
    gal_group group;        /* collectives: the members; kernels: where this rank's features or range lie */
    gal_group within;       /* kernels of attention: its part is cut again, over these; else none */
    uint32_t shape;         /* into gal_program.shape */
    uint32_t first_operand; /* into gal_program.operand */
    uint32_t first_wait;    /* into gal_program.wait */
    uint64_t bytes;         /* collectives: the whole message buffer of one rank: all_reduce, all_to_all, send,
                             * mirror, receive the buffer; all_gather, reduce_scatter group size * shard. Kernels: 0 */
    const char *name;       /* "qkv", "reduce o", "d ffn2": static string */
} gal_instruction;

typedef struct gal_fragment {
    uint32_t first, count; /* into gal_program.instruction */
} gal_fragment;

/* Stages that hold a shared tensor, as ascending ranges [first, end) with a gap between any two. A T5 whose stages take
 * turns at attention and FFN has one for every second stage. */
enum { GAL_STAGE_RANGES_MAX = 128 };
typedef struct gal_stage_set {
    uint32_t range_count;
    struct {
        uint32_t first, end;
    } range[GAL_STAGE_RANGES_MAX];
} gal_stage_set;

bool gal_stage_set_has(const gal_stage_set *set, uint32_t stage);
uint32_t gal_stage_set_count(const gal_stage_set *set);

typedef struct gal_class_arena {
    uint32_t count;      /* items */
    uint64_t item_bytes; /* multiple of GAL_ALIGNMENT_BYTES; 0: class not used */
    uint64_t offset;     /* of item 0 in the rank's arena */
} gal_class_arena;

typedef struct gal_call {
    uint16_t fragment; /* number: of a kind and a chunk */
    uint32_t microbatch;
} gal_call;

/* Parameters that are sharded, gathered and synchronised together, flat, padded with zeros to a multiple of the ZeRO
 * group: of one block, or a chunk of several (gal_strategy.shard_unit). Norms and row biases of a block form a unit
 * that is never sharded by ZeRO (it would save bytes of order `hidden` and cost two latencies). */
typedef struct gal_unit {
    uint32_t block, last_block; /* within the stage; the same but of a chunk */
    uint32_t model_block;       /* the first of them in the model; they follow each other there too */
    const char *name;
    uint64_t used_elements;  /* sum of its tensors on this rank's TP shard */
    uint64_t elements;       /* padded */
    uint64_t shard_elements; /* of them, on each rank of zero_group */
    uint64_t decay_elements; /* the first ones decay */
    uint32_t zero_stage;     /* as applied to this unit */
    gal_group zero_group;    /* sdp atoms if zero_stage > 0 */
    gal_group sync_group;    /* atoms over which the local gradient is a partial sum, zero_group included */
    gal_group split_group;   /* all atoms over which its tensors are split, alike all of them: tp, row and column */
    uint32_t replicas;       /* ranks that hold the same synchronised gradient element (other stages included) */
    gal_group copies;        /* the relation over the stages that hold a copy; GAL_GROUP_NONE: this stage alone */
    uint32_t weight, first_moment, second_moment, gradient; /* buffers; weight and gradient whole or shard by stage */
    uint32_t master; /* of programs of 16 bits, and where reuses: buffer of the wide weights, a shard as the moments;
                      * weight is it rounded. Else GAL_NO_BUFFER */
    bool reuses;     /* gradient is weight: from backward to update the buffer has the gradient, rounded likewise */
    uint32_t host_weight, host_gradient; /* of a unit that is updated on the host: its moments and master are of class
                                          * host, or the moments, or all three, of class storage; and on the host,
                                          * shards as they are, the weights, which are copied to `weight` when they
                                          * are new, and the gradient. Else GAL_NO_BUFFER. Where the
                                          * weights are on the host alone, host_weight is `weight`, of class host, and
                                          * is copied in before each use; or of class storage, and is read before */
} gal_unit;

/* The buffers that a unit keeps from step to step: weight, moments and, where there are such, master and host_weight.
 * Returns their count. */
enum { GAL_UNIT_KEPT_MAX = 5 };
uint32_t gal_unit_kept(const gal_unit *unit, uint32_t buffers[GAL_UNIT_KEPT_MAX]);

/* One tensor of the model, and where this rank's part of it is. The global tensor is [outer][split][inner]
 * (row-major); a rank holds the index-th contiguous chunk of each dimension over a group of its own (the tensors of a
 * grid are split twice; `outer` is then a number of rows that its group divides). Its elements lie at offset_elements
 * of the unit, which ZeRO cuts in equal ranges by index over zero_group. */
typedef enum gal_initial {
    GAL_INITIAL_ZERO,
    GAL_INITIAL_ONE,
    GAL_INITIAL_NORMAL,
    GAL_INITIAL_NORMAL_RESIDUAL
} gal_initial;
typedef struct gal_parameter {
    char name[GAL_PARAMETER_NAME_BYTES]; /* the public name: "h.0.attn.c_attn.weight" */
    uint32_t tensor;                     /* its number in the model: key of initial weights */
    uint32_t unit;
    uint64_t offset_elements;
    uint64_t outer, split, inner;
    gal_group outer_group, split_group, inner_group;
    uint64_t split_used;  /* entries of split that are real (vocabulary without padding); the rest stay zero */
    uint64_t columns;     /* of the public matrix, [elements / columns][columns]; 0: a vector */
    uint8_t leading_ones; /* dimensions of 1 in front of these in public */
    uint32_t window;      /* in public the columns are [columns / window^2][window][window]; 0: one dimension */
    gal_initial initial;  /* normal: model's deviation; residual: divided by sqrt(2 layers) */
} gal_parameter;

/* The public shape; returns its number of dimensions. */
enum { GAL_PUBLIC_DIMS_MAX = 4 };
uint32_t gal_parameter_public_shape(const gal_parameter *parameter, uint64_t dims[GAL_PUBLIC_DIMS_MAX]);

/* Entries that the arrays of a program have room for. */
typedef struct gal_program_room {
    uint32_t instruction, operand, wait, shape, buffer, layout, unit, parameter, segment, life;
} gal_program_room;

typedef struct gal_program {
    uint32_t stage, stage_count;
    gal_atoms atoms;
    uint32_t device_count; /* D */
    uint32_t microbatch_samples, microbatch_count;
    uint32_t in_flight; /* forwards without their backwards at most, over all chunks; k of a single chunk */
    gal_dtype dtype; /* of activations and of weights as kernels read them; gradients of weights, moments and sums are
                      * of gal_dtype_wide() of it */
    uint32_t chunk_count; /* v */
    bool padding;         /* samples may be shorter than the sequence: attention to all positions reads their lengths */
    bool split;           /* backward has an input part and a weight part: no backward+sync */
    uint32_t block_count, first_block;       /* of all chunks; of the first one */
    gal_stage_set holders[GAL_SHARED_COUNT]; /* of each shared tensor */
    uint32_t loss_buffer, norm_buffer; /* fp64[1] (last stage, else GAL_NO_BUFFER) and fp64[2]: sum of squares, loss */
    uint32_t host_norm_buffer;         /* the norm in the host's memory; GAL_NO_BUFFER: no unit is updated there */

    uint32_t instruction_count, operand_count, wait_count, shape_count, buffer_count, layout_count;
    gal_instruction *instruction;
    gal_operand *operand;
    gal_wait *wait;
    gal_shape *shape;
    gal_buffer *buffer;
    gal_layout *layout; /* [0] is unused */
    uint32_t unit_count, parameter_count;
    gal_unit *unit;
    gal_parameter *parameter;
    uint64_t arena_bytes;   /* bytes of this rank on its device: the end of the last class there */
    uint64_t host_bytes;    /* in the host's memory: the classes there, whose offsets begin at arena_bytes */
    uint64_t storage_bytes; /* in a file, whose offsets begin behind those */
    uint32_t call_count, evaluate_call_count;
    gal_program_room room;
    uint32_t segment_count, life_count;
    gal_segment *segment;
    gal_life *life;                           /* of work buffers, segment by segment */
    gal_call *call;                           /* one training step */
    gal_call *evaluate_call;                  /* one evaluated batch of the same shape */
    gal_fragment fragment[GAL_FRAGMENTS_MAX]; /* gal_program_fragments() of them */
    gal_class_arena arena[GAL_ARENAS_MAX];    /* gal_program_arenas() of them */
} gal_program;

/* Whether the unit's weights are on the host alone, or in a file. */
static inline bool gal_unit_is_fetched(const gal_unit *unit)
{
    return unit->host_weight != GAL_NO_BUFFER && unit->host_weight == unit->weight;
}

/* Whether its moments are in a file. */
static inline bool gal_unit_is_stored(const gal_program *program, const gal_unit *unit)
{
    return program->buffer[unit->first_moment].class == GAL_CLASS_STORAGE;
}

/* Whether its weights are in that file too. */
static inline bool gal_unit_stores_weights(const gal_program *program, const gal_unit *unit)
{
    return program->buffer[unit->weight].class == GAL_CLASS_STORAGE;
}

/* What of it is in a file: of both moments, the master and the weights the buffer, or GAL_NO_BUFFER. */
void gal_unit_in_file(const gal_program *program, const gal_unit *unit, uint32_t buffers[GAL_STORED_KINDS]);

/* Bytes of an element of one of these. */
static inline uint64_t gal_stored_item_bytes(const gal_program *program, uint32_t kind)
{
    return gal_dtype_bytes(kind == GAL_STORED_WEIGHT ? program->dtype : gal_dtype_wide(program->dtype));
}

static inline uint32_t gal_program_fragments(const gal_program *program)
{
    return program->chunk_count * GAL_FRAGMENT_COUNT;
}

static inline uint32_t gal_program_arenas(const gal_program *program)
{
    return GAL_CLASS_COUNT + (program->chunk_count - 1) * GAL_CHUNK_CLASSES;
}

/* Lowers one stage of a checked plan: instructions, waits, placement, schedule. GAL_ERR_SYSTEM without memory;
 * GAL_ERR_DOCUMENT if a tensor has more than 2^32 - 1 elements on one device. */
gal_code gal_lower(const gal_plan *plan, uint32_t stage, gal_program **out, gal_error *err);

/* Whether lowering, or a price that is made of a program, failed because a tensor is too large. Of a checked plan it is
 * the only GAL_ERR_DOCUMENT. A search leaves the strategy out and goes on with others. */
static inline bool gal_is_too_large(gal_code code)
{
    return code == GAL_ERR_DOCUMENT;
}

void gal_program_free(gal_program *program);

/* All stages; programs[plan->stage_count] is owned by the caller, each freed by gal_program_free. */
gal_code gal_lower_plan(const gal_plan *plan, gal_program **programs, gal_error *err);

/* A part of a stage: any chain of blocks, for prices and tests. */
typedef struct gal_block_spec {
    gal_block_shape shape;
    uint32_t block; /* number in the model */
    const gal_strategy *strategy;
} gal_block_spec;
gal_block_spec gal_block_spec_of(const gal_model *model, uint32_t block, const gal_strategy *strategy);

/* How much of a program is made. For prices less is enough. */
typedef enum gal_lowered {
    GAL_LOWERED_WHOLE,
    GAL_LOWERED_STEP,   /* no parameters; without a head no evaluation fragments */
    GAL_LOWERED_LISTS,  /* of that the lists alone: no waits, lives, places, calls; every instruction's shape anew */
    GAL_LOWERED_SIZES,  /* of these one of each: no plain backward, which is backward+sync less what is only_last */
    GAL_LOWERED_PASSES, /* lists of forward and backward alone: no update, no evaluation */
    GAL_LOWERED_PASSES_ONCE /* of these no plain backward either */
} gal_lowered;

/* One of the pieces that a stage holds; they follow each other P pieces apart in the chain. */
typedef struct gal_chunk_spec {
    uint32_t block_count;
    gal_layout entry_layout;   /* rows as the piece before sends them; the first one of all: gal_layout_whole */
    gal_layout carried_layout; /* the same of the carried tensor */
} gal_chunk_spec;

typedef struct gal_stage_spec {
    const gal_model *model;
    uint32_t device_count; /* D */
    uint32_t stage, stage_count;
    uint32_t microbatch_samples, microbatch_count;
    gal_schedule schedule;
    uint32_t prefetch_depth;
    uint32_t storage_part_bytes; /* as the plan's: 0: GAL_STORAGE_PART_BYTES */
    bool gradient_reuses_parameter;
    uint32_t block_count;
    const gal_block_spec *block;
    uint32_t chunk_count;        /* 0: all blocks are one chunk, entered by entry_layout ... */
    const gal_chunk_spec *chunk; /* ... else [chunk_count], of all blocks together */
    gal_layout entry_layout;     /* rows as the upstream stage sends them; stage 0: gal_layout_whole */
    gal_layout carried_layout;   /* the same of the carried tensor, where it enters the first block */
    const uint32_t
        *first_block;  /* of every piece of the chain, stage by stage and chunk by chunk, and one past the last
                        * block; NULL: the ends hold the token table and all stages the relative biases */
    bool own_entry;    /* instead: rows as the first block reaches them from whole ones */
    bool chunks_apart; /* a chunk of weights ends with its block: prices are of blocks in whatever company */
    gal_lowered lowered;
    gal_program *recycled; /* one that nobody reads any more: its memory is taken over, also on failure; or NULL */
} gal_stage_spec;

typedef struct gal_flow_layouts {
    gal_layout rows, carried;
} gal_flow_layouts;

/* In which a chain of blocks hands on its rows and the carried tensor, from entry_layout and carried_layout (chunks are
 * not read). */
void gal_layouts_after(const gal_stage_spec *spec, gal_flow_layouts *out);
gal_code gal_lower_spec(const gal_stage_spec *spec, gal_program **out, gal_error *err);

/* Waits and lives of a program of lists. GAL_ERR_SYSTEM without memory. */
gal_code gal_program_derive(gal_program *program, gal_error *err);
/* Its waits alone: all that a simulation asks for; those of the first fragment_count fragments, as they are where all
 * are derived. */
gal_code gal_program_derive_waits(gal_program *program, uint32_t fragment_count, gal_error *err);

/* What waits and lives depend on, as numbers: operators, streams, buffers and their classes, accesses. Programs of
 * equal keys have equal ones, whatever their shapes and bytes. Returns their count; writes them if key is not NULL. */
uint32_t gal_program_lists_key(const gal_program *program, uint16_t *key);
/* A copy without waits, layouts, parameters and calls, in no more memory than that takes: arena[] ends with
 * gal_program_arenas(), so the struct is not to be copied by value. NULL without memory. */
gal_program *gal_program_copy_lists(const gal_program *program);
/* Places the buffers by the lives of `like`: of itself, or of a program whose key is equal. */
void gal_place(gal_program *program, const gal_program *like);

/* The bytes of a stage in closed form (program.md section 3): equal to gal_program.arena_bytes to the byte. */
typedef struct gal_block_bytes {
    uint64_t state, gradient, saved;     /* saved includes the block's own input, unless it is the stage's x_in */
    uint64_t input;                      /* its own input x */
    uint64_t boundary, relayout;         /* its dx; the conversion in front of it */
    uint64_t gathered, bucket, scratch;  /* its largest unit in each */
    uint64_t staged_input, staged_saved; /* its own input and the rest of what leaves the device; in saved neither is */
    uint64_t work;                       /* max of forward, backward and update */
} gal_block_bytes;

/* Text of a program: arenas, fragments, schedule; the same program gives the same text. */
void gal_program_print(const gal_program *program, FILE *out);
/* One instruction on one line, without the newline, for messages. */
void gal_instruction_print(const gal_program *program, uint32_t instruction, char *line, size_t capacity);

/* The number of the fragment whose list has the instruction. */
uint32_t gal_program_fragment_of(const gal_program *program, uint32_t instruction);

/* "backward", or "backward of chunk 1" where there are several: fragment is a number. buffer holds 64 bytes. */
const char *gal_fragment_name(const gal_program *program, uint32_t fragment, char *buffer);

/* The address of an operand as an offset in the rank's arena; from arena_bytes on it is in the host's memory, behind
 * host_bytes more in its file. */
uint64_t gal_operand_offset(const gal_program *program, const gal_operand *operand, uint32_t device,
                            uint32_t microbatch);

#endif
