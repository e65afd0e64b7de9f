/* Operators: one table of kernels per backend and element type. schemas/operator.h says, per kind, what the dims are,
 * which operands come in which order, and what is computed; this header says how a kernel is called.
 *
 * A kernel is called with the addresses of its operands and with where this rank's part lies in the whole: nothing
 * else depends on the rank. Floating-point operands are of the table's dtype unless operator.h says otherwise;
 * tokens are int32. Host kernels are synchronous; device kernels queue on the stream and return.
 * Kernels allocate nothing. They may read uninitialised memory nowhere and write all of every w operand. */
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
    double loss_scale;      /* 1 / (global_batch_samples * gal_model_loss_positions): gradients are of the mean loss */
    bool training;          /* false: dropout off */
} gal_kernel_step;

typedef struct gal_kernel_call {
    const uint32_t *dims; /* of the shape */
    void *operand[GAL_KERNEL_OPERANDS_MAX];
    uint32_t operand_count;
    bool add;                          /* the a or u output operand: true adds to it, false writes it */
    uint32_t group_index, group_count; /* this rank's place in the instruction's group (feature, vocabulary
                                        * or ZeRO range); 0 of 1 without a group */
    const uint32_t *sample_map;        /* [samples] index in the step's global batch of each local sample;
                                        * NULL for kinds that do not ask */
    uint32_t position_begin;           /* global position of the first local row block */
    uint32_t block;                    /* model block: names the dropout site */
    const gal_kernel_step *step;
    void *stream; /* device stream; NULL on the host */
} gal_kernel_call;

typedef gal_code (*gal_kernel)(const gal_kernel_call *call, gal_error *err);

typedef struct gal_ops {
    const char *name; /* "host" */
    gal_dtype dtype;
    gal_kernel kernel[GAL_OP_COUNT]; /* NULL: collectives and loads, which other tables serve */
} gal_ops;

extern const gal_ops gal_ops_host_fp32;
extern const gal_ops gal_ops_host_fp64;

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
