/* A step as the public release of Colossal-AI that the paper speaks of carried out its tensor parallelism (repository
 * hpcaitech/ColossalAI, commit 404ecbd of October 2021: colossalai/communication/collective.py,
 * colossalai/nn/layer/parallel_1d, parallel_2d and parallel_3d), told from the program of ours. It departs from ours in
 * what costs seconds:
 *
 *   every collective is issued in front of the kernel that reads it and waited for behind it (no async_op): nothing
 *       runs beside anything, so that a step takes the sum of what its instructions take alone
 *   cubes: the gradient of a product Y = X W is two products of their own (Matmul_ABT_3D, Matmul_ATB_3D), and each
 *       gathers dY: 9 collectives and 3 (l - 1) (Sx + Sw + Sy) elements, where Table I counts 6 and 2 (l - 1)
 *   cubes: a gather copies its input (clone), what arrives into a list of tensors (torch.distributed), and that list
 *       into one tensor (cat); a scatter copies its list into one buffer: of G bytes gathered 2 G + G / l are copied,
 *       of G scattered G
 *   squares: a step copies the part that it spreads (clone), and has one buffer for it
 *   1D: an all-reduce is in place
 *
 * Not told: what cudaFree of the cache costs in front of every product of a cube (empty_cache), norms of a cube put
 * together from six kernels, broadcasts of biases, and that parallel_2p5d does the same work in every depth slice.
 *
 * Figure 14 has cubes behind 1D on 8 devices of system II; here they are 9 % ahead. Bytes do not say so: of a layer 1D
 * moves 7 T h elements a device across PCIe (four all-reduces of 2 (p-1)/p), a cube, by its 9 collectives and its
 * groups (colossalai/context/process_group_initializer/initializer_3d.py: weights between neighbours, as here), 6 T h,
 * in twice as many transfers at a time. If these shared a pair's way out, cubes would take 0.62 of 1D's rate, but
 * squares too, which the paper has 21 % ahead. What is left is empty_cache: 14 a layer (4 products forward, 8 backward,
 * 2 norms), 896 a step of 12.6 s; at 1.3 ms each, with the allocations behind it, a cube is as fast as 1D. No source at
 * hand says what it took. */
#ifndef GAL_PLANNER_PUBLISHED_COLOSSAL_RELEASE_H
#define GAL_PLANNER_PUBLISHED_COLOSSAL_RELEASE_H

#include "costmodel/duration.h"

/* *seconds of a step. program: one stage, one microbatch. GAL_ERR_SYSTEM without memory. */
gal_code gal_colossal_release_seconds(const gal_program *program, const gal_durations *durations, double *seconds,
                                      gal_error *err);

#endif
