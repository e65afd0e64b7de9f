/* What is worth measuring: the kernels and collectives of the programs that a search over these ranks may choose, with
 * the share of a step's time that each is expected to take. For the profiler alone.
 *
 * Programs: every number of stages that divides the ranks; every strategy of schemas/plan.h, alike on all blocks; for
 * the conversions two neighbours of every two layouts; and on processors one of every layout with offload. Equal inputs
 * give the same list in the same order, so ranks need not exchange it. */
#ifndef GAL_PROFILER_CANDIDATES_H
#define GAL_PROFILER_CANDIDATES_H

#include "profiler/topology.h"
#include "runtime/ops/ops.h"
#include "runtime/program/program.h"

enum { GAL_BATCHES_MAX = 64 };

/* One kernel by shape, with what its call needs besides: from the first program that has it. */
typedef struct gal_candidate_operator {
    gal_shape shape;
    const gal_model *model;
    uint32_t block;
    uint32_t group_count;
    uint32_t operand_count;
    uint64_t operand_bytes[GAL_KERNEL_OPERANDS_MAX];
    uint8_t access[GAL_KERNEL_OPERANDS_MAX]; /* gal_access */
    bool cold[GAL_KERNEL_OPERANDS_MAX];      /* weights, gradients, moments, what forward has kept: used long ago */
    double expected_seconds;                 /* a guess, for the order of measuring */
    double share;                            /* of a step, mean over the programs */
} gal_candidate_operator;

/* A way to part the world in groups: stages of device_count ranks, and in each the groups of `group`; NEXT: neighbours
 * in the pipeline, stage 2i with 2i + 1; WORLD: all; TIED: stages whose distance is that of the first and the last. */
typedef struct gal_candidate_place {
    uint32_t device_count;
    gal_group group;
} gal_candidate_place;

/* One collective by (op, level_counts, bytes). */
typedef struct gal_candidate_collective {
    gal_shape shape; /* dims[0]: elements; op is never receive */
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    uint64_t bytes;
    uint32_t place; /* into gal_candidates.place */
    gal_stream stream;
    double expected_seconds;
    double share;
} gal_candidate_collective;

typedef struct gal_candidates {
    uint32_t operator_count;
    gal_candidate_operator *operators; /* owned; by falling share */
    uint32_t collective_count;
    gal_candidate_collective *collectives; /* owned; by falling share */
    uint32_t place_count;
    gal_candidate_place *place; /* owned */
    uint32_t samples_max;       /* of a microbatch */
} gal_candidates;

typedef struct gal_candidate_settings {
    const gal_model *model; /* [model_count]; of one dtype */
    uint32_t model_count;
    uint32_t rank_count;
    const gal_cluster *cluster; /* its levels */
    const uint32_t *batch;      /* samples; none: each model's own */
    uint32_t batch_count;
    const uint32_t *microbatches; /* counts; those that do not divide a batch are left out */
    uint32_t microbatches_count;
} gal_candidate_settings;

/* GAL_ERR_SYSTEM without memory; GAL_ERR_USAGE if no program is legal. */
gal_code gal_candidates_list(const gal_candidate_settings *settings, gal_candidates *out, gal_error *err);
void gal_candidates_free(gal_candidates *candidates); /* the arrays; accepts a zeroed one */

/* The world ranks of this rank's group, ascending, into ranks[rank_count]; returns their count, 0 if it is in none. */
uint32_t gal_candidate_members(const gal_candidate_place *place, uint32_t rank_count, uint32_t rank, uint32_t *ranks);

#endif
