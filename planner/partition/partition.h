/* Where a chain of layers is cut into the stages of a pipeline.
 *
 * A stage with its layers has two numbers: `once` seconds, which every stage adds to a step, and `bottleneck` seconds,
 * of which the largest of all stages counts. A step takes max bottleneck_i + sum once_i (with g a microbatch's forward
 * and backward: once is g, bottleneck (m - 1) g and the update). It is minimised over all partitions: for a largest
 * bottleneck that is allowed, a dynamic program over stages and layers finds the least sum; the allowed one is swept
 * upwards from the least possible until it alone rules out a gain. Galvatron-BMW, section III-C, moves layers between
 * neighbouring stages instead; this is exact. */
#ifndef GAL_PLANNER_PARTITION_PARTITION_H
#define GAL_PLANNER_PARTITION_PARTITION_H

#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_stage_seconds {
    double once, bottleneck;
} gal_stage_seconds;

typedef struct gal_partition_problem {
    uint32_t stage_count, layer_count; /* P >= 1; at least as many layers as stages */
    /* Of a stage that has the layers [begin, end), at least one; infinite: they do not fit. More layers take no less.
     */
    gal_stage_seconds (*seconds)(void *context, uint32_t stage, uint32_t begin, uint32_t end);
    void *context;
    double falls;
} gal_partition_problem;

/* Writes the first layer of every stage, and layer_count behind the last, into cut[stage_count + 1]. *objective:
 * infinite if no partition fits, and cut is not written. GAL_ERR_SYSTEM without memory. */
gal_code gal_partition_solve(const gal_partition_problem *problem, uint32_t *cut, double *objective, gal_error *err);

#endif
