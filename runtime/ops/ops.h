/* Operators: one table of kernels per backend and element type. schemas/operator.h says, per kind, what the dims are,
 * which operands come in which order, and what is computed; this header says how a kernel is called.
 *
 * A kernel is called with the addresses of its operands and with where this rank's part lies in the whole: nothing
 * else depends on the rank. A shape's dtype says which table; operands are as gal_operand_dtype says. Host kernels are
 * synchronous; device kernels queue on the stream and return. Kernels allocate nothing. They may read uninitialised
 * memory nowhere and write all of every w operand. */
#ifndef GAL_RUNTIME_OPS_OPS_H
#define GAL_RUNTIME_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"
#include "schemas/model.h"
#include "schemas/operator.h"

enum { GAL_KERNEL_OPERANDS_MAX = 8 };

/* What is equal for all instructions of a step. */
typedef struct gal_kernel_step {
    const gal_model *model; /* epsilon, dropout probabilities, optimizer, vocabulary */
    uint64_t seed;          /* of dropout */
    uint64_t step;          /* 0-based optimizer step; bias correction uses step + 1 */
    double learning_rate;   /* of this step */
    double loss_scale;     /* 1 / targets of the global batch that are in the loss (without padding global_batch_samples
                            * * gal_model_loss_positions): gradients are of the mean loss */
    double gradient_scale; /* of programs of fp16: gradients are multiplied by it from the loss on, until sum_squares
                            * and  adam divide by it; 0: they are not */
    bool training;         /* false: dropout off */
} gal_kernel_step;

typedef struct gal_kernel_call {
    const uint32_t *dims; /* of the shape */
    void *operand[GAL_KERNEL_OPERANDS_MAX];
    uint32_t operand_count;
    bool add;                            /* the a or u output operand: true adds to it, false writes it */
    uint32_t group_index, group_count;   /* this rank's place in the instruction's group (feature, vocabulary
                                          * or ZeRO range), its `within` included; 0 of 1 without a group */
    uint32_t within_index, within_count; /* of attention in windows: of a place in the group, this rank's place among
                                          * those that share it; 0 of 0 or 1 alone */
    const uint32_t *sample_map;          /* [samples] index in the step's global batch of each local sample, where the
                                          * operands are; NULL for kinds that do not ask */
    uint32_t position_begin;             /* global position of the first local row block */
    uint32_t block;                      /* model block: names the dropout site */
    const gal_kernel_step *step;
    /* Of tables with gal_ops.queued; else NULL and 0. */
    void *stream;    /* a queue of the device */
    void *context;   /* of the table */
    void *workspace; /* of this stream, in the device's memory: what workspace_bytes asked for, 256-byte aligned */
    uint64_t workspace_bytes;
    const void *device_step; /* in the device's memory: what put_step wrote, for this step */
} gal_kernel_call;

typedef gal_code (*gal_kernel)(const gal_kernel_call *call, gal_error *err);

/* Two calls of which the second comes directly behind the first on a stream. */
typedef struct gal_kernel_pair {
    gal_op first_op, second_op;
    const gal_kernel_call *first, *second;
    bool lone; /* only the second reads what the first writes, so that it need not be written */
} gal_kernel_pair;

/* How the kernels of a device are chosen. */
typedef struct gal_kernel_choice {
    bool deterministic;          /* the same bits in every run */
    bool tf32;                   /* products of fp32 may round their factors to 10 bits, as no other kernel does */
    uint32_t communication_ctas; /* multiprocessors that communication takes beside them; 0: none, or not known */
} gal_kernel_choice;

/* What kernels that are queued need beside their call. They read nothing of a step on the host but whether it trains:
 * a captured call must do its work in other steps too. ADAM alone decides whether to update, by the norm and the loss
 * in device memory. */
typedef struct gal_ops_queued {
    /* What kernels keep from call to call (handles, plans of libraries). One serves all tables of a device. */
    gal_code (*open)(const gal_kernel_choice *choice, void **context, gal_error *err);
    void (*close)(void *context); /* accepts NULL */
    /* Of one call, without operands: what workspace its kernel needs, the same for all microbatches. NULL: none. */
    uint64_t (*workspace_bytes)(void *context, gal_op op, const gal_kernel_call *call);
    /* Before the first step, once per instruction, with a whole call of microbatch 0: time for candidates and plans.
     * May allocate, queue work on the call's stream and wait for it, and overwrite all that the kernel writes. NULL:
     * none. */
    gal_code (*prepare)(gal_op op, const gal_kernel_call *call, gal_error *err);
    /* A pair as one kernel. fuse: which, 0: none; by the calls' dims and addresses, which are then always the same, and
     * with time for candidates as prepare. fused: queues it, on the first's stream and workspace. NULL: there are none.
     */
    gal_code (*fuse)(const gal_kernel_pair *pair, uint32_t *fusion, gal_error *err);
    gal_code (*fused)(const gal_kernel_pair *pair, uint32_t fusion, gal_error *err);
    uint64_t step_bytes; /* of device_step */
    void (*put_step)(const gal_kernel_step *step, void *record);
} gal_ops_queued;

typedef struct gal_ops {
    const char *name; /* "host", "cuda" */
    gal_dtype dtype;
    gal_kernel kernel[GAL_OP_COUNT]; /* NULL: collectives and loads, which other tables serve */
    const gal_ops_queued *queued;    /* NULL: kernels are done when they return */
} gal_ops;

extern const gal_ops gal_ops_host_fp32;
extern const gal_ops gal_ops_host_fp64;

/* What the host does beside a device in programs of 16 bits: host_adam and its part alone, on fp32 masters, of which w
 * becomes what is rounded. In programs of fp32 and fp64 it is the kernel of those tables. */
extern const gal_ops gal_ops_beside_bf16;
extern const gal_ops gal_ops_beside_fp16;

/* Dropout is a function of global indices alone, so that every layout, recompute and schedule draws the same mask.
 * Philox 4x32-10, key = seed, counter = (index / 4 as 64 bits, 2 * block + site, step), lane index % 4; an element is
 * dropped when its 32-bit lane < probability * 2^32; kept ones are scaled by 1 / (1 - probability).
 *   position, residual   site 0, index = (sample * S + position) * hidden + feature
 *   attention            site 1, index = ((sample * head_count + head) * S + query) * K + key,
 *                        K = S rounded up to a multiple of 4; within windows of a grid key is its number in the
 *                        window, K the window's positions rounded up, S and head_count are the block's
 * S is the longest sequence of the model's blocks; of one sequence its length.
 * sample is the index in the step's global batch. gal_philox takes the counter's first 64 bits, index / 4, and
 * draws four lanes. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
void gal_philox(uint64_t key, uint64_t quad, uint32_t site, uint32_t step, uint32_t lanes[4]);

/* Initial weights: the standard normal number of element `index` of global tensor `tensor` (Box-Muller on Philox;
 * a function of seed, tensor and global index only). */
double gal_initial_normal(uint64_t seed, uint32_t tensor, uint64_t index);

#endif
