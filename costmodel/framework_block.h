/* One block of a described framework, on one device for one microbatch: what costmodel/framework.h adds up. */
#ifndef GAL_COSTMODEL_FRAMEWORK_BLOCK_H
#define GAL_COSTMODEL_FRAMEWORK_BLOCK_H

#include "costmodel/framework.h"

/* What does not depend on the block. */
typedef struct gal_framework_rates {
    const gal_framework *framework;
    const gal_model *model;
    const gal_uniform_layout *layout;
    const gal_cluster *links; /* with the constants' rates and latencies */
    double flops_per_second, bytes_per_second, gemm_half;
    double element_bytes; /* of the compute type */
} gal_framework_rates;

typedef struct gal_framework_block {
    double forward_seconds, backward_seconds; /* of kernels, without kernel_seconds; backward with what is made again */
    double forward_kernels, backward_kernels;
    double tensor_seconds; /* of TP's collectives, both directions */
    double parameters;     /* of the device, before ZeRO */
    double kept_bytes;     /* by forward, for backward */
    double again_bytes;    /* what a recompute in backward holds beside that */
    double logits;
} gal_framework_block;

/* The members at each link level of a group of `count` devices that lie `stride` apart. */
void gal_framework_level_counts(const gal_cluster *cluster, uint32_t stride, uint32_t count,
                                uint32_t level_counts[GAL_LINK_LEVELS_MAX]);

void gal_framework_block_of(const gal_framework_rates *rates, const gal_block_shape *shape, gal_framework_block *out);

#endif
