/* Figure 12 of Colossal-AI: bytes of two linear layers on system I, forward and backward of one batch, by mode of
 * tensor parallelism. For planner/published/colossal.h.
 *
 *     fig12a, fig12b              on 4 and on 8 devices, by batch
 *     fig12c-hH, fig12d-hH        on 4 and on 8 devices, of width H
 *
 * The layers are those of an FFN block whose inner width is its outer one, with its norm, activation and residual sum;
 * weights, gradients and activations of fp32 count, moments do not. The paper says neither positions nor widths nor
 * batches beyond batch 512 (section V-B2, Figure 12b: 2.5D 44 % and 3D 65 % below 1D) and width 16384 (12d: 62 % and
 * 74.2 %): here a sample has 512 positions of width 1024, and 32 samples are what widths are compared at, as in
 * Figure 9. What a host measures is compared with such bytes in tests/numerics/two_linears.c. */
#ifndef GAL_PLANNER_PUBLISHED_COLOSSAL_RANGE_H
#define GAL_PLANNER_PUBLISHED_COLOSSAL_RANGE_H

#include "planner/published/colossal.h"
#include "runtime/program/program.h"

/* Of the arena of a program that is placed, without what only an optimizer step touches. */
uint64_t gal_colossal_range_bytes(const gal_program *program);

/* The layers as a stage: a block between others, of a batch as one microbatch. block, which *spec points to: its
 * number, shape and strategy. */
void gal_colossal_range_stage(const gal_model *model, uint32_t device_count, uint32_t batch,
                              const gal_block_spec *block, gal_stage_spec *spec);

/* Gives every row; each may stop by another code than GAL_OK. GAL_ERR_SYSTEM without memory. */
gal_code gal_colossal_range(gal_code (*each)(void *context, const gal_colossal_row *row), void *context,
                            gal_error *err);

#endif
